"""Kafka's round robin with a shift, rack-aware or not.

Source: kafka.admin.AdminUtils: assignReplicasToBrokersRackUnaware, assignReplicasToBrokersRackAware, replicaIndex and
getRackAlternatedBrokerList, an order that alternates between racks. A rack-aware candidate for a follower is skipped if
its rack already has a replica while another rack has none, or if the broker has one while another has none.
"""

from typing import NamedTuple

import numpy as np

from udfs.kernel_compiler import compiled, part
from udfs.placement.kernels.topic_arrays import NO_RACK, BrokerLists, ErrorCode, Ids, Ints, PlacementBuffers, Topics

INT_END = 1 << 31  # sums from here on overflow in Java
INDEX_OUT_OF_BOUNDS = int(ErrorCode.INDEX_OUT_OF_BOUNDS)


class ReplicaScratch(NamedTuple):
    """Working memory to place the replicas of one partition over up to n brokers."""

    stamp: Ints  # int64 (1), number of the current partition, which marks used racks and brokers
    rack_used: Ints  # int64 (n), the last stamp of each rack
    broker_used: Ints  # int64 (n), the last stamp of each broker
    replicas: Ints  # int64 (n), output: index of each replica in the broker order


def create_scratch(brokers: int) -> ReplicaScratch:
    """Allocate working memory for broker orders of up to so many brokers."""
    return ReplicaScratch(*(np.zeros(size, dtype=np.int64) for size in (1, brokers, brokers, brokers)))


@part
def wrap_int(value: int) -> int:
    """Return the value after overflow of Java's 32-bit int."""
    return ((value + INT_END) & 0xFFFFFFFF) - INT_END


@part
def java_remainder(value: int, divisor: int) -> int:
    """Return Java's `value % divisor`, which has the sign of the dividend."""
    return value % divisor if value >= 0 else -((-value) % divisor)


@part
def replica_index(leader: int, shift: int, rank: int, brokers: int) -> int:
    """Return AdminUtils.replicaIndex, including its overflow."""
    return java_remainder(leader + 1 + java_remainder(wrap_int(shift + rank), brokers - 1), brokers)


@part
def count_shift_steps(start_partition: int, partition: int, brokers: int) -> int:
    """Count the increments of the shift up to `partition`: one at each id > 0 that the broker count divides."""
    return partition // brokers - ((start_partition - 1) // brokers if start_partition > 0 else 0)


@part
def _place_contiguous(
    ids: Ids, first: int, count: int, width: int, start: int, distance: int, growth: int, out: Ids
) -> None:
    """Place partitions first, first + 1, ... (count) of a topic: leader at (id + start) % n.

    `distance`, from the leader to its first follower, is in [1, n - 1] and grows by `growth` at each later id that n
    divides. Divisions would dominate the time, so every remainder is updated step by step.
    """
    n = len(ids)
    leader = (first + start) % n
    until = n - first % n  # partitions until the next id that n divides
    at = 0
    for _ in range(count):
        if until == 0:
            until = n
            distance += growth
            if distance >= n:
                distance = 1
        until -= 1
        out[at] = ids[leader]
        at += 1
        step = distance
        for _rank in range(1, width):
            follower = leader + step
            if follower >= n:
                follower -= n
            out[at] = ids[follower]
            at += 1
            step += 1
            if step >= n:
                step = 1
        leader += 1
        if leader == n:
            leader = 0


@part
def _place_any(
    ids: Ids, partitions: Ints, start_partition: int, width: int, start: int, shift: int, growth: int, out: Ids
) -> int:
    """Place any partition ids of a topic, with Java's overflow; return 0 or the negative index that Java rejects."""
    n = len(ids)
    at = 0
    for i in range(len(partitions)):
        partition = partitions[i]
        leader = java_remainder(wrap_int(partition + start), n)
        if leader < 0:
            return leader
        out[at] = ids[leader]
        at += 1
        turn = wrap_int(shift + growth * count_shift_steps(start_partition, min(partition, INT_END - 1), n))
        for rank in range(width - 1):
            follower = replica_index(leader, turn, rank, n)
            if follower < 0:
                return follower
            out[at] = ids[follower]
            at += 1
    return 0


@compiled
def place_round_robin(topics: Topics, lists: BrokerLists, rows: Ints, growth: int, buffers: PlacementBuffers) -> None:
    """Place the partitions (rows: int64, n; 0 = none) of topics, without regard to racks.

    growth: increment of the shift in each round over the brokers: 1, or 0 for the naive scheme.
    """
    for i in range(len(rows)):
        count = rows[i]
        if count == 0:
            continue
        k = topics.broker_list[i]
        ids = lists.ids[lists.offsets[k] : lists.offsets[k + 1]]
        n = len(ids)
        width, start, shift = topics.replication_factor[i], buffers.start_index[i], buffers.shift[i]
        first = max(0, topics.start_partition[i])
        out = buffers.broker[buffers.begin[i] : buffers.begin[i + 1]]
        partitions = topics.partition_ids[topics.partition_id_offsets[i] : topics.partition_id_offsets[i + 1]]
        last = first + count
        if len(partitions) > 0 or last + start >= INT_END or shift + last // n + width >= INT_END:
            if len(partitions) == 0:
                partitions = np.arange(first, last)
            index = _place_any(ids, partitions, first, width, start, shift, growth, out)
            if index < 0:
                buffers.error_code[i], buffers.error_detail[i] = INDEX_OUT_OF_BOUNDS, index
        else:
            turn = shift + growth * count_shift_steps(first, first, n)
            distance = turn % (n - 1) + 1 if n > 1 else 1
            _place_contiguous(ids, first, count, width, start, distance, growth, out)


