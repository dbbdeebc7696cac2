"""How evenly a load lies on brokers: the measures that people already read, over many groups at once.

Groups are segments of a flat array (see ragged.py): one per cluster and scheme, or per topic. A group may leave out
brokers that have nothing: `brokers` says how many there are in all, and the missing count as zeros. A group without
brokers, or without any load, has no inequality: its ratios are NaN.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from udfs.arrow.ragged import Offsets, row_of

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def _segment_sum(values: Floats, offsets: Offsets) -> Floats:
    # Not a difference of running sums: beside a huge group, a small one would drown in rounding.
    out = np.zeros(len(offsets) - 1)
    filled = np.diff(offsets) > 0
    if filled.any():
        out[filled] = np.add.reduceat(values, offsets[:-1][filled])
    return out


def _divide(a: Floats, b: Floats) -> Floats:
    out = np.full(len(a), np.nan)
    np.divide(a, b, out=out, where=b != 0)
    return out


def mean(values: Floats, offsets: Offsets, brokers: Ints) -> Floats:
    """Mean of each group (g). values: float64 (flat), >= 0; brokers: int64 (g), >= the segment's length."""
    return _divide(_segment_sum(values, offsets), brokers.astype(np.float64))


def largest(values: Floats, offsets: Offsets, brokers: Ints) -> Floats:
    """Largest value of each group (g); NaN where there is no broker."""
    out = np.where(brokers > 0, 0.0, np.nan)
    filled = np.diff(offsets) > 0
    if filled.any():
        out[filled] = np.maximum.reduceat(values, offsets[:-1][filled])
    return out


def smallest(values: Floats, offsets: Offsets, brokers: Ints) -> Floats:
    """Smallest value of each group (g); NaN where there is no broker."""
    out = np.where(brokers > 0, 0.0, np.nan)
    full = (np.diff(offsets) == brokers) & (brokers > 0)
    if full.any():
        # reduceat runs to the next begin given: take it over all filled segments, then keep the full ones.
        filled = np.diff(offsets) > 0
        low = np.full(len(out), np.nan)
        low[filled] = np.minimum.reduceat(values, offsets[:-1][filled])
        out[full] = low[full]
    return out


def max_over_mean(values: Floats, offsets: Offsets, brokers: Ints) -> Floats:
    """Largest value over the mean, of each group (g): 1 = all equal."""
    return _divide(largest(values, offsets, brokers), mean(values, offsets, brokers))


def coefficient_of_variation(values: Floats, offsets: Offsets, brokers: Ints) -> Floats:
    """Population standard deviation over the mean, of each group (g)."""
    average = mean(values, offsets, brokers)
    # Summed as deviations, not as squares minus the squared mean: equal values must give exactly zero.
    squares = _segment_sum((values - average[row_of(offsets)]) ** 2, offsets)
    squares += (brokers - np.diff(offsets)) * np.nan_to_num(average) ** 2
    return _divide(np.sqrt(_divide(squares, brokers.astype(np.float64))), average)


def gini(values: Floats, offsets: Offsets, brokers: Ints) -> Floats:
    """Gini coefficient of each group (g): 0 = all equal, (n - 1) / n = one broker has all."""
    rows = row_of(offsets)
    ordered = values[np.lexsort((values, rows))]
    zeros = brokers - np.diff(offsets)
    rank = np.arange(len(values)) - offsets[:-1][rows] + 1.0 + zeros[rows]
    total = _segment_sum(values, offsets)
    weighted = _segment_sum(rank * ordered, offsets)
    return _divide(2.0 * weighted - (brokers + 1.0) * total, brokers * total)


def jain(values: Floats, offsets: Offsets, brokers: Ints) -> Floats:
    """Jain's fairness index of each group (g): 1 = all equal, 1 / n = one broker has all."""
    total = _segment_sum(values, offsets)
    return _divide(total**2, brokers * _segment_sum(values**2, offsets))


def shares_above(values: Floats, offsets: Offsets, limit: Floats) -> Ints:
    """For each group (int64, g), how many of its values exceed the group's limit (g)."""
    return _segment_sum((values > limit[row_of(offsets)]).astype(np.float64), offsets).astype(np.int64)
