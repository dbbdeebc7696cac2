"""A file of a folder that is in no known format: its lines are ignored by that name, not lost."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from pipelines.ingest.formats.checked_values import Fact, ignored, parse_each
from pipelines.ingest.formats.noise_lines import line_records
from pipelines.ingest.records import Format, Records

REASON = "unrecognised file"


def _score(_lines: Sequence[str]) -> float:
    return 0.0  # never by content: only where nothing else fits


def _frame(text: str, _path: str) -> Records:
    return line_records(text)


def _facts(_context: str | None, _raw: str) -> list[Fact]:
    return ignored(REASON)


def _parse(records: Records) -> pa.Table:
    return parse_each(records, _facts)


FORMAT = Format("unrecognised", "a file in no known format", _score, _frame, _parse)
