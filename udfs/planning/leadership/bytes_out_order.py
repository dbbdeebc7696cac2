"""Zero-byte plans by bytes: leaders and successors such that bytes out, not counts alone, are even; nothing is
copied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from udfs.planning.annealing.balance_plan import tidy
from udfs.planning.annealing.kernels.order_moves import anneal_roles
from udfs.planning.annealing.kernels.search_state import Limits, Prices, State, Work, new_state
from udfs.planning.annealing.kernels.search_steps import new_random
from udfs.planning.annealing.search_limits import NO_LIMIT, units_of, work_of
from udfs.planning.bounds.byte_bounds import leaders_by_bytes, successors_by_bytes
from udfs.planning.cluster_model import FREE, ClusterModel, Floats, ProposedAssignment, changed
from udfs.planning.constraints import Rules
from udfs.planning.leadership.leadership_plans import zero_byte
from udfs.planning.leadership.preferred_leaders import leaders
from udfs.planning.leadership.takeover_order import after_failures
from udfs.planning.plan_request import PlanRequest
from udfs.planning.replica_order import leaders_of, successors_of

# Looser and looser: the first that a search meets is the plan's.
_OVER_BOUND = (1.0005, 1.002, 1.005, 1.01, 1.02, 1.04, 1.08, 1.15, 1.3, 1.6, 2.0)
_REASONS = ("bytes out of leaders are evened out", "another broker takes over first: bytes out after a failure")


def by_bytes(model: ClusterModel, request: PlanRequest) -> ProposedAssignment:
    """The lists of goal leaders or failover with the least bytes per second out of the fullest broker that was found.

    Leaders stay as even in counts as Targets says; the bounds are those that hold if partitions could be split.
    """
    if not model.known[2]:
        raise ValueError("the source tells no bytes out: leave --by-bytes away")
    failover = request.goal == "failover"
    begin = zero_byte(model, request.keep_leaders) if failover else leaders(model)
    work, limits, unit = _task(model, begin, request)
    bound = leaders_by_bytes(model)
    least = float(bound.bound[0]) / unit if len(bound.bound) else 0.0
    state = new_state(work, limits, begin.replicas)
    if not request.keep_leaders:
        for over in _OVER_BOUND:
            limits = limits._replace(out=np.full(model.brokers, max(least * over, 1e-12)))
            state = new_state(work, limits, begin.replicas)
            _anneal(work, limits, state, request.seed)
            if (state.out - limits.out).max(initial=0.0) <= 1e-6 and _uneven(limits, state) < 1:
                break
        limits = limits._replace(out=np.maximum(limits.out, state.out))
    if failover:
        state, limits = _with_successors(model, begin, work, limits, state, request.seed)
    return _proposal(model, begin, state, request, unit)


def _task(model: ClusterModel, begin: ProposedAssignment, request: PlanRequest) -> tuple[Work, Limits, float]:
    """(work, limits of counts alone, bytes per second of a unit)."""
    n, none = model.brokers, np.zeros(model.brokers, dtype=np.bool_)
    lead = model.live & ~model.draining
    fixed = model.frozen != FREE
    nobody = np.full(n, -1, dtype=np.int32)
    cap = model.factor
    rules = Rules(
        request.goal, lead, none, nobody, fixed, model.factor, cap, False, cap, np.full(n, np.inf), np.zeros_like(fixed)
    )
    units = units_of(model, rules)
    work = work_of(model, rules, units, begin.offsets, begin.replicas)
    # A leader that stays is one that nobody else may be.
    work = work._replace(leads=none) if request.keep_leaders else work._replace(leads=lead)
    led = leaders_of(model.placed(begin.offsets, begin.replicas))
    counts = np.bincount(led[led >= 0], minlength=n)[lead]
    mean = counts.mean() if len(counts) else 0.0
    high = max(float(counts.max(initial=0)), np.floor(request.targets.leaders * mean))
    low = min(float(counts.min()) if len(counts) else 0.0, np.ceil(mean / request.targets.leaders))
    free = np.full(n, NO_LIMIT)
    limits = Limits(
        np.zeros(n),
        free,
        np.where(lead, low, 0.0),
        np.where(lead, high, NO_LIMIT),
        free,
        free,
        free,
        free,
        free,
        0.0,
        0.0,
    )
    return work, limits, units.out


def _prices(work: Work, limits: Limits) -> Prices:
    one = len(work.rack) / max(len(work.disk), 1)
    none = np.zeros(len(work.rack))
    return Prices(0.0, 0.0, 0.005 * one, 0.0025 * one, 0.0, one, none, none, 3.0, one, 3.0)


def _anneal(work: Work, limits: Limits, state: State, seed: int) -> None:
    one = len(work.rack) / max(len(work.disk), 1)
    proposals = max(2_000, min(70 * len(work.disk), 1_000_000), 20 * len(work.disk))
    prices, random = _prices(work, limits), new_random(seed)
    for warm, share, over in ((0.5, 0.7, 0.3), (0.02, 0.3, 2.0)):
        stage = prices._replace(over_leaders=over * one, over_survivor_leaders=over * one)
        anneal_roles(work, limits, stage, state, 0.7, int(share * proposals), warm * one, 2.5e-4 * one, random)


def _uneven(limits: Limits, state: State) -> float:
    """How many leaders some broker has too many, or too few."""
    return float(np.maximum(state.leaders - limits.leaders_high, limits.leaders_low - state.leaders).max(initial=0.0))


def _with_successors(
    model: ClusterModel, begin: ProposedAssignment, work: Work, limits: Limits, led: State, seed: int
) -> tuple[State, Limits]:
    """The state with the least worst survivor by bytes out that was found, leaders' bytes out within what they were."""
    survivors = max(int((model.live & ~model.draining).sum()) - 1, 1)
    after, _ = after_failures(model.placed(begin.offsets, begin.replicas))
    worst = np.maximum(after.astype(np.float64), 0.0)
    total = float(work.out.sum())
    best, loose = led, limits
    as_led = model.placed(begin.offsets, tidy(model, begin.offsets, led.slots))
    least = float(successors_by_bytes(as_led).ratio.max(initial=1.0))
    for over in (1.002, 1.02, 1.05, 1.1, 1.2, 1.4, 1.8, 3.0):
        ratio = max(least, 1.0) * over
        tight = limits._replace(
            survivor_leaders=np.maximum(worst + 1, np.ceil(1.05 * model.partitions / survivors)),
            survivor_out=np.full(model.brokers, ratio * total / survivors),
        )
        state = new_state(work, tight, led.slots)
        _anneal(work, tight, state, seed)
        best, loose = state, tight
        too_much = max((state.out + state.worst_out).max(initial=0.0), (state.out - limits.out).max(initial=0.0))
        if too_much <= 1e-4 and _uneven(tight, state) < 1:
            break
    return best, loose


