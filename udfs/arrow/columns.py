"""Arrow columns as numpy arrays, with nulls kept apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.ragged import offsets_of, position_of


def whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """The column as one chunk."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def valid(column: pa.ChunkedArray | pa.Array) -> npt.NDArray[np.bool_]:
    """For each row, whether it is not null."""
    return np.asarray(pc.is_valid(whole(column)))


def numbers(column: pa.ChunkedArray | pa.Array, missing: int | float = 0) -> npt.NDArray[Any]:
    """Values as a numpy array, `missing` where null."""
    array = whole(column)
    return np.asarray(pc.fill_null(array, pa.scalar(missing, array.type)))


def flags(column: pa.ChunkedArray | pa.Array) -> npt.NDArray[np.bool_]:
    """Values of a bool column, False where null."""
    return np.asarray(pc.fill_null(whole(column), False))


def codes(column: pa.ChunkedArray | pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """(a number per row, -1 for null; the distinct values that the numbers index)."""
    encoded = pc.dictionary_encode(whole(column))
    return numbers(encoded.indices, -1).astype(np.int64), encoded.dictionary


@dataclass(frozen=True)
class Lists:
    """A list<int32> column: flat values, offsets (n + 1), and which rows are not null (null rows are empty)."""

    flat: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    valid: npt.NDArray[np.bool_]

    @staticmethod
    def of(column: pa.ChunkedArray | pa.Array) -> Lists:
        array = whole(column)
        lengths = numbers(pc.list_value_length(array)).astype(np.int64)
        flat = array.flatten().to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
        return Lists(flat, offsets_of(lengths), valid(array))

    def to_arrow(self) -> pa.Array:
        """Back to a list<int32> array."""
        built = pa.ListArray.from_arrays(pa.array(self.offsets, pa.int32()), pa.array(self.flat, pa.int32()))
        return pc.if_else(pa.array(self.valid), built, pa.nulls(len(built), built.type))


def _scramble(value: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    value = (value ^ (value >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    return (value ^ (value >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)


def fingerprints(column: pa.ChunkedArray | pa.Array, ordered: bool = True) -> npt.NDArray[np.uint64]:
    """A number per row that is equal for equal values; null rows get 0.

    Lists are compared as sequences, or as sets without order if not `ordered`. Maps are compared as sets of pairs.
    """
    array = whole(column)
    present = valid(array)
    with np.errstate(over="ignore"):
        if pa.types.is_list(array.type):
            lists = Lists.of(array)
            parts = _scramble(lists.flat.astype(np.int64).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15))
            if ordered:
                place = position_of(lists.offsets)
                parts = _scramble(parts + place.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
            total = np.zeros(len(parts) + 1, dtype=np.uint64)
            np.cumsum(parts, out=total[1:])
            result = total[lists.offsets[1:]] - total[lists.offsets[:-1]] + np.uint64(1)
        elif pa.types.is_map(array.type):
            texts = [None if pairs is None else repr(sorted(pairs)) for pairs in array.to_pylist()]
            result = codes(pa.array(texts, pa.string()))[0].astype(np.uint64) + np.uint64(1)
        else:
            result = codes(array)[0].astype(np.uint64) + np.uint64(1)
    return np.where(present, result, np.uint64(0))
