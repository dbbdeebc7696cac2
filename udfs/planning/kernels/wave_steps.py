"""Steps of a reassignment, one added replica at a time, and the waves that they go in."""

from typing import NamedTuple

import numpy as np

from udfs.kernel_compiler import compiled, copying_part, part
from udfs.planning.kernels.array_types import Flags, Floats, Int32s, Ints, ListChanges

NOTHING_ADDED = -1
# Why a step is not in an earlier wave: the limit that deferred it last.
NOT_DEFERRED, BY_BYTES, BY_MOVES, BY_ORDER, BY_SIZE = 0, 1, 2, 3, 4


class Steps(NamedTuple):
    """Steps of m partitions."""

    first: Ints  # int64 (m + 1), the steps of each partition
    source: Int32s  # int32 (m), the current leader, which all copies are read from
    added: Int32s  # int32 (steps), the broker that copies, or NOTHING_ADDED
    offsets: Ints  # int64 (steps + 1), into `replicas`
    replicas: Int32s  # int32, the list after each step


class WaveCapacity(NamedTuple):
    """What a broker may copy in one wave: bytes in and out together, and replicas received."""

    bytes_in_flight: float
    moves: int


class StepWaves(NamedTuple):
    """The wave of each step, and why it is not in an earlier one."""

    wave: Int32s  # int32 (steps), from 0
    deferral: Int32s  # int32 (steps), NOT_DEFERRED, BY_BYTES, BY_MOVES, BY_ORDER or BY_SIZE
    broker: Int32s  # int32 (steps), the broker that had no room for it, or NOTHING_ADDED


@part
def _count_in_rack(brokers: Int32s, rack: Int32s, which: int) -> int:
    count = 0
    for broker in brokers:
        if rack[broker] == which:
            count += 1
    return count


@part
def _contains(brokers: Int32s, which: int) -> bool:
    contains = False
    for broker in brokers:
        contains |= broker == which
    return contains


@copying_part
def _copy_missing(brokers: Int32s, others: Int32s, out: Int32s) -> int:
    """Copy those of `brokers` that are not among `others` to `out`, in order. Return how many they are."""
    count = 0
    for broker in brokers:
        if not (others == broker).any():
            out[count] = broker
            count += 1
    return count


@part
def _choose_swap(
    now: Int32s, old: Int32s, new: Int32s, drops: Int32s, adds: Int32s, leader: int, lagging: Int32s, rack: Int32s
) -> tuple[int, int]:
    """Choose the indices in `drops` (-1 = none) and `adds` of the replica that goes next and of the one that comes.

    The leader stays. A rack gets no more of the partition than before or after. A `lagging` replica, one that is not in
    sync, goes before one that is. The new broker is in the rack of the old one if possible, else in the rack with the
    fewest replicas.
    """
    best_drop, best_add, least = -1, 0, np.int64(-1)
    for d in range(-1, len(drops)):
        if (d < 0) != (len(drops) == 0) or (d >= 0 and drops[d] == leader):
            continue
        for a in range(len(adds)):
            to = rack[adds[a]]
            same = d >= 0 and rack[drops[d]] == to
            count = _count_in_rack(now, rack, to) + (0 if same else 1)
            over = count > max(_count_in_rack(old, rack, to), _count_in_rack(new, rack, to))
            in_sync = d >= 0 and not _contains(lagging, drops[d])
            key = np.int64(((over * 2 + in_sync) * 2 + (not same)) * 32768 + count)
            if least < 0 or key < least:
                best_drop, best_add, least = d, a, key
    return best_drop, best_add


