"""What failures do to partitions: single ones, pairs, given sets of brokers, and rolling restarts, in one pass each.

`sum_failures` elects each partition anew for each of its brokers and each pair of them; what a pair does beyond the sum
of its single failures is kept by pair.
"""

from typing import NamedTuple

import numpy as np

from udfs.failures.kernels.election import (
    MAX_REPLICAS,
    NO_BROKER,
    UNCHANGED,
    UNCLEAN,
    WAITING,
    Bools,
    Election,
    Floats,
    Ids,
    Ints,
    PartitionGroup,
    ReplicaMasks,
    elect_leader,
    fail_replicas,
    read_replicas,
)
from udfs.kernel_compiler import compiled, part

# Columns of event counts. LOST_MESSAGES: messages of unclean elections whose new leader has a known lag; UNKNOWN_LAG:
# unclean elections without one. OFFLINE_BYTES: size of the partitions that go offline; UNKNOWN_SIZE: those without one.
# NEWLY_UNDER_MIN_ISR: those below min.insync.replicas that were not; more than the increase where some go offline.
OFFLINE, UNDER_MIN_ISR, SINGLE_ISR, UNCLEAN_ELECTIONS, LOST_MESSAGES, UNKNOWN_LAG = range(6)
OFFLINE_BYTES, UNKNOWN_SIZE, NEWLY_UNDER_MIN_ISR, EVENTS = range(6, 10)
# Columns of the load that a leadership brings. FETCH is what a leader sends: bytes out to consumers, and bytes in once
# more for each follower that is in sync.
LEADERS, BYTES_IN, BYTES_OUT, FETCH, LOADS = range(5)
_CACHED_POSITIONS = 6  # of a partition: outcomes of sets of these are computed once


class FailureSums(NamedTuple):
    """What `sum_failures` adds up."""

    events: Ints  # int64 (EVENTS), the cluster as it is
    leader_loads: Floats  # float64 (n, LOADS), what each broker leads as the cluster is
    single_events: Ints  # int64 (n, EVENTS), how the failure of one broker changes `events`
    takeovers: Floats  # float64 (n, n, LOADS), gains of a broker (second) if another (first) fails; FETCH: and losses
    pair_events: Ints  # int64 (n, n, EVENTS), a < b, the change beyond that of single failures; (0, 0, EVENTS) = none
    stopped_events: Ints  # int64 (n, EVENTS), as single_events, if no controller is left
    joint_key: Ints  # int64 (2 p), (a * n + b) * n + c for a partition that c takes over only if both a < b fail
    joint_partition: Ints  # int64 (2 p), that partition


class ScenarioSums(NamedTuple):
    """What `sum_scenarios` adds up for s sets of failed brokers."""

    events: Ints  # int64 (s, EVENTS), how a scenario changes the cluster as it is
    takeovers: Floats  # float64 (s, n, LOADS), what each survivor gains


class PairSums(NamedTuple):
    """What `sum_pairs` fills, for pairs a < b in the order (0, 1), (0, 2), ... and w loads."""

    worst: Floats  # float64 (pairs, w), the largest load of a survivor
    total: Floats  # float64 (pairs, w), the sum over survivors
    worst_broker: Ids  # int32 (pairs), survivor with most leaders, the lowest index among equals; NO_BROKER = none
    takeover_brokers: Ints  # int64 (pairs), survivors that take over at least one partition


class RestartSums(NamedTuple):
    """What `sum_restart` adds up over steps 0..n - 1; step s restarts broker s."""

    events: Ints  # int64 (n, EVENTS), how step s changes the state before it while its broker is down
    lasting_events: Ints  # int64 (n, EVENTS), what step s changes for all later steps
    takeovers: Floats  # float64 (n, n, 3), leaders and rates that others take over at a step
    returns: Floats  # float64 (n, 3), what is offline while its broker is down and is led by it again afterwards


