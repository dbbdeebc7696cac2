"""Kafka's leader election as a function of Spark columns, for stages and notebooks."""

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type

from udfs.failures.election_batches import ELECTION, elect_batch


def elect_leader(unclean: Column, live: Column, failed: Column) -> Column:
    """Elect the leader of each row of silver.partitions after brokers failed, by the rule of udfs/failures.

    Args:
        unclean: bool, unclean.leader.election.enable of the topic.
        live: array<int>, brokers that are live before the failure; other brokers than the replicas are ignored.
        failed: array<int>, brokers that fail.

    Returns:
        struct<leader: int, elected_from: string>; leader -1 = the partition is offline. elected_from is kept, isr,
        elr, unclean or offline.
    """
    # Spark hands null lists to Python slowly (see conf/spark.toml).
    lists = [F.coalesce(column, F.array().cast("array<int>")) for column in ("replicas", "isr", "elr")]
    udf: Callable[..., Column] = F.arrow_udf(elect_batch, from_arrow_type(ELECTION))  # type: ignore[attr-defined]
    return udf(*lists, F.col("leader"), unclean, live, failed)
