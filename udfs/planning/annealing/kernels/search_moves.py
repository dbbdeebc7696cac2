"""Moves of a search over replica lists: what is legal, what a move costs, and the order of a list."""

from typing import NamedTuple

import numpy as np

from udfs.kernel_compiler import compiled, part
from udfs.planning.annealing.kernels import search_state
from udfs.planning.annealing.kernels.search_state import (
    BrokerLimits,
    ClusterArrays,
    CostWeights,
    Search,
    SearchState,
    holds_initially,
)
from udfs.planning.kernels.array_types import Floats, Int32s, RandomState

NO_MOVE = (-1, -1, -1)
COOLING_STEPS = 512  # moves proposed at one temperature, and between two searches for brokers beyond a limit


class Schedule(NamedTuple):
    """Annealing schedule: how many moves are proposed, and the first and last temperature, in units of cost."""

    proposals: int
    start: float
    end: float


def seed_random(seed: int) -> RandomState:
    """Create a xorshift64* generator (Vigna, An experimental exploration of Marsaglia's xorshift generators, 2016)."""
    return np.array([(seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) & 0xFFFFFFFFFFFFFFFF | 1], dtype=np.uint64)


@compiled
def draw_bits(random: RandomState) -> np.uint64:
    """Draw 64 bits."""
    x = random[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    random[0] = x
    bits: np.uint64 = x * np.uint64(2685821657736338717)
    return bits


@part
def draw_below(random: RandomState, n: int) -> int:
    """Draw a number from 0 to n - 1."""
    # int of an int64: of a uint64, arithmetic with it would be in floats.
    return int(np.int64(((draw_bits(random) >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32)))


@part
def draw_unit(random: RandomState) -> float:
    """Draw a number above 0 and below 1."""
    return (np.float64(draw_bits(random) >> np.uint64(11)) + 1.0) / 9007199254740994.0


@part
def cooling_factor(schedule: Schedule, steps: int) -> float:
    """Return what the temperature is multiplied by after this many proposals: it falls geometrically."""
    factor: float = np.exp(np.log(schedule.end / schedule.start) * steps / schedule.proposals)
    return factor


@part
def draw_bound(random: RandomState, temperature: float) -> float:
    """Draw the rise in cost up to which the next move is accepted (Metropolis criterion)."""
    bound: float = -temperature * np.log(draw_unit(random))
    return bound


@part
def can_hold(cluster: ClusterArrays, state: SearchState, slot: int, target: int) -> bool:
    """Tell whether a broker can take this slot: it holds no replica of the partition, and its rack has room."""
    p = cluster.row[slot]
    rack, same = cluster.rack[target], 1
    for i in range(cluster.offsets[p], cluster.offsets[p + 1]):
        b = state.slots[i]
        if b == target:
            return False
        if i != slot and cluster.rack[b] == rack:
            same += 1
    room: bool = same <= cluster.rack_limit[p]
    return room


@part
def copy_cost(cluster: ClusterArrays, weights: CostWeights, p: int, b: int) -> float:
    """Return what it costs that broker b holds p."""
    return 0.0 if holds_initially(cluster, p, b) else weights.copied_disk * cluster.disk[p] + weights.copied_replica


@part
def count_more_copies(cluster: ClusterArrays, p: int, b: int, target: int) -> int:
    """Return by how much the copied replicas grow when p goes from b to `target`: 1, 0 or -1."""
    return (0 if holds_initially(cluster, p, target) else 1) - (0 if holds_initially(cluster, p, b) else 1)


@part
def add_distinct(brokers: Int32s, count: int, broker: int) -> int:
    """Add the broker to the first `count` ones if it is new. Return the new count."""
    for j in range(count):
        if brokers[j] == broker:
            return count
    brokers[count] = broker
    return count + 1


@part
def add_leader_and_successor(cluster: ClusterArrays, state: SearchState, p: int, brokers: Int32s, count: int) -> int:
    """Add leader and successor of p to the first `count` brokers. Return the new count."""
    begin = cluster.offsets[p]
    for i in range(begin, min(begin + 2, cluster.offsets[p + 1])):
        count = add_distinct(brokers, count, state.slots[i])
    return count


@part
def sum_touched_costs(search: Search, count: int) -> float:
    """Return what the leadership of the first `count` touched brokers costs now."""
    total = 0.0
    for j in range(count):
        total += search_state.leadership_cost(search.limits, search.weights, search.state, search.touched[j])
    return total


@part
def update_touched_costs(search: Search, count: int) -> None:
    """Update `cost` of the first `count` touched brokers."""
    for j in range(count):
        b = search.touched[j]
        search.cost[b] = search_state.leadership_cost(search.limits, search.weights, search.state, b)


@part
def find_hot_leaders(search: Search) -> int:
    """Fill `cost` with the leadership's, and `hot` with brokers whose leadership costs. Return how many are hot."""
    count = 0
    for b in range(len(search.cost)):
        search.cost[b] = search_state.leadership_cost(search.limits, search.weights, search.state, b)
        if search.cost[b] > 1e-12:
            search.hot[count] = b
            count += 1
    return count


@part
def find_hot_holders(search: Search, cost: Floats, hot: Int32s) -> int:
    """Fill `cost` with the replicas', and `hot` with brokers that hold too much or too little. Return how many."""
    count = 0
    for b in range(len(hot)):
        cost[b] = search_state.replica_cost(search, b, 0, 0.0, 0.0)
        if cost[b] > 1e-12:
            hot[count] = b
            count += 1
    return count


@part
def exchange_slots(state: SearchState, one: int, two: int) -> None:
    """Update what is kept by slot after two slots of one partition have exchanged their brokers."""
    b, t = state.slots[one], state.slots[two]
    state.broker_slots[b, state.slot_index[two]], state.broker_slots[t, state.slot_index[one]] = one, two
    state.slot_index[one], state.slot_index[two] = state.slot_index[two], state.slot_index[one]
    x, y = state.copied_index[one], state.copied_index[two]
    state.copied_index[one], state.copied_index[two] = y, x
    if x >= 0:
        state.copied_slots[x] = two
    if y >= 0:
        state.copied_slots[y] = one


@part
def try_exchange(search: Search, p: int, bound: float) -> None:
    """Exchange leader or successor of p with a later random replica if the cost rises by no more than `bound`."""
    cluster, limits, weights, state = search.cluster, search.limits, search.weights, search.state
    begin, size = cluster.offsets[p], cluster.offsets[p + 1] - cluster.offsets[p]
    one = begin + (draw_below(search.random, 2) if size > 2 else 0)
    two = one + 1 + draw_below(search.random, begin + size - one - 1)
    b, t = state.slots[one], state.slots[two]
    if one == begin and not cluster.can_lead[t]:
        return
    count = add_distinct(search.touched, add_leader_and_successor(cluster, state, p, search.touched, 0), t)
    before = search_state.order_cost(cluster, weights, state, p)
    for j in range(count):
        before += search.cost[search.touched[j]]
    least = 0.0
    if one == begin:
        # A cheap lower bound first: leaders and bytes out alone, as if no takeover cost anything.
        least = weights.leader_change if state.slots[two] != cluster.initial[cluster.initial_offsets[p]] else 0.0
        least += _leader_cost(limits, weights, t, state.leaders[t] + 1, state.bytes_out[t] + cluster.bytes_out[p])
        least += _leader_cost(limits, weights, b, state.leaders[b] - 1, state.bytes_out[b] - cluster.bytes_out[p])
    if least - before > bound:
        return
    search_state.count_leadership(cluster, limits, state, p, -1)
    state.slots[one], state.slots[two] = t, b
    search_state.count_leadership(cluster, limits, state, p, 1)
    if sum_touched_costs(search, count) + search_state.order_cost(cluster, weights, state, p) - before <= bound:
        exchange_slots(state, one, two)
        update_touched_costs(search, count)
        return
    search_state.count_leadership(cluster, limits, state, p, -1)
    state.slots[one], state.slots[two] = b, t
    search_state.count_leadership(cluster, limits, state, p, 1)


@part
def _leader_cost(limits: BrokerLimits, weights: CostWeights, b: int, leaders: int, bytes_out: float) -> float:
    count = max(leaders - limits.max_leaders[b], 0.0) + max(limits.min_leaders[b] - leaders, 0.0)
    cost: float = weights.excess_leaders * count + weights.excess_bytes_out * max(bytes_out - limits.bytes_out[b], 0.0)
    return cost
