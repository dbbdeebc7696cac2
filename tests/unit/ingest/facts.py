"""Helpers of the ingest tests: samples by name, facts as short dictionaries."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.ingest.detect import by_name, recognise
from pipelines.ingest.records import FACTS, FAULT, IGNORED, Records
from pipelines.ingest.text import read_text

SAMPLES = Path(__file__).parents[3] / "data_samples"
FORMATS_DIR, BAD_DIR = SAMPLES / "formats", SAMPLES / "bad"


def table_of(path: Path, format_name: str | None = None) -> pa.Table:
    """Facts of a sample; checks on the way that every record became a fact and none came from nowhere."""
    text = read_text(path)
    form = by_name(format_name) if format_name else recognise(text, str(path))
    records = form.frame(text, str(path))
    return checked(records, form.parse(records))


def checked(records: Records, table: pa.Table) -> pa.Table:
    assert table.schema.equals(FACTS)
    lines = dict(zip(records.record_number, records.line_number, strict=True))
    assert set(table["record_number"].to_pylist()) == set(records.record_number)
    for number, line in zip(table["record_number"].to_pylist(), table["line_number"].to_pylist(), strict=True):
        assert lines[number] == line
    for kind, reasons in zip(table["kind"].to_pylist(), table["reasons"].to_pylist(), strict=True):
        assert bool(reasons) == (kind in (FAULT, IGNORED))
    return table


def short(table: pa.Table, *kinds: str) -> list[dict[str, Any]]:
    """Rows without their nulls, record number and line; only of these kinds if any are given."""
    return [
        {k: v for k, v in row.items() if v is not None and k not in ("record_number", "line_number")}
        for row in table.to_pylist()
        if not kinds or row["kind"] in kinds
    ]


def facts(name: str, *kinds: str, folder: Path = FORMATS_DIR, format_name: str | None = None) -> list[dict[str, Any]]:
    """Facts of a sample file, shortened."""
    return short(table_of(folder / name, format_name), *kinds)


def bare(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without their kind."""
    return [{k: v for k, v in row.items() if k != "kind"} for row in rows]


def reasons(name: str, folder: Path = FORMATS_DIR, kind: str = IGNORED) -> Counter[str]:
    """How often each reason was given."""
    return Counter(row["reasons"][0] for row in facts(name, kind, folder=folder))


def faults(name: str, folder: Path = BAD_DIR) -> dict[int, str]:
    """Line number -> reason of the faults of a bad sample."""
    rows = table_of(folder / name).to_pylist()
    return {row["line_number"]: row["reasons"][0] for row in rows if row["kind"] == FAULT}
