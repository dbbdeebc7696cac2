"""What a run left behind, read without Spark, so that runs in different places can be compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deltalake import DeltaTable

# Columns that say when and by which run, not what.
OF_THE_RUN = frozenset({"run_id", "ingested_at"})


def contents(warehouse: Path, cluster: str) -> dict[str, list[dict[str, Any]]]:
    """A cluster's rows of every table but the run log, in an order that does not depend on how Spark wrote them."""
    found = {}
    for log in sorted(warehouse.glob("*/*/_delta_log")):
        name = ".".join(log.parent.relative_to(warehouse).parts)
        if not name.startswith("ops."):
            rows = DeltaTable(log.parent).to_pyarrow_table().to_pylist()
            kept = [{key: value for key, value in row.items() if key not in OF_THE_RUN} for row in rows]
            found[name] = sorted((row for row in kept if row["cluster_id"] == cluster), key=repr)
    return found
