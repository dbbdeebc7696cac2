"""Leaders and successors such that bytes out, and not counts alone, are even, with lower bounds by maximum flows."""

from dataclasses import dataclass

import numpy as np
from ortools.graph.python import max_flow

from udfs.arrow.ragged import row_of
from udfs.planning.annealing.balance_plan import restore_list_order
from udfs.planning.annealing.kernels.search_moves import seed_random
from udfs.planning.annealing.kernels.search_state import BrokerLimits, ClusterArrays, SearchState, create_state
from udfs.planning.annealing.search import anneal_order
from udfs.planning.annealing.search_task import NO_LIMIT, build_cluster_arrays, compute_units
from udfs.planning.certificates import BoundCertificate, BytesOutCertificate, SurvivorCertificate
from udfs.planning.cluster_model import ClusterModel, Flags, Floats, Int32s, Ints, ProposedAssignment
from udfs.planning.constraints import build_rules
from udfs.planning.leadership.preferred_leaders import find_leader_choices, plan_preferred_leaders
from udfs.planning.leadership.takeover_order import find_successor_choices, measure_takeovers, plan_leadership
from udfs.planning.plan_request import PlanRequest

# Loads become integers that add up to about this: finer than the rates are known, and far from overflow.
_INTEGER_TOTAL = float(1 << 52)

# Looser and looser limits, over the lower bound: the plan takes the first that a search meets.
_LEADER_FACTORS = (1.0005, 1.002, 1.005, 1.01, 1.02, 1.04, 1.08, 1.15, 1.3, 1.6, 2.0)
_SURVIVOR_FACTORS = (1.002, 1.02, 1.05, 1.1, 1.2, 1.4, 1.8, 3.0)
_REASONS = (
    "to even out the bytes out of leaders",
    "to change the successor: bytes out after a failure become more even",
)
_LEADER_BYTES = "bytes out per second of the fullest leader"
_SURVIVOR_BYTES = "bytes out per second of the fullest survivor"


@dataclass(frozen=True)
class ByteBounds:
    """The lowest possible largest load in each of g cases: leaders, or the successors of one failed broker each."""

    split: Floats  # float64 (g), bytes per second if partitions could be split
    bound: Floats  # float64 (g), bytes per second with whole partitions
    mean: Floats  # float64 (g), of the brokers that count

    @property
    def ratio(self) -> Floats:
        """Return the bound over the mean: float64 (g); 0 where there is no load."""
        return np.divide(self.bound, self.mean, out=np.zeros(len(self.mean)), where=self.mean > 0)


@dataclass(frozen=True)
class _Cases:
    """Items (q, by case) with weights, and the brokers (m) among which they choose."""

    case: Ints  # int64 (q)
    weight: Floats  # float64 (q)
    item: Ints  # int64 (m)
    broker: Ints  # int64 (m)
    base: Floats  # float64 (g, n), loads whatever is chosen
    counted: Flags  # bool (g, n), brokers that count


def bound_leader_bytes(model: ClusterModel) -> ByteBounds:
    """Bound the bytes out of the leaders on the fullest broker from below. One case."""
    choices, leader = find_leader_choices(model), model.preferred_leaders
    row, stays = choices.partition, leader >= 0
    stays[row] = False
    base: Floats = np.bincount(leader[stays], model.rate_out[stays], model.brokers).astype(np.float64)
    items = (np.zeros(len(row), dtype=np.int64), model.rate_out[row], choices.item, choices.broker)
    return _compute_bounds(_Cases(*items, base[None], choices.counted[None]))


def bound_successor_bytes(model: ClusterModel) -> ByteBounds:
    """Bound the bytes out of the worst survivor of each broker's failure from below, with leaders as they are."""
    choices, stays = find_successor_choices(model), np.ones(model.partitions, dtype=np.bool_)
    row, counted = choices.partition, choices.counted & ~np.eye(model.brokers, dtype=np.bool_)
    stays[row] = False
    items = (row_of(choices.items), model.rate_out[row], row_of(choices.offsets), choices.broker)
    return _compute_bounds(_Cases(*items, model.compute_leader_loads(model.rate_out, stays), counted))


