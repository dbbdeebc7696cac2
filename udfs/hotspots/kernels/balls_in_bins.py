"""Balls into bins: the exact distribution of the fullest of n bins into which m balls are thrown at random.

P(max <= k) = m! [z^m] prod_i sum_{j<=k} (p_i z)^j / j!, where p_i is the probability of bin i. With Poisson weights
(mean m p_i) instead of (p_i z)^j / j!, the coefficient is a probability, up to a factor that is the same for all k. It
is read off a discrete Fourier transform of N points. What wraps around is a Poisson variable at least N from its mean,
which is negligible.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_NEGLIGIBLE = 1e-13


@dataclass(frozen=True)
class FullestBin:
    """Distribution of the number of balls in the fullest bin."""

    lowest: int  # The smallest possible number
    at_most: Floats  # float64, P(max <= lowest + i)

    @property
    def mean(self) -> float:
        """Expected number of balls."""
        return float(self.lowest + (1.0 - self.at_most).sum())

    def percentile(self, percent: float) -> int:
        """Return the smallest count that at least `percent` % of throws do not exceed."""
        index = int(np.searchsorted(self.at_most, percent / 100.0 - _NEGLIGIBLE))
        return self.lowest + min(index, len(self.at_most) - 1)


@compiled
def _poisson(mean: float, first: int, out: Floats) -> None:
    """Compute P(X = first + i) of a Poisson variable, up to a factor; first + len(out) > mean >= first."""
    peak = int(mean) - first
    out[peak] = 1.0
    for i in range(peak + 1, len(out)):
        out[i] = out[i - 1] * mean / (first + i)
    for i in range(peak - 1, -1, -1):
        out[i] = out[i + 1] * (first + i + 1) / mean
    out /= out.sum()


@compiled
def _coefficients(weights: Floats, first: Ints, bins: Ints, balls: int, lowest: int, points: int, out: Floats) -> None:
    """Compute P(`balls` balls, no bin with more than lowest + i) for each i of out; weights: of first[g] + j balls."""
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


def find_fullest_bin(balls: int, probability: Floats, bins: Ints) -> FullestBin:
    """Compute the distribution of the fullest bin, for groups of equal bins (int64, > 0), of this probability each.

    Takes O(balls) time for large numbers, and O(sqrt(balls)) memory.
    """
    n = int(bins.sum())
    lowest = -(-balls // n)
    if balls <= 1 or n == 1:
        return FullestBin(balls if n == 1 else lowest, np.ones(1))
    means = balls * probability
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
    return FullestBin(lowest, at_most)
