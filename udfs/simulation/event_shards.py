"""Events on their way to the workers that fold them: packed once, moved as bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa

from udfs.arrow.ipc import packed, unpacked
from udfs.simulation.simulation_schemas import KEY, WIRE

EVERY_SHARD = -1
# an Arrow IPC batch: rows (WIRE) of one snapshot and one shard of its partitions, or of every shard.
SHARDS = pa.schema([*KEY, pa.field("bucket", pa.int32()), pa.field("rows", pa.binary())])
_ROWS_HELD = 500_000

Batches = Iterable[pa.RecordBatch]


def sharer() -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """For mapInArrow: rows of WIRE and their `bucket` -> SHARDS."""

    def body(batches: Batches) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        rows = 0
        for batch in batches:
            held.append(batch)
            rows += batch.num_rows
            if rows >= _ROWS_HELD:
                yield from _ipc_batches(held)
                held, rows = [], 0
        if rows:
            yield from _ipc_batches(held)

    return body


def gathered(batches: Batches) -> pa.Table | None:
    """The rows (WIRE) of all Arrow IPC batches of a worker: of batches with a column `rows`."""
    ipc_batches = [ipc_batch.as_buffer() for batch in batches for ipc_batch in batch.column("rows")]
    return unpacked(ipc_batches, WIRE).combine_chunks() if ipc_batches else None


def ipc_batch(schema: pa.Schema, mark: int | str, rows: pa.Table) -> pa.RecordBatch:
    """Rows of one snapshot, packed: its key, what they are marked with, themselves. schema: as SHARDS."""
    key = [rows[field.name][0].as_py() for field in KEY]
    return pa.RecordBatch.from_pylist([dict(zip(schema.names, (*key, mark, packed(rows)), strict=True))], schema=schema)


def _ipc_batches(held: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    table = pa.Table.from_batches(held)
    bucket = np.asarray(table["bucket"])
    code = bucket.astype(np.int64) - EVERY_SHARD
    for field in KEY:
        words = table[field.name].combine_chunks().dictionary_encode()
        code = code * (len(words.dictionary) + 1) + np.asarray(words.indices)
    order = np.argsort(code, kind="stable")
    ordered = table.select(WIRE.names).cast(WIRE).combine_chunks().take(pa.array(order))
    ends = np.flatnonzero(np.diff(code[order], append=-1)) + 1
    begin = 0
    for end in ends.tolist():
        yield ipc_batch(SHARDS, int(bucket[order[begin]]), ordered.slice(begin, end - begin))
        begin = end
