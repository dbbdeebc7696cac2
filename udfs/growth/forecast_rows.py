"""Make the rows of gold.growth_forecasts: when growing loads reach limits."""

from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.arrow.columns import DOUBLE, TEXT, TIME, column, schema_of, to_numpy
from udfs.growth.growth_rows import SUBJECT_COLUMNS
from udfs.growth.kernels.robust_trend import days_until

Floats = npt.NDArray[np.float64]


class Limit(StrEnum):
    """What a cluster or a broker may reach."""

    DISK_FULL = "disk_full"
    SURVIVOR_OVER_CAPACITY = "survivor_over_capacity"
    BROKER_PARTITIONS = "broker_partitions"
    CLUSTER_PARTITIONS = "cluster_partitions"


LIMIT_COLUMNS = (
    column(
        "limit_name",
        TEXT,
        f"{Limit.DISK_FULL}: the disks of the broker, or of the log dir; {Limit.SURVIVOR_OVER_CAPACITY}: after "
        f"the worst failure of a single broker, N+1 is lost; {Limit.BROKER_PARTITIONS}, {Limit.CLUSTER_PARTITIONS}: "
        "growth.max_partitions_per_broker and _per_cluster",
        required=True,
    ),
    *SUBJECT_COLUMNS[:3],
    column("quantity", TEXT, "what grows: a quantity of gold.growth", required=True),
    column("limit_value", DOUBLE, "limit of this quantity; null = unknown, see reason"),
    column("limit_source", TEXT, "where the limit is from", required=True),
)
FORECAST_COLUMNS = (
    *LIMIT_COLUMNS,
    column("level", DOUBLE, "the quantity now, as in gold.growth"),
    column("slope_per_day", DOUBLE, "its slope, as in gold.growth"),
    column(
        "days", DOUBLE, "days from last_at until the limit is reached; 0 = it is; null = unknown or never, see reason"
    ),
    column("days_low", DOUBLE, "the same at the upper end of the slope's 95 % interval; null = unknown or never"),
    column("days_high", DOUBLE, "the same at the lower end of the slope's 95 % interval; null = unknown or never"),
    column("last_at", TIME, "time of the last sample (UTC)"),
    column("reason", TEXT, "why there are no days; null = there are"),
)
FORECASTS = schema_of(FORECAST_COLUMNS)
NOT_GROWING = "it does not grow"
# Rows of limits beside the growth of their quantities.
LIMITS = pa.schema(
    [
        *schema_of(LIMIT_COLUMNS),
        *((name, DOUBLE) for name in ("latest_value", "level", "slope_per_day")),
        *((name, DOUBLE) for name in ("slope_per_day_low", "slope_per_day_high")),
        ("last_at", TIME),
        ("reason", TEXT),
    ]
)


def forecast_rows(limits: pa.Table) -> pa.Table:
    """Return a row for each limit. limits: LIMITS; reason: why the quantity has no slope."""
    names = ("limit_value", "latest_value", "level")
    limit, latest, level = (to_numpy(limits[name], np.nan) for name in names)
    slopes = ("slope_per_day", "slope_per_day_high", "slope_per_day_low")
    days = [days_until(limit, latest, level, to_numpy(limits[name], np.nan)) for name in slopes]
    reasons = [
        _explain(*row)
        for row in zip(
            days[0].tolist(),
            limit.tolist(),
            limits["limit_source"].to_pylist(),
            limits["reason"].to_pylist(),
            strict=True,
        )
    ]
    columns = {
        **{name: limits[name] for name in limits.column_names},
        **{
            name: pa.array(values, DOUBLE, mask=~np.isfinite(values))
            for name, values in zip(("days", "days_low", "days_high"), days, strict=True)
        },
        "reason": pa.array(reasons, TEXT),
    }
    return pa.Table.from_arrays([columns[name] for name in FORECASTS.names], schema=FORECASTS)


def _explain(days: float, limit: float, source: str, reason: str | None) -> str | None:
    """Explain why there are no days; None if there are."""
    if np.isfinite(days):
        return None
    unknown = [f"the limit is unknown: {source}"] if np.isnan(limit) else []
    return "; ".join([reason, *unknown] if reason else unknown or [NOT_GROWING])
