"""How often each replica set comes: sets are sums of brokers' random 64-bit keys, counted in an open-addressed table.

Dead brokers have no key: a set is of those that live.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled, copying_part, part
from udfs.planning.annealing.kernels.search_state import Floats, Work
from udfs.planning.annealing.kernels.search_steps import Brokers, Random, draw

_NARROW = 2.0  # times the price of a set of fewer brokers than the largest: it is hit more easily
_SHARED = 0.3  # what a set that comes often costs more than one that comes once; 1 = once


class Sets(NamedTuple):
    """How often each set comes. size is a power of two, at least four times the partitions.

    key: uint64 (n), of each broker, 0 = down.   of: uint64 (p), the set of each partition.
    dear: float64 (p), the price of each partition's set.
    name: uint64 (size), 0 = empty; times: int32 (size).   used: int64 (1), names; distinct: int64 (1), that come.
    """

    key: npt.NDArray[np.uint64]
    of: npt.NDArray[np.uint64]
    name: npt.NDArray[np.uint64]
    times: npt.NDArray[np.int32]
    dear: Floats
    used: npt.NDArray[np.int64]
    distinct: npt.NDArray[np.int64]


def new_sets(work: Work, slots: Brokers, live: npt.NDArray[np.bool_], random: Random) -> Sets:
    """The sets of these slots (int32, r). live: bool (n)."""
    p, width = len(work.disk), np.diff(work.offsets)
    size = 1 << max(4, (4 * p).bit_length())
    sets = Sets(
        np.array([draw(random) if lives else 0 for lives in live.tolist()], dtype=np.uint64),
        np.zeros(p, np.uint64),
        np.zeros(size, np.uint64),
        np.zeros(size, np.int32),
        np.where(width < width.max(initial=0), _NARROW, 1.0),
        np.zeros(1, np.int64),
        np.zeros(1, np.int64),
    )
    _name(work, slots, sets)
    return sets


@compiled
def _name(work: Work, slots: Brokers, sets: Sets) -> None:
    for p in range(len(sets.of)):
        name = np.uint64(0)
        for slot in range(work.offsets[p], work.offsets[p + 1]):
            name += sets.key[slots[slot]]
        sets.of[p] = name
    count_sets(sets)


@copying_part
def count_sets(sets: Sets) -> None:
    """Nothing; the table has only what comes."""
    sets.name[:] = 0
    sets.times[:] = 0
    sets.used[0] = sets.distinct[0] = 0
    for p in range(len(sets.of)):
        _add(sets, sets.of[p], 1)


@part
def _place(sets: Sets, name: np.uint64) -> np.int64:
    """Where this name is in the table, or would be."""
    mask = np.uint64(len(sets.name) - 1)
    at = (name ^ (name >> np.uint64(32))) & mask
    while sets.name[at] != name and sets.name[at] != 0:
        at = (at + np.uint64(1)) & mask
    return np.int64(at)


@copying_part
def times_of(sets: Sets, name: np.uint64) -> int:
    """How often this set comes."""
    times: int = sets.times[_place(sets, name)]
    return times


@copying_part
def _add(sets: Sets, name: np.uint64, sign: int) -> None:
    """Nothing; this set comes once more (sign 1), or once less (-1). Nobody live (0) is no set."""
    if name == 0:
        return
    at = _place(sets, name)
    if sets.name[at] == 0:
        sets.name[at] = name
        sets.used[0] += 1
    if sets.times[at] == 0:
        sets.distinct[0] += 1
    sets.times[at] += sign
    if sets.times[at] == 0:
        sets.distinct[0] -= 1


@part
def rename(sets: Sets, p: int, name: np.uint64) -> float:
    """By how much the cost rose when partition p's set became this one; a set costs the more, the less often it comes
    for each that has it."""
    rise = -once_more(times_of(sets, sets.of[p]) - 1)
    _add(sets, sets.of[p], -1)
    rise += once_more(times_of(sets, name))
    _add(sets, name, 1)
    sets.of[p] = name
    price: float = sets.dear[p] * rise
    return price


@part
def once_more(times: int) -> float:
    """What it costs that a set which comes so often comes once more."""
    return 1.0 if times <= 0 else _SHARED / (times * (times + 1.0))
