"""The distribution of the fullest bin, compared with all throws of few balls and many random throws of many balls."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from udfs.hotspots.kernels.balls_in_bins import FullestBin, find_fullest_bin


def enumerate_throws(balls: int, probabilities: list[float]) -> np.ndarray:
    """Return P(fullest <= k) for k from 0 to balls, from all possible throws."""
    out = np.zeros(balls + 1)
    for throw in itertools.product(range(len(probabilities)), repeat=balls):
        out[np.bincount(throw).max()] += np.prod([probabilities[bin_] for bin_ in throw])
    return np.cumsum(out)


def fullest_of(balls: int, bins: int) -> FullestBin:
    return find_fullest_bin(balls, np.array([1.0 / bins]), np.array([bins]))


def cumulative(found: FullestBin, balls: int) -> np.ndarray:
    """Return P(fullest <= k) for k from 0 to balls."""
    out = np.ones(balls + 1)
    out[: found.lowest] = 0.0
    out[found.lowest : found.lowest + len(found.at_most)] = found.at_most[: balls + 1 - found.lowest]
    return out


@pytest.mark.parametrize(("balls", "bins"), [(1, 3), (2, 2), (3, 7), (5, 3), (6, 4), (8, 2), (7, 5), (4, 1)])
def test_equal_bins_match_all_throws(balls: int, bins: int) -> None:
    expected = enumerate_throws(balls, [1 / bins] * bins)
    found = fullest_of(balls, bins)
    assert cumulative(found, balls) == pytest.approx(expected, abs=1e-11)
    assert found.mean == pytest.approx((1 - expected[:-1]).sum(), abs=1e-10)


def test_unequal_bins_match_all_throws() -> None:
    found = find_fullest_bin(6, np.array([0.1, 0.8 / 3]), np.array([2, 3]))
    assert cumulative(found, 6) == pytest.approx(enumerate_throws(6, [0.1] * 2 + [0.8 / 3] * 3), abs=1e-11)


@pytest.mark.parametrize(("balls", "bins"), [(30, 1000), (100, 6), (3000, 100), (100_000, 3), (300_000, 500)])
def test_many_balls_match_random_throws(balls: int, bins: int) -> None:
    throws = 3000
    thrown = np.random.default_rng(balls).multinomial(balls, [1 / bins] * bins, size=throws).max(axis=1)
    found = fullest_of(balls, bins)
    assert found.mean == pytest.approx(thrown.mean(), abs=4.5 * thrown.std() / throws**0.5)
    for percent in (5, 50, 95):
        share = float((thrown <= found.percentile(percent)).mean())
        passed = found.at_most[found.percentile(percent) - found.lowest]
        assert share == pytest.approx(passed, abs=0.04)
        assert passed >= percent / 100 - 1e-12


def test_no_balls() -> None:
    assert (fullest_of(0, 4).mean, fullest_of(0, 1).mean, fullest_of(9, 1).mean) == (0.0, 0.0, 9.0)


def test_the_case_of_five_single_partition_topics() -> None:
    # All five topics on one of three brokers: 3 of 3^5 throws.
    assert 1 - fullest_of(5, 3).at_most[4 - 2] == pytest.approx(3 / 3**5)
