"""Plans that even out replica counts with the fewest copies, or the best that a budget pays for, and their proofs."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from udfs.arrow.ragged import any_true
from udfs.planning.bounds.lower_bounds import count_missing_replicas
from udfs.planning.certificates import CountCertificate
from udfs.planning.cluster_model import ClusterModel, FreezeReason, Ints, ProposedAssignment
from udfs.planning.constraints import (
    InfeasibleRequest,
    Rules,
    count_selected_replicas,
    explain_other_topics,
    find_rack_violations,
)
from udfs.planning.disk_room import describe_overfull, fit_disks
from udfs.planning.kernels.array_types import ListChanges
from udfs.planning.plan_request import MIN_BYTES, MIN_MOVES
from udfs.planning.replicas import count_flow
from udfs.planning.replicas.count_flow import BUDGET_SCALE, CountTask, SolvedLists, measure_copies
from udfs.planning.replicas.count_limits import (
    CountTargets,
    compute_count_targets,
    explain_count_targets,
    explain_infeasibility,
)
from udfs.planning.replicas.kernels.replica_units import ChangeCosts, CountBounds, select_changes
from udfs.wording import count_of, format_bytes

_ROUNDS = 6  # prices tried for a budget

REASONS = (
    "its replication factor changes",
    "a replica is on a down broker",
    "a replica is on a broker to be emptied",
    "it has too many replicas in one rack",
    "an empty broker is filled",
    "to even out replica counts",
)


@dataclass(frozen=True)
class BudgetedLists:
    """The best lists that a budget pays for: what they minimize, a lower bound of it, and what they miss, in words."""

    lists: SolvedLists
    objective: str
    value: int
    lower_bound: int
    missed: str


def exceeds_budget(model: ClusterModel, rules: Rules, lists: SolvedLists) -> bool:
    """Return whether these lists cost more than the budget."""
    moves, size = measure_copies(model, lists)
    return float(size.sum()) > rules.byte_budget or int(moves.sum()) > rules.move_budget


def fit_budget(task: CountTask, full: SolvedLists, objective: str) -> BudgetedLists:
    """Find the best lists that the budget pays for.

    What must move comes first; if not even that fits, the smallest partitions. Then each replica outside the targets
    gets a price: each price has its cheapest plan, and proves how many replicas any plan of that cost leaves outside.
    """
    model, rules = task.model, task.rules
    least = count_flow.solve_replica_lists(task, objective, True)
    if exceeds_budget(model, rules, least):
        return _take_smallest(task, least)
    over_bytes = float(measure_copies(model, full)[1].sum()) > rules.byte_budget
    kind = "bytes" if over_bytes else "moves"
    prices = count_flow.compute_prices(model, rules, task.net, kind, False)
    cost = np.zeros(model.partitions, dtype=np.int64)
    cost[task.net.rows] = prices.cost

    def total(lists: SolvedLists) -> int:
        return int(measure_copies(model, lists)[0] @ cost)

    budget = BUDGET_SCALE * (rules.byte_budget / prices.unit if over_bytes else rules.move_budget)
    low, high, bound = least, full, _count_outside(task, full)
    for _ in range(_ROUNDS if len(task.net.tail) < count_flow.MAX_ARCS // 4 else _ROUNDS // 2):
        apart = _count_outside(task, low) - _count_outside(task, high)
        if apart <= 0 or total(high) <= total(low):
            break
        price = min(max((total(high) - total(low)) // apart, 1), prices.outside)
        middle = count_flow.solve_replica_lists(task, kind, False, price)
        value = total(middle) + price * _count_outside(task, middle)
        if middle.attained:
            bound = max(bound, int(np.ceil((value - budget) / price - 1e-9)))
        if value >= total(low) + price * _count_outside(task, low) - price:
            break
        low, high = (low, middle) if exceeds_budget(model, rules, middle) else (middle, high)
    low = _spend_rest(task, low, high)
    outside = _count_outside(task, low)
    text = f"the budget leaves {count_of(outside, 'replica')} above or below even counts; no plan within it leaves "
    text += f"fewer than {bound}"
    return BudgetedLists(low, "fewest replicas outside even counts within the budget", outside, bound, text)


def _spend_rest(task: CountTask, low: SolvedLists, high: SolvedLists) -> SolvedLists:
    """Replace lists of `low` by those of `high` as far as the rest of the budget goes and counts improve."""
    model, rules = task.model, task.rules
    (low_moves, low_size), (high_moves, high_size) = measure_copies(model, low), measure_copies(model, high)
    moves, size = high_moves - low_moves, high_size - low_size
    differs = model.with_lists(low.offsets, low.replicas).find_changed(high)
    order = np.flatnonzero(differs)
    order = order[np.lexsort((order, size[order]))]
    moves_left = int(moves.sum()) if rules.move_budget == np.inf else int(rules.move_budget) - int(low_moves.sum())
    use = np.zeros(model.partitions, dtype=np.bool_)
    counts = np.bincount(low.replicas, minlength=model.brokers).astype(np.int64)
    costs = ChangeCosts(moves, size, max(moves_left, 0), rules.byte_budget - float(low_size.sum()))
    bounds = CountBounds(task.targets.low, task.targets.high, counts)
    select_changes(order, ListChanges(low.offsets, low.replicas, high.offsets, high.replicas), costs, bounds, use)
    return SolvedLists(*count_flow.merge_lists(model, low, high, use), low.bound, low.unit, False)


def _take_smallest(task: CountTask, least: SolvedLists) -> BudgetedLists:
    """Change as many of the partitions that must move as the budget pays for, the smallest first."""
    model, rules = task.model, task.rules
    moves, size = measure_copies(model, least)
    budgets = ((size, rules.byte_budget), (moves, rules.move_budget))
    order = np.lexsort((moves, size) if float(size.sum()) > rules.byte_budget else (size, moves))
    fits = np.logical_and.reduce([np.cumsum(cost[order]) <= budget for cost, budget in budgets])
    use = np.zeros(model.partitions, dtype=np.bool_)
    use[order[fits]] = True
    left = np.flatnonzero(~use)
    # No other choice pays for more partitions with one of the budgets alone.
    bound = max(int((np.cumsum(np.sort(cost)) > budget).sum()) for cost, budget in budgets)
    lacking = f"{format_bytes(float(size[left].sum()))}, " if size.any() else ""
    lacking += count_of(int(moves[left].sum()), "replica")
    text = f"the budget does not cover {model.describe_partitions(left)}: {lacking}"
    lists = SolvedLists(*count_flow.merge_lists(model, model, least, use), least.bound, least.unit, False)
    return BudgetedLists(lists, "fewest partitions left within the budget", len(left), bound, text)


def _count_outside(task: CountTask, lists: SolvedLists) -> int:
    """Count the replicas that brokers have above or below their targets."""
    counts = np.bincount(lists.replicas, minlength=task.model.brokers)
    over, under = np.maximum(counts - task.targets.high, 0), np.maximum(task.targets.low - counts, 0)
    return int((over + under)[task.rules.receives].sum())


def plan_replica_counts(model: ClusterModel, rules: Rules, objective: str = MIN_BYTES) -> ProposedAssignment:
    """Plan lists that comply with the rules, with the fewest copies; raise InfeasibleRequest if there are none.

    Goals that are not about counts move only what they must, and even out counts by that. objective: min-bytes copies
    the fewest bytes, and with these the fewest replicas; min-moves the other way round.
    """
    if objective not in (MIN_BYTES, MIN_MOVES):
        raise ValueError(f"objective {objective!r}: must be {MIN_BYTES} or {MIN_MOVES}")
    if reasons := explain_infeasibility(model, rules):
        raise InfeasibleRequest(reasons)
    targets = compute_count_targets(model, rules)
    if not model.size.any():
        objective = MIN_MOVES
    if rules.fixed.all():
        return _propose(model, rules, targets, SolvedLists(model.offsets, model.replicas, 0.0, 1.0, True), objective)
    single = np.bincount(model.rack).max() <= 1  # racks of one broker ask for distinct brokers, and nothing more
    flat = replace(model, rack=np.zeros_like(model.rack)) if single else model
    flat_rules = replace(rules, rack_cap=rules.factor) if single else rules
    task = count_flow.build_count_task(flat, flat_rules, targets, np.flatnonzero(~rules.fixed), hubs=True)
    lists = count_flow.solve_replica_lists(task, objective, not rules.even)
    budgeted = fit_budget(task, lists, objective) if exceeds_budget(model, rules, lists) else None
    chosen = budgeted.lists if budgeted else lists
    chosen = replace(chosen, replicas=fit_disks(model, rules, chosen.offsets, chosen.replicas))
    return _propose(model, rules, targets, chosen, objective, budgeted)


def _propose(
    model: ClusterModel,
    rules: Rules,
    targets: CountTargets,
    lists: SolvedLists,
    objective: str,
    budgeted: BudgetedLists | None = None,
) -> ProposedAssignment:
    moves, size = measure_copies(model, lists)
    value = float(size.sum()) if objective == MIN_BYTES else int(moves.sum())
    bound = lists.bound if objective == MIN_BYTES else round(lists.bound)
    counts = np.bincount(lists.replicas, minlength=model.brokers)
    goal = (objective, value, min(bound, value), max(value - bound, 0))
    missed = list(_explain_missed(model, rules, targets, lists, counts))
    if budgeted is not None:
        goal = (budgeted.objective, budgeted.value, budgeted.lower_bound, budgeted.value - budgeted.lower_bound)
        missed.insert(0, budgeted.missed)
    certificate = CountCertificate(
        *goal,
        attained=lists.attained,
        step_bytes=lists.unit,
        moves=int(moves.sum()),
        moves_lower_bound=_bound_moves(model, rules, targets),
        bytes=float(size.sum()),
        replicas_min=int(counts[rules.receives].min(initial=counts.max(initial=0))),
        replicas_max=int(counts[rules.receives].max(initial=0)),
        relaxed=[
            *explain_other_topics(model, rules, lists),
            *(explain_count_targets(model, rules, targets) if rules.even else ()),
        ],
        missed=missed,
    )
    leaves = rules.must_leave[model.replicas]
    empty = np.bincount(model.replicas, minlength=model.brokers) == 0
    conditions = [  # of REASONS, the first that holds
        rules.factor != model.factor,
        any_true(leaves & ~model.live[model.replicas], model.offsets),
        any_true(leaves, model.offsets),
        find_rack_violations(model, rules.rack_cap),
        any_true(empty[lists.replicas], lists.offsets),
    ]
    first = np.select(conditions, range(len(conditions)), len(conditions))
    reason = np.where(model.find_changed(lists), first, -1).astype(np.int16)
    return ProposedAssignment(lists.offsets, lists.replicas, reason, REASONS, certificate)


def _bound_moves(model: ClusterModel, rules: Rules, targets: CountTargets) -> int:
    """Bound the moves of any plan from below: replicas that must leave, brokers and partitions that lack some."""
    bound = int(count_missing_replicas(model, rules).sum())
    if not rules.even:
        return bound
    stays = ~rules.must_leave[model.replicas] | rules.fixed[model.row]
    counts = np.bincount(model.replicas[stays], minlength=model.brokers)
    under = int(np.maximum(targets.low - counts, 0)[rules.receives].sum())
    return max(bound, under, int(rules.factor.sum() - np.minimum(counts, targets.high).sum()))


def _explain_missed(
    model: ClusterModel, rules: Rules, targets: CountTargets, lists: SolvedLists, counts: Ints
) -> Iterator[str]:
    for code in np.unique(model.frozen[rules.blocked]).tolist():
        rows = np.flatnonzero(rules.blocked & (model.frozen == code))
        yield f"{model.describe_partitions(rows)} cannot be changed because of {FreezeReason(code).explanation}"
    load = model.sum_bytes(lists)
    for broker in np.flatnonzero(rules.receives & (load > rules.broker_bytes)):
        yield describe_overfull(model, rules, int(broker), load[broker])
    selected = count_selected_replicas(model, lists)
    for broker in np.flatnonzero(rules.must_leave & (selected > 0) & (rules.goal != "rf")):
        yield f"broker {model.broker_ids[broker]} still holds {count_of(selected[broker], 'replica')}"
    if not rules.even:
        return
    more, fewer = ("more", targets.high, counts - targets.high), ("fewer", targets.low, targets.low - counts)
    for side, limits, off in (more, fewer):
        brokers = np.flatnonzero(rules.receives & (off > 0))
        if len(brokers):
            limit = " to ".join(str(limit) for limit in sorted({limits[brokers].min(), limits[brokers].max()}))
            replicas = count_of(int(off[brokers].sum()), "replica")
            yield f"{model.describe_brokers(brokers)}: {replicas} {side} than {limit} each"
