"""The column `successor` of silver.partitions: the broker that takes over if the leader fails."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.spark.election_udf import elect_leader
from pipelines.tables.silver_tables import PARTITIONS

_KEY = ("cluster_id", "snapshot_id")


def add_successors(
    partitions: DataFrame, brokers: DataFrame, topics: DataFrame, unclean_leader_election: bool
) -> DataFrame:
    """Complete the rows of silver.partitions with the successor of each leader.

    Args:
        partitions: Rows of silver.partitions, all other columns.
        brokers: silver.brokers.
        topics: silver.topics.
        unclean_leader_election: Of topics whose sources do not show it.
    """
    live = brokers.where("live").groupBy(*_KEY).agg(F.collect_list("broker_id").alias("live"))
    configs = topics.where(F.col("unclean_leader_election").isNotNull())
    configs = configs.select(*_KEY, "topic", F.col("unclean_leader_election").alias("unclean"))
    rows = partitions.join(F.broadcast(live), on=list(_KEY), how="left")
    rows = rows.join(configs, on=[*_KEY, "topic"], how="left")
    live_replicas = F.coalesce(F.array_intersect("replicas", "live"), F.array().cast("array<int>"))
    unclean = F.coalesce("unclean", F.lit(unclean_leader_election))
    successor = elect_leader(unclean, live_replicas, F.array("leader")).leader
    has_leader = F.array_contains(live_replicas, F.col("leader"))
    return rows.withColumn("successor", F.when(has_leader, successor)).select(*PARTITIONS.column_names)
