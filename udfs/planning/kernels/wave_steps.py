"""The steps of a reassignment - one added replica at a time - and the waves that they go in."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled, copying_part, part

Ints = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

NOTHING_ADDED = -1


@copying_part
def _holds(brokers: Ids, broker: int) -> bool:
    return bool((brokers == broker).any())


@part
def _in_rack(brokers: Ids, rack: Ids, of: int) -> int:
    count = 0
    for broker in brokers:
        if rack[broker] == of:
            count += 1
    return count


@part
def _not_in(brokers: Ids, others: Ids, out: Ids) -> int:
    """How many of `brokers` are not among `others`; these are in `out`, in order."""
    count = 0
    for broker in brokers:
        if not _holds(others, broker):
            out[count] = broker
            count += 1
    return count


@part
def _swap(now: Ids, old: Ids, new: Ids, drops: Ids, adds: Ids, leader: int, live: Bools, rack: Ids) -> tuple[int, int]:
    """Places in `drops` (-1 = none goes) and `adds` of the replica that goes next and of the one that comes.

    Never the leader goes. A rack gets no more of the partition than it has before or after; a down broker goes before
    a live one; who comes is in the rack of who goes if one is, else where the partition has least.
    """
    best_drop, best_add, least = -1, 0, np.int64(-1)
    for d in range(-1, len(drops)):
        if (d < 0) != (len(drops) == 0) or (d >= 0 and drops[d] == leader):
            continue
        for a in range(len(adds)):
            home = rack[adds[a]]
            same = d >= 0 and rack[drops[d]] == home
            count = _in_rack(now, rack, home) + (0 if same else 1)
            over = count > max(_in_rack(old, rack, home), _in_rack(new, rack, home))
            lives = d >= 0 and live[drops[d]]
            key = np.int64(((over * 2 + lives) * 2 + (not same)) * 32768 + count)
            if least < 0 or key < least:
                best_drop, best_add, least = d, a, key
    return best_drop, best_add


@compiled
def fill_steps(
    old_offsets: Ints,
    old: Ids,
    new_offsets: Ints,
    new: Ids,
    leader: Ids,
    live: Bools,
    rack: Ids,
    first: Ints,
    offsets: Ints,
    replicas: Ids,
    added: Ids,
) -> None:
    """Writes the list after each step of m partitions, and who is added by it.

    old, new: int32 with offsets int64 (m + 1), the lists before and after.   leader: int32 (m), of the list before.
    live: bool (n), rack: int32 (n), by broker.   first: int64 (m + 1), the steps of a partition.
    offsets: int64 (steps + 1) of replicas: int32.   added: int32 (steps), or NOTHING_ADDED.
    Until the last step, the list begins with the leader and has at most as many replicas as before or after.
    """
    longest = 0
    for i in range(len(leader)):
        both = old_offsets[i + 1] - old_offsets[i] + new_offsets[i + 1] - new_offsets[i]
        longest = max(longest, both)
    held, drops, adds = np.empty(longest, np.int32), np.empty(longest, np.int32), np.empty(longest, np.int32)
    for i in range(len(leader)):
        before = old[old_offsets[i] : old_offsets[i + 1]]
        after = new[new_offsets[i] : new_offsets[i + 1]]
        going, coming = _not_in(before, after, drops), _not_in(after, before, adds)
        held[0] = leader[i]
        size = 1
        for broker in before:
            if broker != leader[i]:
                held[size] = broker
                size += 1
        for step in range(first[i], first[i + 1] - 1):
            grows = size < len(after)
            d, a = _swap(
                held[:size], before, after, drops[: 0 if grows else going], adds[:coming], leader[i], live, rack
            )
            if grows:
                held[size] = adds[a]
                size += 1
            else:
                for k in range(size):
                    if held[k] == drops[d]:
                        held[k] = adds[a]
                going -= 1
                drops[d:going] = drops[d + 1 : going + 1].copy()
            added[step] = adds[a]
            coming -= 1
            adds[a:coming] = adds[a + 1 : coming + 1].copy()
            replicas[offsets[step] : offsets[step + 1]] = held[:size]
        last = first[i + 1] - 1
        added[last] = adds[0] if coming else NOTHING_ADDED
        replicas[offsets[last] : offsets[last + 1]] = after


@compiled
def assign_waves(
    first: Ints, added: Ids, source: Ids, size: Floats, order: Ints, brokers: int, most_bytes: float, most_moves: int
) -> Ids:
    """The wave of each step: int32 (steps), from 0; a partition's steps are in rising waves.

    first: int64 (m + 1), steps of a partition.   added: int32 (steps).   source: int32 (m).   size: float64 (m).
    order: int64 (m), who is asked first.   In a wave, a broker copies at most `most_bytes` in and out together, and
    receives at most `most_moves` replicas; a copy that is larger goes where both its brokers copy nothing else.
    """
    out = np.zeros(len(added), dtype=np.int32)
    waiting = np.empty(len(order), dtype=np.int64)
    left = 0
    for i in order:
        if added[first[i]] != NOTHING_ADDED:
            waiting[left] = i
            left += 1
    step = first[:-1].copy()
    load, copies = np.empty(brokers, dtype=np.float64), np.empty(brokers, dtype=np.int64)
    received = np.empty(brokers, dtype=np.int64)
    wave = 0
    while left:
        load[:], copies[:], received[:] = 0, 0, 0
        kept = 0
        for k in range(left):
            i = waiting[k]
            to, by = added[step[i]], source[i]
            fits = load[to] + size[i] <= most_bytes and load[by] + size[i] <= most_bytes
            if received[to] < most_moves and (fits or copies[to] + copies[by] == 0):
                load[to] += size[i]
                load[by] += size[i]
                copies[to] += 1
                copies[by] += 1
                received[to] += 1
                out[step[i]] = wave
                step[i] += 1
                if step[i] == first[i + 1]:
                    continue
            waiting[kept] = i
            kept += 1
        left = kept
        wave += 1
    return out
