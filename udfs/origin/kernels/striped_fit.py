"""Fit observed topics to KRaft's striped placement: do offsets and shuffles exist that give the observed replicas?

Nothing is drawn: each unknown draw is bound by the first replica that depends on it, and must then hold. Until as many
partitions are placed as there are brokers (the first epoch), racks and brokers are in order, from unknown offsets; in
each later epoch (not before Kafka 4.1) in an unknown order. Source: udfs/placement/kernels/striped.py; all brokers are
assumed to be unfenced. Gaps between partitions do not matter.
"""

from typing import NamedTuple

import numpy as np

from udfs.kernel_compiler import compiled, part
from udfs.origin.kernels.round_robin_fit import UNKNOWN, ObservedTopics, PatternFits, get_width
from udfs.placement.kernels.topic_arrays import Ids, Ints

FREE = -1  # not bound yet
MISMATCH = -1
_MIN_ROWS, _MIN_EVIDENCE = 4, 6  # of an expansion, which is placed like a new topic: shorter ones fit by chance


class RackPositions(NamedTuple):
    """n brokers of a cluster by rack."""

    rack: Ids  # int32 (brokers of the cluster), rack number, -1 = not one of the n
    position: Ids  # int32 (brokers of the cluster), position within the rack
    begin: Ids  # int32 (racks + 1), cumulative sizes of the racks


class BoundDraws(NamedTuple):
    """What the replicas so far imply about the draws. All arrays are int64, FREE = nothing yet."""

    offset: Ints  # (racks), offset of each rack's list in the first epoch
    rack_at: Ints  # (racks), rack in each slot of the current epoch
    slot_of: Ints  # (racks), slot of each rack
    broker_at: Ints  # (n), broker at each seat: the racks' lists one after the other, in the order of the epoch
    seat_of: Ints  # (brokers of the cluster), seat of each broker
    used: Ints  # (racks), brokers used of each slot's rack in the current partition
    racks_bound: Ints  # (1), number of racks with a slot
    brokers_bound: Ints  # (racks), number of brokers with a seat, by rack


def create_draws(racks: RackPositions) -> BoundDraws:
    """Allocate working memory for topics over brokers in these racks."""
    count, n, brokers = len(racks.begin) - 1, int(racks.begin[-1]), len(racks.rack)
    sizes = (count, count, count, n, brokers, count, 1, count)
    return BoundDraws(*(np.zeros(size, dtype=np.int64) for size in sizes))


@compiled
def count_steps(distance: int, width: int, racks: int, epoch: int) -> int:
    """Return in how many of `epoch` partitions of `width` racks the list of a rack, `distance` away, advances."""
    rest = epoch % racks
    near = max(0, min(distance + 1, rest) - max(0, distance - width + 1))
    far = max(0, rest - (distance - width + 1 + racks))
    return epoch // racks * width + near + far


@part
def _bind_first_epoch(broker: int, steps: int, racks: RackPositions, rack: int, draws: BoundDraws) -> int:
    """Bind a replica of a known rack; return 1 if it could have been a mismatch, 0 if not, or MISMATCH."""
    if racks.rack[broker] != rack:
        return MISMATCH
    size = racks.begin[rack + 1] - racks.begin[rack]
    offset = (racks.position[broker] - steps) % size
    if draws.offset[rack] == FREE:
        draws.offset[rack] = offset
        return 1 if len(racks.begin) > 2 else 0
    if draws.offset[rack] != offset:
        return MISMATCH
    return 1 if size > 1 or len(racks.begin) > 2 else 0


@part
def _bind_later_epoch(broker: int, steps: int, racks: RackPositions, slot: int, draws: BoundDraws) -> int:
    """Bind a replica of a later epoch, where neither the slot's rack nor the rack's order is known; return as above."""
    rack = racks.rack[broker]
    evidence = 0
    if rack < 0:
        return MISMATCH
    if draws.rack_at[slot] == FREE:
        if draws.slot_of[rack] != FREE:
            return MISMATCH
        evidence = 1 if draws.racks_bound[0] > 0 else 0
        draws.racks_bound[0] += 1
        draws.rack_at[slot], draws.slot_of[rack] = rack, slot
    elif draws.rack_at[slot] != rack:
        return MISMATCH
    elif len(racks.begin) > 2:
        evidence = 1
    begin = racks.begin[rack]
    size = racks.begin[rack + 1] - begin
    seat = begin + steps % size
    if draws.broker_at[seat] == FREE:
        if draws.seat_of[broker] != FREE:
            return MISMATCH
        draws.broker_at[seat], draws.seat_of[broker] = broker, seat
        draws.brokers_bound[rack] += 1
        return 1 if draws.brokers_bound[rack] > 1 else evidence
    if draws.broker_at[seat] != broker:
        return MISMATCH
    return 1 if size > 1 else evidence


