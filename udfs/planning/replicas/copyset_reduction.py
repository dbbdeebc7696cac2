"""Of plans as good, one with fewer distinct replica sets: what is copied goes where it completes sets that there are.

The fewer sets of brokers some partition lies on, the less likely are failures at once to hit one. Balance stays what
the
plan has reached. For each load, a broker may come up to what 19 of 20 brokers have, or stay where it is; the same for
what is least, and for the worst survivor of each failure. So neither the fullest nor the emptiest gets worse.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from udfs.arrow.ragged import any_true, offsets_of, row_of
from udfs.durability.kernels.loss_probability import copysets, loss_probability
from udfs.planning.annealing.balance_plan import tidy
from udfs.planning.annealing.kernels.search_state import Limits, State, new_state
from udfs.planning.annealing.kernels.search_steps import new_random
from udfs.planning.annealing.search_limits import NO_LIMIT, Units, units_of, work_of
from udfs.planning.cluster_model import ClusterModel, Flags, Floats, Places, ProposedAssignment, changed, moved
from udfs.planning.constraints import Rules
from udfs.planning.plan_metrics import MOST_FAILURES, Effort
from udfs.planning.plan_request import ALL, MIN_BYTES, MIN_MOVES
from udfs.planning.replicas.kernels.copyset_annealing import Least, anneal_sets, new_copied
from udfs.planning.replicas.kernels.copyset_counts import new_sets

REASON = "its replica set becomes one that others have"

_EXTREME = 20  # of so many brokers one may be beyond what the others keep to, if it is already
_EACH, _FEWEST, _MOST = 60, 5_000, 400_000  # proposals: for each copied replica, and in all
_WARM, _COLD = 0.3, 0.02  # temperatures; a set that comes once costs 1
_DIGITS = 6


def fewer_sets(
    model: ClusterModel,
    rules: Rules,
    proposal: ProposedAssignment,
    seed: int = 0,
    effort: float = 1.0,
    more_moves: int = 0,
) -> ProposedAssignment:
    """The proposal with fewer distinct replica sets, or as it is, and in its certificate what that gained.

    Nothing more is copied, neither replicas nor bytes, unless more_moves allows for so many replicas more. Lists that
    the goal does not touch stay, and so do those with a down broker, or one to be emptied, or a stand-in for another.
    effort: proportional to how long it takes.
    """
    units = units_of(model, rules)
    work = work_of(model, rules, units, proposal.offsets, proposal.replicas)
    work = work._replace(free=work.free & _may_change(model, rules, proposal, units))
    state = new_state(work, _no_limits(model.brokers), proposal.replicas)
    limits, least = _limits_of(rules, units, state)
    if rules.move_budget is not None:
        more_moves = max(min(more_moves, rules.move_budget - int(state.copies[0])), 0)
    limits = _budget(rules, units, limits, state, more_moves)
    random = new_random(seed)
    state = new_state(work, limits, proposal.replicas)
    sets = new_sets(work, state.slots, model.live, random)
    copied = new_copied(state)
    begun = int(sets.distinct[0])
    each = len(state.slots) if more_moves else int(work.free[work.row[state.away[: state.copies[0]]]].sum())
    proposals = int(effort * min(max(_EACH * each, _FEWEST), _MOST)) if each else 0
    targets = np.flatnonzero(rules.receives).astype(np.int32)
    anneal_sets(work, limits, least, state, sets, copied, targets, more_moves > 0, proposals, _WARM, _COLD, random)
    found = _drafted(model, proposal, state.slots) if int(sets.distinct[0]) < begun else proposal
    before, of_plan = _copysets(model), _copysets(model.placed(proposal.offsets, proposal.replicas))
    now = of_plan if found is proposal else _copysets(model.placed(found.offsets, found.replicas))
    if now.loss is not None and of_plan.loss is not None and now.loss > of_plan.loss:
        found, now = proposal, of_plan  # fewer sets, but smaller ones
    facts = {
        "copysets_before": before.sets,
        "copysets_of_plan": of_plan.sets,
        "copysets": now.sets,
        "copysets_failures": now.failures,
        "copysets_loss_before": before.loss,
        "copysets_loss_of_plan": of_plan.loss,
        "copysets_loss": now.loss,
    }
    if found is not proposal:
        facts |= _restated(model, units, proposal, found, new_state(work, limits, state.slots))
    return replace(found, certificate={**proposal.certificate, **facts})


def _may_change(model: ClusterModel, rules: Rules, proposal: ProposedAssignment, units: Units) -> Flags:
    """Partitions (bool, p) whose list may be another: on brokers that count alone, so that survivors' means stay."""
    if (rules.instead >= 0).any():
        return np.zeros(model.partitions, dtype=np.bool_)
    whole = ~any_true(~units.counted[proposal.replicas], proposal.offsets)
    return whole & (np.diff(proposal.offsets) > 1)


def _no_limits(n: int) -> Limits:
    most, none = np.full(n, NO_LIMIT), np.zeros(n)
    return Limits(none, none, none, most, most, most, most, none, none, np.inf, np.inf)


def _limits_of(rules: Rules, units: Units, state: State) -> tuple[Limits, Least]:
    """What the proposal has reached, as limits of every broker."""
    counted = units.counted
    leaders, out = state.leaders.astype(np.float64), state.out
    replicas = state.replicas.astype(np.float64)
    high = np.minimum(_high(replicas, counted), np.maximum(rules.max_replicas, replicas))
    disk = np.minimum(_high(state.disk, counted), np.maximum(rules.max_bytes / units.disk, state.disk))
    return (
        Limits(
            _low(replicas, counted),
            high,
            _low(leaders, counted),
            _high(leaders, counted),
            disk,
            _high(state.into, counted),
            _high(out, counted),
            _after_failures(leaders, state.taken.astype(np.float64), counted),
            _after_failures(out, state.taken_out, counted),
            np.inf,
            np.inf,
        ),
        Least(_low(state.disk, counted), _low(state.into, counted), _low(out, counted)),
    )


