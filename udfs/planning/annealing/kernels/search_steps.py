"""Steps of a search over replica lists: what is legal, what a step costs, and doing it if that is not too much."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled, part
from udfs.planning.annealing.kernels.search_state import (
    Limits,
    Prices,
    State,
    Work,
    at_home,
    cost_of_leading,
    cost_of_order,
    lead,
)

Random = npt.NDArray[np.uint64]
Brokers = npt.NDArray[np.int32]


def new_random(seed: int) -> Random:
    """A generator of its own for this seed: xorshift64*, as in Vigna, An experimental exploration (2016)."""
    return np.array([(seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) & 0xFFFFFFFFFFFFFFFF | 1], dtype=np.uint64)


@compiled
def draw(random: Random) -> np.uint64:
    """The next 64 bits."""
    x = random[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    random[0] = x
    y: np.uint64 = x * np.uint64(2685821657736338717)
    return y


@part
def below(random: Random, n: int) -> int:
    """A number from 0 to n - 1."""
    # int of an int64: of a uint64, arithmetic with it would be in floats.
    return int(np.int64(((draw(random) >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32)))


@part
def unit(random: Random) -> float:
    """A number above 0 and below 1."""
    return (np.float64(draw(random) >> np.uint64(11)) + 1.0) / 9007199254740994.0


@part
def fits(work: Work, state: State, slot: int, t: int) -> bool:
    """Whether broker t may hold this slot's partition in its place: it holds none yet, and its rack has room."""
    p = work.row[slot]
    rack, same = work.rack[t], 1
    for i in range(work.offsets[p], work.offsets[p + 1]):
        b = state.slots[i]
        if b == t:
            return False
        if i != slot and work.rack[b] == rack:
            same += 1
    room: bool = same <= work.rack_cap[p]
    return room


@part
def copy_cost(work: Work, prices: Prices, p: int, b: int) -> float:
    """What it costs that broker b holds p."""
    return 0.0 if at_home(work, p, b) else prices.disk * work.disk[p] + prices.move


@part
def more_copies(work: Work, p: int, b: int, t: int) -> int:
    """1 if p must be copied to be on t, but not to be on b; -1 the other way round; else 0."""
    return (0 if at_home(work, p, t) else 1) - (0 if at_home(work, p, b) else 1)


@part
def note(found: Brokers, count: int, broker: int) -> int:
    """How many brokers are found, with this one."""
    for j in range(count):
        if found[j] == broker:
            return count
    found[count] = broker
    return count + 1


@part
def note_roles(work: Work, state: State, p: int, found: Brokers, count: int) -> int:
    """How many brokers are found, with leader and successor of p."""
    begin = work.offsets[p]
    for i in range(begin, min(begin + 2, work.offsets[p + 1])):
        count = note(found, count, state.slots[i])
    return count


@part
def leading(limits: Limits, prices: Prices, state: State, found: Brokers, count: int) -> float:
    """What the leading of these brokers costs."""
    total = 0.0
    for j in range(count):
        total += cost_of_leading(limits, prices, state, found[j])
    return total


@part
def swap_slots(state: State, one: int, two: int) -> None:
    """Nothing; two slots of one partition have changed brokers, and what is kept of slots follows."""
    b, t = state.slots[one], state.slots[two]  # as they are now
    state.held[b, state.place[two]], state.held[t, state.place[one]] = one, two
    state.place[one], state.place[two] = state.place[two], state.place[one]
    x, y = state.away_at[one], state.away_at[two]
    state.away_at[one], state.away_at[two] = y, x
    if x >= 0:
        state.away[x] = two
    if y >= 0:
        state.away[y] = one


@part
def reorder(
    work: Work,
    limits: Limits,
    prices: Prices,
    state: State,
    due: npt.NDArray[np.float64],
    one: int,
    two: int,
    bound: float,
    found: Brokers,
) -> float:
    """By how much the cost rose by letting slots one < two of a partition change places; nan = not done, beyond bound.

    due: float64 (n), cost_of_leading of each broker, kept up to date.
    """
    p = work.row[one]
    begin = work.offsets[p]
    b, t = state.slots[one], state.slots[two]
    if one == begin and not work.leads[t]:
        return np.nan
    count = note(found, note_roles(work, state, p, found, 0), t)
    order = cost_of_order(work, prices, state, p)
    before = order
    for j in range(count):
        before += due[found[j]]
    if one == begin:
        # Cheaply first: leaders and bytes out alone, as if no survivor had cost or would cost anything.
        least = prices.leader if state.slots[two] != work.home[work.home_offsets[p]] else 0.0
        least += _led(limits, prices, t, state.leaders[t] + 1, state.out[t] + work.out[p])
        least += _led(limits, prices, b, state.leaders[b] - 1, state.out[b] - work.out[p])
        if least - before > bound:
            return np.nan
    elif -before > bound:
        return np.nan
    lead(work, limits, state, p, -1)
    state.slots[one], state.slots[two] = t, b
    lead(work, limits, state, p, 1)
    rise = leading(limits, prices, state, found, count) + cost_of_order(work, prices, state, p) - before
    if rise <= bound:
        swap_slots(state, one, two)
        for j in range(count):
            due[found[j]] = cost_of_leading(limits, prices, state, found[j])
        return rise
    lead(work, limits, state, p, -1)
    state.slots[one], state.slots[two] = b, t
    lead(work, limits, state, p, 1)
    return np.nan


@part
def _led(limits: Limits, prices: Prices, b: int, leaders: int, out: float) -> float:
    cost = 0.0
    if leaders > limits.leaders_high[b]:
        cost += prices.over_leaders * (leaders - limits.leaders_high[b])
    elif leaders < limits.leaders_low[b]:
        cost += prices.over_leaders * (limits.leaders_low[b] - leaders)
    if out > limits.out[b]:
        cost += prices.over_out * (out - limits.out[b])
    return cost
