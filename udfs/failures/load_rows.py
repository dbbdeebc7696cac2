"""gold.broker_load and the rows of gold.leader_hotspots out of the sums."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.failures.failure_rows import Outcome
from udfs.failures.kernels.broker_sums import (
    BY_FIRST,
    HELD,
    HELD_IN,
    HELD_SIZE,
    IN_SYNC,
    LED,
    LED_IN,
    LED_OUT,
    PARTITIONS,
    PREFERRED,
    REPLICAS,
    TOTALS,
    UNDER_REPLICATED,
    topic_parts,
)
from udfs.failures.partition_groups import Placement
from udfs.hotspots.hotspot_measures import GROUPS, HOTSPOTS, PART, measure_batch

BROKER_LOAD = pa.schema(
    [
        ("broker_id", pa.int32()),
        ("rack", pa.string()),
        ("leaders", pa.int64()),
        ("preferred_leaders", pa.int64()),
        ("replicas", pa.int64()),
        ("size_bytes", pa.int64()),
        ("bytes_in_per_s", pa.float64()),
        ("bytes_out_per_s", pa.float64()),
        ("leader_bytes_in_per_s", pa.float64()),
    ]
)
# Measures of a group without its keys.
MEASURES = pa.schema(list(HOTSPOTS)[3:])


def broker_load(outcome: Outcome, racks: tuple[str | None, ...]) -> pa.Table:
    """A row for every live broker, also where it holds nothing (schema BROKER_LOAD)."""
    counts, loads = outcome.counts("held_counts"), outcome.array("held_loads")
    sized, into, out = (bool(known) for known in outcome.counts("known").tolist())

    def known(values: npt.NDArray[np.generic], told: bool, kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind) if told else pa.nulls(len(values), kind)

    columns = [
        pa.array(outcome.ids, pa.int32()),
        pa.array(racks, pa.string()),
        *(pa.array(counts[:, which]) for which in (LED, PREFERRED, HELD)),
        known(loads[:, HELD_SIZE].astype(np.int64), sized, pa.int64()),
        known(loads[:, HELD_IN], into, pa.float64()),
        known(loads[:, LED_OUT], out, pa.float64()),
        known(loads[:, LED_IN], into, pa.float64()),
    ]
    return pa.Table.from_arrays(columns, schema=BROKER_LOAD)


def _groups(
    topics: pa.Array,
    brokers: int,
    totals: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
    parts: tuple[npt.NDArray[np.generic], ...],
) -> pa.RecordBatch:
    """Groups (schema GROUPS) with parts (broker_id, leaders, in_sync, bytes_out), each group's from offsets on."""
    n = len(topics)
    arrays = [pa.array(values, field.type) for values, field in zip(parts, PART, strict=True)]
    lists = pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), pa.StructArray.from_arrays(arrays, fields=list(PART))
    )
    columns = [
        *(pa.repeat("", n) for _ in range(3)),
        topics,
        pa.array(np.full(n, brokers), pa.int64()),
        *(pa.array(totals[:, which]) for which in (PARTITIONS, REPLICAS, BY_FIRST, UNDER_REPLICATED)),
        lists,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=GROUPS)


def topic_hotspots(
    placement: Placement, topics: pa.Array, ids: npt.NDArray[np.int32], hot_ratio: float
) -> pa.RecordBatch:
    """Measures (schema MEASURES) of each topic that has partitions here. topics: names, as in placement.rows."""
    group, count, n = placement.group, len(topics), len(ids)
    room = len(group.broker)
    totals, ends = np.zeros((count, TOTALS), np.int64), np.zeros(count, np.int64)
    broker, leaders, in_sync, out = np.empty(room, np.int32), *np.empty((2, room), np.int64), np.empty(room)
    made = topic_parts(
        placement.rows,
        group.offsets,
        group.broker,
        group.in_isr,
        group.leader,
        placement.out_rate,
        n,
        totals,
        ends,
        broker,
        leaders,
        in_sync,
        out,
    )
    parts = (ids[broker[:made]] if n else broker[:made], leaders[:made], in_sync[:made], out[:made])
    every = _groups(topics, n, totals, np.append(0, ends), parts)
    shown = every.filter(pa.array(totals[:, PARTITIONS] > 0))
    return measure_batch(shown, hot_ratio).select(MEASURES.names)


def cluster_hotspots(outcome: Outcome, hot_ratio: float) -> pa.RecordBatch:
    """The measures (schema MEASURES) of the cluster as a whole: one row, none if it has no partition."""
    counts, loads = outcome.counts("held_counts"), outcome.array("held_loads")
    held = np.flatnonzero(counts[:, IN_SYNC])
    # With a partition of unknown rate, no sum is known.
    told = int(outcome.counts("known")[2]) == int(outcome.counts("totals")[PARTITIONS])
    out = np.where(told, loads[held, LED_OUT], np.nan)
    parts = (outcome.ids[held], counts[held, LED], counts[held, IN_SYNC], out)
    totals = outcome.counts("totals")[None]
    offsets = np.array([0, len(held)], dtype=np.int64)
    batch = _groups(pa.nulls(1, pa.string()), len(outcome.ids), totals, offsets, parts)
    batch = batch.filter(pa.array(totals[:, PARTITIONS] > 0))
    return measure_batch(batch, hot_ratio).select(MEASURES.names)
