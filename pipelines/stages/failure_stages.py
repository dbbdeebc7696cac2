"""Stages of failures: internal.scheme_aggregates, and gold.disk_after_failure."""

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from pipelines.config.capacity_file import match_disks
from pipelines.spark.arrow_frames import apply_to_pairs
from pipelines.spark.entity_shards import Shard, add_brokers, infer_partitions, map_shards, sum_shard_logs, unpack
from pipelines.tables.gold_tables import DISK_AFTER_FAILURE
from pipelines.tables.internal_tables import SCHEME_AGGREGATES
from pipelines.tables.table_contract import SNAPSHOT_KEY, Table
from udfs.failures import arrow_functions
from udfs.failures.arrow_functions import AggregationPlan, Clusters, TableFunction, aggregate_shard
from udfs.failures.disk_after_failure import DISK_COLUMNS, VOLUMES, disk_rows
from udfs.failures.partition_arrays import TopicShard, fill_topics, select_partitions
from udfs.failures.replica_logs import LOG_SUMS
from udfs.failures.scenarios import EMPTY_CLUSTER
from udfs.failures.topic_defaults import TopicDefaults


class AggregationParameters(NamedTuple):
    """What the stage needs besides its tables."""

    topic_defaults: TopicDefaults
    clusters: Clusters
    plan: AggregationPlan
    settings: str  # the settings that the aggregates depend on, as JSON


def scheme_aggregates(entities: DataFrame, brokers: DataFrame, parameters: AggregationParameters) -> DataFrame:
    """Compute internal.scheme_aggregates: a row for every snapshot and scheme, even without topics or live brokers."""
    clusters, plan = parameters.clusters, parameters.plan

    def aggregate(shard: Shard) -> pa.Table:
        cluster = clusters.get((shard["cluster_id"], shard["snapshot_id"]), EMPTY_CLUSTER)
        topics = fill_topics(unpack([shard["topics"]], "topics"), parameters.topic_defaults)
        partitions = select_partitions(infer_partitions(shard))
        return aggregate_shard(TopicShard(shard["cluster_id"], cluster, topics, partitions), shard["shard"], plan)

    packed = entities.select(*SNAPSHOT_KEY, "shard", "topics", "partitions")
    shards = map_shards(add_brokers(packed, brokers), aggregate, arrow_functions.SHARD_AGGREGATES)
    sums = shards.groupBy(*SNAPSHOT_KEY, "scheme").applyInArrow(
        arrow_functions.make_cluster_aggregator(clusters, plan), from_arrow_schema(arrow_functions.CLUSTER_AGGREGATES)
    )
    return sums.withColumn("settings", F.lit(parameters.settings)).select(*SCHEME_AGGREGATES.column_names)


def compute_table(
    scheme_aggregates: DataFrame, function: TableFunction, table: Table, topic_hotspots: bool = False
) -> DataFrame:
    """Compute a table from each row of internal.scheme_aggregates, with topic_hotspots if the function needs it."""
    key = ("cluster_id", "snapshot_id", "scheme")
    blobs = ("sums", "topic_hotspots") if topic_hotspots else ("sums",)
    rows = scheme_aggregates.select(*key, "brokers", "racks", *blobs)
    # Grouped, not mapped: a batch would hold many rows of megabytes each at once.
    return rows.groupBy(*key).applyInArrow(function, table.schema).select(*table.column_names)


_KEY_FIELDS = tuple(pa.field(name, pa.string()) for name in SNAPSHOT_KEY)


def disk_after_failure(
    entities: DataFrame,
    brokers: DataFrame,
    log_dirs: DataFrame,
    max_disk_ratio: float,
    capacities: Mapping[tuple[str, int, str], float],
    broker_bytes: float,
) -> DataFrame:
    """Build gold.disk_after_failure.

    capacities: of a file, by cluster ("" = every one), broker and log dir. broker_bytes: as in list_disks.
    """
    key = [*SNAPSHOT_KEY, "broker_id"]
    volumes = brokers.select(*key, "rack", "live").join(log_dirs.select(*key, *VOLUMES.names[3:]), on=key, how="left")

    def compute(key: tuple[pa.Scalar, ...], left: pa.Table, right: pa.Table) -> pa.Table:
        own = match_disks(capacities, key[0].as_py())
        tables = (left.select(LOG_SUMS.names).cast(LOG_SUMS), right.select(VOLUMES.names).cast(VOLUMES))
        rows = disk_rows(*tables, max_disk_ratio, own, broker_bytes)
        keys = [pa.repeat(scalar, rows.num_rows) for scalar in key]
        return pa.Table.from_arrays([*keys, *rows.columns], names=[*SNAPSHOT_KEY, *rows.schema.names])

    rows = apply_to_pairs(sum_shard_logs(entities, brokers), volumes, compute, pa.schema([*_KEY_FIELDS, *DISK_COLUMNS]))
    return rows.select(*DISK_AFTER_FAILURE.column_names)
