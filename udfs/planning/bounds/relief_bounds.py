"""Lower bound of the fullest broker's load that any plan within a budget reaches."""

from dataclasses import dataclass

import numpy as np

from udfs.planning.cluster_model import Flags, Floats, Int32s

_STEPS = 60  # of a bisection


@dataclass(frozen=True)
class Budget:
    """What a plan may spend on copies: one of its limits."""

    cost: Floats  # float64 (r), of a copy of each replica
    most: float
    whole: bool  # Whether replicas are counted, so that a part of one costs as much


def bound_fullest_broker(replicas: Int32s, load: Floats, free: Flags, counted: Flags, budgets: list[Budget]) -> float:
    """Bound the load of the fullest counted broker after any plan within all budgets, which copies what it moves.

    To bring a broker to a level, what it has above that level must leave it. As if replicas could be divided, those
    with most load per cost leave first. No level is below the mean, nor below what a broker cannot give away.

    Args:
        replicas: int32 (r), the broker of each replica.
        load: float64 (r), load of each replica.
        free: bool (r), whether each replica may leave its broker.
        counted: bool (n), brokers whose fullest is bounded; no replica leaves them for others.
        budgets: The limits of the plan.
    """
    n = len(counted)
    loads = np.bincount(replicas, load, n).astype(np.float64)
    fixed = np.bincount(replicas[~free], load[~free], n)
    if not counted.any():
        return 0.0
    floor = max(float(loads[counted].mean()), float(fixed[counted].max()))
    free = free & counted[replicas] & (load > 0.0)
    return max([floor, *(_find_level(replicas[free], load[free], loads, counted, _take(one, free)) for one in budgets)])


def _take(budget: Budget, selected: Flags) -> Budget:
    return Budget(budget.cost[selected], budget.most, budget.whole)


def _find_level(replicas: Int32s, load: Floats, loads: Floats, counted: Flags, budget: Budget) -> float:
    """Find the lowest level that the budget pays for, rounded down."""
    order = np.lexsort((budget.cost / load, replicas))
    begins = np.searchsorted(replicas[order], np.arange(len(loads) + 1))
    sums = [np.concatenate([[0.0], np.cumsum(values[order])]) for values in (load, budget.cost)]
    parts = [[each[begins[b] : begins[b + 1] + 1] - each[begins[b]] for each in sums] for b in range(len(loads))]

    def pays(level: float) -> bool:
        spent = 0.0
        for b in np.flatnonzero(counted & (loads > level)).tolist():
            relief, cost = parts[b]
            least = float(np.interp(loads[b] - level, relief, cost))
            spent += float(np.ceil(least - 1e-6)) if budget.whole else least
        return spent <= budget.most * (1 + 1e-9)

    low, high = 0.0, float(loads[counted].max())
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if pays(middle) else (middle, high)
    return low
