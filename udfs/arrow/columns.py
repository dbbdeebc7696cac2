"""Declare the columns of tables once, and convert columns to numpy arrays and back, with nulls as masks."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.ragged import RaggedLists, is_in_segment, offsets_of, position_of

TEXT, INT, LONG, DOUBLE, FLAG, BINARY = (pa.string(), pa.int32(), pa.int64(), pa.float64(), pa.bool_(), pa.binary())


TIME = pa.timestamp("us", tz="UTC")


INTS, TEXTS = pa.list_(INT), pa.list_(TEXT)


def column(name: str, data_type: pa.DataType, comment: str, required: bool = False) -> pa.Field:
    """Declare a column: its name with its unit (as in `_bytes`), what a value and null mean; required = never null."""
    return pa.field(name, data_type, nullable=not required, metadata={"comment": comment})


def get_comment(field: pa.Field) -> str:
    """Return the comment of a column declared with `column`."""
    metadata: dict[bytes, bytes] = field.metadata or {}
    return metadata.get(b"comment", b"").decode()


def schema_of(columns: Iterable[pa.Field]) -> pa.Schema:
    """Return the Arrow schema of rows with these columns: names and types alone."""
    return pa.schema([(c.name, c.type) for c in columns])


_FEW_ROWS = 1_000  # of which to copy nulls costs less than to look for them

Column: TypeAlias = pa.ChunkedArray | pa.Array


def table_of(rows: Iterable[Sequence[object]], schema: pa.Schema) -> pa.Table:
    """Return the table of rows whose values are in the order of the schema."""
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)


def to_array(column: Column) -> pa.Array:
    """Return the column as one chunk."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def is_valid(column: Column) -> npt.NDArray[np.bool_]:
    """Return whether each row is not null."""
    return np.asarray(pc.is_valid(to_array(column)))


def to_numpy(column: Column, missing: int | float = 0) -> npt.NDArray[Any]:
    """Return the values as a numpy array, `missing` where null."""
    array = to_array(column)
    return np.asarray(pc.fill_null(array, pa.scalar(missing, array.type)) if array.null_count else array)


def to_flags(column: Column) -> npt.NDArray[np.bool_]:
    """Return the values of a bool column, False where null."""
    return to_numpy(column, False)


def to_codes(column: Column) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Return (a code per row, -1 for null; the distinct values that the codes index)."""
    encoded = pc.dictionary_encode(to_array(column))
    return to_numpy(encoded.indices, -1).astype(np.int64), encoded.dictionary


def to_lists(column: Column, dtype: npt.DTypeLike = np.int32) -> RaggedLists:
    """Return a list column as flat values of this type, offsets and valid rows."""
    array = to_array(column)
    values = array.flatten().to_numpy(zero_copy_only=False).astype(dtype, copy=False)
    return RaggedLists(values, offsets_of(to_numpy(pc.list_value_length(array))), is_valid(array))


def is_in_lists(lists: RaggedLists, column: Column) -> npt.NDArray[np.bool_]:
    """Return whether each value of the lists is in the same row's list of a column too."""
    others = to_lists(column)
    return is_in_segment(lists.values, lists.offsets, others.values, others.offsets)


def to_list_array(lists: RaggedLists) -> pa.Array:
    """Return the lists as a list<int32> array."""
    return pa.ListArray.from_arrays(
        pa.array(lists.offsets, INT), pa.array(lists.values, INT), mask=pa.array(~lists.valid)
    )


def replace_columns(table: pa.Table, columns: Mapping[str, Column]) -> pa.Table:
    """Return the table with other values in some of its columns, by name; their fields stay."""
    for name, values in columns.items():
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), values)
    return table


def select_rows(table: pa.Table, chosen: Column) -> pa.Table:
    """Return the rows of a table (as one chunk) where `chosen` is true; null counts as false.

    Facts have many columns, of which most are null in most files: these cost nothing.
    """
    mask = pa.array(to_flags(chosen))
    count = pc.sum(mask).as_py() or 0
    if count == table.num_rows:
        return table.combine_chunks()
    if table.num_rows < _FEW_ROWS:
        return table.filter(mask).combine_chunks()
    nulls: dict[pa.DataType, pa.Array] = {}
    columns = []
    for column in table.columns:
        if column.null_count < table.num_rows:
            columns.append(to_array(column).filter(mask))
        else:
            if column.type not in nulls:
                nulls[column.type] = pa.nulls(count, column.type)
            columns.append(nulls[column.type])
    return pa.Table.from_arrays(columns, schema=table.schema)


def fingerprint(column: Column, ordered: bool = True) -> npt.NDArray[np.uint64]:
    """Return a number per row, equal for equal values, 0 for null. Maps are sets, and lists if not ordered."""
    array = to_array(column)
    with np.errstate(over="ignore"):
        if pa.types.is_list(array.type):
            lists = to_lists(array)
            hashes = _scramble(lists.values.astype(np.int64).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15))
            if ordered:
                position = position_of(lists.offsets).astype(np.uint64)
                hashes = _scramble(hashes + position * np.uint64(0x9E3779B97F4A7C15))
            total = np.append(np.uint64(0), np.cumsum(hashes, dtype=np.uint64))
            result = total[lists.offsets[1:]] - total[lists.offsets[:-1]] + np.uint64(1)
        else:
            if pa.types.is_map(array.type):
                texts = [None if pairs is None else repr(sorted(pairs)) for pairs in array.to_pylist()]
                array = pa.array(texts, TEXT)
            result = to_codes(array)[0].astype(np.uint64) + np.uint64(1)
    return np.where(is_valid(array), result, np.uint64(0))


def _scramble(value: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    value = (value ^ (value >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    return (value ^ (value >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
