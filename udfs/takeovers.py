"""Who inherits what when one broker dies, summed over batches of placed partitions. Thin: election.py decides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.kernels.election import FROM_ELR, NO_LEADER, OFFLINE, UNCLEAN, PartitionArrays, successor_if_leader_dies
from udfs.kernels.ragged import contained, count_true, offsets_of, row_of

NOBODY = -1  # as failed_broker: the cluster as it is; as receiver: nobody takes over

_WEIGHTS = ("size_bytes", "bytes_in_per_s", "bytes_out_per_s")
_INTS = pa.list_(pa.int32())

# One row per placed partition, with what the election needs. No list is null.
PLACED = pa.schema(
    [
        ("cluster_id", pa.string()),
        ("snapshot_id", pa.string()),
        ("scheme", pa.string()),
        ("replicas", _INTS),
        ("leader", pa.int32()),
        ("all_in_sync", pa.bool_()),  # then isr is not looked at
        ("isr", _INTS),
        ("elr", _INTS),
        ("dead_brokers", _INTS),
        ("min_insync_replicas", pa.int32()),
        ("unclean_leader_election", pa.bool_()),
        ("size_bytes", pa.int64()),
        ("bytes_in_per_s", pa.float64()),
        ("bytes_out_per_s", pa.float64()),
    ]
)

_KEYS = ("cluster_id", "snapshot_id", "scheme", "failed_broker", "receiver")
_COUNTS = (
    "leaders",  # leaderships that pass from failed_broker to receiver; with receiver -1: that end with it
    "unclean_elections",
    "newly_offline",
    "newly_offline_unsized",  # of those, of unknown size
    "newly_under_min_isr",
    "under_min_isr_to_offline",
    "newly_at_one_replica",
    "at_one_replica_to_offline",
    "offline",  # the last three only on rows of failed_broker -1: the cluster as it is
    "under_min_isr",
    "at_one_replica",
)
TAKEOVERS = pa.schema(
    [
        ("cluster_id", pa.string()),
        ("snapshot_id", pa.string()),
        ("scheme", pa.string()),
        ("failed_broker", pa.int32()),
        ("receiver", pa.int32()),
        *((name, pa.int64()) for name in _COUNTS),
        ("size_bytes", pa.int64()),
        ("bytes_in_per_s", pa.float64()),
        ("bytes_out_per_s", pa.float64()),
    ]
)
_SUMS = (*_COUNTS, *_WEIGHTS)
_FLUSH_ROWS = 2_000_000


class _Lists:
    def __init__(self, array: pa.Array) -> None:
        self.offsets = offsets_of(pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False))
        self.flat = array.flatten().to_numpy(zero_copy_only=False)


def _numpy(batch: pa.RecordBatch, name: str, missing: object) -> npt.NDArray[Any]:
    column = batch.column(batch.schema.get_field_index(name))
    return np.asarray(pc.fill_null(column, pa.scalar(missing, column.type)))


def takeovers_of(batch: pa.RecordBatch) -> pa.Table:
    """Sums (schema TAKEOVERS) over these partitions (schema PLACED), of each single broker's death."""
    column = {name: batch.column(i) for i, name in enumerate(batch.schema.names)}
    replicas, isr, elr, dead = (_Lists(column[n]) for n in ("replicas", "isr", "elr", "dead_brokers"))
    row = row_of(replicas.offsets)
    all_in_sync = np.asarray(column["all_in_sync"])
    alive = np.ones(len(replicas.flat), dtype=np.bool_)
    if len(dead.flat):
        alive = ~contained(replicas.flat, replicas.offsets, dead.flat, dead.offsets)
    in_isr = all_in_sync[row] | contained(replicas.flat, replicas.offsets, isr.flat, isr.offsets)
    leader = _numpy(batch, "leader", NO_LEADER).astype(np.int32)
    minimum = _numpy(batch, "min_insync_replicas", 1).astype(np.int64)
    state = PartitionArrays(
        replicas.offsets,
        replicas.flat,
        in_isr,
        contained(replicas.flat, replicas.offsets, elr.flat, elr.offsets),
        leader,
        _numpy(batch, "unclean_leader_election", False).astype(np.bool_),
    )
    live_isr = count_true(in_isr & alive, replicas.offsets)
    led = leader != NO_LEADER
    under, one = led & (live_isr < minimum), led & (live_isr == 1)

    successor, cause = successor_if_leader_dies(state, alive)
    # Out of an ELR or an unclean election, the new leader begins with itself as the whole ISR.
    left = np.where((cause == UNCLEAN) | (cause == FROM_ELR), 1, live_isr - 1)
    dies = {
        "leaders": led,
        "unclean_elections": led & (cause == UNCLEAN),
        "newly_offline": led & (cause == OFFLINE),
        "newly_offline_unsized": led & (cause == OFFLINE) & np.asarray(column["size_bytes"].is_null()),
        "newly_under_min_isr": led & (cause != OFFLINE) & ~under & (left < minimum),
        "under_min_isr_to_offline": under & (cause == OFFLINE),
        "newly_at_one_replica": led & (cause != OFFLINE) & ~one & (left == 1),
        "at_one_replica_to_offline": one & (cause == OFFLINE),
    }
    parts = [_rows(batch, np.flatnonzero(led), leader[led], successor[led], {k: v[led] for k, v in dies.items()}, True)]

    follows = alive & in_isr & (replicas.flat != leader[row]) & led[row]
    newly_under = follows & (~under & (live_isr - 1 < minimum))[row]
    newly_one = follows & (live_isr == 2)[row]
    hit = np.flatnonzero(newly_under | newly_one)
    shrinks = {"newly_under_min_isr": newly_under[hit], "newly_at_one_replica": newly_one[hit]}
    nobody = np.full(len(hit), NOBODY, dtype=np.int32)
    parts.append(_rows(batch, row[hit], replicas.flat[hit], nobody, shrinks, False))

    every = np.arange(len(leader))
    now = {"offline": ~led, "under_min_isr": under, "at_one_replica": one, "leaders": led}
    nobody = np.full(len(every), NOBODY, dtype=np.int32)
    parts.append(_rows(batch, every, nobody, nobody, now, True))
    return _summed(pa.concat_tables(parts))


