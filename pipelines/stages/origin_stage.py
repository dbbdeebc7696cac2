"""gold.topic_origin and gold.cluster_origin: which scheme could have placed each topic, and what that is in all."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from pipelines.tables.origin_tables import CLUSTER_ORIGIN, ORIGIN_NAMES, TOPIC_ORIGIN
from udfs.origin.topic_origins import ORIGINS, SHOWN, topic_origins

_KEY = ("cluster_id", "snapshot_id")


def topic_origin(topics: DataFrame, partitions: DataFrame, brokers: DataFrame) -> DataFrame:
    """Rows of gold.topic_origin. A cluster's topics are judged together: what they shard tells the broker order."""
    known = partitions.where(F.col("replicas").isNotNull())
    part = F.struct("partition", "replicas")
    shown = known.groupBy(*_KEY, "topic").agg(F.collect_list(part).alias("shown"))
    every = topics.select(*_KEY, "topic").join(shown, on=[*_KEY, "topic"], how="left")
    about = brokers.select(*_KEY, "broker_id", "rack", "live")

    def judge(of_cluster: pa.Table, its_brokers: pa.Table) -> pa.Table:
        column = of_cluster.schema.get_field_index("shown")
        shown = of_cluster["shown"].cast(SHOWN)
        return topic_origins(of_cluster.set_column(column, "shown", shown), its_brokers)

    pairs = every.groupBy(*_KEY).cogroup(about.groupBy(*_KEY))
    return pairs.applyInArrow(judge, from_arrow_schema(ORIGINS)).select(*TOPIC_ORIGIN.column_names)


def cluster_origin(origins: DataFrame) -> DataFrame:
    """Rows of gold.cluster_origin, from those of gold.topic_origin."""
    is_ = {name: F.col("origin") == name for name in ORIGIN_NAMES}
    judged = ~is_["unknown"]
    follows = is_["kafka"] | is_["kafka_rack_aware"] | is_["kraft"]
    telling = is_["none"] | (F.col("evidence") > 0)
    counts = origins.groupBy(*_KEY).agg(
        F.count("*").alias("topics"),
        F.count_if(judged & ~telling).alias("inconclusive_topics"),
        *(F.count_if(condition).alias(f"{name}_topics") for name, condition in is_.items()),
        _percent(follows, judged).alias("kafka_placed_percent"),
        _percent(follows & telling, judged & telling).alias("kafka_placed_conclusive_percent"),
    )
    ordered = origins.where(is_["kafka"] | is_["kafka_rack_aware"])
    shared = ordered.groupBy(*_KEY, "broker_order").agg(F.count("*").alias("by"), F.sum("evidence").alias("evidence"))
    most = F.struct("by", "evidence", "broker_order")
    orders = shared.groupBy(*_KEY).agg(
        F.max_by("broker_order", most).alias("broker_order"),
        F.max("by").alias("broker_order_topics"),
        F.count("*").alias("broker_orders"),
    )
    both = counts.join(orders, on=list(_KEY), how="left").fillna(0, ["broker_order_topics", "broker_orders"])
    return both.select(*CLUSTER_ORIGIN.column_names)


def _percent(part: Column, whole: Column) -> Column:
    return F.try_divide(F.lit(100.0) * F.count_if(part), F.count_if(whole))
