"""Read the tables of a run without Spark, so that runs in different environments can be compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deltalake import DeltaTable

# Columns that differ between runs over the same sources.
RUN_COLUMNS = frozenset({"run_id", "ingested_at"})


def read_tables(warehouse: Path, cluster: str) -> dict[str, list[dict[str, Any]]]:
    """Read a cluster's rows of every table but those about runs, in a fixed order."""
    tables = {}
    for log in sorted(warehouse.glob("*/*/_delta_log")):
        name = ".".join(log.parent.relative_to(warehouse).parts)
        if not name.startswith("ops."):
            rows = DeltaTable(log.parent).to_pyarrow_table().to_pylist()
            selected = [{key: value for key, value in row.items() if key not in RUN_COLUMNS} for row in rows]
            tables[name] = sorted((row for row in selected if row["cluster_id"] == cluster), key=repr)
    return tables
