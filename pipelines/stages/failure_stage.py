"""The tables that are arithmetic on internal.scheme_aggregates: a cluster under a scheme at a time."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from pipelines.tables.table_contract import Table
from udfs.failures.table_rows import Body, keyed


def rows_of(
    scheme_aggregates: DataFrame, body: Body, schema: pa.Schema, table: Table, hotspots: bool = False
) -> DataFrame:
    """Rows of `table` (schema: without keys) that `body` makes of each row of internal.scheme_aggregates.

    hotspots: whether it needs the measures of topics.
    """
    key = ("cluster_id", "snapshot_id", "scheme")
    needed = scheme_aggregates.select(*key, "brokers", "racks", "sums", *(["topic_hotspots"] if hotspots else []))
    # Grouped, not mapped: a batch of rows that are megabytes each would hold them all at once.
    made = needed.groupBy(*key).applyInArrow(body, from_arrow_schema(keyed(schema)))
    return made.select(*table.column_names)
