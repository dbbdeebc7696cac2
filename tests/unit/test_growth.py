"""Slopes over history and their intervals, days until limits, and histories that are no series."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from scipy import stats

from udfs.growth.forecast_rows import LIMITS, NOT_GROWING, forecast_rows
from udfs.growth.growth_rows import US_PER_DAY, HistoryLimits, growth_rows, select_samples
from udfs.growth.kernels.robust_trend import Trends, days_until, estimate_trends
from udfs.growth.load_history import LOAD_SAMPLES, build_history

Floats = npt.NDArray[np.float64]
CASES, SLOPE = 1_000, 0.5
LIMITS_OF_HISTORY = HistoryLimits(min_samples=5, min_days=3, window_days=90, max_samples=100)


def make_times(n: int, is_irregular: bool, random: np.random.Generator) -> Floats:
    return np.cumsum(random.exponential(1, n) + 0.05) if is_irregular else np.arange(n, dtype=np.float64)


def make_noise(kind: str, times: Floats, random: np.random.Generator) -> Floats:
    normal = random.standard_normal((CASES, len(times)))
    if kind == "heavy tails":
        return random.standard_t(2, normal.shape)
    if kind == "outliers":
        return normal + (random.random(normal.shape) < 0.1) * random.standard_normal(normal.shape) * 30
    if kind == "random walk":
        return np.cumsum(normal * np.sqrt(np.diff(times, prepend=times[0])), axis=1)
    if kind == "autocorrelated":  # 0.5 a day
        for day in range(1, len(times)):
            part = 0.5 ** (times[day] - times[day - 1])
            normal[:, day] = part * normal[:, day - 1] + np.sqrt(1 - part**2) * normal[:, day]
    return normal


def measure_coverage(kind: str, n: int, is_irregular: bool) -> tuple[float, Trends]:
    random = np.random.default_rng(n)
    times = make_times(n, is_irregular, random)
    trends = estimate_trends(times, SLOPE * times + make_noise(kind, times, random))
    return float(np.mean((trends.low <= SLOPE) & (trends.high >= SLOPE))), trends


@pytest.mark.parametrize("is_irregular", [False, True], ids=["regular", "irregular"])
@pytest.mark.parametrize("n", [10, 20, 60, 200])
@pytest.mark.parametrize("kind", ["normal", "heavy tails", "outliers"])
def test_the_interval_covers_known_slopes(kind: str, n: int, is_irregular: bool) -> None:
    coverage, trends = measure_coverage(kind, n, is_irregular)
    assert 0.90 <= coverage <= 0.99
    assert np.median(trends.slope) == pytest.approx(SLOPE, abs=0.05)


@pytest.mark.parametrize("is_irregular", [False, True], ids=["regular", "irregular"])
@pytest.mark.parametrize(("kind", "n"), [("autocorrelated", 30), ("autocorrelated", 100), ("random walk", 100)])
def test_the_interval_covers_slopes_of_series_whose_errors_depend_on_each_other(
    kind: str, n: int, is_irregular: bool
) -> None:
    assert 0.90 <= measure_coverage(kind, n, is_irregular)[0] <= 0.99


@pytest.mark.parametrize("n", [5, 10, 20, 60])
@pytest.mark.parametrize("kind", ["normal", "heavy tails", "autocorrelated", "random walk"])
def test_the_next_value_is_within_the_margin_of_the_level(kind: str, n: int) -> None:
    random = np.random.default_rng(n)
    times = make_times(n + 1, False, random)
    values = SLOPE * times + make_noise(kind, times, random)
    trends = estimate_trends(times[:n], values[:, :n])
    margin = np.hypot(trends.level_margin, (trends.high - trends.low) / 2)
    coverage = np.mean(np.abs(values[:, n] - trends.level - trends.slope) <= margin)
    assert 0.91 <= coverage <= (0.99 if n < 60 else 1)


def test_a_straight_line_has_no_margin() -> None:
    times = np.arange(9.0)
    trends = estimate_trends(times, np.stack([3 * times, np.full(9, 7.0)]))
    assert trends.level_margin.tolist() == pytest.approx([0, 0], abs=1e-9)


def test_slopes_are_those_of_scipy_and_intervals_no_narrower() -> None:
    random = np.random.default_rng(1)
    times = np.sort(random.random(30) * 90)
    values = random.normal(size=(200, 30)).round(1) + times * 0.02  # some are equal
    values[random.random(values.shape) < 0.3] = np.nan
    trends = estimate_trends(times, values)
    equal = 0
    for row, series in enumerate(values):
        is_known = ~np.isnan(series)
        expected = stats.theilslopes(series[is_known], times[is_known], 0.95)
        assert trends.slope[row] == expected.slope
        assert trends.low[row] <= expected.low_slope
        assert trends.high[row] >= expected.high_slope
        equal += (trends.low[row], trends.high[row]) == (expected.low_slope, expected.high_slope)
    assert equal > 40  # without autocorrelation


def test_many_series_are_as_one_by_one() -> None:
    random = np.random.default_rng(2)
    times, values = np.arange(100.0), random.normal(size=(500, 100))  # more than fit into memory at once
    together = estimate_trends(times, values)
    alone = estimate_trends(times, values[317:318])
    assert [array[317] for array in together] == [array[0] for array in alone]


@pytest.mark.parametrize("n", [0, 1])
def test_series_without_two_values_have_no_slope(n: int) -> None:
    trends = estimate_trends(np.arange(float(n)), np.ones((2, n)))
    assert trends.samples.tolist() == [n, n]
    assert np.isnan([trends.slope, trends.low, trends.high, trends.level]).all()


def test_days_until_the_limit_of_a_linear_history_are_exact() -> None:
    times = np.array([0, 1.5, 2, 7, 11, 12, 19, 25, 26.25])
    values = 2e12 + 3e10 * times[None]
    trends = estimate_trends(times, values)
    assert [trends.slope[0], trends.low[0], trends.high[0]] == pytest.approx([3e10] * 3, rel=1e-9)
    days = days_until(np.array([5e12]), trends.latest, trends.level, trends.slope)
    assert days[0] == pytest.approx(100 - 26.25, rel=1e-9)  # full on day 100


def test_days_until_limits() -> None:
    nan, inf = np.nan, np.inf
    limit = np.array([10.0, 10, 10, 10, 10, nan, 10])
    latest = np.array([4.0, 12, 4, 4, 4, 4, nan])
    level = np.array([4.0, 8, 10, 4, 4, 4, nan])
    slope = np.array([2.0, 2, -1, 0, -1, 2, nan])
    assert days_until(limit, latest, level, slope).tolist() == pytest.approx([3, 0, 0, inf, inf, nan, nan], nan_ok=True)


def make_loads(*rows: tuple[str, str | None, int, int, float | None]) -> pa.Table:
    """Make samples of topics, or of the cluster where topic is empty: topic, its id, sample, partitions, size."""
    names = ("topic", "topic_id", "sample", "partitions", "size_bytes")
    values = [dict(zip(names, row, strict=True)) for row in rows]
    for row in values:
        known = {"partitions_with_size": 0 if row["size_bytes"] is None else row["partitions"]}
        row |= {"subject_kind": "topic" if row["topic"] else "cluster", "replicas": row["partitions"], **known}
        row["topic"] = row["topic"] or None
        row |= {"partitions_with_bytes_in": 0, "partitions_with_bytes_out": 0}
    return pa.Table.from_pylist(values, schema=LOAD_SAMPLES)


def list_sizes(loads: pa.Table, samples: int) -> dict[str, list[float]]:
    history = build_history(loads, samples)
    return dict(zip(history.subjects["topic"].to_pylist(), history.values["size_bytes"].tolist(), strict=True))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(("a", "id-1", 3), ("a", "id-2", 3), id="another id"),
        pytest.param(("a", None, 3), ("a", None, 2), id="fewer partitions"),
    ],
)
def test_a_topic_that_was_created_again_begins_anew(
    first: tuple[str, str | None, int], second: tuple[str, str | None, int]
) -> None:
    rows = [(*first[:2], sample, first[2], 100.0 * sample + 500) for sample in range(3)]
    rows += [(*second[:2], sample, second[2], 10.0 * sample) for sample in range(3, 6)]
    loads = make_loads(*rows)
    assert list_sizes(loads, 6)["a"] == pytest.approx([np.nan] * 3 + [30, 40, 50], nan_ok=True)
    assert build_history(loads, 6).left_out["size_bytes"].tolist() == [3]


@pytest.mark.parametrize("cut", [2, 4])
def test_a_listing_that_was_cut_is_left_out(cut: int) -> None:
    """Sample `cut` shows 2 of 3 partitions of a, and nothing of b: neither fell, and b was not created again."""
    rows = [("a", "A", sample, 2 if sample == cut else 3, 30.0 + sample) for sample in range(5)]
    rows += [("b", "B", sample, 1, 10.0 + sample) for sample in range(5) if sample != cut]
    rows += [("", None, sample, 2 if sample == cut else 4, 40.0 + sample) for sample in range(5)]
    loads = make_loads(*rows).to_pylist()
    every = {"a": 3, "b": 1, None: 4}
    history = build_history(
        pa.Table.from_pylist([row | {"all_partitions": every[row["topic"]]} for row in loads], schema=LOAD_SAMPLES), 5
    )
    names = [f"{name}" for name in history.subjects["topic"].to_pylist()]
    is_used = {name: (~np.isnan(row)).tolist() for name, row in zip(names, history.values["size_bytes"], strict=True)}
    replicas = {name: (~np.isnan(row)).tolist() for name, row in zip(names, history.values["replicas"], strict=True)}
    whole = [sample != cut for sample in range(5)]
    if cut == 4:  # the newest sample: only it can be compared with itself
        assert is_used == replicas == {"a": [False] * 4 + [True], "None": [False] * 4 + [True]}
    else:
        assert is_used == replicas == {"a": whole, "b": whole, "None": whole}


def test_a_topic_that_was_deleted_meanwhile_begins_anew_and_one_that_is_gone_has_no_series() -> None:
    back = [("back", None, sample, 1, float(sample)) for sample in (0, 1, 3, 4)]
    gone = [("gone", None, sample, 1, float(sample)) for sample in range(4)]
    assert list_sizes(make_loads(*back, *gone), 5) == {"back": pytest.approx([np.nan] * 3 + [3, 4], nan_ok=True)}


def test_sums_of_other_partitions_are_left_out() -> None:
    """A sample whose sources lack the sizes of half of the partitions is no smaller cluster."""
    loads = make_loads(*(("", None, sample, 100, 1000.0 + sample) for sample in range(5)))
    known = loads["partitions_with_size"].to_pylist()
    known[2] = 50
    at = loads.schema.get_field_index("partitions_with_size")
    loads = loads.set_column(at, "partitions_with_size", pa.array(known, pa.int64()))
    assert list_sizes(loads, 5)[None] == pytest.approx([1000, 1001, np.nan, 1003, 1004], nan_ok=True)


def make_days(*days: float) -> npt.NDArray[np.int64]:
    return (np.array(days) * US_PER_DAY).astype(np.int64) + 20_000 * US_PER_DAY


@pytest.mark.parametrize(
    ("days", "reason"),
    [
        ((0, 1, 2, 3), "too little history: 4 samples, and a slope needs 5"),
        ((0, 0.5, 1, 1.5, 2), "too little history: 2.0 days, and a slope needs 3"),
        ((0, 1, 2, 3, 4), None),
    ],
)
def test_too_little_history_has_a_reason_instead_of_a_slope(days: tuple[float, ...], reason: str | None) -> None:
    loads = make_loads(*(("", None, sample, 1, 5.0 * day) for sample, day in enumerate(days)))
    rows = {row["quantity"]: row for row in growth_rows(loads, make_days(*days), LIMITS_OF_HISTORY).to_pylist()}
    size = rows["size_bytes"]
    assert (size["reason"], size["samples"], size["latest_value"]) == (reason, len(days), 5 * days[-1])
    assert size["slope_per_day"] == (None if reason else 5)
    assert rows["bytes_in_per_s"]["reason"] == "no source shows it"


def test_a_sample_without_rows_deletes_no_topic() -> None:
    """Runs of earlier versions are in ops.runs, but wrote no totals."""
    loads = make_loads(*(("a", None, sample, 1, 5.0 * sample) for sample in (1, 2, 3, 5, 6)))
    rows = growth_rows(loads, make_days(*range(7)), LIMITS_OF_HISTORY).to_pylist()
    (size,) = (row for row in rows if row["quantity"] == "size_bytes")
    assert (size["samples"], size["slope_per_day"]) == (5, pytest.approx(5))
    assert (size["last_at"] - size["first_at"]).days == 5


def test_samples_of_the_window_that_divide_it_evenly() -> None:
    limits = LIMITS_OF_HISTORY._replace(window_days=10, max_samples=5)
    assert select_samples(make_days(0, 1, 12, 15, 20), limits).tolist() == [2, 3, 4]
    hourly = make_days(*(hour / 24 for hour in range(20 * 24)))
    chosen = select_samples(hourly, limits)
    assert chosen[-1] == len(hourly) - 1
    assert np.diff(chosen).tolist() == [48] * (len(chosen) - 1)
    assert len(chosen) == 5
    assert select_samples(make_days(), limits).tolist() == []


def test_reasons_of_forecasts() -> None:
    row = {"limit_name": "disk_full", "subject_kind": "broker", "broker_id": 1, "quantity": "size_bytes"}
    row |= {"limit_source": "add it", "latest_value": 1.0, "level": 1.0}
    slope = {"slope_per_day": 1.0, "slope_per_day_low": -1.0, "slope_per_day_high": 2.0}
    cases = [
        row | slope | {"limit_value": 11.0},
        row | slope | {"limit_value": 11.0, "slope_per_day": -0.5},
        row | slope,
        row | {"reason": "too little history"},
        row | {"reason": "too little history", "limit_value": 0.5},
    ]
    found = forecast_rows(pa.Table.from_pylist(cases, schema=LIMITS)).to_pylist()
    assert [(row["days"], row["days_low"], row["days_high"], row["reason"]) for row in found] == [
        (10, 5, None, None),
        (None, 5, None, NOT_GROWING),
        (None, None, None, "the limit is unknown: add it"),
        (None, None, None, "too little history; the limit is unknown: add it"),
        (0, 0, 0, None),
    ]
