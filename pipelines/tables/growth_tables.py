"""Tables that compare all snapshots of a cluster, which `run` writes once its other tables are complete."""

from pipelines.tables.table_contract import Between, NoRowWhere, OneOf, Table, columns
from udfs.growth.forecast_rows import FORECAST_COLUMNS, Limit
from udfs.growth.growth_rows import GROWTH_COLUMNS
from udfs.growth.load_history import QUANTITIES, SubjectKind

_KINDS = OneOf("subject_kind", tuple(SubjectKind))
_QUANTITIES = OneOf("quantity", tuple(QUANTITIES))

GROWTH = Table(
    "gold.growth",
    "One row per cluster, broker, log dir and topic of a cluster's newest snapshot, and quantity: how fast it has "
    "grown. docs/growth.md has the formulas.",
    columns(*GROWTH_COLUMNS),
    keys=(),
    partition_by=("cluster_id",),
    only_newest=True,
    expectations=(
        _KINDS,
        _QUANTITIES,
        Between("samples", 0),
        NoRowWhere(
            "slope_or_reason", "(slope_per_day IS NULL) = (reason IS NULL)", "has neither a slope nor a reason, or both"
        ),
        NoRowWhere(
            "slope_in_interval",
            "slope_per_day < slope_per_day_low OR slope_per_day > slope_per_day_high",
            "has a slope outside of its interval",
        ),
    ),
)

GROWTH_FORECASTS = Table(
    "gold.growth_forecasts",
    "One row per limit of a cluster, broker or log dir, with its newest snapshot: days until growth reaches it.",
    columns(*FORECAST_COLUMNS),
    keys=(),
    partition_by=("cluster_id",),
    only_newest=True,
    expectations=(
        OneOf("limit_name", tuple(Limit)),
        _KINDS,
        _QUANTITIES,
        Between("days", 0),
        NoRowWhere(
            "days_or_reason", "(days IS NULL) = (reason IS NULL)", "has both days and a reason, or none of the two"
        ),
        NoRowWhere("days_in_interval", "days < days_low OR days > days_high", "has days outside of their interval"),
    ),
)
