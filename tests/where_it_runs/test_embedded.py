"""`kafka-placement run` with no server at all."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.e2e]


def test_it_leaves_nothing_but_its_warehouse(embedded_run: Path) -> None:
    """And its report: no spark-warehouse, metastore_db, derby.log or artifacts where the command was run."""
    assert sorted(path.name for path in embedded_run.iterdir()) == ["warehouse", "warehouse-report.html"]
    stray = [path.name for path in (embedded_run / "warehouse").iterdir() if path.suffix == ".db"]
    assert stray == []
