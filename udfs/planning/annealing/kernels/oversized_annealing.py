"""Annealing of oversized partitions: those that can fill alone what a broker may take over.

The leadership of all other partitions is a divisible load: a broker can lead as much of it as its own limit, and the
worst takeover of an oversized partition, leave headroom for. Total headroom must cover the divisible load.
"""

from typing import NamedTuple

import numpy as np

from udfs.kernel_compiler import compiled, part
from udfs.planning.annealing.kernels import search_moves as moves
from udfs.planning.annealing.kernels import search_state
from udfs.planning.annealing.kernels.search_state import Search, SearchState, holds_initially
from udfs.planning.kernels.array_types import Floats, Int32s, Ints

_MAX_SHARE = 0.9  # of a broker's disk or bytes in that oversized partitions may take
# One broker's excess against the shortfall of all, as no other broker can make up for it: at least the first, and the
# second for each broker.
_BROKER_FACTOR, _FACTOR_PER_BROKER = 4.0, 1 / 15
_MOVE_SHARE = 0.5  # of proposals that move a replica; the others exchange places in a list
_TO_SUCCESSOR, _TO_INITIAL = 0.5, 0.3  # of moves: to a broker that succeeds one of these partitions, and back
_SUCCEEDS = 0.5  # of moves: the new broker becomes the successor, and the successor takes the place of what moves
# Cost of a unit of shortfall times the temperature, until the full cost: brokers that take over many partitions are
# found while temperatures still let these partitions move there one by one.
_RAMP = 0.005
_CROWDING_FACTOR = 2.5  # cost of load beyond _MAX_SHARE, in excess costs of bytes out


class ReliefCurves(NamedTuple):
    """Disk of the replicas that must leave a broker, so that some of its bytes in leave it."""

    step: Floats  # float64 (n), bytes in from one entry to the next
    disk: Floats  # float64 (n, entries), from none to all bytes in of its other replicas


class LargestPartitions(NamedTuple):
    """Partitions that alone exceed what a broker may lead: brokers that lead or succeed them have looser limits."""

    rows: Ints  # int64
    least: float  # bytes out above which a partition is one of these
    small: float  # bytes out of the small partitions that each broker has to lead
    bytes_out: Floats  # float64 (n), limits of brokers that lead none of them
    survivor_bytes_out: Floats  # float64 (n), limits of brokers that neither lead nor succeed one of them


@part
def _loosen(search: Search, largest: LargestPartitions, b: int) -> None:
    """Set the limits of b to what the largest partitions that it leads and succeeds require."""
    cluster, limits, state = search.cluster, search.limits, search.state
    bytes_out = most = largest.bytes_out[b]
    survivor = most_survivor = largest.survivor_bytes_out[b]
    for p in largest.rows:
        begin, out = cluster.offsets[p], cluster.bytes_out[p]
        leads = state.slots[begin] == b and out > most
        succeeds = cluster.offsets[p + 1] > begin + 1 and state.slots[begin + 1] == b
        if leads:
            bytes_out = max(bytes_out, out + largest.small)
        if (leads or succeeds) and out > most_survivor:
            survivor = max(survivor, out + 3.0 * largest.small)
    limits.bytes_out[b] = bytes_out
    state.takeovers_bytes_out.worst[b] += limits.survivor_bytes_out[b] - survivor
    limits.survivor_bytes_out[b] = survivor


@part
def _relieve(relief: ReliefCurves, b: int, bytes_in: float) -> float:
    """Return the disk that must leave b with these bytes in: a convex curve, as the least disk leaves first."""
    at, last = bytes_in / relief.step[b], relief.disk.shape[1] - 1
    i = min(int(at), last - 1)
    disk: float = relief.disk[b, i] + (at - i) * (relief.disk[b, i + 1] - relief.disk[b, i])
    return disk


@part
def _headroom(search: Search, load: Floats, b: int) -> float:
    """Return the bytes out that b can lead beside its oversized partitions; below 0 if it leads too much of them.

    A broker whose disk or bytes in are full of them holds few others to lead: at most twice the share that remains.
    """
    limits, state = search.limits, search.state
    room: float = min(limits.bytes_out[b], -state.takeovers_bytes_out.worst[b]) - state.bytes_out[b]
    left: float = 2.0 * max(0.0, 1.0 - max(load[0, b] / limits.disk[b], load[1, b] / limits.bytes_in[b]))
    return min(room, left)


