"""The fullest of n bins into which m balls are thrown blindly: its exact distribution.

P(max <= k) = m! [z^m] prod_i sum_{j<=k} (p_i z)^j / j!, p_i = the chance of bin i. With Poisson weights (mean m p_i) in
place of (p_i z)^j / j! the coefficient is a probability, up to a factor that all k share, and is read off a discrete
Fourier transform of N points: what wraps around there is a Poisson variable N and more from its mean, which is nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_NEGLIGIBLE = 1e-13


@dataclass(frozen=True)
class Fullest:
    """The number of balls in the fullest bin. lowest: the least it can be.   at_most: float64, P(max <= lowest + i)."""

    lowest: int
    at_most: Floats

    @property
    def mean(self) -> float:
        """Its expectation, in balls."""
        return float(self.lowest + (1.0 - self.at_most).sum())

    def percentile(self, percent: float) -> int:
        """The least count that is not passed in `percent` % of throws."""
        found = int(np.searchsorted(self.at_most, percent / 100.0 - _NEGLIGIBLE))
        return self.lowest + min(found, len(self.at_most) - 1)


@compiled
def _poisson(mean: float, first: int, out: Floats) -> None:
    """P(X = first + i) of a Poisson variable, up to a factor; first + len(out) > mean >= first."""
    peak = int(mean) - first
    out[peak] = 1.0
    for i in range(peak + 1, len(out)):
        out[i] = out[i - 1] * mean / (first + i)
    for i in range(peak - 1, -1, -1):
        out[i] = out[i + 1] * (first + i + 1) / mean
    out /= out.sum()


@compiled
def _coefficients(weights: Floats, first: Ints, bins: Ints, balls: int, lowest: int, points: int, out: Floats) -> None:
    """P(there are `balls` balls, and none of the bins has more than lowest + i), for each i of out.

    weights: float64 (groups, width), a bin of group g having first[g] + j balls.   bins: int64 (groups).
    points: odd, of the Fourier transform; its second half mirrors the first.
    """
    half = (points + 1) // 2
    groups, width = weights.shape
    roots = np.exp(2j * np.pi * np.arange(points) / points)
    sums = np.zeros((groups, half), dtype=np.complex128)
    for i in range(-lowest, len(out)):
        room = lowest + i
        for g in range(groups):
            j = room - first[g]
            if 0 <= j < width:
                for t in range(half):
                    sums[g, t] += weights[g, j] * roots[(t * room) % points]
        if i < 0:
            continue
        total = 0.0
        for t in range(half):
            value = roots[(t * (points - balls % points)) % points]
            for g in range(groups):
                power, base = bins[g], sums[g, t]
                while power > 0:
                    if power & 1:
                        value *= base
                    base *= base
                    power >>= 1
            total += value.real if t == 0 else 2.0 * value.real
        out[i] = total / points


def fullest(balls: int, chance: Floats, bins: Ints) -> Fullest:
    """Of `balls` >= 0 balls over groups of equal bins: bins int64 (g) > 0 in each, a bin's chance float64 (g).

    The chances of all bins add up to 1. Time O(balls) for large numbers, memory O(sqrt(balls)).
    """
    n = int(bins.sum())
    lowest = -(-balls // n)
    if balls <= 1 or n == 1:
        return Fullest(balls if n == 1 else lowest, np.ones(1))
    means = balls * chance
    spread = 9.0 * np.sqrt(means) + 20.0
    first = np.maximum(0, np.floor(means - spread)).astype(np.int64)
    most = min(balls, int(np.ceil((means + spread + np.log(n)).max())))
    width = int((most - first).max()) + 1
    weights = np.zeros((len(bins), width))
    for g in range(len(bins)):
        _poisson(float(means[g]), int(first[g]), weights[g, : most - first[g] + 1])
    points = 2 * int(5.0 * np.sqrt(balls) + 32) + 1
    out = np.empty(most - lowest + 1)
    _coefficients(weights, first, bins.astype(np.int64), balls, lowest, points, out)
    at_most = np.clip(np.maximum.accumulate(out / out[-1]), 0.0, 1.0)
    at_most = at_most[: int(np.searchsorted(at_most, 1.0 - _NEGLIGIBLE)) + 1]
    at_most[-1] = 1.0
    return Fullest(lowest, at_most)


def fullest_of(balls: int, bins: int) -> Fullest:
    """The same over equal bins."""
    return fullest(balls, np.array([1.0 / bins]), np.array([bins]))
