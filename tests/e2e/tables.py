"""Read the tables of a run with delta-rs."""

from __future__ import annotations

from pathlib import Path

from deltalake import DeltaTable

from pipelines.tables import RUN_TABLES

# Columns that differ between two runs over the same sources.
TIME_COLUMNS = {"ingested_at"}
# Tables that two runs over the same sources fill with the same rows.
REPEATABLE_TABLES = [name for name in RUN_TABLES if name != "ops.runs"]


def read_sorted(warehouse: Path, name: str) -> list[str]:
    """Read all rows of a table as text, in a fixed order, without times."""
    table = DeltaTable(str(warehouse / name.replace(".", "/"))).to_pyarrow_table()
    table = table.select([c for c in table.column_names if c not in TIME_COLUMNS])
    return sorted(repr(row) for row in table.to_pylist())


class AtomicityCheck:
    """Fails if a reader sees anything but all rows of a table, or none.

    Attributes:
        warehouse: Folder of the tables.
        expected: All rows by table.
    """

    def __init__(self, warehouse: Path, expected: dict[str, list[str]]) -> None:
        self._warehouse, self._expected = warehouse, expected
        self._versions: dict[str, list[str]] = {}

    def read_changed(self) -> None:
        """Read the tables that have a new version."""
        for name, expected in self._expected.items():
            log = self._warehouse / name.replace(".", "/") / "_delta_log"
            versions = sorted(file.name for file in log.glob("*.json"))
            if versions and versions != self._versions.get(name):
                self._versions[name] = versions
                assert read_sorted(self._warehouse, name) in ([], expected), name
