"""The event log of a fold that goes on, as Spark puts it together in pipelines/stages/replayed.py."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udfs.kernels import replay_codes as k
from udfs.kernels import replay_state as st
from udfs.kernels.replay_state import Ints
from udfs.replay.carry import lists_of, rows_of
from udfs.replay.packing import NUMBERS
from udfs.replay.ragged import joined
from udfs.replay.schema import EVENTS, KEY, LISTS, WIRE
from udfs.replay.words import KINDS


def resume(carried: pa.Table, new: pa.Table, until: int | None = None) -> pa.Table:
    """The event log of a fold that goes on: rows of `carried`, and events since then.

    carried: of cluster_rows and state_rows, of whole clusters or of some partitions.   new: EVENTS or WIRE, events
    alone, numbered on from those before; the result is of the same schema.   until: ms, as event_log's end_at.
    """
    held = pc.equal(carried["kind"], KINDS[k.HELD_CLUSTER])
    clusters, others = carried.filter(held), carried.filter(pc.invert(held))
    keys = [field.name for field in KEY]
    last = new.group_by(keys).aggregate([("at_ms", "max"), ("event", "max")])
    said = {tuple(row[key] for key in keys): row for row in last.to_pylist()}
    numbers = np.asarray(clusters["numbers"].combine_chunks().flatten()).reshape(-1, NUMBERS).copy()
    for row, *key in zip(numbers, *(clusters[key].to_pylist() for key in keys), strict=True):
        more = said.get(tuple(key))
        if more:
            row[st.END_AT], row[st.END_EVENT] = max(row[st.END_AT], more["at_ms_max"]), more["event_max"] + 1
        row[st.END_AT] = max(row[st.END_AT], row[st.END_AT] if until is None else until)
    clusters = clusters.set_column(len(EVENTS) - 1, EVENTS.field("numbers"), rows_of(numbers))
    first = pa.concat_tables([clusters, others])
    return pa.concat_tables([wired(first) if "lists" in new.column_names else first, new])


def wired(table: pa.Table) -> pa.Table:
    """Rows of EVENTS as rows of WIRE."""
    parts: list[tuple[Ints, Ints]] = []
    columns = [table[name].combine_chunks() for name in (*LISTS, "numbers")]
    none = np.logical_and.reduce([np.asarray(pc.is_null(column)) for column in columns])
    for column in columns:
        size = np.asarray(pc.fill_null(pc.list_value_length(column), -1)).astype(np.int64)
        parts += [
            (np.where(none, 0, 1), size[~none]),
            (np.maximum(size, 0), np.asarray(column.flatten()).astype(np.int64)),
        ]
    arrays = {name: table[name] for name in table.column_names} | {"lists": lists_of(*joined(parts))}
    return pa.table([arrays[field.name] for field in WIRE], schema=WIRE)
