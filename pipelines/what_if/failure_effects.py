"""What the failure of brokers does: to the use of capacities of those that survive, and to partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.config.capacity_file import match_broker, match_disks, read_capacities, read_disk_capacities
from pipelines.config.owner_map import TopicOwner
from pipelines.verdict.cluster_evidence import MAX_NAMED
from pipelines.verdict.failure_causes import FailureEffects
from pipelines.verdict.risk_findings import QUANTITIES
from pipelines.verdict.snapshot_findings import PartitionFlags, count_by_topic
from udfs.arrow.columns import to_array, to_codes, to_flags, to_lists
from udfs.arrow.ragged import any_true, count_true, row_of
from udfs.failures.disk_after_failure import VOLUMES, disk_rows
from udfs.failures.disk_limits import find_disk_limits
from udfs.failures.kernels.election import NO_BROKER, Bools, ElectedFrom, Ids, PartitionGroup
from udfs.failures.kernels.failure_totals import BYTES_IN, BYTES_OUT
from udfs.failures.partition_health import find_expected
from udfs.failures.replica_logs import find_failed_dir_replicas, sum_column, sum_logs
from udfs.failures.topic_defaults import match_topics

if TYPE_CHECKING:
    from pipelines.config.setting_sections import CapacitySettings, Settings
    from pipelines.ingest.snapshot_reader import Snapshot
    from udfs.failures.failure_outcomes import SchemeAggregates, SurvivorLoads


@dataclass(frozen=True)
class DiskUse:
    """The bytes of the logs on a broker, or in one of its log dirs."""

    broker_id: int
    log_dir: str | None  # None = the broker as a whole
    size_bytes: int
    disk_bytes: float | None  # that its disks can hold, beside other files; None = unknown
    inferred_bytes: int = 0  # of size_bytes: of replicas whose log no source shows, so that the leader's size counts

    @property
    def name(self) -> str:
        """The broker, with the log dir if it is about one."""
        broker = f"broker {self.broker_id}"
        return broker if self.log_dir is None else f"log dir {self.log_dir} of {broker}"

    @property
    def is_over(self) -> bool:
        """Whether the disks can hold less."""
        return self.disk_bytes is not None and self.size_bytes > self.disk_bytes

    @property
    def used(self) -> float:
        """The part of the disks that is used; 0 where these are unknown."""
        if self.disk_bytes is None:
            return 0.0
        return self.size_bytes / self.disk_bytes if self.disk_bytes > 0 else 1.0  # full of other files


def list_disk_uses(snapshot: Snapshot, measured: Snapshot, settings: Settings) -> list[DiskUse]:
    """List the bytes of brokers, each followed by its log dirs if several are online; none where no size is known.

    Disks are those of capacity.file, else the volumes of the sources, else plans.broker_bytes.

    Args:
        snapshot: The cluster that the answer is about.
        measured: The same cluster as its sources show it: what is usable of the volumes now.
        settings: capacity.file and plans.broker_bytes.

    Raises: SettingsError if the file is wrong.
    """
    partitions = snapshot.partitions
    if partitions["size_bytes"].null_count == partitions.num_rows:
        return []
    sums, sums_now = _sum_both(snapshot, measured)
    sizes, inferred, now = sum_column(sums), sum_column(sums, "inferred_bytes"), sum_column(sums_now)
    capacities = match_disks(read_disk_capacities(settings.capacity.file), snapshot.cluster_id)
    brokers = snapshot.brokers["broker_id"].to_pylist()
    places = zip(measured.log_dirs["broker_id"].to_pylist(), measured.log_dirs["log_dir"].to_pylist(), strict=True)
    log_dirs = measured.log_dirs.append_column("used_bytes", pa.array([now[place] for place in places], pa.int64()))
    limits = find_disk_limits(brokers, log_dirs, capacities, settings.plans.broker_bytes)
    return [
        DiskUse(*place, sizes[place], limit.compute(now[place]), inferred[place]) for place, limit in limits.items()
    ]


def _sum_both(snapshot: Snapshot, measured: Snapshot) -> tuple[pa.Table, pa.Table]:
    """Sum what brokers hold (LOG_SUMS) in the cluster of the answer, and as the sources show it: often the same."""
    sums = sum_logs(snapshot.partitions, snapshot.stray_logs, snapshot.brokers)
    if snapshot is measured:
        return sums, sums
    return sums, sum_logs(measured.partitions, measured.stray_logs, measured.brokers)


def list_disk_failures(
    snapshot: Snapshot, measured: Snapshot, settings: Settings, uses: Sequence[DiskUse]
) -> list[dict[str, Any]]:
    """List, as rows of gold.disk_after_failure, what is lost with each broker, rack and log dir, and whether it fits.

    uses: those that list_disk_uses returns; where the cluster is another one than its sources show, limits are theirs.
    """
    sums, sums_now = _sum_both(snapshot, measured)
    brokers, log_dirs = snapshot.brokers.select(["broker_id", "rack", "live"]), measured.log_dirs
    capacities = match_disks(read_disk_capacities(settings.capacity.file), snapshot.cluster_id)
    if sum_column(sums) != sum_column(sums_now):
        log_dirs = log_dirs.slice(0, 0)
        capacities = {(use.broker_id, ""): use.disk_bytes for use in uses if use.log_dir is None and use.disk_bytes}
    columns = ["broker_id", *VOLUMES.names[3:]]
    volumes = brokers.join(log_dirs.select(columns), "broker_id").select(VOLUMES.names).cast(VOLUMES)
    ratio, broker_bytes = settings.capacity.max_disk_ratio, settings.plans.broker_bytes
    rows: list[dict[str, Any]] = disk_rows(sums, volumes, ratio, capacities, broker_bytes).to_pylist()
    return rows


Floats = npt.NDArray[np.float64]
RATES = {"bytes_in_per_s": BYTES_IN, "bytes_out_per_s": BYTES_OUT}


SurvivorCapacities = Mapping[int, Sequence[float]]  # by broker, for each of RATES, bytes per second; NaN = no limit


@dataclass(frozen=True)
class SurvivorLoad:
    """The survivor of a failure that comes closest to its capacity, or is over it; the busiest, if none has one."""

    quantity: str  # one of RATES
    failed: list[int]
    broker_id: int
    load: float  # bytes per second that it then leads
    capacity: float | None
    load_over_capacity_ratio: float | None

    @property
    def is_over(self) -> bool:
        """Whether it is over its capacity."""
        return self.capacity is not None and self.load > self.capacity

    @property
    def row(self) -> dict[str, Any]:
        """The same as columns of gold.over_capacity."""
        row = {name: getattr(self, name) for name in ("quantity", "broker_id", "capacity")}
        return row | {"failed_brokers": self.failed, "load_after": self.load}

    @property
    def label(self) -> str:
        """The name of the quantity in a sentence."""
        return QUANTITIES[self.quantity]


def read_survivor_capacities(snapshot: Snapshot, settings: CapacitySettings) -> SurvivorCapacities:
    """Read the capacities of brokers from capacity.file; without it, none is known.

    Raises: SettingsError if the file is wrong.
    """
    if not settings.file:
        return {}
    capacities, ids = read_capacities(settings.file), snapshot.brokers["broker_id"].to_pylist()
    rows = {broker: match_broker(capacities, snapshot.cluster_id, broker) for broker in ids}
    return {broker: [row[load] for load in RATES.values()] for broker, row in rows.items() if row}


def list_survivor_loads(
    loads: SurvivorLoads, aggregates: SchemeAggregates, capacities: SurvivorCapacities | None
) -> list[SurvivorLoad]:
    """List, for each failure and rate that is known, the survivor that comes closest to its capacity."""
    if capacities is None or not len(aggregates.ids):
        return []
    limits = np.array([capacities.get(broker, [np.nan] * len(RATES)) for broker in aggregates.ids.tolist()])
    failed = loads.outcomes.failed_brokers.to_pylist()
    survivor_loads = []
    for column, (quantity, load) in enumerate(RATES.items()):
        if not aggregates.is_known[load]:
            continue
        limit = limits[:, column]
        after = np.where(loads.survives, loads.after[:, :, load], -1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            used = np.where(limit > 0, after / limit, np.where(after > 0, np.inf, 0.0))
        used = np.where(np.isnan(limit), after.clip(0) * 1e-30, used)  # after all those with a capacity
        for scenario, broker in enumerate(np.where(loads.survives, used, -1.0).argmax(axis=1).tolist()):
            if loads.survives[scenario].any():
                transferred = float(after[scenario, broker])
                capacity = None if np.isnan(limit[broker]) else round(float(limit[broker]), 3)
                ratio = round(transferred / capacity, 4) if capacity else None
                values = (int(aggregates.ids[broker]), round(transferred, 3), capacity, ratio)
                survivor_loads.append(SurvivorLoad(quantity, failed[scenario], *values))
    return survivor_loads


def find_effects(
    partitions: pa.Table, group: PartitionGroup, fails: Bools, leader: Ids, in_sync: Ids, min_isr: Ids, live: Ids
) -> FailureEffects:
    """Find what a failure does.

    partitions: those of the group (schema INFERRED_PARTITIONS); fails: bool (r); leader, in_sync (count_in_sync): of
    the partitions after it, int32 (p); min_isr: as it is set, int32 (p); live: ids of the brokers that are known to be
    live.
    """
    goes_offline = group.counted & (group.leader != NO_BROKER) & (leader == NO_BROKER)
    is_blocked = find_blocked(group, leader, in_sync)
    in_sync_now = count_in_sync(group, np.zeros_like(fails), np.zeros_like(leader))
    is_blocked &= (group.leader == NO_BROKER) | (in_sync_now >= group.min_isr)
    is_single = np.diff(group.offsets) == 1
    broker = to_lists(partitions["replicas"]).values
    has_failed = find_failed_dir_replicas(partitions, live)
    is_down, is_expected = group.broker == NO_BROKER, find_expected(partitions, broker, group.offsets)
    lags = is_expected & ~is_down & ~group.in_isr
    masks = (is_expected & is_down & ~has_failed, has_failed, lags)
    misses_down, misses_disk, misses_live = (any_true(mask, group.offsets) for mask in masks)
    affected = goes_offline | is_blocked
    is_lagging = affected & misses_live & ~misses_down & ~misses_disk
    is_complete = is_blocked & ~misses_live & ~misses_down & ~misses_disk
    is_crowded = is_complete & (count_true(group.in_isr & ~is_down, group.offsets) > group.min_isr)
    topic, factor = to_array(partitions["topic"]), np.diff(group.offsets).astype(np.int32)
    misses_any = misses_down | misses_disk | is_lagging
    flags = PartitionFlags(
        factor, misses_down, misses_disk, np.zeros_like(misses_disk), min_isr, group.min_isr, misses_any
    )
    first = partitions.select(["topic", "partition"]).filter(pa.array(is_lagging)).slice(0, MAX_NAMED)
    return FailureEffects(
        count_by_topic(topic, goes_offline, flags),
        count_by_topic(topic, is_blocked, flags),
        without_survivor=int((goes_offline & ~is_single & ~any_true(~fails, group.offsets)).sum()),
        out_of_sync=int(is_lagging.sum()),
        out_of_sync_partitions=tuple(f"{row['topic']}-{row['partition']}" for row in first.to_pylist()),
        out_of_sync_brokers=tuple(np.unique(broker[lags & is_lagging[row_of(group.offsets)]]).tolist()),
        crowded=int(is_crowded.sum()),
        no_spare=count_by_topic(topic, is_complete & ~is_crowded, flags),
    )


def find_blocked(group: PartitionGroup, leader: Ids, in_sync: Ids) -> Bools:
    """Find the partitions that count, are online, and block producers with acks=all (p)."""
    is_blocked: Bools = group.counted & (leader != NO_BROKER) & (in_sync < group.min_isr)
    return is_blocked


def find_single_isr(group: PartitionGroup, leader: Ids, in_sync: Ids) -> Bools:
    """Find the partitions that count, are online, and have one replica in sync (p)."""
    is_single: Bools = group.counted & (leader != NO_BROKER) & (in_sync == 1)
    return is_single


def count_in_sync(group: PartitionGroup, fails: Bools, elected_from: Ids) -> Ids:
    """Count live in-sync replicas after a failure: int32 (p). A leader that was not in the ISR is the whole ISR."""
    row, left = row_of(group.offsets), group.in_isr & (group.broker != NO_BROKER) & ~fails
    count = np.bincount(row[left], minlength=len(group.leader))
    alone = (elected_from == ElectedFrom.ELR) | (elected_from == ElectedFrom.UNCLEAN)
    return np.where(alone, 1, count).astype(np.int32)


@dataclass(frozen=True)
class AffectedTopic:
    """A topic now, or after a failure: of its partitions, those with each effect; columns of gold.failure_summary."""

    topic: str
    partitions: int
    offline_partitions: int
    under_min_isr_partitions: int  # acks=all blocked
    single_isr_partitions: int
    single_replica_partitions: int  # of these, those with replication factor 1
    leaders_moved: int
    unclean_elections: int
    team: str | None = None  # of --owner-map; None = no pattern matches

    @property
    def is_affected(self) -> bool:
        """Whether something is broken, nearly broken, or moves; a partition with one replica always has one in sync."""
        is_broken = self.offline_partitions + self.under_min_isr_partitions + self.unclean_elections > 0
        return is_broken or self.leaders_moved > 0 or self.single_isr_partitions > self.single_replica_partitions


def list_affected_topics(
    topics: pa.ChunkedArray, group: PartitionGroup, leader: Ids, in_sync: Ids, elected_from: Ids
) -> list[AffectedTopic]:
    """List the affected topics, the worst first.

    topics: of the partitions of the group (p); leader, in_sync, elected_from: of the partitions in the state that is
    counted, int32 (p).
    """
    code, names = to_codes(topics)
    is_online = leader != NO_BROKER
    is_single = find_single_isr(group, leader, in_sync)
    masks: tuple[Bools, ...] = (
        np.ones(len(leader), dtype=np.bool_),
        group.counted & ~is_online,
        find_blocked(group, leader, in_sync),
        is_single,
        is_single & (np.diff(group.offsets) == 1),
        is_online & (group.leader != NO_BROKER) & (leader != group.leader),
        group.counted & (elected_from == ElectedFrom.UNCLEAN),
    )
    counts = np.stack([np.bincount(code[mask], minlength=len(names)) for mask in masks], axis=1)
    rows = (AffectedTopic(name, *row) for name, row in zip(names.to_pylist(), counts.tolist(), strict=True))
    return sorted((row for row in rows if row.is_affected), key=_rank)


def _rank(row: AffectedTopic) -> tuple[int | str, ...]:
    losses = (row.offline_partitions, row.unclean_elections, row.under_min_isr_partitions, row.single_isr_partitions)
    return (*(-count for count in losses), -row.leaders_moved, row.topic)


def name_owners(topics: Sequence[AffectedTopic], owners: Sequence[TopicOwner]) -> list[AffectedTopic]:
    """Return the topics with the team of the first pattern that matches each."""
    names = pa.array([row.topic for row in topics], pa.string())
    teams: dict[str, str] = {}
    for owner in reversed(owners):  # the first pattern is the last to be entered
        matches = to_flags(match_topics(names, [owner.pattern]))
        teams |= {topics[row].topic: owner.team for row in np.flatnonzero(matches).tolist()}
    return [replace(row, team=teams.get(row.topic)) for row in topics]
