"""Sizes, lags and offsets of replicas' logs, put beside the replicas they belong to."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.merge.fact_merge import Merged
from pipelines.ingest.merge.merged_schemas import LOG, STRAY_LOGS
from udfs.arrow.columns import Lists, numbers, valid
from udfs.arrow.ragged import offsets_of, row_of

Ints = npt.NDArray[np.int64]
LOG_FIELDS = ("size_bytes", "offset_lag", "log_end_offset", "high_watermark", "log_dir")


def log_keys(partition: Ints, broker: npt.NDArray[Any], future: npt.NDArray[np.bool_]) -> Ints:
    """One number per log: its partition's number (< 2**30), its broker id and whether it is a future log."""
    return (partition << np.int64(33)) | (broker.astype(np.int64) << np.int64(1)) | future.astype(np.int64)


def logs_beside_replicas(replicas: Lists, logs: Merged) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """(list<LOG> per partition, null where no log is known; bool per log: an assigned replica accounts for it).

    logs: merged by `log_keys`, partitions numbered as the rows of `replicas`.
    """
    rows = row_of(replicas.offsets)
    wanted = log_keys(rows, replicas.flat, np.zeros(len(rows), dtype=np.bool_))
    used = np.zeros(len(logs.keys), dtype=np.bool_)
    if not len(logs.keys):
        return pa.nulls(len(replicas.valid), pa.list_(LOG)), used
    at = np.minimum(np.searchsorted(logs.keys, wanted), len(logs.keys) - 1)
    found = logs.keys[at] == wanted
    used[at[found]] = True
    index = pa.array(at, mask=~found)
    columns = [logs.table[name].combine_chunks().take(index) for name in LOG_FIELDS]
    values = pa.StructArray.from_arrays(columns, fields=list(LOG), mask=pa.array(~found))
    known = np.zeros(len(replicas.valid), dtype=np.bool_)
    known[rows[found]] = True
    lengths = np.where(known, np.diff(replicas.offsets), 0)
    lists = pa.ListArray.from_arrays(pa.array(offsets_of(lengths), pa.int32()), values.filter(pa.array(known[rows])))
    return pc.if_else(pa.array(known), lists, pa.nulls(len(lists), lists.type)), used


def partition_sizes(replicas: Lists, leader: npt.NDArray[np.int32], logs: pa.Array) -> pa.Array:
    """Size of each partition (int64 bytes, null = unknown): its leader's log, else its largest assigned log."""
    out = np.full(len(logs), -1, dtype=np.int64)
    known = valid(logs)
    if known.any():
        rows = np.repeat(np.arange(len(logs)), numbers(pc.list_value_length(logs)).astype(np.int64))
        size = numbers(pc.struct_field(logs.flatten(), "size_bytes"), -1).astype(np.int64)
        np.maximum.at(out, rows, size)
        leads = (replicas.flat[known[row_of(replicas.offsets)]] == leader[rows]) & (size >= 0)
        out[rows[leads]] = size[leads]
    return pa.array(out, mask=out < 0)


def stray_logs(facts: pa.Table, logs: Merged, stray: npt.NDArray[np.bool_]) -> pa.Table:
    """Logs that no assigned replica accounts for (schema STRAY_LOGS): left over, or being moved between directories.

    facts: what `logs` was merged from.   stray: bool per merged log.
    """
    first = pa.array(logs.order[logs.offsets[:-1]][stray])
    rows = pa.array(np.flatnonzero(stray))
    log = pa.StructArray.from_arrays(
        [logs.table[name].combine_chunks().take(rows) for name in LOG_FIELDS], fields=list(LOG)
    )
    names = ("topic", "partition", "broker_id")
    future = pc.fill_null(facts["is_future"].combine_chunks().take(first), False)
    columns = [facts[name].combine_chunks().take(first) for name in names]
    return pa.Table.from_arrays([*columns, future, log], schema=STRAY_LOGS)
