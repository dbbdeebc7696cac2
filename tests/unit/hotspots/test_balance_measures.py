"""Measures of inequality, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from udfs.arrow.ragged import offsets_of
from udfs.hotspots.hotspot_measures import measure_balance


def groups(*rows: list[float]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([v for row in rows for v in row], dtype=np.float64), offsets_of(np.array([len(r) for r in rows]))


def brute_gini(values: list[float]) -> float:
    n, total = len(values), sum(values)
    return sum(abs(a - b) for a in values for b in values) / (2 * n * total)


def test_known_values() -> None:
    values, offsets = groups([4, 4, 4, 4], [8, 0, 0, 0], [1, 2, 3, 4])
    brokers = np.array([4, 4, 4])
    assert measure_balance(values, offsets, brokers).max_over_mean.tolist() == [1, 4, 1.6]
    assert measure_balance(values, offsets, brokers).cv == pytest.approx([0, 3**0.5, 0.2**0.5 * 1.0])
    assert measure_balance(values, offsets, brokers).gini == pytest.approx([0, 0.75, 0.25])
    assert measure_balance(values, offsets, brokers).jain == pytest.approx([1, 0.25, 100 / 120])


def test_left_out_brokers_count_as_zeros() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        full = rng.integers(0, 6, rng.integers(1, 9)).astype(float).tolist()
        if not sum(full):
            continue
        some = [v for v in full if v]
        brokers = np.array([len(full)])
        for measure in ("max_over_mean", "cv", "gini", "jain"):
            assert getattr(measure_balance(*groups(some), brokers), measure) == pytest.approx(
                getattr(measure_balance(*groups(full), brokers), measure)
            ), measure
        assert measure_balance(*groups(some), brokers).gini == pytest.approx([brute_gini(full)])


def test_nothing_to_measure_is_nan_not_an_error() -> None:
    values, offsets = groups([], [0, 0], [])
    brokers = np.array([0, 2, 3])
    for measure in ("max_over_mean", "cv", "gini", "jain"):
        assert np.isnan(getattr(measure_balance(values, offsets, brokers), measure)).all()


def test_a_small_group_beside_a_huge_one_keeps_its_digits() -> None:
    values, offsets = groups([1e18, 1e18], [1, 2])
    assert measure_balance(values, offsets, np.array([2, 2])).mean.tolist() == [1e18, 1.5]
