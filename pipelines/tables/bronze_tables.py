"""Bronze: the records of all sources, as they were read."""

from pipelines.ingest.merge.entities import LINE_NUMBER, RECORD_NUMBER, SOURCE
from pipelines.tables.table_contract import Table, columns
from udfs.arrow.table_columns import TEXT, TIME, column

FORMAT = column("format", TEXT, "format it was read as", required=True)
RAW = column("raw", TEXT, "the record's text", required=True)

RAW_METADATA = Table(
    "bronze.raw_metadata",
    "One row per input record of a cluster's sources: a line, or an element of a JSON document.",
    columns(
        SOURCE,
        FORMAT,
        RECORD_NUMBER,
        LINE_NUMBER,
        column("context", TEXT, "what the record needs from its surroundings: a znode's path, a CSV header"),
        RAW,
        column("ingested_at", TIME, "when this snapshot was first read (UTC)", required=True),
    ),
    keys=("cluster_id", "snapshot_id", "source", "record_number"),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "source", "record_number"),
)
