"""The cluster model that planners start from, as flat arrays over brokers and partitions, and what they propose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.columns import to_array, to_flags, to_lists
from udfs.arrow.ragged import any_true, count_true, has_repeat, is_in_segment, offsets_of, row_of
from udfs.failures.partition_health import find_last_in_sync
from udfs.failures.replica_logs import find_failed_dir_replicas, list_known_sizes
from udfs.failures.topic_defaults import KAFKA_DEFAULTS, TopicDefaults, read_releases
from udfs.planning.broker_log_dirs import BrokerLogDirs
from udfs.planning.certificates import Certificate
from udfs.planning.kernels.array_types import Flags, Floats, Int32s, Ints
from udfs.planning.plan_request import FREE, FreezeReason
from udfs.planning.rack_naming import name_racks
from udfs.wording import join_names

__all__ = ["FREE", "Flags", "Floats", "FreezeReason", "Int32s", "Ints"]  # for those that also need the model


class ReplicaLists(Protocol):
    """Replica lists: offsets, int64 (p + 1), and replicas, int32 (r), as in ClusterModel."""

    @property
    def offsets(self) -> Ints: ...

    @property
    def replicas(self) -> Int32s: ...


@dataclass(frozen=True)
class ClusterModel:
    """One cluster: n brokers, p partitions by topic name and id, r replicas; all are referred to by index."""

    cluster_id: str
    broker_ids: Int32s  # int32 (n), ascending
    rack: Int32s  # int32 (n), index into rack_names, see name_racks; all 0 if racks are ignored
    rack_names: tuple[str, ...]  # Names of racks, ascending
    live: Flags  # bool (n)
    draining: Flags  # bool (n), brokers that the source wants to be empty
    topic_names: tuple[str, ...]  # Names of topics, ascending
    topic: Int32s  # int32 (p), index into topic_names
    partition: Int32s  # int32 (p), ids
    offsets: Ints  # int64 (p + 1), range of each partition in `replicas`
    replicas: Int32s  # int32 (r), brokers; the preferred leader first, live ones before down ones
    size: Floats  # float64 (p), bytes of one replica; 0 where not known
    rate_in: Floats  # float64 (p), bytes per second written; 0 where not known
    rate_out: Floats  # float64 (p), bytes per second read; 0 where not known
    known: tuple[bool, bool, bool]  # Whether any partition has a size, a rate in, a rate out
    frozen: npt.NDArray[np.int8]  # int8 (p), FreezeReason
    topic_min_isr: Int32s  # int32 (p), min.insync.replicas of the topic; see find_min_isr
    # int32 (r), brokers in the source's order, which may begin with a down one; None = as replicas
    source_replicas: Int32s | None = None
    leader: Int32s | None = None  # int32 (p), the current leader, -1 = none or not known; None = the first of replicas
    in_sync: Flags | None = None  # bool (r), see find_last_in_sync; None = all that are live
    counted_topics: Flags | None = None  # bool (t), whether the problems of a topic count; None = of all
    unsized_partitions: int = 0  # Partitions of unknown size, which count as 0 bytes
    unrated: Flags | None = None  # bool (p), partitions whose rates, which count as 0, are not all known; None = none
    fetching: Flags | None = None  # bool (n), consumers of what it leads fetch from their rack; None = not known
    log_dirs: BrokerLogDirs | None = None  # None = no source shows log dirs
    topic_factor: Ints | None = None  # int64 (p), of the partition's topic; None = as many replicas as it has
    caps_min_isr: bool = True  # Whether min.insync.replicas counts only up to the number of replicas
    completes_with_added: bool = True  # Whether a reassignment waits only for the replicas that it adds
    drops_at_once: bool = False  # Whether it may drop replicas while others that stay are out of sync
    adding: Flags | None = None  # bool (r), replicas that a running reassignment adds; None = none
    failed: Flags | None = None  # bool (r), replicas in failed log dirs of live brokers; None = none
    barred: Int32s | None = None  # int32 (r), a broker that may not get a replica's partition, or -1; None = all -1
    replica_size: Floats | None = None  # float64 (r), bytes of each replica, see measure_replicas; None = as `size`
    unknown: Flags | None = None  # bool (n), brokers of unknown state, which count as live; None = none
    cordoned: Flags | None = None  # bool (n), brokers that get no new replicas; None = none
    rejects_cordoned: bool = True  # Whether Kafka rejects each list that names one of them
    disk_room: Floats | None = None  # float64 (n), bytes by which the logs of a broker may grow; NaN = not known
    disk_excess: Floats | None = None  # float64 (n), bytes that all its disks hold above their limit; NaN = not known
    rollback_lists: tuple[Int32s, Ints] | None = None  # p lists, and their offsets; None = those of now
    assumed_release: int | None = None  # of Kafka, as in TopicDefaults

    @property
    def brokers(self) -> int:
        """Return the number of brokers, including down ones."""
        return len(self.broker_ids)

    @property
    def partitions(self) -> int:
        """Return the number of partitions."""
        return len(self.partition)

    @property
    def racks(self) -> int:
        """Return the number of racks, with the one of down brokers whose rack is not known."""
        return max(len(self.rack_names), int(self.rack.max(initial=0)) + 1)

    @property
    def counted(self) -> Flags:
        """Return whether the problems of each partition count: bool (p)."""
        if self.counted_topics is None:
            return np.ones(self.partitions, dtype=np.bool_)
        return self.counted_topics[self.topic]

    @property
    def factor(self) -> Ints:
        """Return the replication factor of each partition: int64 (p)."""
        return np.diff(self.offsets)

    @property
    def declared_factor(self) -> Ints:
        """Return the replication factor of each partition's topic: int64 (p)."""
        return self.factor if self.topic_factor is None else self.topic_factor

    @property
    def row(self) -> Ints:
        """Return the partition of each replica: int64 (r)."""
        return row_of(self.offsets)

    @property
    def in_failed_dir(self) -> Flags:
        """Return which replicas are in failed log dirs of live brokers: bool (r)."""
        return np.zeros(len(self.replicas), dtype=np.bool_) if self.failed is None else self.failed

    @property
    def is_usable(self) -> Flags:
        """Return which replicas can be in sync: on live brokers, and not in failed log dirs: bool (r)."""
        return self.live[self.replicas] & ~self.in_failed_dir

    @property
    def is_in_sync(self) -> Flags:
        """Return whether each replica is in sync on a live broker: bool (r)."""
        return self.is_usable if self.in_sync is None else self.is_usable & self.in_sync

    @property
    def barred_brokers(self) -> Int32s:
        """Return a broker for each replica that may not get its partition, or -1: int32 (r)."""
        return np.full(len(self.replicas), -1, dtype=np.int32) if self.barred is None else self.barred

    @property
    def source_order(self) -> Int32s:
        """Return the replicas in the source's order: int32 (r)."""
        return self.replicas if self.source_replicas is None else self.source_replicas

    @property
    def preferred_leaders(self) -> Ints:
        """Return the preferred leader of each partition: int64 (p), a broker, or -1 if the first replica is down."""
        return self._live_replica(0)

    @property
    def successors(self) -> Ints:
        """Return the broker that leads each partition after its leader fails: int64 (p), -1 = none."""
        return self._live_replica(1)

    def _live_replica(self, position: int) -> Ints:
        brokers = np.full(self.partitions, -1, dtype=np.int64)
        rows = np.flatnonzero(self.factor > position)
        at = self.offsets[:-1][rows] + position
        brokers[rows] = np.where(self.is_usable[at], self.replicas[at], -1)
        return brokers

    @property
    def current_leaders(self) -> Int32s:
        """Return the leader of each partition, int32 (p); the first replica where none is known, or it is down."""
        first = self.replicas[self.offsets[:-1]]
        if self.leader is None:
            return first
        known = self.leader >= 0
        holds = is_in_segment(self.leader, np.arange(self.partitions + 1), self.replicas, self.offsets)
        known[known] = self.live[self.leader[known]]
        return np.where(known & holds, self.leader, first)

    def find_min_isr(self, rows: Ints, replicas: Ints) -> Int32s:
        """Return the effective min.insync.replicas of partitions (k) with so many replicas (k): int32 (k)."""
        return TopicDefaults(cap_min_insync_replicas=self.caps_min_isr).cap_min_isr(self.topic_min_isr[rows], replicas)

    @property
    def min_isr(self) -> Int32s:
        """Return the effective min.insync.replicas of the partitions as they are: int32 (p)."""
        return self.find_min_isr(np.arange(self.partitions), self.factor)

    def find_changed(self, lists: ReplicaLists) -> Flags:
        """Find the partitions (bool, p) whose replica list differs from the model's, in order at least."""
        changed: Flags = np.diff(lists.offsets) != self.factor
        replica = np.flatnonzero(~changed[row_of(lists.offsets)])
        row = row_of(lists.offsets)[replica]
        old = self.offsets[:-1][row] + replica - lists.offsets[:-1][row]
        changed[row[self.replicas[old] != lists.replicas[replica]]] = True
        return changed

    def find_copied(self, lists: ReplicaLists) -> Flags:
        """Find the replicas (bool, r) of the lists that must be copied, as their broker does not hold the partition."""
        return np.logical_not(is_in_segment(lists.replicas, lists.offsets, self.replicas, self.offsets))

    def measure_bytes(self, row: Ints, brokers: Int32s | Ints) -> Floats:
        """Return the bytes of replicas: of those that brokers hold, else of copies. row, brokers: of each, int64."""
        if self.replica_size is None:
            return self.size[row]
        own = self.row * self.brokers + self.replicas
        order = np.argsort(own)
        key = row * self.brokers + brokers
        at = np.minimum(np.searchsorted(own, key, sorter=order), max(len(own) - 1, 0))
        is_own = own[order][at] == key if len(own) else np.zeros(len(key), dtype=np.bool_)
        return np.where(is_own, self.replica_size[order][at], self.size[row])

    def find_eligible_leaders(self, may_lead: Flags | None) -> Flags:
        """Find the brokers (bool, n) that may lead: live, not draining, and in `may_lead` (bool, n) if that is set."""
        eligible: Flags = self.live & ~self.draining
        return eligible if may_lead is None else eligible & may_lead

    def compute_leader_loads(self, weight: Floats | None = None, taken_over: Flags | None = None) -> npt.NDArray[Any]:
        """Compute the leaders of each broker after each failure: (n, n), by failed broker (itself 0) and survivor.

        weight: float64 (p), load of a leader; None = 1. taken_over: bool (p), partitions whose successor takes over;
        None = all. Partitions without a successor are lost.
        """
        n, leader, successor = self.brokers, self.preferred_leaders, self.successors
        led = leader >= 0
        used = led & (successor >= 0)
        if taken_over is not None:
            used &= taken_over
        keys = leader[used] * n + successor[used]
        loads = np.bincount(keys, None if weight is None else weight[used], n * n).reshape(n, n)
        loads = loads + np.bincount(leader[led], None if weight is None else weight[led], n)
        np.fill_diagonal(loads, 0)
        return loads

    def sum_bytes(self, lists: ReplicaLists) -> Floats:
        """Sum the bytes that each broker holds with these lists, by what its own logs have now: float64 (n)."""
        size = self.measure_bytes(row_of(lists.offsets), lists.replicas)
        return np.asarray(np.bincount(lists.replicas, size, self.brokers), dtype=np.float64)

    def name(self, row: int) -> str:
        """Return the name of a partition: orders-3."""
        return f"{self.topic_names[self.topic[row]]}-{self.partition[row]}"

    def describe_brokers(self, brokers: npt.NDArray[np.integer]) -> str:
        """Name brokers by their ids: broker 1; brokers 1, 2 and 7 more."""
        return f"broker{'s' if len(brokers) > 1 else ''} {join_names(self.ids(brokers))}"

    def describe_partitions(self, rows: npt.NDArray[np.integer]) -> str:
        """Name the first of some partitions: t1-0 and 12 others."""
        first, others = self.name(int(rows[0])), len(rows) - 1
        return f"{first} and {others} other{'s' if others > 1 else ''}" if others else first

    def ids(self, brokers: npt.NDArray[np.integer] | Sequence[int]) -> list[int]:
        """Return the ids of brokers by index."""
        return [int(broker) for broker in self.broker_ids[np.asarray(brokers, dtype=np.int64)]]

    def with_lists(self, offsets: Ints, replicas: Int32s) -> ClusterModel:
        """Return the same cluster with other replica lists."""
        size = None if self.replica_size is None else self.measure_bytes(row_of(offsets), replicas)
        failed = self.failed
        if failed is not None:
            lost = self.replicas[failed], offsets_of(count_true(failed, self.offsets))
            failed = is_in_segment(replicas, offsets, *lost)
        moved = replace(self, offsets=offsets, replicas=replicas, replica_size=size, failed=failed)
        return replace(moved, log_dirs=None, source_replicas=None, leader=None, in_sync=None, barred=None, adding=None)

    def with_broker(self, id_: int, rack: int) -> ClusterModel:
        """Return the cluster with one more live, empty broker, whose id is the largest."""
        fetching = self.fetching is not None and bool(self.fetching.all())
        new: dict[str, float] = {"broker_ids": id_, "rack": rack, "live": True, "fetching": fetching}
        new |= {"unknown": False, "draining": False, "cordoned": False, "disk_room": np.nan, "disk_excess": np.nan}
        known = {name: values for name in new if (values := getattr(self, name)) is not None}
        longer: dict[str, Any] = {name: np.append(one, one.dtype.type(new[name])) for name, one in known.items()}
        return replace(self, log_dirs=None, **longer)


