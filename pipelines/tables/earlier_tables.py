"""What tables and columns were called in earlier versions, so that their rows are found and continued.

To rename a table or a column, or to leave one out: add it here, and raise TABLE_VERSION.
"""

from dataclasses import replace

from pipelines.tables import TABLES
from pipelines.tables.ops_tables import RUNS

# Tables by their earlier names.
TABLE_NAMES = {
    "silver.topic_loads": "silver.measured_loads",
    "gold.broker_load": "gold.current_loads",
    "gold.failure_load": "gold.loads_after_failure",
    "gold.load_totals": "gold.load_history",
}
EARLIER_TABLES = {earlier: replace(TABLES[name], name=earlier) for earlier, name in TABLE_NAMES.items()}
VIEWS = ("insights.plan_metrics",)
# Packed rows had another layout. Only the run that wrote them reads them: they are removed.
REMOVED_ROWS = ("internal.scheme_aggregates", "internal.packed_plans")

# Of each gold.plans had the columns _before and _after, which are rows of gold.plan_metrics now.
METRICS = (
    *(
        f"{load}_{side}_over_mean"
        for load in ("replicas", "leaders", "preferred_leaders", "disk", "bytes_in", "bytes_out")
        for side in ("max", "min")
    ),
    *("worst_survivor_ratio", "worst_survivor_ratio_of_pairs", "worst_survivor_ratio_of_racks"),
    *("worst_survivor_bytes_out_ratio", "required_headroom_leaders", "required_headroom_bytes_out_per_s"),
    *("newly_offline_partitions", "newly_offline_partitions_of_racks", "rack_violations"),
    *("under_min_isr_partitions", "under_min_isr_partitions_of_racks", "under_replicated_partitions"),
    *("copysets", "scatter_width_mean", "fullest_broker_bytes"),
    *(f"loss_probability_of_{k}_brokers" for k in range(1, 6)),
    *(f"cross_zone_{kind}_bytes_per_s" for kind in ("replication", "producers", "consumers")),
    "cross_zone_cost_per_month",
)
# Columns by table and earlier name; None = they are gone.
COLUMNS: dict[str, dict[str, str | None]] = {
    "silver.brokers": {"caps_min_isr": None},
    "gold.current_loads": {"leader_bytes_in_per_s": None},
    "gold.leader_hotspots": dict.fromkeys(
        ("leaders_min", "bytes_out_cv_ratio", "bytes_out_gini_ratio", "bytes_out_jain_ratio")
    ),
    "gold.durability": {"scatter_width_min": None, "scatter_width_max": None},
    "gold.headroom": {"resource": "quantity", "scenarios": None, "scenarios_over_capacity": None},
    "gold.over_capacity": {"resource": "quantity"},
    "gold.scheme_distribution": {"value_mean": None},
    "gold.plans": dict.fromkeys(("metrics", *(f"{m}_{when}" for m in METRICS for when in ("before", "after")))),
    RUNS.name: {"table_name": None},
}
_RENAMES = " ".join(f"WHEN '{earlier}' THEN '{name}'" for earlier, name in TABLE_NAMES.items())
# SQL of values that have changed, by table and column.
VALUES = {RUNS.name: {"stage": f"CASE stage {_RENAMES} ELSE stage END"}}


def find_earlier_columns(table: str) -> dict[str, str | None]:
    """Return the columns that a table, by its name or its earlier one, has no more, with their names now."""
    return COLUMNS.get(TABLE_NAMES.get(table, table), {})
