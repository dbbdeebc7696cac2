"""What runs the SQL of this program: DuckDB (local_sql.py) or Spark."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from pipelines.spark.views import use_temporary_names


class SqlSession(Protocol):
    """Runs SQL of this program over tables and views, without Spark where it can."""

    def run(self, sql: str) -> pa.Table:
        """Run a query in Spark's dialect and return its rows."""

    def stream(self, sql: str, columns: Sequence[pa.Field]) -> pa.RecordBatchReader | DataFrame:
        """Return the rows of a query, which may be many, to be written. columns: their names and types, in order."""


class SparkSql(NamedTuple):
    """Runs SQL with Spark. has_catalog: names are those of tables and views in its catalog."""

    spark: SparkSession
    has_catalog: bool

    def stream(self, sql: str, columns: Sequence[pa.Field] = ()) -> DataFrame:
        """Return the rows of a query as a data frame."""
        return self.spark.sql(sql if self.has_catalog else use_temporary_names(sql))

    def run(self, sql: str) -> pa.Table:
        """Run a query and return its rows."""
        return self.stream(sql).toArrow()
