"""Arrow columns as numpy arrays, with nulls as masks."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.ragged import RaggedLists, offsets_of, position_of

Column: TypeAlias = pa.ChunkedArray | pa.Array


def to_array(column: Column) -> pa.Array:
    """Return the column as one chunk."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def is_valid(column: Column) -> npt.NDArray[np.bool_]:
    """Return whether each row is not null."""
    return np.asarray(pc.is_valid(to_array(column)))


def to_numpy(column: Column, missing: int | float = 0) -> npt.NDArray[Any]:
    """Return the values as a numpy array, `missing` where null."""
    array = to_array(column)
    return np.asarray(pc.fill_null(array, pa.scalar(missing, array.type)))


def to_flags(column: Column) -> npt.NDArray[np.bool_]:
    """Return the values of a bool column, False where null."""
    return np.asarray(pc.fill_null(to_array(column), False))


def to_codes(column: Column) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Return (a code per row, -1 for null; the distinct values that the codes index)."""
    encoded = pc.dictionary_encode(to_array(column))
    return to_numpy(encoded.indices, -1).astype(np.int64), encoded.dictionary


def to_lists(column: Column) -> RaggedLists:
    """Return a list<int32> column as flat values, offsets and valid rows."""
    array = to_array(column)
    lengths = to_numpy(pc.list_value_length(array)).astype(np.int64)
    values = array.flatten().to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    return RaggedLists(values, offsets_of(lengths), is_valid(array))


def to_list_array(lists: RaggedLists) -> pa.Array:
    """Return the lists as a list<int32> array."""
    built = pa.ListArray.from_arrays(pa.array(lists.offsets, pa.int32()), pa.array(lists.values, pa.int32()))
    return pc.if_else(pa.array(lists.valid), built, pa.nulls(len(built), built.type))


def fingerprint(column: Column, ordered: bool = True) -> npt.NDArray[np.uint64]:
    """Return a number per row that is equal for equal values, and 0 for null.

    Args:
        column: Maps are compared as sets of pairs.
        ordered: Whether lists are compared as sequences, or as sets.
    """
    array = to_array(column)
    with np.errstate(over="ignore"):
        if pa.types.is_list(array.type):
            lists = to_lists(array)
            hashes = _scramble(lists.values.astype(np.int64).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15))
            if ordered:
                position = position_of(lists.offsets).astype(np.uint64)
                hashes = _scramble(hashes + position * np.uint64(0x9E3779B97F4A7C15))
            total = np.zeros(len(hashes) + 1, dtype=np.uint64)
            np.cumsum(hashes, out=total[1:])
            result = total[lists.offsets[1:]] - total[lists.offsets[:-1]] + np.uint64(1)
        else:
            if pa.types.is_map(array.type):
                texts = [None if pairs is None else repr(sorted(pairs)) for pairs in array.to_pylist()]
                array = pa.array(texts, pa.string())
            result = to_codes(array)[0].astype(np.uint64) + np.uint64(1)
    return np.where(is_valid(array), result, np.uint64(0))


def _scramble(value: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    value = (value ^ (value >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    return (value ^ (value >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
