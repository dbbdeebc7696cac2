"""Bronze: what was read, as it was read."""

from __future__ import annotations

from pipelines.tables.table_contract import Table, columns
from udfs.arrow.table_columns import LONG, TEXT, TIME, column

RAW_METADATA = Table(
    "bronze.raw_metadata",
    "One row per input record of a cluster's sources: a line, or an element of a JSON document.",
    columns(
        column("source", TEXT, "name of the file", required=True),
        column("format", TEXT, "format it was read as", required=True),
        column("record_number", LONG, "ordinal of the record in its file, from 0", required=True),
        column("line_number", LONG, "line of the file where the record begins, from 1", required=True),
        column("context", TEXT, "what the record needs from its surroundings: a znode's path, a CSV header"),
        column("raw", TEXT, "the record's text", required=True),
        column("ingested_at", TIME, "when this snapshot was first read (UTC)", required=True),
    ),
    keys=("cluster_id", "snapshot_id", "source", "record_number"),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "source", "record_number"),
)
