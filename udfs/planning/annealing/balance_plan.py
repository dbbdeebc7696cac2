"""Planner of the goals balance, drain and expand with objective all: it evens out all loads in one search."""

from dataclasses import replace

import numpy as np

from udfs.arrow.ragged import row_of
from udfs.planning.annealing.balance_certificate import REASONS, certify_balance, find_reasons
from udfs.planning.annealing.candidate_choice import choose_best
from udfs.planning.annealing.kernels.search_state import create_state
from udfs.planning.annealing.search import search_assignment
from udfs.planning.annealing.search_limits import build_cluster_arrays, compute_limits, compute_units
from udfs.planning.annealing.search_task import (
    MINIMIZE_BYTES,
    MINIMIZE_MOVES,
    TOLERANCE,
    SearchResult,
    SearchTask,
    measure_excess,
)
from udfs.planning.bounds.copy_bounds import CopyBound, bound_copied_bytes
from udfs.planning.cluster_model import ClusterModel, Int32s, Ints, ProposedAssignment
from udfs.planning.constraints import InfeasibleRequest, Rules, build_rules, find_rack_violations, find_staying_brokers
from udfs.planning.infeasibility import explain_infeasibility
from udfs.planning.plan_request import BYTES_OUT, FAILOVER, PlanRequest
from udfs.planning.replicas.heavy_partitions import HeavyPlacement, place_heavy_partitions
from udfs.planning.replicas.replica_counts import plan_replica_counts

# Limits of disk and bytes in to try where expand and drain cannot keep to theirs with few moves: in units of the mean,
# beyond what an integer program proves possible, each with another seed.
_RAISED_LIMITS = (0.0, 0.0, 0.01, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3)
_MAX_TRIES = 3  # where replica counts stay uneven: a budget is in the way


def plan_balance(model: ClusterModel, rules: Rules, request: PlanRequest) -> ProposedAssignment:
    """Plan for a goal whose rules these are.

    Raises:
        InfeasibleRequest: No plan meets the rules, or none within the brokers' capacity was found.
    """
    if request.goal == "expand":  # other brokers may receive as well, where that evens out what they give
        excluded = np.isin(model.broker_ids, np.asarray(request.exclude_brokers, dtype=np.int64))
        rules = replace(rules, receives=find_staying_brokers(model, rules) & ~excluded)
    reasons = explain_infeasibility(model, rules)
    if reasons:
        raise InfeasibleRequest(reasons)
    return _BalancePlanner(model, rules, request).plan()