@part
def _holding_cost(
    search: Search, relief: ReliefCurves, uneven_cost: float, b: int, replicas: int, disk: float, bytes_in: float
) -> float:
    """Return the cost of what b would hold with this much more.

    The replicas that relieve a broker of disk also relieve it of bytes in, so the larger excess counts. Where a broker
    has more of one load than of the other, few partitions fit beside, and the more is copied later.
    """
    limits, weights, state = search.limits, search.weights, search.state
    count, disk, bytes_in = state.replicas[b] + replicas, state.disk[b] + disk, state.bytes_in[b] + bytes_in
    cost: float = weights.excess_replicas * (
        max(count - limits.max_replicas[b], 0.0) + max(limits.min_replicas[b] - count, 0.0)
    )
    excess_disk = weights.excess_disk[b] * max(disk - limits.disk[b], 0.0)
    excess_bytes_in = weights.excess_bytes_in[b] * _relieve(relief, b, max(bytes_in - limits.bytes_in[b], 0.0))
    cost += max(excess_disk, excess_bytes_in) + uneven_cost * abs(disk - bytes_in)
    return cost


@part
def _overload_cost(search: Search, load: Floats, small: float, b: int) -> float:
    """Return the cost of oversized partitions that b leads or takes over with too little headroom beside them."""
    return search.weights.excess_bytes_out * max(0.0, small - _headroom(search, load, b))


@part
def _crowding_cost(search: Search, load: Floats, b: int) -> float:
    """Return the cost of oversized partitions that fill b's disk or bytes in: moving others away does not help."""
    limits = search.limits
    excess: float = max(0.0, load[0, b] - _MAX_SHARE * limits.disk[b]) + max(
        0.0, load[1, b] - _MAX_SHARE * limits.bytes_in[b]
    )
    return _CROWDING_FACTOR * search.weights.excess_bytes_out * excess


@part
def _shortfall_cost(weight: float, headroom: float, divisible_load: float) -> float:
    return weight * max(divisible_load - headroom, 0.0)


@part
def _exceeds_limit(search: Search, largest: LargestPartitions, p: int, place: int, b: int) -> bool:
    """Return whether a partition alone exceeds what b can lead (place 0) or take over (1), but not the usual limit."""
    out = search.cluster.bytes_out[p]
    limit: float = search.limits.bytes_out[b] if place == 0 else search.limits.survivor_bytes_out[b]
    return place < 2 and limit < out <= largest.least


@part
def _propose(search: Search, largest: LargestPartitions, rows: Ints, p: int, targets: Int32s) -> tuple[int, int, int]:
    """Draw a move of partition p, or moves.NO_MOVE: (slot, slot that it exchanges with or -1, new broker or -1)."""
    cluster, limits, state, random = search.cluster, search.limits, search.state, search.random
    begin, end = cluster.offsets[p], cluster.offsets[p + 1]
    slot = begin + moves.draw_below(random, end - begin)
    if moves.draw_unit(random) >= _MOVE_SHARE:
        if end - begin < 2:
            return moves.NO_MOVE
        other = begin + moves.draw_below(random, end - begin)
        if other == slot or not cluster.can_lead[state.slots[other if slot == begin else slot]]:
            return moves.NO_MOVE
        slot, other = min(slot, other), max(slot, other)
        if _exceeds_limit(search, largest, p, slot - begin, state.slots[other]):
            return moves.NO_MOVE
        if _exceeds_limit(search, largest, p, other - begin, state.slots[slot]):
            return moves.NO_MOVE
        return slot, other, -1
    target, kind = targets[moves.draw_below(random, len(targets))], moves.draw_unit(random)
    initial = cluster.initial_offsets[p + 1] - cluster.initial_offsets[p]
    if kind > 1.0 - _TO_SUCCESSOR:  # one broker can take over many partitions, of different leaders
        q = rows[moves.draw_below(random, len(rows))]
        target = state.slots[min(cluster.offsets[q] + 1, cluster.offsets[q + 1] - 1)]
        if not cluster.can_receive[target]:
            return moves.NO_MOVE
    if initial and kind < _TO_INITIAL:
        target = cluster.initial[cluster.initial_offsets[p] + moves.draw_below(random, initial)]
        if not cluster.can_receive[target]:
            return moves.NO_MOVE
    # A partition that is beyond the limits of every broker stays.
    if cluster.disk[p] > limits.disk[target] or cluster.bytes_in[p] > limits.bytes_in[target]:
        return moves.NO_MOVE
    partner = -1
    if end - begin > 1 and slot != begin + 1 and moves.draw_unit(random) < _SUCCEEDS:
        partner = begin + 1
        if slot == begin and not cluster.can_lead[state.slots[partner]]:
            return moves.NO_MOVE
        if slot == begin and _exceeds_limit(search, largest, p, 0, state.slots[partner]):
            return moves.NO_MOVE
    if _exceeds_limit(search, largest, p, slot - begin if partner < 0 else 1, target):
        return moves.NO_MOVE
    if not holds_initially(cluster, p, target) and not search_state.is_within_budget(limits, state, cluster.disk[p], 1):
        return moves.NO_MOVE
    if not moves.can_hold(cluster, state, slot, target) or state.replicas[target] >= state.broker_slots.shape[1]:
        return moves.NO_MOVE
    return slot, partner, target


@part
def _exchange(state: SearchState, one: int, two: int) -> None:
    state.slots[one], state.slots[two] = state.slots[two], state.slots[one]
    moves.exchange_slots(state, one, two)


