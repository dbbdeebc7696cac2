"""Time series as flat arrays, what their values say about rates, and the window of time whose rates count."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipelines.config.setting_sections import print_window
from pipelines.errors import SourceError
from udfs.arrow.ragged import row_of
from udfs.wording import format_duration

P95 = 0.95
SAME = 1e-9  # parts of a step that are no difference
_STEPS = 20  # with fewer, the p95 is the peak
_SCRAPES = 4  # that a window has at least
_JITTER = 1.05  # scrapes are not quite as far apart as they should be


@dataclass(frozen=True)
class Window:
    """A window of time and its steps, over which single rates are computed.

    A step needs the sample before it. So the first step begins one scrape after the window, and rates of steps are of
    nothing outside it. A step is shorter than step_s if the window has few of them, but not shorter than scrape_s.
    """

    end_s: float  # since 1970
    length_s: float
    step_s: float  # the longest step
    scrape_s: float | None = None  # between two scrapes; None = unknown: a step has four

    @property
    def length(self) -> str:
        """The window, as a query names it."""
        return f"[{self.length_s:.0f}s]"

    @property
    def _known_scrape_s(self) -> float:
        return min(self.step_s, self.length_s) / _SCRAPES if self.scrape_s is None else self.scrape_s

    @property
    def margin_ms(self) -> int:
        """Milliseconds before a step in which the sample before it is."""
        return max(round(1_000 * self._known_scrape_s * _JITTER), 1)

    @property
    def _usable_ms(self) -> int:
        return max(round(1_000 * self.length_s) - self.margin_ms, self.margin_ms)

    @property
    def steps(self) -> int:
        """The number of steps."""
        seconds = self._usable_ms / 1_000
        most = math.floor(seconds / self._known_scrape_s + SAME)
        return max(1, min(most, max(_STEPS, math.ceil(seconds / self.step_s - SAME))))

    @property
    def step_ms(self) -> int:
        """The milliseconds of a step; the last one ends with the window."""
        return self._usable_ms // self.steps

    @property
    def p95_rank(self) -> float:
        """The quantile that is the rate of a step: the lowest that is not exceeded in 95 % of the steps."""
        return (math.ceil(P95 * self.steps - SAME) - 1) / max(self.steps - 1, 1)

    def check(self, place: str, observed_s: float = math.inf) -> None:
        """Raise SourceError if the window has too few scrapes. observed_s: of all samples, also before the window."""
        shortest = round(min(_SCRAPES * (self.scrape_s or 0), observed_s))
        if self.length_s < shortest:
            between = format_duration(self.scrape_s or 0)
            problem = f"the window of {print_window(round(self.length_s))} is too short for scrapes every {between}"
            raise SourceError(place, problem, f"Choose --window {print_window(shortest)} or longer")


Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Labels = Mapping[str, str]

_FEW = 3  # intervals
_GAP = 3.0  # an interval is a gap if it is longer than this many times the usual one


@dataclass(frozen=True)
class SeriesSet:
    """Series with their samples; series i has the samples offsets[i] to offsets[i + 1], by rising time."""

    labels: tuple[Labels, ...]  # (n), with the name of the metric in __name__
    offsets: Ints  # int64 (n + 1)
    times_s: Floats  # float64 (m), seconds since 1970
    values: Floats  # float64 (m)

    @classmethod
    def of_samples(cls, labels: Sequence[Labels], times_s: Sequence[Floats], values: Sequence[Floats]) -> SeriesSet:
        """Return series from parts: parts with the same labels are one series. Of samples at one time, the last counts.

        Samples that are no numbers, which mark the end of a series in Prometheus, are left out.
        """
        numbers: dict[frozenset[tuple[str, str]], int] = {}
        part = [numbers.setdefault(frozenset(one.items()), len(numbers)) for one in labels]
        unique = tuple(dict(zip(part, labels, strict=True)).values())
        row = np.repeat(np.array(part, dtype=np.int64), [len(one) for one in times_s])
        time, value = (np.concatenate([np.empty(0), *parts]) for parts in (times_s, values))
        usable = np.isfinite(value) & np.isfinite(time)
        row, time, value = row[usable], time[usable], value[usable]
        order = np.lexsort((time, row))
        row, time, value = row[order], time[order], value[order]
        is_last = np.r_[(row[1:] != row[:-1]) | (time[1:] != time[:-1]), np.ones(min(len(row), 1), dtype=np.bool_)]
        row, time, value = row[is_last], time[is_last], value[is_last]
        offsets = np.searchsorted(row, np.arange(len(unique) + 1)).astype(np.int64)
        return cls(unique, offsets, time, value)

    def select(self, begin_s: float, end_s: float) -> SeriesSet:
        """Return the samples from one moment to another, both included."""
        inside = (self.times_s >= begin_s) & (self.times_s <= end_s)
        offsets = np.r_[0, np.cumsum(inside)][self.offsets].astype(np.int64)
        return SeriesSet(self.labels, offsets, self.times_s[inside], self.values[inside])

    def take(self, rows: Sequence[int]) -> SeriesSet:
        """Return some of the series, in this order."""
        counts = np.diff(self.offsets)[rows] if len(rows) else np.empty(0, dtype=np.int64)
        offsets = np.r_[0, np.cumsum(counts)].astype(np.int64)
        at = np.repeat(self.offsets[:-1][rows] - offsets[:-1], counts) + np.arange(offsets[-1]) if len(rows) else rows
        at = np.asarray(at, dtype=np.int64)
        return SeriesSet(tuple(self.labels[row] for row in rows), offsets, self.times_s[at], self.values[at])


def begin_at_zero(series: SeriesSet, is_counter: npt.NDArray[np.bool_], target: Ints) -> SeriesSet:
    """Give counters that appear later than others of their target a first sample of 0, at the scrape before.

    A broker counts a topic only from its first record on. is_counter: bool (n). target: what was scraped: int64 (n).
    """
    first = series.offsets[:-1]
    counts = np.diff(series.offsets)
    candidates = np.flatnonzero(is_counter & (counts > 0))
    sample_target = target[row_of(series.offsets)]
    added, times = [], []
    for one in np.unique(target[candidates]):
        own = candidates[target[candidates] == one]
        scrapes = np.unique(series.times_s[sample_target == one])
        before = np.searchsorted(scrapes, series.times_s[first[own]]) - 1
        is_late = before >= 0
        added.append(own[is_late])
        times.append(scrapes[before[is_late]])
    if not added:
        return series
    rows = np.concatenate(added)
    order = np.argsort(rows)
    rows, at = rows[order], np.concatenate(times)[order]
    place = first[rows]
    offsets = series.offsets + np.r_[0, np.cumsum(np.bincount(rows, minlength=len(counts)))]
    return SeriesSet(series.labels, offsets, np.insert(series.times_s, place, at), np.insert(series.values, place, 0.0))


@dataclass(frozen=True)
class RateStatistics:
    """Rates of series (n) over the time that their samples cover; NaN = too few samples."""

    mean: Floats  # per second
    p95: Floats  # per second: the rate is at most this in 95 % of the time
    peak: Floats  # per second: the highest rate between two samples
    observed_s: Floats  # from the first sample to the last
    resets: Ints  # how often a counter began again
    gaps: Ints  # intervals without samples, over three times as long as usual


def find_scrape_interval(series: SeriesSet) -> float | None:
    """Return the usual seconds between two samples, of the series that is scraped least often; None without any.

    Series of few samples count only if there are no others, as broken ones have long intervals.
    """
    end, seconds = _find_intervals(series)
    row = row_of(series.offsets)[end]
    counts = np.bincount(row, minlength=len(series.labels))
    usual = _find_usual(row, seconds, counts)[counts >= min(_FEW, counts.max(initial=1))]
    return float(usual.max()) if len(usual) else None


def _find_intervals(series: SeriesSet) -> tuple[Ints, Floats]:
    """Return the samples that follow another one of their series (k), and the seconds since that one."""
    row = row_of(series.offsets)
    end = np.flatnonzero(np.r_[False, row[1:] == row[:-1]][: len(row)])
    return end, series.times_s[end] - series.times_s[end - 1]


def _find_rates(
    series: SeriesSet, is_counter: npt.NDArray[np.bool_], end: Ints, seconds: Floats
) -> tuple[Floats, Ints]:
    """Return the rate over each interval (k), and which intervals begin a counter again."""
    is_own = is_counter[row_of(series.offsets)[end]]
    increase = series.values[end] - series.values[end - 1]
    is_reset = is_own & (increase < 0)
    increase = np.where(is_reset, series.values[end], increase)
    return np.where(is_own, increase / seconds, series.values[end]), is_reset.astype(np.int64)


def summarise_steps(series: SeriesSet, is_counter: npt.NDArray[np.bool_], window: Window) -> tuple[Floats, Floats]:
    """Return the p95 and the peak of the rates over the steps of a window; NaN for a series without two samples.

    Between two samples, a series has one rate. A step counts if some of it is between the first sample and the last.
    """
    n = len(series.labels)
    end, seconds = _find_intervals(series)
    rate, _ = _find_rates(series, is_counter, end, seconds)
    transferred = np.zeros(len(series.times_s))
    transferred[end] = rate * seconds
    counts = np.diff(series.offsets)
    rows = np.flatnonzero(counts > 1)
    edges = window.end_s - window.step_ms / 1_000 * np.arange(window.steps, -1, -1.0)
    first, last = (series.times_s[at] for at in (series.offsets[:-1][rows], series.offsets[1:][rows] - 1))
    # All series one behind the other on one axis, so that they are interpolated at once.
    inside = np.clip(edges, first[:, None], last[:, None]) - first[:, None]
    begin = np.zeros(n)
    begin[rows] = np.r_[0.0, np.cumsum(last - first + 1)][:-1]
    sample_row = row_of(series.offsets)
    is_used = counts[sample_row] > 1
    axis = (begin[sample_row] + series.times_s - series.times_s[series.offsets[:-1][sample_row]])[is_used]
    total = np.interp(begin[rows][:, None] + inside, axis, np.cumsum(transferred[is_used])) if len(rows) else inside
    is_step = (edges[:-1] < last[:, None] - SAME) & (edges[1:] > first[:, None] + SAME)
    step_rate = (np.diff(total, axis=1) / (window.step_ms / 1_000))[is_step]
    row = np.repeat(rows, is_step.sum(axis=1))
    order = np.lexsort((step_rate, row))
    row, step_rate, weight = row[order], step_rate[order], np.ones(len(row))
    steps = np.bincount(row, weight, n).astype(np.float64)
    p95, peak = (_find_quantile(row, step_rate, weight, steps, quantile) for quantile in (P95, 1.0))
    return p95, peak


def summarise_rates(series: SeriesSet, is_counter: npt.NDArray[np.bool_]) -> RateStatistics:
    """Return the rates of counters, and of series that are rates. is_counter: bool (n).

    A counter that falls has begun again at 0. Its increase over a gap is known, so a gap has the mean rate over it. A
    rate counts for the time since the sample before; one sample of a rate counts as all of the time.
    """
    n = len(series.labels)
    sample_row = row_of(series.offsets)
    end, seconds = _find_intervals(series)
    row = sample_row[end]
    rate, is_reset = _find_rates(series, is_counter, end, seconds)

    single = np.flatnonzero((np.diff(series.offsets) == 1) & ~is_counter)
    row, rate, weight = (
        np.r_[row, single],
        np.r_[rate, series.values[series.offsets[single]]],
        np.r_[seconds, np.ones(len(single))],
    )
    order = np.lexsort((rate, row))
    row, rate, weight = row[order], rate[order], weight[order]
    total = np.bincount(row, weight, n).astype(np.float64)  # of nothing, bincount counts integers
    with np.errstate(invalid="ignore"):
        mean = np.bincount(row, rate * weight, n) / total
    usual = _find_usual(sample_row[end], seconds, np.bincount(sample_row[end], minlength=n))
    is_gap = seconds > _GAP * usual[sample_row[end]]
    gaps = np.bincount(sample_row[end], is_gap, n).astype(np.int64)
    return RateStatistics(
        np.where(total > 0, mean, np.nan),
        _find_quantile(row, rate, weight, total, P95),
        _find_quantile(row, rate, weight, total, 1.0),
        np.bincount(sample_row[end], seconds, n).astype(np.float64),
        np.bincount(sample_row[end], is_reset, n).astype(np.int64),
        gaps,
    )


def _find_usual(row: Ints, seconds: Floats, counts: Ints) -> Floats:
    """Return the lower median of the intervals of each series, inf without any. counts: intervals of each (n)."""
    begins = np.cumsum(counts) - counts
    usual = np.full(len(counts), np.inf)
    present = counts > 0
    usual[present] = seconds[np.lexsort((seconds, row))][(begins + (counts - 1) // 2)[present]]
    return usual


def _find_quantile(row: Ints, rate: Floats, weight: Floats, total: Floats, quantile: float) -> Floats:
    """Return the lowest rate that rates reach or stay below in this part of the time. row, rate: sorted."""
    quantiles = np.full(len(total), np.nan)
    if not len(row):
        return quantiles
    counts = np.bincount(row, minlength=len(total))
    begins = np.cumsum(counts) - counts
    before = np.r_[0.0, np.cumsum(weight)]
    share = (before[1:] - before[begins[row]]) / total[row]
    is_enough = share >= quantile - SAME
    first = np.r_[True, row[1:] != row[:-1]] | ~np.r_[False, is_enough[:-1]]
    chosen = np.flatnonzero(is_enough & first)
    quantiles[row[chosen]] = rate[chosen]
    return quantiles
