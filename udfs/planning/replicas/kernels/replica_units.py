"""Replicas as units of a flow: which stay, who takes each (n brokers, p partitions, r replicas, u units)."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled, part
from udfs.planning.kernels.array_types import Flags, Floats, Int32s, Ints, ListChanges


class ChangeCosts(NamedTuple):
    """Costs of each change, int64 and float64 (p), and the budgets for all."""

    moves: Ints
    bytes: Floats
    max_moves: int
    max_bytes: float


class CountBounds(NamedTuple):
    """Replicas of each broker, and their bounds: int64 (n)."""

    low: Ints
    high: Ints
    counts: Ints


@part
def _excess(bounds: CountBounds, b: int) -> int:
    count: int = bounds.counts[b]
    excess: int = max(count - bounds.high[b], 0) + max(bounds.low[b] - count, 0)
    return excess


@part
def _count_list(bounds: CountBounds, offsets: Ints, replicas: Int32s, row: int, sign: int) -> int:
    """Add a list to the counts (sign 1), or remove it (-1). Return how many replicas fewer are out of bounds."""
    gain = 0
    for at in range(offsets[row], offsets[row + 1]):
        b = replicas[at]
        gain += _excess(bounds, b)
        bounds.counts[b] += sign
        gain -= _excess(bounds, b)
    return gain


@compiled
def select_changes(order: Ints, lists: ListChanges, costs: ChangeCosts, bounds: CountBounds, selected: Flags) -> None:
    """Select changes (bool, p) that bring counts nearer to their bounds, repeatedly in `order`, within the budgets."""
    moves_left, bytes_left = costs.max_moves, costs.max_bytes
    again = True
    while again:
        again = False
        for row in order:
            if selected[row] or costs.moves[row] > moves_left or costs.bytes[row] > bytes_left:
                continue
            gain = _count_list(bounds, lists.old_offsets, lists.old, row, -1)
            gain += _count_list(bounds, lists.new_offsets, lists.new, row, 1)
            if gain > 0:
                selected[row] = again = True
                moves_left -= costs.moves[row]
                bytes_left -= costs.bytes[row]
            else:
                _count_list(bounds, lists.old_offsets, lists.old, row, 1)
                _count_list(bounds, lists.new_offsets, lists.new, row, -1)


class PartitionRules(NamedTuple):
    """Constraints of partitions: frozen: bool (p); factor, rack_limit: int64 (p)."""

    frozen: Flags
    factor: Ints
    rack_limit: Ints


class PlacedReplicas(NamedTuple):
    """Replica lists, and which replicas stay."""

    offsets: Ints  # int64 (p + 1)
    replicas: Int32s  # int32 (r), brokers
    stays: Flags  # bool (r)
    rack: Int32s  # int32 (n), of the brokers
    barred: Int32s  # int32 (r), a broker that may not get the partition, or -1


class FlowUnits(NamedTuple):
    """Units that are to be assigned, by rack and by partition in it."""

    row: Ints  # int64 (u), the partition
    rack: Ints  # int64 (u)
    first: Ints  # int64 (racks + 1), the first unit of each rack
    broker: Ints  # int64 (u), the answer; -1 = no broker


class BrokerLoads(NamedTuple):
    """What brokers hold and may take, updated by each unit that is assigned."""

    quota: Ints  # int64 (n), units that the broker takes
    load: Floats  # float64 (n)
    max_load: Floats  # float64 (n)
    topic_load: npt.NDArray[np.float32]  # float32 (topics, n), or (0, 0) if topics are not spread
    topic: Int32s  # int32 (p), the topic of each partition
    weight: Floats  # float64 (p), load of one replica


@compiled
def find_replacements(
    rules: PartitionRules, placed: PlacedReplicas, must_leave: Flags, replacement: Int32s, now: Int32s
) -> None:
    """Find the broker that may hold each replica at no cost, its own or its replacement: `now`, int32 (r), or -1.

    must_leave: bool (n), brokers that must hold nothing. replacement: int32 (n), the broker that takes over, or -1.
    """
    offsets, replicas, rack = placed.offsets, placed.replicas, placed.rack
    for row in range(len(offsets) - 1):
        begin, end = offsets[row], offsets[row + 1]
        for at in range(begin, end):
            now[at] = replicas[at] if rules.frozen[row] or not must_leave[replicas[at]] else -1
        for at in range(begin, end):
            other = replacement[replicas[at]]
            if now[at] >= 0 or other < 0:
                continue
            same = 0
            for k in range(begin, end):
                if now[k] == other or replicas[k] == other:
                    same = rules.rack_limit[row]
                elif now[k] >= 0 and rack[now[k]] == rack[other]:
                    same += 1
            if same < rules.rack_limit[row]:
                now[at] = other


@compiled
def keep_replicas(
    rules: PartitionRules, placed: PlacedReplicas, can_stay: Flags, release_shrinking: bool, free: Ints, room: Int32s
) -> None:
    """Keep replicas where they are: set `stays`, and count what each partition has left to place.

    can_stay: bool (n), brokers whose replicas stay. release_shrinking: whether partitions that lose replicas keep none,
    so that any may go. free: int64 (p), filled with the replicas to place. room: int32 (p, racks), what racks can take
    of them.
    """
    offsets, rack = placed.offsets, placed.rack
    for row in range(len(rules.factor)):
        free[row] = 0 if rules.frozen[row] else rules.factor[row]
        for r in range(room.shape[1]):
            room[row, r] = rules.rack_limit[row]
        if rules.frozen[row] or (release_shrinking and rules.factor[row] < offsets[row + 1] - offsets[row]):
            continue
        for at in range(offsets[row], offsets[row + 1]):
            broker = placed.replicas[at]
            if can_stay[broker] and free[row] > 0 and room[row, rack[broker]] > 0:
                placed.stays[at] = True
                free[row] -= 1
                room[row, rack[broker]] -= 1


@part
def _holds(placed: PlacedReplicas, row: int, broker: int) -> bool:
    """Tell whether the broker holds a replica of the partition, or may not get one."""
    holds = False
    for at in range(placed.offsets[row], placed.offsets[row + 1]):
        holds |= placed.stays[at] and placed.replicas[at] == broker
        holds |= placed.barred[at] == broker
    return holds


@part
def _is_assigned(units: FlowUnits, u: int, row: int, broker: int) -> bool:
    """Tell whether a unit of the partition before u, in the same rack, is assigned to the broker."""
    for k in range(units.first[units.rack[u]], u):  # noqa: SIM110 (numba has no generators in parts)
        if units.row[k] == row and units.broker[k] == broker:
            return True
    return False


@part
def _takes(units: FlowUnits, placed: PlacedReplicas, loads: BrokerLoads, u: int, b: int) -> bool:
    """Tell whether broker b is in the unit's rack, has quota left, and holds no replica of the partition."""
    row = units.row[u]
    if placed.rack[b] != units.rack[u] or loads.quota[b] == 0 or _holds(placed, row, b):
        return False
    k = u - 1  # the partition's other units in this rack are right before
    while k >= units.first[units.rack[u]] and units.row[k] == row:
        if units.broker[k] == b:
            return False
        k -= 1
    return True


