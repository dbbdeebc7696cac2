"""Annealing of everything at once, for what is left when who holds and who leads were settled one after the other."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled, part
from udfs.planning.annealing.kernels.order_moves import look
from udfs.planning.annealing.kernels.search_state import (
    Floats,
    Limits,
    Prices,
    State,
    Work,
    cost_of_holding,
    cost_of_leading,
    cost_of_order,
    recount,
    relocate,
    within,
)
from udfs.planning.annealing.kernels.search_steps import (
    Brokers,
    below,
    copy_cost,
    fits,
    leading,
    more_copies,
    note,
    note_roles,
    reorder,
    unit,
)

LOOK = 512


@part
def _holding(limits: Limits, prices: Prices, state: State, b: int) -> float:
    return cost_of_holding(limits, prices, b, state.replicas[b], state.disk[b], state.into[b])


@part
def _relocate(
    work: Work,
    limits: Limits,
    prices: Prices,
    state: State,
    due: Floats,
    one: int,
    two: int,
    t: int,
    bound: float,
    found: Brokers,
) -> bool:
    """Whether slot `one` went to broker t - and slot `two` from there to its broker, if not -1 - within the bound."""
    p, b = work.row[one], state.slots[one]
    rise = copy_cost(work, prices, p, t) - copy_cost(work, prices, p, b)
    rise -= _holding(limits, prices, state, b) + _holding(limits, prices, state, t)
    d, i, count = work.disk[p], work.into[p], 1
    q = work.row[two] if two >= 0 else p
    if two >= 0:
        rise += copy_cost(work, prices, q, b) - copy_cost(work, prices, q, t)
        d, i, count = d - work.disk[q], i - work.into[q], 0
    rise += cost_of_holding(limits, prices, b, state.replicas[b] - count, state.disk[b] - d, state.into[b] - i)
    rise += cost_of_holding(limits, prices, t, state.replicas[t] + count, state.disk[t] + d, state.into[t] + i)
    brokers = note(found, note(found, note_roles(work, state, p, found, 0), b), t)
    rise -= cost_of_order(work, prices, state, p)
    if two >= 0:
        brokers = note_roles(work, state, q, found, brokers)
        rise -= cost_of_order(work, prices, state, q)
    for j in range(brokers):
        rise -= due[found[j]]
    if rise > bound:
        return False
    relocate(work, limits, state, one, t)
    if two >= 0:
        relocate(work, limits, state, two, b)
        rise += cost_of_order(work, prices, state, q)
    rise += cost_of_order(work, prices, state, p) + leading(limits, prices, state, found, brokers)
    if rise <= bound:
        for j in range(brokers):
            due[found[j]] = cost_of_leading(limits, prices, state, found[j])
        return True
    if two >= 0:
        relocate(work, limits, state, two, t)
    relocate(work, limits, state, one, b)
    return False


@compiled
def anneal_all(
    work: Work,
    limits: Limits,
    prices: Prices,
    state: State,
    targets: Brokers,
    proposals: int,
    warm: float,
    cold: float,
    random: npt.NDArray[np.uint64],
    homeward: float,
) -> int:
    """How many proposals were made: fewer if nothing exceeds a limit any more, and none go homeward.

    targets: int32, brokers that may receive.   warm, cold: as in anneal_holding.   homeward: share of proposals that
    would let something that is away go home, another of that broker taking its place or not.
    """
    n = len(work.rack)
    hot, due, found = np.empty(n, np.int32), np.empty(n), np.empty(16, np.int32)
    holders = np.empty(n, np.int32)
    hots = held = 0
    temperature = warm
    fall = np.exp(np.log(cold / warm) * LOOK / proposals) if warm > 0.0 else 1.0
    recount(work, limits, state)
    for step in range(proposals):
        if step % LOOK == 0:
            hots = look(limits, prices, state, due, hot)
            held = 0
            for b in range(n):
                if _holding(limits, prices, state, b) > 1e-12:
                    holders[held] = b
                    held += 1
            if hots + held == 0 and homeward == 0.0:
                recount(work, limits, state)
                return step
            if step:
                temperature *= fall
        bound = -temperature * np.log(unit(random)) if temperature > 0.0 else -1e-15
        two = -1
        if unit(random) < homeward:
            if state.copies[0] == 0:
                continue
            one = state.away[below(random, state.copies[0])]
            p = work.row[one]
            homes = work.home_offsets[p + 1] - work.home_offsets[p]
            if homes == 0 or not work.free[p]:
                continue
            t = work.home[work.home_offsets[p] + below(random, homes)]
            if not work.receives[t]:
                continue
            if unit(random) < 0.5 and state.replicas[t]:
                two = state.held[t, below(random, state.replicas[t])]
        else:
            if hots + held == 0:
                continue
            pick = below(random, hots + held)
            b = hot[pick] if pick < hots else holders[pick - hots]
            if state.replicas[b] == 0:
                continue
            one = state.held[b, below(random, state.replicas[b])]
            p = work.row[one]
            begin, end = work.offsets[p], work.offsets[p + 1]
            if not work.free[p]:
                continue
            kind = unit(random)
            if kind < 0.4 and end - begin > 1:
                i = below(random, 2) if end - begin > 2 else 0
                j = i + 1 + below(random, end - begin - i - 1)
                reorder(work, limits, prices, state, due, begin + i, begin + j, bound, found)
                continue
            if kind < 0.5:  # what it leads may go by way of the partition's other replicas
                one = begin + below(random, end - begin)
            t = targets[below(random, len(targets))]
            if kind > 0.8 and state.replicas[t]:
                two = state.held[t, below(random, state.replicas[t])]
        b = state.slots[one]
        if t == b or not fits(work, state, one, t) or state.replicas[t] >= state.held.shape[1]:
            continue
        if two >= 0:
            q = work.row[two]
            if q == p or not work.free[q] or not work.receives[b] or not fits(work, state, two, b):
                continue
        moves = more_copies(work, p, b, t)
        copied = moves * work.disk[p]
        if two >= 0:
            more = more_copies(work, work.row[two], t, b)
            moves += more
            copied += more * work.disk[work.row[two]]
        if not within(limits, state, copied, moves):
            continue
        _relocate(work, limits, prices, state, due, one, two, t, bound, found)
    recount(work, limits, state)
    return proposals