@part
def _fit_partition(
    replicas: Ids, racks: RackPositions, draws: BoundDraws, epoch: int, stripe: int, is_first_epoch: bool
) -> int:
    """Bind a partition's replicas; return how many could have been a mismatch, or MISMATCH. epoch: its number."""
    count, width, used = len(racks.begin) - 1, len(replicas), draws.used
    n = racks.begin[count]
    used[:] = 0
    first = (stripe + epoch) % count
    slot, skipped_first, evidence = first, False, 0
    for rank in range(width):
        while rank > 0:
            if slot == first and not skipped_first:
                skipped_first = True
            else:
                rack = slot if is_first_epoch else draws.rack_at[slot]
                if rack == FREE or used[slot] < racks.begin[rack + 1] - racks.begin[rack]:
                    break
            slot = slot + 1 if slot + 1 < count else 0
        steps = used[slot] + count_steps((slot - stripe) % count, min(width, count), count, epoch)
        if is_first_epoch:
            bound = _bind_first_epoch(replicas[rank], steps, racks, slot, draws)
        else:
            bound = _bind_later_epoch(replicas[rank], steps, racks, slot, draws)
        if bound == MISMATCH:
            return MISMATCH
        used[slot] += 1
        if rank < n - 1:
            evidence += bound
        if rank > 0:
            slot = slot + 1 if slot + 1 < count else 0
    return evidence


@part
def _fit_rows(
    observed: ObservedTopics, lo: int, hi: int, begin: int, racks: RackPositions, shuffles: bool, draws: BoundDraws
) -> tuple[int, int]:
    """Fit rows lo to hi - 1 as a request from partition `begin`; return (first row that differs, evidence)."""
    count = len(racks.begin) - 1
    n = racks.begin[count]
    width = get_width(observed, lo) if hi > lo else 0
    if width == 0 or width > n:
        return lo, 0
    draws.offset[:] = FREE
    length = n if shuffles and n > 1 else 1 << 40
    # A list that advanced last in partition e of an epoch, and next in partition e of the following one, does not
    # restart: it may be skipped in ways that say little about what is observed. This needs few brokers.
    restarts = n - 1 > 2 * (count - min(width, count))
    stripe = (racks.rack[observed.broker[observed.replica_offsets[lo]]] - (observed.partition[lo] - begin)) % count
    current, evidence = 0, 0
    for row in range(lo, hi):
        replicas = observed.broker[observed.replica_offsets[row] : observed.replica_offsets[row + 1]]
        if len(replicas) != width:
            return row, evidence
        for broker in replicas:
            if racks.rack[broker] < 0:
                return row, evidence
        ordinal = observed.partition[row] - begin
        is_first_epoch = ordinal < length
        if not is_first_epoch and not restarts:
            continue
        if ordinal // length != current or row == lo:
            current = ordinal // length
            draws.rack_at[:], draws.slot_of[:], draws.broker_at[:], draws.seat_of[:] = FREE, FREE, FREE, FREE
            draws.racks_bound[:], draws.brokers_bound[:] = 0, 0
        first_slot = stripe if is_first_epoch else 0
        bound = _fit_partition(replicas, racks, draws, ordinal % length, first_slot, is_first_epoch)
        if bound == MISMATCH:
            return row, evidence
        # The very first leader always fits: it determines the stripe.
        evidence += bound - (1 if is_first_epoch and row == lo and count > 1 else 0)
    return hi, evidence


@compiled
def fit_striped(
    observed: ObservedTopics, topics: Ints, racks: RackPositions, shuffles: bool, draws: BoundDraws, fits: PatternFits
) -> None:
    """Fit topics to the striped placement; shuffles: whether later epochs shuffle (Kafka 4.1 and later)."""
    for i in range(len(topics)):
        lo, hi = observed.row_offsets[topics[i]], observed.row_offsets[topics[i] + 1]
        fits.until[i], fits.evidence[i] = _fit_rows(observed, lo, hi, 0, racks, shuffles, draws)


@compiled
def fit_striped_expansions(
    observed: ObservedTopics,
    topics: Ints,
    racks: RackPositions,
    shuffles: bool,
    draws: BoundDraws,
    fits: PatternFits,
    conclusive: Ints,
) -> None:
    """Continue fits by one expansion that explains all later rows; conclusive (m) is 0 if it is short."""
    n = racks.begin[len(racks.begin) - 1]
    for i in range(len(topics)):
        lo, hi = observed.row_offsets[topics[i]], observed.row_offsets[topics[i] + 1]
        if fits.until[i] <= lo or fits.until[i] >= hi:
            continue
        width = get_width(observed, lo)
        for row in range(fits.until[i], max(lo, fits.until[i] - 4 * n), -1):
            if get_width(observed, row) != width:
                break
            end, evidence = _fit_rows(observed, row, hi, observed.partition[row], racks, shuffles, draws)
            if end == hi:
                long_enough = hi - row >= _MIN_ROWS and evidence >= _MIN_EVIDENCE
                if fits.expanded_from_partition[i] == UNKNOWN or long_enough:
                    fits.expanded_from_partition[i] = observed.partition[row]
                    conclusive[i], fits.evidence[i] = 0, 0
                if long_enough:
                    _, before = _fit_rows(observed, lo, row, 0, racks, shuffles, draws)
                    conclusive[i], fits.evidence[i] = 1, before + evidence
                    break
        if fits.expanded_from_partition[i] != UNKNOWN:
            fits.until[i] = hi
