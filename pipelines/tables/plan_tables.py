"""Gold: plans, what is proven about them, and their effects. udfs/planning/plan_rows.py declares the columns."""

from pipelines.tables.table_contract import Between, NoRowWhere, OneOf, Table, columns
from udfs.arrow.table_columns import BINARY, TEXT, column
from udfs.planning.goals import GOALS
from udfs.planning.plan_rows import MOVE_COLUMNS, PLAN_COLUMNS

_KEYS = ("cluster_id", "snapshot_id", "goal")

PACKED_PLANS = Table(
    "internal.packed_plans",
    "One row per plan, packed: the program unpacks gold.plans and gold.plan_moves from it.",
    columns(
        PLAN_COLUMNS[0],
        column("settings", TEXT, "settings that the plan depends on, as JSON", required=True),
        column("plan", BINARY, "the row of gold.plans, see udfs/planning/plan_rows.py", required=True),
        column("moves", BINARY, "the rows of gold.plan_moves, see udfs/planning/plan_rows.py", required=True),
    ),
    keys=_KEYS,
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "goal"),
)

PLANS = Table(
    "gold.plans",
    "One row per cluster and goal: what the plan does, lower bounds that no plan can beat, and the cluster before and "
    "after it, with all live replicas in sync and led by the preferred leader. Means are over live brokers that are "
    "not to be emptied; null = not known, or no plan.",
    columns(*PLAN_COLUMNS),
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
    columns(*MOVE_COLUMNS),
    keys=(*_KEYS, "topic", "partition"),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "goal", "topic"),
    expectations=(Between("first_wave", 1), Between("copied_bytes", 0)),
)