@compiled
def alternate_racks(ids: Ids, rack: Ids, out_ids: Ids, out_rack: Ids) -> int:
    """Order brokers as Kafka does: racks in order, ids in order within a rack, one broker of each rack in turn.

    rack: ranks of the racks' names; out_rack numbers racks from 0; all int32 (n). Return the number of racks.
    """
    n = len(ids)
    by_id = np.argsort(ids)
    by_rack = by_id[np.argsort(rack[by_id], kind="mergesort")]
    turn = np.empty(n, dtype=np.int64)  # a broker's position within its rack
    number = np.empty(n, dtype=np.int64)
    racks = 0
    for i in range(n):
        broker = by_rack[i]
        if i == 0 or rack[broker] != rack[by_rack[i - 1]]:
            racks += 1
            turn[i] = 0
        else:
            turn[i] = turn[i - 1] + 1
        number[i] = racks - 1
    order = np.argsort(turn * racks + number)
    for i in range(n):
        out_ids[i] = ids[by_rack[order[i]]]
        out_rack[i] = number[order[i]]
    return racks


@compiled
def alternate_lists(lists: BrokerLists, rank: Ids, out_ids: Ids, out_rack: Ids, racks: Ints) -> None:
    """Order every list with `alternate_racks`; lists without racks keep their order.

    rank: int32 (flat), rank of each broker's rack. racks: int64 (m), output: racks of each list, 0 = none.
    """
    for k in range(len(racks)):
        lo, hi = lists.offsets[k], lists.offsets[k + 1]
        if lo == hi or rank[lo] == NO_RACK:
            out_ids[lo:hi] = lists.ids[lo:hi]
            out_rack[lo:hi] = NO_RACK
            racks[k] = 0
        else:
            racks[k] = alternate_racks(lists.ids[lo:hi], rank[lo:hi], out_ids[lo:hi], out_rack[lo:hi])


@part
def place_partition(rack: Ids, racks: int, leader: int, turn: int, width: int, scratch: ReplicaScratch) -> int:
    """Choose the replicas of one partition (scratch.replicas) with a known leader, an index of the broker order.

    rack: int32 (n), racks of the alternated order; turn: the shift. Return 0, or the negative index that Java rejects.
    """
    n = len(rack)
    rack_used, broker_used = scratch.rack_used, scratch.broker_used
    scratch.stamp[0] += 1
    stamp = scratch.stamp[0]
    base = wrap_int(turn * racks)
    overflows = base < 0 or base > (1 << 30)  # n candidates and more may be tried
    step = java_remainder(base, n - 1) if n > 1 else 0
    scratch.replicas[0] = leader
    broker_used[leader] = stamp
    rack_used[rack[leader]] = stamp
    free_racks = racks - 1
    tried = 0
    for rank in range(1, width):
        while True:
            if overflows:
                candidate = replica_index(leader, base, tried, n)
                if candidate < 0:
                    return candidate
            else:
                candidate = leader + 1 + step
                if candidate >= n:
                    candidate -= n
                step += 1
                if step == n - 1:
                    step = 0
            tried += 1
            if (free_racks == 0 or rack_used[rack[candidate]] != stamp) and broker_used[candidate] != stamp:
                break
        scratch.replicas[rank] = candidate
        broker_used[candidate] = stamp
        if rack_used[rack[candidate]] != stamp:
            rack_used[rack[candidate]] = stamp
            free_racks -= 1
    return 0


@compiled
def place_rack_aware(
    topics: Topics, lists: BrokerLists, racks: Ints, rows: Ints, scratch: ReplicaScratch, buffers: PlacementBuffers
) -> None:
    """Place the partitions (rows: int64, n; 0 = none) of topics over lists in the order of `alternate_lists`."""
    for i in range(len(rows)):
        k, first, width = topics.broker_list[i], max(0, topics.start_partition[i]), topics.replication_factor[i]
        lo, hi = lists.offsets[k], lists.offsets[k + 1]
        ids, rack, n = lists.ids[lo:hi], lists.rack[lo:hi], hi - lo
        ids_begin = topics.partition_id_offsets[i]
        selected = ids_begin < topics.partition_id_offsets[i + 1]
        at = buffers.begin[i]
        for row in range(rows[i]):
            partition = topics.partition_ids[ids_begin + row] if selected else first + row
            leader = java_remainder(wrap_int(partition + buffers.start_index[i]), n)
            index = leader
            if leader >= 0:
                # The shift grows at ids > 0 only, and Java's ids turn negative beyond the largest int.
                turn = wrap_int(buffers.shift[i] + count_shift_steps(first, min(partition, INT_END - 1), n))
                index = place_partition(rack, racks[k], leader, turn, width, scratch)
            if index < 0:
                buffers.error_code[i], buffers.error_detail[i] = INDEX_OUT_OF_BOUNDS, index
                break
            for rank in range(width):
                buffers.broker[at] = ids[scratch.replicas[rank]]
                at += 1
