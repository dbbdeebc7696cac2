"""Failures of given sets of brokers (racks, custom, random), and pairs out of what `sum_failures` added up."""

import numpy as np

from udfs.failures.kernels.election import elect_leader, read_replicas
from udfs.failures.kernels.failure_totals import add_leadership, count_events
from udfs.failures.kernels.partition_arrays import (
    EVENTS,
    FETCH,
    MAX_REPLICAS,
    NO_BROKER,
    Floats,
    Ints,
    PairSums,
    PartitionGroup,
    ScenarioSums,
)
from udfs.kernel_compiler import compiled

_CACHED_POSITIONS = 6  # of a partition: outcomes of sets of these are computed once


@compiled
def sum_scenarios(group: PartitionGroup, scenario_offsets: Ints, scenario: Ints, out: ScenarioSums) -> None:
    """Add up scenarios over a group of partitions.

    Args:
        group: the partitions.
        scenario_offsets: int64 (n + 1), the scenarios in which each broker fails.
        scenario: int64 (flat), their numbers.
        out: the sums.
    """
    positions = np.empty(MAX_REPLICAS, dtype=np.int32)
    base, events = np.empty(EVENTS, np.int64), np.empty(EVENTS, np.int64)
    failed = np.zeros(len(out.events), dtype=np.int64)
    concerned = np.empty(len(out.events), dtype=np.int64)
    # Many scenarios fail the same replicas of a partition: compute each outcome once.
    slots = 1 << _CACHED_POSITIONS
    slot_partition = np.full(slots, -1, dtype=np.int64)
    has_changes = np.empty(slots, dtype=np.bool_)
    leaders, in_sync_counts = np.empty(slots, np.int64), np.empty(slots, np.int64)
    changes = np.empty((slots, EVENTS), dtype=np.int64)
    # Taken out of the tuples once: each access in a loop would count references.
    offsets, brokers, partition_leaders, rate = group.offsets, group.broker, group.leader, group.rate
    event_sums, losses, takeovers = out.events, out.losses, out.takeovers
    for i in range(len(partition_leaders)):
        replicas, live_count = read_replicas(group, i, positions)
        begin, leader = offsets[i], partition_leaders[i]
        count = 0
        for k in range(live_count):
            broker = brokers[begin + positions[k]]
            for at in range(scenario_offsets[broker], scenario_offsets[broker + 1]):
                s = scenario[at]
                if failed[s] == 0:
                    concerned[count] = s
                    count += 1
                failed[s] |= 1 << positions[k]
        if count == 0:
            continue
        before = elect_leader(replicas, 0)
        count_events(group, i, replicas.leader, before, base)
        for c in range(count):
            s = concerned[c]
            mask = failed[s]
            failed[s] = 0
            cached = mask < slots
            slot = mask if cached else 0  # no mask is 0: the first slot is free for outcomes that are not cached
            if not cached or slot_partition[slot] != i:
                after = elect_leader(replicas, mask)
                count_events(group, i, replicas.leader, after, events)
                slot_partition[slot] = i if cached else -1
                leaders[slot], in_sync_counts[slot] = after.leader, after.in_sync
                has_changes[slot] = False
                for e in range(EVENTS):
                    changes[slot, e] = events[e] - base[e]
                    has_changes[slot] |= changes[slot, e] != 0
            if has_changes[slot]:
                for e in range(EVENTS):
                    event_sums[s, e] += changes[slot, e]
            if replicas.leader == NO_BROKER:
                continue
            new_leader, in_sync = leaders[slot], in_sync_counts[slot]
            if new_leader == replicas.leader:
                followers_lost = max(before.in_sync - 1, 0) - max(in_sync - 1, 0)
                takeovers[s, leader, FETCH] -= rate[i, 0] * followers_lost
                continue
            add_leadership(losses[s, leader], rate[i], before.in_sync)
            if new_leader != NO_BROKER:
                add_leadership(takeovers[s, brokers[begin + new_leader]], rate[i], in_sync)


@compiled
def sum_pairs(leader_loads: Floats, takeovers: Floats, joint_key: Ints, joint_sum: Floats, out: PairSums) -> None:
    """Fill in leaders and loads of the survivors of each pair.

    Args:
        leader_loads: float64 (n, w), as of FailureSums without FETCH.
        takeovers: float64 (n, n, w), likewise.
        joint_key: int64 (e), the distinct keys of FailureSums, rising.
        joint_sum: float64 (e, w), what is taken over by key.
        out: the pairs.
    """
    n, columns = leader_loads.shape
    gain = np.zeros((n, columns))
    at = 0
    pair = 0
    for a in range(n):
        for b in range(a + 1, n):
            for c in range(n):
                for w in range(columns):
                    gain[c, w] = takeovers[a, c, w] + takeovers[b, c, w]
            key = (np.int64(a) * n + b) * n
            while at < len(joint_key) and joint_key[at] < key + n:
                for w in range(columns):
                    gain[joint_key[at] - key, w] += joint_sum[at, w]
                at += 1
            out.worst_broker[pair] = NO_BROKER
            out.takeover_brokers[pair] = 0
            for w in range(columns):
                out.worst[pair, w] = 0.0
                out.total[pair, w] = 0.0
            for c in range(n):
                if c in (a, b):
                    continue
                out.takeover_brokers[pair] += gain[c, 0] > 0
                for w in range(columns):
                    value = leader_loads[c, w] + gain[c, w]
                    out.total[pair, w] += value
                    if value > out.worst[pair, w] or (w == 0 and out.worst_broker[pair] == NO_BROKER):
                        out.worst[pair, w] = value
                        if w == 0:
                            out.worst_broker[pair] = c
            pair += 1
