"""Which of several lists is the best, by the priorities in their order; and lists that are even at least in counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from udfs.planning.annealing.kernels.search_state import new_state
from udfs.planning.annealing.search import TOLERANCE, Found, Task, all_met, excess, search
from udfs.planning.annealing.search_limits import Units
from udfs.planning.cluster_model import ClusterModel, Ints, Places
from udfs.planning.constraints import Rules
from udfs.planning.leadership.leadership_plans import zero_byte
from udfs.planning.plan_request import FAILOVER, LEADERS, REPLICAS, PlanRequest
from udfs.planning.replicas.replica_counts import move_by_counts

_NAMES = {FAILOVER: ("failover", "failover_out")}


def best_of(model: ClusterModel, rules: Rules, request: PlanRequest, units: Units, task: Task, found: Found) -> Found:
    """What was found, or what is nearer to the request: as it is now, even in counts first, ordered by flows."""
    if all_met(task, found):
        return found
    candidates = [found, Found(task.slots, found.limits, found.failover_out, found.oversized)]
    candidates += _others(model, rules, request, units, task, found)
    return min(candidates, key=lambda one: _standing(task, one, request.priorities))


def _standing(task: Task, found: Found, priorities: Sequence[str]) -> tuple[float, ...]:
    """How far lists are from the limits, the first priority first; then what they copy."""
    state = new_state(task.work, found.limits, found.slots)
    over = excess(found.limits, state)
    far = [
        round(float(sum(over[name].sum() for name in _NAMES.get(one, (one,)) if name in over)), 3) for one in priorities
    ]
    return (*far, float(state.copied[0]), float(state.copies[0]))


def _others(
    model: ClusterModel, rules: Rules, request: PlanRequest, units: Units, task: Task, found: Found
) -> Iterator[Found]:
    over = excess(found.limits, new_state(task.work, found.limits, found.slots))
    same = np.array_equal(task.work.offsets, model.offsets)
    best = found
    if same and REPLICAS in request.priorities and over["replicas"].max() >= TOLERANCE["replicas"]:
        proposal = move_by_counts(model, rules, objective="min-bytes")
        if np.array_equal(proposal.offsets, model.offsets):
            yield replace(found, slots=proposal.replicas)
            best = search(replace(task, slots=proposal.replicas))
            yield best
    uneven = max(over["failover"].max(), over["leaders"].max()) >= TOLERANCE["failover"]
    if uneven and same and not model.known[2] and {FAILOVER, LEADERS} <= set(request.priorities):
        for slots in {one.slots.tobytes(): one.slots for one in (best, found)}.values():
            yield replace(found, slots=_by_flows(model, units, task.work.offsets, slots))


def _by_flows(model: ClusterModel, units: Units, offsets: Ints, slots: Places) -> Places:
    """The same sets with leaders and successors as the flows order them: where no bytes out are known, they are
    best."""
    return zero_byte(model.placed(offsets, slots), may_lead=units.counted).replicas