@part
def count_events(group: PartitionGroup, i: int, before: Election, election: Election, out: Ints) -> None:
    """Write the event counts (int64, EVENTS) of partition i after an election. before: its state before the failure."""
    if not group.counted[i]:
        out[:] = 0
        return
    offline = election.leader == NO_BROKER
    unclean = election.elected_from == UNCLEAN
    out[OFFLINE] = offline
    was_online = before.leader != NO_BROKER
    is_under = not offline and (election.in_sync < group.min_isr[i] or election.elected_from == WAITING)
    out[UNDER_MIN_ISR] = is_under
    out[NEWLY_UNDER_MIN_ISR] = is_under and not (was_online and before.in_sync < group.min_isr[i])
    out[SINGLE_ISR] = not offline and election.in_sync == 1
    out[UNCLEAN_ELECTIONS] = unclean
    lag = group.lag[group.offsets[i] + election.leader] if unclean else 0
    out[LOST_MESSAGES] = max(lag, 0)
    out[UNKNOWN_LAG] = lag < 0
    newly_offline = offline and was_online
    out[OFFLINE_BYTES] = max(group.size[i], 0) if newly_offline else 0
    out[UNKNOWN_SIZE] = newly_offline and group.size[i] < 0


@part
def add_rates(out: Floats, rate: Floats) -> None:
    """Add a leadership to loads without FETCH (float64, FETCH)."""
    out[LEADERS] += 1.0
    out[BYTES_IN] += rate[0]
    out[BYTES_OUT] += rate[1]


@part
def add_leadership(out: Floats, rate: Floats, in_sync: int) -> None:
    """Add a leadership with this many in-sync replicas to loads (float64, LOADS)."""
    add_rates(out, rate)
    out[FETCH] += rate[1] + rate[0] * max(in_sync - 1, 0)


@compiled
def sum_failures(group: PartitionGroup, stops: Bools, out: FailureSums) -> int:
    """Add up single failures and pairs over a group of partitions. Return how many entries of `out.joint_key` exist.

    stops: bool (n, n), pairs whose failure leaves no controller; on the diagonal, single brokers.
    """
    n, any_stops = np.int64(len(out.leader_loads)), stops.any()
    positions = np.empty(MAX_REPLICAS, dtype=np.int32)
    base, both = np.empty(EVENTS, np.int64), np.empty(EVENTS, np.int64)
    single, stopped = np.empty((MAX_REPLICAS, EVENTS), np.int64), np.empty((MAX_REPLICAS, EVENTS), np.int64)
    # Taken out of the tuples once: each access in a loop would count references.
    offsets, broker, leaders, rate = (group.offsets, group.broker, group.leader, group.rate)
    events, leader_loads, single_events = (out.events, out.leader_loads, out.single_events)
    takeovers, pair_events = out.takeovers, out.pair_events
    stopped_events, joint_key, joint_partition = out.stopped_events, out.joint_key, out.joint_partition
    entries = 0
    for i in range(len(leaders)):
        replicas, live_count = read_replicas(group, i, positions)
        begin, leader = offsets[i], leaders[i]
        before = elect_leader(replicas, 0)
        count_events(group, i, before, before, base)
        events[:] += base
        if replicas.leader != NO_BROKER:
            add_leadership(leader_loads[leader], rate[i], before.in_sync)
        for k in range(live_count):
            a = broker[begin + positions[k]]
            if any_stops:
                count_events(group, i, before, fail_replicas(replicas, 1 << positions[k], False), stopped[k])
                stopped[k] -= base
                stopped_events[a] += stopped[k]
            after = fail_replicas(replicas, 1 << positions[k], not stops[a, a])
            count_events(group, i, before, after, single[k])
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
                a, b = broker[begin + positions[k]], broker[begin + positions[j]]
                if a > b:
                    a, b = b, a
                after = fail_replicas(replicas, (1 << positions[k]) | (1 << positions[j]), not stops[a, b])
                count_events(group, i, before, after, both)
                parts = stopped if stops[a, b] else single
                for e in range(EVENTS):
                    pair_events[a, b, e] += both[e] - base[e] - parts[k, e] - parts[j, e]
                if after.leader != NO_BROKER and after.leader != replicas.leader:
                    # Only where one broker would take over from the other does the pair differ from its parts.
                    first = positions[k] if positions[k] == replicas.leader else positions[j]
                    other = positions[j] if positions[k] == replicas.leader else positions[k]
                    if elect_leader(replicas, 1 << first).leader == other:
                        joint_key[entries] = (np.int64(a) * n + b) * n + broker[begin + after.leader]
                        joint_partition[entries] = i
                        entries += 1
    return entries


