"""The probability of loss, against enumeration of every set of brokers that could fail."""

from __future__ import annotations

from itertools import combinations
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.seed_sampler import count_cases
from udfs.durability.kernels.loss_probability import (
    EXACT,
    MONTE_CARLO,
    SearchEffort,
    compute_expected_loss,
    compute_loss_probability,
    count_lost_sets,
    count_scatter_widths,
    find_copysets,
    index_copysets,
)

UNLIMITED = SearchEffort(10**8, 1, 0)


@st.composite
def placements(draw: st.DrawFn) -> tuple[int, list[list[int]]]:
    n = draw(st.integers(1, 12))
    rows = draw(st.lists(st.integers(1, min(n, 4)), min_size=0, max_size=15))
    return n, [draw(st.permutations(range(n)))[:size] for size in rows]


def flat(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    broker = np.array([b for row in rows for b in row], dtype=np.int32)
    return np.append(0, np.cumsum([len(row) for row in rows])).astype(np.int64), broker


@settings(max_examples=count_cases(150), deadline=None)
@given(placements())
def test_probabilities_are_those_of_enumeration(placed: tuple[int, list[list[int]]]) -> None:
    n, rows = placed
    sets = {frozenset(row) for row in rows}
    offsets, members = find_copysets(*flat(rows), n)
    assert {frozenset(part.tolist()) for part in np.split(members, offsets[1:-1]) if len(part)} == sets
    assert len(offsets) - 1 == len(sets)
    neighbors = [{b for s in sets if a in s for b in s} - {a} for a in range(n)]
    assert count_scatter_widths(offsets, members, n).tolist() == [len(found) for found in neighbors]
    for k in range(1, min(n, 5) + 1):
        failures = [frozenset(chosen) for chosen in combinations(range(n), k)]
        lost = sum(any(s <= down for s in sets) for down in failures)
        loss = compute_loss_probability(offsets, members, n, k, UNLIMITED)
        assert loss.method == EXACT
        assert loss.probability == pytest.approx(lost / len(failures), abs=1e-15)
        for max_marks in (0, 1 << 24):  # both ways to look a set up
            with patch("udfs.durability.kernels.loss_probability._MAX_MARKS", max_marks):
                assert count_lost_sets(index_copysets(offsets, members, n, k), k, n, 10**7) == lost
        weight = np.arange(1.0, len(rows) + 1)
        mean = sum(w for down in failures for w, row in zip(weight, rows, strict=True) if set(row) <= down) / len(
            failures
        )
        assert compute_expected_loss(
            np.array([len(row) for row in rows], dtype=np.int64), weight, n, k
        ) == pytest.approx(mean)


def test_estimates_are_near_the_exact_probability() -> None:
    rng = np.random.default_rng(1)
    rows = [rng.permutation(30)[:3].tolist() for _ in range(60)]
    offsets, members = find_copysets(*flat(rows), 30)
    exact = compute_loss_probability(offsets, members, 30, 5, UNLIMITED).probability
    estimate = compute_loss_probability(offsets, members, 30, 5, SearchEffort(0, 20_000, 7))
    assert estimate.method == MONTE_CARLO
    assert estimate.low < exact < estimate.high
    assert estimate.high - estimate.low < 0.03
    assert estimate == compute_loss_probability(offsets, members, 30, 5, SearchEffort(0, 20_000, 7))
