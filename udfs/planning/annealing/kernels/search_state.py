"""What a search over replica lists keeps: loads of brokers, takeovers of pairs, and what a broker's excess costs.

Loads are in units of the mean of brokers that may hold replicas, so that 1.0 is the mean; counts are counts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled, part

Floats = npt.NDArray[np.float64]


class Work(NamedTuple):
    """What does not change. p partitions, r slots (a slot is a place in a replica list), n brokers.

    offsets: int64 (p + 1), row: int32 (r), the slots.   home_offsets: int64 (p + 1), home: int32, lists as they are.
    disk, into, out: float64 (p), of one replica, and out of its leader.   rack: int32 (n).   rack_cap: int32 (p).
    receives, leads: bool (n).   free: bool (p), whether it may change.
    """

    offsets: npt.NDArray[np.int64]
    row: npt.NDArray[np.int32]
    home_offsets: npt.NDArray[np.int64]
    home: npt.NDArray[np.int32]
    disk: Floats
    into: Floats
    out: Floats
    rack: npt.NDArray[np.int32]
    rack_cap: npt.NDArray[np.int32]
    receives: npt.NDArray[np.bool_]
    leads: npt.NDArray[np.bool_]
    free: npt.NDArray[np.bool_]


class Limits(NamedTuple):
    """What brokers should keep to: float64 (n) each, replicas and leaders both ways.

    survivor_leaders, survivor_out: of any broker after the failure of broker f, counts and units.
    copied, moves: the budget of the whole, in units and replicas.
    """

    replicas_low: Floats
    replicas_high: Floats
    leaders_low: Floats
    leaders_high: Floats
    disk: Floats
    into: Floats
    out: Floats
    survivor_leaders: Floats
    survivor_out: Floats
    copied: float
    moves: float


class Prices(NamedTuple):
    """What things cost. disk: of a unit copied; move: of a replica copied; leader, successor: of a change of either.

    The others: of a unit, or of one, beyond the limit of that name; over_disk and over_into float64 (n), by broker.
    """

    disk: float
    move: float
    leader: float
    successor: float
    over_replicas: float
    over_leaders: float
    over_disk: Floats
    over_into: Floats
    over_out: float
    over_survivor_leaders: float
    over_survivor_out: float


class State(NamedTuple):
    """What changes. slots: int32 (r), the broker of each.

    replicas, leaders: int64 (n); disk, into, out: float64 (n).
    taken: int32 (n, n), taken_out: float64 (n, n): what broker [b] takes over when broker [, f] fails.
    worst, worst_out: float64 (n): the most that a failure gives b, less that failure's limit; at: int32 (n, 2), whose.
    held: int32 (n, most), slots of each broker; place: int32 (r), where a slot stands in it.
    away: int32 (r), slots that are not at home, away_at: int32 (r), where a slot stands there or -1.
    copies: int64 (1), how many are away.   copied: float64 (1), units of disk that are away.
    """

    slots: npt.NDArray[np.int32]
    replicas: npt.NDArray[np.int64]
    leaders: npt.NDArray[np.int64]
    disk: Floats
    into: Floats
    out: Floats
    taken: npt.NDArray[np.int32]
    taken_out: Floats
    worst: Floats
    worst_out: Floats
    at: npt.NDArray[np.int32]
    held: npt.NDArray[np.int32]
    place: npt.NDArray[np.int32]
    away: npt.NDArray[np.int32]
    away_at: npt.NDArray[np.int32]
    copies: npt.NDArray[np.int64]
    copied: Floats


def new_state(work: Work, limits: Limits, slots: npt.NDArray[np.int32]) -> State:
    """The state of these slots (copied)."""
    n, r = len(work.rack), len(slots)
    room = int(max(np.bincount(slots, minlength=n).max(initial=0), limits.replicas_high.max(initial=0)) * 1.5) + 16
    state = State(
        slots.astype(np.int32, copy=True),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
        np.zeros((n, n), np.int32),
        np.zeros((n, n)),
        np.zeros(n),
        np.zeros(n),
        np.zeros((n, 2), np.int32),
        np.zeros((n, min(room, max(r, 1))), np.int32),
        np.zeros(r, np.int32),
        np.zeros(r, np.int32),
        np.full(r, -1, np.int32),
        np.zeros(1, np.int64),
        np.zeros(1),
    )
    recount(work, limits, state)
    return state


@part
def at_home(work: Work, p: int, broker: int) -> bool:
    """Whether the broker holds the partition as it is."""
    for i in range(work.home_offsets[p], work.home_offsets[p + 1]):  # noqa: SIM110 (any() is slower here)
        if work.home[i] == broker:
            return True
    return False


@compiled
def recount(work: Work, limits: Limits, state: State) -> None:
    """Nothing; all sums are made anew of the slots."""
    n = len(work.rack)
    state.replicas[:] = 0
    state.leaders[:] = 0
    state.disk[:] = 0.0
    state.into[:] = 0.0
    state.out[:] = 0.0
    state.taken[:] = 0
    state.taken_out[:] = 0.0
    state.copies[0] = 0
    state.copied[0] = 0.0
    state.away_at[:] = -1
    for p in range(len(work.disk)):
        begin, end = work.offsets[p], work.offsets[p + 1]
        for slot in range(begin, end):
            b = state.slots[slot]
            state.held[b, state.replicas[b]] = slot
            state.place[slot] = state.replicas[b]
            state.replicas[b] += 1
            state.disk[b] += work.disk[p]
            state.into[b] += work.into[p]
            set_away(work, state, slot, not at_home(work, p, b))
        if end > begin:
            leader = state.slots[begin]
            state.leaders[leader] += 1
            state.out[leader] += work.out[p]
            if end > begin + 1:
                state.taken[state.slots[begin + 1], leader] += 1
                state.taken_out[state.slots[begin + 1], leader] += work.out[p]
    for b in range(n):
        _look(limits, state, b)
        _look_out(limits, state, b)


@part
def _look(limits: Limits, state: State, b: int) -> None:
    most, at = -1e300, 0
    for f in range(len(state.worst)):
        value = state.taken[b, f] - limits.survivor_leaders[f]
        if value > most:
            most, at = value, f
    state.worst[b] = most
    state.at[b, 0] = at


@part
def _look_out(limits: Limits, state: State, b: int) -> None:
    most, at = -1e300, 0
    for f in range(len(state.worst)):
        value = state.taken_out[b, f] - limits.survivor_out[f]
        if value > most:
            most, at = value, f
    state.worst_out[b] = most
    state.at[b, 1] = at


@part
def lead(work: Work, limits: Limits, state: State, p: int, sign: int) -> None:
    """Nothing; the leader of p and its successor count for p (sign 1), or no longer (-1)."""
    begin, end = work.offsets[p], work.offsets[p + 1]
    leader = state.slots[begin]
    out = sign * work.out[p]
    state.leaders[leader] += sign
    state.out[leader] += out
    if end - begin < 2:
        return
    successor = state.slots[begin + 1]
    state.taken[successor, leader] += sign
    state.taken_out[successor, leader] += out
    if sign > 0:
        value = state.taken[successor, leader] - limits.survivor_leaders[leader]
        if value > state.worst[successor]:
            state.worst[successor] = value
            state.at[successor, 0] = leader
        value_out = state.taken_out[successor, leader] - limits.survivor_out[leader]
        if value_out > state.worst_out[successor]:
            state.worst_out[successor] = value_out
            state.at[successor, 1] = leader
        elif state.at[successor, 1] == leader:
            state.worst_out[successor] = value_out
    else:
        if state.at[successor, 0] == leader:
            _look(limits, state, successor)
        if state.at[successor, 1] == leader:
            _look_out(limits, state, successor)


@part
def shift(work: Work, state: State, slot: int, t: int) -> None:
    """Nothing; the slot's broker is t from now on, in what brokers hold. Who is away is the caller's to say."""
    p, b = work.row[slot], state.slots[slot]
    last = state.held[b, state.replicas[b] - 1]
    state.held[b, state.place[slot]] = last
    state.place[last] = state.place[slot]
    state.replicas[b] -= 1
    state.held[t, state.replicas[t]] = slot
    state.place[slot] = state.replicas[t]
    state.replicas[t] += 1
    state.disk[b] -= work.disk[p]
    state.disk[t] += work.disk[p]
    state.into[b] -= work.into[p]
    state.into[t] += work.into[p]
    state.slots[slot] = t


@part
def hold(work: Work, state: State, slot: int, t: int) -> None:
    """Nothing; the slot's broker is t from now on, in all sums but those of leading."""
    shift(work, state, slot, t)
    set_away(work, state, slot, not at_home(work, work.row[slot], t))


