"""internal.scheme_aggregates: one pass over the partitions, and over the topics for the schemes that are computed.

Rows of silver are packed into Arrow IPC batches by shard of topics; a shard is summed under every scheme, placing
what is
computed on the way; the sums of a cluster's shards are added up. Only silver.partitions is as long as the cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type

from pipelines.tables.failure_tables import SCHEME_AGGREGATES
from udfs.failures.partition_groups import PARTITIONS, TOPICS
from udfs.failures.shards import (
    IPC_BATCHES,
    NOTHING,
    OF_PARTITIONS,
    OF_TOPICS,
    PARTIAL,
    SUMS,
    Clusters,
    SumPlan,
    packer,
    sum_cluster,
    sum_shard,
)
from udfs.placement.schemes import OBSERVED

_KEY = ("cluster_id", "snapshot_id")


@dataclass(frozen=True)
class SumParameters:
    """min_insync_replicas, unclean_leader_election: of topics whose sources show no such config.

    clusters: the live brokers of each snapshot of the run.   settings: what all this follows from, as JSON.
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
    return rows.mapInArrow(packer(OF_TOPICS, parameters.plan.shard_counts), from_arrow_schema(IPC_BATCHES))


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
    return rows.mapInArrow(packer(OF_PARTITIONS, parameters.plan.shard_counts), from_arrow_schema(IPC_BATCHES))


def scheme_aggregates(
    topics: DataFrame, partitions: DataFrame, brokers: DataFrame, parameters: SumParameters
) -> DataFrame:
    """Rows of internal.scheme_aggregates: one for every snapshot and scheme, also where there is no topic or no live
    broker."""
    nothing = brokers.select(*_KEY).unionByName(topics.select(*_KEY)).distinct()
    nothing = nothing.select(
        *_KEY, F.lit(0).alias("shard"), F.lit(NOTHING).alias("kind"), F.lit(None).cast("binary").alias("ipc_batch")
    )
    parts = [nothing, _topics(topics, parameters)]
    if OBSERVED in parameters.plan.schemes:
        parts.append(_partitions(partitions, parameters))
    ipc_batches = reduce(DataFrame.unionByName, parts)
    partial = ipc_batches.groupBy(*_KEY, "shard").applyInArrow(
        sum_shard(parameters.clusters, parameters.plan), from_arrow_schema(PARTIAL)
    )
    whole = partial.groupBy(*_KEY, "scheme").applyInArrow(
        sum_cluster(parameters.clusters, parameters.plan), from_arrow_schema(SUMS)
    )
    return whole.withColumn("settings", F.lit(parameters.settings)).select(*SCHEME_AGGREGATES.column_names)
