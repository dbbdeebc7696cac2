"""Make Arrow tables, and data frames from them, and give frames the columns of a table."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def make_rows(rows: Sequence[Sequence[Any]], schema: StructType) -> pa.Table:
    """Make an Arrow table of plain rows."""
    arrow = to_arrow_schema(schema)
    columns = zip(*rows, strict=True) if rows else [()] * len(arrow)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, arrow, strict=True)]
    return pa.Table.from_arrays(arrays, schema=arrow)


def create_frame(spark: SparkSession, rows: Sequence[Sequence[Any]], schema: StructType) -> DataFrame:
    """Create a data frame through Arrow: from plain rows, Spark would take two seconds to start Python workers."""
    return spark.createDataFrame(make_rows(rows, schema), schema)


def copy_table(spark: SparkSession, table: pa.Table, schema: StructType) -> DataFrame:
    """Create a data frame from an Arrow table; Spark fails for columns of lists without any chunk."""
    return spark.createDataFrame(cast_rows(table, schema), schema)


def cast_rows(table: pa.Table, schema: StructType) -> pa.Table:
    """Return the columns of a schema with its types."""
    arrow = to_arrow_schema(schema)
    return table.select(arrow.names).cast(arrow) if table.num_rows else arrow.empty_table()


def complete_frame(frame: DataFrame, schema: StructType) -> DataFrame:
    """Select the columns of a schema; those that the frame lacks are null."""
    columns = (F.col(f.name) if f.name in frame.columns else F.lit(None).cast(f.dataType) for f in schema)
    return frame.select(*(column.alias(f.name) for column, f in zip(columns, schema, strict=True)))
