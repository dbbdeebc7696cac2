"""Hand-kept lists as CSV or JSON: rows with known columns, under any of their names, whatever the case."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.errors import SourceError
from pipelines.ingest.formats.checked_values import BadValueError, Fact, as_object, ignored, loads, shown, unparsable
from pipelines.ingest.formats.json_documents import OUTSIDE, outside_facts, outside_record
from pipelines.ingest.formats.noise_lines import BLANK
from pipelines.ingest.json_elements import ELEMENT, events
from pipelines.ingest.records import Records
from pipelines.ingest.text import lines_of

ELEMENT_CONTEXT = "element"
HEADER = "header"
COMMENT = "comment"


@dataclass(frozen=True)
class Columns:
    """The columns of a list: our name -> the names people use; `required` ones must be there."""

    names: Mapping[str, Sequence[str]]
    required: Sequence[str]
    array: str  # key of the array in the JSON form

    def ours(self, given: str) -> str | None:
        """Our name of a column, or None if we do not know it."""
        plain = re.sub(r"[\s_.-]+", "", given.strip().strip('"').lower())
        for ours, theirs in self.names.items():
            if plain in (name.replace("_", "") for name in theirs):
                return ours
        return None


def header_score(lines: Sequence[str], columns: Columns) -> float:
    """How surely the first line that is no comment is a CSV header with these columns."""
    first = next((line for line in lines if line.strip() and not line.lstrip().startswith("#")), "")
    if "{" in first:
        return 0.0
    try:
        cells = _cells(first, _delimiter(first))
    except BadValueError:
        return 0.0
    known = {columns.ours(cell) for cell in cells} - {None}
    if columns.required[0] in known:
        return 0.85
    # Surely meant as such a list: reading it then says which column is missing.
    return 0.5 if len(known) > 1 else 0.0


def frame(text: str, path: str, columns: Columns) -> Records:
    """Records of a list: a row, or an element of the JSON array."""
    if text.lstrip()[:1] in ("{", "["):
        return Records.of(_json_rows(text, columns))
    return Records.of(_csv_rows(text, path, columns))


def row_facts(context: str | None, raw: str, columns: Columns, fact: Callable[[dict[str, Any]], Fact]) -> list[Fact]:
    """Facts of a record of `frame`; fact: our column names and their values -> fact."""
    context = context or ""
    if context in (BLANK, HEADER, COMMENT):
        return ignored(context)
    if context == ELEMENT_CONTEXT:
        return [fact(_element(raw, columns))]
    if not context.startswith("{"):
        return outside_facts(context, raw) or ignored(BLANK)
    header = as_object(loads(context, "the header"), "the header")
    names = header["columns"]
    cells = _cells(raw, header["delimiter"])
    if len(cells) != len(names):
        raise unparsable(f"the row has {len(cells)} values, the header {len(names)} columns")
    values = {}
    for name, cell in zip(names, cells, strict=True):
        ours = columns.ours(name)
        if ours is not None:
            values[ours] = cell if cell != "" else None
    return [fact(values)]


def _element(raw: str, columns: Columns) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in as_object(loads(raw), "the entry").items():
        ours = columns.ours(key)
        if ours is not None:
            if ours in values:
                raise unparsable(f"{shown(key)} is given twice")
            values[ours] = value
    return values


def _json_rows(text: str, columns: Columns) -> Iterator[tuple[int, str | None, str]]:
    for event in events(text, [(), (columns.array,)]):
        if event.kind in OUTSIDE:
            yield outside_record(event, columns.array)
        elif event.kind == ELEMENT:
            yield event.line, ELEMENT_CONTEXT, event.raw


def _csv_rows(text: str, path: str, columns: Columns) -> Iterator[tuple[int, str | None, str]]:
    header: str | None = None
    for number, line in enumerate(lines_of(text), 1):
        if not line.strip():
            yield number, BLANK, line
        elif line.lstrip().startswith("#"):
            yield number, COMMENT, line
        elif header is None:
            header = _header(line, number, path, columns)
            yield number, HEADER, line
        else:
            yield number, header, line


def _header(line: str, number: int, path: str, columns: Columns) -> str:
    delimiter = _delimiter(line)
    try:
        cells = _cells(line, delimiter)
    except BadValueError as fault:
        raise SourceError(path, str(fault), "Give a header line of column names.", number) from None
    found = [columns.ours(cell) for cell in cells]
    for name in columns.required:
        if name not in found:
            names = " or ".join(columns.names[name])
            raise SourceError(path, f"no column {name} in {shown(line)}", f"Name a column {names}.", number)
    for name in columns.names:
        if found.count(name) > 1:
            both = " and ".join(cell for cell, ours in zip(cells, found, strict=True) if ours == name)
            raise SourceError(path, f"{both} are the same column", "Keep one of them.", number)
    return json.dumps({"delimiter": delimiter, "columns": cells})


def _delimiter(line: str) -> str:
    return max(",;\t", key=line.count)  # the first wins a tie, as in a list of one column


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        rows = list(csv.reader([line], delimiter=delimiter, skipinitialspace=True))
    except csv.Error as error:
        raise unparsable(f"not CSV: {error}") from None
    return [cell.strip() for cell in rows[0]] if rows else []
