"""Which of several lists is the best, by the priorities in their order; and lists that are even at least in counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from udfs.planning.annealing.kernels.search_state import new_state
from udfs.planning.annealing.search import (
    TOLERANCE,
    Found,
    Task,
    all_met,
    excess,
    search,
)
from udfs.planning.annealing.search_limits import Units
from udfs.planning.cluster_model import Ints, Places, Problem
from udfs.planning.constraints import Rules
from udfs.planning.leadership.leadership_plans import zero_byte
from udfs.planning.plan_request import (
    FAILOVER,
    LEADERS,
    REPLICAS,
    Wishes,
)
from udfs.planning.replicas.replica_counts import move_by_counts

_NAMES = {FAILOVER: ("failover", "failover_out")}


def best_of(problem: Problem, rules: Rules, wishes: Wishes, units: Units, task: Task, found: Found) -> Found:
    """What was found, or what is nearer to the wishes: as it is now, even in counts first, ordered by flows."""
    if all_met(task, found):
        return found
    candidates = [found, Found(task.slots, found.limits, found.failover_out, found.giants)]
    candidates += _others(problem, rules, wishes, units, task, found)
    return min(candidates, key=lambda one: _standing(task, one, wishes.priorities))


def _standing(task: Task, found: Found, priorities: Sequence[str]) -> tuple[float, ...]:
    """How far lists are from the limits, the first priority first; then what they copy."""
    state = new_state(task.work, found.limits, found.slots)
    over = excess(found.limits, state)
    far = [
        round(float(sum(over[name].sum() for name in _NAMES.get(one, (one,)) if name in over)), 3) for one in priorities
    ]
    return (*far, float(state.copied[0]), float(state.copies[0]))


def _others(problem: Problem, rules: Rules, wishes: Wishes, units: Units, task: Task, found: Found) -> Iterator[Found]:
    over = excess(found.limits, new_state(task.work, found.limits, found.slots))
    same = np.array_equal(task.work.offsets, problem.offsets)
    best = found
    if same and REPLICAS in wishes.priorities and over["replicas"].max() >= TOLERANCE["replicas"]:
        draft = move_by_counts(problem, rules, objective="min-bytes")
        if np.array_equal(draft.offsets, problem.offsets):
            yield replace(found, slots=draft.replicas)
            best = search(replace(task, slots=draft.replicas))
            yield best
    uneven = max(over["failover"].max(), over["leaders"].max()) >= TOLERANCE["failover"]
    if uneven and same and not problem.known[2] and {FAILOVER, LEADERS} <= set(wishes.priorities):
        for slots in {one.slots.tobytes(): one.slots for one in (best, found)}.values():
            yield replace(found, slots=_by_flows(problem, units, task.work.offsets, slots))


def _by_flows(problem: Problem, units: Units, offsets: Ints, slots: Places) -> Places:
    """The same sets with leaders and heirs as the flows order them: where no bytes out are known, they are best."""
    return zero_byte(problem.placed(offsets, slots), may_lead=units.counted).replicas
