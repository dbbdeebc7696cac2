"""Tables about runs: each step of each run, and the results of the quality gate."""

from pipelines.tables.table_contract import Table, columns
from udfs.arrow.columns import DOUBLE, FLAG, LONG, TEXT, TIME, column

# A run that finished this stage has seen the cluster: the summary, the report and insights.snapshots need it.
SUMMARY_STAGE = "gold.scheme_comparison"
RUNS = Table(
    "ops.runs",
    "One row per finished stage of a run and cluster.",
    columns(
        column("run_id", TEXT, "id of the run", required=True),
        column("stage", TEXT, "stage that finished: the table that it wrote, or quality or retention", required=True),
        column("rows", LONG, "rows that it wrote for the cluster", required=True),
        column(
            "seconds",
            DOUBLE,
            "duration of the stage over all clusters of the run, seconds; 0 = finished in an earlier run",
            required=True,
        ),
        column("finished_at", TIME, "time when it finished (UTC)", required=True),
        column("as_of", TIME, "time that the sources describe: --as-of, or the start of the run (UTC)", required=True),
        column("version", TEXT, "version of kafka-placement, with a digest of its code", required=True),
        column("settings", TEXT, "settings of the run, as JSON; secrets in URLs are ***", required=True),
    ),
    keys=(),
    append_only=True,
)


QUALITY_RESULTS = Table(
    "ops.quality_results",
    "One row per snapshot, table and expectation.",
    columns(
        column("table_name", TEXT, "checked table", required=True),
        column("expectation", TEXT, "name of the expectation", required=True),
        column("success", FLAG, "whether the snapshot meets it", required=True),
        column("checked_rows", LONG, "checked rows of the snapshot", required=True),
        column("unexpected_rows", LONG, "rows of the snapshot that violate it", required=True),
        column("example", TEXT, "example of such a row, as JSON"),
    ),
    keys=("cluster_id", "snapshot_id", "table_name", "expectation"),
)
