"""How evenly a load is distributed over brokers: well-known measures of many groups at once.

A group is a segment of a flat array (see udfs/arrow/ragged.py): the brokers of a cluster or topic. All measures take
`values` (float64, flat, >= 0), `offsets` (int64, g + 1) and `brokers` (int64, g) and return one float64 per group. A
group may leave out brokers without load: `brokers` counts all of them, and missing ones count as zeros. Without
brokers, or without any load, ratios are NaN.
"""

import numpy as np
import numpy.typing as npt

from udfs.arrow.ragged import Offsets, row_of

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def _segment_sum(values: Floats, offsets: Offsets) -> Floats:
    # Not a difference of running sums: next to a huge group, a small one would be lost to rounding.
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
    """Return the mean of each group."""
    return _divide(_segment_sum(values, offsets), brokers.astype(np.float64))


def largest(values: Floats, offsets: Offsets, brokers: Ints) -> Floats:
    """Return the largest value of each group; NaN where there is no broker."""
    out = np.where(brokers > 0, 0.0, np.nan)
    filled = np.diff(offsets) > 0
    if filled.any():
        out[filled] = np.maximum.reduceat(values, offsets[:-1][filled])
    return out


def smallest(values: Floats, offsets: Offsets, brokers: Ints) -> Floats:
    """Return the smallest value of each group; NaN where there is no broker."""
    out = np.where(brokers > 0, 0.0, np.nan)
    full = (np.diff(offsets) == brokers) & (brokers > 0)
    if full.any():
        # reduceat reduces up to the next offset: run it over all filled segments, then keep the full ones.
        filled = np.diff(offsets) > 0
        low = np.full(len(out), np.nan)
        low[filled] = np.minimum.reduceat(values, offsets[:-1][filled])
        out[full] = low[full]
    return out


def max_over_mean(values: Floats, offsets: Offsets, brokers: Ints) -> Floats:
    """Return the largest value over the mean: 1 = all equal."""
    return _divide(largest(values, offsets, brokers), mean(values, offsets, brokers))


def coefficient_of_variation(values: Floats, offsets: Offsets, brokers: Ints) -> Floats:
    """Return the population standard deviation over the mean."""
    average = mean(values, offsets, brokers)
    # Sum deviations instead of squares minus the squared mean: equal values must give exactly zero.
    squares = _segment_sum((values - average[row_of(offsets)]) ** 2, offsets)
    squares += (brokers - np.diff(offsets)) * np.nan_to_num(average) ** 2
    return _divide(np.sqrt(_divide(squares, brokers.astype(np.float64))), average)


def gini(values: Floats, offsets: Offsets, brokers: Ints) -> Floats:
    """Return the Gini coefficient: 0 = all equal, (n - 1) / n = one broker has everything."""
    rows = row_of(offsets)
    ordered = values[np.lexsort((values, rows))]
    zeros = brokers - np.diff(offsets)
    rank = np.arange(len(values)) - offsets[:-1][rows] + 1.0 + zeros[rows]
    total = _segment_sum(values, offsets)
    weighted = _segment_sum(rank * ordered, offsets)
    return _divide(2.0 * weighted - (brokers + 1.0) * total, brokers * total)


def jain(values: Floats, offsets: Offsets, brokers: Ints) -> Floats:
    """Return Jain's fairness index: 1 = all equal, 1 / n = one broker has everything."""
    total = _segment_sum(values, offsets)
    return _divide(total**2, brokers * _segment_sum(values**2, offsets))


def count_above(values: Floats, offsets: Offsets, limit: Floats) -> Ints:
    """Count the values of each group (int64, g) that exceed the group's limit (g)."""
    return _segment_sum((values > limit[row_of(offsets)]).astype(np.float64), offsets).astype(np.int64)
