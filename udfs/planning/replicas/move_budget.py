"""Plans by counts that a budget does not pay for in full: the best that it does, and what that proves."""

from __future__ import annotations

from typing import Any

import numpy as np

from udfs.planning.cluster_model import ClusterModel, Ints, changed
from udfs.planning.constraints import Rules
from udfs.planning.plan_text import some
from udfs.planning.replicas.count_lists import ARCS, Lists, lists_of, merged, spent
from udfs.planning.replicas.count_network import FINE, Task, prices_of
from udfs.planning.replicas.kernels.budget_steps import toward

_PRICED = 6  # prices tried for a budget


def exceeds(model: ClusterModel, rules: Rules, lists: Lists) -> bool:
    """Whether these lists cost more than the budget."""
    moves, size = spent(model, lists)
    over_bytes = rules.byte_budget is not None and float(size.sum()) > rules.byte_budget
    return over_bytes or (rules.move_budget is not None and int(moves.sum()) > rules.move_budget)


def within_budget(task: Task, full: Lists, objective: str) -> tuple[Lists, dict[str, Any]]:
    """The best lists that the budget pays for, and what the certificate says of them.

    What must move comes first; if not even that fits, the smallest. Then a replica outside the bounds is given a
    price: each price has its cheapest plan, and proves how many replicas any plan of that cost leaves outside.
    """
    model, rules = task.model, task.rules
    least = lists_of(task, objective, True)
    if exceeds(model, rules, least):
        return _smallest_first(task, least)
    over_bytes = rules.byte_budget is not None and float(spent(model, full)[1].sum()) > rules.byte_budget
    kind = "bytes" if over_bytes else "moves"
    prices = prices_of(model, rules, task.net, kind, False)
    cost = np.zeros(model.partitions, dtype=np.int64)
    cost[task.net.rows] = prices.cost

    def total(lists: Lists) -> int:
        return int(spent(model, lists)[0] @ cost)

    def outside(lists: Lists) -> int:
        return int(np.abs(_astray(task, lists)).sum())

    most = FINE * ((rules.byte_budget or 0.0) / prices.unit if over_bytes else float(rules.move_budget or 0))
    low, high, bound = least, full, outside(full)
    for _ in range(_PRICED if len(task.net.tail) < ARCS // 4 else _PRICED // 2):
        apart = outside(low) - outside(high)
        if apart <= 0 or total(high) <= total(low):
            break
        price = min(max((total(high) - total(low)) // apart, 1), prices.astray)
        middle = lists_of(task, kind, False, price)
        value = total(middle) + price * outside(middle)
        if middle.attained:
            bound = max(bound, int(np.ceil((value - most) / price - 1e-9)))
        if value >= total(low) + price * outside(low) - price:
            break
        low, high = (low, middle) if exceeds(model, rules, middle) else (middle, high)
    low = _filled_up(task, low, high)
    words = f"the budget leaves {outside(low)} replicas outside even counts; no plan within it leaves under {bound}"
    about = {"objective": "fewest replicas outside even counts within the budget", "value": outside(low)}
    return low, {**about, "lower_bound": bound, "gap": outside(low) - bound, "missed": [words]}


def _filled_up(task: Task, low: Lists, high: Lists) -> Lists:
    """`low`, with as many partitions as in `high` as the rest of the budget pays for and counts gain by."""
    model, rules = task.model, task.rules
    (low_moves, low_size), (high_moves, high_size) = spent(model, low), spent(model, high)
    moves, size = high_moves - low_moves, high_size - low_size
    differs = changed(model.placed(low.offsets, low.replicas), high.offsets, high.replicas)
    order = np.flatnonzero(differs)
    order = order[np.lexsort((order, size[order]))]
    moves_left = int(moves.sum()) if rules.move_budget is None else rules.move_budget - int(low_moves.sum())
    bytes_left = np.inf if rules.byte_budget is None else rules.byte_budget - float(low_size.sum())
    use = np.zeros(model.partitions, dtype=np.bool_)
    counts = np.bincount(low.replicas, minlength=model.brokers).astype(np.int64)
    lists = (low.offsets, low.replicas, high.offsets, high.replicas)
    left = (max(moves_left, 0), bytes_left)
    toward(order, *lists, moves, size, *left, task.bounds.lo, task.bounds.hi, counts, use)
    offsets, replicas = merged(model, low, high, use)
    return Lists(offsets, replicas, low.bound, low.unit, False)


def _smallest_first(task: Task, least: Lists) -> tuple[Lists, dict[str, Any]]:
    model, rules = task.model, task.rules
    moves, size = spent(model, least)
    pays = (
        (size, np.inf if rules.byte_budget is None else rules.byte_budget),
        (moves, np.inf if rules.move_budget is None else rules.move_budget),
    )
    by_size = rules.byte_budget is not None and float(size.sum()) > rules.byte_budget
    order = np.lexsort((moves, size) if by_size else (size, moves))
    fits = np.logical_and.reduce([np.cumsum(spent[order]) <= budget for spent, budget in pays])
    use = np.zeros(model.partitions, dtype=np.bool_)
    use[order[fits]] = True
    offsets, replicas = merged(model, model, least, use)
    left = np.flatnonzero(~use)
    # Of each budget alone, no other choice pays for more partitions.
    bound = max(int((np.cumsum(np.sort(spent)) > budget).sum()) for spent, budget in pays)
    lacks = (
        f"{size[left].sum():.0f} bytes, {moves[left].sum()} replicas" if size.any() else f"{moves[left].sum()} replicas"
    )
    words = f"the budget does not pay for {some(model, left)}: {lacks}"
    about = {"objective": "fewest partitions left within the budget", "value": len(left), "lower_bound": bound}
    missed = {"gap": len(left) - bound, "missed": [words]}
    return Lists(offsets, replicas, least.bound, least.unit, False), {**about, **missed}


def _astray(task: Task, lists: Lists) -> Ints:
    """Replicas of each broker outside its bounds: int64 (n), more than zero for too many."""
    counts = np.bincount(lists.replicas, minlength=task.model.brokers)
    over = np.maximum(counts - task.bounds.hi, 0) - np.maximum(task.bounds.lo - counts, 0)
    return np.where(task.rules.receives, over, 0)