def _compute_bounds(cases: _Cases) -> ByteBounds:
    count = len(cases.base)
    base = np.where(cases.counted, cases.base, 0.0)
    total = base.sum(axis=1) + np.bincount(cases.case, weights=cases.weight, minlength=count)
    mean = total / np.maximum(cases.counted.sum(axis=1), 1)
    # From simple bounds - the mean, or one broker's base load - up to a bound that no set of brokers raises.
    split = np.maximum(mean, base.max(axis=1, initial=0.0))
    active = total > base.sum(axis=1)
    while active.any():
        crowded = _find_crowded(cases, base, split, active)
        confined = np.ones(len(cases.case), dtype=np.bool_)
        confined[cases.item[~crowded[cases.case[cases.item], cases.broker]]] = False
        weight = np.bincount(cases.case[confined], weights=cases.weight[confined], minlength=count)
        existing = weight + np.where(crowded, base, 0.0).sum(axis=1)
        forced = existing / np.maximum(crowded.sum(axis=1), 1)
        active = forced > split * (1 + 1e-12)
        split[active] = forced[active]
    # A partition goes to one broker as a whole, on top of that broker's base load.
    bound, starts = split.copy(), np.flatnonzero(np.diff(cases.item, prepend=-1))
    if len(starts):
        least = np.minimum.reduceat(cases.base[cases.case[cases.item], cases.broker], starts)
        np.maximum.at(bound, cases.case, cases.weight + least)
    return ByteBounds(split, bound, mean)


def _find_crowded(cases: _Cases, base: Floats, limit: Floats, active: Flags) -> Flags:
    """Find, for the active cases, the brokers (bool, g, n) without capacity for items that have no other choice."""
    crowded, n = np.zeros_like(cases.counted), base.shape[1]
    items, choices = np.flatnonzero(active[cases.case]), np.flatnonzero(active[cases.case[cases.item]])
    number = np.cumsum(active[cases.case]) - 1
    keys = cases.case[cases.item[choices]] * n + cases.broker[choices]
    pair, group = np.unique(keys, return_inverse=True)
    # Weights rounded down and capacities up: what is crowded in integers is crowded. Each case has its own scale.
    total = base.sum(axis=1) + np.bincount(cases.case, cases.weight, len(base))
    scale = _INTEGER_TOTAL / np.maximum(total, np.where(active, limit, 1.0)) / int(active.sum())
    case = pair // n
    weight = np.floor(cases.weight[items] * scale[cases.case[items]]).astype(np.int64)
    capacity = np.ceil(np.maximum(limit[case] - base.ravel()[pair], 0.0) * scale[case]).astype(np.int64)
    first, source, sink = len(items), len(items) + len(pair), len(items) + len(pair) + 1
    item = number[cases.item[choices]]
    solver = max_flow.SimpleMaxFlow()
    solver.add_arcs_with_capacity(np.full(first, source), np.arange(first), weight)
    solver.add_arcs_with_capacity(item, first + group, weight[item])
    solver.add_arcs_with_capacity(first + np.arange(len(pair)), np.full(len(pair), sink), capacity)
    status = solver.solve(source, sink)
    if status != solver.OPTIMAL:
        raise ArithmeticError(f"the solver failed on a flow over {len(item)} choices: {status}")
    cut = np.asarray(solver.get_source_side_min_cut(), dtype=np.int64)
    crowded.ravel()[pair[cut[(cut >= first) & (cut < source)] - first]] = True
    return crowded


def plan_bytes_out_order(model: ClusterModel, request: PlanRequest) -> ProposedAssignment:
    """Plan leaders or failover with the fewest bytes out of the fullest broker. Raise ValueError without rates."""
    if not model.known[2]:
        raise ValueError("the source shows no bytes out, so --by-bytes is impossible")
    failover = request.goal == "failover"
    start = plan_leadership(model, request.keep_leaders) if failover else plan_preferred_leaders(model)
    cluster, limits, unit = _prepare_search(model, start, request)
    least = float(bound_leader_bytes(model).bound[0]) / unit
    state = create_state(cluster, limits, start.replicas)
    if not request.keep_leaders:
        for factor in _LEADER_FACTORS:
            limits = limits._replace(bytes_out=np.full(model.brokers, max(least * factor, 1e-12)))
            state, fits = _search(cluster, limits, start.replicas, request.seed, 1e-6)
            if fits:
                break
        limits = limits._replace(bytes_out=np.maximum(limits.bytes_out, state.bytes_out))
    if failover:
        state = _choose_successors(model, start, cluster, limits, state, request.seed)
    return _propose(model, start, state, request, unit)


