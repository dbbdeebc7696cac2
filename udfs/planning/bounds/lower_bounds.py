"""Lower bounds of what a plan copies and reaches: min-cost flows with a proof, rack limits, disks, and budgets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from ortools.graph.python import min_cost_flow
from scipy.optimize import linprog

from udfs.arrow.ragged import row_of
from udfs.planning.bounds.kernels.graph_bounds import lower_node_prices
from udfs.planning.bounds.kernels.placement_prices import Placements, sum_cheapest_placements
from udfs.planning.cluster_model import ClusterModel, Flags, Floats, Int32s, Ints, ProposedAssignment, ReplicaLists
from udfs.planning.constraints import Rules, count_in_racks


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


_UNEVEN_RACKS = 0.01  # of the bytes to copy, what a rack must give for its sake


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


def raise_prices_by_racks(
    bound: CopyBound, placements: Placements, loads: Floats, fixed: Floats, limits: Floats
) -> CopyBound:
    """Raise a bound by what racks force: replicas that a rack with room cannot hold make others leave for it.

    For any prices, the cheapest placement of every partition, less the price of what brokers may have, is a bound
    (Lagrangian relaxation). Disk costs a copy more outside of the racks with room, and one more on the fullest brokers.

    Args:
        bound: The bound without racks; its duals are the first prices.
        placements: Of all partitions; the factor of those that stay is 0.
        loads: float64 (3, p), of a replica: disk, bytes in, and 1.
        fixed: float64 (3, n), of the partitions that stay.
        limits: float64 (3, n); np.inf = none.
    """
    rack, sizes = placements.rack, np.diff(placements.offsets)
    disk = np.bincount(placements.brokers, np.repeat(loads[0], sizes), len(rack))
    excess = np.where(limits[0] < np.inf, disk - limits[0], 0.0)
    excess_of_racks = np.bincount(rack, excess)
    if excess_of_racks.max() < _UNEVEN_RACKS * bound.bound:
        return bound
    fullest, racks = np.argsort(-excess, kind="stable"), np.argsort(excess_of_racks, kind="stable")

    def try_prices(with_room: int, dearest: int) -> CopyBound:
        outside = (~np.isin(rack, racks[:with_room]) & (limits[0] < np.inf)).astype(np.float64)
        price = np.maximum(bound.disk, outside)
        price[fullest[:dearest]] += outside[fullest[:dearest]]
        prices = np.stack([price, np.where(price < 1.0, bound.into, 0.0), bound.replicas])
        allowed = np.where(prices > 0.0, limits - fixed, 0.0)
        value = sum_cheapest_placements(placements, loads[0], loads[1], prices) - float((prices * allowed).sum())
        return CopyBound(value, *prices)

    best, chosen = bound, 0
    for with_room in range(1, len(racks)):
        raised = try_prices(with_room, 1)
        if raised.bound > best.bound:
            best, chosen = raised, with_room
    others = [try_prices(chosen, dearest) for dearest in (0, 2)] if chosen else []
    return max(best, *others, key=lambda one: one.bound) if others else best


def count_missing_replicas(model: ClusterModel, rules: Rules) -> Ints:
    """Count the replicas that any legal plan copies of each partition: int64 (p).

    A partition keeps at most what is on brokers that stay, and of each rack at most what the rack may hold.
    """
    stays = ~rules.must_leave[model.replicas] | rules.fixed[model.row]
    row, count = count_in_racks(model, model, stays)
    count = np.where(rules.fixed[row], count, np.minimum(count, rules.rack_cap[row]))
    remaining = np.bincount(row, count, model.partitions).astype(np.int64)
    missing: Ints = np.maximum(rules.factor - remaining, 0)
    return missing


def count_forced_replicas(model: ClusterModel, rules: Rules, proposal: ProposedAssignment) -> Ints:
    """Count what any plan copies that leaves no more of a partition where it must not be: int64 (p).

    These are replicas on brokers to be emptied, and replicas beyond what a rack may hold.
    """
    placed = model.with_lists(proposal.offsets, proposal.replicas)
    stayed = np.bincount(placed.row[rules.must_leave[placed.replicas]], minlength=model.partitions)
    left = stayed + _count_beyond_racks(model, placed, rules, ~rules.must_leave[placed.replicas])
    forced: Ints = np.maximum(count_missing_replicas(model, rules) - left, 0)
    return forced


def count_rack_repairs(model: ClusterModel, rules: Rules, proposal: ProposedAssignment) -> Ints:
    """Count the copies of each partition, int64 (p), that only repair racks that hold too many of its replicas now."""
    stays = ~rules.must_leave[model.replicas]
    before = _count_beyond_racks(model, model, rules, stays)
    placed = model.with_lists(proposal.offsets, proposal.replicas)
    after = _count_beyond_racks(model, placed, rules, np.ones(len(placed.replicas), dtype=np.bool_))
    repairs: Ints = np.maximum(before - after, 0) * ~rules.fixed
    return repairs


def bound_bytes_by_disk(model: ClusterModel, rules: Rules, proposal: ProposedAssignment, counted: Flags) -> float:
    """Bound the bytes that any plan copies whose brokers hold between the least and the most of this proposal.

    What a counted broker (bool, n) has above the fullest one of the proposal leaves it, and so does what leaves the
    brokers to be emptied; what a counted broker has below the emptiest one comes to it.
    """
    if not counted.any():
        return 0.0
    # Copies have the leader's size, and so have all replicas here.
    sizes = ((lists.replicas, model.size[row_of(lists.offsets)]) for lists in (model, proposal))
    before, after = (np.bincount(*one, minlength=model.brokers) for one in sizes)
    leaving = np.maximum(before - after[counted].max(), 0.0)[counted].sum()
    leaving += np.maximum(before - after, 0.0)[rules.must_leave].sum()
    arriving = np.maximum(after[counted].min() - before, 0.0)[counted].sum()
    return float(max(leaving, arriving))


def _count_beyond_racks(model: ClusterModel, lists: ReplicaLists, rules: Rules, selected: Flags) -> Ints:
    """Count the selected replicas (bool, r) of each partition beyond what their racks may hold: int64 (p)."""
    row, count = count_in_racks(model, lists, selected)
    beyond = np.bincount(row, np.maximum(count - rules.rack_cap[row], 0), model.partitions)
    return beyond.astype(np.int64)


_STEPS = 60  # of a bisection


@dataclass(frozen=True)
class Budget:
    """What a plan may spend on copies: one of its limits."""

    cost: Floats  # float64 (r), of a copy of each replica
    most: float
    whole: bool  # Whether replicas are counted, so that a part of one costs as much


def bound_fullest_broker(replicas: Int32s, load: Floats, free: Flags, counted: Flags, budgets: list[Budget]) -> float:
    """Bound the load of the fullest counted broker after any plan within all budgets, which copies what it moves.

    To bring a broker to a level, what it has above that level must leave it. As if replicas could be divided, those
    with most load per cost leave first. No level is below the mean, nor below what a broker cannot give away.

    Args:
        replicas: int32 (r), the broker of each replica.
        load: float64 (r), load of each replica.
        free: bool (r), whether each replica may leave its broker.
        counted: bool (n), brokers whose fullest is bounded; no replica leaves them for others.
        budgets: The limits of the plan.
    """
    n = len(counted)
    loads = np.bincount(replicas, load, n).astype(np.float64)
    fixed = np.bincount(replicas[~free], load[~free], n)
    if not counted.any():
        return 0.0
    floor = max(float(loads[counted].mean()), float(fixed[counted].max()))
    free = free & counted[replicas] & (load > 0.0)
    return max([floor, *(_find_level(replicas[free], load[free], loads, counted, _take(one, free)) for one in budgets)])


def _take(budget: Budget, selected: Flags) -> Budget:
    return Budget(budget.cost[selected], budget.most, budget.whole)


def _find_level(replicas: Int32s, load: Floats, loads: Floats, counted: Flags, budget: Budget) -> float:
    """Find the lowest level that the budget pays for, rounded down."""
    order = np.lexsort((budget.cost / load, replicas))
    begins = np.searchsorted(replicas[order], np.arange(len(loads) + 1))
    sums = [np.concatenate([[0.0], np.cumsum(values[order])]) for values in (load, budget.cost)]
    parts = [[each[begins[b] : begins[b + 1] + 1] - each[begins[b]] for each in sums] for b in range(len(loads))]

    def pays(level: float) -> bool:
        spent = 0.0
        for b in np.flatnonzero(counted & (loads > level)).tolist():
            relief, cost = parts[b]
            least = float(np.interp(loads[b] - level, relief, cost))
            spent += float(np.ceil(least - 1e-6)) if budget.whole else least
        return spent <= budget.most * (1 + 1e-9)

    low, high = 0.0, float(loads[counted].max())
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if pays(middle) else (middle, high)
    return low
