"""Columns of an event log (schema EVENTS or WIRE) as numpy arrays."""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.ragged import expand_ranges, offsets_of, position_of, row_of
from udfs.simulation.kernels.codes import EventKind
from udfs.simulation.kernels.metadata_records import UNCHANGED_LEADER, UNCHANGED_LIST
from udfs.simulation.kernels.simulation_arrays import Ints
from udfs.simulation.simulation_schemas import KEY_NAMES, LISTS

Bools = npt.NDArray[np.bool_]
UNKNOWN = -1
CLUSTER_KINDS = (
    EventKind.BROKER_DOWN,
    EventKind.BROKER_UP,
    EventKind.CONTROLLED_SHUTDOWN,
    EventKind.CONTROLLER_LOST,
    EventKind.STALE_CONTROLLER,  # changes nothing; the controller's steps list it
    EventKind.BROKER_FENCED,
    EventKind.BROKER_UNFENCED,
    EventKind.CONTROLLER_CHANGE,
)
# What every shard of a cluster needs, whichever partitions it has.
_INITIAL = (EventKind.INITIAL_CLUSTER, EventKind.INITIAL_BROKER)
KINDS_OF_EVERY_SHARD = (*CLUSTER_KINDS, EventKind.LEADERS_REBALANCED, *_INITIAL)


class ListColumn:
    """A column of lists: how long each is (-1 = null), and its values one after another, with their rows."""

    def __init__(self, size: Ints, values: Ints) -> None:
        """Number the rows of the values."""
        self.size, self.values = size, values
        offsets = offsets_of(np.maximum(size, 0))
        self.row, self.position = row_of(offsets), position_of(offsets)


class EventColumns:
    """Columns of an event log, in its order of rows, each row of brokers and controllers once.

    `cluster` is a position in `clusters`, `topic` one in `topics`; -1 = unknown. `lists` are those of LISTS.
    """

    def __init__(self, table: pa.Table) -> None:
        """Read a table of schema EVENTS or WIRE."""
        self.table = table = _drop_copies(table)
        self.kind = _read_kinds(table)
        self.cluster, keys = _encode(pc.binary_join_element_wise(*(table[name] for name in KEY_NAMES), "\0"))
        self.clusters: tuple[tuple[str, str], ...] = tuple(tuple(key.split("\0")) for key in keys.to_pylist())
        self.topic, self.topics = _encode(table["topic"])
        self.event = read_ints(table["event"], UNKNOWN)
        self.at = read_ints(table["at_ms"], 0)
        self.broker = read_ints(table["broker_id"], UNKNOWN)
        self.value = read_ints(table["value"], 0)
        self.leader = read_ints(table["leader"], UNCHANGED_LEADER)
        if "lists" in table.column_names:
            *self.lists, self.numbers = _split_lists(table["lists"])
        else:
            *self.lists, self.numbers = (_read_list(table[name]) for name in (*LISTS, "numbers"))


def read_ints(column: pa.ChunkedArray | pa.Array, missing: int) -> Ints:
    """Return a column as int64, `missing` where it is null."""
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.array(pc.fill_null(values.cast(pa.int64()), missing))


def name_codes(names: Sequence[str | None], codes: Ints) -> pa.Array:
    """Replace codes (positions in `names`) by their names; -1 becomes null."""
    return pa.array(names, pa.string()).take(pa.array(codes, mask=codes < 0))


def known_values(values: Ints, is_known: Bools) -> pa.Array:
    """Return values as an Arrow array, null where they are unknown."""
    return pa.array(values, mask=~is_known)


def read_columns(
    rows: Ints, columns: type[IntEnum], schema: pa.Schema, names: Mapping[str, Sequence[str | None]] | None = None
) -> dict[str, pa.Array]:
    """Return the columns of a schema that `rows` have under the same name."""
    # -1 becomes null where the schema allows it. names: of the codes in a column, by column.
    out = {}
    for field in schema:
        column = columns.__members__.get(field.name.removesuffix("_ms").upper())
        if column is not None:
            values = rows[:, column]
            if names and field.name in names:
                out[field.name] = name_codes(names[field.name], values)
            elif field.type == pa.bool_():
                out[field.name] = pa.array(values != 0)
            else:
                out[field.name] = known_values(values, (values >= 0) | (not field.nullable))
    return out


def fill_rows(size: int, columns: type[IntEnum], values: Mapping[Any, Any]) -> Ints:
    """Make rows (int64) with these columns; those without values are 0."""
    rows = np.zeros((size, len(columns)), np.int64)
    for column, value in values.items():
        rows[:, column] = value
    return rows


def code_rows(table: pa.Table, names: Iterable[str]) -> Ints:
    """Number the rows by their values in these columns: equal values have equal codes."""
    code = np.zeros(table.num_rows, np.int64)
    for name in names:
        indices, values = _encode(table[name])
        code = code * (len(values) + 1) + indices
    return code


def _encode(column: pa.ChunkedArray) -> tuple[Ints, pa.Array]:
    """Return (a code for each row, -1 for null; the values that the codes index)."""
    encoded = column.combine_chunks().dictionary_encode()
    return read_ints(encoded.indices, UNKNOWN), encoded.dictionary


def _read_list(column: pa.ChunkedArray) -> ListColumn:
    array = column.combine_chunks()
    size = np.asarray(pc.fill_null(pc.list_value_length(array), UNCHANGED_LIST)).astype(np.int64)
    return ListColumn(size, np.asarray(array.flatten()).astype(np.int64))


def _split_lists(column: pa.ChunkedArray) -> list[ListColumn]:
    joined = _read_list(column)
    begin = offsets_of(np.maximum(joined.size, 0))[:-1]
    out, is_filled = [], joined.size > 0
    for _ in range(len(LISTS) + 1):
        size = np.full(len(begin), UNCHANGED_LIST)
        size[is_filled] = joined.values[begin[is_filled]]
        out.append(ListColumn(size, joined.values[expand_ranges(begin + 1, size)]))
        begin = begin + is_filled * (1 + np.maximum(size, 0))
    return out


def _read_kinds(table: pa.Table) -> Ints:
    return read_ints(pc.index_in(table["kind"], value_set=pa.array(EventKind.labels())), UNKNOWN)


def _drop_copies(table: pa.Table) -> pa.Table:
    """Drop copies of rows of brokers and controllers: they go to every shard, and a worker has several shards."""
    kind = _read_kinds(table)
    shared = np.flatnonzero(np.isin(kind, KINDS_OF_EVERY_SHARD))
    key = [_encode(table[name].take(pa.array(shared)))[0] for name in KEY_NAMES]
    key += [read_ints(table[name], UNKNOWN)[shared] for name in ("event", "at_ms", "broker_id")]
    _, first = np.unique(np.stack([*key, kind[shared]]), axis=1, return_index=True)
    if len(first) == len(shared):
        return table
    is_kept = np.ones(len(kind), np.bool_)
    is_kept[shared] = False
    is_kept[shared[first]] = True
    return table.filter(pa.array(is_kept)).combine_chunks()
