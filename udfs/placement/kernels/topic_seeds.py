"""The random seed of each topic, from the run's seed, the cluster and the topic's name alone.

Adding or removing a topic therefore never changes the draws of another, and the processing order does not matter.
"""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled, part

Words = npt.NDArray[np.uint64]
Names = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]  # UTF-8 bytes (flat), offsets (n + 1)
Word = TypeVar("Word", np.uint64, Words)

_FNV_OFFSET = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)


def _extend_fnv1a(state: Words, names: Names) -> Words:
    """Return the 64-bit FNV-1a hash of each name's bytes, continued from `state` (n)."""
    data, offsets = names
    lengths = np.diff(offsets)
    state = state.copy()
    # One step per byte position over all names of at least that length: topic names have at most 249 bytes.
    order = np.argsort(-lengths, kind="stable")
    active = np.searchsorted(-lengths[order], -np.arange(1, int(lengths.max(initial=0)) + 1), side="right")
    for position, count in enumerate(active):
        rows = order[:count]
        state[rows] = (state[rows] ^ data[offsets[rows] + position]) * _FNV_PRIME
    return state


def mix_bits(value: Word) -> Word:
    """Apply the finaliser of splitmix64 (Steele, Lea, Flood 2014): every input bit affects every output bit."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def hash_topic_names(clusters: Names, topics: Names) -> Words:
    """Return the part of a topic's seed that depends on the names of its cluster and itself: uint64 (n)."""
    with np.errstate(over="ignore"):
        state = _extend_fnv1a(np.full(len(topics[1]) - 1, _FNV_OFFSET, dtype=np.uint64), clusters)
        state = (state ^ np.uint64(0xFF)) * _FNV_PRIME  # 0xFF is in no UTF-8 text: ("a", "bc") is not ("ab", "c")
        return _extend_fnv1a(state, topics)


def mix_run_seeds(first: int, count: int) -> Words:
    """Return the part of a topic's seed that depends on the run: uint64 (count), for seeds first, first + 1, ..."""
    with np.errstate(over="ignore"):
        return mix_bits(np.uint64(first & 0xFFFFFFFFFFFFFFFF) + np.arange(count, dtype=np.uint64))


def compute_topic_seeds(run_seed: int, clusters: Names, topics: Names) -> npt.NDArray[np.int64]:
    """Return seeds for java.util.Random: int64 (n), in [0, 2**48), from the names of n topics and their clusters."""
    return combine_seeds(hash_topic_names(clusters, topics), mix_run_seeds(run_seed, 1)[0])


def combine_seeds(name_hashes: Words, run_word: np.uint64) -> npt.NDArray[np.int64]:
    """Return the seeds (n) of topics in one run, from `hash_topic_names` and an element of `mix_run_seeds`."""
    with np.errstate(over="ignore"):
        return (mix_bits(name_hashes ^ run_word) >> np.uint64(16)).astype(np.int64)


_mix_one = compiled(mix_bits)


@part
def combine_seed(name_hash: np.uint64, run_word: np.uint64) -> np.int64:
    """Return the seed of one topic in one run, as `combine_seeds` does."""
    return np.int64(_mix_one(name_hash ^ run_word) >> np.uint64(16))
