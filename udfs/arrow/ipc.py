"""Arrow tables as bytes: Spark moves an Arrow IPC batch as one binary value and never looks into its rows."""

import io
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.placement.kernels.topic_seeds import hash_topic_names
from udfs.placement.topic_placement import get_utf8_buffers

_BATCH_ROWS = 100_000


def pack_table(table: pa.Table) -> bytes:
    """Serialize a table as an Arrow IPC stream, compressed."""
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        stream.write_table(table)
    return out.getvalue()


def unpack_tables(ipc_batches: Iterable[bytes], schema: pa.Schema) -> pa.Table:
    """Deserialize Arrow IPC batches of this schema into one table."""
    tables = [pa.ipc.open_stream(ipc_batch).read_all() for ipc_batch in ipc_batches]
    return pa.concat_tables([schema.empty_table(), *tables])


def rebatch(
    batches: Iterable[pa.RecordBatch],
    split: Callable[[pa.Table], Iterator[pa.RecordBatch]],
    min_rows: int = _BATCH_ROWS,
) -> Iterator[pa.RecordBatch]:
    """Collect batches to tables of at least `min_rows` rows, so that what `split` makes of them is not tiny."""
    collected: list[pa.RecordBatch] = []
    for batch in batches:
        collected.append(batch)
        if sum(part.num_rows for part in collected) >= min_rows:
            yield from split(pa.Table.from_batches(collected))
            collected = []
    if any(part.num_rows for part in collected):
        yield from split(pa.Table.from_batches(collected))


def split_by_values(rows: pa.Table, names: Sequence[str]) -> Iterator[tuple[list[str], pa.Table]]:
    """Yield the texts that some columns have together, and the rows that have them."""
    codes = np.zeros(rows.num_rows, np.int64)
    for name in names:
        column = pc.dictionary_encode(rows[name].combine_chunks())
        codes = codes * len(column.dictionary) + np.asarray(column.indices)
    for code in np.unique(codes).tolist():
        part = rows.filter(pa.array(codes == code))
        yield [part[name][0].as_py() for name in names], part


def topic_shards(topics: pa.Array, shards: int | npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Return the shard (int64, n) of each topic by its name alone; shards: how many, one or uint64 (n)."""
    names = pc.dictionary_encode(topics)
    no_cluster = (np.empty(0, dtype=np.uint8), np.zeros(len(names.dictionary) + 1, dtype=np.int64))
    hashes = hash_topic_names(no_cluster, get_utf8_buffers(names.dictionary))[np.asarray(names.indices)]
    return np.asarray(hashes % np.asarray(shards, dtype=np.uint64), dtype=np.int64)
