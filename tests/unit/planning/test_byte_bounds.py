"""Bounds of bytes, compared with linear programs and with all possible choices of whole partitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from scipy.optimize import linprog

from tests.unit.planning.small_clusters import (
    cluster,
    clusters,
    every,
    leader_options,
    lists_of,
    may_lead,
    successor_options,
)
from udfs.planning.cluster_model import ClusterModel
from udfs.planning.leadership.bytes_out_order import ByteBounds, bound_leader_bytes, bound_successor_bytes


def split_optimum(options: list[list[int]], weights: list[float], base: dict[int, float]) -> float:
    """The least largest load if partitions could be split, by a linear program; of the brokers of `base`."""
    if not base:
        return 0.0
    pairs = [(i, b) for i, brokers in enumerate(options) for b in brokers if b in base]
    items = [i for i, brokers in enumerate(options) if set(brokers) & set(base)]
    cost = np.append(np.zeros(len(pairs)), 1.0)
    equal = np.array([[float(i == j) for j, _ in pairs] + [0.0] for i in items]).reshape(-1, len(cost))
    upper = np.array([[weights[i] * (b == c) for i, c in pairs] + [-1.0] for b in base])
    found = linprog(cost, upper, [-base[b] for b in base], equal, np.ones(len(items)), bounds=(0, None))
    return float(found.fun)


def whole_optimum(options: list[list[int]], weights: list[float], base: dict[int, float]) -> float:
    """The least largest load with whole partitions, by trying all."""
    out = np.inf
    for chosen in every(options):
        loads = dict(base)
        for b, weight in zip(chosen, weights, strict=True):
            if b in loads:
                loads[b] += weight
        out = min(out, max(loads.values(), default=0.0))
    return out


def check(model: ClusterModel, bounds: ByteBounds, case: int, options: list[list[int]], rows: list[int], base) -> None:
    weights = model.rate_out[rows].tolist()
    assert bounds.split[case] == pytest.approx(split_optimum(options, weights, base), abs=1e-6)
    assert bounds.split[case] <= bounds.bound[case] + 1e-9
    assert bounds.bound[case] <= whole_optimum(options, weights, base) + 1e-6


@given(clusters(partitions=6))
def test_leaders(model: ClusterModel) -> None:
    base = dict.fromkeys(sorted(may_lead(model)), 0.0)
    check(model, bound_leader_bytes(model), 0, leader_options(model), list(range(model.partitions)), base)


@given(clusters(partitions=6))
def test_successors(model: ClusterModel) -> None:
    lists, options, bounds = lists_of(model), successor_options(model), bound_successor_bytes(model)
    for down in range(model.brokers):
        base = {
            b: sum(w for r, w in zip(lists, model.rate_out.tolist(), strict=True) if r[0] == b)
            for b in sorted(may_lead(model) - {down})
        }
        rows = [i for i, replicas in enumerate(lists) if replicas[0] == down]
        check(model, bounds, down, [options[i] for i in rows], rows, base)


def test_the_partition_that_forces_the_bound() -> None:
    model = cluster([[0, 1], [1, 0], [2, 0]], 3, rate_out=[90.0, 10.0, 20.0])
    bounds = bound_leader_bytes(model)
    assert bounds.bound.tolist() == [90.0]
    assert bounds.mean.tolist() == [40.0]
    assert bounds.ratio.tolist() == [2.25]


def test_the_brokers_that_force_the_bound() -> None:
    model = cluster([[0, 1]] * 4 + [[2]], 3, rate_out=[10.0] * 4 + [1.0])
    bounds = bound_leader_bytes(model)
    assert bounds.split.tolist() == [20.0]
    assert bounds.bound.tolist() == [20.0]


@pytest.mark.parametrize(
    "model", [cluster([], 0), cluster([], 2), cluster([[0, 1]], 2, down=[0, 1]), cluster([[0, 1]], 2, rate_out=[0])]
)
def test_no_load(model: ClusterModel) -> None:
    assert not bound_leader_bytes(model).bound.any()
    assert not bound_successor_bytes(model).ratio.any()


def test_large_rates_do_not_overflow() -> None:
    rng = np.random.default_rng(2)
    lists = [rng.choice(12, size=3, replace=False).tolist() for _ in range(600)]
    model = cluster(lists, 12, rate_out=(rng.lognormal(0, 2, 600) * 1e13).tolist())
    bounds = bound_leader_bytes(model)
    assert (bounds.bound >= model.rate_out.sum() / 12 * (1 - 1e-12)).all()
    assert (bound_successor_bytes(model).ratio >= 1).all()
