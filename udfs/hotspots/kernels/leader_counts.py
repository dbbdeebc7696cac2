"""How many leaders and replicas each broker gets, for many seeds at once, without placing partition by partition.

By Kafka's round robin, n partitions in a row put one leader on every broker; so a topic of p partitions gives every
broker p // n, and one more to an arc of p % n brokers from its random start on. An arc is two entries of a difference
array, so a seed costs O(topics + brokers). Without racks every follower rank is such an arc too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from udfs.arrow.ragged import offsets_of, row_of
from udfs.kernel_compiler import compiled, part
from udfs.placement.kernels.java_random import next_int, shuffle
from udfs.placement.kernels.rack_aware_round_robin import place_partition
from udfs.placement.kernels.striped import lay_out, place_topic
from udfs.placement.kernels.topic_arrays import Ids, Ints
from udfs.placement.kernels.topic_seeds import Words, seed_of

_SCRAMBLER = 0x5DEECE66D
_MASK = (1 << 48) - 1


@dataclass(frozen=True)
class Arcs:
    """What n topics put on `brokers` brokers, as runs of partitions within one round over them.

    whole: int64 (n), rounds over all brokers.   offsets: int64 (n + 1), the arcs of each topic in the flat arrays.
    begin, length, turn: int64 (flat), an arc's first partition modulo brokers, its partitions, its round.
    """

    whole: Ints
    offsets: Ints
    begin: Ints
    length: Ints
    turn: Ints

    @staticmethod
    def of(partitions: Ints, listed: Ints, listed_offsets: Ints, brokers: int) -> Arcs:
        """Of topics with all of their partitions, or with just those listed where any are (as in topics.Topics)."""
        shown = np.diff(listed_offsets)
        whole = np.where(shown > 0, 0, partitions // brokers)
        rest = np.where(shown > 0, 0, partitions % brokers)
        offsets = offsets_of(np.where(shown > 0, shown, rest > 0))
        topic = row_of(offsets)
        few = shown[topic] > 0
        begin, length, turn = np.zeros_like(topic), rest[topic], whole[topic]
        begin[few], length[few], turn[few] = listed % brokers, 1, listed // brokers
        return Arcs(whole, offsets, begin, length, turn)


@part
def _add_arc(steps: Ints, begin: int, length: int) -> None:
    """One more on `length` (1 to n - 1) brokers from `begin` on, around; steps: int64 (n + 1), differences."""
    n = len(steps) - 1
    end = begin + length
    steps[begin] += 1
    if end > n:
        steps[0] += 1
        end -= n
    steps[end] -= 1


@part
def _take_up(steps: Ints, into: Ints) -> None:
    """Adds the counts that the differences stand for (n + 1) to `into` (n), and clears them."""
    level = 0
    for k in range(len(into)):
        level += steps[k]
        into[k] += level
    steps[:] = 0


@compiled
def count_round_robin(
    runs: Words,
    names: Words,
    draws: bool,
    whole: Ints,
    offsets: Ints,
    begin: Ints,
    length: Ints,
    turn: Ints,
    factor: Ints,
    leaders: Ints,
    replicas: Ints,
) -> None:
    """Adds to leaders and replicas, int64 (seeds, n): per seed, what each broker (by place in the list) gets.

    runs (seeds), names (topics): see topic_seed.py.   draws: whether start and shift are drawn, and the shift grows;
    else both are 0, as in the naive scheme.   whole to turn: of Arcs.   factor: int64 (topics), replicas a partition.
    """
    n = leaders.shape[1]
    state = np.empty(1, dtype=np.int64)
    lead, hold = np.zeros(n + 1, dtype=np.int64), np.zeros(n + 1, dtype=np.int64)
    lead_all, hold_all = 0, 0
    for i in range(len(names)):
        lead_all += whole[i]
        hold_all += whole[i] * factor[i]
    for s in range(len(runs)):
        for i in range(len(names)):
            start, shift = 0, 0
            if offsets[i] == offsets[i + 1]:
                continue
            if draws:
                state[0] = (seed_of(names[i], runs[s]) ^ _SCRAMBLER) & _MASK
                start = next_int(state, 0, n)
                if factor[i] > 1:
                    shift = next_int(state, 0, n)
            for a in range(offsets[i], offsets[i + 1]):
                first = begin[a] + start
                if first >= n:
                    first -= n
                _add_arc(lead, first, length[a])
                step = (shift + turn[a]) % (n - 1) if draws and factor[i] > 1 else 0
                for _rank in range(1, factor[i]):
                    follower = first + 1 + step
                    if follower >= n:
                        follower -= n
                    _add_arc(hold, follower, length[a])
                    step += 1
                    if step == n - 1:
                        step = 0
        _take_up(lead, leaders[s])
        _take_up(hold, replicas[s])
        for k in range(n):
            replicas[s, k] += leaders[s, k] + hold_all
            leaders[s, k] += lead_all


@compiled
def count_rack_aware(
    runs: Words,
    names: Words,
    whole: Ints,
    offsets: Ints,
    begin: Ints,
    length: Ints,
    turn: Ints,
    width: int,
    rack: Ids,
    racks: int,
    leaders: Ints,
    replicas: Ints,
) -> None:
    """As count_round_robin, over the alternated list (rack, racks: of alternate), for topics of one factor (width).

    A partition's followers are given by its leader and its shift modulo n - 1: equal pairs are counted, and each kind
    is placed once.
    """
    n = leaders.shape[1]
    cycle = max(1, n - 1)
    state = np.empty(1, dtype=np.int64)
    kinds = np.zeros((cycle, n + 1), dtype=np.int64)  # differences along the leaders
    rounds = np.zeros(cycle + 1, dtype=np.int64)  # of whole rounds, differences along the shifts
    used, rack_used = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    chosen = np.empty(n, dtype=np.int64)
    stamp = 0
    for s in range(len(runs)):
        every = 0  # whole rounds at every shift
        for i in range(len(names)):
            if whole[i] == 0 and offsets[i] == offsets[i + 1]:
                continue
            state[0] = (seed_of(names[i], runs[s]) ^ _SCRAMBLER) & _MASK
            start = next_int(state, 0, n)
            shift = next_int(state, 0, n)
            every += whole[i] // cycle
            if whole[i] % cycle > 0:
                _add_arc(rounds, shift % cycle, whole[i] % cycle)
            for a in range(offsets[i], offsets[i + 1]):
                first = begin[a] + start
                _add_arc(kinds[(shift + turn[a]) % cycle], first if first < n else first - n, length[a])
        for t in range(cycle):
            every += rounds[t]
            level = every
            for first in range(n):
                level += kinds[t, first]
                if level == 0:
                    continue
                leaders[s, first] += level
                stamp += 1
                place_partition(rack, racks, first, t, width, rack_used, used, stamp, chosen)
                for rank in range(width):
                    replicas[s, chosen[rank]] += level
            kinds[t, :] = 0
        rounds[:] = 0


@compiled
def count_striped_one_rack(
    runs: Words, names: Words, whole: Ints, rest: Ints, factor: Ints, leaders: Ints, replicas: Ints
) -> None:
    """Adds to leaders and replicas as count_round_robin, by KRaft's placement over unfenced brokers of one rack.

    There a round gives all brokers the same, and the last partitions (rest) are arcs: over the brokers in order, or,
    behind a round, as shuffled once a round.
    """
    n = leaders.shape[1]
    state = np.empty(1, dtype=np.int64)
    lead, hold = np.zeros(n + 1, dtype=np.int64), np.zeros(n + 1, dtype=np.int64)
    order = np.empty(n, dtype=np.int32)
    lead_all, hold_all = 0, 0
    for i in range(len(names)):
        lead_all += whole[i]
        hold_all += whole[i] * factor[i]
    for s in range(len(runs)):
        for i in range(len(names)):
            if rest[i] == 0:
                continue
            state[0] = (seed_of(names[i], runs[s]) ^ _SCRAMBLER) & _MASK
            start = next_int(state, 0, n)
            if whole[i] == 0:
                _add_arc(lead, start, rest[i])
                for rank in range(1, factor[i]):
                    first = start + rank
                    _add_arc(hold, first if first < n else first - n, rest[i])
                continue
            next_int(state, 0, 1)  # among the racks
            for k in range(n):
                order[k] = k
            for _round in range(whole[i]):
                shuffle(state, 0, order)
            for partition in range(rest[i]):
                leaders[s, order[(start + partition) % n]] += 1
                for rank in range(1, factor[i]):
                    replicas[s, order[(start + partition + rank) % n]] += 1
        _take_up(lead, leaders[s])
        _take_up(hold, replicas[s])
        for k in range(n):
            replicas[s, k] += leaders[s, k] + hold_all
            leaders[s, k] += lead_all


@compiled
def count_striped(
    runs: Words,
    names: Words,
    partitions: Ints,
    factor: Ints,
    listed: Ints,
    listed_offsets: Ints,
    ids: Ids,
    rack_rank: Ids,
    rack_hash: Ids,
    leaders: Ints,
    replicas: Ints,
) -> None:
    """Adds to leaders and replicas as count_round_robin, by KRaft's placement over unfenced brokers.

    ids: int32 (n), each broker's place in leaders.   rack_rank, rack_hash: int32 (n), see striped.py.
    listed, listed_offsets: as in topics.Topics. Racks and shuffles leave no short cut: every replica is placed.
    """
    n = leaders.shape[1]
    brokers, bounds = np.empty(n, dtype=np.int32), np.empty(2 * n + 1, dtype=np.int32)
    keys, cursors = np.empty(n, dtype=np.int32), np.empty((2 * n, 3), dtype=np.int32)
    scratch, rack_names = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32)
    racks = lay_out(ids, rack_rank, np.zeros(n, dtype=np.bool_), rack_hash, brokers, bounds, keys)
    state = np.empty(1, dtype=np.int64)
    longest = 0
    for i in range(len(names)):
        longest = max(longest, partitions[i] * factor[i])
    out = np.empty(longest, dtype=np.int32)
    orders = np.empty_like(listed)
    for i in range(len(names)):
        lo, hi = listed_offsets[i], listed_offsets[i + 1]
        orders[lo:hi] = np.argsort(listed[lo:hi])
    for s in range(len(runs)):
        for i in range(len(names)):
            state[0] = (seed_of(names[i], runs[s]) ^ _SCRAMBLER) & _MASK
            lo, hi = listed_offsets[i], listed_offsets[i + 1]
            wanted, order = listed[lo:hi], orders[lo:hi]
            count = wanted[order[-1]] + 1 if len(wanted) > 0 else partitions[i]
            place_topic(
                *(state, 0, brokers, bounds, keys, racks, scratch, rack_names, cursors),
                *(wanted, order, count, factor[i], out),
            )
            shown = len(wanted) if len(wanted) > 0 else partitions[i]
            at = 0
            for _partition in range(shown):
                leaders[s, out[at]] += 1
                for _rank in range(factor[i]):
                    replicas[s, out[at]] += 1
                    at += 1
