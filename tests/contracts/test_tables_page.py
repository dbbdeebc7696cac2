"""docs/tables.md is what the contracts render to."""

from __future__ import annotations

from pathlib import Path

from pipelines.spark.tables_page import render_page
from pipelines.spark.views import VIEWS
from pipelines.tables import TABLES

PAGE = Path(__file__).parents[2] / "docs" / "tables.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == render_page(TABLES.values(), VIEWS), "run `make docs`"


def test_every_column_is_listed() -> None:
    page = render_page(TABLES.values(), VIEWS)
    for table in (*TABLES.values(), *VIEWS):
        section = page.split(f"\n## {table.name}\n")[1].split("\n## ")[0]
        for column in table.columns:
            assert f"| `{column.name}`" in section, (table.name, column.name)
