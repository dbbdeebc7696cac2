"""Make the rows of gold.load_totals, and from those of all snapshots gold.growth and gold.growth_forecasts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import reduce
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from pipelines.config.capacity_file import match_disks
from pipelines.spark.arrow_frames import create_frame
from pipelines.tables.gold_tables import LOAD_TOTALS
from pipelines.tables.growth_tables import GROWTH, GROWTH_FORECASTS
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
_MAX_PARTITIONS = "growth.max_partitions_per_{}"


class ClusterSample(NamedTuple):
    """A time at which a run saw a cluster."""

    snapshot_id: str
    at: datetime  # UTC


class PartitionLimits(NamedTuple):
    """How many replicas a broker and a cluster should have at most."""

    per_broker: int
    per_cluster: int


def load_totals(topics: DataFrame, partitions: DataFrame, brokers: DataFrame, log_dirs: DataFrame) -> DataFrame:
    """Compute gold.load_totals from silver tables."""
    known = partitions.where(F.col("replicas").isNotNull()).withColumn("copies", F.size("replicas"))
    by_topic = known.groupBy(*SNAPSHOT_KEY, "topic").agg(
        F.count("*").alias("partitions"),
        F.sum("copies").alias("replicas"),
        F.sum(_sum_replicas()).alias("size_bytes"),
        *(F.sum(name).alias(name) for name in ("bytes_in_per_s", "bytes_out_per_s")),
        *(F.count(name).alias(count) for name, count in _KNOWN.items()),
    )
    sums = ("partitions", "replicas", *_KNOWN, *_KNOWN.values())
    of_cluster = by_topic.groupBy(*SNAPSHOT_KEY).agg(*(F.sum(name).alias(name) for name in sums))
    ids = topics.select(*SNAPSHOT_KEY, "topic", "topic_id")
    of_topics = by_topic.join(ids, on=[*SNAPSHOT_KEY, "topic"], how="left")
    replicas = known.select("*", F.posexplode("replicas").alias("at", "broker_id"))
    replicas = replicas.withColumn("size_bytes", F.get("replica_sizes", F.col("at")))
    out_rate = F.when(F.col("leader") == F.col("broker_id"), F.col("bytes_out_per_s")).otherwise(
        F.when(F.col("bytes_out_per_s").isNotNull(), 0.0)
    )
    by_broker = replicas.groupBy(*SNAPSHOT_KEY, "broker_id").agg(
        F.count("*").alias("replicas"),
        *(F.sum(name).alias(name) for name in ("size_bytes", "bytes_in_per_s")),
        F.sum(out_rate).alias("bytes_out_per_s"),
        *(F.count(name).alias(count) for name, count in _KNOWN.items()),
    )
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
    rows = (_complete(frame.withColumn("subject_kind", F.lit(str(kind)))) for kind, frame in frames.items())
    return reduce(DataFrame.unionByName, rows)


def _sum_replicas() -> Column:
    """Sum the bytes of the replicas of a partition; null if its size is unknown."""
    total = F.aggregate("replica_sizes", F.lit(0).cast("long"), lambda total, size: total + F.coalesce(size, F.lit(0)))
    return F.when(F.col("size_bytes").isNotNull(), total)


def _complete(frame: DataFrame) -> DataFrame:
    """Select the columns of gold.load_totals; those that the frame lacks are null."""
    fields = LOAD_TOTALS.schema.fields
    columns = (F.col(f.name) if f.name in frame.columns else F.lit(None).cast(f.dataType) for f in fields)
    return frame.select(*(column.alias(f.name) for column, f in zip(columns, fields, strict=True)))


def select_history(samples: Sequence[ClusterSample], limits: HistoryLimits) -> list[ClusterSample]:
    """Select the samples of a cluster that growth uses, in the order of their times, which differ."""
    at = np.array([_to_us(sample.at) for sample in samples], dtype=np.int64)
    return [samples[i] for i in select_samples(at, limits).tolist()]


def growth(totals: DataFrame, samples: Mapping[str, Sequence[ClusterSample]], limits: HistoryLimits) -> DataFrame:
    """Compute gold.growth for the newest snapshots of clusters.

    totals: gold.load_totals of all samples. samples: from select_history, by cluster.
    """
    times = {name: np.array([_to_us(one.at) for one in own], dtype=np.int64) for name, own in samples.items()}
    rows = [(name, one.snapshot_id, index) for name, own in samples.items() for index, one in enumerate(own)]
    schema = from_arrow_schema(
        pa.schema([("cluster_id", pa.string()), ("snapshot_id", pa.string()), ("sample", pa.int32())])
    )
    chosen = F.broadcast(create_frame(totals.sparkSession, rows, schema))
    newest = {cluster: own[-1].snapshot_id for cluster, own in samples.items()}

    def measure(key: tuple[pa.Scalar, ...], loads: pa.Table) -> pa.Table:
        cluster = key[0].as_py()
        trends = growth_rows(loads.select(LOAD_SAMPLES.names).cast(LOAD_SAMPLES), times[cluster], limits)
        keys = [pa.repeat(value, trends.num_rows) for value in (cluster, newest[cluster])]
        return pa.Table.from_arrays([*keys, *trends.columns], names=[*SNAPSHOT_KEY, *trends.column_names])

    loads = totals.join(chosen, on=list(SNAPSHOT_KEY)).select("cluster_id", *LOAD_SAMPLES.names)
    return loads.groupBy("cluster_id").applyInArrow(measure, GROWTH.schema).select(*GROWTH.column_names)


def _to_us(at: datetime) -> int:
    return round(at.timestamp() * US_PER_DAY / 86_400)


def disk_limits(
    brokers: DataFrame, log_dirs: DataFrame, capacities: Mapping[tuple[str, int, str], float], broker_bytes: int
) -> DataFrame:
    """List what is known of the disks of brokers, and of the log dirs of those with several (schema _DISK_LIMITS).

    capacities: as read_disk_capacities returns them. broker_bytes: plans.broker_bytes, 0 = unknown.
    """
    names = ("log_dir", "total_bytes", "usable_bytes", "log_dir_error", "used_bytes")
    dirs = log_dirs.select("cluster_id", "broker_id", *names).toArrow()
    by_cluster: dict[str, list[int]] = {}
    for cluster, broker in brokers.select("cluster_id", "broker_id").collect():
        by_cluster.setdefault(cluster, []).append(broker)
    rows = []
    for cluster, ids in by_cluster.items():
        own = dirs.filter(pc.equal(dirs["cluster_id"], cluster))
        limits = find_disk_limits(ids, own, match_disks(capacities, cluster), broker_bytes)
        rows += [(cluster, *place, *limit) for place, limit in limits.items()]
    return create_frame(brokers.sparkSession, rows, from_arrow_schema(_DISK_LIMITS))


def growth_forecasts(
    growth_of: DataFrame, headroom: DataFrame, disks: DataFrame, partition_limits: PartitionLimits
) -> DataFrame:
    """Compute gold.growth_forecasts.

    Args:
        growth_of: gold.growth of the newest snapshots.
        headroom: gold.headroom of the same snapshots.
        disks: From disk_limits, of the same snapshots.
        partition_limits: How many replicas a broker and a cluster should have at most.
    """
    of_brokers, of_clusters = (
        growth_of.where(F.col("subject_kind") == str(k)) for k in (SubjectKind.BROKER, SubjectKind.CLUSTER)
    )
    sizes = growth_of.where("quantity = 'size_bytes' AND broker_id IS NOT NULL").alias("g")
    same_disk = "g.cluster_id = d.cluster_id AND g.broker_id = d.broker_id AND g.log_dir <=> d.log_dir"
    with_disks = sizes.join(F.broadcast(disks.alias("d")), on=F.expr(same_disk)).select(
        "g.*", "limit_value", "free_bytes", "limit_source"
    )
    at_full = F.coalesce("limit_value", F.col("latest_value") + F.col("free_bytes"))
    full = _limit(with_disks, Limit.DISK_FULL, at_full, F.col("limit_source"))
    survivors = headroom.where("scheme = 'observed' AND scenario_kind = 'broker' AND capacity_source = 'file'").select(
        *SNAPSHOT_KEY, F.col("resource").alias("quantity"), "required_headroom_ratio", "worst_scenario", "worst_broker"
    )
    rates = of_clusters.where("quantity IN ('bytes_in_per_s', 'bytes_out_per_s')")
    with_capacity = rates.join(survivors, on=[*SNAPSHOT_KEY, "quantity"], how="left")
    worst = F.concat(F.lit("capacity.file, broker "), "worst_broker", F.lit(" after the failure of "), "worst_scenario")
    missing = F.concat(F.lit("add "), "quantity", F.lit(" to capacity.file"))
    # The load of the worst survivor grows as that of the cluster: it reaches its capacity at this load of the cluster.
    at_capacity = F.try_divide(F.coalesce("level", "latest_value"), 1 + F.col("required_headroom_ratio"))
    over = _limit(with_capacity, Limit.SURVIVOR_OVER_CAPACITY, at_capacity, F.coalesce(worst, missing))
    replicas = F.col("quantity") == "replicas"
    counts = [
        _limit(frame.where(replicas), name, F.lit(float(value)), F.lit(_MAX_PARTITIONS.format(unit)))
        for frame, name, value, unit in (
            (of_brokers, Limit.BROKER_PARTITIONS, partition_limits.per_broker, "broker"),
            (of_clusters, Limit.CLUSTER_PARTITIONS, partition_limits.per_cluster, "cluster"),
        )
    ]
    rows = full.unionByName(over).unionByName(counts[0]).unionByName(counts[1])

    def forecast(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            table = pa.Table.from_batches([batch])
            forecasts = forecast_rows(table.select(LIMITS.names).cast(LIMITS))
            columns = [*table.select(list(SNAPSHOT_KEY)).columns, *forecasts.columns]
            yield from pa.Table.from_arrays(columns, names=[*SNAPSHOT_KEY, *FORECASTS.names]).to_batches()

    return rows.mapInArrow(forecast, GROWTH_FORECASTS.schema).select(*GROWTH_FORECASTS.column_names)


def _limit(frame: DataFrame, name: Limit, value: Column, source: Column) -> DataFrame:
    """Select the growth of quantities with a limit."""
    added = {"limit_name": F.lit(str(name)), "limit_value": value.cast("double"), "limit_source": source}
    return frame.withColumns(added).select(*SNAPSHOT_KEY, *LIMITS.names)
