"""Kafka's rack-aware round robin.

Source: kafka.admin.AdminUtils.assignReplicasToBrokersRackAware and getRackAlternatedBrokerList. Brokers are put into an
order that alternates between racks. A candidate for a follower is skipped if its rack already has a replica while
another rack has none, or if the broker already has a replica while another has none.
"""

from typing import NamedTuple

import numpy as np

from udfs.kernel_compiler import compiled, part
from udfs.placement.kernels.round_robin import (
    INDEX_OUT_OF_BOUNDS,
    INT_END,
    count_shift_steps,
    java_remainder,
    replica_index,
    wrap_int,
)
from udfs.placement.kernels.topic_arrays import NO_RACK, BrokerLists, Ids, Ints, PlacementBuffers, Topics


class ReplicaScratch(NamedTuple):
    """Working memory to place the replicas of one partition over up to n brokers."""

    stamp: Ints  # int64 (1), number of the current partition, which marks used racks and brokers
    rack_used: Ints  # int64 (n), the last stamp of each rack
    broker_used: Ints  # int64 (n), the last stamp of each broker
    replicas: Ints  # int64 (n), output: index of each replica in the broker order


def create_scratch(brokers: int) -> ReplicaScratch:
    """Allocate working memory for broker orders of up to so many brokers."""
    return ReplicaScratch(*(np.zeros(size, dtype=np.int64) for size in (1, brokers, brokers, brokers)))


@compiled
def alternate_racks(ids: Ids, rack: Ids, out_ids: Ids, out_rack: Ids) -> int:
    """Order brokers as Kafka does: racks in order, ids in order within a rack, one broker of each rack in turn.

    rack: ranks of the racks' names; out_rack numbers racks from 0. All arrays are int32 (n). Return the number of
    racks.
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

    rank: int32 (flat), rank of each broker's rack.   racks: int64 (m), output: racks of each list, 0 = no broker has
    one.
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

    rack: int32 (n), racks of the alternated order; turn: the shift at this partition. Return 0, or the negative index
    that Java rejects.
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