@compiled
def sum_scenarios(
    group: PartitionGroup, scenario_offsets: Ints, scenario: Ints, stops: Bools, out: ScenarioSums
) -> None:
    """Add up sets of failed brokers.

    scenario_offsets: int64 (n + 1), the sets of each broker in `scenario`. stops: bool (s), no controller is left.
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
    offsets, brokers, partition_leaders, rate = (group.offsets, group.broker, group.leader, group.rate)
    event_sums, takeovers = out.events, out.takeovers
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
        count_events(group, i, before, before, base)
        for c in range(count):
            s = concerned[c]
            mask = failed[s]
            failed[s] = 0
            cached = mask < slots and not stops[s]
            slot = mask if cached else 0  # no mask is 0: the first slot is free for outcomes that are not cached
            if not cached or slot_partition[slot] != i:
                after = fail_replicas(replicas, mask, not stops[s])
                count_events(group, i, before, after, events)
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
            elif new_leader != NO_BROKER:
                add_leadership(takeovers[s, brokers[begin + new_leader]], rate[i], in_sync)


@compiled
def sum_pairs(
    leader_loads: Floats, takeovers: Floats, stops: Bools, joint_key: Ints, joint_sum: Floats, out: PairSums
) -> None:
    """Fill in the survivors of pairs; loads: of FailureSums without FETCH; joint_sum: float64 (e, w), by key.

    stops: bool (n, n), see `sum_failures`.
    """
    n, columns = leader_loads.shape
    gain = np.zeros((n, columns))
    at = 0
    pair = 0
    for a in range(n):
        for b in range(a + 1, n):
            for c in range(n):
                for w in range(columns):
                    gain[c, w] = 0.0 if stops[a, b] else takeovers[a, c, w] + takeovers[b, c, w]
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


@compiled
def sum_restart(group: PartitionGroup, stops: Bools, out: RestartSums) -> None:
    """Add up the steps of a rolling restart: brokers are shut down one after another, and come back before the next.

    No preferred election runs in between; a returned broker is in sync again. Each partition is followed through the
    steps of its own brokers alone. stops: bool (n, n), see `sum_failures`.
    """
    positions = np.empty(MAX_REPLICAS, dtype=np.int32)
    base, events = np.empty(EVENTS, np.int64), np.empty(EVENTS, np.int64)
    for i in range(len(group.leader)):
        replicas, live_count = read_replicas(group, i, positions)
        begin = group.offsets[i]
        for k in range(1, live_count):  # sort by step; there are few
            position, at = positions[k], k
            while at > 0 and group.broker[begin + positions[at - 1]] > group.broker[begin + position]:
                positions[at] = positions[at - 1]
                at -= 1
            positions[at] = position
        before = elect_leader(replicas, 0)
        count_events(group, i, before, before, base)
        for k in range(live_count):
            step = group.broker[begin + positions[k]]
            bit = 1 << positions[k]
            after = fail_replicas(replicas, bit, not stops[step, step])
            count_events(group, i, before, after, events)
            for e in range(EVENTS):
                out.events[step, e] += events[e] - base[e]
            if replicas.leader != positions[k]:
                continue
            if after.leader == NO_BROKER:
                add_rates(out.returns[step], group.rate[i])
                continue
            add_rates(out.takeovers[step, group.broker[begin + after.leader]], group.rate[i])
            isr, was_in_isr = replicas.isr, (replicas.isr >> after.leader) & 1
            if not was_in_isr:  # the new leader started as the whole ISR, and the old one has rejoined it
                isr = (1 << after.leader) | bit
            replicas = ReplicaMasks(replicas.live, isr, replicas.elr, after.leader, replicas.unclean)
            if not was_in_isr:
                in_sync = elect_leader(replicas, 0).in_sync
                count_events(group, i, before, Election(replicas.leader, in_sync, UNCHANGED), events)
                for e in range(EVENTS):
                    out.lasting_events[step, e] += events[e] - base[e]
                base[:] = events
