"""Reads hand-kept lists as CSV or JSON: rows with known columns, under any of their names, in upper or lower case."""

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.errors import SourceError
from pipelines.ingest.fact_tables import Fact, ignore
from pipelines.ingest.formats.checked_values import BadValueError, parse_object, quote, unparsable
from pipelines.ingest.formats.json_documents import parse_elements, read_elements
from pipelines.ingest.formats.noise_lines import BLANK
from pipelines.ingest.source_format import ParseRecord, Records, Row
from pipelines.ingest.text import split_lines

_ELEMENT, _HEADER, _COMMENT = "element", "header", "comment"  # contexts, as BLANK; that of a CSV row is its header


@dataclass(frozen=True)
class ListColumns:
    """The columns of a list."""

    names: Mapping[str, Sequence[str]]  # our name of a column -> the names that people use
    required: Sequence[str]
    array: str  # key of the array in the JSON form

    def find(self, name: str) -> str | None:
        """Return our name of a column, or None for an unknown one."""
        plain = re.sub(r"[\s_.-]+", "", name.strip().strip('"').lower())
        matches = (own for own, aliases in self.names.items() if plain in (alias.replace("_", "") for alias in aliases))
        return next(matches, None)


def detect_header(lines: Sequence[str], columns: ListColumns) -> float:
    """Return the confidence that the first line that is no comment is a CSV header with these columns."""
    first = next((line for line in lines if line.strip() and not line.lstrip().startswith("#")), "")
    if "{" in first:
        return 0.0
    try:
        cells = _split_cells(first, _find_delimiter(first))
    except BadValueError:
        return 0.0
    known = {columns.find(cell) for cell in cells} - {None}
    if columns.required[0] in known:
        return 0.85
    # Surely meant as such a list: reading it then says which column is missing.
    return 0.5 if len(known) > 1 else 0.0


def read_list(text: str, path: str, columns: ListColumns) -> Records:
    """Return the records of a list: a CSV row, or an element of the JSON array."""
    if text.lstrip()[:1] in ("{", "["):
        arrays = [(), (columns.array,)]
        return Records.from_rows(read_elements(text, arrays, columns.array, lambda _event: _ELEMENT))
    return Records.from_rows(_read_csv(text, path, columns))


def parse_rows(columns: ListColumns, parse_values: Callable[[dict[str, Any]], Fact]) -> ParseRecord:
    """Return a parser of the records of `read_list`; parse_values: {our column name: value} -> fact."""

    def parse_row(context: str, raw: str) -> list[Fact]:
        if context in (BLANK, _HEADER, _COMMENT):
            return ignore(context)
        values = _read_element(raw, columns) if context == _ELEMENT else _read_cells(context, raw, columns)
        return [parse_values(values)]

    return parse_elements(parse_row)


def _read_cells(context: str, raw: str, columns: ListColumns) -> dict[str, Any]:
    header = json.loads(context)
    names = header["columns"]
    cells = _split_cells(raw, header["delimiter"])
    if len(cells) != len(names):
        raise unparsable(f"the row has {len(cells)} values, the header {len(names)} columns")
    pairs = ((columns.find(name), cell) for name, cell in zip(names, cells, strict=True))
    return {name: cell or None for name, cell in pairs if name is not None}


def _read_element(raw: str, columns: ListColumns) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in parse_object(raw, "the entry").items():
        name = columns.find(key)
        if name in values:
            raise unparsable(f"{quote(key)} is given twice")
        if name is not None:
            values[name] = value
    return values


def _read_csv(text: str, path: str, columns: ListColumns) -> Iterator[Row]:
    header: str | None = None
    for number, line in enumerate(split_lines(text), 1):
        if not line.strip():
            yield number, BLANK, line
        elif line.lstrip().startswith("#"):
            yield number, _COMMENT, line
        elif header is None:
            header = _read_header(line, number, path, columns)
            yield number, _HEADER, line
        else:
            yield number, header, line


def _read_header(line: str, number: int, path: str, columns: ListColumns) -> str:
    delimiter = _find_delimiter(line)
    try:
        cells = _split_cells(line, delimiter)
    except BadValueError as error:
        raise SourceError(path, str(error), "Give a header line of column names.", number) from None
    result = [columns.find(cell) for cell in cells]
    for name in columns.required:
        if name not in result:
            names = " or ".join(columns.names[name])
            raise SourceError(path, f"no column {name} in {quote(line)}", f"Name a column {names}.", number)
    for name in columns.names:
        if result.count(name) > 1:
            both = " and ".join(cell for cell, own in zip(cells, result, strict=True) if own == name)
            raise SourceError(path, f"{both} are the same column", "Keep one of them.", number)
    return json.dumps({"delimiter": delimiter, "columns": cells})


def _find_delimiter(line: str) -> str:
    return max(",;\t", key=line.count)  # the first wins a tie, as in a list of one column


def _split_cells(line: str, delimiter: str) -> list[str]:
    try:
        rows = list(csv.reader([line], delimiter=delimiter, skipinitialspace=True))
    except csv.Error as error:
        raise unparsable(f"not CSV: {error}") from None
    return [cell.strip() for cell in rows[0]] if rows else []
