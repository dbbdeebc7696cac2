"""internal.scheme_aggregates: each shard of topics is summed under every scheme, and the sums are added up."""

from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from pipelines.spark.entity_shards import Shard, add_brokers, infer_partitions, map_shards, unpack
from pipelines.tables.internal_tables import SCHEME_AGGREGATES
from pipelines.tables.table_contract import SNAPSHOT_KEY, Table
from udfs.failures import arrow_functions
from udfs.failures.arrow_functions import AggregationPlan, Clusters, TableFunction, aggregate_shard
from udfs.failures.partition_arrays import TopicShard, fill_topics, select_partitions
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