@compiled
def fill_steps(lists: ListChanges, in_sync: Flags, rack: Int32s, steps: Steps) -> None:
    """Fill the steps: until the last, a list begins with the leader and is at most as long as before or after.

    lists: the old ones without replicas that no step may name. in_sync: bool, of these. rack: int32 (n), by broker.
    """
    longest = 0
    for i in range(len(steps.source)):
        both = lists.old_offsets[i + 1] - lists.old_offsets[i] + lists.new_offsets[i + 1] - lists.new_offsets[i]
        longest = max(longest, both)
    now, drops, adds = np.empty(longest, np.int32), np.empty(longest, np.int32), np.empty(longest, np.int32)
    lagging = np.empty(longest, np.int32)
    for i in range(len(steps.source)):
        old = lists.old[lists.old_offsets[i] : lists.old_offsets[i + 1]]
        new = lists.new[lists.new_offsets[i] : lists.new_offsets[i + 1]]
        drop_count, add_count = _copy_missing(old, new, drops), _copy_missing(new, old, adds)
        lagging_count = 0
        for k in range(len(old)):
            if not in_sync[lists.old_offsets[i] + k]:
                lagging[lagging_count] = old[k]
                lagging_count += 1
        leader = steps.source[i]
        size = 0
        if _contains(old, leader):  # else no list may name it
            now[0] = leader
            size = 1
        for broker in old:
            if broker != leader:
                now[size] = broker
                size += 1
        for step in range(steps.first[i], steps.first[i + 1] - 1):
            grows = size < len(new)
            candidates = drops[: 0 if grows else drop_count]
            d, a = _choose_swap(
                now[:size], old, new, candidates, adds[:add_count], leader, lagging[:lagging_count], rack
            )
            if grows:
                now[size] = adds[a]
                size += 1
            else:
                for k in range(size):
                    if now[k] == drops[d]:
                        now[k] = adds[a]
                drop_count -= 1
                drops[d:drop_count] = drops[d + 1 : drop_count + 1].copy()
            steps.added[step] = adds[a]
            add_count -= 1
            adds[a:add_count] = adds[a + 1 : add_count + 1].copy()
            steps.replicas[steps.offsets[step] : steps.offsets[step + 1]] = now[:size]
        last = steps.first[i + 1] - 1
        steps.added[last] = adds[0] if add_count else NOTHING_ADDED
        steps.replicas[steps.offsets[last] : steps.offsets[last + 1]] = new


@compiled
def assign_waves(steps: Steps, size: Floats, order: Ints, brokers: int, capacity: WaveCapacity, out: StepWaves) -> None:
    """Assign each step to the first wave that has room for it; the waves of a partition rise. `out` has no deferrals.

    A copy that is larger than the capacity goes in a wave in which its two brokers copy nothing else. size: float64
    (m), bytes of one replica. order: int64 (m), the partitions, most important first.
    """
    waiting = np.empty(len(order), dtype=np.int64)
    left = 0
    for i in order:
        if steps.added[steps.first[i]] != NOTHING_ADDED:
            waiting[left] = i
            left += 1
    step = steps.first[:-1].copy()
    load, copies = np.empty(brokers, dtype=np.float64), np.empty(brokers, dtype=np.int64)
    received = np.empty(brokers, dtype=np.int64)
    wave = 0
    while left:
        load[:], copies[:], received[:] = 0, 0, 0
        still_waiting = 0
        for k in range(left):
            i = waiting[k]
            to, source = steps.added[step[i]], steps.source[i]
            fits = max(load[to], load[source]) + size[i] <= capacity.bytes_in_flight
            if received[to] < capacity.moves and (fits or copies[to] + copies[source] == 0):
                load[to] += size[i]
                load[source] += size[i]
                copies[to] += 1
                copies[source] += 1
                received[to] += 1
                out.wave[step[i]] = wave
                step[i] += 1
                if step[i] == steps.first[i + 1]:
                    continue
                out.deferral[step[i]], out.broker[step[i]] = BY_ORDER, NOTHING_ADDED
            elif received[to] >= capacity.moves:
                out.deferral[step[i]], out.broker[step[i]] = BY_MOVES, to
            else:
                out.deferral[step[i]] = BY_SIZE if size[i] > capacity.bytes_in_flight else BY_BYTES
                out.broker[step[i]] = to if (load[to], copies[to]) >= (load[source], copies[source]) else source
            waiting[still_waiting] = i
            still_waiting += 1
        left = still_waiting
        wave += 1
