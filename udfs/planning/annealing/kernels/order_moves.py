"""Annealing of who leads and who takes over: only the order within replica lists changes, nothing is copied."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled, part
from udfs.planning.annealing.kernels.search_state import Floats, Limits, Prices, State, Work, cost_of_leading, recount
from udfs.planning.annealing.kernels.search_steps import Brokers, below, reorder, unit

LOOK = 512


@part
def look(limits: Limits, prices: Prices, state: State, due: Floats, hot: Brokers) -> int:
    """How many brokers lead or would take over too much, or lead too little; hot and due are filled."""
    count = 0
    for b in range(len(state.disk)):
        due[b] = cost_of_leading(limits, prices, state, b)
        if due[b] > 1e-12:
            hot[count] = b
            count += 1
    return count


@compiled
def anneal_roles(
    work: Work,
    limits: Limits,
    prices: Prices,
    state: State,
    focus: float,
    proposals: int,
    warm: float,
    cold: float,
    random: npt.NDArray[np.uint64],
) -> int:
    """How many proposals were taken.

    focus: share of proposals of partitions that a broker with an excess holds.   warm, cold: as in anneal_holding.
    """
    n, partitions = len(work.rack), len(work.disk)
    hot, due, found = np.empty(n, np.int32), np.empty(n), np.empty(10, np.int32)
    hots = taken = 0
    temperature = warm
    fall = np.exp(np.log(cold / warm) * LOOK / proposals) if warm > 0.0 else 1.0
    recount(work, limits, state)
    for step in range(proposals):
        if step % LOOK == 0:
            hots = look(limits, prices, state, due, hot)
            if step:
                temperature *= fall
        bound = -temperature * np.log(unit(random)) if temperature > 0.0 else -1e-15
        if hots and unit(random) < focus:
            b = hot[below(random, hots)]
            if state.replicas[b] == 0:
                continue
            p = work.row[state.held[b, below(random, state.replicas[b])]]
        else:
            p = below(random, partitions)
        begin = work.offsets[p]
        size = work.offsets[p + 1] - begin
        if size < 2 or not work.free[p]:
            continue
        i = below(random, 2) if size > 2 else 0
        j = i + 1 + below(random, size - i - 1)
        rise = reorder(work, limits, prices, state, due, begin + i, begin + j, bound, found)
        if rise == rise:
            taken += 1
    recount(work, limits, state)
    return taken
