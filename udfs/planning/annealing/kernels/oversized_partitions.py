"""Annealing of partitions so large that one alone can fill what a broker may take over.

Everybody else's leading is a liquid that flows to where there is room: each broker can be given as much as neither its
own limit forbids, nor the worst takeover of an oversized partition. What all brokers have room for must suffice for
the liquid.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled, part
from udfs.planning.annealing.kernels.search_state import (
    Floats,
    Limits,
    Prices,
    State,
    Work,
    at_home,
    cost_of_holding,
    hold,
    lead,
    within,
)
from udfs.planning.annealing.kernels.search_steps import (
    Brokers,
    below,
    copy_cost,
    fits,
    note,
    note_roles,
    swap_slots,
    unit,
)

_MOST = 0.9  # of a broker's disk or bytes in that oversized partitions may take
_ALONE = 4.0  # times what one broker has too much, against what all lack together: no other can make way for it
_OWN = 2.5  # times the price of bytes out, what is above costs


@part
def room_of(limits: Limits, state: State, own: Floats, b: int) -> float:
    """The bytes out that broker b has room for, beside what it leads of the oversized partitions; below 0 if it leads
    too much.

    Whose disk or bytes in oversized partitions fill has hardly any others to lead: no more than twice its share that
    is left.
    """
    room: float = min(limits.out[b], -state.worst_out[b]) - state.out[b]
    left: float = 2.0 * max(0.0, 1.0 - max(own[0, b] / limits.disk[b], own[1, b] / limits.into[b]))
    return min(room, left)


@part
def _cost(limits: Limits, prices: Prices, state: State, own: Floats, b: int) -> float:
    """What broker b costs by itself: too much held, too much led or taken over of the oversized partitions alone."""
    room = room_of(limits, state, own, b)
    cost = cost_of_holding(limits, prices, b, state.replicas[b], state.disk[b], state.into[b])
    return cost - prices.over_out * room if room < 0.0 else cost


@part
def _own(limits: Limits, prices: Prices, own: Floats, b: int) -> float:
    """What it costs that b's oversized partitions alone take more than most of its disk or bytes in: others cannot
    make way."""
    excess: float = max(0.0, own[0, b] - _MOST * limits.disk[b]) + max(0.0, own[1, b] - _MOST * limits.into[b])
    return _OWN * prices.over_out * excess


@part
def _shift(work: Work, own: Floats, p: int, b: int, t: int) -> None:
    own[0, b] -= work.disk[p]
    own[0, t] += work.disk[p]
    own[1, b] -= work.into[p]
    own[1, t] += work.into[p]


@part
def _short(prices: Prices, room: float, liquid: float) -> float:
    return prices.over_survivor_out * (liquid - room) if room < liquid else 0.0


@compiled
def anneal_oversized(
    work: Work,
    limits: Limits,
    prices: Prices,
    state: State,
    oversized: npt.NDArray[np.int64],
    targets: Brokers,
    liquid: float,
    proposals: int,
    warm: float,
    cold: float,
    random: npt.NDArray[np.uint64],
    goes: float,
) -> float:
    """By how much the brokers' room falls short of the liquid in the end, in units of bytes out.

    What one broker alone leads too much counts more.

    work: with bytes out of oversized partitions alone.   oversized partitions: int64, their rows.   targets: int32,
    brokers that may receive.
    liquid: bytes out of all others.   warm, cold: as in anneal_holding.   goes: share of proposals that would let a
    replica go elsewhere; the others change places in a list.
    """
    found = np.empty(10, np.int32)
    own = np.zeros((2, len(work.rack)))
    for p in oversized:
        for slot in range(work.offsets[p], work.offsets[p + 1]):
            own[0, state.slots[slot]] += work.disk[p]
            own[1, state.slots[slot]] += work.into[p]
    room = 0.0
    for b in targets:
        room += max(0.0, room_of(limits, state, own, b))
    temperature = warm
    fall = np.exp(np.log(cold / warm) / proposals)
    for _ in range(proposals):
        temperature *= fall
        p = oversized[below(random, len(oversized))]
        begin, end = work.offsets[p], work.offsets[p + 1]
        one, two, t = begin + below(random, end - begin), -1, -1
        if unit(random) >= goes:
            if end - begin < 2:
                continue
            two = begin + below(random, end - begin)
            if two == one or not work.leads[state.slots[two if one == begin else one]]:
                continue
            one, two = min(one, two), max(one, two)
            t = state.slots[two]
            if one == begin and not work.leads[t]:
                continue
        else:
            t = targets[below(random, len(targets))]
            home = work.home_offsets[p + 1] - work.home_offsets[p]
            if home and unit(random) < 0.3:
                t = work.home[work.home_offsets[p] + below(random, home)]
                if not work.receives[t]:
                    continue
            # What fits on no broker as it should be stays where it is.
            if work.disk[p] > limits.disk[t] or work.into[p] > limits.into[t]:
                continue
            if not at_home(work, p, t) and not within(limits, state, work.disk[p], 1):
                continue
            if not fits(work, state, one, t) or state.replicas[t] >= state.held.shape[1]:
                continue
        b = state.slots[one]
        count = note(found, note(found, note_roles(work, state, p, found, 0), b), t)
        before, had = _short(prices, room, liquid), 0.0
        for j in range(count):
            before += _cost(limits, prices, state, own, found[j])
            had += max(0.0, room_of(limits, state, own, found[j]))
        rise = 0.0
        lead(work, limits, state, p, -1)
        if two >= 0:
            state.slots[one], state.slots[two] = t, b
            swap_slots(state, one, two)
        else:
            rise = copy_cost(work, prices, p, t) - copy_cost(work, prices, p, b)
            rise -= _own(limits, prices, own, b) + _own(limits, prices, own, t)
            _shift(work, own, p, b, t)
            rise += _own(limits, prices, own, b) + _own(limits, prices, own, t)
            hold(work, state, one, t)
        lead(work, limits, state, p, 1)
        has = 0.0
        for j in range(count):
            rise += _cost(limits, prices, state, own, found[j])
            has += max(0.0, room_of(limits, state, own, found[j]))
        rise += _short(prices, room + has - had, liquid) - before
        if rise <= -temperature * np.log(unit(random)):
            room += has - had
            continue
        lead(work, limits, state, p, -1)
        if two >= 0:
            state.slots[one], state.slots[two] = b, t
            swap_slots(state, one, two)
        else:
            _shift(work, own, p, t, b)
            hold(work, state, one, b)
        lead(work, limits, state, p, 1)
    room = 0.0
    worst = 0.0
    for b in targets:
        left = room_of(limits, state, own, b)
        room += max(0.0, left)
        worst = max(worst, -left)
    return max(_ALONE * worst, liquid - room)
