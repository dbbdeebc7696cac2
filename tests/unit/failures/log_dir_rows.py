"""Rows of silver.log_dirs for tests."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

_SCHEMA = pa.schema(
    [
        ("broker_id", pa.int32()),
        ("log_dir", pa.string()),
        *((name, pa.int64()) for name in ("total_bytes", "usable_bytes", "used_bytes")),
        ("log_dir_error", pa.string()),
    ]
)


def log_dir_table(rows: Sequence[tuple[int, str, int | None, int | None, int | None]]) -> pa.Table:
    """Make a table of online log dirs: broker, path, total, usable, used bytes."""
    return pa.Table.from_pylist([dict(zip(_SCHEMA.names[:5], row, strict=True)) for row in rows], _SCHEMA)
