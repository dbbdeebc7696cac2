"""Fewer distinct replica sets: annealing of which brokers hold what is copied, with the balance as it is.

What goes elsewhere keeps its place in the list, but for successors where that helps the limits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled, copying_part, part
from udfs.planning.annealing.kernels.search_state import (
    Floats,
    Limits,
    State,
    Work,
    at_home,
    lead,
    recount,
    relocate,
    within,
)
from udfs.planning.annealing.kernels.search_steps import Brokers, Random, below, fits, more_copies, swap_slots, unit
from udfs.planning.replicas.kernels.copyset_counts import Sets, count_sets, once_more, rename, times_of

_SLACK = 1e-9  # by how much a sum may be beyond its limit: the last bits of sums depend on their order
_PARTNERS = 48  # replicas looked at for an exchange
_THERE = 0.95  # how often only sets are looked for that there are


class Least(NamedTuple):
    """What each broker should keep: float64 (n), units of disk, bytes in, and bytes out."""

    disk: Floats
    into: Floats
    out: Floats


class Copied(NamedTuple):
    """What is copied to each broker. slots: int32 (n, most); counts: int64 (n); place: int32 (r), -1 = not copied."""

    slots: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int64]
    place: npt.NDArray[np.int32]


def new_copied(state: State) -> Copied:
    """The copied slots of this state, by broker."""
    copied = Copied(
        np.zeros_like(state.held), np.zeros(len(state.held), np.int64), np.full(len(state.slots), -1, np.int32)
    )
    for slot in np.sort(state.away[: state.copies[0]]).tolist():
        _list(copied, slot, int(state.slots[slot]), True)
    return copied


@compiled
def _list(copied: Copied, slot: int, b: int, listed: bool) -> None:
    """Nothing; the slot is listed at broker b, or no longer."""
    if listed:
        copied.slots[b, copied.counts[b]] = slot
        copied.place[slot] = copied.counts[b]
        copied.counts[b] += 1
    else:
        copied.counts[b] -= 1
        last = copied.slots[b, copied.counts[b]]
        copied.slots[b, copied.place[slot]] = last
        copied.place[last] = copied.place[slot]
        copied.place[slot] = -1


@part
def _list_all(work: Work, state: State, copied: Copied, p: int, listed: bool) -> None:
    """Nothing; the partition's copied slots are listed, or none of its slots are."""
    for slot in range(work.offsets[p], work.offsets[p + 1]):
        if listed and state.away_at[slot] >= 0:
            _list(copied, slot, state.slots[slot], True)
        elif not listed and copied.place[slot] >= 0:
            _list(copied, slot, state.slots[slot], False)


@part
def _holds(limits: Limits, least: Least, b: int, replicas: int, disk: float, into: float) -> bool:
    """Whether broker b may hold this much."""
    count: bool = limits.replicas_low[b] <= replicas <= limits.replicas_high[b]
    return (
        count
        and least.disk[b] - _SLACK <= disk <= limits.disk[b] + _SLACK
        and least.into[b] - _SLACK <= into <= limits.into[b] + _SLACK
    )


@part
def _leads(limits: Limits, least: Least, state: State, b: int) -> bool:
    """Whether broker b leads, and would take over, no more and no less than it may."""
    leaders = state.leaders[b]
    count: bool = limits.leaders_low[b] <= leaders <= limits.leaders_high[b] and leaders + state.worst[b] <= _SLACK
    return (
        count
        and least.out[b] - _SLACK <= state.out[b] <= limits.out[b] + _SLACK
        and state.out[b] + state.worst_out[b] <= _SLACK
    )


@part
def _fit(work: Work, limits: Limits, least: Least, state: State, one: int, two: int, t: int) -> bool:
    """Whether slot `one` can be held by broker t, and slot `two` by its broker instead if not -1, as loads go."""
    p, b = work.row[one], state.slots[one]
    d, i, count = work.disk[p], work.into[p], 1
    if two >= 0:
        q = work.row[two]
        d, i, count = d - work.disk[q], i - work.into[q], 0
    fine: bool = _holds(limits, least, b, state.replicas[b] - count, state.disk[b] - d, state.into[b] - i)
    return fine and _holds(limits, least, t, state.replicas[t] + count, state.disk[t] + d, state.into[t] + i)