@part
def _choose_broker(units: FlowUnits, placed: PlacedReplicas, loads: BrokerLoads, u: int) -> int:
    """Return the broker that holds least, where replicas of the topic count once more; -1 = no broker takes it."""
    row = units.row[u]
    best, best_score, best_fits = -1, 0.0, False
    for b in range(len(loads.quota)):
        if not _takes(units, placed, loads, u, b):
            continue
        fits = loads.load[b] + loads.weight[row] <= loads.max_load[b]
        score = loads.load[b] + (loads.topic_load[loads.topic[row], b] if len(loads.topic_load) > 0 else 0.0)
        if best < 0 or (fits and not best_fits) or (fits == best_fits and score < best_score):
            best, best_score, best_fits = b, score, fits
    return best


@part
def _add_load(loads: BrokerLoads, row: int, b: int, sign: int) -> None:
    loads.load[b] += sign * loads.weight[row]
    if len(loads.topic_load) > 0:
        loads.topic_load[loads.topic[row], b] += sign * loads.weight[row]


@part
def _exchange_unit(units: FlowUnits, placed: PlacedReplicas, loads: BrokerLoads, u: int) -> int:
    """Give an earlier unit of the rack to a broker with quota left, and its broker to u. Return that broker, or -1."""
    row, rack = units.row[u], units.rack[u]
    for x in range(len(loads.quota)):
        if placed.rack[x] != rack or loads.quota[x] == 0:
            continue
        for v in range(u - 1, units.first[rack] - 1, -1):  # small ones first: they are the last
            y: int = units.broker[v]
            other = units.row[v]
            if y < 0 or other == row or _holds(placed, other, x) or _holds(placed, row, y):
                continue
            if _is_assigned(units, u, other, x) or _is_assigned(units, u, row, y):
                continue
            units.broker[v] = x
            _add_load(loads, other, x, 1)
            _add_load(loads, other, y, -1)
            loads.quota[x] -= 1
            return y
    return -1


@compiled
def assign_units(units: FlowUnits, placed: PlacedReplicas, loads: BrokerLoads) -> None:
    """Assign each unit to a broker in its rack, if need be one that passes another unit of the rack on."""
    for u in range(len(units.row)):
        broker = _choose_broker(units, placed, loads, u)
        if broker >= 0:
            loads.quota[broker] -= 1
        else:
            broker = _exchange_unit(units, placed, loads, u)
        units.broker[u] = broker
        if broker >= 0:
            _add_load(loads, units.row[u], broker, 1)


@compiled
def write_lists(
    placed: PlacedReplicas, live: Flags, new_offsets: Ints, new: Ints, out_offsets: Ints, out: Int32s
) -> None:
    """Write the lists (`out`, int32, by `out_offsets`) of the replicas that stay and of `new` ones (int64).

    Kept replicas keep their order. New ones take the places of those that left, and lead only if none is kept. A down
    broker (live: bool, n) is not first in a list that changes where another one is live.
    """
    for row in range(len(placed.offsets) - 1):
        begin, end = placed.offsets[row], placed.offsets[row + 1]
        fresh, to = new_offsets[row], out_offsets[row]
        in_place = begin < end and placed.stays[begin]
        for at in range(begin, end):
            if placed.stays[at]:
                out[to] = placed.replicas[at]
                to += 1
            elif in_place and fresh < new_offsets[row + 1]:
                out[to] = new[fresh]
                fresh += 1
                to += 1
        while fresh < new_offsets[row + 1]:
            out[to] = new[fresh]
            fresh += 1
            to += 1
        is_kept = to - out_offsets[row] == end - begin and new_offsets[row] == new_offsets[row + 1]
        if to > out_offsets[row] and not is_kept and not live[out[out_offsets[row]]]:
            for k in range(out_offsets[row] + 1, to):
                if live[out[k]]:
                    leader = out[k]
                    for j in range(k, out_offsets[row], -1):
                        out[j] = out[j - 1]
                    out[out_offsets[row]] = leader
                    break
