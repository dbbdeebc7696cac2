"""Planner of the goals balance, drain and expand with objective all: it evens out all loads in one search."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from udfs.arrow.ragged import any_true, find_in_segment, position_of, row_of
from udfs.planning.annealing import search_task
from udfs.planning.annealing.balance_certificate import (
    REASONS,
    BalanceOutcome,
    certify_balance,
    find_reasons,
    measure_reached,
)
from udfs.planning.annealing.budget_plan import COPIED_LOADS, BudgetPlanner, bound_relief, find_harm, measure_relief
from udfs.planning.annealing.kernels.search_moves import seed_random
from udfs.planning.annealing.kernels.search_state import BrokerLimits, create_state
from udfs.planning.annealing.search import NEAR, accept_lists, anneal_order, search_assignment
from udfs.planning.annealing.search_task import TOLERANCE, SearchResult, SearchTask
from udfs.planning.bounds.lower_bounds import CopyBound, bound_copied_bytes
from udfs.planning.certificates import BalanceCertificate, Relief
from udfs.planning.cluster_model import ClusterModel, Floats, Int32s, Ints, ProposedAssignment
from udfs.planning.constraints import (
    InfeasibleRequest,
    Rules,
    build_rules,
    find_rack_violations,
    find_receiving_brokers,
    find_staying_brokers,
)
from udfs.planning.disk_room import describe_overfull, fit_disks
from udfs.planning.later_lists import find_later_slots
from udfs.planning.leadership.takeover_order import plan_leadership
from udfs.planning.plan_request import BYTES_OUT, COPYSETS, FAILOVER, LEADERS, REPLICAS, PlanRequest
from udfs.planning.replicas.count_limits import explain_infeasibility
from udfs.planning.replicas.replica_counts import plan_replica_counts

_EXCESS_NAMES = {FAILOVER: ("failover", "failover_out")}

# Share of the most relief of the first priority that the part of a new whole plan must have. Expansions take few
# replicas of any size: others instead would leave later nights no moves that even out disks.
_MIN_RELIEF = {"balance": 0.9, "expand": 0.5}
_MIN_LATER_RELIEF = 0.1  # The same of the next priorities, once the first one gets no more relief


def plan_balance(model: ClusterModel, rules: Rules, request: PlanRequest) -> ProposedAssignment:
    """Plan for a goal whose rules these are; raise InfeasibleRequest if no plan meets them or brokers' capacity."""
    if request.goal == "expand":  # other brokers may receive as well, where that evens out what they give
        receives = find_receiving_brokers(model, request.exclude_brokers)
        rules = replace(rules, receives=find_staying_brokers(model, rules) & receives)
    if reasons := explain_infeasibility(model, rules):
        raise InfeasibleRequest(reasons)
    return _BalancePlanner(model, rules, request).plan()


