"""Tables that compare all snapshots of a cluster, which `run` writes once its other tables are complete."""

from enum import StrEnum

from pipelines.tables.table_contract import Between, NoRowWhere, OneOf, Table, columns
from udfs.arrow.columns import DOUBLE, INT, LONG, TEXT, TIME, column
from udfs.growth.forecast_rows import FORECAST_COLUMNS, Limit
from udfs.growth.growth_rows import GROWTH_COLUMNS
from udfs.growth.load_history import QUANTITIES, SubjectKind
from udfs.planning.plan_request import COPY_TIME_TOLERANCE


class ForecastKind(StrEnum):
    """What was forecast."""

    LEADERS = "leaders"  # after the failure of a broker
    OFFLINE_PARTITIONS = "offline_partitions"  # after the failure of a broker
    GROWTH = "growth"  # the next value of a series
    COPY_TIME = "copy_time"  # of a wave


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

FORECAST_OUTCOMES = Table(
    "gold.forecast_outcomes",
    "One row per forecast whose outcome is known: leaders and offline partitions after the failure of a broker, the "
    "next values of all series of a kind, and the time of a wave.",
    (
        column("cluster_id", TEXT, "name of the cluster", required=True),
        column(
            "snapshot_id",
            TEXT,
            "the snapshot that shows the outcome; of a copy_time, as in gold.plan_executions",
            required=True,
        ),
        column(
            "forecast_kind",
            TEXT,
            "leaders: those of partitions that a failed broker led, by silver.partitions.successor in the snapshot "
            "before; offline_partitions: those of them without a leader, "
            "no row if none was forecast; growth: values by gold.growth of the snapshot "
            "before, in an interval of 95 %; copy_time: the time of a wave, by its plan",
            required=True,
        ),
        column("broker_id", INT, "of leaders and offline_partitions: the broker, the only one that failed in between"),
        column("subject_kind", TEXT, "of growth: cluster, broker, log_dir or topic, as in gold.growth"),
        column("quantity", TEXT, "of growth: as in gold.growth"),
        column("plan_id", TEXT, "of copy_time: the plan, as in gold.plan_executions"),
        column("execution", INT, "of copy_time: the call of apply, as in gold.plan_executions"),
        column("wave", INT, "of copy_time: the wave"),
        column("forecast_at", TIME, "the time of the forecast; of copy_time, when the wave began (UTC)", required=True),
        column("outcome_at", TIME, "the time of the outcome (UTC)", required=True),
        column("forecasts", LONG, "how many partitions, series or waves were forecast", required=True),
        column(
            "as_forecast",
            LONG,
            "of these, those that came true: the same leader, a value in the interval, or a time within "
            f"{COPY_TIME_TOLERANCE:.0%} of the forecast",
            required=True,
        ),
        column("forecast_value", DOUBLE, "of offline_partitions their number, of copy_time seconds; null for others"),
        column("actual_value", DOUBLE, "the same, as it came"),
    ),
    keys=(),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id",),
    expectations=(
        OneOf("forecast_kind", tuple(ForecastKind)),
        Between("forecasts", 1),
        NoRowWhere("as_forecast_of_forecasts", "as_forecast < 0 OR as_forecast > forecasts", "counts more than all"),
    ),
)