@part
def relocate(work: Work, limits: Limits, state: State, slot: int, t: int) -> None:
    """Nothing; the slot's broker is t, in all sums."""
    p = work.row[slot]
    roles = slot - work.offsets[p] < 2
    if roles:
        lead(work, limits, state, p, -1)
    hold(work, state, slot, t)
    if roles:
        lead(work, limits, state, p, 1)


@part
def set_away(work: Work, state: State, slot: int, away: bool) -> None:
    """Nothing; the slot is listed among those that are not at home, or is not."""
    listed = state.away_at[slot]
    if listed >= 0 and not away:
        state.copied[0] -= work.disk[work.row[slot]]
        state.copies[0] -= 1
        other = state.away[state.copies[0]]
        state.away[listed] = other
        state.away_at[other] = listed
        state.away_at[slot] = -1
    elif listed < 0 and away:
        state.copied[0] += work.disk[work.row[slot]]
        state.away[state.copies[0]] = slot
        state.away_at[slot] = state.copies[0]
        state.copies[0] += 1


@part
def over(value: float, high: float) -> float:
    """By how much the value is above."""
    excess: float = max(value - high, 0.0)
    return excess


@part
def within(limits: Limits, state: State, disk: float, moves: int) -> bool:
    """Whether the budget allows for so much more that is copied."""
    if disk > 0.0 and state.copied[0] + disk > limits.copied:
        return False
    return not (moves > 0 and state.copies[0] + moves > limits.moves)


