"""Events on their way to the workers that fold them: packed once, moved as bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa

from udfs.arrow.ipc import packed, unpacked
from udfs.simulation.simulation_schemas import KEY, WIRE

EVERY_SHARE = -1
# A parcel: rows (WIRE) of one snapshot and one share of its partitions, or of every share.
SHARES = pa.schema([*KEY, pa.field("bucket", pa.int32()), pa.field("rows", pa.binary())])
_ROWS_HELD = 500_000

Batches = Iterable[pa.RecordBatch]


def sharer() -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """For mapInArrow: rows of WIRE and their `bucket` -> SHARES."""

    def body(batches: Batches) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        rows = 0
        for batch in batches:
            held.append(batch)
            rows += batch.num_rows
            if rows >= _ROWS_HELD:
                yield from _parcels(held)
                held, rows = [], 0
        if rows:
            yield from _parcels(held)

    return body


def gathered(batches: Batches) -> pa.Table | None:
    """The rows (WIRE) of all parcels of a worker: of batches with a column `rows`."""
    parcels = [parcel.as_buffer() for batch in batches for parcel in batch.column("rows")]
    return unpacked(parcels, WIRE).combine_chunks() if parcels else None


def parcel(schema: pa.Schema, mark: int | str, rows: pa.Table) -> pa.RecordBatch:
    """Rows of one snapshot, packed: its key, what they are marked with, themselves. schema: as SHARES."""
    key = [rows[field.name][0].as_py() for field in KEY]
    return pa.RecordBatch.from_pylist([dict(zip(schema.names, (*key, mark, packed(rows)), strict=True))], schema=schema)


def _parcels(held: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    table = pa.Table.from_batches(held)
    bucket = np.asarray(table["bucket"])
    code = bucket.astype(np.int64) - EVERY_SHARE
    for field in KEY:
        words = table[field.name].combine_chunks().dictionary_encode()
        code = code * (len(words.dictionary) + 1) + np.asarray(words.indices)
    order = np.argsort(code, kind="stable")
    ordered = table.select(WIRE.names).cast(WIRE).combine_chunks().take(pa.array(order))
    ends = np.flatnonzero(np.diff(code[order], append=-1)) + 1
    begin = 0
    for end in ends.tolist():
        yield parcel(SHARES, int(bucket[order[begin]]), ordered.slice(begin, end - begin))
        begin = end
