"""Bronze: what was read, as it was read."""

from __future__ import annotations

from pyspark.sql.types import LongType, StringType, TimestampType

from pipelines.tables.table_contract import Column, Table, columns

TEXT = StringType()

RAW_METADATA = Table(
    "bronze.raw_metadata",
    "One row per input record of a cluster's sources: a line, or an element of a JSON document.",
    columns(
        Column("source", TEXT, "name of the file", required=True),
        Column("format", TEXT, "format it was read as", required=True),
        Column("record_number", LongType(), "ordinal of the record in its file, from 0", required=True),
        Column("line_number", LongType(), "line of the file where the record begins, from 1", required=True),
        Column("context", TEXT, "what the record needs from its surroundings: a znode's path, a CSV header"),
        Column("raw", TEXT, "the record's text", required=True),
        Column("ingested_at", TimestampType(), "when this snapshot was first read (UTC)", required=True),
    ),
    keys=("cluster_id", "snapshot_id", "source", "record_number"),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "source", "record_number"),
)
