"""The tables that are arithmetic on internal.scheme_aggregates, one cluster under one scheme at a time."""

from pyspark.sql import DataFrame

from pipelines.tables.table_contract import Table
from udfs.failures.table_functions import TableFunction


def compute_table(
    scheme_aggregates: DataFrame, function: TableFunction, table: Table, topic_hotspots: bool = False
) -> DataFrame:
    """Compute the rows of a table from each row of internal.scheme_aggregates.

    Args:
        scheme_aggregates: Rows of internal.scheme_aggregates.
        function: Computes the rows of `table`.
        table: The table.
        topic_hotspots: Whether the function reads the measures of topics.
    """
    key = ("cluster_id", "snapshot_id", "scheme")
    blobs = ("sums", "topic_hotspots") if topic_hotspots else ("sums",)
    rows = scheme_aggregates.select(*key, "brokers", "racks", *blobs)
    # Grouped, not mapped: a batch would hold many rows of megabytes each at once.
    return rows.groupBy(*key).applyInArrow(function, table.schema).select(*table.column_names)