@part
def _other_successor(work: Work, limits: Limits, state: State, p: int) -> bool:
    """Whether p has a third replica, which then is its successor, and the successor its third."""
    one = work.offsets[p] + 1
    if one + 1 >= work.offsets[p + 1]:
        return False
    lead(work, limits, state, p, -1)
    state.slots[one], state.slots[one + 1] = state.slots[one + 1], state.slots[one]
    swap_slots(state, one, one + 1)
    lead(work, limits, state, p, 1)
    return True


@part
def _all_lead(work: Work, limits: Limits, least: Least, state: State, p: int, q: int, b: int, t: int) -> bool:
    """Whether those brokers lead what they may that p and q going between b and t can have changed."""
    fine = _leads(limits, least, state, b) and _leads(limits, least, state, t)
    for slot in range(work.offsets[p], min(work.offsets[p] + 3, work.offsets[p + 1])):
        fine = fine and _leads(limits, least, state, state.slots[slot])
    for slot in range(work.offsets[q], min(work.offsets[q] + 3, work.offsets[q + 1])):
        fine = fine and _leads(limits, least, state, state.slots[slot])
    return fine


@part
def _apply(work: Work, limits: Limits, least: Least, state: State, copied: Copied, one: int, two: int, t: int) -> bool:
    """Whether slot `one` went to broker t - and slot `two` from there to its broker, if not -1 - within all limits.

    Where that only works with another successor, p or the other partition has another successor.
    """
    p, b = work.row[one], state.slots[one]
    q = work.row[two] if two >= 0 else p
    if not _fit(work, limits, least, state, one, two, t):
        return False
    _list_all(work, state, copied, p, False)
    _list_all(work, state, copied, q, False)
    relocate(work, limits, state, one, t)
    if two >= 0:
        relocate(work, limits, state, two, b)
    fine = _all_lead(work, limits, least, state, p, q, b, t)
    turn = 0
    while not fine and turn < 4:  # p's other successor; q's too; q's alone; as they were
        turn += 1
        if _other_successor(work, limits, state, p if turn % 2 == 1 else q) and turn < 4:
            fine = _all_lead(work, limits, least, state, p, q, b, t)
    if not fine:
        if two >= 0:
            relocate(work, limits, state, two, t)
        relocate(work, limits, state, one, b)
    _list_all(work, state, copied, p, True)
    if q != p:
        _list_all(work, state, copied, q, True)
    return fine


@copying_part
def _one(work: Work, state: State, sets: Sets, spare: bool, random: Random) -> int:
    """A slot that may go elsewhere, rather of a set that comes seldom; -1 = none found."""
    best, seldom = -1, 0
    for _ in range(3):
        if state.copies[0] == 0 or (spare and unit(random) < 0.3):
            slot = int(below(random, len(state.slots)))
        else:
            slot = int(state.away[below(random, state.copies[0])])
        p = work.row[slot]
        if not work.free[p]:
            continue
        times = times_of(sets, sets.of[p])
        if best < 0 or times < seldom:
            best, seldom = slot, times
    if best >= 0 and unit(random) < 0.3:  # another replica may be the one that is copied
        begin, end = work.offsets[work.row[best]], work.offsets[work.row[best] + 1]
        best = int(begin + below(random, end - begin))
    return best


@part
def _alone(limits: Limits, state: State, b: int, t: int) -> bool:
    """Whether broker b may have one replica less, and t one more."""
    fine: bool = state.replicas[b] - 1 >= limits.replicas_low[b] and state.replicas[t] + 1 <= limits.replicas_high[t]
    return fine


