"""Make the rows of gold.current_loads and gold.leader_hotspots: the load of brokers before any failure."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.arrow.column_declarations import DOUBLE, INT, LONG, TEXT, column, schema_of
from udfs.failures.failure_outcomes import SchemeAggregates
from udfs.failures.kernels import broker_sums
from udfs.failures.partition_arrays import Placement
from udfs.hotspots.hotspot_measures import BrokerParts, measure_leaders

CURRENT_LOAD_COLUMNS = (
    column("broker_id", INT, "broker id", required=True),
    column("rack", TEXT, "its rack"),
    column("leaders", LONG, "partitions it leads", required=True),
    column("preferred_leaders", LONG, "partitions whose first replica it is", required=True),
    column("replicas", LONG, "replicas it holds", required=True),
    column("size_bytes", LONG, "bytes of the replicas it holds; null = no size is known"),
    column("bytes_in_per_s", DOUBLE, "bytes per second written to the replicas it holds; null = unknown"),
    column("bytes_out_per_s", DOUBLE, "bytes per second that consumers fetch from what it leads; null = unknown"),
)


def current_load_rows(aggregates: SchemeAggregates, racks: tuple[str | None, ...]) -> pa.Table:
    """Return a row of gold.current_loads for every live broker, even if it holds nothing."""
    counts, loads = aggregates.sums["broker_counts"], aggregates.sums["broker_loads"]
    unknown = np.broadcast_to(aggregates.sums["known"] == 0, (len(counts), 3))
    size = loads[:, broker_sums.SIZE].astype(np.int64)
    columns = [
        aggregates.ids,
        pa.array(racks, TEXT),
        *counts[:, [broker_sums.LED, broker_sums.PREFERRED, broker_sums.REPLICAS]].T,
        pa.array(size, mask=unknown[:, 0].copy()),
        pa.array(loads[:, broker_sums.REPLICA_BYTES_IN], mask=unknown[:, 1].copy()),
        pa.array(loads[:, broker_sums.LEADER_BYTES_OUT], mask=unknown[:, 2].copy()),
    ]
    return pa.Table.from_arrays(columns, schema=schema_of(CURRENT_LOAD_COLUMNS))


def topic_hotspots(
    placement: Placement, topics: pa.Array, ids: npt.NDArray[np.int32], hot_ratio: float
) -> pa.RecordBatch:
    """Measure each topic that has partitions in a shard. topics: names, as in placement.rows."""
    count, n, room = len(topics), len(ids), len(placement.group.broker)
    totals, ends = np.zeros((count, broker_sums.TOTALS), np.int64), np.zeros(count, np.int64)
    leaders, in_sync = np.empty(room, np.int64), np.empty(room, np.int64)
    out = broker_sums.TopicParts(totals, ends, np.empty(room, np.int32), leaders, in_sync, np.empty(room))
    used = slice(broker_sums.count_topics(placement.group, placement.rows, placement.out_rate, n, out))
    broker = out.broker[used]
    parts = BrokerParts(ids[broker] if n else broker, leaders[used], in_sync[used], out.out_rate[used])
    measures = measure_leaders(topics, n, np.append(0, ends), parts, totals, hot_ratio)
    return measures.filter(pa.array(totals[:, broker_sums.PARTITIONS] > 0))


def cluster_hotspot_rows(aggregates: SchemeAggregates, hot_ratio: float) -> pa.RecordBatch:
    """Measure the cluster as a whole: one row, none if it has no partition."""
    counts, loads = aggregates.sums["broker_counts"], aggregates.sums["broker_loads"]
    totals = aggregates.sums["totals"][None]
    has_replicas = np.flatnonzero(counts[:, broker_sums.IN_SYNC])
    # One partition of unknown rate makes every sum unknown.
    is_known = int(aggregates.sums["known"][2]) == int(totals[0, broker_sums.PARTITIONS])
    rate = np.where(is_known, loads[has_replicas, broker_sums.LEADER_BYTES_OUT], np.nan)
    leaders, in_sync = counts[has_replicas, broker_sums.LED], counts[has_replicas, broker_sums.IN_SYNC]
    parts = BrokerParts(aggregates.ids[has_replicas], leaders, in_sync, rate)
    offsets = np.array([0, len(has_replicas)], dtype=np.int64)
    cluster = measure_leaders(pa.nulls(1, TEXT), int(aggregates.counted.sum()), offsets, parts, totals, hot_ratio)
    return cluster.filter(pa.array(totals[:, broker_sums.PARTITIONS] > 0))
