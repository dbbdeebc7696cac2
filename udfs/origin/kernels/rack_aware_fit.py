"""Whether observed topics follow Kafka's rack-aware round robin, and whether a broken pattern is a later growth.

Here a partition is placed anew with the kernels of round_robin.py and rack_aware.py, and compared.
"""

from __future__ import annotations

from udfs.kernel_compiler import compiled, part
from udfs.origin.kernels.round_robin_fit import UNKNOWN
from udfs.placement.kernels.rack_aware_round_robin import place_partition
from udfs.placement.kernels.topic_arrays import Ids, Ints

_BLOCKS_BACK = 3  # rounds over the brokers before the break in which a growth is looked for


@part
def placed_so(
    first: int, width: int, broker: Ids, order: Ids, rack: Ids, racks: int, leader: int, turn: int, room: Ints
) -> bool:
    """Whether the replicas from `first` on are those that Kafka would place, the leader at this place of the order.

    order: int32 (n), broker at each place.   rack: int32 (n), racks from 0; racks 0 = unaware of them.
    turn: the shift at this partition.   room: int64 (3 n + 1), to work in, kept from call to call.
    """
    n = len(order)
    if broker[first] != order[leader]:
        return False
    if racks == 0:
        for rank in range(width - 1):
            follower = (leader + 1 + (turn + rank) % (n - 1)) % n
            if broker[first + 1 + rank] != order[follower]:
                return False
        return True
    chosen, used, rack_used = room[:n], room[n : 2 * n], room[2 * n : 3 * n]
    room[3 * n] += 1
    place_partition(rack, racks, leader, turn, width, rack_used, used, room[3 * n], chosen)
    same = 1
    while same < width and broker[first + same] == order[chosen[same]]:
        same += 1
    return bool(same >= width)


@part
def _fit_shift(
    lo: int,
    hi: int,
    partition: Ints,
    replica_offsets: Ints,
    broker: Ids,
    order: Ids,
    rack: Ids,
    racks: int,
    start: int,
    shift: int,
    room: Ints,
) -> int:
    """The first row that is not as placed with this start index and shift."""
    n = len(order)
    width = replica_offsets[lo + 1] - replica_offsets[lo]
    for row in range(lo, hi):
        first = replica_offsets[row]
        if replica_offsets[row + 1] - first != width:
            return row
        leader, turn = (partition[row] + start) % n, shift + partition[row] // n
        if not placed_so(first, width, broker, order, rack, racks, leader, turn, room):
            return row
    return hi


@part
def _evidence(rows: int, width: int, n: int) -> int:
    """Replicas in `rows` partitions that had more than one broker to be on."""
    return rows * min(width, n - 1)


@compiled
def fit_rack_aware(
    row_offsets: Ints,
    partition: Ints,
    replica_offsets: Ints,
    broker: Ids,
    topics: Ints,
    place: Ids,
    order: Ids,
    rack: Ids,
    racks: int,
    room: Ints,
    until: Ints,
    evidence: Ints,
    start: Ints,
    shift: Ints,
    expanded_from_partition: Ints,
) -> None:
    """Fits of these topics (int64, m) to the pattern over a rack-alternated order; the shift is found by trying.

    Of several shifts that go equally far, the smallest. A shift counts modulo n - 1.
    """
    n = len(order)
    for i in range(len(topics)):
        lo, hi = row_offsets[topics[i]], row_offsets[topics[i] + 1]
        until[i], evidence[i], start[i], shift[i], expanded_from_partition[i] = lo, 0, UNKNOWN, UNKNOWN, UNKNOWN
        if lo == hi:
            continue
        first = replica_offsets[lo]
        width = replica_offsets[lo + 1] - first
        if width == 0 or width > n or place[broker[first]] < 0:
            continue
        start[i] = (place[broker[first]] - partition[lo]) % n
        leader, rounds = place[broker[first]], partition[lo] // n
        for tried in range(n - 1 if width > 1 else 1):
            if width > 2 and not placed_so(first, 2, broker, order, rack, racks, leader, tried + rounds, room):
                continue
            end = _fit_shift(lo, hi, partition, replica_offsets, broker, order, rack, racks, start[i], tried, room)
            if end > until[i]:
                until[i] = end
                shift[i] = tried if width > 1 else UNKNOWN
            if end == hi:
                break
        if until[i] > lo:
            free = (1 if n > 1 else 0) + (1 if width > 1 and n > 2 else 0)
            evidence[i] = _evidence(until[i] - lo, width, n) - free


@part
def growth_start(by_id: Ids, first: int) -> int:
    """The start index of a growth: of the first broker (int32, by rising id) not below partition 0's first replica."""
    for i in range(len(by_id)):
        if by_id[i] >= first:
            return i
    return 0


@compiled
def fit_growth(
    row_offsets: Ints,
    partition: Ints,
    replica_offsets: Ints,
    broker: Ids,
    topics: Ints,
    place: Ids,
    by_id: Ids,
    order: Ids,
    rack: Ids,
    racks: int,
    room: Ints,
    first_replica: Ints,
    until: Ints,
    evidence: Ints,
    expanded_from_partition: Ints,
) -> None:
    """Continues the fits of these topics (int64, m) past their first break, if a growth explains what follows.

    Kafka grows over the brokers by id (order; alternated if racks > 0) from the start index of the first broker with
    an id >= partition 0's first replica (first_replica: int64, m), with that as the shift, too. Several growths in a
    row are followed. The fits are changed only where they then reach the end. by_id: int32 (n), the order's brokers.
    """
    n = len(order)
    for i in range(len(topics)):
        lo, hi = row_offsets[topics[i]], row_offsets[topics[i] + 1]
        if until[i] <= lo or until[i] >= hi or first_replica[i] < 0:
            continue
        width = replica_offsets[lo + 1] - replica_offsets[lo]
        if width > n:
            continue
        start = growth_start(by_id, first_replica[i])
        begin, grown, row = until[i], UNKNOWN, until[i]
        while row < hi:
            reached = row
            latest = (partition[row] - 1) // n
            for block in range(latest, max(-1, latest - _BLOCKS_BACK), -1):
                # The latest partition of this round that it can have begun with: it asks the least.
                k = min(partition[row], (block + 1) * n)
                at = row
                while at > lo and partition[at - 1] >= k:
                    at -= 1
                while at < hi:
                    first = replica_offsets[at]
                    if replica_offsets[at + 1] - first != width:
                        break
                    leader, turn = (partition[at] + start) % n, start + partition[at] // n - block
                    if not placed_so(first, width, broker, order, rack, racks, leader, turn, room):
                        break
                    at += 1
                if at > reached:
                    reached = at
                    if row == begin:
                        grown = k
                if at == hi:
                    break
            if reached == row:
                break
            row = reached
        if row == hi:
            until[i] = hi
            expanded_from_partition[i] = grown
            evidence[i] += _evidence(hi - begin, width, n)
