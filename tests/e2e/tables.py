"""The tables of a run, as another reader sees them."""

from __future__ import annotations

from pathlib import Path

from deltalake import DeltaTable

from pipelines.tables import OF_RUNS

# What is different in two runs that find the same: when they ran, and how long it took.
CLOCKS = {"ingested_at"}
SAME = [name for name in OF_RUNS if name != "ops.runs"]


def rows(warehouse: Path, name: str) -> list[str]:
    """All rows of a table as another reader (delta-rs) sees them, in a fixed order, without clocks."""
    table = DeltaTable(str(warehouse / name.replace(".", "/"))).to_pyarrow_table()
    table = table.select([c for c in table.column_names if c not in CLOCKS])
    return sorted(repr(row) for row in table.to_pylist())


class Watch:
    """Fails if a reader of some tables sees anything but all rows of one, or none.

    warehouse: of the tables.   expected: all rows of each.
    """

    def __init__(self, warehouse: Path, expected: dict[str, list[str]]) -> None:
        self._warehouse, self._expected = warehouse, expected
        self._read: dict[str, list[str]] = {}

    def look(self) -> None:
        """Read the tables that have another version than when they were read last."""
        for name, expected in self._expected.items():
            log = self._warehouse / name.replace(".", "/") / "_delta_log"
            versions = sorted(file.name for file in log.glob("*.json"))
            if versions and versions != self._read.get(name):
                self._read[name] = versions
                assert rows(self._warehouse, name) in ([], expected), name