class _BalancePlanner:
    def __init__(self, model: ClusterModel, rules: Rules, request: PlanRequest) -> None:
        self.model, self.rules, self.request = model, rules, request
        self.units = search_task.compute_units(model, rules)
        # A drain spends its budget on what must leave; of the plans of other goals, a budget pays for a part.
        self.keeps_budget = request.has_budget and request.goal == "drain"
        unlimited = replace(rules, byte_budget=np.inf, move_budget=np.inf, broker_budget=np.inf)
        self.search_rules = rules if self.keeps_budget else unlimited
        later = None if request.later is None else find_later_slots(model, rules, request.later)
        self.continues = later is not None
        if later is None:
            self.offsets, self.slots = _build_start(model, self.search_rules)
        else:
            self.offsets, self.slots = model.offsets, later
        self.cluster = search_task.build_cluster_arrays(model, rules, self.units, self.offsets, self.slots)

    def plan(self) -> ProposedAssignment:
        model, request = self.model, self.request
        task, result = self._search_all()
        planned, is_affordable = result.slots, self.keeps_budget or self._is_affordable(result.slots)
        if not is_affordable:  # repairs of racks come first, if they fit
            self.slots = _build_start(model, self.rules)[1]
            self.slots = self.slots if self._is_affordable(self.slots) else model.replicas
            rules = self.rules
            limits = task.limits._replace(
                copied_disk=rules.byte_budget / self.units.disk, copied_replicas=rules.move_budget
            )
            task = replace(task, slots=self.slots, limits=limits)
            result = self._spend_budget(task, result)
        result = self._keep_order(task, result)
        result = replace(result, slots=fit_disks(model, self.rules, self.offsets, result.slots))
        if reasons := self._find_overfull(result):
            raise InfeasibleRequest(reasons)
        lists = restore_list_order(model, self.offsets, result.slots)
        proposal = ProposedAssignment(self.offsets, lists, np.full(model.partitions, -1, dtype=np.int16), ())
        proposal = replace(proposal, later=self._get_later(proposal, planned))
        outcome = BalanceOutcome(model, self.rules, request, self.units, task, result, proposal)
        certificate = certify_balance(outcome)
        fits_budget = proposal.later is not None or is_affordable
        certificate = replace(certificate, continues=self.continues and fits_budget)
        if not is_affordable:
            certificate = replace(certificate, relief=self._bound_relief(task, certificate))
        return replace(proposal, reason=find_reasons(outcome), reasons=REASONS, certificate=certificate)

    def _search_all(self) -> tuple[SearchTask, SearchResult]:
        """Search for the best lists."""
        task = self._build_task()
        if self.continues:
            return task, accept_lists(task, self.slots)
        result = search_assignment(task)
        if search_task.meets_limits(task, result):
            return task, result
        if self.keeps_budget:  # spend the rest
            candidates = [result, self._spend_budget(task, result)]
            return task, min(candidates, key=lambda candidate: self._rank(task, candidate, np.max))
        # What comes nearest to the targets: the search's result, its start, or lists by counts or flows.
        start = SearchResult(task.slots, result.limits, result.failover_out, result.oversized)
        candidates = [result, start, *self._find_others(task, result)]
        return task, min(candidates, key=lambda candidate: self._rank(task, candidate))

    def _build_task(self) -> SearchTask:
        request, rules = self.request, self.rules
        limits = search_task.compute_limits(self.model, rules, self.units, request, self.cluster)
        if not self.keeps_budget:  # what the budget does not pay for is left out afterwards
            limits = limits._replace(copied_disk=np.inf, copied_replicas=np.inf)
            if request.goal == "drain" and request.keep_rack_violations:  # only what must leave
                copied = create_state(self.cluster, limits, self.slots).copied_count[0]
                limits = limits._replace(copied_replicas=float(copied))
        firm = limits.bytes_out, limits.survivor_bytes_out
        limits = search_task.loosen_for_largest(limits, self.cluster, self.slots)
        start = (self.cluster, limits, self.slots, np.flatnonzero(rules.receives).astype(np.int32), self.units.brokers)
        failover_out = request.targets.failover_out if {BYTES_OUT, FAILOVER} <= {*request.priorities} else np.inf
        least, most = search_task.get_usual_bytes_out(limits), request.targets.loose_bytes_out
        loose = ((least + most) / 2, most) if most > least else ()
        return SearchTask(*start, failover_out, self._bound_copies(limits), request.seed, firm, loose)

    def _get_later(self, proposal: ProposedAssignment, planned: Int32s) -> Int32s | None:
        """Return the lists of the whole plan of which the plan is a part: no replica is copied twice."""
        model, request = self.model, self.request
        is_whole = not request.has_budget or self.keeps_budget or not np.array_equal(self.offsets, model.offsets)
        if is_whole or request.rack_separator or COPYSETS in request.priorities:  # these change its lists again
            return None
        whole = model.with_lists(self.offsets, planned)
        after = model.with_lists(proposal.offsets, proposal.replicas)
        copied = model.find_copied(proposal).sum() + after.find_copied(whole).sum()
        return planned if copied == model.find_copied(whole).sum() else None

    def _is_affordable(self, slots: Int32s, share: float = 1.0) -> bool:
        """Return whether this share of the budget pays for these lists."""
        rules, copied = self.rules, self.model.find_copied(self.model.with_lists(self.offsets, slots))
        row = self.cluster.row[copied]
        size = self.model.size[row]
        traffic = (
            np.bincount(ends, size).max(initial=0.0) for ends in (slots[copied], self.model.current_leaders[row])
        )
        fits = size.sum() <= share * rules.byte_budget and len(row) <= share * rules.move_budget
        return bool(fits and max(traffic) <= share * rules.broker_budget)

    def _spend_budget(self, task: SearchTask, planned: SearchResult) -> SearchResult:
        """Return the best lists that the budget pays for. No load gets worse than it is now, and exceeds its target.

        They are a part of the plan without a budget, so that the plans of several nights copy what one does, unless the
        budget pays for none of its copies, or a plan that continues no other relieves the first priority too little.
        """
        before = create_state(task.cluster, task.limits, self.slots)
        over = search_task.measure_excess(task.limits, before)
        planner = BudgetPlanner(self.model, self.rules, self.units, task, planned.slots)
        priorities = self.request.priorities
        exceeded = [
            name for name in priorities if name in over and over[name].max() > TOLERANCE.get(name, TOLERANCE[""])
        ]

        def find_harmless(candidates: Iterable[SearchResult]) -> list[tuple[tuple[float, ...], SearchResult]]:
            affordable = (one for one in candidates if self._is_affordable(one.slots))
            return [(self._rank(task, one, np.max), one) for one in affordable if not find_harm(task, before, one)]

        parts = [] if self.keeps_budget else find_harmless(planner.find_candidates(priorities, planned_only=True))
        parts = [(rank, one) for rank, one in parts if rank[-1] > 0]  # what is not copied now is copied later
        part = min(parts, key=lambda one: (*one[0][:-2], -one[0][-2]))[1] if parts else None
        if part is not None and self.continues:
            return part
        searched = [] if next(iter(exceeded), "") in COPIED_LOADS else [search_assignment(task)]
        others = find_harmless([*planner.find_candidates(priorities, planned_only=False), *searched])
        best = min(others, key=lambda other: other[0])[1]
        if part is None:
            return best
        for name in exceeded:
            least, most = (measure_relief(task, before, one, name) for one in (part, best))
            if max(least, most) > 0.0:
                is_first = name == priorities[0]
                least_share = _MIN_RELIEF[self.request.goal] if is_first else _MIN_LATER_RELIEF
                return part if least >= least_share * most else best
        return part

    def _bound_relief(self, task: SearchTask, certificate: BalanceCertificate) -> list[Relief]:
        """Bound what any plan within the budget reaches, for each load that exceeds its target now."""
        model = self.model
        now = create_state(self.cluster, task.limits, model.replicas)
        over = search_task.measure_excess(task.limits, now)
        before, after = measure_reached(model, self.units, now), certificate.reached
        return [
            bound_relief(model, self.rules, self.units, name, (before[name].max_over_mean, after[name].max_over_mean))
            for name in self.request.priorities
            if name in COPIED_LOADS and over[name].max(initial=0.0) > TOLERANCE.get(name, TOLERANCE[""])
        ]

    def _bound_copies(self, limits: BrokerLimits) -> CopyBound:
        """Bound what any plan must copy, in units of disk."""
        model, rules, cluster = self.model, self.rules, self.cluster
        free, stays = ~rules.fixed[model.row], ~rules.must_leave

        def exceed(load: Floats, limit: Floats) -> Floats:
            return (np.bincount(model.replicas, load[model.row], model.brokers) - limit) * stays

        disk, bytes_in = exceed(cluster.disk, limits.disk), exceed(cluster.bytes_in, limits.bytes_in)
        excess = disk, bytes_in, exceed(np.ones(model.partitions), limits.max_replicas)
        bound = bound_copied_bytes(model.replicas, model.row, (cluster.disk, cluster.bytes_in), excess, free)
        leaving = rules.must_leave[model.replicas] & free
        return replace(bound, bound=bound.bound + float(cluster.disk[model.row[leaving]].sum()))

    def _find_overfull(self, result: SearchResult) -> list[str]:
        """Explain which broker would hold more than any broker can."""
        model, request, reasons = self.model, self.request, []
        state = create_state(self.cluster, result.limits, result.slots)
        disk = (state.disk * self.units.disk, self.rules.broker_bytes, "bytes")
        most = np.full(model.brokers, np.inf if request.broker_replicas is None else request.broker_replicas)
        for load, capacity, unit in (disk, (state.replicas, most, "replicas")):
            excess = np.where(model.live, load - capacity * (1 + 1e-9), -np.inf)
            worst = int(excess.argmax()) if len(load) else 0
            if len(load) and excess[worst] > 0:
                holds = f"{load[worst]:.0f} {unit}, more than its capacity of {capacity[worst]:.0f}"
                place = f"broker {model.broker_ids[worst]} would hold {holds}"
                if unit == "bytes":
                    place = describe_overfull(model, self.rules, worst, load[worst])
                reasons.append(f"no plan within the brokers' capacity was found: {place}")
        return reasons

    def _rank(
        self, task: SearchTask, result: SearchResult, measure: Callable[[Floats], float] = np.sum
    ) -> tuple[float, ...]:
        """Rank lists by how far they are from the limits, the first priority first, then by what they copy."""
        state = create_state(task.cluster, result.limits, result.slots)
        over = search_task.measure_excess(result.limits, state)
        excesses = [
            round(
                float(sum(measure(over[name]) for name in _EXCESS_NAMES.get(priority, (priority,)) if name in over)), 3
            )
            for priority in self.request.priorities
        ]
        return (*excesses, float(state.copied_disk[0]), float(state.copied_count[0]))

    def _keep_order(self, task: SearchTask, result: SearchResult) -> SearchResult:
        """Leave the order of lists of which nothing is copied as it is, unless another improves a load."""
        model, cluster = self.model, task.cluster
        if not np.array_equal(self.offsets, model.offsets):
            return result
        copied = any_true(model.find_copied(model.with_lists(self.offsets, result.slots)), self.offsets)
        as_now = np.where(copied[model.row], result.slots, model.replicas)
        before = create_state(cluster, task.limits, self.slots)

        def measure(slots: Int32s) -> tuple[tuple[float, ...], set[str], bool]:
            one = replace(result, slots=slots)
            rank = self._rank(task, one, np.max)[:-2]
            return rank, {*find_harm(task, before, one)}, search_task.meets_limits(task, one)

        least, harm, meets = measure(result.slots)

        def is_as_good(slots: Int32s) -> bool:
            rank, more_harm, meets_all = measure(slots)
            return rank <= least and more_harm <= harm and meets_all >= meets

        if is_as_good(as_now):
            return replace(result, slots=as_now)
        state = create_state(cluster, result.limits, as_now)
        free = cluster._replace(can_change=cluster.can_change & ~result.oversized)
        proposals = task.count_proposals(23, 1e6, 6)
        for one in NEAR:
            anneal_order(free, result.limits, state, seed_random(task.seed), task.leader_unit, proposals, (one,))
            if is_as_good(state.slots):
                return replace(result, slots=state.slots)
        return result

    def _find_others(self, task: SearchTask, result: SearchResult) -> Iterator[SearchResult]:
        model, priorities, best = self.model, self.request.priorities, result
        over = search_task.measure_excess(result.limits, create_state(task.cluster, result.limits, result.slots))
        if not np.array_equal(task.cluster.offsets, model.offsets):
            return
        if REPLICAS in priorities and over["replicas"].max() >= TOLERANCE["replicas"]:
            proposal = plan_replica_counts(model, self.search_rules)
            if np.array_equal(proposal.offsets, model.offsets):
                yield replace(result, slots=proposal.replicas)
                best = search_assignment(replace(task, slots=proposal.replicas))
                yield best
        uneven = max(over["failover"].max(), over["leaders"].max()) >= TOLERANCE["failover"]
        if uneven and not model.known[2] and {FAILOVER, LEADERS} <= set(priorities):
            # Where no bytes out are known, flows find the best order of the same sets.
            for slots in {lists.slots.tobytes(): lists.slots for lists in (best, result)}.values():
                ordered = plan_leadership(model.with_lists(task.cluster.offsets, slots), may_lead=self.units.counted)
                yield replace(result, slots=ordered.replicas)


