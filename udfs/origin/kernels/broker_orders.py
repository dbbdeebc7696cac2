"""Broker orders that observed topics may have been placed over: proposals from what follows what, and from repeats.

From one partition to the next, each rank's replica moves one place on in the order that Kafka was given, but where
the followers' shift grows. So topics vote: broker b right behind broker a.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled
from udfs.origin.kernels.round_robin_fit import UNKNOWN, Observed
from udfs.placement.kernels.topic_arrays import Ids, Ints

Votes = npt.NDArray[np.int32]


@compiled
def count_votes(
    row_offsets: Ints, partition: Ints, replica_offsets: Ints, broker: Ids, topics: Ints, leaders_only: bool, out: Votes
) -> None:
    """Votes of these topics (int64, m) that b comes right behind a: out, int32 (brokers, brokers), added to [a, b].

    leaders_only: as for rack-aware topics, whose followers skip. Else followers vote, too, and neighbours in a list.
    """
    for i in range(len(topics)):
        for row in range(row_offsets[topics[i]], row_offsets[topics[i] + 1]):
            first, last = replica_offsets[row], replica_offsets[row + 1]
            if not leaders_only:
                for at in range(first + 1, last - 1):
                    out[broker[at], broker[at + 1]] += 1
            if row + 1 == row_offsets[topics[i] + 1] or partition[row + 1] != partition[row] + 1:
                continue
            behind = replica_offsets[row + 2] - last
            for rank in range(min(last - first, behind, 1 if leaders_only else 1 << 30)):
                a, b = broker[first + rank], broker[last + rank]
                if a != b:
                    out[a, b] += 3 if rank == 0 else 2  # a leader never skips


@compiled
def best_successors(votes: Votes, member: npt.NDArray[np.bool_], close: bool, out: Ids) -> None:
    """Each member's successor by falling votes, one for each and each one's only: out, int32 (brokers), -1 = none.

    close: no cycle before all members are in it.
    """
    size = len(member)
    out[:] = -1
    taken = np.zeros(size, dtype=np.bool_)
    end_of = np.arange(size)  # of the path that begins here
    members = 0
    for a in range(size):
        members += member[a]
    begin_of = np.arange(size)
    a_of, b_of = np.nonzero(votes)
    weight = np.empty(len(a_of), dtype=np.int64)
    for i in range(len(a_of)):
        weight[i] = -votes[a_of[i], b_of[i]]
    ranked = np.argsort(weight, kind="mergesort")
    joined = 0
    for i in range(len(ranked)):
        a, b = a_of[ranked[i]], b_of[ranked[i]]
        if not (member[a] and member[b]) or a == b or out[a] >= 0 or taken[b]:
            continue
        if close and begin_of[a] == b and joined < members - 1:
            continue
        out[a] = b
        taken[b] = True
        joined += 1
        begin, end = begin_of[a], end_of[b]
        end_of[begin] = end
        begin_of[end] = begin
    if close:  # what nobody voted on: paths one behind the other
        last = -1
        first = -1
        for a in range(size):
            if member[a] and not taken[a]:
                if last >= 0:
                    out[last] = a
                else:
                    first = a
                last = end_of[a]
        if last >= 0:
            out[last] = first


@compiled
def leaders_period(row_offsets: Ints, replica_offsets: Ints, partition: Ints, broker: Ids, topic: int) -> int:
    """After how many partitions the first leader of a topic leads again, 0 = never, or not all of these are shown."""
    lo, hi = row_offsets[topic], row_offsets[topic + 1]
    for row in range(lo, hi):
        first, last = replica_offsets[row], replica_offsets[row + 1]
        if first == last or partition[row] != partition[lo] + row - lo:
            return 0
        if row > lo and broker[first] == broker[replica_offsets[lo]]:
            return int(row - lo)
    return 0


@compiled
def repeated_cycles(
    row_offsets: Ints, partition: Ints, replica_offsets: Ints, broker: Ids, topics: Ints, salt: Ints, out: Ints
) -> None:
    """For each of these topics, a number that stands for the cycle of its leaders: out, int64 (m), 0 = no cycle.

    salt: int64 (brokers), random.
    """
    for i in range(len(topics)):
        period = leaders_period(row_offsets, replica_offsets, partition, broker, topics[i])
        lo = row_offsets[topics[i]]
        value = np.int64(0)
        for row in range(lo, lo + period):
            a = broker[replica_offsets[row]]
            b = broker[replica_offsets[row + 1 if row + 1 < lo + period else lo]]
            value += salt[a] * (salt[b] | 1)
        out[i] = value


def _cycles(successor: Ids) -> list[list[int]]:
    """The closed cycles of a successor array, each from its smallest member on."""
    seen = np.zeros(len(successor), dtype=np.bool_)
    found = []
    for begin in range(len(successor)):
        path, at = [], begin
        while at >= 0 and not seen[at]:
            seen[at] = True
            path.append(at)
            at = int(successor[at])
        if path and at == begin:
            found.append(path)
    return sorted(found, key=len, reverse=True)


def proposals(observed: Observed, topics: Ints, sets: list[Ids], limit: int = 4) -> list[Ids]:
    """Orders that may explain these topics (int64): broker indices, each from its smallest on; the same may be twice.

    sets: brokers that an order may be over.
    """
    brokers = int(max((int(s.max(initial=-1)) for s in sets), default=-1)) + 1
    found: list[list[int]] = []
    salt = np.random.default_rng(0).integers(1 << 62, size=brokers)
    numbers = np.empty(len(topics), dtype=np.int64)
    repeated_cycles(*observed.arrays, topics, salt, numbers)
    kinds, where, counts = np.unique(numbers, return_index=True, return_counts=True)
    for kind in np.argsort(-counts, kind="stable")[: limit + 1]:
        if kinds[kind] != 0:
            topic = topics[where[kind]]
            lo = observed.row_offsets[topic]
            period = leaders_period(
                *(observed.row_offsets, observed.replica_offsets, observed.partition, observed.broker, topic)
            )
            leaders = observed.broker[observed.replica_offsets[lo : lo + period]]
            if len(set(leaders.tolist())) == period:
                found.append(np.roll(leaders, -int(leaders.argmin())).tolist())
    for leaders_only in (False, True):
        votes = np.zeros((brokers, brokers), dtype=np.int32)
        count_votes(*observed.arrays, topics, leaders_only, votes)
        successor = np.empty(brokers, dtype=np.int32)
        best_successors(votes, np.ones(brokers, dtype=np.bool_), False, successor)
        found += _cycles(successor)[:limit]
        for members in sets:
            member = np.zeros(brokers, dtype=np.bool_)
            member[members] = True
            best_successors(votes, member, True, successor)
            found += [cycle for cycle in _cycles(successor) if len(cycle) == len(members)]
    return [np.array(cycle, dtype=np.int32) for cycle in found if len(cycle) > 1]


@compiled
def fit_some_order(
    row_offsets: Ints,
    partition: Ints,
    replica_offsets: Ints,
    broker: Ids,
    topics: Ints,
    sizes: Ints,
    place: Ints,
    seat: Ints,
    out: Ints,
) -> None:
    """Whether Kafka could have placed a topic over some order of some brokers at all: out, int64 (m).

    The size of the order with which it could, 0 = none. sizes: int64, to try, rising.   place (brokers), seat
    (largest size): int64, to work in, filled with -1.

    Partition p's leader is put at place p; a shift then puts every follower; each broker must have one place, and each
    place one broker.
    """
    for i in range(len(topics)):
        lo, hi = row_offsets[topics[i]], row_offsets[topics[i] + 1]
        width = replica_offsets[lo + 1] - replica_offsets[lo] if hi > lo else 0
        out[i] = 0
        for which in range(len(sizes)):
            n = sizes[which]
            if width == 0 or width > n:
                continue
            for shift in range(n - 1 if width > 1 else 1):
                good = True
                at = replica_offsets[lo]
                reached = lo
                while good and reached < hi:
                    row = reached
                    good = replica_offsets[row + 1] - replica_offsets[row] == width
                    for rank in range(width if good else 0):
                        spot = partition[row] % n
                        if rank > 0:
                            spot = (spot + 1 + (shift + partition[row] // n + rank - 1) % (n - 1)) % n
                        one = broker[at]
                        if place[one] == UNKNOWN and seat[spot] == UNKNOWN:
                            place[one], seat[spot] = spot, one
                        elif place[one] != spot:
                            good = False
                            break
                        at += 1
                    reached += 1
                # Undo: what was put down belongs to rows up to the one reached.
                for j in range(replica_offsets[lo], replica_offsets[reached]):
                    if place[broker[j]] != UNKNOWN:
                        seat[place[broker[j]]] = UNKNOWN
                        place[broker[j]] = UNKNOWN
                if good:
                    out[i] = n
                    break
            if out[i] > 0:
                break
