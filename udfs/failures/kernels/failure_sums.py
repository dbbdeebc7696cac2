"""What every failure would do to a group of partitions: one pass over them, then arithmetic of the brokers' size.

A partition looks only at its own replicas: what happens to it when brokers D fail depends on which of them are in
D. So each is asked about every one of its brokers, every two of them, and those of its brokers that a scenario names
together; what two failures do beyond the sum of both is kept by pair. The election rule is that of election.py, on bit
masks in assignment order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled, part

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

# What is counted of a scenario, as the last index of `events`. Of the last four: messages of unclean elections whose
# new leader's lag is known, and how many such elections it is not known of; bytes of the partitions that go offline,
# and how many of these have no known size.
OFFLINE, UNDER_MIN, AT_ONE, UNCLEAN, AT_STAKE, STAKE_UNKNOWN, OFFLINE_BYTES, UNSIZED, EVENTS = range(9)
# What goes with a leadership, as the last index of loads. FETCH is what a leader sends: to consumers, and bytes in once
# more for each follower that is in sync.
LEADERS, BYTES_IN, BYTES_OUT, FETCH, LOADS = range(5)
NOBODY = -1
UNKNOWN = -1
MOST_REPLICAS = 62  # of one partition: a mask has 64 bits


@dataclass(frozen=True)
class Group:
    """p partitions of one cluster under one scheme, with r live or down replicas in all; n live brokers by index.

    offsets: int64 (p + 1).   broker: int32 (r), index 0..n - 1 of a live broker, NOBODY = a down one.
    in_isr, in_elr: bool (r).   lag: int64 (r), messages behind the leader, UNKNOWN = not known.
    leader: int32 (p), index of the broker that leads, NOBODY = none.   min_isr: int32 (p).   unclean: bool (p).
    size: int64 (p), bytes, UNKNOWN = not known.   rate: float64 (p, 2), bytes per second in and out, 0 = not known.
    """

    offsets: Ints
    broker: Ids
    in_isr: Bools
    in_elr: Bools
    lag: Ints
    leader: Ids
    min_isr: Ids
    unclean: Bools
    size: Ints
    rate: Floats


@part
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
def outcome(live: int, isr: int, elr: int, leader: int, unclean: bool, down: int) -> tuple[int, int, bool]:
    """(place of the leader or NOBODY, members of the ISR that live, whether its election was unclean).

    live, isr, elr, down: masks of places in assignment order.   leader: the place that leads before.
    """
    left = live & ~down
    in_sync = bits_of(left & isr)
    if leader == NOBODY:
        return NOBODY, in_sync, False
    if not (down >> leader) & 1:
        return leader, in_sync, False
    if left & isr:
        return lowest(left & isr), in_sync, False
    if left & elr:  # out of an ELR or an unclean election, the new leader begins as the whole ISR
        return lowest(left & elr), 1, False
    if unclean and left:
        return lowest(left), 1, True
    return NOBODY, 0, False


@part
def _masks(
    offsets: Ints, broker: Ids, in_isr: Bools, in_elr: Bools, leader: Ids, i: int, places: Ids
) -> tuple[int, int, int, int, int]:
    """(live, isr, elr, place of the leader, live replicas) of partition i; places: their places, out."""
    live = isr = elr = 0
    led_from = NOBODY
    live_count = 0
    for at in range(offsets[i], offsets[i + 1]):
        place = at - offsets[i]
        bit = 1 << place
        if in_isr[at]:
            isr |= bit
        if in_elr[at]:
            elr |= bit
        if broker[at] != NOBODY:
            live |= bit
            places[live_count] = place
            live_count += 1
            if broker[at] == leader[i]:
                led_from = place
    return live, isr, elr, led_from, live_count


@compiled
def _event(
    leads: int, after: int, in_sync: int, minimum: int, unclean: bool, size: int, lag: Ints, begin: int, out: Ints
) -> None:
    """The counts (int64, EVENTS) of one partition after a failure. lag[begin:]: of its replicas."""
    out[OFFLINE] = after == NOBODY
    out[UNDER_MIN] = after != NOBODY and in_sync < minimum
    out[AT_ONE] = after != NOBODY and in_sync == 1
    out[UNCLEAN] = unclean
    behind = lag[begin + after] if unclean else 0
    out[AT_STAKE] = max(behind, 0)
    out[STAKE_UNKNOWN] = behind < 0
    gone = leads != NOBODY and after == NOBODY
    out[OFFLINE_BYTES] = max(size, 0) if gone else 0
    out[UNSIZED] = gone and size < 0


@part
def _add(out: Floats, rate: Floats, in_sync: int, sign: float) -> None:
    """Adds a leadership (float64, LOADS) with in_sync live members of the ISR."""
    out[LEADERS] += sign
    out[BYTES_IN] += sign * rate[0]
    out[BYTES_OUT] += sign * rate[1]
    out[FETCH] += sign * (rate[1] + rate[0] * max(in_sync - 1, 0))


@compiled
def sum_failures(
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
    now: Ints,
    led: Floats,
    singles: Ints,
    taken: Floats,
    pairs: Ints,
    third: Ints,
    third_from: Ints,
) -> int:
    """Adds up the partitions of a Group; the number of entries of `third`.

    now: int64 (EVENTS), the cluster as it is.   led: float64 (n, LOADS), what each broker leads as it is.
    singles: int64 (n, EVENTS), what the failure of one broker changes in `now`.
    taken: float64 (n, n, LOADS), what a broker gains when the first fails; FETCH also where a follower is gone.
    pairs: int64 (n, n, EVENTS), for a < b: what the failure of both changes beyond the sum of each one's; (0, 0,
    EVENTS)
    = not wanted.
    third: int64 (entries), pair * n + c with pair = a * n + b, a < b: a partition that c takes over only if both fail;
    third_from: int64 (entries), the partition. Room for 2 entries a partition.
    """
    n = np.int64(len(led))
    places = np.empty(MOST_REPLICAS, dtype=np.int32)
    base, one, two = np.empty(EVENTS, np.int64), np.empty((MOST_REPLICAS, EVENTS), np.int64), np.empty(EVENTS, np.int64)
    with_pairs = len(pairs) > 0
    entries = 0
    for i in range(len(leader)):
        live, isr, elr, leads, live_count = _masks(offsets, broker, in_isr, in_elr, leader, i, places)
        begin = offsets[i]
        after, before, rough = outcome(live, isr, elr, leads, unclean[i], 0)
        _event(leads, after, before, min_isr[i], rough, size[i], lag, begin, base)
        now += base
        if leads != NOBODY:
            _add(led[leader[i]], rate[i], before, 1.0)
        for k in range(live_count):
            a = broker[begin + places[k]]
            after, in_sync, rough = outcome(live, isr, elr, leads, unclean[i], 1 << places[k])
            _event(leads, after, in_sync, min_isr[i], rough, size[i], lag, begin, one[k])
            one[k] -= base
            singles[a] += one[k]
            if after == NOBODY:
                continue
            if places[k] == leads:
                _add(taken[a, broker[begin + after]], rate[i], in_sync, 1.0)
            else:
                taken[a, leader[i], FETCH] -= rate[i, 0] * (max(before - 1, 0) - max(in_sync - 1, 0))
        if not with_pairs:
            continue
        for k in range(live_count):
            for j in range(k + 1, live_count):
                down = (1 << places[k]) | (1 << places[j])
                after, in_sync, rough = outcome(live, isr, elr, leads, unclean[i], down)
                _event(leads, after, in_sync, min_isr[i], rough, size[i], lag, begin, two)
                a, b = broker[begin + places[k]], broker[begin + places[j]]
                if a > b:
                    a, b = b, a
                for e in range(EVENTS):
                    pairs[a, b, e] += two[e] - base[e] - one[k, e] - one[j, e]
                if after != NOBODY and after != leads:
                    # New only if the successor of the one is the other: else a single failure says it already.
                    first = places[k] if places[k] == leads else places[j]
                    other = places[j] if places[k] == leads else places[k]
                    successor, _, _ = outcome(live, isr, elr, leads, unclean[i], 1 << first)
                    if successor == other:
                        third[entries] = (np.int64(a) * n + b) * n + broker[begin + after]
                        third_from[entries] = i
                        entries += 1
    return entries