@dataclass(frozen=True)
class ProposedAssignment:
    """Replica lists that a planner proposes for a cluster model."""

    offsets: Ints  # int64 (p + 1), as in ClusterModel
    replicas: Int32s  # int32 (r), as in ClusterModel
    reason: npt.NDArray[np.int16]  # int16 (p), index into reasons; -1 = unchanged
    reasons: tuple[str, ...]  # Why lists change, in words
    # What is proven about the proposal; the same for the same model
    certificate: Certificate = field(default_factory=Certificate)
    log_dirs: Int32s | None = None  # int32 (r), index into ClusterModel.log_dirs; -1 = any; None = any for all
    later: Int32s | None = None  # int32 (r), the lists of the plan of which a budget paid for this part


def take(values: npt.NDArray[Any] | None, index: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
    """Return the values at an index, or None of None: what a model does not have, a part of it has not either."""
    return None if values is None else values[index]


def build_model(
    cluster_id: str,
    brokers: pa.Table,
    partitions: pa.Table,
    topics: pa.Table,
    exclude_topics: Sequence[str] = (),
    defaults: TopicDefaults = KAFKA_DEFAULTS,
) -> ClusterModel:
    """Build the model of a cluster from columns as in silver.

    Partitions without known replicas are left out. Live replicas come first in a list, as a down broker cannot lead;
    where the first replica is down, the current leader comes first, as no election replaces it.
    Brokers of unknown state (`live` null) count as live. exclude_topics: topics to freeze, beside those that the
    defaults ignore.
    """
    brokers = brokers.sort_by("broker_id")
    broker_ids = _array(brokers["broker_id"], 0).astype(np.int32)
    live = _array(brokers["live"], True).astype(np.bool_)
    draining = _array(brokers["draining"], False).astype(np.bool_)
    racks = name_racks(brokers["rack"].to_pylist(), live)
    are_ignored = any(rack is None and is_live for rack, is_live in zip(racks, live.tolist(), strict=True))
    rack_names = () if are_ignored else tuple(sorted({rack for rack in racks if rack is not None}))
    # Down brokers without a rack share an extra rack, so that they do not count for any other.
    number: dict[str | None, int] = {name: i for i, name in enumerate(rack_names)}
    rack = np.array([number.get(name, len(rack_names)) for name in racks], dtype=np.int32)

    placed = partitions.filter(pc.is_valid(partitions["replicas"]))
    placed = placed.sort_by([("topic", "ascending"), ("partition", "ascending")]).combine_chunks()
    names = pa.array(sorted(set(placed["topic"].to_pylist())), pa.string())
    topic = pc.index_in(to_array(placed["topic"]), value_set=names)
    lists = to_array(placed["replicas"])
    offsets = offsets_of(_array(pc.list_value_length(lists), 0).astype(np.int64))
    ids = _array(lists.flatten(), 0).astype(np.int32)
    replicas = np.searchsorted(broker_ids, ids).astype(np.int32)
    if len(ids) and (replicas.max() >= len(broker_ids) or (broker_ids[replicas] != ids).any()):
        raise ValueError("a replica is on a broker that is not among the brokers")
    assert not has_repeat(replicas, offsets).any()
    known_live = _array(brokers.filter(pa.array(to_flags(brokers["live"])))["broker_id"], 0)
    failed, replica_size = find_failed_dir_replicas(placed, known_live), list_known_sizes(placed)
    if replica_size is not None:
        replica_size[failed] = 0.0  # what a failed log dir has is on no disk that works
    is_usable = live[replicas] & ~failed
    leader = None
    row = row_of(offsets)
    not_leader = np.zeros(len(ids), dtype=np.bool_)
    if "leader" in placed.column_names:
        leader_ids = _array(placed["leader"], -1)
        leader = np.searchsorted(broker_ids, leader_ids).astype(np.int32)
        # No leader, no known leader, or a leader that no source lists as a broker.
        leader[(leader == len(broker_ids)) | (np.append(broker_ids, -1)[leader] != leader_ids)] = -1
        down_first = np.zeros(len(offsets) - 1, dtype=np.bool_)
        has_replicas = offsets[1:] > offsets[:-1]
        down_first[has_replicas] = ~is_usable[offsets[:-1][has_replicas]]
        not_leader = down_first[row] & (replicas != leader[row])
    in_sync = find_last_in_sync(placed, is_usable)
    # Stable: live replicas keep their order among themselves, and so do those that cannot be in sync.
    order = np.lexsort((np.arange(len(ids)), not_leader, ~is_usable, row))
    source_replicas, replicas = replicas, replicas[order]
    in_sync = None if in_sync is None else in_sync[order]
    is_usable, failed = is_usable[order], failed[order]
    adding = is_in_segment(ids, offsets, *to_lists(placed["adding_replicas"])[:2])[order]

    topic_rows = pc.index_in(to_array(placed["topic"]), value_set=to_array(topics["topic"]))
    if "release_from" in brokers.column_names:
        defaults = defaults.adapt_to(read_releases(brokers.filter(pa.array(live))))
    uncapped = replace(defaults, cap_min_insync_replicas=False)
    min_isr = uncapped.fill_min_isr(to_array(topics["min_insync_replicas"]).take(topic_rows), np.diff(offsets))
    declared = _array(to_array(topics["replication_factor"]).take(topic_rows), 0).astype(np.int64)
    topic_factor = np.where(declared > 0, declared, np.diff(offsets))
    at_name = pc.index_in(names, value_set=to_array(topics["topic"]))
    counted_topics = defaults.find_counted(topics)[_array(at_name, 0)]
    frozen = np.zeros(len(offsets) - 1, dtype=np.int8)
    # A partition without a leader has no source of copies: none of its replicas in the ISR is live.
    is_source = is_usable if in_sync is None else is_usable & in_sync
    leads = np.zeros(len(frozen), dtype=np.bool_) if leader is None else (leader >= 0) & live[leader]
    frozen[~any_true(is_source, offsets) & ~leads | ~any_true(is_usable, offsets)] = FreezeReason.OFFLINE
    frozen[to_flags(defaults.find_ignored(placed["topic"]))] = FreezeReason.IGNORED
    excluded = pc.is_in(to_array(placed["topic"]), value_set=pa.array(list(exclude_topics), pa.string()))
    frozen[np.asarray(excluded)] = FreezeReason.EXCLUDED
    frozen[_array(to_array(topics["marked_for_deletion"]).take(topic_rows), False).astype(bool)] = FreezeReason.DELETED
    for name in ("adding_replicas", "removing_replicas"):
        frozen[_array(pc.list_value_length(to_array(placed[name])), 0) > 0] = FreezeReason.IN_FLIGHT
    loads = [placed[name] for name in ("size_bytes", "bytes_in_per_s", "bytes_out_per_s")]
    size, rate_in, rate_out = (_array(column, 0).astype(np.float64) for column in loads)
    known = (loads[0].null_count < len(size), loads[1].null_count < len(size), loads[2].null_count < len(size))
    topics_of_rows, partition = (_array(column, 0).astype(np.int32) for column in (topic, placed["partition"]))
    entities = (cluster_id, broker_ids, rack, rack_names, live, draining, tuple(names.to_pylist()), topics_of_rows)
    lists = (*entities, partition, offsets, replicas)
    fetching = to_flags(brokers["follower_fetching"]) if "follower_fetching" in brokers.column_names else None
    is_null = [np.asarray(pc.is_null(column)) for column in loads[1:]]
    unrated = is_null[0] & known[1] | is_null[1] & known[2]
    state = (frozen, min_isr, source_replicas, leader, in_sync, counted_topics, loads[0].null_count, unrated, fetching)
    model = ClusterModel(*lists, size, rate_in, rate_out, known, *state, assumed_release=defaults.assumed_release)
    own_sizes, unknown = None if replica_size is None else replica_size[order], np.asarray(pc.is_null(brokers["live"]))
    model = replace(model, failed=failed if failed.any() else None, adding=adding, replica_size=own_sizes)
    model = replace(model, unknown=unknown if unknown.any() else None, drops_at_once=defaults.drops_at_once)
    if "cordoned" in brokers.column_names and (cordoned := to_flags(brokers["cordoned"])).any():
        model = replace(model, cordoned=cordoned, rejects_cordoned=defaults.rejects_cordoned)
    caps, with_added = defaults.cap_min_insync_replicas, defaults.completes_with_added
    return replace(model, topic_factor=topic_factor, caps_min_isr=caps, completes_with_added=with_added)


def _array(column: pa.ChunkedArray | pa.Array, missing: int | float | bool) -> npt.NDArray[Any]:
    array = to_array(column)
    return np.asarray(pc.fill_null(array, pa.scalar(missing, array.type)).to_numpy(zero_copy_only=False))
