"""Partitions as they are, or topics placed by a scheme, as the arrays of the failure kernels."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.columns import to_array, to_numpy
from udfs.arrow.ragged import is_in_segment, offsets_of, position_of, row_of
from udfs.failures.kernels.election import elect_leaders
from udfs.failures.kernels.partition_arrays import MAX_REPLICAS, NO_BROKER, UNKNOWN, Ids, PartitionGroup
from udfs.failures.scenarios import Cluster
from udfs.placement.kernels.java_random import scramble_seeds
from udfs.placement.kernels.topic_arrays import BrokerLists, Ints, TopicPlacements, Topics
from udfs.placement.kernels.topic_seeds import compute_topic_seeds
from udfs.placement.schemes import Scheme
from udfs.placement.topic_batches import get_utf8_buffers

_INTS = pa.list_(pa.int32())
_LOADS = (("size_bytes", pa.int64()), ("bytes_in_per_s", pa.float64()), ("bytes_out_per_s", pa.float64()))
# Topics, and partitions with known replicas, as the stage and `what-if` hand them over. No list is null.
TOPICS = pa.schema(
    [
        ("topic", pa.string()),
        ("partitions", pa.int32()),
        ("replication_factor", pa.int32()),
        ("min_insync_replicas", pa.int32()),
        ("unclean_leader_election", pa.bool_()),
        # empty = all partitions, without known loads
        ("partition_loads", pa.list_(pa.struct([("partition", pa.int32()), *_LOADS]))),
    ]
)
PARTITIONS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("replicas", _INTS),
        ("leader", pa.int32()),
        ("all_in_sync", pa.bool_()),  # then isr is ignored
        ("isr", _INTS),
        ("elr", _INTS),
        ("lags", pa.list_(pa.int64())),  # messages, by position of the replica; empty = not known
        *_LOADS,
    ]
)


@dataclass(frozen=True)
class TopicShard:
    """Some topics of a cluster (schema TOPICS, by name) with all their partitions (schema PARTITIONS, in order)."""

    cluster_id: str
    cluster: Cluster
    topics: pa.Table
    partitions: pa.Table


@dataclass(frozen=True)
class Placement:
    """The p partitions of a shard under a scheme."""

    group: PartitionGroup
    rows: Ints  # int64 (t + 1), the partitions of each topic of the shard
    out_rate: npt.NDArray[np.float64]  # (p), bytes per second out; NaN = not known
    known: Ints  # int64 (3), partitions of known size, bytes in and bytes out


def _numbers(column: pa.ChunkedArray | pa.Array, missing: int | float | bool) -> npt.NDArray[Any]:
    array = to_array(column)
    return np.array(pc.fill_null(array, pa.scalar(missing, array.type)).to_numpy(zero_copy_only=False))


def flatten_lists(column: pa.ChunkedArray | pa.Array) -> tuple[npt.NDArray[Any], Ints]:
    """Return (flat values, offsets) of a list column; null lists are empty."""
    array = to_array(column)
    lengths = to_numpy(pc.list_value_length(array)).astype(np.int64)
    return np.array(array.flatten().to_numpy(zero_copy_only=False)), offsets_of(lengths)


def find_indices(ids: npt.NDArray[np.int32], brokers: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return the index of each broker in `ids` (rising), NO_BROKER where it is not among them."""
    if not len(ids):
        return np.full(len(brokers), NO_BROKER, dtype=np.int32)
    at = np.minimum(np.searchsorted(ids, brokers), len(ids) - 1)
    return np.where(ids[at] == brokers, at, NO_BROKER).astype(np.int32)


def _loads(table: pa.Table | pa.StructArray) -> tuple[Ints, npt.NDArray[np.float64], npt.NDArray[np.float64], Ints]:
    """Return (size, rate, out_rate, known), see PartitionGroup and Placement, of three columns or fields."""
    columns = [pc.struct_field(table, n) if isinstance(table, pa.StructArray) else table[n] for n, _ in _LOADS]
    size = _numbers(columns[0], UNKNOWN).astype(np.int64)
    into, out = (_numbers(column, np.nan).astype(np.float64) for column in columns[1:])
    known = np.array([(size != UNKNOWN).sum(), (~np.isnan(into)).sum(), (~np.isnan(out)).sum()], dtype=np.int64)
    return size, np.ascontiguousarray(np.nan_to_num(np.column_stack([into, out]))), out, known


def group_observed(shard: TopicShard) -> Placement:
    """Group the partitions as the cluster has placed them."""
    partitions = shard.partitions
    at_topic = pc.index_in(to_array(partitions["topic"]), value_set=to_array(shard.topics["topic"]))
    topic = _numbers(at_topic, 0).astype(np.int64)
    replicas, offsets = flatten_lists(partitions["replicas"])
    in_isr = is_in_segment(replicas, offsets, *flatten_lists(partitions["isr"]))
    in_isr |= _numbers(partitions["all_in_sync"], True).astype(np.bool_)[row_of(offsets)]
    lags, lag_offsets = flatten_lists(partitions["lags"])
    lag = np.full(len(replicas), UNKNOWN, dtype=np.int64)
    has_lags = np.diff(lag_offsets) == np.diff(offsets)
    lag[has_lags[row_of(offsets)]] = np.nan_to_num(lags.astype(np.float64), nan=UNKNOWN)[has_lags[row_of(lag_offsets)]]
    ids = np.array(shard.cluster.ids, dtype=np.int32)
    size, rate, out_rate, known = _loads(partitions)
    group = PartitionGroup(
        offsets,
        find_indices(ids, replicas.astype(np.int32)),
        in_isr,
        is_in_segment(replicas, offsets, *flatten_lists(partitions["elr"])),
        lag,
        find_indices(ids, _numbers(partitions["leader"], NO_BROKER).astype(np.int32)),
        _numbers(shard.topics["min_insync_replicas"], 1).astype(np.int32)[topic],
        _numbers(shard.topics["unclean_leader_election"], False).astype(np.bool_)[topic],
        size,
        rate,
    )
    rows = offsets_of(np.bincount(topic, minlength=shard.topics.num_rows))
    return Placement(group, rows, out_rate, known)


