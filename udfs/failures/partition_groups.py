"""Partitions as they are, or topics placed by a scheme, as the arrays of the failure kernels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.ragged import contained, offsets_of, position_of, row_of
from udfs.failures.kernels.failure_sums import NOBODY, UNKNOWN, Group
from udfs.failures.scenarios import Cluster
from udfs.placement.kernels.java_random import scrambled
from udfs.placement.kernels.topic_arrays import BrokerLists, Ints, Placed, Topics
from udfs.placement.kernels.topic_seeds import topic_seeds
from udfs.placement.schemes import Scheme
from udfs.placement.topic_batches import text_of

_INTS = pa.list_(pa.int32())
_LOADS = pa.struct(
    [
        ("partition", pa.int32()),
        ("size_bytes", pa.int64()),
        ("bytes_in_per_s", pa.float64()),
        ("bytes_out_per_s", pa.float64()),
    ]
)
# Topics, and partitions with known replicas, as the stage hands them over. No list is null.
TOPICS = pa.schema(
    [
        ("topic", pa.string()),
        ("partitions", pa.int32()),
        ("replication_factor", pa.int32()),
        ("min_insync_replicas", pa.int32()),
        ("unclean_leader_election", pa.bool_()),
        ("partition_loads", pa.list_(_LOADS)),  # empty = all partitions, no load known
    ]
)
PARTITIONS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("replicas", _INTS),
        ("leader", pa.int32()),
        ("all_in_sync", pa.bool_()),  # then isr is not looked at
        ("isr", _INTS),
        ("elr", _INTS),
        ("lags", pa.list_(pa.int64())),  # messages, beside replicas; empty = not known
        ("size_bytes", pa.int64()),
        ("bytes_in_per_s", pa.float64()),
        ("bytes_out_per_s", pa.float64()),
    ]
)


@dataclass(frozen=True)
class Share:
    """Some whole topics of a cluster (schema TOPICS, t rows, by name) and their partitions (PARTITIONS, in order)."""

    cluster_id: str
    cluster: Cluster
    topics: pa.Table
    partitions: pa.Table


@dataclass(frozen=True)
class Placement:
    """A share under a scheme. rows: int64 (t + 1), the partitions of each topic of the share.

    out_rate: float64 (p), bytes per second out, NaN = not known.   known: int64 (3), partitions of known size, in, out.
    """

    group: Group
    rows: Ints
    out_rate: npt.NDArray[np.float64]
    known: Ints


def _numbers(column: pa.ChunkedArray | pa.Array, missing: int | float | bool) -> npt.NDArray[Any]:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.array(pc.fill_null(array, pa.scalar(missing, array.type)).to_numpy(zero_copy_only=False))


def _lists(column: pa.ChunkedArray) -> tuple[npt.NDArray[Any], Ints]:
    """(flat values, offsets) of a list column without nulls."""
    array = column.combine_chunks()
    lengths = np.asarray(pc.list_value_length(array).to_numpy(zero_copy_only=False), dtype=np.int64)
    return np.array(array.flatten().to_numpy(zero_copy_only=False)), offsets_of(lengths)


def _places(ids: npt.NDArray[np.int32], brokers: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """The index of each broker among `ids` (rising), NOBODY where it is not one of them."""
    if not len(ids):
        return np.full(len(brokers), NOBODY, dtype=np.int32)
    at = np.minimum(np.searchsorted(ids, brokers), len(ids) - 1)
    return np.where(ids[at] == brokers, at, NOBODY).astype(np.int32)


def _loads(table: pa.Table | pa.StructArray) -> tuple[Ints, npt.NDArray[np.float64], npt.NDArray[np.float64], Ints]:
    """(size, rate, out_rate, known) of partitions that have the three loads as columns or fields."""

    def column(name: str) -> pa.Array:
        if isinstance(table, pa.StructArray):
            return pc.struct_field(table, name)
        return table[name].combine_chunks()

    size = _numbers(column("size_bytes"), UNKNOWN).astype(np.int64)
    into, out = (_numbers(column(f"bytes_{way}_per_s"), np.nan).astype(np.float64) for way in ("in", "out"))
    known = np.array([(size != UNKNOWN).sum(), (~np.isnan(into)).sum(), (~np.isnan(out)).sum()], dtype=np.int64)
    return size, np.ascontiguousarray(np.nan_to_num(np.column_stack([into, out]))), out, known


def observed(share: Share) -> Placement:
    """The placement as the cluster is."""
    partitions = share.partitions
    at_topic = pc.index_in(partitions["topic"].combine_chunks(), value_set=share.topics["topic"].combine_chunks())
    topic = _numbers(at_topic, 0).astype(np.int64)
    replicas, offsets = _lists(partitions["replicas"])
    in_isr = contained(replicas, offsets, *_lists(partitions["isr"]))
    in_isr |= _numbers(partitions["all_in_sync"], True).astype(np.bool_)[row_of(offsets)]
    lags, lag_offsets = _lists(partitions["lags"])
    lag = np.full(len(replicas), UNKNOWN, dtype=np.int64)
    told = np.diff(lag_offsets) == np.diff(offsets)
    lag[told[row_of(offsets)]] = np.nan_to_num(lags.astype(np.float64), nan=UNKNOWN)[told[row_of(lag_offsets)]]
    ids = np.array(share.cluster.ids, dtype=np.int32)
    size, rate, out_rate, known = _loads(partitions)
    group = Group(
        offsets,
        _places(ids, replicas.astype(np.int32)),
        in_isr,
        contained(replicas, offsets, *_lists(partitions["elr"])),
        lag,
        _places(ids, _numbers(partitions["leader"], NOBODY).astype(np.int32)),
        _numbers(share.topics["min_insync_replicas"], 1).astype(np.int32)[topic],
        _numbers(share.topics["unclean_leader_election"], False).astype(np.bool_)[topic],
        size,
        rate,
    )
    rows = offsets_of(np.bincount(topic, minlength=share.topics.num_rows))
    return Placement(group, rows, out_rate, known)


def first_replicas(group: Group, most: int) -> Group:
    """The group with no more than so many replicas of any partition, the first ones."""
    if int(np.diff(group.offsets).max(initial=0)) <= most:
        return group
    keep = position_of(group.offsets) < most
    lengths = np.minimum(np.diff(group.offsets), most)
    of_replicas = {name: getattr(group, name)[keep] for name in ("broker", "in_isr", "in_elr", "lag")}
    return replace(group, offsets=offsets_of(lengths), **of_replicas)


def place(share: Share, scheme: Scheme, run_seed: int) -> Placed:
    """The share's topics, placed by a scheme over the live brokers, by index; rejected topics have no rows.

    Brokers are given in the order of their ids, which is all that a scheme asks of these.
    """
    assert scheme.place is not None
    table, brokers = share.topics, share.cluster
    count = table.num_rows
    listed, listed_offsets = _listed(table)
    asked = Topics.of(
        _numbers(table["partitions"], 0).astype(np.int64),
        _numbers(table["replication_factor"], 0).astype(np.int64),
        np.zeros(count, dtype=np.int64),
        listed=listed,
        listed_offsets=listed_offsets,
    )
    n = len(brokers.ids)
    lists = BrokerLists.of(np.arange(n, dtype=np.int32), np.array([0, n]), list(brokers.racks))
    cluster = text_of(pa.array([share.cluster_id] * count, pa.string()))
    seeds = topic_seeds(run_seed, cluster, text_of(table["topic"].combine_chunks()))
    return scheme.place(asked, lists, scrambled(seeds))


def _listed(topics: pa.Table) -> tuple[Ints, Ints]:
    loads = topics["partition_loads"].combine_chunks()
    lengths = np.asarray(pc.list_value_length(loads).to_numpy(zero_copy_only=False), dtype=np.int64)
    return _numbers(pc.struct_field(loads.flatten(), "partition"), 0).astype(np.int64), offsets_of(lengths)


def computed(share: Share, placed: Placed) -> Placement:
    """A placement made anew (placed: of `place`): all in sync, each partition led by its first replica."""
    loads = share.topics["partition_loads"].combine_chunks()
    _, listed = _listed(share.topics)
    rows = placed.row_offsets
    count, replicas = int(rows[-1]), len(placed.broker)
    size, rate = np.full(count, UNKNOWN, dtype=np.int64), np.zeros((count, 2))
    out_rate = np.full(count, np.nan)
    # Topics with a list have just the partitions listed, in that order; rejected topics have none.
    told = (np.diff(listed) > 0) & (np.diff(rows) > 0)
    mine, theirs = told[row_of(rows)], told[row_of(listed)]
    size[mine], rate[mine], out_rate[mine] = (values[theirs] for values in _loads(loads.flatten())[:3])
    known = np.array([(size != UNKNOWN).sum(), 0, (~np.isnan(out_rate)).sum()], dtype=np.int64)
    known[1] = int((~np.isnan(_numbers(pc.struct_field(loads.flatten(), "bytes_in_per_s"), np.nan)[theirs])).sum())
    broker = placed.broker
    topic = row_of(rows)
    first = placed.replica_offsets[:-1]
    group = Group(
        placed.replica_offsets,
        broker,
        np.ones(replicas, dtype=np.bool_),
        np.zeros(replicas, dtype=np.bool_),
        np.full(replicas, UNKNOWN, dtype=np.int64),
        broker[first] if count else np.empty(0, dtype=np.int32),
        _numbers(share.topics["min_insync_replicas"], 1).astype(np.int32)[topic],
        _numbers(share.topics["unclean_leader_election"], False).astype(np.bool_)[topic],
        size,
        rate,
    )
    return Placement(group, rows, out_rate, known)
