"""Failures of sets of brokers: racks, lists, and pairs out of what failure_sums.py added up."""

from __future__ import annotations

import numpy as np

from udfs.kernels.compiled import compiled
from udfs.kernels.failure_sums import (
    EVENTS,
    MOST_REPLICAS,
    NOBODY,
    Bools,
    Floats,
    Ids,
    Ints,
    _event,
    _masks,
    outcome,
)


@compiled
def sum_scenarios(
    offsets: Ints,
    broker: Ids,
    in_isr: Bools,
    in_elr: Bools,
    leader: Ids,
    min_isr: Ids,
    unclean: Bools,
    weight: Floats,
    member_offsets: Ints,
    member: Ints,
    events: Ints,
    lost: Floats,
    taken: Floats,
) -> None:
    """Adds up the partitions under scenarios that each name brokers that die together.

    member_offsets (n + 1), member (flat): the scenarios of each broker, int64.
    events: int64 (s, EVENTS), what a scenario changes in the cluster as it is.
    lost, taken: float64 (s, n, 1 + w), leaders and loads that a broker loses by it, and that it takes over.
    """
    weights = weight.shape[1]
    scenarios = len(events)
    places = np.empty(MOST_REPLICAS, dtype=np.int32)
    base, after_it = np.empty(EVENTS, np.int64), np.empty(EVENTS, np.int64)
    dead = np.zeros(scenarios, dtype=np.int64)
    touched = np.empty(scenarios, dtype=np.int64)
    for i in range(len(leader)):
        alive, isr, elr, leads, living = _masks(offsets, broker, in_isr, in_elr, leader, i, places)
        begin = offsets[i]
        count = 0
        for k in range(living):
            a = broker[begin + places[k]]
            for at in range(member_offsets[a], member_offsets[a + 1]):
                s = member[at]
                if dead[s] == 0:
                    touched[count] = s
                    count += 1
                dead[s] |= 1 << places[k]
        if count == 0:
            continue
        after, in_sync, rough = outcome(alive, isr, elr, leads, unclean[i], 0)
        _event(after, in_sync, min_isr[i], rough, base)
        for t in range(count):
            s = touched[t]
            after, in_sync, rough = outcome(alive, isr, elr, leads, unclean[i], dead[s])
            dead[s] = 0
            _event(after, in_sync, min_isr[i], rough, after_it)
            events[s] += after_it - base
            if leads == NOBODY or after == leads:
                continue
            lost[s, leader[i], 0] += 1
            for w in range(weights):
                lost[s, leader[i], 1 + w] += weight[i, w]
            if after != NOBODY:
                heir = broker[begin + after]
                taken[s, heir, 0] += 1
                for w in range(weights):
                    taken[s, heir, 1 + w] += weight[i, w]


@compiled
def pair_leaders(
    led: Floats,
    taken: Floats,
    third_key: Ints,
    third_sum: Floats,
    worst: Floats,
    worst_broker: Ids,
    receivers: Ints,
    total: Floats,
) -> None:
    """The leaders and loads of the survivors of each pair a < b, in the order (0, 1), (0, 2), ...

    led (n, 1 + w), taken (n, n, 1 + w): of sum_failures.   third_key (e), rising, and third_sum (e, 1 + w): its third
    entries, summed by key.
    worst, total: float64 (pairs, 1 + w), the largest of a survivor and the sum of all; worst_broker: int32 (pairs), of
    leaders, the lowest index among equals, NOBODY = no survivor.   receivers: int64 (pairs), who takes over any.
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
            receivers[pair] = 0
            for w in range(columns):
                worst[pair, w] = 0.0
                total[pair, w] = 0.0
            for c in range(n):
                if c in (a, b):
                    continue
                receivers[pair] += gain[c, 0] > 0
                for w in range(columns):
                    value = led[c, w] + gain[c, w]
                    total[pair, w] += value
                    if value > worst[pair, w] or (w == 0 and worst_broker[pair] == NOBODY):
                        worst[pair, w] = value
                        if w == 0:
                            worst_broker[pair] = c
            pair += 1
