"""What every single failure and every pair of failures does to partitions, in one pass over them.

A failure concerns only the partitions with a replica on a failed broker. So each partition is elected anew for each of
its brokers and each pair of them. What a pair does beyond the sum of its single failures is kept by pair.
"""

import numpy as np

from udfs.failures.kernels.election import UNCLEAN, Election, elect_leader, read_replicas
from udfs.failures.kernels.partition_arrays import (
    BYTES_IN,
    BYTES_OUT,
    EVENTS,
    FETCH,
    LEADERS,
    LOST_MESSAGES,
    MAX_REPLICAS,
    NO_BROKER,
    OFFLINE,
    OFFLINE_BYTES,
    SINGLE_ISR,
    UNCLEAN_ELECTIONS,
    UNDER_MIN_ISR,
    UNKNOWN_LAG,
    UNKNOWN_SIZE,
    FailureSums,
    Floats,
    Ints,
    PartitionGroup,
)
from udfs.kernel_compiler import compiled, part


@part
def count_events(group: PartitionGroup, i: int, leader_before: int, election: Election, out: Ints) -> None:
    """Write the event counts (int64, EVENTS) of partition i after an election. leader_before: a position."""
    offline = election.leader == NO_BROKER
    unclean = election.elected_from == UNCLEAN
    out[OFFLINE] = offline
    out[UNDER_MIN_ISR] = not offline and election.in_sync < group.min_isr[i]
    out[SINGLE_ISR] = not offline and election.in_sync == 1
    out[UNCLEAN_ELECTIONS] = unclean
    lag = group.lag[group.offsets[i] + election.leader] if unclean else 0
    out[LOST_MESSAGES] = max(lag, 0)
    out[UNKNOWN_LAG] = lag < 0
    newly_offline = offline and leader_before != NO_BROKER
    out[OFFLINE_BYTES] = max(group.size[i], 0) if newly_offline else 0
    out[UNKNOWN_SIZE] = newly_offline and group.size[i] < 0


@part
def add_leadership(out: Floats, rate: Floats, in_sync: int) -> None:
    """Add a leadership with this many in-sync replicas to loads (float64, LOADS)."""
    out[LEADERS] += 1.0
    out[BYTES_IN] += rate[0]
    out[BYTES_OUT] += rate[1]
    out[FETCH] += rate[1] + rate[0] * max(in_sync - 1, 0)


@compiled
def sum_failures(group: PartitionGroup, out: FailureSums) -> int:
    """Add up single failures and pairs over a group of partitions. Return how many entries of `out.joint_key` exist."""
    n = np.int64(len(out.leader_loads))
    positions = np.empty(MAX_REPLICAS, dtype=np.int32)
    base, both = np.empty(EVENTS, np.int64), np.empty(EVENTS, np.int64)
    single = np.empty((MAX_REPLICAS, EVENTS), np.int64)
    # Taken out of the tuples once: each access in a loop would count references.
    offsets, broker, leaders, rate = group.offsets, group.broker, group.leader, group.rate
    events, leader_loads, single_events = out.events, out.leader_loads, out.single_events
    takeovers, pair_events = out.takeovers, out.pair_events
    joint_key, joint_partition = out.joint_key, out.joint_partition
    entries = 0
    for i in range(len(leaders)):
        replicas, live_count = read_replicas(group, i, positions)
        begin, leader = offsets[i], leaders[i]
        before = elect_leader(replicas, 0)
        count_events(group, i, replicas.leader, before, base)
        events[:] += base
        if replicas.leader != NO_BROKER:
            add_leadership(leader_loads[leader], rate[i], before.in_sync)
        for k in range(live_count):
            a = broker[begin + positions[k]]
            after = elect_leader(replicas, 1 << positions[k])
            count_events(group, i, replicas.leader, after, single[k])
            single[k] -= base
            single_events[a] += single[k]
            if after.leader == NO_BROKER:
                continue
            if positions[k] == replicas.leader:
                add_leadership(takeovers[a, broker[begin + after.leader]], rate[i], after.in_sync)
            else:
                followers_lost = max(before.in_sync - 1, 0) - max(after.in_sync - 1, 0)
                takeovers[a, leader, FETCH] -= rate[i, 0] * followers_lost
        if not len(pair_events):
            continue
        for k in range(live_count):
            for j in range(k + 1, live_count):
                after = elect_leader(replicas, (1 << positions[k]) | (1 << positions[j]))
                count_events(group, i, replicas.leader, after, both)
                a, b = broker[begin + positions[k]], broker[begin + positions[j]]
                if a > b:
                    a, b = b, a
                for e in range(EVENTS):
                    pair_events[a, b, e] += both[e] - base[e] - single[k, e] - single[j, e]
                if after.leader != NO_BROKER and after.leader != replicas.leader:
                    # Only where one broker would take over from the other does the pair differ from its parts.
                    first = positions[k] if positions[k] == replicas.leader else positions[j]
                    other = positions[j] if positions[k] == replicas.leader else positions[k]
                    if elect_leader(replicas, 1 << first).leader == other:
                        joint_key[entries] = (np.int64(a) * n + b) * n + broker[begin + after.leader]
                        joint_partition[entries] = i
                        entries += 1
    return entries
