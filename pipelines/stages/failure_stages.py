"""internal.scheme_aggregates: one pass over partitions, and over topics for the schemes that are computed.

Rows of silver are packed by shard of topics, each shard is summed under every scheme, and the sums are added up.
"""

from functools import reduce
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type

from pipelines.tables.internal_tables import SCHEME_AGGREGATES
from pipelines.tables.table_contract import SNAPSHOT_KEY, Table
from udfs.failures import arrow_functions
from udfs.failures.arrow_functions import AggregationPlan, Clusters, TableFunction
from udfs.failures.partition_arrays import PARTITIONS, TOPICS
from udfs.placement.schemes import OBSERVED


class AggregationParameters(NamedTuple):
    """What the stage needs besides its tables."""

    min_insync_replicas: int  # of topics whose sources do not show it
    unclean_leader_election: bool  # likewise
    clusters: Clusters
    plan: AggregationPlan
    settings: str  # the settings that the aggregates depend on, as JSON


def _pack(rows: DataFrame, kind: str, parameters: AggregationParameters) -> DataFrame:
    return rows.mapInArrow(
        arrow_functions.make_packer(kind, parameters.plan.shard_counts), from_arrow_schema(arrow_functions.IPC_BATCHES)
    )


def _topic_batches(topics: DataFrame, parameters: AggregationParameters) -> DataFrame:
    defaults = {
        "min_insync_replicas": F.lit(parameters.min_insync_replicas),
        "unclean_leader_election": F.lit(parameters.unclean_leader_election),
        "partition_loads": F.array().cast(from_arrow_type(TOPICS.field("partition_loads").type)),
    }
    filled = topics.withColumns({name: F.coalesce(name, value) for name, value in defaults.items()})
    return _pack(filled.select(*SNAPSHOT_KEY, *TOPICS.names), arrow_functions.TOPIC_BATCH, parameters)


def _partition_batches(partitions: DataFrame, parameters: AggregationParameters) -> DataFrame:
    # Empty lists for null ones: Spark hands null lists to Python slowly (see conf/spark.toml).
    no_brokers, no_lags = (F.array().cast(kind) for kind in ("array<int>", "array<bigint>"))
    lags = F.transform("logs", lambda log: log.offset_lag)
    in_sync = F.size("isr") == F.size("replicas")
    isr = F.when(in_sync, no_brokers).otherwise(F.col("isr"))
    lists = {"isr": isr, "elr": F.coalesce("elr", no_brokers), "lags": F.coalesce(lags, no_lags)}
    filled = partitions.where(F.col("replicas").isNotNull()).withColumns({"all_in_sync": in_sync, **lists})
    return _pack(filled.select(*SNAPSHOT_KEY, *PARTITIONS.names), arrow_functions.PARTITION_BATCH, parameters)


def scheme_aggregates(
    topics: DataFrame, partitions: DataFrame, brokers: DataFrame, parameters: AggregationParameters
) -> DataFrame:
    """Compute internal.scheme_aggregates: a row for every snapshot and scheme, even without topics or live brokers."""
    snapshots = brokers.select(*SNAPSHOT_KEY).unionByName(topics.select(*SNAPSHOT_KEY)).distinct()
    empty = snapshots.select(
        *SNAPSHOT_KEY,
        F.lit(0).alias("shard"),
        F.lit(arrow_functions.EMPTY).alias("kind"),
        F.lit(None).cast("binary").alias("ipc_batch"),
    )
    batches = [empty, _topic_batches(topics, parameters)]
    if OBSERVED in parameters.plan.schemes:
        batches.append(_partition_batches(partitions, parameters))
    shards = (
        reduce(DataFrame.unionByName, batches)
        .groupBy(*SNAPSHOT_KEY, "shard")
        .applyInArrow(
            arrow_functions.make_shard_aggregator(parameters.clusters, parameters.plan),
            from_arrow_schema(arrow_functions.SHARD_AGGREGATES),
        )
    )
    clusters = shards.groupBy(*SNAPSHOT_KEY, "scheme").applyInArrow(
        arrow_functions.make_cluster_aggregator(parameters.clusters, parameters.plan),
        from_arrow_schema(arrow_functions.CLUSTER_AGGREGATES),
    )
    return clusters.withColumn("settings", F.lit(parameters.settings)).select(*SCHEME_AGGREGATES.column_names)


def compute_table(
    scheme_aggregates: DataFrame, function: TableFunction, table: Table, topic_hotspots: bool = False
) -> DataFrame:
    """Compute a table from each row of internal.scheme_aggregates, with topic_hotspots if the function needs it."""
    key = ("cluster_id", "snapshot_id", "scheme")
    blobs = ("sums", "topic_hotspots") if topic_hotspots else ("sums",)
    rows = scheme_aggregates.select(*key, "brokers", "racks", *blobs)
    # Grouped, not mapped: a batch would hold many rows of megabytes each at once.
    return rows.groupBy(*key).applyInArrow(function, table.schema).select(*table.column_names)
