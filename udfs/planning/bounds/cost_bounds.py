"""Min-cost flows with a proof: OR-tools finds them, prices of the nodes bound their cost from below."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from ortools.graph.python import min_cost_flow
from scipy.optimize import linprog

from udfs.planning.bounds.kernels.graph_bounds import lower_node_prices
from udfs.planning.cluster_model import Flags, Floats, Int32s, Ints


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
    """Find the cheapest flow, int64 (arcs); None if there is none. Raise ArithmeticError if the solver fails."""
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
    """Bound the cost of any flow from below, by the prices y that `flow` gives, whatever it is.

    cost >= sum of y supply + sum over arcs of capacity min(0, cost - y[tail] + y[head]).
    """
    distance = np.zeros(len(network.supply), dtype=np.int64)
    lower_node_prices(network.tail, network.head, network.capacity, network.cost, flow, distance)
    reduced = network.cost + distance[network.tail] - distance[network.head]
    return int(-(distance @ network.supply) + network.capacity @ np.minimum(reduced, 0))


@dataclass(frozen=True)
class CopyBound:
    """A lower bound for copied bytes, with its duals."""

    bound: float  # In units of disk
    disk: Floats  # float64 (n), cost of a unit of excess disk at each broker
    into: Floats  # float64 (n), cost of a unit of excess bytes in at each broker
    replicas: Floats  # float64 (n), cost of an excess replica at each broker

    def allow_excess(self, disk: Floats, into: Floats, replicas: Floats) -> float:
        """Bound the plans that leave no more excess (float64, n, each) than this: the same duals prove it."""
        left = self.disk @ disk + self.into @ into + self.replicas @ replicas
        return max(0.0, self.bound - float(left))


def bound_copied_bytes(
    brokers: Int32s, row: Ints, weights: tuple[Floats, Floats], excess: tuple[Floats, Floats, Floats], may_leave: Flags
) -> CopyBound:
    """Bound what any plan copies: what exceeds a broker's limits must leave it, whichever replicas are cheapest.

    From a broker whose excess is D (disk), I (bytes in) and C (replicas), any plan takes replicas x with sum(size x) >=
    D, sum(rate x) >= I and sum(x) >= C, whatever comes in. With 0 <= x <= 1 this is a linear program; the sum over
    brokers bounds all plans. Its duals are what a unit of each excess costs at least.

    brokers, row: int32, int64 (r), of each replica; may_leave: bool (r). weights: float64 (p), disk and bytes in of a
    replica. excess: float64 (n) of disk, bytes in and replicas; <= 0 = none.
    """
    disk, into = weights
    n = len(excess[0])
    prices = np.zeros((3, n))
    total = 0.0
    need = np.maximum(np.stack(excess), 0.0)
    order = np.argsort(brokers, kind="stable")
    ends = np.searchsorted(brokers[order], np.arange(n + 1))
    for b in np.flatnonzero(need.max(axis=0) > 1e-12).tolist():
        current = order[ends[b] : ends[b + 1]]
        current = current[may_leave[current]]
        parts = np.stack([disk[row[current]], into[row[current]], np.ones(len(current))])
        # Fixed replicas cannot leave: then all others do.
        required = np.minimum(need[:, b], parts.sum(axis=1) * (1 - 1e-12))
        cost, price = _bound_leaving_bytes(parts, required)
        total += cost
        prices[:, b] = price
    return CopyBound(total, *prices)


def _bound_leaving_bytes(parts: Floats, required: Floats) -> tuple[float, Floats]:
    """Find the fewest bytes that leave a broker, in units of disk, and the duals.

    parts: float64 (3, replicas), disk, bytes in and 1 of each replica; required: float64 (3), what must leave of these.
    What leaves for the sake of bytes in and counts leaves disk too: if that is not enough, any others make up for it.
    """
    disk, (excess, *others) = parts[0], required
    cost, price = 0.0, np.zeros(3)
    if min(others) > 0.0:
        scale = np.maximum(required[1:], 1e-9)
        rows = -parts[1:] / scale[:, None]
        result = linprog(disk, A_ub=rows, b_ub=-required[1:] / scale, bounds=(0, 1), method="highs")
        if result.status == 0:
            cost, price[1:] = float(result.fun), -result.ineqlin.marginals / scale
    elif max(others) > 0.0:  # those with the fewest bytes per unit leave first, the last of them in part
        which = 1 + int(np.argmax(others))
        load = parts[which]
        order = np.flatnonzero(load > 0.0)
        order = order[np.argsort(disk[order] / load[order], kind="stable")]
        last = order[min(int(np.searchsorted(np.cumsum(load[order]), required[which])), len(order) - 1)]
        price[which] = disk[last] / load[last]
        cost = float(price[which] * required[which] - np.maximum(price[which] * load - disk, 0.0).sum())
    return (cost, price) if cost >= excess else (float(excess), np.array([1.0, 0.0, 0.0]))
