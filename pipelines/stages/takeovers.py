"""gold.takeovers: who inherits what when one broker dies - one pass over the partitions answers for all brokers."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from pipelines.tables.gold import TAKEOVERS as TABLE
from udfs.takeovers import PLACED, TAKEOVERS, sum_takeovers

_KEY = ("cluster_id", "snapshot_id")


@dataclass(frozen=True)
class ElectionParameters:
    """What holds for topics whose sources show no such config."""

    min_insync_replicas: int
    unclean_leader_election: bool


def takeovers(
    placements: DataFrame, topics: DataFrame, brokers: DataFrame, parameters: ElectionParameters
) -> DataFrame:
    """Rows of gold.takeovers."""
    configs = topics.select(
        *_KEY,
        "topic",
        F.coalesce("min_insync_replicas", F.lit(parameters.min_insync_replicas)).alias("min_insync_replicas"),
        F.coalesce("unclean_leader_election", F.lit(parameters.unclean_leader_election)).alias(
            "unclean_leader_election"
        ),
    )
    dead = brokers.where(~F.col("alive")).groupBy(*_KEY).agg(F.collect_list("broker_id").alias("dead_brokers"))
    placed = placements.where(F.col("replicas").isNotNull())
    placed = placed.join(configs, on=[*_KEY, "topic"], how="inner").join(F.broadcast(dead), on=list(_KEY), how="left")
    # Empty lists for null ones: Spark hands null lists to Python slowly (see conf/spark.toml).
    none = F.array().cast("array<int>")
    lists = {name: F.coalesce(F.col(name), none) for name in ("isr", "elr", "dead_brokers")}
    placed = placed.withColumn("all_in_sync", F.col("isr").isNull()).withColumns(lists)
    sums = placed.select(*PLACED.names).mapInArrow(sum_takeovers, from_arrow_schema(TAKEOVERS))
    values = [n for n in TAKEOVERS.names if n not in (*_KEY, "scheme", "failed_broker", "receiver")]
    total = sums.groupBy(*_KEY, "scheme", "failed_broker", "receiver").agg(*(F.sum(n).alias(n) for n in values))
    return total.select(*TABLE.column_names)
