"""gold.broker_load and gold.leader_hotspots: columns, and rows out of the aggregates."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.arrow.table_columns import DOUBLE, INT, LONG, TEXT, column, schema_of
from udfs.failures.failure_outcomes import SchemeAggregates
from udfs.failures.kernels.broker_sums import (
    ALL_REPLICAS,
    IN_SYNC,
    LEADER_BYTES_IN,
    LEADER_BYTES_OUT,
    LED,
    LED_BY_FIRST,
    PARTITIONS,
    PREFERRED,
    REPLICA_BYTES_IN,
    REPLICAS,
    SIZE,
    TOTALS,
    UNDER_REPLICATED,
    count_topics,
)
from udfs.failures.kernels.partition_arrays import TopicParts
from udfs.failures.partition_groups import Placement
from udfs.hotspots.hotspot_measures import BrokerParts, LeaderCounts, measure_leaders

BROKER_LOAD_COLUMNS = (
    column("broker_id", INT, "broker id", required=True),
    column("rack", TEXT, "its rack"),
    column("leaders", LONG, "partitions it leads", required=True),
    column("preferred_leaders", LONG, "partitions whose first replica it is", required=True),
    column("replicas", LONG, "replicas it holds", required=True),
    column("size_bytes", LONG, "bytes of the replicas it holds; null = no size is known"),
    column("bytes_in_per_s", DOUBLE, "bytes per second written to the replicas it holds; null = unknown"),
    column("bytes_out_per_s", DOUBLE, "bytes per second that consumers fetch from what it leads; null = unknown"),
    column("leader_bytes_in_per_s", DOUBLE, "bytes per second produced to what it leads; null = unknown"),
)


def broker_load_rows(aggregates: SchemeAggregates, racks: tuple[str | None, ...]) -> pa.Table:
    """Return a row of gold.broker_load for every live broker, even if it holds nothing."""
    counts, loads = aggregates.counts("broker_counts"), aggregates.floats("broker_loads")
    has_size, has_in, has_out = (bool(known) for known in aggregates.counts("known").tolist())

    def nullable(values: npt.NDArray[np.generic], is_known: bool, kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind) if is_known else pa.nulls(len(values), kind)

    columns = [
        pa.array(aggregates.ids, INT),
        pa.array(racks, TEXT),
        *(pa.array(counts[:, which]) for which in (LED, PREFERRED, REPLICAS)),
        nullable(loads[:, SIZE].astype(np.int64), has_size, LONG),
        nullable(loads[:, REPLICA_BYTES_IN], has_in, DOUBLE),
        nullable(loads[:, LEADER_BYTES_OUT], has_out, DOUBLE),
        nullable(loads[:, LEADER_BYTES_IN], has_in, DOUBLE),
    ]
    return pa.Table.from_arrays(columns, schema=schema_of(BROKER_LOAD_COLUMNS))


def _leader_counts(
    topics: pa.Array, brokers: int, totals: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64], parts: BrokerParts
) -> LeaderCounts:
    counts = (totals[:, which] for which in (PARTITIONS, ALL_REPLICAS, LED_BY_FIRST, UNDER_REPLICATED))
    return LeaderCounts(topics, np.full(len(topics), brokers, np.int64), offsets, parts, *counts)


def topic_hotspots(
    placement: Placement, topics: pa.Array, ids: npt.NDArray[np.int32], hot_ratio: float
) -> pa.RecordBatch:
    """Measure each topic that has partitions in a shard. topics: names, as in placement.rows."""
    count, n, room = len(topics), len(ids), len(placement.group.broker)
    out = TopicParts(
        totals=np.zeros((count, TOTALS), np.int64),
        ends=np.zeros(count, np.int64),
        broker=np.empty(room, np.int32),
        leaders=np.empty(room, np.int64),
        in_sync=np.empty(room, np.int64),
        out_rate=np.empty(room),
    )
    n_parts = count_topics(placement.group, placement.rows, placement.out_rate, n, out)
    broker = out.broker[:n_parts]
    parts = BrokerParts(
        ids[broker] if n else broker, out.leaders[:n_parts], out.in_sync[:n_parts], out.out_rate[:n_parts]
    )
    counts = _leader_counts(topics, n, out.totals, np.append(0, out.ends), parts)
    return measure_leaders(counts, hot_ratio).filter(pa.array(out.totals[:, PARTITIONS] > 0))


def cluster_hotspots(aggregates: SchemeAggregates, hot_ratio: float) -> pa.RecordBatch:
    """Measure the cluster as a whole: one row, none if it has no partition."""
    counts, loads = aggregates.counts("broker_counts"), aggregates.floats("broker_loads")
    totals = aggregates.counts("totals")[None]
    has_replicas = np.flatnonzero(counts[:, IN_SYNC])
    # One partition of unknown rate makes every sum unknown.
    is_known = int(aggregates.counts("known")[2]) == int(totals[0, PARTITIONS])
    rate = np.where(is_known, loads[has_replicas, LEADER_BYTES_OUT], np.nan)
    parts = BrokerParts(aggregates.ids[has_replicas], counts[has_replicas, LED], counts[has_replicas, IN_SYNC], rate)
    offsets = np.array([0, len(has_replicas)], dtype=np.int64)
    cluster = _leader_counts(pa.nulls(1, TEXT), len(aggregates.ids), totals, offsets, parts)
    return measure_leaders(cluster, hot_ratio).filter(pa.array(totals[:, PARTITIONS] > 0))
