"""The chance of loss, against enumeration of every set of brokers that could fail."""

from __future__ import annotations

from itertools import combinations
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from udfs.durability.kernels.loss_probability import (
    EXACT,
    MONTE_CARLO,
    _count_lost,
    _lookup,
    copysets,
    expected_lost,
    loss_probability,
    scatter_width,
)


@st.composite
def placements(draw: st.DrawFn) -> tuple[int, list[list[int]]]:
    n = draw(st.integers(1, 12))
    rows = draw(st.lists(st.integers(1, min(n, 4)), min_size=0, max_size=15))
    return n, [draw(st.permutations(range(n)))[:size] for size in rows]


def flat(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    broker = np.array([b for row in rows for b in row], dtype=np.int32)
    return np.append(0, np.cumsum([len(row) for row in rows])).astype(np.int64), broker


def grown(offsets: np.ndarray, members: np.ndarray, n: int, k: int) -> int:
    look = _lookup(offsets, members, n, k)
    return _count_lost(k, n, 10**7, look.ranks, look.begins, look.marks, look.mark_begins, look.binomial)


@settings(max_examples=150, deadline=None)
@given(placements())
def test_as_enumerated(placed: tuple[int, list[list[int]]]) -> None:
    n, rows = placed
    sets = {frozenset(row) for row in rows}
    offsets, members = copysets(*flat(rows), n)
    assert {frozenset(part.tolist()) for part in np.split(members, offsets[1:-1]) if len(part)} == sets
    assert len(offsets) - 1 == len(sets)
    near = [{b for s in sets if a in s for b in s} - {a} for a in range(n)]
    assert scatter_width(offsets, members, n).tolist() == [len(found) for found in near]
    for k in range(1, min(n, 5) + 1):
        failures = [frozenset(chosen) for chosen in combinations(range(n), k)]
        lost = sum(any(s <= down for s in sets) for down in failures)
        chance, _, _, method = loss_probability(offsets, members, n, k, 10**7, 1, 0)
        assert method == EXACT
        assert chance == pytest.approx(lost / len(failures), abs=1e-15)
        for most_marks in (0, 1 << 24):  # both ways to look a set up
            with patch("udfs.durability.kernels.loss_probability._MOST_MARKS", most_marks):
                assert grown(offsets, members, n, k) == lost
        weight = np.arange(1.0, len(rows) + 1)
        mean = sum(w for down in failures for w, row in zip(weight, rows, strict=True) if set(row) <= down) / len(
            failures
        )
        assert expected_lost(np.array([len(row) for row in rows], dtype=np.int64), weight, n, k) == pytest.approx(mean)


def test_drawn_chances_lie_about_the_exact_one() -> None:
    rng = np.random.default_rng(1)
    rows = [rng.permutation(30)[:3].tolist() for _ in range(60)]
    offsets, members = copysets(*flat(rows), 30)
    exact = loss_probability(offsets, members, 30, 5, 10**8, 1, 0)[0]
    share, lower, upper, method = loss_probability(offsets, members, 30, 5, 0, 20_000, 7)
    assert method == MONTE_CARLO
    assert lower < exact < upper
    assert upper - lower < 0.03
    assert share == loss_probability(offsets, members, 30, 5, 0, 20_000, 7)[0]
