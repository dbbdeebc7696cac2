"""Propose broker orders that observed topics may have been placed over.

From one partition to the next, each rank's replica moves one position on, except where the followers' shift grows: so
each topic votes that broker b comes right after broker a.
"""

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled
from udfs.origin.kernels.round_robin_fit import UNKNOWN, ObservedTopics, get_width
from udfs.placement.kernels.topic_arrays import Ids, Ints

Votes = npt.NDArray[np.int32]

_ORDERS_PER_SEARCH = 4


@compiled
def _count_votes(observed: ObservedTopics, topics: Ints, leaders_only: bool, out: Votes) -> None:
    """Add votes that broker b comes right after a to out (brokers, brokers); leaders_only: as for rack-aware topics."""
    partition, broker = observed.partition, observed.broker
    for i in range(len(topics)):
        end = observed.row_offsets[topics[i] + 1]
        for row in range(observed.row_offsets[topics[i]], end):
            first, last = observed.replica_offsets[row], observed.replica_offsets[row + 1]
            if not leaders_only:
                for at in range(first + 1, last - 1):
                    out[broker[at], broker[at + 1]] += 1
            if row + 1 == end or partition[row + 1] != partition[row] + 1:
                continue
            width = min(last - first, get_width(observed, row + 1))
            for rank in range(min(width, 1 if leaders_only else width)):
                a, b = broker[first + rank], broker[last + rank]
                if a != b:
                    out[a, b] += 3 if rank == 0 else 2  # a leader never skips a broker


@compiled
def _choose_next(votes: Votes, member: npt.NDArray[np.bool_], close: bool, out: Ids) -> None:
    """Choose a distinct next broker (int32, -1 = none) of each member, by votes; close: in a single cycle."""
    size = len(member)
    out[:] = -1
    used = np.zeros(size, dtype=np.bool_)
    end_of = np.arange(size)  # of the path that begins here
    begin_of = np.arange(size)  # of the path that ends here
    members = member.sum()
    a_of, b_of = np.nonzero(votes)
    weight = np.empty(len(a_of), dtype=np.int64)
    for i in range(len(a_of)):
        weight[i] = -votes[a_of[i], b_of[i]]
    ranked = np.argsort(weight, kind="mergesort")
    joined = 0
    for i in range(len(ranked)):
        a, b = a_of[ranked[i]], b_of[ranked[i]]
        if not (member[a] and member[b]) or a == b or out[a] >= 0 or used[b]:
            continue
        if close and begin_of[a] == b and joined < members - 1:
            continue
        out[a] = b
        used[b] = True
        joined += 1
        begin, end = begin_of[a], end_of[b]
        end_of[begin] = end
        begin_of[end] = begin
    if close:  # join paths that have no votes, one after the other
        last = -1
        first = -1
        for a in range(size):
            if member[a] and not used[a]:
                if last >= 0:
                    out[last] = a
                else:
                    first = a
                last = end_of[a]
        if last >= 0:
            out[last] = first


@compiled
def _find_leader_period(observed: ObservedTopics, topic: int) -> int:
    """Return after how many partitions a topic's first leader leads again; 0 = never, or some of these are missing."""
    lo, hi = observed.row_offsets[topic], observed.row_offsets[topic + 1]
    broker, replica_offsets = observed.broker, observed.replica_offsets
    for row in range(lo, hi):
        first, last = replica_offsets[row], replica_offsets[row + 1]
        if first == last or observed.partition[row] != observed.partition[lo] + row - lo:
            return 0
        if row > lo and broker[first] == broker[replica_offsets[lo]]:
            return int(row - lo)
    return 0


@compiled
def _hash_leader_cycles(observed: ObservedTopics, topics: Ints, salt: Ints, out: Ints) -> None:
    """Hash the cycle of leaders of each topic, whatever its rotation; 0 = they do not repeat. salt: random."""
    for i in range(len(topics)):
        period = _find_leader_period(observed, topics[i])
        lo = observed.row_offsets[topics[i]]
        value = np.int64(0)
        for row in range(lo, lo + period):
            a = observed.broker[observed.replica_offsets[row]]
            b = observed.broker[observed.replica_offsets[row + 1 if row + 1 < lo + period else lo]]
            value += salt[a] * (salt[b] | 1)
        out[i] = value