class _BalancePlanner:
    def __init__(self, model: ClusterModel, rules: Rules, request: PlanRequest) -> None:
        self.model, self.rules, self.request = model, rules, request
        self.units = compute_units(model, rules)
        self.offsets, self.slots = _build_start(model, rules, request)
        self.cluster = build_cluster_arrays(model, rules, self.units, self.offsets, self.slots)

    def plan(self) -> ProposedAssignment:
        model, request = self.model, self.request
        balances = request.goal == "balance"
        ratio = proven_ratio = request.targets.loose_bytes
        task, result = self._search(ratio, few_moves=not balances)
        has_budget = request.max_bytes is not None or request.max_moves is not None  # raised limits are no remedy
        if not balances and not has_budget and _measure_excess_load(task, result) > 0.0:
            ratio, proven_ratio, task, result = self._raise_limits(ratio, task, result)
        if self._find_overfull(result):  # capacity comes before few moves
            task, result = self._search(ratio, few_moves=False)
        if balances:
            result = choose_best(model, self.rules, request, self.units, task, result)
        reasons = self._find_overfull(result)
        if reasons:
            raise InfeasibleRequest(reasons)
        lists = restore_list_order(model, self.offsets, result.slots)
        proposal = ProposedAssignment(self.offsets, lists, np.full(model.partitions, -1, dtype=np.int16), ())
        reason = find_reasons(model, self.rules, task.limits, self.units, proposal, result.oversized)
        ratios = (ratio, proven_ratio)
        certificate = certify_balance(model, self.rules, request, self.units, task, result, proposal, ratios)
        return replace(proposal, reason=reason, reasons=REASONS, certificate=certificate)

    def _search(
        self, ratio: float, few_moves: bool = True, heavy: HeavyPlacement | None = None, seed: int = 0
    ) -> tuple[SearchTask, SearchResult]:
        """Search with the limits of disk and bytes in of expand and drain at `ratio` times the mean."""
        request, rules = self.request, self.rules
        limits = compute_limits(self.model, rules, self.units, request, self.cluster, ratio)
        if few_moves:
            copied = int(create_state(self.cluster, limits, self.slots).copied_count[0])
            most = float(int(copied * (1 + request.targets.extra_moves)))
            limits = limits._replace(copied_replicas=min(limits.copied_replicas, most))
        task = SearchTask(
            cluster=self.cluster,
            limits=limits,
            slots=self.slots if heavy is None else heavy.slots,
            targets=np.flatnonzero(rules.receives).astype(np.int32),
            brokers=self.units.brokers,
            failover_out=request.targets.failover_out if {BYTES_OUT, FAILOVER} <= {*request.priorities} else np.inf,
            profile=MINIMIZE_MOVES if few_moves else MINIMIZE_BYTES,
            copy_bound=self._bound_copies(ratio),
            seed=request.seed + seed,
            placed=None if heavy is None else heavy.rows,
        )
        return task, search_assignment(task)

    def _raise_limits(
        self, ratio: float, task: SearchTask, result: SearchResult
    ) -> tuple[float, float, SearchTask, SearchResult]:
        """Find the least ratio of disk and bytes in that few moves suffice for.

        Returns:
            (the ratio, the least ratio that is proven possible, the task and result with limits of that ratio).
        """
        reached, uneven = ratio + _measure_excess_load(task, result), _measure_excess_load(task, result, "bytes_out")
        best = (reached if reached < np.inf else ratio, task, result)
        heavy = place_heavy_partitions(task.cluster, task.limits, task.slots, self.rules.must_leave)
        start, proven = (ratio, ratio) if heavy is None else (ratio + heavy.looser, ratio + heavy.least)
        for seed, more in enumerate(_RAISED_LIMITS):
            raised = start + more
            if raised >= reached or (seed == _MAX_TRIES and reached == np.inf):
                break
            task, result = self._search(raised, heavy=heavy, seed=seed)
            now = raised + _measure_excess_load(task, result)
            now_uneven = _measure_excess_load(task, result, "bytes_out")
            if now + now_uneven < reached + uneven:
                reached, uneven, best = now, now_uneven, (now, task, result)
        ratio, task, result = best
        limits = compute_limits(self.model, self.rules, self.units, self.request, self.cluster, ratio)
        task_limits, result_limits = (
            old._replace(disk=limits.disk, bytes_in=limits.bytes_in) for old in (task.limits, result.limits)
        )
        return ratio, proven, replace(task, limits=task_limits), replace(result, limits=result_limits)

    def _bound_copies(self, loose: float) -> CopyBound:
        """Bound what any plan must copy, in units of disk."""
        model, rules = self.model, self.rules
        cluster = build_cluster_arrays(model, rules, self.units, model.offsets, model.replicas)
        limits = compute_limits(model, rules, self.units, self.request, cluster, loose)
        state = create_state(cluster, limits, model.replicas)
        free, stays = ~rules.fixed[model.row], ~rules.must_leave
        excess = (
            (state.disk - limits.disk) * stays,
            (state.bytes_in - limits.bytes_in) * stays,
            (state.replicas - limits.max_replicas) * stays,
        )
        bound = bound_copied_bytes(model.replicas, model.row, (cluster.disk, cluster.bytes_in), excess, free)
        leaving = rules.must_leave[model.replicas] & free
        return replace(bound, bound=bound.bound + float(cluster.disk[model.row[leaving]].sum()))

    def _find_overfull(self, result: SearchResult) -> tuple[str, ...]:
        """Explain which broker would hold more than any broker can."""
        model, request = self.model, self.request
        state = create_state(self.cluster, result.limits, result.slots)
        reasons = []
        for load, capacity, unit in (
            (state.disk * self.units.disk, request.broker_bytes, "bytes"),
            (state.replicas.astype(np.float64), request.broker_replicas, "replicas"),
        ):
            worst = int(np.argmax(np.where(model.live, load, -1.0))) if len(load) else 0
            if capacity is not None and len(load) and load[worst] > capacity * (1 + 1e-9):
                reasons.append(
                    f"no plan within the brokers' capacity was found: broker {model.broker_ids[worst]} would hold "
                    f"{load[worst]:.0f} {unit}, its capacity is {capacity}"
                )
        return tuple(reasons)


def _measure_excess_load(task: SearchTask, result: SearchResult, *names: str) -> float:
    """Return the most that a broker exceeds its limit by, in units of the mean; inf if replica counts are uneven.

    names: The loads, by default disk and bytes in.
    """
    excess = measure_excess(result.limits, create_state(task.cluster, result.limits, result.slots))
    if excess["replicas"].max() >= TOLERANCE["replicas"]:
        return np.inf
    worst = max(float(excess[name].max()) for name in names or ("disk", "bytes_in"))
    return worst if worst > TOLERANCE[""] else 0.0


def _build_start(model: ClusterModel, rules: Rules, request: PlanRequest) -> tuple[Ints, Int32s]:
    """Build legal lists to start from, with even replica counts for drain and expand."""
    if request.goal != "balance":
        proposal = plan_replica_counts(model, rules, objective="min-moves")
        return proposal.offsets, proposal.replicas
    violations = find_rack_violations(model, rules.rack_cap)
    if not violations[~rules.fixed].any():
        return model.offsets, model.replicas
    repair = replace(
        build_rules(model, PlanRequest("repair")),
        receives=rules.receives,
        must_leave=rules.must_leave,
        factor=rules.factor,
        rack_cap=rules.rack_cap,
        fixed=rules.fixed | ~violations,
    )
    proposal = plan_replica_counts(model, repair, objective="min-bytes")
    return proposal.offsets, proposal.replicas


def restore_list_order(model: ClusterModel, offsets: Ints, slots: Int32s) -> Int32s:
    """Order each list: leader and successor first, then the model's replicas in their order, then new ones."""
    if np.array_equal(offsets, model.offsets) and np.array_equal(slots, model.replicas):
        return slots
    row, n = row_of(offsets), np.int64(max(model.brokers, 1))
    before = model.row * n + model.replicas
    order = np.argsort(before, kind="stable")
    keys = row * n + slots
    at = np.minimum(np.searchsorted(before[order], keys), max(len(before) - 1, 0))
    existing = before[order][at] == keys if len(before) else np.zeros(len(keys), dtype=np.bool_)
    place = np.arange(len(slots)) - offsets[:-1][row]
    rank = np.where(place < 2, place - 2, np.where(existing, order[at], len(before) + place))
    return slots[np.lexsort((rank, row))]
