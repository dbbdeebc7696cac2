"""The bound of copied bytes, compared with one linear program over all limits of each broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from scipy.optimize import linprog

from udfs.planning.annealing.search_task import RELIEF_STEPS, SearchTask, compute_relief
from udfs.planning.bounds.lower_bounds import bound_copied_bytes

REPLICAS, BROKERS = 40, 6


@pytest.mark.parametrize("seed", range(20))
def test_bound_and_duals_equal_those_of_linear_programs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    brokers = rng.integers(0, BROKERS, REPLICAS).astype(np.int32)
    disk, into = rng.lognormal(0, 1.5, REPLICAS), rng.lognormal(0, 1.5, REPLICAS)
    disk[rng.random(REPLICAS) < 0.2] = 0.0
    into[rng.random(REPLICAS) < 0.2] = 0.0
    loads = np.stack([disk, into, np.ones(REPLICAS)])
    held = np.stack([np.bincount(brokers, load, BROKERS) for load in loads])
    # Of some loads a broker has no excess; of some, more than it can give away.
    excess = held * rng.uniform(-0.3, 1.2, held.shape)
    may_leave = rng.random(REPLICAS) < 0.9
    found = bound_copied_bytes(brokers, np.arange(REPLICAS), (disk, into), (excess[0], excess[1], excess[2]), may_leave)
    fewest = proven = 0.0
    for b in range(BROKERS):
        parts = loads[:, (brokers == b) & may_leave]
        required = np.minimum(np.maximum(excess[:, b], 0.0), parts.sum(axis=1) * (1 - 1e-12))
        if parts.shape[1]:
            fewest += linprog(parts[0], A_ub=-parts, b_ub=-required, bounds=(0, 1), method="highs").fun
        # The duals prove it, whatever leaves.
        prices = np.array([found.disk[b], found.into[b], found.replicas[b]])
        proven += prices @ required - np.maximum(prices @ parts - parts[0], 0.0).sum()
        assert (prices >= 0.0).all()
    assert found.bound == pytest.approx(fewest, rel=1e-6)
    assert proven == pytest.approx(fewest, rel=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_curves_of_relief_equal_linear_programs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    brokers, stays = rng.integers(0, BROKERS, REPLICAS).astype(np.int32), np.arange(3)
    disk, into = rng.lognormal(0, 1.5, (2, REPLICAS))
    cluster = SimpleNamespace(rack=np.zeros(BROKERS), row=np.arange(REPLICAS), disk=disk, bytes_in=into)
    curves = compute_relief(cast(SearchTask, SimpleNamespace(cluster=cluster, slots=brokers)), stays)
    for b in range(BROKERS):
        (parts,) = np.nonzero((brokers == b) & (np.arange(REPLICAS) >= len(stays)))
        for i in (0, 1, RELIEF_STEPS // 2, RELIEF_STEPS):
            required = -min(i * curves.step[b], into[parts].sum() * (1 - 1e-12))
            fewest = linprog(disk[parts], A_ub=-into[None, parts], b_ub=[required], bounds=(0, 1), method="highs").fun
            assert curves.disk[b, i] == pytest.approx(fewest, rel=1e-6, abs=1e-9)
