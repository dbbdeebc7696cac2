"""Make the rows of gold.load_history, and from those of all snapshots gold.growth and gold.growth_forecasts."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import reduce
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from pipelines.config.capacity_file import match_disks
from pipelines.ingest.sources import SnapshotKey
from pipelines.spark.arrow_frames import complete_frame, copy_table, make_rows
from pipelines.spark.entity_shards import sum_shard_logs
from pipelines.spark.sql_session import SqlSession
from pipelines.sql_text import match_snapshots
from pipelines.tables.gold_tables import LOAD_HISTORY
from pipelines.tables.growth_tables import GROWTH
from pipelines.tables.table_contract import SNAPSHOT_KEY
from udfs.failures.disk_limits import find_disk_limits
from udfs.growth.forecast_rows import FORECASTS, LIMITS, Limit, forecast_rows
from udfs.growth.growth_rows import US_PER_DAY, HistoryLimits, growth_rows, select_samples
from udfs.growth.load_history import LOAD_SAMPLES, QUANTITIES, SubjectKind

_KNOWN = {name: known for name, known in QUANTITIES.items() if name != "replicas"}
_DISK_LIMITS = pa.schema(
    [
        ("cluster_id", pa.string()),
        ("broker_id", pa.int32()),
        ("log_dir", pa.string()),  # null = all of the broker
        ("limit_value", pa.float64()),
        ("free_bytes", pa.float64()),  # if limit_value is null: by which logs can grow; null = unknown
        ("limit_source", pa.string()),
    ]
)
_SAMPLES = pa.schema([("cluster_id", pa.string()), ("snapshot_id", pa.string()), ("sample", pa.int32())])
DISKS = "known_disks"
FORECAST_INPUTS = ("gold.growth", "gold.headroom")
_GROWTH_COLUMNS = ", ".join(f"g.{name}" for name in LIMITS.names if not name.startswith("limit_"))
# The load of the worst survivor grows as that of the cluster: it reaches its capacity at this load of the cluster.
_LIMITS_SQL = f"""
WITH g AS (SELECT * FROM gold.growth WHERE {{condition}})
SELECT g.cluster_id, g.snapshot_id, '{Limit.DISK_FULL}' AS limit_name,
       CAST(coalesce(d.limit_value, g.latest_value + d.free_bytes) AS DOUBLE) AS limit_value, d.limit_source,
       {_GROWTH_COLUMNS}
FROM g JOIN {DISKS} d ON g.cluster_id = d.cluster_id AND g.broker_id = d.broker_id AND g.log_dir <=> d.log_dir
WHERE g.quantity = 'size_bytes'
UNION ALL
SELECT g.cluster_id, g.snapshot_id, '{Limit.SURVIVOR_OVER_CAPACITY}',
       try_divide(coalesce(g.level, g.latest_value), 1 + h.required_headroom_ratio),
       coalesce('capacity.file, broker ' || h.worst_broker || ' after the failure of ' || h.worst_scenario,
                'add ' || g.quantity || ' to capacity.file'),
       {_GROWTH_COLUMNS}
FROM g LEFT JOIN (
  SELECT * FROM gold.headroom
  WHERE {{condition}} AND scheme = 'observed' AND scenario_kind = 'broker' AND capacity_source = 'file'
) h ON g.cluster_id = h.cluster_id AND g.snapshot_id = h.snapshot_id AND g.quantity = h.quantity
WHERE g.subject_kind = '{SubjectKind.CLUSTER}' AND g.quantity IN ('bytes_in_per_s', 'bytes_out_per_s')
UNION ALL
SELECT g.cluster_id, g.snapshot_id, '{Limit.BROKER_PARTITIONS}', CAST({{per_broker}} AS DOUBLE),
       'growth.max_partitions_per_broker', {_GROWTH_COLUMNS}
FROM g WHERE g.subject_kind = '{SubjectKind.BROKER}' AND g.quantity = 'replicas'
UNION ALL
SELECT g.cluster_id, g.snapshot_id, '{Limit.CLUSTER_PARTITIONS}', CAST({{per_cluster}} AS DOUBLE),
       'growth.max_partitions_per_cluster', {_GROWTH_COLUMNS}
