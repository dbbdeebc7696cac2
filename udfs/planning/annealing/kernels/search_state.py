"""State of a search over replica lists: loads of brokers, takeovers between them, and what exceeding a limit costs.

A slot is a place in a replica list, copied if its broker holds no replica of the partition initially. Loads are in
units of their mean over the brokers that may hold replicas; counts are counts. n brokers, p partitions, r slots.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled, part
from udfs.planning.kernels.array_types import Flags, Floats, Int32s, Ints, RandomState


class ClusterArrays(NamedTuple):
    """What a search does not change."""

    offsets: Ints  # int64 (p + 1), the slots of each partition
    row: Int32s  # int32 (r), the partition of each slot
    initial_offsets: Ints  # int64 (p + 1), into `initial`
    initial: Int32s  # int32, the initial replica lists. disk, bytes_in: float64 (p), load of one replica.
    disk: Floats
    bytes_in: Floats
    bytes_out: Floats  # float64 (p), load of the leader
    rack: Int32s  # int32 (n)
    rack_limit: Int32s  # int32 (p), the most replicas in one rack. can_receive, can_lead: bool (n).
    can_receive: Flags
    can_lead: Flags
    can_change: Flags  # bool (p)


class BrokerLimits(NamedTuple):
    """What brokers should keep to: float64 (n) each, counts in both directions."""

    min_replicas: Floats
    max_replicas: Floats
    min_leaders: Floats
    max_leaders: Floats
    disk: Floats
    bytes_in: Floats
    bytes_out: Floats
    survivor_leaders: Floats  # While any other broker is down
    survivor_bytes_out: Floats  # While any other broker is down
    copied_disk: float  # Budget of the whole plan, as copied_replicas
    copied_replicas: float


class CostWeights(NamedTuple):
    """What the objective charges: for copies, for changes of leader and successor, and per unit beyond a limit."""

    copied_disk: float
    copied_replica: float
    leader_change: float
    successor_change: float
    excess_replicas: float
    excess_leaders: float
    excess_disk: Floats  # float64 (n), by broker
    excess_bytes_in: Floats  # float64 (n), by broker
    excess_bytes_out: float
    excess_survivor_leaders: float
    excess_survivor_bytes_out: float


class Takeovers(NamedTuple):
    """What brokers take over when another fails."""

    load: npt.NDArray[Any]  # int32 or float64 (n, n), what broker [b] takes over when broker [, f] fails
    worst: Floats  # float64 (n), the most of it over all f, minus the limit for that f
    worst_failure: Int32s  # int32 (n), that f


class SearchState(NamedTuple):
    """What a search changes."""

    # int32 (r), the broker of each. replicas, leaders: int64 (n). disk, bytes_in, bytes_out: float64 (n). takeovers,
    # takeovers_bytes_out: Of leaders, and of their bytes out.
    slots: Int32s
    replicas: Ints
    leaders: Ints
    disk: Floats
    bytes_in: Floats
    bytes_out: Floats
    takeovers: Takeovers
    takeovers_bytes_out: Takeovers
    broker_slots: Int32s  # int32 (n, room), the slots of each broker
    slot_index: Int32s  # int32 (r), where a slot is in `broker_slots`
    copied_slots: Int32s  # int32 (r), of which the first `copied_count` are copied
    copied_index: Int32s  # int32 (r), where a slot is in `copied_slots`; -1 = not copied
    copied_count: Ints  # int64 (1)
    copied_disk: Floats  # float64 (1)


class Search(NamedTuple):
    """A search under way, with scratch arrays."""

    cluster: ClusterArrays
    limits: BrokerLimits
    weights: CostWeights
    state: SearchState
    random: RandomState  # Changed by every draw
    cost: Floats  # float64 (n), what each broker's excess costs, kept up to date by the moves
    hot: Int32s  # int32 (n), brokers with such a cost
    touched: Int32s  # int32 (16), brokers that the move at hand changes


def create_state(cluster: ClusterArrays, limits: BrokerLimits, slots: Int32s) -> SearchState:
    """Create the state of these slots (copied)."""
    n, r = len(cluster.rack), len(slots)
    room = int(max(np.bincount(slots, minlength=n).max(initial=0), limits.max_replicas.max(initial=0)) * 1.5) + 16
    counts, loads = np.zeros((2, n), np.int64), np.zeros((3, n))
    takeovers = Takeovers(np.zeros((n, n), np.int32), np.zeros(n), np.zeros(n, np.int32))
    takeovers_bytes_out = Takeovers(np.zeros((n, n)), np.zeros(n), np.zeros(n, np.int32))
    sums = (counts[0], counts[1], loads[0], loads[1], loads[2], takeovers, takeovers_bytes_out)
    state = SearchState(
        slots.astype(np.int32, copy=True),
        *sums,
        broker_slots=np.zeros((n, min(room, max(r, 1))), np.int32),
        slot_index=np.zeros(r, np.int32),
        copied_slots=np.zeros(r, np.int32),
        copied_index=np.full(r, -1, np.int32),
        copied_count=np.zeros(1, np.int64),
        copied_disk=np.zeros(1),
    )
    recompute_state(cluster, limits, state)
    return state


def create_search(
    cluster: ClusterArrays, limits: BrokerLimits, weights: CostWeights, state: SearchState, random: RandomState
) -> Search:
    """Create a search that changes `state` and `random`."""
    n = len(cluster.rack)
    return Search(cluster, limits, weights, state, random, np.empty(n), np.empty(n, np.int32), np.empty(16, np.int32))


@part
def holds_initially(cluster: ClusterArrays, p: int, broker: int) -> bool:
    """Tell whether the broker holds a replica of the partition initially."""
    for i in range(cluster.initial_offsets[p], cluster.initial_offsets[p + 1]):  # noqa: SIM110 (any() is slower here)
        if cluster.initial[i] == broker:
            return True
    return False


@compiled
def recompute_state(cluster: ClusterArrays, limits: BrokerLimits, state: SearchState) -> None:
    """Recompute all sums from the slots."""
    state.replicas[:] = 0
    state.leaders[:] = 0
    state.disk[:] = 0.0
    state.bytes_in[:] = 0.0
    state.bytes_out[:] = 0.0
    state.takeovers.load[:] = 0
    state.takeovers_bytes_out.load[:] = 0.0
    state.copied_count[0] = 0
    state.copied_disk[0] = 0.0
    state.copied_index[:] = -1
    for p in range(len(cluster.disk)):
        begin, end = cluster.offsets[p], cluster.offsets[p + 1]
        for slot in range(begin, end):
            b = state.slots[slot]
            state.broker_slots[b, state.replicas[b]] = slot
            state.slot_index[slot] = state.replicas[b]
            state.replicas[b] += 1
            state.disk[b] += cluster.disk[p]
            state.bytes_in[b] += cluster.bytes_in[p]
            mark_copied(cluster, state, slot, not holds_initially(cluster, p, b))
        if end > begin:
            leader = state.slots[begin]
            state.leaders[leader] += 1
            state.bytes_out[leader] += cluster.bytes_out[p]
            if end > begin + 1:
                state.takeovers.load[state.slots[begin + 1], leader] += 1
                state.takeovers_bytes_out.load[state.slots[begin + 1], leader] += cluster.bytes_out[p]
    for b in range(len(cluster.rack)):
        _find_worst_failure(state.takeovers, limits.survivor_leaders, b)
        _find_worst_failure(state.takeovers_bytes_out, limits.survivor_bytes_out, b)


@part
def _find_worst_failure(takeovers: Takeovers, limit: Floats, b: int) -> None:
    most, worst = -1e300, 0
    for f in range(len(limit)):
        value = takeovers.load[b, f] - limit[b]
        if value > most:
            most, worst = value, f
    takeovers.worst[b] = most
    takeovers.worst_failure[b] = worst


@part
def _update_worst_failure(takeovers: Takeovers, limit: Floats, b: int, f: int, sign: int) -> None:
    """Update the worst failure for broker b after what it takes over from f has grown (sign 1) or shrunk (-1)."""
    if sign > 0:
        value = takeovers.load[b, f] - limit[b]
        if value > takeovers.worst[b]:
            takeovers.worst[b] = value
            takeovers.worst_failure[b] = f
        elif takeovers.worst_failure[b] == f:
            takeovers.worst[b] = value
    elif takeovers.worst_failure[b] == f:
        _find_worst_failure(takeovers, limit, b)


@part
def count_leadership(cluster: ClusterArrays, limits: BrokerLimits, state: SearchState, p: int, sign: int) -> None:
    """Add partition p to the sums of its leader and successor (sign 1), or remove it from them (-1)."""
    begin, end = cluster.offsets[p], cluster.offsets[p + 1]
    leader = state.slots[begin]
    bytes_out = sign * cluster.bytes_out[p]
    state.leaders[leader] += sign
    state.bytes_out[leader] += bytes_out
    if end - begin > 1:
        successor = state.slots[begin + 1]
        state.takeovers.load[successor, leader] += sign
        state.takeovers_bytes_out.load[successor, leader] += bytes_out
        _update_worst_failure(state.takeovers, limits.survivor_leaders, successor, leader, sign)
        _update_worst_failure(state.takeovers_bytes_out, limits.survivor_bytes_out, successor, leader, sign)


@part
def move_slot(cluster: ClusterArrays, state: SearchState, slot: int, target: int) -> None:
    """Give the slot to broker `target`, in the sums of replicas. The caller updates `copied_slots` and leadership."""
    p, b = cluster.row[slot], state.slots[slot]
    last = state.broker_slots[b, state.replicas[b] - 1]
    state.broker_slots[b, state.slot_index[slot]] = last
    state.slot_index[last] = state.slot_index[slot]
    state.replicas[b] -= 1
    state.broker_slots[target, state.replicas[target]] = slot
    state.slot_index[slot] = state.replicas[target]
    state.replicas[target] += 1
    state.disk[b] -= cluster.disk[p]
    state.disk[target] += cluster.disk[p]
    state.bytes_in[b] -= cluster.bytes_in[p]
    state.bytes_in[target] += cluster.bytes_in[p]
    state.slots[slot] = target


@part
def move_replica(cluster: ClusterArrays, state: SearchState, slot: int, target: int) -> None:
    """Give the slot to broker `target`, in all sums but those of leadership."""
    move_slot(cluster, state, slot, target)
    mark_copied(cluster, state, slot, not holds_initially(cluster, cluster.row[slot], target))


@part
def relocate_replica(cluster: ClusterArrays, limits: BrokerLimits, state: SearchState, slot: int, target: int) -> None:
    """Give the slot to broker `target`, in all sums."""
    p = cluster.row[slot]
    leads_or_succeeds = slot - cluster.offsets[p] < 2
    if leads_or_succeeds:
        count_leadership(cluster, limits, state, p, -1)
    move_replica(cluster, state, slot, target)
    if leads_or_succeeds:
        count_leadership(cluster, limits, state, p, 1)


@part
def mark_copied(cluster: ClusterArrays, state: SearchState, slot: int, copied: bool) -> None:
    """Add the slot to the copied ones, or remove it from them."""
    index = state.copied_index[slot]
    if index >= 0 and not copied:
        state.copied_disk[0] -= cluster.disk[cluster.row[slot]]
        state.copied_count[0] -= 1
        last = state.copied_slots[state.copied_count[0]]
        state.copied_slots[index] = last
        state.copied_index[last] = index
        state.copied_index[slot] = -1
    elif index < 0 and copied:
        state.copied_disk[0] += cluster.disk[cluster.row[slot]]
        state.copied_slots[state.copied_count[0]] = slot
        state.copied_index[slot] = state.copied_count[0]
        state.copied_count[0] += 1


@part
def is_within_budget(limits: BrokerLimits, state: SearchState, disk: float, replicas: int) -> bool:
    """Tell whether the budget allows copying this much more."""
    fits: bool = disk <= 0.0 or state.copied_disk[0] + disk <= limits.copied_disk
    return fits and (replicas <= 0 or state.copied_count[0] + replicas <= limits.copied_replicas)


@part
def replica_cost(search: Search, b: int, replicas: int, disk: float, bytes_in: float) -> float:
    """Return what broker b's excess would cost if it held this much more."""
    limits, weights, state = search.limits, search.weights, search.state
    count = state.replicas[b] + replicas
    cost: float = weights.excess_replicas * (
        max(count - limits.max_replicas[b], 0.0) + max(limits.min_replicas[b] - count, 0.0)
    )
    cost += weights.excess_disk[b] * max(state.disk[b] + disk - limits.disk[b], 0.0)
    cost += weights.excess_bytes_in[b] * max(state.bytes_in[b] + bytes_in - limits.bytes_in[b], 0.0)
    return cost


