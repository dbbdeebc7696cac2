"""Rows of this process as a Spark data frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def frame_of_rows(spark: SparkSession, rows: Sequence[Sequence[Any]], schema: StructType) -> DataFrame:
    """Return a frame of these rows, made by way of Arrow.

    Spark sends plain Python rows through Python workers that it can use for nothing else, and starts them first: two
    seconds in a small run.

    Args:
        spark: the session.
        rows: a value for each field; times have a zone.
        schema: of the frame.
    """
    arrow = to_arrow_schema(schema)
    columns = zip(*rows, strict=True) if rows else [()] * len(arrow)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, arrow, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=arrow), schema)
