"""The bound of copied bytes, compared with one linear program over all limits of each broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from scipy.optimize import linprog

from udfs.planning.annealing.search_task import RELIEF_STEPS, SearchTask, compute_relief
from udfs.planning.bounds.kernels.placement_prices import Placements
from udfs.planning.bounds.lower_bounds import bound_copied_bytes, raise_prices_by_racks

REPLICAS, BROKERS = 40, 6


@pytest.mark.parametrize("seed", range(20))
def test_bound_and_duals_equal_those_of_linear_programs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    brokers = rng.integers(0, BROKERS, REPLICAS).astype(np.int32)
    disk, into = rng.lognormal(0, 1.5, REPLICAS), rng.lognormal(0, 1.5, REPLICAS)
    disk[rng.random(REPLICAS) < 0.2] = 0.0
    into[rng.random(REPLICAS) < 0.2] = 0.0
    loads = np.stack([disk, into, np.ones(REPLICAS)])
    stored = np.stack([np.bincount(brokers, load, BROKERS) for load in loads])
    # Of some loads a broker has no excess; of some, more than it can give away.
    excess = stored * rng.uniform(-0.3, 1.2, stored.shape)
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


@pytest.mark.parametrize("seed", range(10))
def test_bound_of_racks_lies_between_that_without_and_the_linear_program(seed: int) -> None:
    """Most brokers are in rack 0. Broker 3 of rack 1 holds a replica of each of their partitions: none can go there."""
    rng = np.random.default_rng(seed)
    rack, partitions, factor = np.array([0, 0, 0, 1, 1, 2, 2], dtype=np.int32), 60, 2
    n = len(rack)
    lists = [(p % 3, 3) if p % 5 < 3 else (4, 5 + p % 2) for p in range(partitions)]
    brokers, offsets = np.array(lists, dtype=np.int32).ravel(), np.arange(partitions + 1) * factor
    loads = np.stack([*rng.lognormal(0, 0.2, (2, partitions)), np.ones(partitions)])
    stored = np.stack([np.bincount(brokers, np.repeat(load, factor), n) for load in loads])
    limits = np.stack([np.full(n, 1.05 * row.mean()) for row in stored])
    limits[1:] = np.inf if seed % 2 else 1.5 * limits[1:]
    free = rng.random(partitions) < 0.95
    fixed = np.stack([np.bincount(brokers, np.repeat(load * ~free, factor), n) for load in loads])
    excess = tuple((stored - limits).clip(-1e9))
    row = np.repeat(np.arange(partitions), factor)
    plain = bound_copied_bytes(brokers, row, (loads[0], loads[1]), (excess[0], excess[1], excess[2]), free[row])
    stays = np.ones(len(brokers), dtype=np.bool_)
    one = np.ones(partitions, dtype=np.int64)
    placements = Placements(offsets, brokers, stays, factor * free, one, rack, np.ones(n, dtype=np.bool_))
    raised = raise_prices_by_racks(plain, placements, loads, fixed, limits)
    # x[p, b]: whether partition p is on broker b
    at = np.arange(partitions * n).reshape(partitions, n)
    is_old = np.zeros((partitions, n), dtype=np.bool_)
    is_old[row, brokers] = True
    unit = np.eye(partitions * n)
    in_racks = [unit[at[p, rack == k]].sum(axis=0) for p in range(partitions) for k in range(3)]
    on_brokers = [loads[k] @ unit[at[:, b]] for k in range(3) for b in range(n) if limits[k, b] < np.inf]
    high = np.append(np.ones(len(in_racks)), limits[limits < np.inf])
    cost, low = np.where(is_old, 0.0, loads[0][:, None]).ravel(), np.where(~free[:, None] & is_old, 1, 0).ravel()
    total = [unit[at[p]].sum(axis=0) for p in range(partitions)]
    bounds = np.stack([low, np.ones(partitions * n)], axis=1)
    program = linprog(
        cost,
        np.array(in_racks + on_brokers),
        high,
        np.array(total),
        np.full(partitions, factor),
        bounds=bounds,
        method="highs",
    )
    assert program.status == 0, program.message
    assert plain.bound <= raised.bound <= program.fun * (1 + 1e-9)
    assert raised.bound > 1.1 * plain.bound
