"""Lists of different lengths, one behind another in flat arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from udfs.kernels.replay_state import Ints


def positions(begin: Ints, size: Ints) -> Ints:
    """Places begin, begin + 1, ... of each, one behind another."""
    size = np.maximum(size, 0)
    starts = np.cumsum(size) - size
    out: Ints = np.repeat(begin - starts, size) + np.arange(int(size.sum()))
    return out


def joined(parts: Sequence[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    """(how long each is, values): of each the values of all parts, one part behind another.

    parts: (how long each one's is, values of all).
    """
    size: Ints = np.sum([part for part, _ in parts], axis=0, dtype=np.int64)
    begin = np.cumsum(size) - size
    out = np.empty(int(size.sum()), np.int64)
    for part, values in parts:
        out[positions(begin, part)] = values
        begin = begin + part
    return size, out
