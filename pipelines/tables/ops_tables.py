"""Ops: what ran, and what the checks found."""

from __future__ import annotations

from pyspark.sql.types import BooleanType, DoubleType, LongType, StringType, TimestampType

from pipelines.tables.table_contract import Column, Table, columns

TEXT = StringType()

RUNS = Table(
    "ops.runs",
    "One row per finished stage of a run and cluster.",
    columns(
        Column("run_id", TEXT, "the run", required=True),
        Column("stage", TEXT, "stage that finished", required=True),
        Column("table_name", TEXT, "table it wrote", required=True),
        Column("rows", LongType(), "rows of the cluster that it wrote", required=True),
        Column(
            "seconds",
            DoubleType(),
            "time of the stage over all clusters of the run, seconds; 0 = finished by an earlier run",
            required=True,
        ),
        Column("finished_at", TimestampType(), "when it finished (UTC)", required=True),
        Column(
            "as_of",
            TimestampType(),
            "time that the run's sources stand for: --as-of, else its start (UTC)",
            required=True,
        ),
        Column("version", TEXT, "version of kafka-placement, with a digest of its code", required=True),
        Column("settings", TEXT, "settings in force, as JSON", required=True),
    ),
    keys=(),
    append_only=True,
)

QUALITY_RESULTS = Table(
    "ops.quality_results",
    "One row per snapshot, table and expectation.",
    columns(
        Column("table_name", TEXT, "table that was checked", required=True),
        Column("expectation", TEXT, "what is expected", required=True),
        Column("success", BooleanType(), "whether it holds for the snapshot", required=True),
        Column("checked_rows", LongType(), "rows of the snapshot that were checked", required=True),
        Column("unexpected_rows", LongType(), "rows of the snapshot that break it", required=True),
        Column("example", TEXT, "one of them"),
    ),
    keys=("cluster_id", "snapshot_id", "table_name", "expectation"),
)