def _build_start(model: ClusterModel, rules: Rules) -> tuple[Ints, Int32s]:
    """Build legal lists to start from: only replicas that must go are elsewhere, as far as the budget pays for that."""
    must_go = any_true(rules.must_leave[model.replicas], model.offsets) | find_rack_violations(model, rules.rack_cap)
    if not must_go[~rules.fixed].any():
        return model.offsets, model.replicas
    names = ("receives", "must_leave", "factor", "rack_cap", "byte_budget", "move_budget")
    shared = {name: getattr(rules, name) for name in names}
    repair = replace(build_rules(model, PlanRequest("repair")), fixed=rules.fixed | ~must_go, **shared)
    proposal = plan_replica_counts(model, repair, objective="min-bytes")
    return proposal.offsets, proposal.replicas


def restore_list_order(model: ClusterModel, offsets: Ints, slots: Int32s) -> Int32s:
    """Order each list: leader and successor first, then the model's replicas in their order, then new ones."""
    if np.array_equal(offsets, model.offsets) and np.array_equal(slots, model.replicas):
        return slots
    row, place = row_of(offsets), position_of(offsets)
    old = find_in_segment(slots, offsets, model.replicas, model.offsets)
    rank = np.where(place < 2, place - 2, np.where(old >= 0, old, len(model.replicas) + place))
    return slots[np.lexsort((rank, row))]
