"""Data frames and columns of Spark that are made through Arrow."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import StructType

from udfs.failures.partition_groups import ELECTION, elect_batch


def create_frame(spark: SparkSession, rows: Sequence[Sequence[Any]], schema: StructType) -> DataFrame:
    """Create a data frame through Arrow: from plain rows, Spark would take two seconds to start Python workers."""
    arrow = to_arrow_schema(schema)
    columns = zip(*rows, strict=True) if rows else [()] * len(arrow)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, arrow, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=arrow), schema)


def elect_leader(unclean: Column, live: Column, failed: Column) -> Column:
    """Elect the leader of each row of silver.partitions after brokers failed, by the rule of udfs/failures.

    unclean: bool; live (before), failed: array<int>. struct<leader: int (-1 = offline), elected_from: string>.
    """
    # Spark hands null lists to Python slowly (see conf/spark.toml).
    lists = [F.coalesce(column, F.array().cast("array<int>")) for column in ("replicas", "isr", "elr")]
    udf: Callable[..., Column] = F.arrow_udf(elect_batch, from_arrow_type(ELECTION))  # type: ignore[attr-defined]
    return udf(*lists, F.col("leader"), unclean, live, failed)