@part
def cost_of_holding(limits: Limits, prices: Prices, b: int, replicas: int, disk: float, into: float) -> float:
    """What broker b's excess costs, with this much held."""
    count = over(replicas, limits.replicas_high[b]) + over(limits.replicas_low[b], replicas)
    cost: float = (
        prices.over_replicas * count
        + prices.over_disk[b] * over(disk, limits.disk[b])
        + prices.over_into[b] * over(into, limits.into[b])
    )
    return cost


@part
def cost_of_leading(limits: Limits, prices: Prices, state: State, b: int) -> float:
    """What broker b's excess costs in leaders, bytes out, and after the worst failure of another."""
    leaders = state.leaders[b]
    count = over(leaders, limits.leaders_high[b]) + over(limits.leaders_low[b], leaders)
    cost: float = (
        prices.over_leaders * count
        + prices.over_out * over(state.out[b], limits.out[b])
        + prices.over_survivor_leaders * over(leaders + state.worst[b], 0.0)
        + prices.over_survivor_out * over(state.out[b] + state.worst_out[b], 0.0)
    )
    return cost


@part
def cost_of_order(work: Work, prices: Prices, state: State, p: int) -> float:
    """What it costs that p's leader or successor is another than it is now."""
    begin, home = work.offsets[p], work.home_offsets[p]
    end, home_end = work.offsets[p + 1], work.home_offsets[p + 1]
    cost = 0.0
    if home < home_end and state.slots[begin] != work.home[home]:
        cost += prices.leader
    if begin + 1 < end and home + 1 < home_end and state.slots[begin + 1] != work.home[home + 1]:
        cost += prices.successor
    return cost
