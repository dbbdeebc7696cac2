"""Failures of sets of brokers: racks, lists, and pairs out of what failure_sums.py added up."""

from __future__ import annotations

import numpy as np

from udfs.failures.kernels.failure_sums import (
    EVENTS,
    FETCH,
    MOST_REPLICAS,
    NOBODY,
    Bools,
    Floats,
    Ids,
    Ints,
    _add,
    _event,
    _masks,
    outcome,
)
from udfs.kernel_compiler import compiled

_CACHED = 6  # places of a partition whose sets are remembered while it is looked at


@compiled
def sum_scenarios(
    offsets: Ints,
    broker: Ids,
    in_isr: Bools,
    in_elr: Bools,
    lag: Ints,
    leader: Ids,
    min_isr: Ids,
    unclean: Bools,
    size: Ints,
    rate: Floats,
    member_offsets: Ints,
    member: Ints,
    events: Ints,
    lost: Floats,
    taken: Floats,
) -> None:
    """Adds up the partitions of a Group under scenarios that each name brokers that fail together.

    member_offsets (n + 1), member (flat): the scenarios of each broker, int64.
    events: int64 (s, EVENTS), what a scenario changes in the cluster as it is.
    lost, taken: float64 (s, n, LOADS), what a broker loses by it, and what it gains.
    """
    scenarios = len(events)
    places = np.empty(MOST_REPLICAS, dtype=np.int32)
    base, after_it = np.empty(EVENTS, np.int64), np.empty(EVENTS, np.int64)
    down = np.zeros(scenarios, dtype=np.int64)
    touched = np.empty(scenarios, dtype=np.int64)
    # Many scenarios kill the same replicas of a partition: what that does is found once.
    known = np.full(1 << _CACHED, -1, dtype=np.int64)
    changes = np.empty(1 << _CACHED, dtype=np.bool_)
    successors, members = np.empty(1 << _CACHED, np.int64), np.empty(1 << _CACHED, np.int64)
    deltas = np.empty((1 << _CACHED, EVENTS), dtype=np.int64)
    for i in range(len(leader)):
        live, isr, elr, leads, live_count = _masks(offsets, broker, in_isr, in_elr, leader, i, places)
        begin = offsets[i]
        count = 0
        for k in range(live_count):
            a = broker[begin + places[k]]
            for at in range(member_offsets[a], member_offsets[a + 1]):
                s = member[at]
                if down[s] == 0:
                    touched[count] = s
                    count += 1
                down[s] |= 1 << places[k]
        if count == 0:
            continue
        after, before, rough = outcome(live, isr, elr, leads, unclean[i], 0)
        _event(leads, after, before, min_isr[i], rough, size[i], lag, begin, base)
        for t in range(count):
            s = touched[t]
            mask = down[s]
            down[s] = 0
            small = mask < (1 << _CACHED)
            slot = mask if small else 0  # no scenario kills none: the first slot is free for those that are not kept
            if not small or known[slot] != i:
                after, in_sync, rough = outcome(live, isr, elr, leads, unclean[i], mask)
                _event(leads, after, in_sync, min_isr[i], rough, size[i], lag, begin, after_it)
                known[slot] = i if small else -1
                successors[slot], members[slot] = after, in_sync
                changes[slot] = False
                for e in range(EVENTS):
                    deltas[slot, e] = after_it[e] - base[e]
                    changes[slot] |= deltas[slot, e] != 0
            if changes[slot]:
                for e in range(EVENTS):
                    events[s, e] += deltas[slot, e]
            if leads == NOBODY:
                continue
            after, in_sync = successors[slot], members[slot]
            if after == leads:
                taken[s, leader[i], FETCH] -= rate[i, 0] * (max(before - 1, 0) - max(in_sync - 1, 0))
                continue
            _add(lost[s, leader[i]], rate[i], before, 1.0)
            if after != NOBODY:
                _add(taken[s, broker[begin + after]], rate[i], in_sync, 1.0)


@compiled
def pair_leaders(
    led: Floats,
    taken: Floats,
    third_key: Ints,
    third_sum: Floats,
    worst: Floats,
    worst_broker: Ids,
    takeover_brokers: Ints,
    total: Floats,
) -> None:
    """The leaders and loads of the survivors of each pair a < b, in the order (0, 1), (0, 2), ...

    led (n, w), taken (n, n, w): of sum_failures, without FETCH.   third_key (e), rising, third_sum (e, w): its third
    entries, summed by key.
    worst, total: float64 (pairs, w), the largest of a survivor and the sum of all; worst_broker: int32 (pairs), of
    leaders, the lowest index among equals, NOBODY = no survivor.   takeover_brokers: int64 (pairs), who takes over any.
    """
    n, columns = led.shape
    gain = np.zeros((n, columns))
    at = 0
    pair = 0
    for a in range(n):
        for b in range(a + 1, n):
            for c in range(n):
                for w in range(columns):
                    gain[c, w] = taken[a, c, w] + taken[b, c, w]
            key = (np.int64(a) * n + b) * n
            while at < len(third_key) and third_key[at] < key + n:
                for w in range(columns):
                    gain[third_key[at] - key, w] += third_sum[at, w]
                at += 1
            worst_broker[pair] = NOBODY
            takeover_brokers[pair] = 0
            for w in range(columns):
                worst[pair, w] = 0.0
                total[pair, w] = 0.0
            for c in range(n):
                if c in (a, b):
                    continue
                takeover_brokers[pair] += gain[c, 0] > 0
                for w in range(columns):
                    value = led[c, w] + gain[c, w]
                    total[pair, w] += value
                    if value > worst[pair, w] or (w == 0 and worst_broker[pair] == NOBODY):
                        worst[pair, w] = value
                        if w == 0:
                            worst_broker[pair] = c
            pair += 1
