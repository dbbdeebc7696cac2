"""A seed for each topic from the run's seed, the cluster and the topic's name alone.

So adding or removing a topic never changes the draw of another, and no order of processing matters.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

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


def _mix(value: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Finaliser of splitmix64 (Steele, Lea, Flood 2014): every bit of the input reaches every bit out."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def topic_seeds(
    run_seed: int,
    clusters: tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]],
    topics: tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]],
) -> npt.NDArray[np.int64]:
    """Seeds for java.util.Random: int64 (n), in [0, 2**48).

    clusters, topics: UTF-8 bytes (flat) and offsets (n + 1) of the n names. run_seed: any int64.
    """
    count = len(topics[1]) - 1
    with np.errstate(over="ignore"):
        state = np.full(count, _FNV_OFFSET, dtype=np.uint64)
        state = _fnv1a(state, *clusters)
        state = (state ^ np.uint64(0xFF)) * _FNV_PRIME  # 0xFF is in no UTF-8 text: ("a", "bc") is not ("ab", "c")
        state = _fnv1a(state, *topics)
        mixed = _mix(state ^ _mix(np.full(count, np.uint64(run_seed & 0xFFFFFFFFFFFFFFFF), dtype=np.uint64)))
    return (mixed >> np.uint64(16)).astype(np.int64)
