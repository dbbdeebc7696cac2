"""What an expectation found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipelines.ingest.sources import SnapshotKey


@dataclass(frozen=True)
class Finding:
    """The outcome of one expectation over one table.

    fault: what a row that breaks it does, in words.   example: one such row as JSON: its keys and the columns at fault.
    by_snapshot: {snapshot that breaks it: (its rows that do, one of them)}.
    """

    table_name: str
    expectation: str
    fault: str
    success: bool
    checked_rows: int
    unexpected_rows: int
    example: str | None = None
    by_snapshot: Mapping[SnapshotKey, tuple[int, str | None]] = field(default_factory=dict)

    def sentence(self) -> str:
        """The finding for a person."""
        rows = f"{self.unexpected_rows:,} of {self.checked_rows:,} rows"
        if self.success:
            return f"{self.table_name}: {self.expectation}: holds for {self.checked_rows:,} rows"
        return f"{self.table_name}: {self.expectation}: {rows}: a row {self.fault}, for example {self.example}"
