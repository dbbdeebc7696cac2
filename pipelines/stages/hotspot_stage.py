"""Make the rows of gold.hotspot_distribution: leaders of the hottest broker over many seeds."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type
from pyspark.sql.types import LongType

from pipelines.ingest.merge.live_brokers import COUNTS_AS_LIVE
from pipelines.tables.gold_tables import HOTSPOT_DISTRIBUTION
from pipelines.tables.table_contract import SNAPSHOT_KEY
from udfs.hotspots import hotspots_by_scheme
from udfs.hotspots.hotspot_distribution import TrialOptions
from udfs.hotspots.leaders_by_seed import hash_names


def _pack_topics(topics: DataFrame) -> DataFrame:
    """Select the key and `topic`, a struct of 16 bytes; it has partition ids only where some are missing."""
    name_hash = F.arrow_udf(hash_names, LongType())  # type: ignore[attr-defined]
    ids = F.col("partition_loads.partition")
    is_complete = (F.size(ids) == F.col("partitions")) & (F.array_max(ids) == F.col("partitions") - 1)
    topic = F.struct(
        name_hash("cluster_id", "topic").alias("name_hash"),
        "partitions",
        "replication_factor",
        F.when((F.size(ids) > 0) & ~is_complete, ids).alias("partition_ids"),
    )
    return topics.select(*SNAPSHOT_KEY, topic.cast(from_arrow_type(hotspots_by_scheme.TOPIC)).alias("topic"))


def hotspot_distribution(
    topics: DataFrame, brokers: DataFrame, partitions: DataFrame, options: TrialOptions
) -> DataFrame:
    """Compute gold.hotspot_distribution from silver.topics, silver.brokers and silver.partitions."""
    broker = F.struct("broker_id", "rack", "cordoned").cast(from_arrow_type(hotspots_by_scheme.BROKER))
    live = brokers.where(COUNTS_AS_LIVE).select(*SNAPSHOT_KEY, broker.alias("broker"))
    replicas = partitions.select(*SNAPSHOT_KEY, "leader", F.explode("replicas").alias("broker_id"))
    leads = F.coalesce((F.col("leader") == F.col("broker_id")).cast("long"), F.lit(0))
    counted = replicas.groupBy(*SNAPSHOT_KEY, "broker_id").agg(F.sum(leads).alias("leaders"))
    leaders = F.struct("broker_id", "leaders").cast(from_arrow_type(hotspots_by_scheme.LEADERS))
    led = counted.select(*SNAPSHOT_KEY, leaders.alias("leaders"))
    # One shuffle for all three, instead of one each and joins.
    combined = _pack_topics(topics).unionByName(live, True).unionByName(led, True)
    names = {"topic": "topics", "broker": "brokers", "leaders": "leaders"}
    snapshots = combined.groupBy(*SNAPSHOT_KEY).agg(*(F.collect_list(one).alias(all_) for one, all_ in names.items()))
    chunks = snapshots.withColumn("chunk", F.explode(F.sequence(F.lit(0), F.lit(options.chunks - 1))))
    if options.chunks > 1:
        chunks = chunks.repartition(options.chunks, *SNAPSHOT_KEY, "chunk")
    trials = chunks.select(*hotspots_by_scheme.TRIAL_INPUT.names).mapInArrow(
        hotspots_by_scheme.make_trial_function(options), from_arrow_schema(hotspots_by_scheme.TRIAL_OUTPUT)
    )
    summarise = hotspots_by_scheme.make_summary_function(options)
    rows = trials.groupBy(*SNAPSHOT_KEY, "scheme").applyInArrow(
        summarise, from_arrow_schema(hotspots_by_scheme.DISTRIBUTION)
    )
    return rows.select(*HOTSPOT_DISTRIBUTION.column_names)
