"""Cheapest flows with their proof: OR-tools finds them, prices of the nodes bound them from below."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from ortools.graph.python import min_cost_flow

from udfs.planning.bounds.kernels.node_prices import settle_potentials
from udfs.planning.cluster_model import Ints


@dataclass(frozen=True)
class Network:
    """tail, head, capacity, cost: int64 (arcs); supply: int64 (nodes), negative = wanted, of sum 0."""

    tail: Ints
    head: Ints
    capacity: Ints
    cost: Ints
    supply: Ints

    @staticmethod
    def of(arcs: list[tuple[Ints, Ints, Ints, Ints]], supply: Ints) -> Network:
        """Of several groups of arcs (tail, head, capacity, cost), in this order."""
        tail, head, capacity, cost = (
            np.concatenate([group[part] for group in arcs]).astype(np.int64) for part in range(4)
        )
        return Network(tail, head, capacity, cost, supply)


@dataclass(frozen=True)
class Flow:
    """flow: int64 (arcs).   cost: of it.   bound: what any flow costs at least, by prices: the same = proven."""

    flow: Ints
    cost: int
    bound: int


def cheapest(network: Network) -> Flow | None:
    """The cheapest flow that brings every supply to where it is wanted, or None if there is no way."""
    if not len(network.tail):
        none = np.zeros(0, dtype=np.int64)
        return None if network.supply.any() else Flow(none, 0, 0)
    solver = min_cost_flow.SimpleMinCostFlow()
    arcs = solver.add_arcs_with_capacity_and_unit_cost(network.tail, network.head, network.capacity, network.cost)
    solver.set_nodes_supplies(np.arange(len(network.supply)), network.supply)
    status = solver.solve()
    if status == solver.INFEASIBLE:
        return None
    if status != solver.OPTIMAL:
        raise ArithmeticError(f"a flow over {len(arcs)} arcs was not solved: {status}")
    flow = np.asarray(solver.flows(arcs), dtype=np.int64)
    return Flow(flow, int(network.cost @ flow), lower_bound(network, flow))


def lower_bound(network: Network, flow: Ints) -> int:
    """What any flow costs at least: the dual value of prices that `flow` gives, true whatever `flow` is.

    For any prices y: cost >= sum of y supply + sum over arcs of capacity min(0, cost - y[tail] + y[head]).
    """
    distance = np.zeros(len(network.supply), dtype=np.int64)
    settle_potentials(network.tail, network.head, network.capacity, network.cost, flow, distance)
    reduced = network.cost + distance[network.tail] - distance[network.head]
    return int(-(distance @ network.supply) + network.capacity @ np.minimum(reduced, 0))
