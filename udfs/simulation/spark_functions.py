"""The fold where Spark spreads it: some partitions of some clusters in one call, their rows out as Arrow IPC
batches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udfs.simulation.cluster_actions import rows_together
from udfs.simulation.event_names import KINDS
from udfs.simulation.event_packing import pack
from udfs.simulation.event_shards import Batches, gathered, ipc_batch
from udfs.simulation.kernels.codes import DELETE
from udfs.simulation.request_results import joined
from udfs.simulation.result_tables import Rows
from udfs.simulation.simulation_schemas import HEALTH, KEY, LEADERSHIPS, REQUESTS, STATES_AT_END, TRANSITIONS, WIRE
from udfs.simulation.simulator import folded

# What an Arrow IPC batch holds rows of, and their schema.
PARTS = {
    "leaderships": LEADERSHIPS,
    "transitions": TRANSITIONS,
    "health": HEALTH,
    "requests": REQUESTS,
    "requests_of_parts": REQUESTS,
    "at_the_end": STATES_AT_END,
}
IPC_BATCHES = pa.schema([*KEY, pa.field("part", pa.string()), pa.field("rows", pa.binary())])
_KEY = [field.name for field in KEY]
_IPC_BATCH_ROWS = 200_000
_BATCH_ROWS = 20_000
_BATCH_IPC_BATCHES = 1_000


def replayer() -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """For mapInArrow: a column `rows` of SHARDS -> IPC_BATCHES. A worker has whole partitions, all rows of their
    clusters'
    brokers and controllers, and what their partitions do together.
    """

    def body(batches: Batches) -> Iterator[pa.RecordBatch]:
        table = gathered(batches)
        if table is None:
            return
        of = folded(pack(table))
        del table
        rows = Rows(of)
        requests = rows.requests()
        several = pc.greater(requests["parts"], 1)
        made = {"requests": requests.filter(pc.invert(several)), "requests_of_parts": requests.filter(several)}
        for part in PARTS:
            yield from _ipc_batches(part, made[part] if part in made else getattr(rows, part)())

    return body


def _ipc_batches(part: str, table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Rows of one snapshot each; rows of a snapshot stand together."""
    for begin, end in _runs(table):
        for first in range(begin, end, _IPC_BATCH_ROWS):
            yield ipc_batch(IPC_BATCHES, part, table.slice(first, min(_IPC_BATCH_ROWS, end - first)))


def _runs(table: pa.Table) -> list[tuple[int, int]]:
    """Where the rows of each snapshot begin and end."""
    if not table.num_rows:
        return []
    changed = np.zeros(table.num_rows, np.bool_)
    changed[0] = True
    for field in KEY:
        code = np.asarray(table[field.name].combine_chunks().dictionary_encode().indices)
        changed[1:] |= code[1:] != code[:-1]
    begins = np.flatnonzero(changed).tolist()
    return list(zip(begins, [*begins[1:], table.num_rows], strict=True))


def unpacker() -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """For mapInArrow: a column `rows` of Arrow IPC batches of one part -> their rows."""

    def body(batches: Batches) -> Iterator[pa.RecordBatch]:
        held: list[pa.Table] = []
        for batch in batches:
            for one in batch.column(0):
                held.append(pa.ipc.open_stream(one.as_buffer()).read_all())
                if held[-1].num_rows >= _BATCH_ROWS or len(held) >= _BATCH_IPC_BATCHES:
                    yield from _together(held)
                    held = []
        yield from _together(held)

    return body


def _together(tables: list[pa.Table]) -> Iterator[pa.RecordBatch]:
    """Few batches, as each costs Spark as much as thousands of rows."""
    if tables:
        yield from pa.concat_tables(tables).combine_chunks().to_batches(_BATCH_ROWS)


def joiner() -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """For mapInArrow: rows of REQUESTS, all parts of each -> JOINED_REQUESTS."""

    def body(batches: Batches) -> Iterator[pa.RecordBatch]:
        held = [batch for batch in batches if batch.num_rows]
        if held:
            yield from joined(pa.Table.from_batches(held)).to_batches(_BATCH_ROWS)

    return body


def coupler(whole: Collection[tuple[str, str]]) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """For mapInArrow: a column `rows` of SHARDS, all of some clusters -> rows (WIRE) of what partitions do together.

    whole: (cluster_id, snapshot_id) of which all partitions are looked at; of others, the topics that are deleted.
    """

    def body(batches: Batches) -> Iterator[pa.RecordBatch]:
        table = gathered(batches)
        if table is not None:
            yield from rows_together(pack(_of_interest(table, whole)), WIRE).to_batches()

    return body


def _of_interest(table: pa.Table, whole: Collection[tuple[str, str]]) -> pa.Table:
    keys = {tuple(key.values()) for key in table.select(_KEY).group_by(_KEY).aggregate([]).to_pylist()}
    if keys <= set(whole):
        return table
    key = pc.binary_join_element_wise(*(table[name] for name in _KEY), "\0")
    every = pc.is_in(key, pa.array(["\0".join(one) for one in whole], pa.string()))
    topic = pc.binary_join_element_wise(key, table["topic"], "\0")
    deleted = topic.filter(pc.equal(table["kind"], KINDS[DELETE])).unique()
    mine = pc.or_(pc.is_null(topic), pc.is_in(topic, deleted))
    return table.filter(pc.or_(every, mine))
