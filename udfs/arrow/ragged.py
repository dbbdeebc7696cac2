"""Lists of different lengths as one flat array and offsets: segment i is flat[offsets[i]:offsets[i + 1]].

Offsets are int64 of length segments + 1, begin at 0 and never fall - the layout of Arrow lists and of CSR matrices.
"""

from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.integer]
_D = TypeVar("_D", bound=np.generic)
BoolArray = npt.NDArray[np.bool_]
Offsets = npt.NDArray[np.int64]

_SHORT = 16  # longest segment whose elements are compared one by one, which is several times as fast as sorting


class RaggedLists(NamedTuple):
    """Lists of integers (n), of which some may be null."""

    values: npt.NDArray[np.int32]  # int32, all lists in order
    offsets: Offsets  # int64 (n + 1); null lists are empty
    valid: BoolArray  # bool (n): not null

    @property
    def lengths(self) -> Offsets:
        """The length (int64) of each list."""
        return np.diff(self.offsets)


def offsets_of(lengths: IntArray) -> Offsets:
    """Return the offsets (int64, n + 1) of segments with these lengths (n)."""
    out = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=out[1:])
    return out


def row_of(offsets: Offsets) -> Offsets:
    """Return the segment (int64) of each flat element."""
    return np.repeat(np.arange(len(offsets) - 1, dtype=np.int64), np.diff(offsets))


def position_of(offsets: Offsets) -> Offsets:
    """Return the position (int64, from 0) of each flat element in its segment."""
    lengths = np.diff(offsets)
    return np.arange(int(offsets[-1]), dtype=np.int64) - np.repeat(offsets[:-1], lengths)


def first_true(mask: BoolArray, offsets: Offsets) -> Offsets:
    """Return the flat index (int64) of the first True of each segment, or -1."""
    hits = np.append(np.flatnonzero(mask), len(mask))
    # The first hit at or after a segment's begin belongs to it only if it lies before the segment's end.
    candidate = hits[np.searchsorted(hits[:-1], offsets[:-1])]
    return np.where(candidate < offsets[1:], candidate, -1)


def count_true(mask: BoolArray, offsets: Offsets) -> Offsets:
    """Return how many elements (int64) of each segment are True."""
    total = np.zeros(len(mask) + 1, dtype=np.int64)
    np.cumsum(mask, out=total[1:])
    return total[offsets[1:]] - total[offsets[:-1]]


def any_true(mask: BoolArray, offsets: Offsets) -> BoolArray:
    """Return whether any element of each segment is True."""
    return count_true(mask, offsets) > 0


def has_repeat(flat: IntArray, offsets: Offsets) -> BoolArray:
    """Return whether any value occurs more than once in each segment."""
    rows = row_of(offsets)
    out = np.zeros(len(offsets) - 1, dtype=np.bool_)
    longest = int(np.diff(offsets).max(initial=0))
    if longest <= _SHORT:  # as replica lists are: every element against those after it
        for apart in range(1, longest):
            same = (flat[apart:] == flat[:-apart]) & (rows[apart:] == rows[:-apart])
            out[rows[apart:][same]] = True
        return out
    order = np.lexsort((flat, rows))
    same = np.zeros(len(flat), dtype=np.bool_)
    same[1:] = (flat[order][1:] == flat[order][:-1]) & (rows[order][1:] == rows[order][:-1])
    out[rows[order][same]] = True
    return out


def is_in_segment(flat: IntArray, offsets: Offsets, other_flat: IntArray, other_offsets: Offsets) -> BoolArray:
    """Return whether each flat element (int32) occurs in the segment of `other` with the same number."""
    longest = int(np.diff(other_offsets).max(initial=0))
    if longest <= _SHORT:
        rows = row_of(offsets)
        out = np.zeros(len(flat), dtype=np.bool_)
        begin, end = other_offsets[:-1][rows], other_offsets[1:][rows]
        for place in range(longest):
            inside = begin + place < end
            out |= inside & (other_flat[np.where(inside, begin + place, 0)] == flat)
        return out
    return np.isin(_number_by_segment(flat, offsets), _number_by_segment(other_flat, other_offsets))


def find_in_segment(flat: IntArray, offsets: Offsets, other_flat: IntArray, other_offsets: Offsets) -> Offsets:
    """Return the first position of each flat element (int32) in the segment of `other` with the same number, or -1."""
    keys, first = np.unique(_number_by_segment(other_flat, other_offsets), return_index=True)
    targets = _number_by_segment(flat, offsets)
    at = np.searchsorted(keys, targets)
    hit = at < len(keys)
    hit[hit] = keys[at[hit]] == targets[hit]
    places = np.full(len(targets), -1, dtype=np.int64)
    places[hit] = position_of(other_offsets)[first[at[hit]]]
    return places


def _number_by_segment(flat: IntArray, offsets: Offsets) -> Offsets:
    """Return a number (int64) for each flat element (int32) that only equal elements of the same segment share."""
    return (row_of(offsets) << 32) + flat.astype(np.int64)


def take_segments(flat: npt.NDArray[_D], offsets: Offsets, rows: IntArray) -> tuple[npt.NDArray[_D], Offsets]:
    """Return (flat, offsets) of the segments `rows`, in that order."""
    lengths = np.diff(offsets)[rows]
    return flat[expand_ranges(offsets[:-1][rows], lengths)], offsets_of(lengths)


def expand_ranges(begins: IntArray, lengths: IntArray) -> IntArray:
    """Return begin, begin + 1, ... of each range, one range after another; negative lengths count as 0."""
    lengths = np.maximum(lengths, 0)
    offsets = offsets_of(lengths)
    return np.repeat(begins - offsets[:-1], lengths) + np.arange(int(offsets[-1]))
