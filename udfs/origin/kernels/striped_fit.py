"""Whether offsets and shuffles exist with which KRaft's striped placement gives the observed replicas.

Nothing is drawn: what Kafka draws is bound when a replica first tells it, and must then hold. Until as many
partitions are placed as there are brokers, racks and brokers are in order, from unknown offsets; from then on, in
each round of as many partitions, racks and each rack's brokers are in an unknown order of their own. Up to 4.0 there
are no later rounds. Source: striped.py; all brokers taken as unfenced.

In which partitions a rack's list is stepped on follows from the stripe alone, so gaps between partitions do no harm.
"""

from __future__ import annotations

from udfs.kernel_compiler import compiled, part
from udfs.origin.kernels.round_robin_fit import UNKNOWN
from udfs.placement.kernels.topic_arrays import Ids, Ints

FREE = -1
ENOUGH_ROWS, ENOUGH_EVIDENCE = 4, 6  # of a growth, which is placed afresh: fewer fit too easily


@compiled
def touched(behind: int, width: int, racks: int, epoch: int) -> int:
    """In how many of the partitions 0 to epoch - 1 the rack `behind` the first partition's stripe was stepped on.

    width: racks that a partition steps on. Each partition's stripe is one rack further.
    """
    rest = epoch % racks
    near = max(0, min(behind + 1, rest) - max(0, behind - width + 1))
    far = max(0, rest - (behind - width + 1 + racks))
    return epoch // racks * width + near + far


@part
def _bind_first(
    one: int, steps: int, rack_of: Ids, spot: Ids, rack_begin: Ids, rack: int, base: Ints, told: Ints
) -> bool:
    """A replica of the first round: the rack is known, its offset perhaps not yet. told[0] counts as evidence."""
    if rack_of[one] != rack:
        return False
    size = rack_begin[rack + 1] - rack_begin[rack]
    offset = (spot[one] - steps) % size
    told[0] = 1 if len(rack_begin) > 2 else 0
    if base[rack] == FREE:
        base[rack] = offset
        return True
    if size > 1:
        told[0] = 1
    return bool(base[rack] == offset)


@part
def _bind_later(
    one: int,
    steps: int,
    rack_of: Ids,
    rack_begin: Ids,
    slot: int,
    rack_at: Ints,
    slot_of: Ints,
    broker_at: Ints,
    seat_of: Ints,
    told: Ints,
) -> bool:
    """A replica of a later round: neither the rack in this slot nor the rack's order is known beforehand."""
    rack = rack_of[one]
    told[0] = 0
    if rack < 0:
        return False
    if rack_at[slot] == FREE:
        if slot_of[rack] != FREE:
            return False
        told[0] = 1 if told[1] > 0 else 0
        told[1] += 1
        rack_at[slot], slot_of[rack] = rack, slot
    elif rack_at[slot] != rack:
        return False
    elif len(rack_begin) > 2:
        told[0] = 1
    begin = rack_begin[rack]
    size = rack_begin[rack + 1] - begin
    seat = begin + steps % size
    if broker_at[seat] == FREE:
        if seat_of[one] != FREE:
            return False
        broker_at[seat], seat_of[one] = one, seat
        told[2 + rack] += 1
        if told[2 + rack] > 1:
            told[0] = 1
        return True
    if size > 1:
        told[0] = 1
    return bool(broker_at[seat] == one)


@part
def _fit_partition(
    first: int,
    width: int,
    broker: Ids,
    rack_of: Ids,
    spot: Ids,
    rack_begin: Ids,
    epoch: int,
    stripe: int,
    early: bool,
    base: Ints,
    rack_at: Ints,
    slot_of: Ints,
    broker_at: Ints,
    seat_of: Ints,
    given: Ints,
    told: Ints,
) -> int:
    """How many replicas could have failed, or -1 if one does. given: int64 (racks), to work in.

    stripe: slot of this round's first partition.   early: the first round.
    """
    racks = len(rack_begin) - 1
    n = rack_begin[racks]
    given[:] = 0
    here = (stripe + epoch) % racks
    slot, passed, evidence = here, False, 0
    for rank in range(width):
        while rank > 0:
            if slot == here and not passed:
                passed = True
            else:
                rack = slot if early else rack_at[slot]
                if rack == FREE or given[slot] < rack_begin[rack + 1] - rack_begin[rack]:
                    break
            slot = slot + 1 if slot + 1 < racks else 0
        steps = given[slot] + touched((slot - stripe) % racks, min(width, racks), racks, epoch)
        one = broker[first + rank]
        if early:
            good = _bind_first(one, steps, rack_of, spot, rack_begin, slot, base, told)
        else:
            good = _bind_later(one, steps, rack_of, rack_begin, slot, rack_at, slot_of, broker_at, seat_of, told)
        if not good:
            return -1
        given[slot] += 1
        if rank < n - 1:
            evidence += told[0]
        if rank > 0:
            slot = slot + 1 if slot + 1 < racks else 0
    return evidence


