"""Annealing of who holds what: replica counts, disk, bytes in. Who leads is not looked at."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled, copying_part, part
from udfs.planning.annealing.kernels.search_state import (
    Floats,
    Limits,
    Prices,
    State,
    Work,
    at_home,
    cost_of_holding,
    set_away,
    shift,
    within,
)
from udfs.planning.annealing.kernels.search_steps import Brokers, below, fits, unit

LOOK = 512  # proposals between two looks for brokers with an excess

# Kinds of proposals. A hot broker's replica goes away; any does; one goes home; two that are away change brokers;
# one goes home and another of that broker takes its place; one that is away goes elsewhere; a hot broker's replica and
# any other's change brokers.
HOT, ANY, HOME, EXCHANGE, PUSH, ELSEWHERE, SWAP, KINDS = range(8)


@part
def _hot(limits: Limits, prices: Prices, state: State, due: Floats, hot: Brokers) -> int:
    """How many brokers hold too much or too little; hot and due are filled."""
    count = 0
    for b in range(len(state.disk)):
        due[b] = cost_of_holding(limits, prices, b, state.replicas[b], state.disk[b], state.into[b])
        if due[b] > 1e-12:
            hot[count] = b
            count += 1
    return count


@copying_part
def homes(work: Work, state: State) -> Brokers:
    """For each slot the broker that it is at home at (int32): its own if it holds the partition as it is.

    The other slots of a partition share what is left of its homes, in order; -1 = a replica more than there are.
    """
    out = np.full(len(state.slots), -1, np.int32)
    for p in range(len(work.disk)):
        begin, end = work.offsets[p], work.offsets[p + 1]
        for slot in range(begin, end):
            if at_home(work, p, state.slots[slot]):
                out[slot] = state.slots[slot]
        at = work.home_offsets[p]
        for slot in range(begin, end):
            while out[slot] < 0 and at < work.home_offsets[p + 1]:
                empty = True
                for other in range(begin, end):
                    if out[other] == work.home[at]:
                        empty = False
                if empty:
                    out[slot] = work.home[at]
                at += 1
    return out


@part
def _more(home: Brokers, slot: int, b: int, t: int) -> int:
    """1 if the slot must be copied to go from b to t, and need not be to stay; -1 the other way round; else 0."""
    return (1 if home[slot] != t else 0) - (1 if home[slot] != b else 0)


@part
def _load(work: Work, slot: int) -> float:
    p = work.row[slot]
    load: float = work.disk[p] + work.into[p]
    return load


@part
def _lightest(work: Work, random: npt.NDArray[np.uint64], of: Brokers, count: int) -> int:
    """The lightest of four slots among the first `count` of a list; 0 = of all slots."""
    best = -1
    for _ in range(4):
        slot = of[below(random, count)] if count > 0 else below(random, len(of))
        if best < 0 or _load(work, slot) < _load(work, best):
            best = slot
    return best


@part
def _hold(work: Work, state: State, home: Brokers, slot: int, t: int) -> None:
    """Nothing; as `hold`, with homes by slot."""
    shift(work, state, slot, t)
    set_away(work, state, slot, home[slot] != t)


@compiled
def anneal_holding(
    work: Work,
    limits: Limits,
    prices: Prices,
    state: State,
    targets: Brokers,
    light: Brokers,
    pinned: npt.NDArray[np.bool_],
    mix: Floats,
    proposals: int,
    warm: float,
    cold: float,
    random: npt.NDArray[np.uint64],
) -> int:
    """How many proposals were taken. The sums of leading are not kept: `recount` afterwards.

    targets: int32, brokers that may receive.   light: int32, slots of small replicas, which fill brokers that one large
    replica fills in bytes.   pinned: bool (r), slots that stay.   mix: float64 (KINDS), the rising shares of the kinds
    of proposals, the last 1.   warm, cold: temperatures at begin and end, in units of cost, falling geometrically;
    0 = only what lowers the cost.
    """
    n, slots, takeover_brokers = len(work.rack), len(state.slots), len(targets)
    hot, due = np.empty(n, np.int32), np.empty(n)
    home = homes(work, state)
    hots = taken = 0
    temperature = warm
    fall = np.exp(np.log(cold / warm) * LOOK / proposals) if warm > 0.0 else 1.0
    for step in range(proposals):
        if step % LOOK == 0:
            hots = _hot(limits, prices, state, due, hot)
            if step:
                temperature *= fall
            if hots == 0 and state.copies[0] == 0 and temperature == 0.0:
                break
        bound = -temperature * np.log(unit(random)) if temperature > 0.0 else -1e-15
        u = unit(random)
        one, two, t = -1, -1, -1
        if u < mix[HOT]:
            if hots == 0:
                continue
            b = hot[below(random, hots)]
            t = targets[below(random, takeover_brokers)]
            if state.replicas[b] < limits.replicas_low[b] and work.receives[b]:
                b, t = t, b
            if state.replicas[b] == 0:
                continue
            one = state.held[b, below(random, state.replicas[b])]
        elif u < mix[ANY]:
            one = below(random, slots)
            t = targets[below(random, takeover_brokers)]
        elif u >= mix[ELSEWHERE]:
            if hots == 0:
                continue
            # The worse of two hot brokers, the larger of two replicas there, a light one elsewhere.
            b, other = hot[below(random, hots)], hot[below(random, hots)]
            if due[other] > due[b]:
                b = other
            if state.replicas[b] == 0 or not work.receives[b]:
                continue
            one = state.held[b, below(random, state.replicas[b])]
            other = state.held[b, below(random, state.replicas[b])]
            if _load(work, other) > _load(work, one):
                one = other
            # What is copied anyway goes elsewhere for nothing more.
            kind = unit(random)
            if kind < 0.4 and state.copies[0] > 0:
                two = _lightest(work, random, state.away, state.copies[0])
            elif kind < 0.7 and len(light) > 0:
                two = light[below(random, len(light))]
            else:
                two = _lightest(work, random, state.place, 0)
            t = state.slots[two]
        else:
            if state.copies[0] == 0:
                continue
            one = state.away[below(random, state.copies[0])]
            if u < mix[EXCHANGE] and u >= mix[HOME]:
                two = state.away[below(random, state.copies[0])]
                t = state.slots[two]
            elif u >= mix[PUSH]:
                t = targets[below(random, takeover_brokers)]
            else:
                t = home[one]
                if t < 0 or not work.receives[t]:
                    continue
                if u >= mix[EXCHANGE]:
                    if state.replicas[t] == 0:
                        continue
                    two = state.held[t, below(random, state.replicas[t])]
        b = state.slots[one]
        p = work.row[one]
        if b == t or pinned[one] or not work.free[p]:
            continue
        d, i, count = work.disk[p], work.into[p], 1
        moves = _more(home, one, b, t)
        copied = moves * d
        if two >= 0:
            q = work.row[two]
            if q == p or pinned[two] or not work.free[q] or not work.receives[b] or not work.receives[t]:
                continue
            d, i, count = d - work.disk[q], i - work.into[q], 0
            more = _more(home, two, t, b)
            moves += more
            copied += more * work.disk[q]
        at_b = cost_of_holding(limits, prices, b, state.replicas[b] - count, state.disk[b] - d, state.into[b] - i)
        at_t = cost_of_holding(limits, prices, t, state.replicas[t] + count, state.disk[t] + d, state.into[t] + i)
        if prices.disk * copied + prices.move * moves + at_b + at_t - due[b] - due[t] > bound:
            continue
        if not within(limits, state, copied, moves):
            continue
        if not fits(work, state, one, t) or state.replicas[t] >= state.held.shape[1]:
            continue
        if two >= 0 and not fits(work, state, two, b):
            continue
        _hold(work, state, home, one, t)
        if two >= 0:
            _hold(work, state, home, two, b)
        due[b], due[t] = at_b, at_t
        taken += 1
    return taken
