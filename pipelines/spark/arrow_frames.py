"""Create data frames through Arrow."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def create_frame(spark: SparkSession, rows: Sequence[Sequence[Any]], schema: StructType) -> DataFrame:
    """Create a data frame through Arrow: from plain rows, Spark would take two seconds to start Python workers."""
    arrow = to_arrow_schema(schema)
    columns = zip(*rows, strict=True) if rows else [()] * len(arrow)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, arrow, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=arrow), schema)


def copy_table(spark: SparkSession, table: pa.Table, schema: StructType) -> DataFrame:
    """Create a data frame from an Arrow table; Spark fails for columns of lists without any chunk."""
    arrow = to_arrow_schema(schema)
    rows = table.select(arrow.names).cast(arrow) if table.num_rows else arrow.empty_table()
    return spark.createDataFrame(rows, schema)
