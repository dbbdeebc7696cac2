"""Kafka's round robin with a shift over brokers without racks, and the Java arithmetic that the rack-aware one shares.

Source: kafka.admin.AdminUtils.assignReplicasToBrokersRackUnaware and replicaIndex.
"""

import numpy as np

from udfs.kernel_compiler import compiled, part
from udfs.placement.kernels.kafka_errors import ErrorCode
from udfs.placement.kernels.topic_arrays import BrokerLists, Ids, Ints, PlacementBuffers, Topics

INT_END = 1 << 31  # sums from here on overflow in Java
INDEX_OUT_OF_BOUNDS = int(ErrorCode.INDEX_OUT_OF_BOUNDS)


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
