"""Helpers of the ingest tests: samples by name, facts as short dictionaries."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.ingest.snapshot_reader import divide_text, parse_records, read_files
from pipelines.ingest.source_format import FACTS, FactKind, Records
from pipelines.ingest.sources import Source

SAMPLES = Path(__file__).parents[3] / "data_samples"
FORMATS_DIR, BAD_DIR = SAMPLES / "formats", SAMPLES / "bad"


def load_facts(path: Path, format_name: str | None = None) -> pa.Table:
    """Return the facts of a sample, and check that each record has facts and each fact a record."""
    source = Source("x", (path,))
    (file,) = read_files(source, format_name)
    tables = [check_facts(part.records, parse_records(part.format.name, part.records)) for part in file.parts]
    return pa.concat_tables(tables).sort_by("record_number")


def find_formats(text: str) -> list[str]:
    """Return the names of the formats of a text's sections, without what stands aside, such as commands."""
    names = [section.format.name for section in divide_text(text) if not section.beside]
    return [name for name, _ in groupby(names)]


def check_facts(records: Records, table: pa.Table) -> pa.Table:
    assert table.schema.equals(FACTS)
    lines = dict(zip(records.record_number, records.line_number, strict=True))
    assert set(table["record_number"].to_pylist()) == set(records.record_number)
    for number, line in zip(table["record_number"].to_pylist(), table["line_number"].to_pylist(), strict=True):
        assert lines[number] == line
    for kind, reasons in zip(table["kind"].to_pylist(), table["reasons"].to_pylist(), strict=True):
        assert bool(reasons) == (kind in (FactKind.REJECTED, FactKind.IGNORED))
    return table


def shorten(table: pa.Table, *kinds: str) -> list[dict[str, Any]]:
    """Return rows without nulls, record number and line; only of these kinds, if there are any."""
    return [
        {k: v for k, v in row.items() if v is not None and k not in ("record_number", "line_number")}
        for row in table.to_pylist()
        if not kinds or row["kind"] in kinds
    ]


def facts(name: str, *kinds: str, folder: Path = FORMATS_DIR, format_name: str | None = None) -> list[dict[str, Any]]:
    """Return the facts of a sample file, shortened."""
    return shorten(load_facts(folder / name, format_name), *kinds)


def drop_kind(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows without their kind."""
    return [{k: v for k, v in row.items() if k != "kind"} for row in rows]


def reasons(name: str, folder: Path = FORMATS_DIR, kind: str = FactKind.IGNORED) -> Counter[str]:
    """Count the reasons of a sample file's facts of one kind."""
    return Counter(row["reasons"][0] for row in facts(name, kind, folder=folder))


def faults(name: str, folder: Path = BAD_DIR) -> dict[int, str]:
    """Return {line number: reason} of the rejected records of a bad sample."""
    rows = load_facts(folder / name).to_pylist()
    return {row["line_number"]: row["reasons"][0] for row in rows if row["kind"] == FactKind.REJECTED}