FROM g WHERE g.subject_kind = '{SubjectKind.CLUSTER}' AND g.quantity = 'replicas'
"""


class ClusterSample(NamedTuple):
    """A time at which a run saw a cluster."""

    snapshot_id: str
    at: datetime  # UTC


Samples = Mapping[str, Sequence[ClusterSample]]  # by cluster, in the order of their times


class PartitionLimits(NamedTuple):
    """How many replicas a broker and a cluster should have at most."""

    per_broker: int
    per_cluster: int


def load_history(
    entities: DataFrame, topics: DataFrame, partitions: DataFrame, brokers: DataFrame, log_dirs: DataFrame
) -> DataFrame:
    """Compute gold.load_history from internal.entities and silver tables."""
    known = partitions.where(F.col("replicas").isNotNull()).withColumn("copies", F.size("replicas"))
    by_topic = known.groupBy(*SNAPSHOT_KEY, "topic").agg(
        F.count("*").alias("partitions"),
        F.sum("copies").alias("replicas"),
        F.sum(_sum_replicas()).alias("size_bytes"),
        *(F.sum(name).alias(name) for name in ("bytes_in_per_s", "bytes_out_per_s")),
        *(F.count(name).alias(count) for name, count in _KNOWN.items()),
    )
    ids = topics.select(*SNAPSHOT_KEY, "topic", "topic_id", F.col("partitions").cast("long").alias("all_partitions"))
    of_topics = by_topic.join(ids, on=[*SNAPSHOT_KEY, "topic"], how="left")
    sums = ("partitions", "replicas", *_KNOWN, *_KNOWN.values())
    of_cluster = by_topic.groupBy(*SNAPSHOT_KEY).agg(*(F.sum(name).alias(name) for name in sums))
    all_partitions = ids.groupBy(*SNAPSHOT_KEY).agg(F.sum("all_partitions").alias("all_partitions"))
    of_cluster = of_cluster.join(all_partitions, on=[*SNAPSHOT_KEY], how="left")
    sums = ("replicas", *_KNOWN, *_KNOWN.values())
    of_logs = sum_shard_logs(entities, brokers).groupBy(*SNAPSHOT_KEY, "broker_id")
    by_broker = of_logs.agg(*(F.sum(name).alias(name) for name in sums))
    all_brokers = brokers.select(*SNAPSHOT_KEY, "broker_id").join(by_broker, [*SNAPSHOT_KEY, "broker_id"], "left")
    of_brokers = all_brokers.fillna(0, ["replicas", *_KNOWN.values()]).withColumn("partitions", F.col("replicas"))
    nothing = F.lit(0).cast("long")
    is_known = F.col("used_bytes").isNotNull()
    of_log_dirs = log_dirs.withColumns(
        {
            "size_bytes": F.col("used_bytes"),
            "partitions": F.col("replicas"),
            **dict.fromkeys(_KNOWN.values(), nothing),
            "partitions_with_size": F.when(is_known, F.col("replicas")).otherwise(nothing),
        }
    )
    frames = {
        SubjectKind.CLUSTER: of_cluster,
        SubjectKind.BROKER: of_brokers,
        SubjectKind.LOG_DIR: of_log_dirs,
        SubjectKind.TOPIC: of_topics,
    }
    named = (frame.withColumn("subject_kind", F.lit(str(kind))) for kind, frame in frames.items())
    rows = (complete_frame(frame, LOAD_HISTORY.schema) for frame in named)
    return reduce(DataFrame.unionByName, rows)


def _sum_replicas() -> Column:
    """Sum the bytes of the replicas of a partition; null if its size is unknown."""
    total = F.aggregate("replica_sizes", F.lit(0).cast("long"), lambda total, size: total + F.coalesce(size, F.lit(0)))
    return F.when(F.col("size_bytes").isNotNull(), total)


def select_history(samples: Sequence[ClusterSample], limits: HistoryLimits) -> list[ClusterSample]:
    """Select the samples of a cluster that growth uses, in the order of their times, which differ."""
    at = np.array([_to_us(sample.at) for sample in samples], dtype=np.int64)
    return [samples[i] for i in select_samples(at, limits).tolist()]


def growth(totals: DataFrame, samples: Samples, limits: HistoryLimits) -> DataFrame:
    """Compute gold.growth for the newest snapshots of clusters.

    totals: gold.load_history of all samples. samples: from select_history, by cluster.
    """
    chosen = F.broadcast(copy_table(totals.sparkSession, _list_samples(samples), from_arrow_schema(_SAMPLES)))

    def measure(key: tuple[pa.Scalar, ...], loads: pa.Table) -> pa.Table:
        return _measure_cluster(key[0].as_py(), loads, samples, limits)

    loads = totals.join(chosen, on=list(SNAPSHOT_KEY)).select("cluster_id", *LOAD_SAMPLES.names)
    return loads.groupBy("cluster_id").applyInArrow(measure, GROWTH.schema).select(*GROWTH.column_names)


def growth_of_few(totals: pa.Table, samples: Samples, limits: HistoryLimits) -> pa.Table:
    """Compute the same without Spark."""
    loads = totals.join(_list_samples(samples), keys=list(SNAPSHOT_KEY), join_type="inner")
    of_clusters = ((cluster, loads.filter(pc.equal(loads["cluster_id"], cluster))) for cluster in samples)
    measured = [_measure_cluster(cluster, own, samples, limits) for cluster, own in of_clusters if own.num_rows]
    return pa.concat_tables(measured) if measured else to_arrow_schema(GROWTH.schema).empty_table()


def _list_samples(samples: Samples) -> pa.Table:
    rows = [(name, one.snapshot_id, index) for name, own in samples.items() for index, one in enumerate(own)]
    return make_rows(rows, from_arrow_schema(_SAMPLES))


def _measure_cluster(cluster: str, loads: pa.Table, samples: Samples, limits: HistoryLimits) -> pa.Table:
    """Measure the growth of a cluster from loads with the columns of LOAD_SAMPLES."""
    own = samples[cluster]
    times = np.array([_to_us(one.at) for one in own], dtype=np.int64)
    trends = growth_rows(loads.select(LOAD_SAMPLES.names).cast(LOAD_SAMPLES), times, limits)
    keys = [pa.repeat(value, trends.num_rows) for value in (cluster, own[-1].snapshot_id)]
    return pa.Table.from_arrays([*keys, *trends.columns], names=[*SNAPSHOT_KEY, *trends.column_names])


def _to_us(at: datetime) -> int:
    return round(at.timestamp() * US_PER_DAY / 86_400)


def disk_limits(
    brokers: pa.Table, log_dirs: pa.Table, capacities: Mapping[tuple[str, int, str], float], broker_bytes: int
) -> pa.Table:
    """List what is known of the disks of brokers, and of the log dirs of those with several (schema _DISK_LIMITS).

    brokers, log_dirs: rows of silver tables. capacities: as read_disk_capacities returns them. broker_bytes:
    plans.broker_bytes, 0 = unknown.
    """
    by_cluster: dict[str, list[int]] = {}
    for cluster, broker in zip(brokers["cluster_id"].to_pylist(), brokers["broker_id"].to_pylist(), strict=True):
        by_cluster.setdefault(cluster, []).append(broker)
    rows = []
    for cluster, ids in by_cluster.items():
        own = log_dirs.filter(pc.equal(log_dirs["cluster_id"], cluster))
        limits = find_disk_limits(ids, own, match_disks(capacities, cluster), broker_bytes)
        rows += [(cluster, *place, *limit) for place, limit in limits.items()]
    return make_rows(rows, from_arrow_schema(_DISK_LIMITS))


def growth_forecasts(session: SqlSession, newest: Sequence[SnapshotKey], partition_limits: PartitionLimits) -> pa.Table:
    """Compute gold.growth_forecasts of the newest snapshots of clusters.

    session: for SQL over FORECAST_INPUTS, and the table DISKS from disk_limits.
    partition_limits: How many replicas a broker and a cluster should have at most.
    """
    sql = _LIMITS_SQL.format(
        condition=match_snapshots(newest),
        per_broker=float(partition_limits.per_broker),
        per_cluster=float(partition_limits.per_cluster),
    )
    rows = session.run(sql)
    forecasts = forecast_rows(rows.select(LIMITS.names).cast(LIMITS))
    columns = [*rows.select(list(SNAPSHOT_KEY)).columns, *forecasts.columns]
    return pa.Table.from_arrays(columns, names=[*SNAPSHOT_KEY, *FORECASTS.names])
