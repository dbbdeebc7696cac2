"""Read the tables of a run without Spark, so that runs in different environments can be compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

# Columns that differ between runs over the same sources.
RUN_COLUMNS = frozenset({"run_id", "ingested_at", "first_seen_at", "seen_at", "first_at", "last_at"})


def _unpack(value: Any) -> Any:
    """Return the rows of a packed Arrow table, in a fixed order: equal tables may have different bytes."""
    try:
        return sorted(pa.ipc.open_stream(value).read_all().to_pylist(), key=repr) if isinstance(value, bytes) else value
    except pa.ArrowInvalid:  # other bytes
        return value


def read_tables(warehouse: Path, cluster: str) -> dict[str, list[dict[str, Any]]]:
    """Read a cluster's rows of every table but those about runs, in a fixed order."""
    tables = {}
    for log in sorted(warehouse.glob("*/*/_delta_log")):
        name = ".".join(log.parent.relative_to(warehouse).parts)
        if not name.startswith("ops."):
            rows = DeltaTable(log.parent).to_pyarrow_table().to_pylist()
            rows = [{name: _unpack(value) for name, value in row.items()} for row in rows]
            selected = [{key: value for key, value in row.items() if key not in RUN_COLUMNS} for row in rows]
            tables[name] = sorted((row for row in selected if row["cluster_id"] == cluster), key=repr)
    return tables