def _rows(
    batch: pa.RecordBatch,
    rows: npt.NDArray[np.int64],
    failed: npt.NDArray[np.int32],
    receiver: npt.NDArray[np.int32],
    counts: dict[str, npt.NDArray[np.bool_]],
    weighed: bool,
) -> pa.Table:
    at = pa.array(rows)
    columns = [batch.column(batch.schema.get_field_index(name)).take(at) for name in _KEYS[:3]]
    columns += [pa.array(failed, pa.int32()), pa.array(receiver, pa.int32())]
    zeros = pa.array(np.zeros(len(rows), dtype=np.int64))
    columns += [pa.array(counts[n].astype(np.int64)) if n in counts else zeros for n in _COUNTS]
    for name in _WEIGHTS:
        weight = batch.column(batch.schema.get_field_index(name))
        columns.append(weight.take(at) if weighed else pa.nulls(len(rows), weight.type))
    return pa.Table.from_arrays(columns, schema=TAKEOVERS)


def _summed(table: pa.Table) -> pa.Table:
    # min_count 1: the sum of unknown loads alone is unknown, not zero.
    option = pc.ScalarAggregateOptions(skip_nulls=True, min_count=1)
    grouped = table.group_by(list(_KEYS), use_threads=False).aggregate([(name, "sum", option) for name in _SUMS])
    return (
        grouped.rename_columns([n.removesuffix("_sum") for n in grouped.column_names])
        .select(TAKEOVERS.names)
        .cast(TAKEOVERS)
    )


def sum_takeovers(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `DataFrame.mapInArrow`: batches of PLACED -> sums per task (schema TAKEOVERS), to be summed once more."""
    held: list[pa.Table] = []
    for batch in batches:
        if batch.num_rows:
            held.append(takeovers_of(batch))
        if sum(t.num_rows for t in held) > _FLUSH_ROWS:
            held = [_summed(pa.concat_tables(held))]
    if held:
        yield from _summed(pa.concat_tables(held)).to_batches()
