"""Arrow tables as bytes: Spark moves a parcel as one value, and need not look into its rows, lists and nulls."""

from __future__ import annotations

import io
from collections.abc import Iterable

import pyarrow as pa


def packed(table: pa.Table) -> bytes:
    """The table as an Arrow stream, compressed."""
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        stream.write_table(table)
    return out.getvalue()


def unpacked(parcels: Iterable[bytes], schema: pa.Schema) -> pa.Table:
    """The rows of all parcels of this schema, none of none."""
    tables = [pa.ipc.open_stream(parcel).read_all() for parcel in parcels]
    return pa.concat_tables([schema.empty_table(), *tables])
