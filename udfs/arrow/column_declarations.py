"""Declare the columns of tables once, as Arrow fields with comments."""

from collections.abc import Iterable

import pyarrow as pa

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
