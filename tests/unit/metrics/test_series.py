"""Rates from samples: resets, gaps, quantiles by time, and what cannot be known."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipelines.metrics.series import (
    RateStatistics,
    SeriesSet,
    Window,
    begin_at_zero,
    find_scrape_interval,
    summarise_rates,
    summarise_steps,
)


def _series(*samples: list[tuple[float, float]]) -> SeriesSet:
    times = [np.array([time for time, _ in one]) for one in samples]
    values = [np.array([value for _, value in one]) for one in samples]
    return SeriesSet.of_samples([{"n": str(i)} for i in range(len(samples))], times, values)


def _summarise(*samples: list[tuple[float, float]], counter: bool = True) -> RateStatistics:
    return summarise_rates(_series(*samples), np.full(len(samples), counter))


def test_counter_with_a_reset() -> None:
    rates = _summarise([(0, 1000), (10, 1100), (20, 1300), (30, 50), (40, 150)])
    assert rates.mean.tolist() == [(100 + 200 + 50 + 100) / 40]
    assert rates.peak.tolist() == [20]
    assert rates.resets.tolist() == [1]
    assert rates.observed_s.tolist() == [40]


def test_increase_over_a_gap_is_counted() -> None:
    rates = _summarise([(0, 0), (10, 100), (20, 200), (120, 1200), (130, 1300)])
    assert rates.mean.tolist() == [10]
    assert rates.gaps.tolist() == [1]


def test_p95_is_weighted_by_time() -> None:
    steps = [(10 * i, 10.0 * i) for i in range(96)]  # 95 intervals of 1/s
    steps += [(950 + 10 * i, 950 + 1000.0 * i) for i in range(1, 6)]  # 5 intervals of 100/s
    rates = _summarise(steps)
    assert rates.p95.tolist() == [1]
    assert rates.peak.tolist() == [100]
    assert _summarise([*steps, (1010, 6950)]).p95.tolist() == [100]


def test_one_sample_of_a_counter_tells_no_rate() -> None:
    rates = _summarise([(0, 5)], [(0, 1), (10, 2)], [])
    assert [math.isnan(value) for value in rates.mean.tolist()] == [True, False, True]
    assert [math.isnan(value) for value in rates.peak.tolist()] == [True, False, True]


def test_one_sample_of_a_rate_is_the_rate() -> None:
    rates = _summarise([(0, 5)], [(0, 1), (10, 3), (30, 6)], counter=False)
    assert rates.mean.tolist() == [5, (3 * 10 + 6 * 20) / 30]
    assert rates.p95.tolist() == [5, 6]


def test_parts_of_a_series_are_joined_and_stale_samples_left_out() -> None:
    parts = [np.array([20.0, 30.0]), np.array([0.0, 20.0])]
    values = [np.array([7.0, math.nan]), np.array([5.0, 6.0])]
    series = SeriesSet.of_samples([{"a": "1"}, {"a": "1"}], parts, values)
    assert len(series.labels) == 1
    assert series.times_s.tolist() == [0, 20]
    assert series.values.tolist() == [5, 6]


def test_counter_that_appears_later_begins_at_zero_at_the_scrape_before() -> None:
    series = _series([(0, 5), (10, 6)], [(10, 40), (20, 50)], [(0, 7), (20, 9)], [(20, 3)], [(20, 8)])
    is_counter = np.array([True, True, True, False, True])
    begun = begin_at_zero(series, is_counter, np.array([0, 0, 0, 0, 1]))
    assert begun.offsets.tolist() == [0, 2, 5, 7, 8, 9]
    assert begun.times_s[2:5].tolist() == [0, 10, 20]
    assert begun.values[2:5].tolist() == [0, 40, 50]
    assert begin_at_zero(begun, is_counter, np.zeros(5, dtype=np.int64)).offsets.tolist() == [0, 2, 5, 7, 8, 10]


def test_window_cuts_samples() -> None:
    series = _series([(0, 1), (10, 2), (20, 3)], [(30, 1)], [(5, 9)])
    cut = series.select(5, 20)
    assert cut.offsets.tolist() == [0, 2, 2, 3]
    assert cut.values.tolist() == [2, 3, 9]


def test_nothing_is_nothing() -> None:
    rates = summarise_rates(SeriesSet.of_samples([], [], []), np.zeros(0, dtype=np.bool_))
    assert len(rates.mean) == len(rates.p95) == len(rates.gaps) == 0


@given(st.lists(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 1000)), max_size=8), max_size=5))
def test_statistics_are_those_of_a_loop(samples: list[list[tuple[int, int]]]) -> None:
    series = [sorted(dict(one).items()) for one in samples]
    rates = _summarise(*[[(float(t), float(v)) for t, v in one] for one in series])
    for i, one in enumerate(series):
        steps = [(t1 - t0, (v1 - v0 if v1 >= v0 else v1) / (t1 - t0)) for (t0, v0), (t1, v1) in pairwise(one)]
        if not steps:
            assert math.isnan(rates.mean[i])
            continue
        total = sum(weight for weight, _ in steps)
        assert math.isclose(rates.mean[i], sum(weight * rate for weight, rate in steps) / total, abs_tol=1e-9)
        assert rates.peak[i] == max(rate for _, rate in steps)
        reached, below = 0.0, sorted(steps, key=lambda step: step[1])
        for weight, rate in below:
            reached += weight
            if reached >= 0.95 * total - 1e-6:
                assert math.isclose(rates.p95[i], rate)
                break


def test_rates_of_steps_are_those_between_their_ends() -> None:
    """20 steps of 30 s, from 400 to 1000; a series counts in the steps that it is in."""
    window = Window(1_000.0, 621, 30, 20.0)
    grid = np.arange(380.0, 1_001, 10)
    steady = [(t, 5 * t) for t in grid]
    burst = [(t, 5 * t + 90 * min(max(t - 700, 0), 10)) for t in grid]  # 900 bytes within one step
    restarted = [(t, 5 * (t - 700) if t > 700 else 5 * t) for t in grid]  # nothing is lost
    late = [(t, 5 * (t - 880)) for t in grid if t >= 880]
    series = _series(steady, burst, [], restarted, late, [(950.0, 7.0)])
    p95, peak = summarise_steps(series, np.full(6, True), window)
    np.testing.assert_allclose(p95, [5, 5, np.nan, 5, 5, np.nan])
    np.testing.assert_allclose(peak, [5, 35, np.nan, 5, 5, np.nan])
    p95, peak = summarise_steps(_series([(t, 40 if t in (500, 510) else 4) for t in grid]), np.array([False]), window)
    np.testing.assert_allclose((p95[0], peak[0]), (4, (40 + 40 + 4) / 3))


def test_scrape_interval_is_the_usual_one() -> None:
    assert find_scrape_interval(_series([(0, 1), (15, 1), (30, 1), (300, 1)], [(7, 1), (22, 1)])) == 15
    broken = [(0.0, 1.0), (900.0, 1.0)]
    assert find_scrape_interval(_series([(t, 1.0) for t in range(0, 90, 15)], broken)) == 15
    assert (
        find_scrape_interval(_series([(t, 1.0) for t in range(0, 90, 15)], [(0, 1), (30, 1), (60, 1), (90, 1)])) == 30
    )
    assert find_scrape_interval(_series(broken)) == 900
    assert find_scrape_interval(_series([(0, 1)], [])) is None
    assert find_scrape_interval(_series()) is None
