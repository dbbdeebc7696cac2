"""What every failure would do to a group of partitions: one pass over them, then arithmetic of the brokers' size.

A partition looks only at its own replicas: what happens to it when brokers D die depends on which of them are in
D. So each is asked about every one of its brokers, every two of them, and those of its brokers that a scenario names
together; what two deaths do beyond the sum of both is kept by pair. The election rule is that of election.py, on bit
masks in assignment order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from udfs.kernels.compiled import compiled

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

# What is counted of a scenario, as the second index of `events`.
OFFLINE, UNDER_MIN, AT_ONE, UNCLEAN, EVENTS = 0, 1, 2, 3, 4
NOBODY = -1
MOST_REPLICAS = 62  # of one partition: a mask has 64 bits


@dataclass(frozen=True)
class Group:
    """p partitions of one cluster under one scheme; n brokers by index.

    offsets: int64 (p + 1).   broker: int32 (r), index 0..n - 1 of a living broker, NOBODY = a dead one.
    in_isr, in_elr: bool (r).   leader: int32 (p), index of the broker that leads, NOBODY = none.
    min_isr: int32 (p).   unclean: bool (p).
    weight: float64 (p, w), loads that go with the leadership; nothing unknown.
    """

    offsets: Ints
    broker: Ids
    in_isr: Bools
    in_elr: Bools
    leader: Ids
    min_isr: Ids
    unclean: Bools
    weight: Floats


@compiled
def bits_of(value: int) -> int:
    """How many bits are set."""
    count = 0
    while value:
        value &= value - 1
        count += 1
    return count


@compiled
def lowest(value: int) -> int:
    """The place of the lowest bit that is set; value > 0."""
    place = 0
    while not value & 1:
        value >>= 1
        place += 1
    return place


@compiled
def outcome(alive: int, isr: int, elr: int, leader: int, unclean: bool, dead: int) -> tuple[int, int, bool]:
    """(place of the leader or NOBODY, members of the ISR that live, whether its election was unclean).

    alive, isr, elr, dead: masks of places in assignment order.   leader: the place that leads before.
    """
    left = alive & ~dead
    in_sync = bits_of(left & isr)
    if leader == NOBODY:
        return NOBODY, in_sync, False
    if not (dead >> leader) & 1:
        return leader, in_sync, False
    if left & isr:
        return lowest(left & isr), in_sync, False
    if left & elr:  # out of an ELR or an unclean election, the new leader begins as the whole ISR
        return lowest(left & elr), 1, False
    if unclean and left:
        return lowest(left), 1, True
    return NOBODY, 0, False


@compiled
def _masks(
    offsets: Ints, broker: Ids, in_isr: Bools, in_elr: Bools, leader: Ids, i: int, places: Ids
) -> tuple[int, int, int, int, int]:
    """(alive, isr, elr, place of the leader, living replicas) of partition i; places: their places, out."""
    alive = isr = elr = 0
    led_from = NOBODY
    living = 0
    for at in range(offsets[i], offsets[i + 1]):
        place = at - offsets[i]
        bit = 1 << place
        if in_isr[at]:
            isr |= bit
        if in_elr[at]:
            elr |= bit
        if broker[at] != NOBODY:
            alive |= bit
            places[living] = place
            living += 1
            if broker[at] == leader[i]:
                led_from = place
    return alive, isr, elr, led_from, living


@compiled
def _event(leader: int, in_sync: int, minimum: int, unclean: bool, out: Ints) -> None:
    """The counts (int64, EVENTS) of one partition after a failure."""
    out[OFFLINE] = leader == NOBODY
    out[UNDER_MIN] = leader != NOBODY and in_sync < minimum
    out[AT_ONE] = leader != NOBODY and in_sync == 1
    out[UNCLEAN] = unclean


@compiled
def sum_failures(
    offsets: Ints,
    broker: Ids,
    in_isr: Bools,
    in_elr: Bools,
    leader: Ids,
    min_isr: Ids,
    unclean: Bools,
    weight: Floats,
    now: Ints,
    led: Floats,
    singles: Ints,
    taken: Floats,
    pairs: Ints,
    third: Ints,
    third_from: Ints,
) -> int:
    """Adds up the partitions; the number of entries of `third`.

    now: int64 (EVENTS), the cluster as it is.   led: float64 (n, 1 + w), leaders and loads of each broker as it is.
    singles: int64 (n, EVENTS), what the death of one broker changes in `now`.
    taken: float64 (n, n, 1 + w), leaders and loads that pass from one broker to another when the first dies.
    pairs: int64 (n, n, EVENTS), for a < b: what the death of both changes beyond the sum of each one's.
    third: int64 (entries), pair * n + c with pair = a * n + b, a < b: a partition that c takes over only if both die;
    third_from: int64 (entries), the partition. Room for 2 entries a partition.
    """
    n = len(led)
    weights = weight.shape[1]
    places = np.empty(MOST_REPLICAS, dtype=np.int32)
    base, one, two = np.empty(EVENTS, np.int64), np.empty((MOST_REPLICAS, EVENTS), np.int64), np.empty(EVENTS, np.int64)
    entries = 0
    for i in range(len(leader)):
        alive, isr, elr, leads, living = _masks(offsets, broker, in_isr, in_elr, leader, i, places)
        begin = offsets[i]
        after, in_sync, rough = outcome(alive, isr, elr, leads, unclean[i], 0)
        _event(after, in_sync, min_isr[i], rough, base)
        now += base
        if leads != NOBODY:
            led[leader[i], 0] += 1
            for w in range(weights):
                led[leader[i], 1 + w] += weight[i, w]
        for k in range(living):
            a = broker[begin + places[k]]
            after, in_sync, rough = outcome(alive, isr, elr, leads, unclean[i], 1 << places[k])
            _event(after, in_sync, min_isr[i], rough, one[k])
            one[k] -= base
            singles[a] += one[k]
            if places[k] == leads and after != NOBODY:
                heir = broker[begin + after]
                taken[a, heir, 0] += 1
                for w in range(weights):
                    taken[a, heir, 1 + w] += weight[i, w]
        for k in range(living):
            for j in range(k + 1, living):
                dead = (1 << places[k]) | (1 << places[j])
                after, in_sync, rough = outcome(alive, isr, elr, leads, unclean[i], dead)
                _event(after, in_sync, min_isr[i], rough, two)
                two -= base
                a, b = broker[begin + places[k]], broker[begin + places[j]]
                if a > b:
                    a, b = b, a
                pairs[a, b] += two - one[k] - one[j]
                if after != NOBODY and after != leads:
                    # New only if the heir of the one is the other: else a single death says it already.
                    first = places[k] if places[k] == leads else places[j]
                    other = places[j] if places[k] == leads else places[k]
                    heir, _, _ = outcome(alive, isr, elr, leads, unclean[i], 1 << first)
                    if heir == other:
                        third[entries] = (np.int64(a) * n + b) * n + broker[begin + after]
                        third_from[entries] = i
                        entries += 1
    return entries
