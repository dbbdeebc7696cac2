"""Make the rows of gold.growth: the trend of each series, or why it has none."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.arrow.columns import DOUBLE, INT, LONG, TEXT, TIME, column, schema_of, to_numpy
from udfs.growth.kernels.robust_trend import Trends, estimate_trends
from udfs.growth.load_history import QUANTITIES, SubjectKind, build_history
from udfs.wording import count_of

US_PER_DAY = 86_400_000_000
Ints = npt.NDArray[np.int64]

_UNITS = "bytes, bytes per second or replicas"
SUBJECT_COLUMNS = (
    column("subject_kind", TEXT, ", ".join(SubjectKind), required=True),
    column("broker_id", INT, "the broker, of a log dir its broker; null for clusters and topics"),
    column("log_dir", TEXT, "path of the log dir; null for others"),
    column("topic", TEXT, "the topic; null for others"),
)
GROWTH_COLUMNS = (
    *SUBJECT_COLUMNS,
    column("quantity", TEXT, f"{', '.join(QUANTITIES)}, as in gold.load_history", required=True),
    column("samples", LONG, "values that the slope is of", required=True),
    column("left_out_samples", LONG, "values before a topic was created again, or of other partitions", required=True),
    column("first_at", TIME, "time of the first of these values (UTC)"),
    column("last_at", TIME, "time of the last one (UTC)"),
    column("latest_value", DOUBLE, f"the last value: {_UNITS}"),
    column(
        "level", DOUBLE, f"value at last_at on the trend, by the median of the last five: {_UNITS}; null = no slope"
    ),
    column(
        "level_margin", DOUBLE, f"half of the 95 % interval of a single value about level: {_UNITS}; null = no slope"
    ),
    column("slope_per_day", DOUBLE, "Theil-Sen slope, per day; null = too little history, see reason"),
    column("slope_per_day_low", DOUBLE, "lower end of its 95 % interval"),
    column("slope_per_day_high", DOUBLE, "upper end of its 95 % interval"),
    column("reason", TEXT, "why there is no slope; null = there is one"),
)
_GROWTH = schema_of(GROWTH_COLUMNS)


class HistoryLimits(NamedTuple):
    """How much history a slope needs, and how much is used."""

    min_samples: int
    min_days: float
    window_days: float  # older samples are not used
    max_samples: int


def select_samples(times: Ints, limits: HistoryLimits) -> Ints:
    """Select the samples to use: of the window, and if they are many, the last one in each of equal parts of it.

    times: int64 (t), microseconds, rising.   Returns: int64, indices into `times`, rising.
    """
    if not len(times):
        return np.zeros(0, dtype=np.int64)
    ages = (times[-1] - times) / US_PER_DAY
    recent = np.flatnonzero(ages <= limits.window_days)
    if len(recent) <= limits.max_samples:
        return recent
    part = np.floor(ages[recent] / ages[recent[0]] * limits.max_samples)
    part = np.minimum(part, limits.max_samples - 1)
    is_last = np.append(part[1:] != part[:-1], True)
    selected: Ints = recent[is_last]
    return selected


def growth_rows(loads: pa.Table, times: Ints, limits: HistoryLimits) -> pa.Table:
    """Return a row for each quantity of the subjects that the newest sample of a cluster has.

    Quantities that no sample shows have a row for the cluster only.

    Args:
        loads: LOAD_SAMPLES of the selected samples.
        times: int64, times of these samples, microseconds, rising.
        limits: How much history a slope needs.
    """
    # A snapshot without rows was written by an earlier version: nothing was deleted in it.
    used, sample = np.unique(to_numpy(loads["sample"]), return_inverse=True)
    times = times[used]
    at = loads.schema.get_field_index("sample")
    loads = loads.set_column(at, "sample", pa.array(sample, INT))
    history = build_history(loads, len(times))
    days = (times - (times[0] if len(times) else 0)) / US_PER_DAY
    is_cluster = np.array(history.subjects["subject_kind"].to_pylist()) == SubjectKind.CLUSTER
    tables = [_GROWTH.empty_table()]
    for quantity, values in history.values.items():
        trends = estimate_trends(days, values)
        is_shown = is_cluster | (trends.samples > 0)
        reasons = _list_reasons(trends, limits)
        is_known = np.array([reason is None for reason in reasons], dtype=bool)
        rows = [
            *history.subjects.columns,
            pa.repeat(quantity, len(values)),
            trends.samples,
            history.left_out[quantity],
            *(_to_times(at, times) for at in (trends.first, trends.last)),
            _to_doubles(trends.latest, trends.samples > 0),
            *(
                _to_doubles(array, is_known)
                for array in (trends.level, trends.level_margin, trends.slope, trends.low, trends.high)
            ),
            pa.array(reasons, TEXT),
        ]
        tables.append(pa.Table.from_arrays(rows, schema=_GROWTH).filter(pa.array(is_shown)))
    return pa.concat_tables(tables)


def _list_reasons(trends: Trends, limits: HistoryLimits) -> list[str | None]:
    """List why series have no slope; None = they have one."""

    def explain(samples: int, days: float) -> str | None:
        if samples == 0:
            return "no source shows it"
        if samples < limits.min_samples:
            return f"too little history: {count_of(samples, 'sample')}, and a slope needs {limits.min_samples}"
        if days < limits.min_days:
            return f"too little history: {days:.1f} days, and a slope needs {limits.min_days:g}"
        return None

    spans = np.nan_to_num(trends.last - trends.first)
    return [explain(*series) for series in zip(trends.samples.tolist(), spans.tolist(), strict=True)]


def _to_times(days: npt.NDArray[np.float64], times: Ints) -> pa.Array:
    is_unknown = np.isnan(days)
    start = times[0] if len(times) else 0
    at = np.round(np.nan_to_num(days) * US_PER_DAY).astype(np.int64) + start
    return pa.array(at, pa.int64(), mask=is_unknown).cast(TIME)


def _to_doubles(values: npt.NDArray[np.float64], is_known: npt.NDArray[np.bool_]) -> pa.Array:
    return pa.array(values, DOUBLE, mask=~is_known)
