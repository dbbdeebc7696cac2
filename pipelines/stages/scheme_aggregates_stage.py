"""internal.scheme_aggregates: one pass over partitions, and over topics for the schemes that are computed.

Rows of silver are packed into Arrow IPC batches by shard of topics. Each shard is summed under every scheme, placing
topics on the way, and the sums of a cluster's shards are added up. Only silver.partitions has a row per partition.
"""

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type

from pipelines.tables.failure_tables import SCHEME_AGGREGATES
from udfs.failures.partition_groups import PARTITIONS, TOPICS
from udfs.failures.shards import (
    CLUSTER_AGGREGATES,
    EMPTY,
    IPC_BATCHES,
    PARTITION_BATCH,
    SHARD_AGGREGATES,
    TOPIC_BATCH,
    AggregationPlan,
    Clusters,
    make_cluster_aggregator,
    make_packer,
    make_shard_aggregator,
)
from udfs.placement.schemes import OBSERVED

_KEY = ("cluster_id", "snapshot_id")


@dataclass(frozen=True)
class AggregationParameters:
    """What the stage needs besides its tables."""

    min_insync_replicas: int  # of topics whose sources do not show it
    unclean_leader_election: bool  # likewise
    clusters: Clusters
    plan: AggregationPlan
    settings: str  # the settings that the aggregates depend on, as JSON


def _pack(rows: DataFrame, kind: str, parameters: AggregationParameters) -> DataFrame:
    return rows.mapInArrow(make_packer(kind, parameters.plan.shard_counts), from_arrow_schema(IPC_BATCHES))


def _topic_batches(topics: DataFrame, parameters: AggregationParameters) -> DataFrame:
    defaults = {
        "min_insync_replicas": F.lit(parameters.min_insync_replicas),
        "unclean_leader_election": F.lit(parameters.unclean_leader_election),
        "partition_loads": F.array().cast(from_arrow_type(TOPICS.field("partition_loads").type)),
    }
    filled = topics.withColumns({name: F.coalesce(name, value) for name, value in defaults.items()})
    return _pack(filled.select(*_KEY, *TOPICS.names), TOPIC_BATCH, parameters)


def _partition_batches(partitions: DataFrame, parameters: AggregationParameters) -> DataFrame:
    # Empty lists for null ones: Spark hands null lists to Python slowly (see conf/spark.toml).
    no_brokers, no_lags = (F.array().cast(kind) for kind in ("array<int>", "array<bigint>"))
    lags = F.transform("logs", lambda log: log.offset_lag)
    rows = partitions.where(F.col("replicas").isNotNull()).withColumn(
        "all_in_sync", F.size("isr") == F.size("replicas")
    )
    filled = rows.withColumns(
        {
            "isr": F.when(F.col("all_in_sync"), no_brokers).otherwise(F.col("isr")),
            "elr": F.coalesce("elr", no_brokers),
            "lags": F.coalesce(lags, no_lags),
        }
    )
    return _pack(filled.select(*_KEY, *PARTITIONS.names), PARTITION_BATCH, parameters)


def scheme_aggregates(
    topics: DataFrame, partitions: DataFrame, brokers: DataFrame, parameters: AggregationParameters
) -> DataFrame:
    """Compute internal.scheme_aggregates: a row for every snapshot and scheme, even without topics or live brokers."""
    snapshots = brokers.select(*_KEY).unionByName(topics.select(*_KEY)).distinct()
    empty = snapshots.select(
        *_KEY, F.lit(0).alias("shard"), F.lit(EMPTY).alias("kind"), F.lit(None).cast("binary").alias("ipc_batch")
    )
    batches = [empty, _topic_batches(topics, parameters)]
    if OBSERVED in parameters.plan.schemes:
        batches.append(_partition_batches(partitions, parameters))
    shards = (
        reduce(DataFrame.unionByName, batches)
        .groupBy(*_KEY, "shard")
        .applyInArrow(make_shard_aggregator(parameters.clusters, parameters.plan), from_arrow_schema(SHARD_AGGREGATES))
    )
    clusters = shards.groupBy(*_KEY, "scheme").applyInArrow(
        make_cluster_aggregator(parameters.clusters, parameters.plan), from_arrow_schema(CLUSTER_AGGREGATES)
    )
    return clusters.withColumn("settings", F.lit(parameters.settings)).select(*SCHEME_AGGREGATES.column_names)