@part
def fit_rows(
    lo: int,
    hi: int,
    begin: int,
    partition: Ints,
    replica_offsets: Ints,
    broker: Ids,
    rack_of: Ids,
    spot: Ids,
    rack_begin: Ids,
    shuffles: bool,
    room: Ints,
) -> tuple[int, int]:
    """(first row that cannot be, or hi; evidence) of rows lo.. placed as one request from partition id `begin` on.

    rack_of: int32 (brokers), rack in order, -1 = not one of them.   spot: int32 (brokers), place within the rack.
    rack_begin: int32 (racks + 1).   room: int64 (5 racks + brokers + n + 2), to work in.
    """
    racks, brokers = len(rack_begin) - 1, len(rack_of)
    n = rack_begin[racks]
    width = replica_offsets[lo + 1] - replica_offsets[lo] if hi > lo else 0
    if width == 0 or width > n:
        return lo, 0
    base, rack_at, slot_of, given = (
        room[:racks],
        room[racks : 2 * racks],
        room[2 * racks : 3 * racks],
        room[3 * racks :],
    )
    given, told = given[:racks], room[4 * racks : 5 * racks + 2]
    broker_at, seat_of = room[5 * racks + 2 :][:n], room[5 * racks + 2 + n :][:brokers]
    base[:] = FREE
    length = n if shuffles and n > 1 else 1 << 40
    # A rack's list that was last stepped on in partition e of a round, and next in partition e of the following one,
    # is not wound back: it may be passed over, in ways that say little about what is seen. Only with few brokers.
    winds_back = n - 1 > 2 * (racks - min(width, racks))
    base[:] = FREE
    stripe = (rack_of[broker[replica_offsets[lo]]] - (partition[lo] - begin)) % racks
    current, evidence = 0, 0
    for row in range(lo, hi):
        first = replica_offsets[row]
        if replica_offsets[row + 1] - first != width:
            return row, evidence
        for at in range(first, first + width):
            if rack_of[broker[at]] < 0:
                return row, evidence
        ordinal = partition[row] - begin
        early = ordinal < length
        if not early and not winds_back:
            continue
        if ordinal // length != current or row == lo:
            current = ordinal // length
            rack_at[:], slot_of[:], broker_at[:], seat_of[:], told[:] = FREE, FREE, FREE, FREE, 0
        from_stripe = stripe if early else 0
        counted = _fit_partition(
            *(first, width, broker, rack_of, spot, rack_begin, ordinal % length, from_stripe, early),
            *(base, rack_at, slot_of, broker_at, seat_of, given, told),
        )
        if counted < 0:
            return row, evidence
        # The very first leader is free: it tells the stripe.
        evidence += counted - (1 if early and row == lo and racks > 1 else 0)
    return hi, evidence


@compiled
def fit_striped(
    row_offsets: Ints,
    partition: Ints,
    replica_offsets: Ints,
    broker: Ids,
    topics: Ints,
    rack_of: Ids,
    spot: Ids,
    rack_begin: Ids,
    shuffles: bool,
    room: Ints,
    until: Ints,
    evidence: Ints,
    start: Ints,
    shift: Ints,
    expanded_from_partition: Ints,
) -> None:
    """Fits of these topics (int64, m) to the striped placement over brokers in racks; see fit_rows."""
    for i in range(len(topics)):
        lo, hi = row_offsets[topics[i]], row_offsets[topics[i] + 1]
        start[i], shift[i], expanded_from_partition[i] = UNKNOWN, UNKNOWN, UNKNOWN
        given = (partition, replica_offsets, broker, rack_of, spot, rack_begin)
        until[i], evidence[i] = fit_rows(lo, hi, 0, *given, shuffles, room)


@compiled
def fit_striped_growth(
    row_offsets: Ints,
    partition: Ints,
    replica_offsets: Ints,
    broker: Ids,
    topics: Ints,
    rack_of: Ids,
    spot: Ids,
    rack_begin: Ids,
    shuffles: bool,
    room: Ints,
    until: Ints,
    evidence: Ints,
    expanded_from_partition: Ints,
    sure: Ints,
) -> None:
    """Continues the fits of these topics (int64, m) by one growth, where that explains all the rest.

    A growth is placed like a new topic, so almost anything short could be one: sure (int64, m) is 1 where it is long
    enough to tell. Fits that do not reach the end stay as they are.
    """
    n = rack_begin[len(rack_begin) - 1]
    for i in range(len(topics)):
        lo, hi = row_offsets[topics[i]], row_offsets[topics[i] + 1]
        if until[i] <= lo or until[i] >= hi:
            continue
        width = replica_offsets[lo + 1] - replica_offsets[lo]
        for row in range(until[i], max(lo, until[i] - 4 * n), -1):
            if replica_offsets[row + 1] - replica_offsets[row] != width:
                break
            given = (partition, replica_offsets, broker, rack_of, spot, rack_begin)
            end, told = fit_rows(row, hi, partition[row], *given, shuffles, room)
            if end == hi:
                long_enough = hi - row >= ENOUGH_ROWS and told >= ENOUGH_EVIDENCE
                if expanded_from_partition[i] == UNKNOWN or long_enough:
                    expanded_from_partition[i], sure[i] = partition[row], 1 if long_enough else 0
                    if long_enough:
                        _, before = fit_rows(lo, row, 0, *given, shuffles, room)
                        evidence[i] = before + told
                    else:
                        evidence[i] = 0
                if long_enough:
                    break
        if expanded_from_partition[i] != UNKNOWN:
            until[i] = hi
