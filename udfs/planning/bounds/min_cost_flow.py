"""Min-cost flows with a proof: OR-tools finds them, prices of the nodes bound their cost from below."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from ortools.graph.python import min_cost_flow

from udfs.planning.bounds.kernels.node_prices import lower_node_prices
from udfs.planning.cluster_model import Ints


@dataclass(frozen=True)
class FlowNetwork:
    """A flow network."""

    tail: Ints  # int64 (arcs), node that the arc leaves
    head: Ints  # int64 (arcs), node that the arc enters
    capacity: Ints  # int64 (arcs)
    cost: Ints  # int64 (arcs), of one unit
    supply: Ints  # int64 (nodes), negative = demand; the sum is 0

    @staticmethod
    def build(arcs: list[tuple[Ints, Ints, Ints, Ints]], supply: Ints) -> FlowNetwork:
        """Join groups of arcs (tail, head, capacity, cost), in this order."""
        tail, head, capacity, cost = (np.concatenate(part).astype(np.int64) for part in zip(*arcs, strict=True))
        return FlowNetwork(tail, head, capacity, cost, supply)


@dataclass(frozen=True)
class MinCostFlow:
    """A flow, int64 (arcs), its cost, and a lower bound for the cost of any flow: where they are equal, a proof."""

    flow: Ints
    cost: int
    bound: int


def find_cheapest_flow(network: FlowNetwork) -> MinCostFlow | None:
    """Find the cheapest flow that brings every supply to the demands; None if there is no flow."""
    if not len(network.tail):
        return None if network.supply.any() else MinCostFlow(np.zeros(0, dtype=np.int64), 0, 0)
    flow = solve_network(network)
    return None if flow is None else MinCostFlow(flow, int(network.cost @ flow), bound_flow_cost(network, flow))


def solve_network(network: FlowNetwork) -> Ints | None:
    """Find the cheapest flow, int64 (arcs), without a bound; None if there is no flow.

    Raises:
        ArithmeticError: The solver fails.
    """
    solver = min_cost_flow.SimpleMinCostFlow()
    arcs = solver.add_arcs_with_capacity_and_unit_cost(network.tail, network.head, network.capacity, network.cost)
    solver.set_nodes_supplies(np.arange(len(network.supply)), network.supply)
    status = solver.solve()
    if status == solver.INFEASIBLE:
        return None
    if status != solver.OPTIMAL:
        raise ArithmeticError(f"the solver failed on a flow over {len(arcs)} arcs: {status}")
    return np.asarray(solver.flows(arcs), dtype=np.int64)


def bound_flow_cost(network: FlowNetwork, flow: Ints) -> int:
    """Bound the cost of any flow from below, by the dual value of prices that `flow` gives.

    The bound holds whatever `flow` is. For any prices y:
    cost >= sum of y supply + sum over arcs of capacity min(0, cost - y[tail] + y[head]).
    """
    distance = np.zeros(len(network.supply), dtype=np.int64)
    lower_node_prices(network.tail, network.head, network.capacity, network.cost, flow, distance)
    reduced = network.cost + distance[network.tail] - distance[network.head]
    return int(-(distance @ network.supply) + network.capacity @ np.minimum(reduced, 0))
