"""Partitions as they are, or topics placed by a scheme, as the arrays of the failure kernels."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.columns import DOUBLE, FLAG, INT, INTS, LONG, TEXT, to_array, to_flags, to_lists, to_numpy
from udfs.arrow.ragged import is_in_segment, offsets_of, position_of, row_of
from udfs.failures.kernels.election import (
    MAX_REPLICAS,
    NO_BROKER,
    UNKNOWN,
    Bools,
    ElectedFrom,
    Floats,
    Ids,
    PartitionGroup,
    elect_leaders,
)
from udfs.failures.replica_logs import align_lists, find_failed_dir_replicas, list_replica_bytes
from udfs.failures.scenarios import Cluster
from udfs.failures.topic_defaults import TopicDefaults
from udfs.placement.kernels.java_util import scramble_seeds
from udfs.placement.kernels.topic_arrays import Ints, TopicPlacements, Topics
from udfs.placement.kernels.topic_seeds import compute_topic_seeds
from udfs.placement.schemes import Scheme
from udfs.placement.topic_placement import LiveBrokers, create_broker_lists, get_utf8_buffers

_LOADS = (("size_bytes", LONG), ("bytes_in_per_s", DOUBLE), ("bytes_out_per_s", DOUBLE))
# Topics, and partitions with known replicas. A null list counts as empty.
TOPICS = pa.schema(
    [
        ("topic", TEXT),
        *((name, INT) for name in ("partitions", "replication_factor", "min_insync_replicas")),
        ("unclean_leader_election", FLAG),
        ("counted", FLAG),  # whether its problems count, see TopicDefaults
        ("partition_loads", pa.list_(pa.struct([("partition", INT), *_LOADS]))),  # empty = all, without known loads
    ]
)
PARTITIONS = pa.schema(
    [
        ("topic", TEXT),
        ("partition", INT),
        ("replicas", INTS),
        ("leader", INT),
        ("isr", INTS),
        ("elr", INTS),
        ("offline_replicas", INTS),
        ("lags", pa.list_(LONG)),  # messages, by position of the replica; empty = not known
        ("replica_sizes", pa.list_(LONG)),  # by position of the replica; null = not known
        *_LOADS,
    ]
)
ELECTION = pa.struct([("leader", INT), ("elected_from", TEXT)])
_ELECTED_FROM = pa.array([code.label for code in ElectedFrom])


def fill_topics(topics: pa.Table, defaults: TopicDefaults) -> pa.Table:
    """Return rows of silver.topics as TOPICS, with the defaults where their sources show no config."""
    columns = {name: to_array(topics[name]) for name in TOPICS.names if name != "counted"}
    columns["counted"] = pa.array(defaults.find_counted(topics))
    for name in ("min_insync_replicas", "unclean_leader_election"):
        columns[name] = pc.fill_null(columns[name], getattr(defaults, name))
    return pa.table(columns).select(TOPICS.names).cast(TOPICS)


def select_partitions(partitions: pa.Table) -> pa.Table:
    """Return the rows of silver.partitions that have replicas, as PARTITIONS."""
    known = partitions.filter(pc.is_valid(partitions["replicas"])).combine_chunks()
    logs = to_array(known["logs"])
    lags = pa.ListArray.from_arrays(
        pa.array(offsets_of(to_numpy(pc.list_value_length(logs))), INT), pc.struct_field(logs.flatten(), "offset_lag")
    )
    columns = {"lags": lags, "replica_sizes": list_replica_bytes(known)["replica_sizes"]}
    table = pa.table({name: columns[name] if name in columns else known[name] for name in PARTITIONS.names})
    return table.cast(PARTITIONS)


class TopicShard(NamedTuple):
    """Some topics of a cluster (schema TOPICS, by name) with all their partitions (schema PARTITIONS, in order)."""

    cluster_id: str
    cluster: Cluster
    topics: pa.Table
    partitions: pa.Table


class Placement(NamedTuple):
    """The p partitions of a shard under a scheme."""

    group: PartitionGroup
    rows: Ints  # int64 (t + 1), the partitions of each topic of the shard
    out_rate: Floats  # (p), bytes per second out; NaN = not known
    known: Ints  # int64 (3), partitions of known size, bytes in and bytes out
    replica_bytes: Ints  # int64 (r), bytes of each replica; UNKNOWN = not known


def find_indices(ids: Ids, brokers: Ids) -> Ids:
    """Return the index of each broker in `ids` (rising), NO_BROKER where it is not among them."""
    return np.where(np.isin(brokers, ids), np.searchsorted(ids, brokers), NO_BROKER).astype(np.int32)


def _read_loads(loads: pa.Table | pa.StructArray) -> tuple[Ints, Floats]:
    """Return sizes, UNKNOWN where null, and rates in and out, float64 (p, 2), NaN where null."""
    names = [name for name, _ in _LOADS]
    size, *rates = loads.flatten()[1:] if isinstance(loads, pa.StructArray) else (loads[name] for name in names)
    return to_numpy(size, UNKNOWN).astype(np.int64), np.column_stack([to_numpy(rate, np.nan) for rate in rates])


def _make_placement(
    shard: TopicShard,
    topic: Ints,
    replicas: tuple[Ints, Ids, Bools, Bools, Ints],
    leader: Ids,
    loads: tuple[Ints, Floats],
    replica_bytes: Ints | None = None,
) -> Placement:
    """Make the placement of partitions of these topics (by index). replicas: the first fields of PartitionGroup.

    replica_bytes: as in Placement; None = each replica is as large as its partition.
    """
    size, rates = loads
    rules = TopicDefaults(cap_min_insync_replicas=shard.cluster.caps_min_isr)
    by_topic = to_numpy(shard.topics["min_insync_replicas"], 1).astype(np.int32)
    min_isr = rules.cap_min_isr(by_topic[topic], np.diff(replicas[0]))
    unclean, counted = (to_flags(shard.topics[name])[topic] for name in ("unclean_leader_election", "counted"))
    rate = np.ascontiguousarray(np.nan_to_num(rates))
    group = PartitionGroup(*replicas, leader, min_isr, unclean, size, rate, counted)
    known = np.array([(size != UNKNOWN).sum(), *(~np.isnan(rates)).sum(axis=0)], dtype=np.int64)
    rows = offsets_of(np.bincount(topic, minlength=shard.topics.num_rows))
    replica_bytes = size[row_of(replicas[0])] if replica_bytes is None else replica_bytes
    return Placement(group, rows, np.ascontiguousarray(rates[:, 1]), known, replica_bytes)


def find_electable(
    partitions: pa.Table, replicas: Ids, offsets: Ints, unknown: Sequence[int] | Ids
) -> tuple[Bools, Bools]:
    """Return which replicas (r) are in the ISR, and in the ELR; none of brokers of unknown state is elected from it."""
    in_isr, in_elr = (is_in_segment(replicas, offsets, *to_lists(partitions[name])[:2]) for name in ("isr", "elr"))
    return in_isr, in_elr & ~np.isin(replicas, unknown)


def group_observed(shard: TopicShard) -> Placement:
    """Group the partitions as the cluster has placed them."""
    partitions = shard.partitions
    at_topic = pc.index_in(to_array(partitions["topic"]), value_set=to_array(shard.topics["topic"]))
    replicas, offsets, _ = to_lists(partitions["replicas"])
    in_isr, in_elr = find_electable(partitions, replicas, offsets, shard.cluster.unknown)
    lag, sizes = (align_lists(partitions[name], offsets) for name in ("lags", "replica_sizes"))
    ids = np.array(shard.cluster.ids, dtype=np.int32)
    leader = find_indices(ids, to_numpy(partitions["leader"], NO_BROKER))
    failed = find_failed_dir_replicas(partitions, np.setdiff1d(ids, shard.cluster.unknown))
    broker = np.where(failed, NO_BROKER, find_indices(ids, replicas)).astype(np.int32)
    by_replica, topic = (offsets, broker, in_isr, in_elr, lag), to_numpy(at_topic).astype(np.int64)
    return _make_placement(shard, topic, by_replica, leader, _read_loads(partitions), sizes)


def truncate_replicas(group: PartitionGroup) -> PartitionGroup:
    """Return the group with at most MAX_REPLICAS replicas of each partition, the first ones."""
    lengths = np.diff(group.offsets)
    if int(lengths.max(initial=0)) <= MAX_REPLICAS:
        return group
    keep = position_of(group.offsets) < MAX_REPLICAS
    replicas = {name: getattr(group, name)[keep] for name in ("broker", "in_isr", "in_elr", "lag")}
    return group._replace(offsets=offsets_of(np.minimum(lengths, MAX_REPLICAS)), **replicas)


def elect_after(group: PartitionGroup, failed: npt.NDArray[np.bool_], elects: bool = True) -> tuple[Ids, Ids]:
    """Elect leaders after replicas (bool, r) failed: indices, NO_BROKER = offline, and codes of ElectedFrom.

    elects: False = no controller is left: codes may be WAITING too.
    """
    p = len(group.leader)
    leader, elected_from = np.empty(p, np.int32), np.empty(p, np.int32)
    if int(np.diff(group.offsets).max(initial=0)) > MAX_REPLICAS:
        failed = failed[position_of(group.offsets) < MAX_REPLICAS]
    elect_leaders(truncate_replicas(group), failed, np.empty(MAX_REPLICAS, np.int32), leader, elected_from, elects)
    return leader, elected_from


def elect_batch(
    replicas: pa.Array,
    isr: pa.Array,
    elr: pa.Array,
    leader: pa.Array,
    unclean: pa.Array,
    live: pa.Array,
    failed: pa.Array,
) -> pa.Array:
    """Elect leaders after brokers failed, from lists of broker ids (live: before the failure): ELECTION (p)."""
    broker, offsets, _ = to_lists(replicas)
    is_live, in_isr, in_elr, fails = (
        is_in_segment(broker, offsets, *to_lists(lists)[:2]) for lists in (live, isr, elr, failed)
    )
    leads, is_unclean = to_numpy(leader, NO_BROKER).astype(np.int32), np.array(to_flags(unclean))
    new_leader, elected_from = _elect((offsets, broker, in_isr, in_elr), is_live, leads, is_unclean, fails)
    columns = [pa.array(new_leader), _ELECTED_FROM.take(pa.array(elected_from))]
    return pa.StructArray.from_arrays(columns, fields=list(ELECTION))


def _elect(
    replicas: tuple[Ints, Ids, Bools, Bools], is_live: Bools, leader: Ids, unclean: Bools, fails: Bools
) -> tuple[Ids, Ids]:
    """Elect leaders among live replicas (offsets, broker ids, in ISR, in ELR) after some failed, as `elect_after`."""
    offsets, broker, in_isr, in_elr = replicas
    count, no_lag = len(leader), np.full(len(broker), UNKNOWN, dtype=np.int64)
    # The rule only compares brokers: ids do as indices.
    by_replica = (offsets, np.where(is_live, broker, NO_BROKER).astype(np.int32), in_isr, in_elr, no_lag)
    loads = (np.full(count, UNKNOWN, dtype=np.int64), np.zeros((count, 2)), np.ones(count, dtype=np.bool_))
    return elect_after(PartitionGroup(*by_replica, leader, np.ones(count, dtype=np.int32), unclean, *loads), fails)


def _listed_partitions(topics: pa.Table) -> tuple[pa.StructArray, Ints]:
    loads = to_array(topics["partition_loads"])
    return loads.flatten(), offsets_of(to_numpy(pc.list_value_length(loads)))


def place_shard(shard: TopicShard, scheme: Scheme, run_seed: int) -> TopicPlacements:
    """Place topics by a scheme on indices of the live brokers, in the order of ids; rejected ones have no rows."""
    assert scheme.place is not None
    table, cluster, count = shard.topics, shard.cluster, shard.topics.num_rows
    brokers = LiveBrokers(range(len(cluster.ids)), cluster.racks, cluster.cordoned).select_usable(scheme.name)
    loads, listed_offsets = _listed_partitions(table)
    listed = to_numpy(pc.struct_field(loads, "partition")).astype(np.int64)
    partitions, factor = (to_numpy(table[name]).astype(np.int64) for name in ("partitions", "replication_factor"))
    first_list = np.zeros(count, dtype=np.int64)
    ids = {"partition_ids": listed, "partition_id_offsets": listed_offsets}
    requests = Topics.create(partitions, factor, first_list, **ids)
    names = [get_utf8_buffers(one) for one in (pa.array([shard.cluster_id] * count, TEXT), to_array(table["topic"]))]
    return scheme.place(requests, create_broker_lists(brokers), scramble_seeds(compute_topic_seeds(run_seed, *names)))


def group_computed(shard: TopicShard, placed: TopicPlacements) -> Placement:
    """Group a computed placement (of `place_shard`): all replicas in sync, each partition led by its first one."""
    loads, listed = _listed_partitions(shard.topics)
    rows, broker = placed.row_offsets, placed.broker
    count, replicas = int(rows[-1]), len(broker)
    size, rates = np.full(count, UNKNOWN, dtype=np.int64), np.full((count, 2), np.nan)
    # Topics with a list have exactly the listed partitions, in that order; rejected topics have none.
    has_loads = (np.diff(listed) > 0) & (np.diff(rows) > 0)
    target, source = has_loads[row_of(rows)], has_loads[row_of(listed)]
    size[target], rates[target] = (values[source] for values in _read_loads(loads))
    in_sync, in_elr = np.ones(replicas, dtype=np.bool_), np.zeros(replicas, dtype=np.bool_)
    by_replica = (placed.replica_offsets, broker, in_sync, in_elr, np.full(replicas, UNKNOWN, dtype=np.int64))
    leader = broker[placed.replica_offsets[:-1]] if count else np.empty(0, dtype=np.int32)
    return _make_placement(shard, row_of(rows), by_replica, leader, (size, rates))
