"""The best of several lists by the priorities in their order, among them lists that are even in counts at least."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from udfs.planning.annealing.kernels.search_state import create_state
from udfs.planning.annealing.search import search_assignment
from udfs.planning.annealing.search_limits import LoadUnits
from udfs.planning.annealing.search_task import TOLERANCE, SearchResult, SearchTask, measure_excess, meets_limits
from udfs.planning.cluster_model import ClusterModel
from udfs.planning.constraints import Rules
from udfs.planning.leadership.leadership_plans import plan_leadership
from udfs.planning.plan_request import FAILOVER, LEADERS, REPLICAS, PlanRequest
from udfs.planning.replicas.replica_counts import plan_replica_counts

_EXCESS_NAMES = {FAILOVER: ("failover", "failover_out")}


def choose_best(
    model: ClusterModel, rules: Rules, request: PlanRequest, units: LoadUnits, task: SearchTask, result: SearchResult
) -> SearchResult:
    """Choose what comes nearest to the targets: the search's result, its start, or lists by counts or flows."""
    if meets_limits(task, result):
        return result
    candidates = [result, SearchResult(task.slots, result.limits, result.failover_out, result.oversized)]
    candidates += _find_others(model, rules, request, units, task, result)
    return min(candidates, key=lambda candidate: _rank(task, candidate, request.priorities))


def _rank(task: SearchTask, result: SearchResult, priorities: Sequence[str]) -> tuple[float, ...]:
    """Rank lists by how far they are from the limits, the first priority first, then by what they copy."""
    state = create_state(task.cluster, result.limits, result.slots)
    over = measure_excess(result.limits, state)
    excesses = [
        round(float(sum(over[name].sum() for name in _EXCESS_NAMES.get(priority, (priority,)) if name in over)), 3)
        for priority in priorities
    ]
    return (*excesses, float(state.copied_disk[0]), float(state.copied_count[0]))


def _find_others(
    model: ClusterModel, rules: Rules, request: PlanRequest, units: LoadUnits, task: SearchTask, result: SearchResult
) -> Iterator[SearchResult]:
    over = measure_excess(result.limits, create_state(task.cluster, result.limits, result.slots))
    if not np.array_equal(task.cluster.offsets, model.offsets):
        return
    best = result
    if REPLICAS in request.priorities and over["replicas"].max() >= TOLERANCE["replicas"]:
        proposal = plan_replica_counts(model, rules)
        if np.array_equal(proposal.offsets, model.offsets):
            yield replace(result, slots=proposal.replicas)
            best = search_assignment(replace(task, slots=proposal.replicas))
            yield best
    uneven = max(over["failover"].max(), over["leaders"].max()) >= TOLERANCE["failover"]
    if uneven and not model.known[2] and {FAILOVER, LEADERS} <= set(request.priorities):
        # Where no bytes out are known, flows find the best order of the same sets.
        for slots in {lists.slots.tobytes(): lists.slots for lists in (best, result)}.values():
            ordered = plan_leadership(model.with_lists(task.cluster.offsets, slots), may_lead=units.counted)
            yield replace(result, slots=ordered.replicas)
