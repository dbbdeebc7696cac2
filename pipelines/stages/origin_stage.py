"""Make the rows of gold.topic_origin and gold.cluster_origin: the schemes that could have placed each topic."""

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.spark.arrow_frames import apply_to_pairs
from pipelines.tables.gold_tables import CLUSTER_ORIGIN, TOPIC_ORIGIN
from pipelines.tables.table_contract import SNAPSHOT_KEY
from udfs.origin.topic_origins import ORIGIN_NAMES, PARTITIONS, TOPIC_ORIGINS, find_topic_origins


def topic_origin(topics: DataFrame, partitions: DataFrame, brokers: DataFrame) -> DataFrame:
    """Compute gold.topic_origin from silver tables, by cluster: topics that share a broker order determine it."""
    known = partitions.where(F.col("replicas").isNotNull())
    lists = F.collect_list(F.struct("partition", "replicas")).alias("partitions")
    by_topic = known.groupBy(*SNAPSHOT_KEY, "topic").agg(lists)
    with_lists = topics.select(*SNAPSHOT_KEY, "topic").join(by_topic, on=[*SNAPSHOT_KEY, "topic"], how="left")
    candidates = brokers.select(*SNAPSHOT_KEY, "broker_id", "rack", "live", "cordoned")

    def judge(_key: tuple[pa.Scalar, ...], cluster_topics: pa.Table, cluster_brokers: pa.Table) -> pa.Table:
        at = cluster_topics.schema.get_field_index("partitions")
        lists = cluster_topics["partitions"].cast(PARTITIONS)
        return find_topic_origins(cluster_topics.set_column(at, "partitions", lists), cluster_brokers)

    return apply_to_pairs(with_lists, candidates, judge, TOPIC_ORIGINS).select(*TOPIC_ORIGIN.column_names)


def cluster_origin(origins: DataFrame) -> DataFrame:
    """Compute gold.cluster_origin from gold.topic_origin."""
    has = {name: F.col("origin") == name for name in ORIGIN_NAMES.values()}
    is_known = ~has["unknown"]
    by_kafka = has["kafka"] | has["kafka_rack_aware"] | has["kraft"]
    is_conclusive = has["none"] | (F.col("evidence") > 0)
    counts = origins.groupBy(*SNAPSHOT_KEY).agg(
        F.count("*").alias("topics"),
        F.count_if(is_known & ~is_conclusive).alias("inconclusive_topics"),
        *(F.count_if(condition).alias(f"{name}_topics") for name, condition in has.items()),
        _percent(by_kafka, is_known).alias("kafka_placed_percent"),
        _percent(by_kafka & is_conclusive, is_known & is_conclusive).alias("kafka_placed_conclusive_percent"),
    )
    with_order = origins.where(has["kafka"] | has["kafka_rack_aware"])
    by_order = with_order.groupBy(*SNAPSHOT_KEY, "broker_order").agg(
        F.count("*").alias("topics"), F.sum("evidence").alias("evidence")
    )
    orders = by_order.groupBy(*SNAPSHOT_KEY).agg(
        F.max_by("broker_order", F.struct("topics", "evidence", "broker_order")).alias("broker_order"),
        F.max("topics").alias("broker_order_topics"),
        F.count("*").alias("broker_orders"),
    )
    both = counts.join(orders, on=list(SNAPSHOT_KEY), how="left").fillna(0, ["broker_order_topics", "broker_orders"])
    return both.select(*CLUSTER_ORIGIN.column_names)


def _percent(part: Column, total: Column) -> Column:
    return F.lit(100.0) * F.count_if(part) / F.nullif(F.count_if(total), F.lit(0))
