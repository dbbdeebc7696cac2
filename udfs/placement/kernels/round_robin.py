"""Kafka's round robin with a shift over brokers without racks, and the arithmetic that it shares with racks.

Source: kafka.admin.AdminUtils.assignReplicasToBrokersRackUnaware and replicaIndex.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled, part
from udfs.placement.kernels import kafka_errors
from udfs.placement.kernels.topic_arrays import Ids, Ints

_INT_END = 1 << 31  # sums from here on overflow in Java


@part
def to_int(value: int) -> int:
    """The value as Java's 32 bits hold it."""
    return ((value + _INT_END) & 0xFFFFFFFF) - _INT_END


@part
def remainder(value: int, by: int) -> int:
    """`value % by` as in Java: of the dividend's sign."""
    return value % by if value >= 0 else -((-value) % by)


@part
def follower_index(first: int, shift: int, rank: int, brokers: int) -> int:
    """AdminUtils.replicaIndex, overflow included."""
    return remainder(first + 1 + remainder(to_int(shift + rank), brokers - 1), brokers)


@part
def crossings(origin: int, partition: int, brokers: int) -> int:
    """How often the shift has grown at `partition`, of a topic placed from `origin` on: at ids > 0 divisible by n."""
    return partition // brokers - ((origin - 1) // brokers if origin > 0 else 0)


@part
def place_contiguous(
    ids: Ids, first: int, count: int, width: int, start: int, ahead: int, growth: int, out: Ids
) -> None:
    """Partitions first.. (count) of one topic: leader at (id + start) % n, followers from `ahead` behind it.

    ahead: in [1, n - 1], of the first partition; it grows by `growth` at each later id that is divisible by n.
    Every remainder is kept by stepping: dividing is what would cost here.
    """
    n = len(ids)
    leader = (first + start) % n
    until = n - first % n  # partitions until the next id that is divisible by n
    at = 0
    for _ in range(count):
        if until == 0:
            until = n
            ahead += growth
            if ahead >= n:
                ahead = 1
        until -= 1
        out[at] = ids[leader]
        at += 1
        step = ahead
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
def place_any(
    ids: Ids, partitions: Ints, origin: int, width: int, start: int, shift: int, growth: int, out: Ids
) -> tuple[int, int]:
    """These partition ids of one topic, in any order, in Java's arithmetic; (refusal, index that Java would reject)."""
    n = len(ids)
    at = 0
    for i in range(len(partitions)):
        partition = partitions[i]
        leader = remainder(to_int(partition + start), n)
        if leader < 0:
            return kafka_errors.BROKER_INDEX, leader
        out[at] = ids[leader]
        at += 1
        turn = to_int(shift + growth * crossings(origin, min(partition, _INT_END - 1), n))
        for rank in range(width - 1):
            follower = follower_index(leader, turn, rank, n)
            if follower < 0:
                return kafka_errors.BROKER_INDEX, follower
            out[at] = ids[follower]
            at += 1
    return kafka_errors.NONE, 0


@compiled
def place_round_robin(
    ids: Ids,
    offsets: Ints,
    of_list: Ints,
    rows: Ints,
    factor: Ints,
    origin: Ints,
    start: Ints,
    shift: Ints,
    growth: int,
    listed: Ints,
    listed_offsets: Ints,
    begins: Ints,
    out: Ids,
    refusal: npt.NDArray[np.int8],
    detail: Ints,
) -> None:
    """The replicas of all topics that have rows, into `out` from begins[i] on; see topics.py for the arguments.

    growth: what the shift grows by in each round over the brokers: 1, or 0 for the naive scheme.
    """
    for i in range(len(rows)):
        count = rows[i]
        if count == 0:
            continue
        mine = ids[offsets[of_list[i]] : offsets[of_list[i] + 1]]
        n = len(mine)
        width = factor[i]
        first = max(0, origin[i])
        answer = out[begins[i] : begins[i + 1]]
        wanted = listed[listed_offsets[i] : listed_offsets[i + 1]]
        last = first + count
        if len(wanted) > 0 or last + start[i] >= _INT_END or shift[i] + last // n + width >= _INT_END:
            if len(wanted) == 0:
                wanted = np.arange(first, last)
            refusal[i], detail[i] = place_any(mine, wanted, first, width, start[i], shift[i], growth, answer)
        else:
            turn = shift[i] + growth * crossings(first, first, n)
            ahead = turn % (n - 1) + 1 if n > 1 else 1
            place_contiguous(mine, first, count, width, start[i], ahead, growth, answer)
