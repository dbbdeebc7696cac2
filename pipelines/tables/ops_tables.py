"""Tables about runs: their steps, the results of the quality gate, alerts, and carried out plans."""

from pipelines.tables.table_contract import Between, OneOf, Table, columns
from udfs.arrow.columns import DOUBLE, FLAG, INT, LONG, TEXT, TIME, column

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


ALERTS = Table(
    "ops.alerts",
    "One row per change of a finding between runs with alerts: it fires, is acknowledged or is resolved.",
    columns(
        column("issue", TEXT, "offline, under_min_isr, offline_if_rack_fails, ..., or broker_down", required=True),
        column("subject", TEXT, "the topic, or the id of the broker", required=True),
        column("partitions", LONG, "partitions of the topic with the issue; null for brokers"),
        column("state", TEXT, "state since then: firing, acknowledged or resolved", required=True),
        column("changed_at", TIME, "time of the run that noticed the change (UTC)", required=True),
    ),
    keys=(),
    append_only=True,
)


PLAN_EXECUTIONS = Table(
    "gold.plan_executions",
    "One row per attempt to carry out or roll back a wave of a plan, with what the plan estimated.",
    (
        column("cluster_id", TEXT, "name of the cluster", required=True),
        column("snapshot_id", TEXT, "digest of the assignment that the plan was made for", required=True),
        column("plan_id", TEXT, "digest of the plan, that is, of its plan.json", required=True),
        column(
            "execution", INT, "number of the call of apply, in the order of the plan's journal, from 1", required=True
        ),
        column("wave", INT, "number of the wave, from 1", required=True),
        column("direction", TEXT, "apply or rollback", required=True),
        column("started_at", TIME, "when its first partition was reassigned or awaited (UTC)", required=True),
        column("ended_at", TIME, "when all its partitions were done (UTC); null if the call ended before"),
        column("outcome", TEXT, "complete, or interrupted if the call ended before", required=True),
        column("partitions", LONG, "partitions that were not yet done when it started", required=True),
        column("pauses", INT, "how often it was paused", required=True),
        column("throttle_bytes_per_s", DOUBLE, "bytes per second of a broker, each way; null = no throttle"),
        column("estimated_bytes", LONG, "bytes that the plan copies in this wave; null = unknown, or a rollback"),
        column(
            "estimated_s",
            DOUBLE,
            "seconds that the plan estimated for this wave, with the plan's throttle; null = unknown, or a rollback",
        ),
        column("copied_bytes", LONG, "bytes that this call copied, when progress was last looked at; null = never"),
        column("actual_s", DOUBLE, "seconds from start to end; null if it has not ended"),
    ),
    keys=("cluster_id", "snapshot_id", "plan_id", "execution", "wave"),
    partition_by=("cluster_id",),
    expectations=(
        Between("execution", 1),
        Between("wave", 1),
        OneOf("direction", ("apply", "rollback")),
        OneOf("outcome", ("complete", "interrupted")),
        Between("actual_s", 0),
    ),
)