def _prepare_search(
    model: ClusterModel, start: ProposedAssignment, request: PlanRequest
) -> tuple[ClusterArrays, BrokerLimits, float]:
    """Return the searched lists, limits of counts alone, and the bytes per second of a unit."""
    n, none = model.brokers, np.zeros(model.brokers, dtype=np.bool_)
    eligible, rules = model.live & ~model.draining, build_rules(model, PlanRequest("balance"))
    units = compute_units(model, rules)
    cluster = build_cluster_arrays(model, rules, units, start.offsets, start.replicas)
    # No other broker may lead where leaders stay.
    cluster = cluster._replace(can_lead=none if request.keep_leaders else eligible)
    leaders = model.with_lists(start.offsets, start.replicas).preferred_leaders
    counts = np.bincount(leaders[leaders >= 0], minlength=n)[eligible]
    mean = counts.mean() if len(counts) else 0.0
    high = max(float(counts.max(initial=0)), np.floor(request.targets.leaders * mean))
    low = min(float(counts.min()) if len(counts) else 0.0, np.ceil(mean / request.targets.leaders))
    free = np.full(n, NO_LIMIT)
    lowest, highest = np.where(eligible, low, 0.0), np.where(eligible, high, NO_LIMIT)
    limits = BrokerLimits(np.zeros(n), free, lowest, highest, free, free, free, free, free, 0.0, 0.0)
    return cluster, limits, units.bytes_out


def _search(
    cluster: ClusterArrays, limits: BrokerLimits, slots: Int32s, seed: int, tolerance: float
) -> tuple[SearchState, bool]:
    """Search for an order; return its state, and whether it keeps to the limits. tolerance: of bytes out."""
    partitions, state = len(cluster.disk), create_state(cluster, limits, slots)
    proposals = max(2_000, min(70 * partitions, 1_000_000), 20 * partitions)
    anneal_order(cluster, limits, state, seed_random(seed), len(cluster.rack) / max(partitions, 1), proposals)
    excess = state.bytes_out + np.maximum(state.takeovers_bytes_out.worst, -limits.bytes_out)
    uneven = np.maximum(state.leaders - limits.max_leaders, limits.min_leaders - state.leaders)
    return state, bool(excess.max(initial=0.0) <= tolerance and uneven.max(initial=0.0) < 1)


def _choose_successors(
    model: ClusterModel,
    start: ProposedAssignment,
    cluster: ClusterArrays,
    limits: BrokerLimits,
    led: SearchState,
    seed: int,
) -> SearchState:
    """Search for the least worst survivor by bytes out; leaders' bytes out stay within their limits."""
    survivors = max(int((model.live & ~model.draining).sum()) - 1, 1)
    worst, _ = measure_takeovers(model.with_lists(start.offsets, start.replicas))
    total = float(cluster.bytes_out.sum())
    placed = model.with_lists(start.offsets, restore_list_order(model, start.offsets, led.slots))
    least = float(bound_successor_bytes(placed).ratio.max(initial=1.0))
    state = led
    for factor in _SURVIVOR_FACTORS:
        tight = limits._replace(
            survivor_leaders=np.full(
                model.brokers, max(worst.max(initial=0) + 1.0, np.ceil(1.05 * model.partitions / survivors))
            ),
            survivor_bytes_out=np.full(model.brokers, least * factor * total / survivors),
        )
        state, fits = _search(cluster, tight, led.slots, seed, 1e-4)
        if fits:
            break
    return state


def _propose(
    model: ClusterModel, start: ProposedAssignment, state: SearchState, request: PlanRequest, unit: float
) -> ProposedAssignment:
    lists = restore_list_order(model, start.offsets, state.slots)
    placed = model.with_lists(start.offsets, lists)
    changed_leader = placed.preferred_leaders != model.preferred_leaders
    reason = np.where(model.find_changed(placed), np.where(changed_leader, 0, 1), -1).astype(np.int16)
    leaders = None
    if not request.keep_leaders:
        gap = _round_gap(state.bytes_out * unit, bound_leader_bytes(model).bound)
        leaders = BoundCertificate("leaders", _LEADER_BYTES, *gap)
    failover = None
    if request.goal == "failover":  # the worst survivor of the worst failure, with its lower bound for these leaders
        counted = placed.live & ~placed.draining
        loads = np.where(np.outer(counted, counted), placed.compute_leader_loads(placed.rate_out), 0.0)
        worst = loads.max(axis=1, initial=0.0)
        gap = _round_gap(worst, bound_successor_bytes(placed).bound)
        failed_broker = int(placed.broker_ids[np.argmax(worst)]) if placed.brokers else None
        failover = SurvivorCertificate("failover", _SURVIVOR_BYTES, *gap, failed_broker)
    certificate = BytesOutCertificate(request.goal, int(changed_leader.sum()), leaders=leaders, failover=failover)
    return ProposedAssignment(start.offsets, lists, reason, _REASONS, certificate)


def _round_gap(values: Floats, bounds: Floats) -> tuple[float, float, float]:
    value = float(values.max(initial=0.0))
    bound = min(float(bounds.max(initial=0.0)), value)
    return round(value, 3), round(bound, 3), round(value - bound, 3)