def _beyond(n: int) -> int:
    return n // _EXTREME


def _high(load: Floats, counted: Flags) -> Floats:
    """float64 (n): what each broker may have: what all but the fullest few have, or what it has."""
    ranked = np.sort(load[counted])
    common = ranked[len(ranked) - 1 - _beyond(len(ranked))] if len(ranked) else 0.0
    return np.maximum(load, common)


def _low(load: Floats, counted: Flags) -> Floats:
    return -_high(-load, counted)


def _after_failures(load: Floats, taken: Floats, counted: Flags) -> Floats:
    """float64 (n): what any survivor may have when broker f is down.

    load: float64 (n), what each leads; taken: float64 (n, n), what broker [b] takes over from broker [, f].
    """
    n, places = len(load), np.flatnonzero(counted)
    limit = np.full(n, NO_LIMIT)
    if len(places) < 2:
        return limit
    after = (load[:, None] + taken)[np.ix_(places, places)]
    np.fill_diagonal(after, 0.0)
    mean = after.sum(axis=0) / (len(places) - 1)
    worst = after.max(axis=0) / np.where(mean > 0, mean, 1.0)
    limit[places] = _high(worst, np.ones(len(places), dtype=np.bool_)) * mean
    return limit


def _budget(rules: Rules, units: Units, limits: Limits, state: State, more_moves: int) -> Limits:
    """What may be copied: no more than is, or within the budget of the whole plan."""
    copies, copied = int(state.copies[0]), float(state.copied[0]) * (1 - 1e-12)
    if not more_moves:
        return limits._replace(moves=float(copies), copied=copied)
    most = np.inf if rules.byte_budget is None else rules.byte_budget / units.disk * (1 - 1e-12)
    return limits._replace(moves=float(copies + more_moves), copied=max(copied, most))


def _drafted(model: ClusterModel, proposal: ProposedAssignment, slots: Places) -> ProposedAssignment:
    """The proposal with these replicas; what it changes for the sake of sets alone has a reason of its own."""
    other = changed(model.placed(proposal.offsets, proposal.replicas), proposal.offsets, slots)
    replicas = np.where(np.repeat(other, np.diff(proposal.offsets)), tidy(model, proposal.offsets, slots), slots)
    differs = changed(model, proposal.offsets, replicas)
    reason = np.where(differs, np.where(proposal.reason >= 0, proposal.reason, len(proposal.reasons)), -1).astype(
        np.int16
    )
    own = bool((reason == len(proposal.reasons)).any())
    return replace(proposal, replicas=replicas, reason=reason, reasons=(*proposal.reasons, *((REASON,) if own else ())))


# ---- what was gained


@dataclass(frozen=True)
class _Copysets:
    """Distinct sets of live brokers, and the chance that `failures` at once hit one; None = there are too few."""

    sets: int
    failures: int
    loss: float | None


def _copysets(model: ClusterModel) -> _Copysets:
    holds = np.bincount(model.replicas, minlength=model.brokers) > 0
    places = np.flatnonzero(model.live & (holds | ~model.draining))
    index = np.full(model.brokers, -1, dtype=np.int32)
    index[places] = np.arange(len(places))
    broker = index[model.replicas]
    width = np.bincount(model.row[broker >= 0], minlength=model.partitions)
    offsets, members = copysets(offsets_of(width), broker[broker >= 0], len(places))
    failures = min(int(model.factor.max(initial=1)), MOST_FAILURES)
    if failures > len(places):
        return _Copysets(len(offsets) - 1, failures, None)
    of = Effort()
    chance = loss_probability(offsets, members, len(places), failures, of.steps, of.trials, of.seed)[0]
    return _Copysets(len(offsets) - 1, failures, round(float(chance), _DIGITS))


def _restated(
    model: ClusterModel, units: Units, proposal: ProposedAssignment, found: ProposedAssignment, state: State
) -> dict[str, Any]:
    """What the proposal's certificate said of its moves and loads, as it is now."""
    was = proposal.certificate
    new = moved(model, found.offsets, found.replicas)
    copied, moves = float(model.size[row_of(found.offsets)[new]].sum()), int(new.sum())
    size = copied if isinstance(was.get("bytes"), float) else round(copied)
    facts: dict[str, Any] = {"moves": moves, "bytes": size}
    if was.get("objective") in (ALL, MIN_BYTES, MIN_MOVES):
        facts["value"] = moves if was["objective"] == MIN_MOVES else size
        facts["gap"] = max(facts["value"] - was["lower_bound"], 0)
    loads: dict[str, Floats] = {
        "replicas": state.replicas / max(units.replicas, 1e-300),
        "leaders": state.leaders / max(units.leaders, 1e-300),
        "disk": state.disk,
        "bytes_in": state.into,
        "bytes_out": state.out,
    }
    counted = np.flatnonzero(units.counted)
    reached = dict(was.get("reached", {}))
    for name in loads.keys() & reached.keys():
        worst = int(counted[np.argmax(loads[name][counted])])
        reached[name] = {
            "max_over_mean": round(float(loads[name][worst]), _DIGITS),
            "broker": int(model.broker_ids[worst]),
            "min_over_mean": round(float(loads[name][counted].min()), _DIGITS),
        }
    return {name: value for name, value in {**facts, "reached": reached}.items() if name in was}
