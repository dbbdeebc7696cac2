"""Ops: what ran, and what the checks found."""

from __future__ import annotations

from pipelines.tables.table_contract import Table, columns
from udfs.arrow.table_columns import DOUBLE, FLAG, LONG, TEXT, TIME, column

RUNS = Table(
    "ops.runs",
    "One row per finished stage of a run and cluster.",
    columns(
        column("run_id", TEXT, "the run", required=True),
        column("stage", TEXT, "stage that finished", required=True),
        column("table_name", TEXT, "table it wrote", required=True),
        column("rows", LONG, "rows of the cluster that it wrote", required=True),
        column(
            "seconds",
            DOUBLE,
            "time of the stage over all clusters of the run, seconds; 0 = finished by an earlier run",
            required=True,
        ),
        column("finished_at", TIME, "when it finished (UTC)", required=True),
        column("as_of", TIME, "time that the run's sources stand for: --as-of, else its start (UTC)", required=True),
        column("version", TEXT, "version of kafka-placement, with a digest of its code", required=True),
        column("settings", TEXT, "settings in force, as JSON", required=True),
    ),
    keys=(),
    append_only=True,
)

QUALITY_RESULTS = Table(
    "ops.quality_results",
    "One row per snapshot, table and expectation.",
    columns(
        column("table_name", TEXT, "table that was checked", required=True),
        column("expectation", TEXT, "what is expected", required=True),
        column("success", FLAG, "whether it holds for the snapshot", required=True),
        column("checked_rows", LONG, "rows of the snapshot that were checked", required=True),
        column("unexpected_rows", LONG, "rows of the snapshot that break it", required=True),
        column("example", TEXT, "one of them"),
    ),
    keys=("cluster_id", "snapshot_id", "table_name", "expectation"),
)
