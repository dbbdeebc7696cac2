"""Fit observed topics to Kafka's rack-aware round robin, and later partitions to expansions, by placing."""

from typing import NamedTuple

import numpy as np

from udfs.arrow.ragged import offsets_of, take_segments
from udfs.kernel_compiler import compiled, part
from udfs.origin.kernels.round_robin_fit import UNKNOWN, ObservedTopics, PatternFits, get_width
from udfs.placement.kernels.round_robin import ReplicaScratch, create_scratch, place_partition
from udfs.placement.kernels.topic_arrays import Ids, Ints

_ROUNDS_BACK = 3  # rounds over the brokers before the break in which the begin of an expansion is searched


class BrokerOrder(NamedTuple):
    """An order of n brokers: broker index and rack by position, int32 (n); racks = 0: ignore racks."""

    order: Ids
    rack: Ids
    racks: int
    scratch: ReplicaScratch


def create_order(order: Ids, rack: Ids | None = None, racks: int = 0) -> BrokerOrder:
    """Build a broker order, without racks by default."""
    return BrokerOrder(order, np.zeros_like(order) if rack is None else rack, racks, create_scratch(len(order)))


@part
def matches_placement(
    observed: ObservedTopics, first: int, width: int, order: BrokerOrder, leader: int, turn: int
) -> bool:
    """Return whether Kafka places the `width` observed replicas from `first`; leader: a position, turn: shift here."""
    n, brokers, broker = len(order.order), order.order, observed.broker
    if broker[first] != brokers[leader]:
        return False
    if order.racks == 0:
        for rank in range(width - 1):
            follower = (leader + 1 + (turn + rank) % (n - 1)) % n
            if broker[first + 1 + rank] != brokers[follower]:
                return False
        return True
    place_partition(order.rack, order.racks, leader, turn, width, order.scratch)
    same = 1
    while same < width and broker[first + same] == brokers[order.scratch.replicas[same]]:
        same += 1
    return bool(same >= width)


@part
def _fit_shift(observed: ObservedTopics, lo: int, hi: int, order: BrokerOrder, start: int, shift: int) -> int:
    """Return the first row that is not as placed with this start index and shift."""
    n = len(order.order)
    width = get_width(observed, lo)
    for row in range(lo, hi):
        if get_width(observed, row) != width:
            return row
        leader, turn = (observed.partition[row] + start) % n, shift + observed.partition[row] // n
        if not matches_placement(observed, observed.replica_offsets[row], width, order, leader, turn):
            return row
    return hi


@compiled
def fit_rack_aware(
    observed: ObservedTopics, topics: Ints, position: Ids, order: BrokerOrder, fits: PatternFits
) -> None:
    """Fit topics to the rack-aware round robin by trying every shift; of equally good shifts, take the smallest."""
    n = len(order.order)
    for i in range(len(topics)):
        lo, hi = observed.row_offsets[topics[i]], observed.row_offsets[topics[i] + 1]
        fits.until[i] = lo
        if lo == hi:
            continue
        first, width = observed.replica_offsets[lo], get_width(observed, lo)
        if width == 0 or width > n or position[observed.broker[first]] < 0:
            continue
        leader, rounds = position[observed.broker[first]], observed.partition[lo] // n
        fits.start[i] = (leader - observed.partition[lo]) % n
        for shift in range(n - 1 if width > 1 else 1):
            if width > 2 and not matches_placement(observed, first, 2, order, leader, shift + rounds):
                continue
            end = _fit_shift(observed, lo, hi, order, fits.start[i], shift)
            if end > fits.until[i]:
                fits.until[i] = end
                fits.shift[i] = shift if width > 1 else UNKNOWN
            if end == hi:
                break
        if fits.until[i] > lo:
            free = (1 if n > 1 else 0) + (1 if width > 1 and n > 2 else 0)
            fits.evidence[i] = (fits.until[i] - lo) * min(width, n - 1) - free


@part
def find_expansion_start(by_id: Ids, first: int) -> int:
    """Return the start index of an expansion: of the first broker (int32, by id) not below partition 0's leader."""
    for i in range(len(by_id)):
        if by_id[i] >= first:
            return i
    return 0