@copying_part
def _target(
    work: Work,
    limits: Limits,
    state: State,
    sets: Sets,
    copied: Copied,
    targets: Brokers,
    slot: int,
    spare: bool,
    random: Random,
) -> int:
    """A broker for the slot that makes its set one that is there, or any; -1 = none that it could go to, or change
    places with."""
    p, b = work.row[slot], state.slots[slot]
    rest = sets.of[p] - sets.key[b]
    any_of = spare or not at_home(work, p, b)
    there = unit(random) < _THERE
    best, seen = -1, 0
    count = len(targets) if any_of else work.home_offsets[p + 1] - work.home_offsets[p]
    for k in range(count):
        t = targets[k] if any_of else work.home[work.home_offsets[p] + k]
        if t == b or not work.receives[t] or not fits(work, state, slot, t):
            continue
        if not (spare or copied.counts[t] > 0 or _alone(limits, state, b, t) or at_home(work, p, t)):
            continue
        if there and times_of(sets, rest + sets.key[t]) == 0:
            continue
        seen += 1
        if below(random, seen) == 0:
            best = t
    return best


@copying_part
def _partner(
    work: Work,
    limits: Limits,
    least: Least,
    state: State,
    sets: Sets,
    copied: Copied,
    one: int,
    t: int,
    more: int,
    random: Random,
) -> tuple[int, float]:
    """(slot of broker t that best takes the place of slot `one`, by how much the cost then rises); -1 = none."""
    p, b = work.row[one], state.slots[one]
    best, lowest = -1, 0.0
    for _ in range(_PARTNERS):
        if copied.counts[t] > 0 and (more == 0 or unit(random) < 0.5):
            slot = int(copied.slots[t, below(random, copied.counts[t])])
        else:
            slot = int(state.held[t, below(random, state.replicas[t])])
        q = work.row[slot]
        if q == p or not work.free[q] or not fits(work, state, slot, b):
            continue
        again = more_copies(work, q, t, b)
        if not within(limits, state, more * work.disk[p] + again * work.disk[q], more + again):
            continue
        if not _fit(work, limits, least, state, one, slot, t):
            continue
        name = sets.of[q] - sets.key[t] + sets.key[b]
        rise = sets.dear[q] * (once_more(times_of(sets, name)) - once_more(times_of(sets, sets.of[q]) - 1))
        if best < 0 or rise < lowest:
            best, lowest = slot, rise
    return best, lowest


@compiled
def anneal_sets(
    work: Work,
    limits: Limits,
    least: Least,
    state: State,
    sets: Sets,
    copied: Copied,
    targets: Brokers,
    spare: bool,
    proposals: int,
    warm: float,
    cold: float,
    random: Random,
) -> int:
    """How many proposals were taken; the last fifth only such that do not raise the cost.

    targets: int32, brokers that may receive.   spare: whether more may be copied than is.   warm, cold: temperatures,
    falling geometrically; a set that comes once costs 1. Every state in between keeps to the limits.
    """
    temperature, taken = warm, 0
    fall = np.exp(np.log(cold / warm) / max(proposals, 1))
    for step in range(proposals):
        if state.copies[0] == 0 and not spare:
            break
        if sets.used[0] * 2 > len(sets.name):
            count_sets(sets)
        temperature *= fall
        bound = -temperature * np.log(unit(random)) if step * 5 < proposals * 4 else 1e-12
        one = _one(work, state, sets, spare, random)
        if one < 0:
            continue
        t = _target(work, limits, state, sets, copied, targets, one, spare, random)
        if t < 0:
            continue
        p, b = work.row[one], state.slots[one]
        more = more_copies(work, p, b, t)
        was = sets.of[p]
        alone = _alone(limits, state, b, t)
        rise = rename(sets, p, was - sets.key[b] + sets.key[t])
        two = -1
        if not alone or unit(random) < 0.5:
            if not work.receives[b] or state.replicas[t] == 0:
                rename(sets, p, was)
                continue
            two, also = _partner(work, limits, least, state, sets, copied, one, t, more, random)
            rise += also
        fine = two >= 0 or (alone and within(limits, state, more * work.disk[p], more))
        if fine and rise <= bound and _apply(work, limits, least, state, copied, one, two, t):
            taken += 1
            if two >= 0:
                q = work.row[two]
                rename(sets, q, sets.of[q] - sets.key[t] + sets.key[b])
        else:
            rename(sets, p, was)
    recount(work, limits, state)
    return taken