def _find_cycles(next_broker: Ids) -> list[list[int]]:
    """Return the closed cycles, each from its smallest member, the longest first."""
    seen = np.zeros(len(next_broker), dtype=np.bool_)
    cycles = []
    for begin in range(len(next_broker)):
        path, at = [], begin
        while at >= 0 and not seen[at]:
            seen[at] = True
            path.append(at)
            at = int(next_broker[at])
        if path and at == begin:
            cycles.append(path)
    return sorted(cycles, key=len, reverse=True)


def propose_orders(observed: ObservedTopics, topics: Ints, member_sets: list[Ids]) -> list[Ids]:
    """Propose orders (int32, from the smallest broker) over any brokers or these sets; some may be repeated."""
    brokers = int(max((int(members.max(initial=-1)) for members in member_sets), default=-1)) + 1
    orders: list[list[int]] = []
    salt = np.random.default_rng(0).integers(1 << 62, size=brokers)
    hashes = np.empty(len(topics), dtype=np.int64)
    _hash_leader_cycles(observed, topics, salt, hashes)
    distinct, where, counts = np.unique(hashes, return_index=True, return_counts=True)
    for i in np.argsort(-counts, kind="stable")[: _ORDERS_PER_SEARCH + 1]:
        if distinct[i] != 0:
            topic = topics[where[i]]
            lo, period = observed.row_offsets[topic], _find_leader_period(observed, topic)
            leaders = observed.broker[observed.replica_offsets[lo : lo + period]]
            if len(set(leaders.tolist())) == period:
                orders.append(np.roll(leaders, -int(leaders.argmin())).tolist())
    for leaders_only in (False, True):
        votes = np.zeros((brokers, brokers), dtype=np.int32)
        _count_votes(observed, topics, leaders_only, votes)
        next_broker = np.empty(brokers, dtype=np.int32)
        _choose_next(votes, np.ones(brokers, dtype=np.bool_), False, next_broker)
        orders += _find_cycles(next_broker)[:_ORDERS_PER_SEARCH]
        for members in member_sets:
            member = np.zeros(brokers, dtype=np.bool_)
            member[members] = True
            _choose_next(votes, member, True, next_broker)
            orders += [cycle for cycle in _find_cycles(next_broker) if len(cycle) == len(members)]
    return [np.array(order, dtype=np.int32) for order in orders if len(order) > 1]


@compiled
def fit_any_order(
    observed: ObservedTopics, topics: Ints, sizes: Ints, position: Ints, broker_at: Ints, out: Ints
) -> None:
    """Find whether Kafka's round robin over any order of any brokers could have placed each of m topics.

    The leader of partition p is put at position p; a shift then determines the followers. Positions must be unique.
    sizes: to try, ascending; position, broker_at: working memory, UNKNOWN; out: int64 (m), first size that fits, 0 =
    none.
    """
    partition, broker, replica_offsets = observed.partition, observed.broker, observed.replica_offsets
    for i in range(len(topics)):
        lo, hi = observed.row_offsets[topics[i]], observed.row_offsets[topics[i] + 1]
        width = get_width(observed, lo) if hi > lo else 0
        out[i] = 0
        for which in range(len(sizes)):
            n = sizes[which]
            if width == 0 or width > n:
                continue
            for shift in range(n - 1 if width > 1 else 1):
                fits = True
                at = replica_offsets[lo]
                reached = lo
                while fits and reached < hi:
                    row = reached
                    fits = get_width(observed, row) == width
                    for rank in range(width if fits else 0):
                        expected = partition[row] % n
                        if rank > 0:
                            expected = (expected + 1 + (shift + partition[row] // n + rank - 1) % (n - 1)) % n
                        one = broker[at]
                        if position[one] == UNKNOWN and broker_at[expected] == UNKNOWN:
                            position[one], broker_at[expected] = expected, one
                        elif position[one] != expected:
                            fits = False
                            break
                        at += 1
                    reached += 1
                # Clear the working memory: only rows up to the one reached have used it.
                for j in range(replica_offsets[lo], replica_offsets[reached]):
                    if position[broker[j]] != UNKNOWN:
                        broker_at[position[broker[j]]] = UNKNOWN
                        position[broker[j]] = UNKNOWN
                if fits:
                    out[i] = n
                    break
            if out[i] > 0:
                break
