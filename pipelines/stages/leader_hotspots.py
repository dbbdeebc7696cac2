"""gold.leader_hotspots: how unevenly leaders lie on brokers - per cluster, and per topic."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from pipelines.tables.gold import LEADER_HOTSPOTS
from udfs.hotspots import GROUPS, HOTSPOTS, measurer

_KEY = ("cluster_id", "snapshot_id")


@dataclass(frozen=True)
class HotspotParameters:
    """hot_ratio: a broker is hot when it leads more than this many times the mean."""

    hot_ratio: float


def leader_hotspots(placements: DataFrame, brokers: DataFrame, parameters: HotspotParameters) -> DataFrame:
    """Rows of gold.leader_hotspots. Dead brokers are neither in the mean nor hot."""
    living = brokers.where("alive").select(*_KEY, "broker_id")
    placed = placements.where(F.col("replicas").isNotNull())
    in_sync = F.coalesce(F.col("isr"), F.col("replicas"))
    held = placed.select(
        *_KEY,
        "scheme",
        "topic",
        "leader",
        "bytes_out_per_s",
        F.explode(in_sync).alias("broker_id"),
    )
    leads = F.col("leader") == F.col("broker_id")
    parts = held.join(living, on=[*_KEY, "broker_id"], how="left_semi")
    parts = parts.groupBy(*_KEY, "scheme", "topic", "broker_id").agg(
        F.count_if(leads).alias("leaders"),
        F.count("*").alias("in_sync"),
        F.sum(F.when(leads, F.coalesce("bytes_out_per_s", F.lit(float("nan")))).otherwise(F.lit(0.0))).alias("rate"),
    )
    of_topic = placed.groupBy(*_KEY, "scheme", "topic").agg(
        F.count("*").alias("partitions"),
        F.sum(F.size("replicas")).alias("replica_count"),
        F.count_if(F.col("leader") == F.get("replicas", F.lit(0))).alias("preferred"),
        F.count_if(F.col("isr").isNotNull()).alias("under_replicated"),
    )
    of_cluster = of_topic.groupBy(*_KEY, "scheme").agg(
        *(F.sum(name).alias(name) for name in ("partitions", "replica_count", "preferred", "under_replicated"))
    )
    cluster_parts = parts.groupBy(*_KEY, "scheme", "broker_id").agg(
        *(F.sum(name).alias(name) for name in ("leaders", "in_sync", "rate"))
    )
    part = F.struct("broker_id", "leaders", "in_sync", F.col("rate").alias("bytes_out_per_s"))
    sizes = living.groupBy(*_KEY).agg(F.count("*").alias("brokers"))

    def groups(totals: DataFrame, members: DataFrame, *key: str) -> DataFrame:
        collected = members.groupBy(*_KEY, "scheme", *key).agg(F.array_sort(F.collect_list(part)).alias("parts"))
        both = totals.join(collected, on=[*_KEY, "scheme", *key], how="left").join(sizes, on=list(_KEY), how="left")
        if not key:
            both = both.withColumn("topic", F.lit(None).cast("string"))
        none = F.array().cast(both.schema["parts"].dataType)
        return both.withColumn("parts", F.coalesce("parts", none)).fillna(0, ["brokers"]).select(*GROUPS.names)

    every = groups(of_cluster, cluster_parts).unionByName(groups(of_topic, parts, "topic"))
    measured = every.mapInArrow(measurer(parameters.hot_ratio), from_arrow_schema(HOTSPOTS))
    return measured.select(*LEADER_HOTSPOTS.column_names)
