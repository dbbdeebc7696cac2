"""Elect leaders in Spark columns, with the rule that all failure analyses use."""

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type

from udfs.failures.partition_arrays import ELECTION, elect_batch


def elect_leader(unclean: Column, live: Column, unknown: Column, failed: Column) -> Column:
    """Elect the leader of each row of silver.partitions after brokers failed, by the rule of udfs/failures.

    unclean: bool; live (before), unknown (of unknown state: not elected from an ELR), failed: array<int>.
    struct<leader: int (-1 = offline), elected_from: string>.
    """
    # Spark hands null lists to Python slowly (see conf/spark.toml).
    columns = (F.col("replicas"), F.col("isr"), F.array_except("elr", unknown))
    lists = [F.coalesce(column, F.array().cast("array<int>")) for column in columns]
    udf: Callable[..., Column] = F.arrow_udf(elect_batch, from_arrow_type(ELECTION))  # type: ignore[attr-defined]
    usable = F.array_except(live, F.coalesce("failed_dir_replicas", F.array().cast("array<int>")))
    return udf(*lists, F.col("leader"), unclean, usable, failed)
