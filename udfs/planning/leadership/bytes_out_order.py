"""Leaders and successors such that bytes out, and not counts alone, are even; nothing is copied."""

import numpy as np

from udfs.planning.annealing.balance_plan import restore_list_order
from udfs.planning.annealing.kernels.leadership_annealing import anneal_leadership
from udfs.planning.annealing.kernels.search_moves import Schedule, seed_random
from udfs.planning.annealing.kernels.search_state import (
    BrokerLimits,
    ClusterArrays,
    CostWeights,
    SearchState,
    create_search,
    create_state,
)
from udfs.planning.annealing.search_limits import NO_LIMIT, build_cluster_arrays, compute_units
from udfs.planning.bounds.byte_bounds import bound_leader_bytes, bound_successor_bytes
from udfs.planning.certificates import BoundCertificate, BytesOutCertificate, SurvivorCertificate
from udfs.planning.cluster_model import FREE, ClusterModel, ProposedAssignment
from udfs.planning.constraints import Rules
from udfs.planning.leadership.leadership_plans import plan_leadership
from udfs.planning.leadership.preferred_leaders import plan_preferred_leaders
from udfs.planning.leadership.takeover_order import measure_takeovers
from udfs.planning.plan_request import PlanRequest
from udfs.planning.replica_order import compute_leader_loads

# Looser and looser limits, over the lower bound: the plan takes the first that a search meets.
_LEADER_FACTORS = (1.0005, 1.002, 1.005, 1.01, 1.02, 1.04, 1.08, 1.15, 1.3, 1.6, 2.0)
_SURVIVOR_FACTORS = (1.002, 1.02, 1.05, 1.1, 1.2, 1.4, 1.8, 3.0)
_REASONS = (
    "to even out the bytes out of leaders",
    "to change the successor: bytes out after a failure become more even",
)
_LEADER_BYTES = "bytes out per second of the fullest leader"
_SURVIVOR_BYTES = "bytes out per second of the fullest survivor"


def plan_bytes_out_order(model: ClusterModel, request: PlanRequest) -> ProposedAssignment:
    """Plan the goal leaders or failover with the fewest bytes per second out of the fullest broker that is found.

    Leaders stay as even in counts as the targets say. The bounds are those that hold if partitions could be split.

    Raises:
        ValueError: The source shows no bytes out.
    """
    if not model.known[2]:
        raise ValueError("the source shows no bytes out, so --by-bytes is impossible")
    failover = request.goal == "failover"
    start = plan_leadership(model, request.keep_leaders) if failover else plan_preferred_leaders(model)
    cluster, limits, unit = _prepare_search(model, start, request)
    bound = bound_leader_bytes(model)
    least = float(bound.bound[0]) / unit if len(bound.bound) else 0.0
    state = create_state(cluster, limits, start.replicas)
    if not request.keep_leaders:
        for factor in _LEADER_FACTORS:
            limits = limits._replace(bytes_out=np.full(model.brokers, max(least * factor, 1e-12)))
            state = create_state(cluster, limits, start.replicas)
            _anneal(cluster, limits, state, request.seed)
            if (state.bytes_out - limits.bytes_out).max(initial=0.0) <= 1e-6 and _count_uneven(limits, state) < 1:
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
    eligible, factor = model.live & ~model.draining, model.factor
    fixed = model.frozen != FREE
    rules = Rules(
        request.goal,
        receives=eligible,
        must_leave=none,
        replacement=np.full(n, -1, dtype=np.int32),
        fixed=fixed,
        factor=factor,
        rack_cap=factor,
        even=False,
        broker_replicas=factor,
        broker_bytes=np.full(n, np.inf),
        blocked=np.zeros_like(fixed),
    )
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


def _anneal(cluster: ClusterArrays, limits: BrokerLimits, state: SearchState, seed: int) -> None:
    partitions, brokers = len(cluster.disk), len(cluster.rack)
    mean_leader, free = brokers / max(partitions, 1), np.zeros(brokers)
    proposals = max(2_000, min(70 * partitions, 1_000_000), 20 * partitions)
    random = seed_random(seed)
    for warm, share, penalty in ((0.5, 0.7, 0.3), (0.02, 0.3, 2.0)):
        over = penalty * mean_leader
        weights = CostWeights(
            0.0, 0.0, 0.005 * mean_leader, 0.0025 * mean_leader, 0.0, over, free, free, 3.0, over, 3.0
        )
        temperatures = warm * mean_leader, 2.5e-4 * mean_leader
        search = create_search(cluster, limits, weights, state, random)
        anneal_leadership(search, Schedule(int(share * proposals), *temperatures), 0.7)


def _count_uneven(limits: BrokerLimits, state: SearchState) -> float:
    """Count the leaders that some broker has too many, or too few."""
    return float(np.maximum(state.leaders - limits.max_leaders, limits.min_leaders - state.leaders).max(initial=0.0))


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
    after, _ = measure_takeovers(model.with_lists(start.offsets, start.replicas))
    worst = np.maximum(after.astype(np.float64), 0.0)
    total = float(cluster.bytes_out.sum())
    placed = model.with_lists(start.offsets, restore_list_order(model, start.offsets, led.slots))
    least = float(bound_successor_bytes(placed).ratio.max(initial=1.0))
    state = led
    for factor in _SURVIVOR_FACTORS:
        tight = limits._replace(
            survivor_leaders=np.maximum(worst + 1, np.ceil(1.05 * model.partitions / survivors)),
            survivor_bytes_out=np.full(model.brokers, max(least, 1.0) * factor * total / survivors),
        )
        state = create_state(cluster, tight, led.slots)
        _anneal(cluster, tight, state, seed)
        excess = max(
            (state.bytes_out + state.takeovers_bytes_out.worst).max(initial=0.0),
            (state.bytes_out - limits.bytes_out).max(initial=0.0),
        )
        if excess <= 1e-4 and _count_uneven(tight, state) < 1:
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
        bounds = bound_leader_bytes(model).bound
        fullest = float(state.bytes_out.max(initial=0.0)) * unit
        leaders = BoundCertificate("leaders", _LEADER_BYTES, *_round_gap(fullest, float(bounds.max(initial=0.0))))
    certificate = BytesOutCertificate(
        request.goal,
        int(changed_leader.sum()),
        leaders=leaders,
        failover=_certify_worst_survivor(placed) if request.goal == "failover" else None,
    )
    return ProposedAssignment(start.offsets, lists, reason, _REASONS, certificate)


def _round_gap(value: float, bound: float) -> tuple[float, float, float]:
    bound = min(bound, value)
    return round(value, 3), round(bound, 3), round(value - bound, 3)


def _certify_worst_survivor(placed: ClusterModel) -> SurvivorCertificate:
    """Compare the worst survivor of the worst failure, by bytes out, with its lower bound for these leaders."""
    counted = placed.live & ~placed.draining
    loads = np.where(np.outer(counted, counted), compute_leader_loads(placed, placed.rate_out), 0.0)
    worst = loads.max(axis=1, initial=0.0)
    bound = float(bound_successor_bytes(placed).bound.max(initial=0.0))
    value = float(worst.max(initial=0.0))
    failed_broker = int(placed.broker_ids[np.argmax(worst)]) if placed.brokers else None
    return SurvivorCertificate("failover", _SURVIVOR_BYTES, *_round_gap(value, bound), failed_broker)
