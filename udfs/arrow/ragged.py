"""Lists of different lengths as one flat array and offsets: segment i is flat[offsets[i]:offsets[i + 1]].

Offsets are int64 of length segments + 1, begin at 0 and never fall - the layout of Arrow lists and of CSR matrices.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.integer]
BoolArray = npt.NDArray[np.bool_]
Offsets = npt.NDArray[np.int64]

_SHORT = 16  # longest segment that is compared place by place, which is several times as fast as sorting


def offsets_of(lengths: IntArray) -> Offsets:
    """Offsets (int64, n + 1) of segments with these lengths (n)."""
    out = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=out[1:])
    return out


def row_of(offsets: Offsets) -> Offsets:
    """For each flat element (int64), the segment it belongs to."""
    return np.repeat(np.arange(len(offsets) - 1, dtype=np.int64), np.diff(offsets))


def position_of(offsets: Offsets) -> Offsets:
    """For each flat element (int64), its position inside its segment, from 0."""
    lengths = np.diff(offsets)
    return np.arange(int(offsets[-1]), dtype=np.int64) - np.repeat(offsets[:-1], lengths)


def first_true(mask: BoolArray, offsets: Offsets) -> Offsets:
    """For each segment (int64), the flat index of its first True, or -1."""
    hits = np.flatnonzero(mask)
    # The first hit at or after a segment's begin is its own only if it lies before the segment's end.
    where = np.searchsorted(hits, offsets[:-1])
    found = np.full(len(offsets) - 1, -1, dtype=np.int64)
    inside = where < len(hits)
    candidate = hits[where[inside]]
    rows = np.flatnonzero(inside)
    good = candidate < offsets[1:][rows]
    found[rows[good]] = candidate[good]
    return found


def count_true(mask: BoolArray, offsets: Offsets) -> Offsets:
    """For each segment (int64), how many of its elements are True."""
    total = np.zeros(len(mask) + 1, dtype=np.int64)
    np.cumsum(mask, out=total[1:])
    return total[offsets[1:]] - total[offsets[:-1]]


def any_true(mask: BoolArray, offsets: Offsets) -> BoolArray:
    """For each segment, whether any of its elements is True."""
    return count_true(mask, offsets) > 0


def has_repeat(flat: IntArray, offsets: Offsets) -> BoolArray:
    """For each segment, whether some value occurs in it more than once."""
    rows = row_of(offsets)
    out = np.zeros(len(offsets) - 1, dtype=np.bool_)
    longest = int(np.diff(offsets).max(initial=0))
    if longest <= _SHORT:  # as replica lists are: every element against those behind it
        for apart in range(1, longest):
            same = (flat[apart:] == flat[:-apart]) & (rows[apart:] == rows[:-apart])
            out[rows[apart:][same]] = True
        return out
    order = np.lexsort((flat, rows))
    same = np.zeros(len(flat), dtype=np.bool_)
    same[1:] = (flat[order][1:] == flat[order][:-1]) & (rows[order][1:] == rows[order][:-1])
    out[rows[order][same]] = True
    return out


def contained(flat: IntArray, offsets: Offsets, other_flat: IntArray, other_offsets: Offsets) -> BoolArray:
    """For each flat element, whether it occurs in the segment of `other` with the same number.

    Both have the same number of segments; values are any int32.
    """
    longest = int(np.diff(other_offsets).max(initial=0))
    rows = row_of(offsets)
    if longest <= _SHORT:
        out = np.zeros(len(flat), dtype=np.bool_)
        begin, end = other_offsets[:-1][rows], other_offsets[1:][rows]
        for place in range(longest):
            at = begin + place
            inside = at < end
            out |= inside & (other_flat[np.where(inside, at, 0)] == flat)
        return out
    span = np.int64(1) << 32
    keys = rows * span + flat.astype(np.int64)
    others = row_of(other_offsets) * span + other_flat.astype(np.int64)
    return np.isin(keys, others)


def take_segments(flat: IntArray, offsets: Offsets, rows: IntArray) -> tuple[IntArray, Offsets]:
    """The segments `rows`, in that order, as a new (flat, offsets)."""
    lengths = np.diff(offsets)[rows]
    new_offsets = offsets_of(lengths)
    index = np.repeat(offsets[:-1][rows] - new_offsets[:-1], lengths) + np.arange(int(new_offsets[-1]))
    return flat[index], new_offsets
