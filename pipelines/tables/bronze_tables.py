"""The bronze table: the records of the sources, as text."""

from pipelines.ingest.merge import entities
from pipelines.tables.table_contract import Table, columns
from udfs.arrow.columns import TEXT, TIME, column

FORMAT = column("format", TEXT, "format it was read as", required=True)


RAW = column("raw", TEXT, "the record's text", required=True)


RAW_METADATA = Table(
    "bronze.raw_metadata",
    "One row per input record of a cluster's sources: a line, or an element of a JSON document.",
    columns(
        entities.SOURCE,
        FORMAT,
        entities.RECORD_NUMBER,
        entities.LINE_NUMBER,
        column("context", TEXT, "what the record needs from its surroundings: a znode's path, a CSV header"),
        RAW,
        column("ingested_at", TIME, "when this snapshot was first read (UTC)", required=True),
    ),
    keys=("cluster_id", "snapshot_id", "source", "record_number"),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "source", "record_number"),
)
