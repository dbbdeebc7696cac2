"""The simulation in Spark: functions for `mapInArrow`.

Events travel as Arrow IPC batches, packed once: rows (WIRE) of one snapshot and one shard of its partitions, or of
every shard. A worker simulates its shards in one call and returns its rows as Arrow IPC batches.
"""

from collections.abc import Callable, Collection, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.ipc import pack_table, rebatch, unpack_tables
from udfs.simulation import simulation_schemas as schemas
from udfs.simulation.cluster_timeline import find_joint_events
from udfs.simulation.event_columns import code_rows
from udfs.simulation.event_packing import pack_event_log
from udfs.simulation.kernels.codes import EventKind
from udfs.simulation.kernels.simulation_arrays import Ints
from udfs.simulation.request_results import join_requests
from udfs.simulation.result_tables import ResultTables
from udfs.simulation.simulation_schemas import KEY, KEY_NAMES, REQUESTS, WIRE
from udfs.simulation.simulator import simulate_packed

EVERY_SHARD = -1
SHARDS = pa.schema([*KEY, pa.field("bucket", pa.int32()), pa.field("rows", pa.binary())])
RESULTS = pa.schema([*KEY, pa.field("part", pa.string()), pa.field("rows", pa.binary())])
# The rows that each part of RESULTS holds.
RESULT_SCHEMAS = {
    "leaderships": schemas.LEADERSHIPS,
    "transitions": schemas.TRANSITIONS,
    "health": schemas.HEALTH,
    "requests": REQUESTS,
    "requests_of_parts": REQUESTS,
    "final_partitions": schemas.STATES_AT_END,
}
_SHARD_ROWS = 500_000
_RESULT_ROWS = 200_000
_BATCH_ROWS = 20_000  # a batch costs Spark as much as thousands of rows
_MAX_UNPACKED = 1_000

Batches = Iterable[pa.RecordBatch]


def shard_events(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Pack rows of WIRE, with the `bucket` of their shard, into rows of SHARDS."""
    return rebatch(batches, _pack_shards, _SHARD_ROWS)


def simulate_shards(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Simulate the shards in a column `rows`; yield RESULTS."""
    # A worker needs all rows of its partitions, of their clusters' brokers and controllers, and their joint events.
    events = _unpack_events(batches)
    if events is None:
        return
    tables = ResultTables(simulate_packed(pack_event_log(events)))
    del events
    requests = tables.requests
    has_parts = pc.greater(requests["parts"], 1)
    chosen = {"requests": requests.filter(pc.invert(has_parts)), "requests_of_parts": requests.filter(has_parts)}
    for part in RESULT_SCHEMAS:
        rows = chosen[part] if part in chosen else getattr(tables, part)
        for begin, end in _list_runs(code_rows(rows, KEY_NAMES)):
            for first in range(begin, end, _RESULT_ROWS):
                yield _pack_batch(RESULTS, part, rows.slice(first, min(_RESULT_ROWS, end - first)))


def unpack_results(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Unpack a column `rows` of RESULTS, all of one part."""
    pending: list[pa.Table] = []
    for batch in batches:
        for value in batch.column(0):
            pending.append(pa.ipc.open_stream(value.as_buffer()).read_all())
            if pending[-1].num_rows >= _BATCH_ROWS or len(pending) >= _MAX_UNPACKED:
                yield from pa.concat_tables(pending).combine_chunks().to_batches(_BATCH_ROWS)
                pending = []
    if pending:
        yield from pa.concat_tables(pending).combine_chunks().to_batches(_BATCH_ROWS)


def join_request_parts(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Join rows of REQUESTS, all parts of each request, into rows of JOINED_REQUESTS."""
    filled = [batch for batch in batches if batch.num_rows]
    if filled:
        yield from join_requests(pa.Table.from_batches(filled)).to_batches(_BATCH_ROWS)


def joint_event_finder(rebalanced: Collection[tuple[str, str]]) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Return a function that finds joint events (WIRE) in a column `rows` of SHARDS, all shards of some clusters."""
    # rebalanced: (cluster_id, snapshot_id) of clusters whose leaders may be rebalanced; of others, only deleted topics
    # count.

    def find(batches: Batches) -> Iterator[pa.RecordBatch]:
        events = _unpack_events(batches)
        if events is not None:
            yield from find_joint_events(pack_event_log(_filter_relevant(events, rebalanced)), WIRE).to_batches()

    return find


def _filter_relevant(events: pa.Table, rebalanced: Collection[tuple[str, str]]) -> pa.Table:
    keys = {tuple(key.values()) for key in events.select(KEY_NAMES).group_by(KEY_NAMES).aggregate([]).to_pylist()}
    if keys <= set(rebalanced):
        return events
    key = pc.binary_join_element_wise(*(events[name] for name in KEY_NAMES), "\0")
    is_rebalanced = pc.is_in(key, pa.array(["\0".join(one) for one in rebalanced], pa.string()))
    topic = pc.binary_join_element_wise(key, events["topic"], "\0")
    deleted = topic.filter(pc.equal(events["kind"], EventKind.DELETE_PARTITION.label)).unique()
    return events.filter(pc.or_(is_rebalanced, pc.or_(pc.is_null(topic), pc.is_in(topic, deleted))))


def _unpack_events(batches: Batches) -> pa.Table | None:
    ipc_batches = [value.as_buffer() for batch in batches for value in batch.column("rows")]
    return unpack_tables(ipc_batches, WIRE).combine_chunks() if ipc_batches else None


def _pack_shards(table: pa.Table) -> Iterator[pa.RecordBatch]:
    code = code_rows(table, ("bucket", *KEY_NAMES))
    order = np.argsort(code, kind="stable")
    bucket = np.asarray(table["bucket"])[order]
    rows = table.select(WIRE.names).cast(WIRE).combine_chunks().take(pa.array(order))
    for begin, end in _list_runs(code[order]):
        yield _pack_batch(SHARDS, int(bucket[begin]), rows.slice(begin, end - begin))


def _list_runs(code: Ints) -> list[tuple[int, int]]:
    """List (begin, end) of each run of rows with the same code."""
    ends = (np.flatnonzero(np.diff(code)) + 1).tolist()
    return list(zip([0, *ends], [*ends, len(code)], strict=True)) if len(code) else []


def _pack_batch(schema: pa.Schema, label: int | str, rows: pa.Table) -> pa.RecordBatch:
    """Pack rows of one snapshot into one row: its key, the label, the rows."""
    key = [rows[name][0].as_py() for name in KEY_NAMES]
    row = dict(zip(schema.names, (*key, label, pack_table(rows)), strict=True))
    return pa.RecordBatch.from_pylist([row], schema=schema)
