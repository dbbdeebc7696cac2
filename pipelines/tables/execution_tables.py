"""The table of carried out plans, which `apply --warehouse` writes."""

from pipelines.tables.table_contract import Between, OneOf, Table
from udfs.arrow.columns import DOUBLE, INT, LONG, TEXT, TIME, column

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
