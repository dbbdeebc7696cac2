"""What is down now, in the answers of `what-if`: offline partitions, which broker to start, and whether to wait."""

from dataclasses import dataclass
from itertools import starmap

import numpy as np

from pipelines.ingest.merge.live_brokers import get_down_brokers, get_live_brokers, get_unknown_brokers
from pipelines.ingest.returned_brokers import find_offline
from pipelines.ingest.snapshot_reader import Snapshot
from udfs.arrow.columns import to_list_array
from udfs.arrow.ragged import RaggedLists, any_true, count_true, offsets_of, row_of
from udfs.failures.kernels.election import NO_BROKER
from udfs.failures.partition_health import BrokerStart, RecoveredFrom
from udfs.failures.replica_logs import find_failed_dir_replicas
from udfs.failures.topic_defaults import TopicDefaults


@dataclass(frozen=True)
class OfflinePartition:
    """A partition without a live leader, of a topic that counts, and who may lead it."""

    topic: str
    partition: int
    elected_from: str  # label of RecoveredFrom
    eligible_brokers: list[int]  # those that may lead without loss of messages, as far as the cluster knows
    needs_all: bool  # whether it needs all of these back, unless one of them was shut down cleanly
    needs_clean_stop: bool  # whether it only comes online if one of these was shut down cleanly
    allows_unclean: bool  # unclean.leader.election.enable
    only_in_failed_dirs: bool  # whether the eligible brokers are live, and their replicas in failed log dirs
    stopped_last: int | None  # the broker that stopped last, and has most messages; None = no source shows it

    @property
    def name(self) -> str:
        """The partition, with its eligible brokers; without any, with the one that stopped last."""
        brokers = ", ".join(map(str, self.eligible_brokers))
        if not brokers and self.stopped_last is not None:
            brokers = f"broker {self.stopped_last} stopped last"
        return f"{self.topic}-{self.partition}{f' ({brokers})' if brokers else ''}"


@dataclass(frozen=True)
class Outage:
    """What is down now; topics that are ignored or marked for deletion do not count."""

    down_brokers: list[int]
    offline: list[OfflinePartition]
    start_order: list[BrokerStart]  # of brokers that are down: those that bring partitions online


def find_outage(snapshot: Snapshot, defaults: TopicDefaults) -> Outage:
    """Find what is down, who may lead each partition without a live leader, and what brings it back."""
    offline = find_offline(snapshot, defaults)
    live = np.setdiff1d(get_live_brokers(snapshot.brokers), get_unknown_brokers(snapshot.brokers))
    recovery, keys = offline.recovery, (offline.partitions[name].to_pylist() for name in ("topic", "partition"))
    is_certain, is_together = (any_true(mask, recovery.offsets) for mask in (recovery.alone, recovery.together))
    needs_all = (count_true(recovery.together, recovery.offsets) > 1) & ~is_certain
    is_elr, is_known = recovery.recovered_from == RecoveredFrom.ELR, np.ones(len(needs_all), dtype=np.bool_)
    eligible = recovery.eligible | (recovery.together & needs_all[row_of(recovery.offsets)])
    offsets = offsets_of(count_true(eligible, recovery.offsets))
    columns = (
        [RecoveredFrom(code).label for code in recovery.recovered_from.tolist()],
        to_list_array(RaggedLists(recovery.broker[eligible], offsets, is_known)).to_pylist(),
        needs_all.tolist(),
        (is_elr & ~is_certain & ~is_together).tolist(),
        recovery.unclean.tolist(),
        recovery.needs_only(find_failed_dir_replicas(offline.partitions, live)).tolist(),
        (None if broker == NO_BROKER else broker for broker in recovery.stopped_last.tolist()),
    )
    partitions = list(starmap(OfflinePartition, zip(*keys, *columns, strict=True)))
    return Outage(get_down_brokers(snapshot.brokers).tolist(), partitions, offline.starts)


@dataclass(frozen=True)
class Exposure:
    """Partitions that are broken, and the most that the failure of one more broker would add to them."""

    offline_partitions: int
    under_min_isr_partitions: int
    under_replicated_partitions: int
    newly_offline_partitions: int
    newly_under_min_isr_partitions: int


@dataclass(frozen=True)
class CopyCost:
    """What copies take. bytes_to_copy, seconds: None = sizes are unknown."""

    replicas: int
    bytes_to_copy: int | None
    seconds: float | None  # an estimate, at the throttle


@dataclass(frozen=True)
class ReplicaMove:
    """The plan of goal repair: what it copies, and what is still broken after its first wave and after all."""

    cost: CopyCost
    waves: int
    throttle_bytes_per_s: float
    first_wave: CopyCost
    after_first_wave: Exposure
    after_all_waves: Exposure
    cost_back: CopyCost  # of moving the replicas back once the brokers return


@dataclass(frozen=True)
class WaitOrMove:
    """Both choices while brokers are down. move: None = no plan can move a replica; obstacle says why."""

    down_brokers: list[int]
    down_since_ms: dict[int, int]  # ms since 1970, of the brokers for which a source shows it
    now: Exposure
    once_returned: Exposure  # with all their replicas in sync
    move: ReplicaMove | None
    obstacle: str | None = None
