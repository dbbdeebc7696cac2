"""Columns of tables, declared once as Arrow fields: Spark schemas, docs and quality checks are derived from them."""

from collections.abc import Iterable

import pyarrow as pa

TEXT, INT, LONG, DOUBLE, FLAG, BINARY = (pa.string(), pa.int32(), pa.int64(), pa.float64(), pa.bool_(), pa.binary())
TIME = pa.timestamp("us", tz="UTC")
INTS, TEXTS = pa.list_(INT), pa.list_(TEXT)


def column(name: str, data_type: pa.DataType, comment: str, required: bool = False) -> pa.Field:
    """Declare a column of a table.

    Args:
        name: Name, with its unit (`_bytes`, `_ms`, `_per_s`, `_ratio`, `_percent`) where it has one.
        data_type: Arrow type.
        comment: What a value means, and what null means.
        required: Whether it is never null.

    Returns:
        The Arrow field.
    """
    return pa.field(name, data_type, nullable=not required, metadata={"comment": comment})


def schema_of(columns: Iterable[pa.Field]) -> pa.Schema:
    """Return the Arrow schema of rows with these columns: names and types alone."""
    return pa.schema([(c.name, c.type) for c in columns])


def get_comment(field: pa.Field) -> str:
    """Return the comment of a column declared with `column`."""
    metadata: dict[bytes, bytes] = field.metadata or {}
    return metadata.get(b"comment", b"").decode()
