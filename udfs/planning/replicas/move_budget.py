"""Plans by counts that a budget does not pay for in full: the best plan within it, and what is proven about it."""

from dataclasses import dataclass

import numpy as np

from udfs.planning.cluster_model import ClusterModel
from udfs.planning.constraints import Rules
from udfs.planning.kernels.array_types import ListChanges
from udfs.planning.plan_text import describe_partitions
from udfs.planning.replicas.count_lists import MAX_ARCS, SolvedLists, measure_copies, merge_lists, solve_replica_lists
from udfs.planning.replicas.count_network import BUDGET_SCALE, CountTask, compute_prices
from udfs.planning.replicas.kernels.budget_steps import ChangeCosts, CountBounds, select_changes

_ROUNDS = 6  # prices tried for a budget


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
    over_bytes = rules.byte_budget is not None and float(size.sum()) > rules.byte_budget
    return over_bytes or (rules.move_budget is not None and int(moves.sum()) > rules.move_budget)


def fit_budget(task: CountTask, full: SolvedLists, objective: str) -> BudgetedLists:
    """Find the best lists that the budget pays for.

    What must move comes first; if not even that fits, the smallest partitions. Then each replica outside the targets
    gets a price: each price has its cheapest plan, and proves how many replicas any plan of that cost leaves outside.
    """
    model, rules = task.model, task.rules
    least = solve_replica_lists(task, objective, True)
    if exceeds_budget(model, rules, least):
        return _take_smallest(task, least)
    over_bytes = rules.byte_budget is not None and float(measure_copies(model, full)[1].sum()) > rules.byte_budget
    kind = "bytes" if over_bytes else "moves"
    prices = compute_prices(model, rules, task.net, kind, False)
    cost = np.zeros(model.partitions, dtype=np.int64)
    cost[task.net.rows] = prices.cost

    def total(lists: SolvedLists) -> int:
        return int(measure_copies(model, lists)[0] @ cost)

    budget = BUDGET_SCALE * ((rules.byte_budget or 0.0) / prices.unit if over_bytes else float(rules.move_budget or 0))
    low, high, bound = least, full, _count_outside(task, full)
    for _ in range(_ROUNDS if len(task.net.tail) < MAX_ARCS // 4 else _ROUNDS // 2):
        apart = _count_outside(task, low) - _count_outside(task, high)
        if apart <= 0 or total(high) <= total(low):
            break
        price = min(max((total(high) - total(low)) // apart, 1), prices.outside)
        middle = solve_replica_lists(task, kind, False, price)
        value = total(middle) + price * _count_outside(task, middle)
        if middle.attained:
            bound = max(bound, int(np.ceil((value - budget) / price - 1e-9)))
        if value >= total(low) + price * _count_outside(task, low) - price:
            break
        low, high = (low, middle) if exceeds_budget(model, rules, middle) else (middle, high)
    low = _spend_rest(task, low, high)
    outside = _count_outside(task, low)
    text = f"the budget leaves {outside} replicas outside even counts; no plan within it leaves fewer than {bound}"
    return BudgetedLists(low, "fewest replicas outside even counts within the budget", outside, bound, text)


def _spend_rest(task: CountTask, low: SolvedLists, high: SolvedLists) -> SolvedLists:
    """Replace lists of `low` by those of `high` as far as the rest of the budget goes and counts improve."""
    model, rules = task.model, task.rules
    (low_moves, low_size), (high_moves, high_size) = measure_copies(model, low), measure_copies(model, high)
    moves, size = high_moves - low_moves, high_size - low_size
    differs = model.with_lists(low.offsets, low.replicas).find_changed(high)
    order = np.flatnonzero(differs)
    order = order[np.lexsort((order, size[order]))]
    moves_left = int(moves.sum()) if rules.move_budget is None else rules.move_budget - int(low_moves.sum())
    bytes_left = np.inf if rules.byte_budget is None else rules.byte_budget - float(low_size.sum())
    use = np.zeros(model.partitions, dtype=np.bool_)
    counts = np.bincount(low.replicas, minlength=model.brokers).astype(np.int64)
    costs = ChangeCosts(moves, size, max(moves_left, 0), bytes_left)
    bounds = CountBounds(task.targets.low, task.targets.high, counts)
    select_changes(order, ListChanges(low.offsets, low.replicas, high.offsets, high.replicas), costs, bounds, use)
    return SolvedLists(*merge_lists(model, low, high, use), low.bound, low.unit, False)


def _take_smallest(task: CountTask, least: SolvedLists) -> BudgetedLists:
    """Change as many of the partitions that must move as the budget pays for, the smallest first."""
    model, rules = task.model, task.rules
    moves, size = measure_copies(model, least)
    budgets = (
        (size, np.inf if rules.byte_budget is None else rules.byte_budget),
        (moves, np.inf if rules.move_budget is None else rules.move_budget),
    )
    by_size = rules.byte_budget is not None and float(size.sum()) > rules.byte_budget
    order = np.lexsort((moves, size) if by_size else (size, moves))
    fits = np.logical_and.reduce([np.cumsum(cost[order]) <= budget for cost, budget in budgets])
    use = np.zeros(model.partitions, dtype=np.bool_)
    use[order[fits]] = True
    left = np.flatnonzero(~use)
    # No other choice pays for more partitions with one of the budgets alone.
    bound = max(int((np.cumsum(np.sort(cost)) > budget).sum()) for cost, budget in budgets)
    lacking = f"{size[left].sum():.0f} bytes, " if size.any() else ""
    text = f"the budget does not pay for {describe_partitions(model, left)}: {lacking}{moves[left].sum()} replicas"
    lists = SolvedLists(*merge_lists(model, model, least, use), least.bound, least.unit, False)
    return BudgetedLists(lists, "fewest partitions left within the budget", len(left), bound, text)


def _count_outside(task: CountTask, lists: SolvedLists) -> int:
    """Count the replicas that brokers have above or below their targets."""
    counts = np.bincount(lists.replicas, minlength=task.model.brokers)
    over, under = np.maximum(counts - task.targets.high, 0), np.maximum(task.targets.low - counts, 0)
    return int((over + under)[task.rules.receives].sum())
