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


def half_or_nothing(warehouse: Path, name: str, expected: dict[str, list[str]]) -> None:
    """Fail if a reader sees anything but all rows of the table, or none."""
    log = warehouse / name.replace(".", "/") / "_delta_log"
    if any(log.glob("*.json")):
        assert rows(warehouse, name) in ([], expected[name]), name
