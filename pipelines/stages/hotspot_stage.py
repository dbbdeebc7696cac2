"""gold.hotspot_distribution: the hottest broker over many seeds, in parallel over clusters and chunks of the seeds."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type
from pyspark.sql.types import LongType

from pipelines.tables.hotspot_tables import HOTSPOT_DISTRIBUTION
from udfs.hotspots.hotspot_batches import BROKER, CLUSTERS, DISTRIBUTION, LED, TOPIC, TRIED, Plan, summariser, trier
from udfs.hotspots.hotspot_distribution import names_of

_KEY = ("cluster_id", "snapshot_id")


def _topics(topics: DataFrame) -> DataFrame:
    """(key, topic): what counts of each topic, 16 bytes; its partitions' ids only where some are missing."""
    name = F.arrow_udf(names_of, LongType())  # type: ignore[attr-defined]
    ids = F.col("partition_loads.partition")
    whole = (F.size(ids) == F.col("partitions")) & (F.array_max(ids) == F.col("partitions") - 1)
    fields = (
        name("cluster_id", "topic").alias("name"),
        "partitions",
        F.col("replication_factor").alias("factor"),
        F.when((F.size(ids) > 0) & ~whole, ids).alias("listed"),
    )
    return topics.select(*_KEY, F.struct(*fields).cast(from_arrow_type(TOPIC)).alias("topic"))


def hotspot_distribution_rows(
    topics: DataFrame, brokers: DataFrame, partitions: DataFrame, plan: Plan, thresholds: tuple[float, ...]
) -> DataFrame:
    """Rows of gold.hotspot_distribution. thresholds: ratios of max/mean to tell the distribution of."""
    live = brokers.where("live").select(
        *_KEY, F.struct("broker_id", "rack").cast(from_arrow_type(BROKER)).alias("broker")
    )
    leading = partitions.where(F.col("replicas").isNotNull() & (F.col("leader") >= 0))
    counted = leading.groupBy(*_KEY, F.col("leader").alias("broker_id")).agg(F.count("*").alias("leaders"))
    led = counted.select(*_KEY, F.struct("broker_id", "leaders").cast(from_arrow_type(LED)).alias("leads"))
    # One exchange for all three, in place of one each and joins.
    every = _topics(topics).unionByName(live, True).unionByName(led, True)
    gathered = every.groupBy(*_KEY).agg(
        F.collect_list("topic").alias("topics"),
        F.collect_list("broker").alias("brokers"),
        F.collect_list("leads").alias("led"),
    )
    chunks = gathered.withColumn("chunk", F.explode(F.sequence(F.lit(0), F.lit(plan.chunks - 1))))
    if plan.chunks > 1:
        chunks = chunks.repartition(plan.chunks, *_KEY, "chunk")
    tried = chunks.select(*CLUSTERS.names).mapInArrow(trier(plan), from_arrow_schema(TRIED))
    answers = tried.groupBy(*_KEY, "scheme").applyInArrow(summariser(thresholds), from_arrow_schema(DISTRIBUTION))
    return answers.select(*HOTSPOT_DISTRIBUTION.column_names)
