"""Zero-byte plans by bytes: leaders and heirs such that bytes out, not counts alone, are even; nothing is copied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from udfs.planning.annealing.balance_plan import tidy
from udfs.planning.annealing.kernels.order_moves import anneal_roles
from udfs.planning.annealing.kernels.search_state import (
    Limits,
    Prices,
    State,
    Work,
    new_state,
)
from udfs.planning.annealing.kernels.search_steps import new_random
from udfs.planning.annealing.search_limits import NO_LIMIT, units_of, work_of
from udfs.planning.bounds.byte_bounds import heirs_by_bytes, leaders_by_bytes
from udfs.planning.cluster_model import (
    FREE,
    Draft,
    Floats,
    Problem,
    changed,
)
from udfs.planning.constraints import Rules
from udfs.planning.leadership.leadership_plans import zero_byte
from udfs.planning.leadership.preferred_leaders import leaders
from udfs.planning.leadership.takeover_order import after_deaths
from udfs.planning.plan_request import Wishes
from udfs.planning.replica_order import heirs_of, leaders_of

# Looser and looser: the first that a search meets is the plan's.
_OVER_BOUND = (1.0005, 1.002, 1.005, 1.01, 1.02, 1.04, 1.08, 1.15, 1.3, 1.6, 2.0)
_REASONS = ("bytes out of leaders are evened out", "another broker takes over first: bytes out after a death")


def by_bytes(problem: Problem, wishes: Wishes) -> Draft:
    """The lists of goal leaders or failover with the least bytes per second out of the fullest broker that was found.

    Leaders stay as even in counts as Targets says; the bounds are those that hold if partitions could be split.
    """
    if not problem.known[2]:
        raise ValueError("the source tells no bytes out: leave --by-bytes away")
    failover = wishes.goal == "failover"
    begin = zero_byte(problem, wishes.keep_leaders) if failover else leaders(problem)
    work, limits, unit = _task(problem, begin, wishes)
    bound = leaders_by_bytes(problem)
    least = float(bound.bound[0]) / unit if len(bound.bound) else 0.0
    state = new_state(work, limits, begin.replicas)
    if not wishes.keep_leaders:
        for over in _OVER_BOUND:
            limits = limits._replace(out=np.full(problem.brokers, max(least * over, 1e-12)))
            state = new_state(work, limits, begin.replicas)
            _anneal(work, limits, state, wishes.seed)
            if (state.out - limits.out).max(initial=0.0) <= 1e-6 and _uneven(limits, state) < 1:
                break
        limits = limits._replace(out=np.maximum(limits.out, state.out))
    if failover:
        state, limits = _with_heirs(problem, begin, work, limits, state, wishes.seed)
    return _draft(problem, begin, state, wishes, unit)


def _task(problem: Problem, begin: Draft, wishes: Wishes) -> tuple[Work, Limits, float]:
    """(work, limits of counts alone, bytes per second of a unit)."""
    n, none = problem.brokers, np.zeros(problem.brokers, dtype=np.bool_)
    lead = problem.living & ~problem.draining
    fixed = problem.frozen != FREE
    nobody = np.full(n, -1, dtype=np.int32)
    cap = problem.factor
    rules = Rules(
        wishes.goal,
        lead,
        none,
        nobody,
        fixed,
        problem.factor,
        cap,
        False,
        cap,
        np.full(n, np.inf),
        np.zeros_like(fixed),
    )
    units = units_of(problem, rules)
    work = work_of(problem, rules, units, begin.offsets, begin.replicas)
    # A leader that stays is one that nobody else may be.
    work = work._replace(leads=none) if wishes.keep_leaders else work._replace(leads=lead)
    led = leaders_of(problem.placed(begin.offsets, begin.replicas))
    counts = np.bincount(led[led >= 0], minlength=n)[lead]
    mean = counts.mean() if len(counts) else 0.0
    high = max(float(counts.max(initial=0)), np.floor(wishes.targets.leaders * mean))
    low = min(float(counts.min()) if len(counts) else 0.0, np.ceil(mean / wishes.targets.leaders))
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


def _with_heirs(
    problem: Problem, begin: Draft, work: Work, limits: Limits, led: State, seed: int
) -> tuple[State, Limits]:
    """The state with the least worst survivor by bytes out that was found, leaders' bytes out within what they were."""
    survivors = max(int((problem.living & ~problem.draining).sum()) - 1, 1)
    after, _ = after_deaths(problem.placed(begin.offsets, begin.replicas))
    worst = np.maximum(after.astype(np.float64), 0.0)
    total = float(work.out.sum())
    best, loose = led, limits
    as_led = problem.placed(begin.offsets, tidy(problem, begin.offsets, led.slots))
    least = float(heirs_by_bytes(as_led).ratio.max(initial=1.0))
    for over in (1.002, 1.02, 1.05, 1.1, 1.2, 1.4, 1.8, 3.0):
        ratio = max(least, 1.0) * over
        tight = limits._replace(
            survivor_leaders=np.maximum(worst + 1, np.ceil(1.05 * problem.partitions / survivors)),
            survivor_out=np.full(problem.brokers, ratio * total / survivors),
        )
        state = new_state(work, tight, led.slots)
        _anneal(work, tight, state, seed)
        best, loose = state, tight
        too_much = max((state.out + state.worst_out).max(initial=0.0), (state.out - limits.out).max(initial=0.0))
        if too_much <= 1e-4 and _uneven(tight, state) < 1:
            break
    return best, loose


def _draft(problem: Problem, begin: Draft, state: State, wishes: Wishes, unit: float) -> Draft:
    lists = tidy(problem, begin.offsets, state.slots)
    placed = problem.placed(begin.offsets, lists)
    led = leaders_of(placed) != leaders_of(problem)
    reason = np.where(changed(problem, begin.offsets, lists), np.where(led, 0, 1), -1).astype(np.int16)
    certificate = {
        "goal": wishes.goal,
        "by": "bytes",
        "changes": int(led.sum()),
        "relaxed": [],
        "missed": [],
    }
    if not wishes.keep_leaders:
        fullest = float(state.out.max(initial=0.0)) * unit
        certificate["leaders"] = _proof(fullest, _bound_of(leaders_by_bytes(problem).bound), "leaders")
    if wishes.goal == "failover":
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


def _worst(placed: Problem) -> Mapping[str, Any]:
    """The worst survivor by bytes out of the worst death, and what it would have at least with these leaders."""
    n = placed.brokers
    leader, heir = leaders_of(placed), heirs_of(placed)
    counted = placed.living & ~placed.draining
    base = np.bincount(leader[leader >= 0], placed.rate_out[leader >= 0], n)
    has = (leader >= 0) & (heir >= 0)
    taken = np.bincount(leader[has] * n + heir[has], placed.rate_out[has], n * n).reshape(n, n) + base
    taken[~counted], taken[:, ~counted] = 0.0, 0.0
    np.fill_diagonal(taken, 0.0)
    worst = taken.max(axis=1, initial=0.0)
    dead = int(np.argmax(worst)) if n else 0
    bounds = heirs_by_bytes(placed)
    found = _proof(float(worst[dead]) if n else 0.0, float(bounds.bound.max(initial=0.0)), "failover")
    return found | {"dead_broker": int(placed.broker_ids[dead]) if n else None}
