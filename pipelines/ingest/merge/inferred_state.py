"""Partitions of which no source tells leader and ISR (a reassignment, a model): taken as healthy, and marked so."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.merge.merged_schemas import PARTITIONS
from udfs.arrow.columns import Lists, flags, numbers, valid, whole
from udfs.arrow.ragged import count_true, first_true, offsets_of, row_of

SETTLED = PARTITIONS.append(pa.field("state_inferred", pa.bool_()))


def settle(partitions: pa.Table, down: np.ndarray) -> pa.Table:
    """The partitions (schema SETTLED) with leader and ISR known for all that have replicas.

    partitions: schema PARTITIONS.   down: int32 ids of down brokers.
    Where nothing is said, the ISR is the live replicas and the leader the first of them. Without replicas, leader
    and ISR stay as they are said: a ZooKeeper dump may hold a partition's state without its assignment.
    """
    replicas, isr = Lists.of(partitions["replicas"]), Lists.of(partitions["isr"])
    silent = replicas.valid & ~valid(partitions["leader"]) & ~isr.valid
    live = ~np.isin(replicas.flat, down)
    first = first_true(live, replicas.offsets)
    inferred = np.where(first >= 0, replicas.flat[first] if len(replicas.flat) else -1, -1)
    said = numbers(partitions["leader"], -1)
    leader = pa.array(
        np.where(silent, inferred, said).astype(np.int32), mask=~(replicas.valid | valid(partitions["leader"]))
    )

    lengths = np.where(silent, count_true(live, replicas.offsets), np.diff(isr.offsets))
    offsets = offsets_of(lengths)
    flat = np.empty(int(offsets[-1]), dtype=np.int32)
    from_replicas = silent[row_of(offsets)]
    flat[from_replicas] = replicas.flat[live & silent[row_of(replicas.offsets)]]
    flat[~from_replicas] = isr.flat[~silent[row_of(isr.offsets)]]
    in_sync = Lists(flat, offsets, replicas.valid | isr.valid).to_arrow()

    names = partitions.schema.names
    table = partitions.set_column(names.index("leader"), "leader", leader)
    table = table.set_column(names.index("isr"), "isr", in_sync)
    return table.append_column("state_inferred", pa.array(silent)).cast(SETTLED)


def down_brokers(brokers: pa.Table) -> np.ndarray:
    """Ids (int32) of the down among brokers (schema BROKERS)."""
    return numbers(brokers["broker_id"]).astype(np.int32)[~flags(brokers["live"])]


def live_brokers(brokers: pa.Table) -> np.ndarray:
    """Ids (int32, ascending) of the live among brokers (schema BROKERS)."""
    return np.sort(whole(brokers["broker_id"]).filter(pc.fill_null(whole(brokers["live"]), False)).to_numpy())