@compiled
def fit_expansions(
    observed: ObservedTopics, topics: Ints, by_id: Ids, order: BrokerOrder, first_replica: Ints, fits: PatternFits
) -> None:
    """Continue fits after their first break, if expansions of the topic, one or several, explain all rows that follow.

    Kafka adds partitions over the brokers by id, alternated if they have racks (order). Start index and shift are the
    index of the first broker whose id is not below the first replica of partition 0 (first_replica: int64, m).
    """
    n = len(by_id)
    partition = observed.partition
    for i in range(len(topics)):
        lo, hi = observed.row_offsets[topics[i]], observed.row_offsets[topics[i] + 1]
        if fits.until[i] <= lo or fits.until[i] >= hi or first_replica[i] < 0:
            continue
        width = get_width(observed, lo)
        if width > n:
            continue
        start = find_expansion_start(by_id, first_replica[i])
        begin, expanded_from, row = fits.until[i], UNKNOWN, fits.until[i]
        while row < hi:
            reached = row
            latest = (partition[row] - 1) // n
            for block in range(latest, max(-1, latest - _ROUNDS_BACK), -1):
                # The latest partition of this round with which it can have begun: it needs fewest rows to match.
                candidate = min(partition[row], (block + 1) * n)
                at = row
                while at > lo and partition[at - 1] >= candidate:
                    at -= 1
                while at < hi and get_width(observed, at) == width:
                    leader, turn = (partition[at] + start) % n, start + partition[at] // n - block
                    if not matches_placement(observed, observed.replica_offsets[at], width, order, leader, turn):
                        break
                    at += 1
                if at > reached:
                    reached = at
                    if row == begin:
                        expanded_from = candidate
                if at == hi:
                    break
            if reached == row:
                break
            row = reached
        if row == hi:
            fits.until[i] = hi
            fits.expanded_from_partition[i] = expanded_from
            fits.evidence[i] += (hi - begin) * min(width, n - 1)


@compiled
def _find_expansions(observed: ObservedTopics, order: BrokerOrder, out: Ints) -> None:
    """Find the first row (out: int64, n) of the longest expansion with which each topic, from partition 0, can end."""
    n, partition = len(order.order), observed.partition
    for i in range(len(observed.row_offsets) - 1):
        lo, hi = observed.row_offsets[i], observed.row_offsets[i + 1]
        out[i] = hi
        if hi - lo < 2 or partition[lo] != 0 or n < 2:
            continue
        width = get_width(observed, lo)
        if width == 0 or width > n:
            continue
        start = find_expansion_start(order.order, observed.broker[observed.replica_offsets[lo]])
        # The round in which it began determines the shift, modulo n - 1.
        for first_round in range(n - 1 if width > 1 else 1):
            row = hi
            while row - 1 > lo and get_width(observed, row - 1) == width:
                leader = (partition[row - 1] + start) % n
                turn = start + (partition[row - 1] // n - first_round) % (n - 1)
                first = observed.replica_offsets[row - 1]
                if not matches_placement(observed, first, width, order, leader, turn):
                    break
                row -= 1
            if row == hi:
                continue
            begin = partition[row]
            later = (first_round - (begin - 1) // n) % (n - 1) if width > 1 else 0
            if later > 0:
                begin = ((begin - 1) // n + later) * n + 1
            while row < hi and partition[row] < begin:
                row += 1
            out[i] = min(out[i], row)


def remove_expansions(observed: ObservedTopics, topics: Ints, members: Ids) -> ObservedTopics:
    """Return topics (int64) without the longest expansion over members (int32, by id) with which each can end."""
    begin = np.empty(len(observed.row_offsets) - 1, dtype=np.int64)
    _find_expansions(observed, create_order(members), begin)
    counts = begin[topics] - observed.row_offsets[topics]
    row_offsets = offsets_of(counts)
    rows = np.repeat(observed.row_offsets[topics] - row_offsets[:-1], counts) + np.arange(int(row_offsets[-1]))
    broker, replica_offsets = take_segments(observed.broker, observed.replica_offsets, rows)
    return ObservedTopics(row_offsets, observed.partition[rows], replica_offsets, broker.astype(np.int32))
