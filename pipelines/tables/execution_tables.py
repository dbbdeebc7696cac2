"""The tables of proposed plans, which runs write, and of carried out plans, which `apply --warehouse` writes."""

from pipelines.operation.proposals import ProposalState
from pipelines.tables.table_contract import Between, OneOf, Table
from udfs.arrow.columns import DOUBLE, INT, LONG, TEXT, TEXTS, TIME, column

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

PROPOSALS = Table(
    "gold.proposals",
    "One row per plan that a policy has proposed, with what has become of it, as the newest run of its cluster saw it.",
    (
        column("cluster_id", TEXT, "name of the cluster", required=True),
        column("snapshot_id", TEXT, "the snapshot of the run that wrote the row", required=True),
        column("proposal_id", TEXT, "name of its folder", required=True),
        column("goal", TEXT, "goal of the plan", required=True),
        column("kinds", TEXTS, "kinds of the findings that recommend it, as in gold.findings", required=True),
        column("reason", TEXT, "the most serious of them, in words", required=True),
        column("plan_level", TEXT, "verdict of check on the plan", required=True),
        column("bytes_to_copy", DOUBLE, "bytes that the plan copies; null = unknown"),
        column("digest", TEXT, "SHA-256 of the files of the plan: what is approved, and carried out", required=True),
        column("proposed_at", TIME, "when it was proposed (UTC)", required=True),
        column("expires_at", TIME, "it is not begun later (UTC)", required=True),
        column("state", TEXT, "what has become of it", required=True),
        column("changed_at", TIME, "since when it is in this state (UTC)", required=True),
        column("state_reason", TEXT, "why; empty where the state says it", required=True),
        column("approved_by", TEXT, "who has approved it; null: not approved"),
        column("failures", INT, "attempts to carry it out that failed", required=True),
    ),
    keys=("cluster_id", "snapshot_id", "proposal_id"),
    partition_by=("cluster_id",),
    expectations=(OneOf("state", tuple(ProposalState)), Between("failures", 0)),
    only_newest=True,
)
