"""A seed for each topic from the run's seed, the cluster and the topic's name alone.

So adding or removing a topic never changes the draw of another, and no order of processing matters.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled, part

Words = npt.NDArray[np.uint64]
Word = TypeVar("Word", np.uint64, Words)

_FNV_OFFSET = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)


def _fnv1a(
    state: npt.NDArray[np.uint64], data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint64]:
    """FNV-1a (64 bits) of each segment's bytes, continued from `state` (n)."""
    lengths = np.diff(offsets)
    state = state.copy()
    # A step per byte position, over all segments that are that long: names have at most 249 bytes.
    order = np.argsort(-lengths, kind="stable")
    active = np.searchsorted(-lengths[order], -np.arange(1, int(lengths.max(initial=0)) + 1), side="right")
    for position, count in enumerate(active):
        rows = order[:count]
        state[rows] = (state[rows] ^ data[offsets[rows] + position]) * _FNV_PRIME
    return state


def _mix(value: Word) -> Word:
    """Finaliser of splitmix64 (Steele, Lea, Flood 2014): every bit of the input reaches every bit out."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def topic_hashes(
    clusters: tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]],
    topics: tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]],
) -> Words:
    """What a topic's seed takes from the names (n), whatever the run; see `topic_seeds` for the arguments."""
    with np.errstate(over="ignore"):
        state = np.full(len(topics[1]) - 1, _FNV_OFFSET, dtype=np.uint64)
        state = _fnv1a(state, *clusters)
        state = (state ^ np.uint64(0xFF)) * _FNV_PRIME  # 0xFF is in no UTF-8 text: ("a", "bc") is not ("ab", "c")
        return _fnv1a(state, *topics)


def run_words(first: int, count: int) -> Words:
    """What a seed takes from the run: of the run seeds first, first + 1, ... (count), mixed."""
    with np.errstate(over="ignore"):
        return _mix(np.uint64(first & 0xFFFFFFFFFFFFFFFF) + np.arange(count, dtype=np.uint64))


def topic_seeds(
    run_seed: int,
    clusters: tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]],
    topics: tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]],
) -> npt.NDArray[np.int64]:
    """Seeds for java.util.Random: int64 (n), in [0, 2**48).

    clusters, topics: UTF-8 bytes (flat) and offsets (n + 1) of the n names. run_seed: any int64.
    """
    return seeds_of(topic_hashes(clusters, topics), run_words(run_seed, 1)[0])


def seeds_of(names: Words, run: np.uint64) -> npt.NDArray[np.int64]:
    """The seeds (n) of topics in one run. names: of topic_hashes; run: of run_words."""
    with np.errstate(over="ignore"):
        return (_mix(names ^ run) >> np.uint64(16)).astype(np.int64)


_mix_one = compiled(_mix)


@part
def seed_of(name: np.uint64, run: np.uint64) -> np.int64:
    """The same of one topic, for kernels."""
    return np.int64(_mix_one(name ^ run) >> np.uint64(16))
