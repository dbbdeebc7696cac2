"""Arrow tables as bytes: Spark moves an Arrow IPC batch as one value, and need not look into its rows, lists and
nulls."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.placement.kernels.topic_seeds import topic_hashes
from udfs.placement.topic_batches import text_of

_IPC_BATCH_ROWS = 100_000


def packed(table: pa.Table) -> bytes:
    """The table as an Arrow stream, compressed."""
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        stream.write_table(table)
    return out.getvalue()


def in_ipc_batches(
    batches: Iterable[pa.RecordBatch], split: Callable[[pa.Table], Iterator[pa.RecordBatch]]
) -> Iterator[pa.RecordBatch]:
    """What `split` makes of the batches' rows, so many at a time that Arrow IPC batches are neither tiny nor huge."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(part.num_rows for part in held) >= _IPC_BATCH_ROWS:
            yield from split(pa.Table.from_batches(held))
            held = []
    if any(part.num_rows for part in held):
        yield from split(pa.Table.from_batches(held))


def unpacked(ipc_batches: Iterable[bytes], schema: pa.Schema) -> pa.Table:
    """The rows of all Arrow IPC batches of this schema, none of none."""
    tables = [pa.ipc.open_stream(ipc_batch).read_all() for ipc_batch in ipc_batches]
    return pa.concat_tables([schema.empty_table(), *tables])


def topic_shards(topics: pa.Array, shards: int | npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """The shard (int64, n) of each topic (string, no nulls): the same wherever it is asked. shards: how many, >= 1."""
    names = pc.dictionary_encode(topics)
    nobody = (np.empty(0, dtype=np.uint8), np.zeros(len(names.dictionary) + 1, dtype=np.int64))
    hashes: npt.NDArray[np.uint64] = topic_hashes(nobody, text_of(names.dictionary))[np.asarray(names.indices)]
    return (hashes % np.asarray(shards, dtype=np.uint64)).astype(np.int64)
