"""Gold: what to change, what was proved of it, and what it does."""

from __future__ import annotations

from pipelines.tables.table_contract import Between, NoRowWhere, OneOf, Table, columns
from udfs.arrow.table_columns import BINARY, DOUBLE, FLAG, INT, INTS, LONG, TEXT, TEXTS, column
from udfs.planning.goals import GOALS
from udfs.planning.plan_rows import METRICS

_KEYS = ("cluster_id", "snapshot_id", "goal")
_GOAL = column("goal", TEXT, "what the plan is for, as in plans.goal: leaders, failover, balance, ...", required=True)

PLANNED = Table(
    "internal.packed_plans",
    "One row per plan, packed: gold.plans and gold.plan_moves are its parts; nothing else should read it.",
    columns(
        _GOAL,
        column("settings", TEXT, "the settings that the plan rests on, as JSON", required=True),
        column("plan", BINARY, "the row of gold.plans, see udfs/planning/plan_rows.py", required=True),
        column("moves", BINARY, "the rows of gold.plan_moves, see udfs/planning/plan_rows.py", required=True),
    ),
    keys=_KEYS,
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "goal"),
)

_BEFORE_AND_AFTER = tuple(
    column(f"{metric.name}_{when}", LONG if metric.whole else DOUBLE, f"{metric.says}; {words}")
    for metric in METRICS
    for when, words in (("before", "as it is"), ("after", "once the plan is carried out"))
)

PLANS = Table(
    "gold.plans",
    "One row per cluster and goal: what the plan does, what no plan can do better, and the cluster before and after "
    "it, with all live replicas in sync and led by the preferred leader. Means are over live brokers that are not "
    "to be emptied; null = not known, or no plan.",
    columns(
        _GOAL,
        column("feasible", FLAG, "whether a plan keeps to the hard constraints", required=True),
        column("reasons", TEXTS, "why none does; else empty", required=True),
        column("objective", TEXT, "what the plan makes as small as can be"),
        column("objective_value", DOUBLE, "how much of that the plan takes"),
        column("lower_bound", DOUBLE, "what no plan takes less than, proved"),
        column("gap", DOUBLE, "objective_value less lower_bound; 0 = the plan is proved to be the best"),
        column("moves", LONG, "replicas to copy"),
        column("copied_bytes", LONG, "their bytes; null = no size is known"),
        column("changed_partitions", LONG, "partitions whose replica list changes, be it only in order"),
        column("leader_changes", LONG, "partitions whose preferred leader changes"),
        column("frozen_partitions", LONG, "partitions that no plan may touch: moving, deleted, offline"),
        column("waves", LONG, "waves that the plan is carried out in"),
        column("copy_duration_s", DOUBLE, "estimate of the seconds of copying, at plans.throttle_bytes_per_s a broker"),
        column("relaxed_targets", TEXTS, "targets that this cluster makes impossible, and why; null = no plan"),
        column("missed_targets", TEXTS, "targets that the plan does not reach; null = no plan"),
        *_BEFORE_AND_AFTER,
        column("plan_request", TEXT, "the whole plan request, as JSON", required=True),
        column("certificate", TEXT, "all that was proved, as JSON; null = no plan"),
        column("metrics", TEXT, "every metric before and after, as JSON; null = no plan"),
    ),
    keys=_KEYS,
    expectations=(
        OneOf("goal", tuple(GOALS)),
        Between("moves", 0),
        NoRowWhere(
            "plan_or_reasons", "feasible = (size(reasons) > 0)", "has a plan and reasons against it, or neither"
        ),
    ),
)

PLAN_MOVES = Table(
    "gold.plan_moves",
    "One row per partition whose replica list a plan changes.",
    columns(
        _GOAL,
        column("topic", TEXT, "topic name", required=True),
        column("partition", INT, "partition id", required=True),
        column("replicas_before", INTS, "replicas as the source has them", required=True),
        column("replicas_after", INTS, "replicas as planned, preferred leader first", required=True),
        column("adding_replicas", INTS, "brokers that copy it", required=True),
        column("removing_replicas", INTS, "brokers that give it up", required=True),
        column("copied_bytes", LONG, "bytes that are copied for it; null = no size is known"),
        column("first_wave", INT, "wave that its first step is in, from 1", required=True),
        column("last_wave", INT, "wave after which it is as planned", required=True),
        column("reason", TEXT, "why it changes", required=True),
    ),
    keys=(*_KEYS, "topic", "partition"),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "goal", "topic"),
    expectations=(Between("first_wave", 1), Between("copied_bytes", 0)),
)
