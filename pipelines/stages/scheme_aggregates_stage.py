"""gold.scheme_sums: one pass over the partitions, and over the topics for the schemes that are computed.

Rows of silver are packed into parcels by share of topics; a share is summed under every scheme, placing what is
computed on the way; the sums of a cluster's shares are added up. Only silver.partitions is as long as the cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type

from pipelines.tables.failure_tables import SCHEME_SUMS
from udfs.failures.partition_groups import PARTITIONS, TOPICS
from udfs.failures.shards import (
    NOTHING,
    OF_PARTITIONS,
    OF_TOPICS,
    PARCELS,
    PARTIAL,
    SUMS,
    Clusters,
    SumPlan,
    packer,
    sum_cluster,
    sum_share,
)
from udfs.placement.schemes import OBSERVED

_KEY = ("cluster_id", "snapshot_id")


@dataclass(frozen=True)
class SumParameters:
    """min_insync_replicas, unclean_leader_election: of topics whose sources show no such config.

    clusters: the living brokers of each snapshot of the run.   settings: what all this follows from, as JSON.
    """

    min_insync_replicas: int
    unclean_leader_election: bool
    clusters: Clusters
    plan: SumPlan
    settings: str


def _topics(topics: DataFrame, parameters: SumParameters) -> DataFrame:
    none = F.array().cast(from_arrow_type(TOPICS.field("partition_loads").type))
    rows = topics.select(
        *_KEY,
        "topic",
        "partitions",
        "replication_factor",
        F.coalesce("min_insync_replicas", F.lit(parameters.min_insync_replicas)).alias("min_insync_replicas"),
        F.coalesce("unclean_leader_election", F.lit(parameters.unclean_leader_election)).alias(
            "unclean_leader_election"
        ),
        F.coalesce("partition_loads", none).alias("partition_loads"),
    )
    return rows.mapInArrow(packer(OF_TOPICS, parameters.plan.shares), from_arrow_schema(PARCELS))


def _partitions(partitions: DataFrame, parameters: SumParameters) -> DataFrame:
    # Empty lists for null ones: Spark hands null lists to Python slowly (see conf/spark.toml).
    none = F.array().cast("array<int>")
    healthy = F.size("isr") == F.size("replicas")
    lags = F.transform("logs", lambda log: log.offset_lag)
    rows = partitions.where(F.col("replicas").isNotNull()).select(
        *_KEY,
        "topic",
        "partition",
        "replicas",
        "leader",
        healthy.alias("all_in_sync"),
        F.when(healthy, none).otherwise(F.col("isr")).alias("isr"),
        F.coalesce("elr", none).alias("elr"),
        F.coalesce(lags, F.array().cast("array<bigint>")).alias("lags"),
        *PARTITIONS.names[-3:],
    )
    return rows.mapInArrow(packer(OF_PARTITIONS, parameters.plan.shares), from_arrow_schema(PARCELS))


def scheme_sums(topics: DataFrame, partitions: DataFrame, brokers: DataFrame, parameters: SumParameters) -> DataFrame:
    """Rows of gold.scheme_sums: one for every snapshot and scheme, also where there is no topic or no living broker."""
    nothing = brokers.select(*_KEY).unionByName(topics.select(*_KEY)).distinct()
    nothing = nothing.select(
        *_KEY, F.lit(0).alias("share"), F.lit(NOTHING).alias("kind"), F.lit(None).cast("binary").alias("parcel")
    )
    parts = [nothing, _topics(topics, parameters)]
    if OBSERVED in parameters.plan.schemes:
        parts.append(_partitions(partitions, parameters))
    parcels = reduce(DataFrame.unionByName, parts)
    partial = parcels.groupBy(*_KEY, "share").applyInArrow(
        sum_share(parameters.clusters, parameters.plan), from_arrow_schema(PARTIAL)
    )
    whole = partial.groupBy(*_KEY, "scheme").applyInArrow(
        sum_cluster(parameters.clusters, parameters.plan), from_arrow_schema(SUMS)
    )
    return whole.withColumn("settings", F.lit(parameters.settings)).select(*SCHEME_SUMS.column_names)