def truncate_replicas(group: PartitionGroup, most: int) -> PartitionGroup:
    """Return the group with at most this many replicas of each partition, the first ones."""
    if int(np.diff(group.offsets).max(initial=0)) <= most:
        return group
    keep = position_of(group.offsets) < most
    lengths = np.minimum(np.diff(group.offsets), most)
    replicas = {name: getattr(group, name)[keep] for name in ("broker", "in_isr", "in_elr", "lag")}
    return group._replace(offsets=offsets_of(lengths), **replicas)


def elect_after(group: PartitionGroup, failed: npt.NDArray[np.bool_]) -> tuple[Ids, Ids]:
    """Elect the leaders after replicas failed.

    Args:
        group: p partitions with r replicas.
        failed: bool (r), replicas whose broker fails.

    Returns:
        int32 (p), index of each partition's leader, NO_BROKER = offline; int32 (p), codes of ElectedFrom.
    """
    p = len(group.leader)
    leader, elected_from = np.empty(p, np.int32), np.empty(p, np.int32)
    if len(failed) and int(np.diff(group.offsets).max(initial=0)) > MAX_REPLICAS:
        failed = failed[position_of(group.offsets) < MAX_REPLICAS]
    positions = np.empty(MAX_REPLICAS, dtype=np.int32)
    elect_leaders(truncate_replicas(group, MAX_REPLICAS), failed, positions, leader, elected_from)
    return leader, elected_from


def place_shard(shard: TopicShard, scheme: Scheme, run_seed: int) -> TopicPlacements:
    """Place the shard's topics by a scheme on the indices of the live brokers; rejected topics have no rows.

    Brokers are in the order of their ids, and schemes depend on nothing else of the ids.
    """
    assert scheme.place is not None
    table, brokers = shard.topics, shard.cluster
    count = table.num_rows
    listed, listed_offsets = _listed_partitions(table)
    requests = Topics.create(
        _numbers(table["partitions"], 0).astype(np.int64),
        _numbers(table["replication_factor"], 0).astype(np.int64),
        np.zeros(count, dtype=np.int64),
        partition_ids=listed,
        partition_id_offsets=listed_offsets,
    )
    n = len(brokers.ids)
    lists = BrokerLists.create(np.arange(n, dtype=np.int32), np.array([0, n]), list(brokers.racks))
    cluster = get_utf8_buffers(pa.array([shard.cluster_id] * count, pa.string()))
    seeds = compute_topic_seeds(run_seed, cluster, get_utf8_buffers(to_array(table["topic"])))
    return scheme.place(requests, lists, scramble_seeds(seeds))


def _listed_partitions(topics: pa.Table) -> tuple[Ints, Ints]:
    loads = to_array(topics["partition_loads"])
    lengths = np.asarray(pc.list_value_length(loads).to_numpy(zero_copy_only=False), dtype=np.int64)
    return _numbers(pc.struct_field(loads.flatten(), "partition"), 0).astype(np.int64), offsets_of(lengths)


def group_computed(shard: TopicShard, placed: TopicPlacements) -> Placement:
    """Group a computed placement (of `place_shard`): all replicas in sync, each partition led by its first one."""
    loads = to_array(shard.topics["partition_loads"]).flatten()
    _, listed = _listed_partitions(shard.topics)
    rows = placed.row_offsets
    count, replicas = int(rows[-1]), len(placed.broker)
    size, rate = np.full(count, UNKNOWN, dtype=np.int64), np.zeros((count, 2))
    out_rate = np.full(count, np.nan)
    # Topics with a list have exactly the listed partitions, in that order; rejected topics have none.
    has_loads = (np.diff(listed) > 0) & (np.diff(rows) > 0)
    target, source = has_loads[row_of(rows)], has_loads[row_of(listed)]
    size[target], rate[target], out_rate[target] = (values[source] for values in _loads(loads)[:3])
    into = _numbers(pc.struct_field(loads, "bytes_in_per_s"), np.nan)[source]
    known = np.array([(size != UNKNOWN).sum(), (~np.isnan(into)).sum(), (~np.isnan(out_rate)).sum()], dtype=np.int64)
    broker, topic = placed.broker, row_of(rows)
    group = PartitionGroup(
        placed.replica_offsets,
        broker,
        np.ones(replicas, dtype=np.bool_),
        np.zeros(replicas, dtype=np.bool_),
        np.full(replicas, UNKNOWN, dtype=np.int64),
        broker[placed.replica_offsets[:-1]] if count else np.empty(0, dtype=np.int32),
        _numbers(shard.topics["min_insync_replicas"], 1).astype(np.int32)[topic],
        _numbers(shard.topics["unclean_leader_election"], False).astype(np.bool_)[topic],
        size,
        rate,
    )
    return Placement(group, rows, out_rate, known)