@part
def leadership_cost(limits: BrokerLimits, weights: CostWeights, state: SearchState, b: int) -> float:
    """Return what broker b's excess costs in leaders and bytes out, now and after the worst failure of another."""
    leaders, out = state.leaders[b], state.bytes_out[b]
    cost: float = weights.excess_leaders * (
        max(leaders - limits.max_leaders[b], 0.0) + max(limits.min_leaders[b] - leaders, 0.0)
    )
    cost += weights.excess_bytes_out * max(out - limits.bytes_out[b], 0.0)
    cost += weights.excess_survivor_leaders * max(leaders + state.takeovers.worst[b], 0.0)
    cost += weights.excess_survivor_bytes_out * max(out + state.takeovers_bytes_out.worst[b], 0.0)
    return cost


@part
def order_cost(cluster: ClusterArrays, weights: CostWeights, state: SearchState, p: int) -> float:
    """Return what p's changes of leader and successor cost."""
    begin, initial = cluster.offsets[p], cluster.initial_offsets[p]
    end, initial_end = cluster.offsets[p + 1], cluster.initial_offsets[p + 1]
    cost = 0.0
    if initial < initial_end and state.slots[begin] != cluster.initial[initial]:
        cost += weights.leader_change
    if begin + 1 < end and initial + 1 < initial_end and state.slots[begin + 1] != cluster.initial[initial + 1]:
        cost += weights.successor_change
    return cost
