"""Annealing of leaders and successors: only the order within replica lists changes, and nothing is copied."""

from udfs.kernel_compiler import compiled
from udfs.planning.annealing.kernels.search_moves import (
    COOLING_STEPS,
    Schedule,
    cooling_factor,
    draw_below,
    draw_bound,
    draw_unit,
    find_hot_leaders,
    try_exchange,
)
from udfs.planning.annealing.kernels.search_state import Search, recompute_state


@compiled
def anneal_leadership(search: Search, schedule: Schedule, hot_share: float) -> None:
    """Anneal the order of replica lists.

    Args:
        search: Its state changes.
        schedule: How many exchanges are proposed, and the temperatures.
        hot_share: Share of proposals about partitions on a broker beyond a limit.
    """
    cluster, state, random = search.cluster, search.state, search.random
    partitions = len(cluster.disk)
    hot_count = 0
    temperature, factor = schedule.start, cooling_factor(schedule, COOLING_STEPS)
    recompute_state(cluster, search.limits, state)
    for step in range(schedule.proposals):
        if step % COOLING_STEPS == 0:
            hot_count = find_hot_leaders(search)
            if step:
                temperature *= factor
        bound = draw_bound(random, temperature)
        if hot_count and draw_unit(random) < hot_share:
            b = search.hot[draw_below(random, hot_count)]
            if state.replicas[b] == 0:
                continue
            p = cluster.row[state.broker_slots[b, draw_below(random, state.replicas[b])]]
        else:
            p = draw_below(random, partitions)
        begin = cluster.offsets[p]
        size = cluster.offsets[p + 1] - begin
        if size < 2 or not cluster.can_change[p]:
            continue
        i = draw_below(random, 2) if size > 2 else 0
        j = i + 1 + draw_below(random, size - i - 1)
        try_exchange(search, begin + i, begin + j, bound)
    recompute_state(cluster, search.limits, state)