def _proposal(
    model: ClusterModel, begin: ProposedAssignment, state: State, request: PlanRequest, unit: float
) -> ProposedAssignment:
    lists = tidy(model, begin.offsets, state.slots)
    placed = model.placed(begin.offsets, lists)
    led = leaders_of(placed) != leaders_of(model)
    reason = np.where(changed(model, begin.offsets, lists), np.where(led, 0, 1), -1).astype(np.int16)
    certificate = {"goal": request.goal, "by": "bytes", "changes": int(led.sum()), "relaxed": [], "missed": []}
    if not request.keep_leaders:
        fullest = float(state.out.max(initial=0.0)) * unit
        certificate["leaders"] = _proof(fullest, _bound_of(leaders_by_bytes(model).bound), "leaders")
    if request.goal == "failover":
        certificate["failover"] = _worst(placed)
    return replace(begin, replicas=lists, reason=reason, reasons=_REASONS, certificate=certificate)


def _bound_of(bounds: Floats) -> float:
    return float(bounds[0]) if len(bounds) else 0.0


def _proof(value: float, bound: float, goal: str) -> dict[str, Any]:
    bound = min(bound, value)
    return {
        "goal": goal,
        "objective": f"bytes out per second of the fullest {'leader' if goal == 'leaders' else 'survivor'}",
        "value": round(value, 3),
        "lower_bound": round(bound, 3),
        "gap": round(value - bound, 3),
    }


def _worst(placed: ClusterModel) -> Mapping[str, Any]:
    """The worst survivor by bytes out of the worst failure, and what it would have at least with these leaders."""
    n = placed.brokers
    leader, successor = leaders_of(placed), successors_of(placed)
    counted = placed.live & ~placed.draining
    base = np.bincount(leader[leader >= 0], placed.rate_out[leader >= 0], n)
    has = (leader >= 0) & (successor >= 0)
    taken = np.bincount(leader[has] * n + successor[has], placed.rate_out[has], n * n).reshape(n, n) + base
    taken[~counted], taken[:, ~counted] = 0.0, 0.0
    np.fill_diagonal(taken, 0.0)
    worst = taken.max(axis=1, initial=0.0)
    down = int(np.argmax(worst)) if n else 0
    bounds = successors_by_bytes(placed)
    found = _proof(float(worst[down]) if n else 0.0, float(bounds.bound.max(initial=0.0)), "failover")
    return found | {"down_broker": int(placed.broker_ids[down]) if n else None}