@part
def _apply(search: Search, load: Floats, slot: int, partner: int, target: int, undo: bool) -> None:
    """Move the slot to `target` (-1 = nowhere), and exchange it with `partner` (-1 = none); to undo it, vice versa."""
    cluster, state = search.cluster, search.state
    p = cluster.row[slot]
    search_state.count_leadership(cluster, search.limits, state, p, -1)
    if partner >= 0 and undo:
        _exchange(state, slot, partner)
    if target >= 0:
        b = state.slots[slot]
        load[0, b] -= cluster.disk[p]
        load[0, target] += cluster.disk[p]
        load[1, b] -= cluster.bytes_in[p]
        load[1, target] += cluster.bytes_in[p]
        search_state.move_replica(cluster, state, slot, target)
    if partner >= 0 and not undo:
        _exchange(state, slot, partner)
    search_state.count_leadership(cluster, search.limits, state, p, 1)


@compiled
def anneal_oversized(
    search: Search,
    rows: Ints,
    largest: LargestPartitions,
    relief: ReliefCurves,
    targets: Int32s,
    divisible_load: float,
    schedule: moves.Schedule,
    uneven_cost: float,
) -> float:
    """Anneal replicas and order of the oversized partitions `rows` (int64), whose bytes out alone the cluster has.

    The limits of bytes out change with the places of the largest partitions.

    targets: int32, brokers that may receive. divisible_load: bytes out of all other partitions. uneven_cost: of a unit
    by which a broker's disk and bytes in differ. Return by how much headroom falls short of the divisible load; what
    one broker alone leads too much counts more.
    """
    cluster, state, random, touched = search.cluster, search.state, search.random, search.touched
    load = np.zeros((2, len(cluster.rack)))
    for p in rows:
        for slot in range(cluster.offsets[p], cluster.offsets[p + 1]):
            load[0, state.slots[slot]] += cluster.disk[p]
            load[1, state.slots[slot]] += cluster.bytes_in[p]
    headroom = 0.0
    for b in targets:
        headroom += max(0.0, _headroom(search, load, b))
    temperature, factor = schedule.start, moves.cooling_factor(schedule, 1)
    for _ in range(schedule.proposals):
        temperature *= factor
        weight = min(search.weights.excess_survivor_bytes_out, _RAMP / temperature)
        p = rows[moves.draw_below(random, len(rows))]
        slot, partner, target = _propose(search, largest, rows, p, targets)
        if slot < 0:
            continue
        bound = moves.draw_bound(random, temperature)
        b = state.slots[slot]
        count = moves.add_leader_and_successor(cluster, state, p, touched, 0)
        other = target if target >= 0 else state.slots[partner]
        count = moves.add_distinct(touched, moves.add_distinct(touched, count, b), other)
        rise, room_before = -_shortfall_cost(weight, headroom, divisible_load), 0.0
        for j in range(count):
            rise -= _overload_cost(search, load, largest.small, touched[j])
            room_before += max(0.0, _headroom(search, load, touched[j]))
        if target >= 0:
            disk, bytes_in = cluster.disk[p], cluster.bytes_in[p]
            rise += moves.copy_cost(cluster, search.weights, p, target) - moves.copy_cost(cluster, search.weights, p, b)
            rise += _holding_cost(search, relief, uneven_cost, b, -1, -disk, -bytes_in)
            rise += _holding_cost(search, relief, uneven_cost, target, 1, disk, bytes_in)
            rise -= _holding_cost(search, relief, uneven_cost, b, 0, 0.0, 0.0)
            rise -= _holding_cost(search, relief, uneven_cost, target, 0, 0.0, 0.0)
            rise -= _crowding_cost(search, load, b) + _crowding_cost(search, load, target)
        if rise > bound:  # even if no broker were overloaded or crowded afterwards
            continue
        _apply(search, load, slot, partner, target, False)
        is_largest = cluster.bytes_out[p] > largest.least
        for j in range(count if is_largest else 0):
            _loosen(search, largest, touched[j])
        if target >= 0:
            rise += _crowding_cost(search, load, b) + _crowding_cost(search, load, target)
        room_after = 0.0
        for j in range(count):
            rise += _overload_cost(search, load, largest.small, touched[j])
            room_after += max(0.0, _headroom(search, load, touched[j]))
        if rise + _shortfall_cost(weight, headroom + room_after - room_before, divisible_load) <= bound:
            headroom += room_after - room_before
        else:
            _apply(search, load, slot, partner, b if target >= 0 else -1, True)
            for j in range(count if is_largest else 0):
                _loosen(search, largest, touched[j])
    headroom = worst = 0.0
    for b in targets:
        room = _headroom(search, load, b)
        headroom += max(0.0, room)
        worst = max(worst, -room)
    return max(_BROKER_FACTOR * worst, _FACTOR_PER_BROKER * len(targets) * worst, divisible_load - headroom)
