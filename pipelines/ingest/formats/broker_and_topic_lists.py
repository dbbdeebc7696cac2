"""Hand-kept lists of brokers and of topics as CSV or JSON: known columns, under any of their names, in any case."""

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pipelines.errors import SourceError
from pipelines.ingest.formats import checked_values as check
from pipelines.ingest.formats.json_documents import DOCUMENT_BEGIN, TEXT, parse_elements, read_elements
from pipelines.ingest.source_format import Fact, FactKind, Format, Row, Signature, decide_ignored
from pipelines.ingest.text import BLANK, PROSE, classify_noise, split_lines
from udfs.wording import count_of, escape_invisible, join_names

_MAX_HEADER = 2_000  # characters
_MAX_UNUSED = 10  # columns that the reason of a header names
_WITHOUT_SEPARATORS = {ord(c): None for c in " \t_.-"}
_ELEMENT = "element"  # context; that of a CSV row is its header


@dataclass(frozen=True)
class ListColumns:
    """The columns of a list."""

    names: Mapping[str, Sequence[str]]  # our name of a column -> the names that people use
    required: Sequence[str]
    array: str  # key of the array in the JSON form
    common: Sequence[str] = ()  # names that lists of other things have, too: they alone make no header

    def find(self, name: str) -> str | None:
        """Return our name of a column, or None for an unknown one."""
        return self._by_plain_name.get(name.strip().strip('"').lower().translate(_WITHOUT_SEPARATORS))

    @cached_property
    def _by_plain_name(self) -> dict[str, str]:
        return {alias.replace("_", ""): own for own, aliases in self.names.items() for alias in aliases}

    @cached_property
    def mention(self) -> re.Pattern[str]:
        """A pattern that every header contains: a cell that names the column that identifies a row."""
        letters = "|".join(r"[ \t_.-]*+".join(alias.replace("_", "")) for alias in self.names[self.required[0]])
        return re.compile(rf"(?<![^\s,;\"_.-])(?:{letters})(?![^\s,;\"_.-])", re.I)


_FLAGS = ("alive", "live", "online", "up", "running", "is_alive", "is_live")  # columns with yes or no
_BROKER_COLUMNS = ListColumns(
    {
        "broker_id": ("broker_id", "id", "broker", "node_id"),
        "rack": ("rack", "broker_rack"),
        "host": ("host",),
        "port": ("port",),
        "state": ("state", "status", "broker_state", "broker_status", *_FLAGS),
    },
    ("broker_id",),
    "brokers",
    ("id", "state", "status", *_FLAGS),
)
_BROKER_ENTRY = re.compile(r'\{[^{}]*"(?:broker_?id|id|broker|node_?id)"\s*:', re.I)
_NO_BROKERS = re.compile(
    r'"(?:logDirs?|partitions?|replicas|topics?|size_mb|in_kbps|removed)"\s*:|"type"\s*:\s*"\w+_RECORD"'
)
_TOPIC_COLUMNS = ListColumns(
    {
        "topic": ("topic", "name", "topic_name"),
        "partitions": ("partitions", "partition_count", "num_partitions"),
        "replication_factor": ("replication_factor", "rf", "replicationfactor"),
        "bytes_in_per_s": ("bytes_in_per_s",),
        "bytes_out_per_s": ("bytes_out_per_s",),
        "size_bytes": ("size_bytes",),
    },
    ("topic", "partitions", "replication_factor"),
    "topics",
)
_TOPIC_ENTRY = re.compile(r'\{[^{}]*"(?:topic|name|topic_?name)"\s*:', re.I)
_NO_TOPICS = re.compile(r'"(?:logDirs?|partition|replicas|brokers|size_mb|path)"\s*:|"type"\s*:\s*"\w+_RECORD"')


def _is_header(line: str, columns: ListColumns) -> bool:
    """Return whether a line is certainly a header: it has the column that identifies a row, and another."""
    if len(line) > _MAX_HEADER or not any(mark in line for mark in ",;\t") or not columns.mention.search(line):
        return False
    names = _find_columns(line, columns)
    return len(names) > 1 and columns.required[0] in names


def _find_columns(line: str, columns: ListColumns) -> set[str]:
    """Return our names of the columns that the cells of a line name, if it may be a header."""
    if len(line) > _MAX_HEADER or "{" in line or "[" in line:
        return set()
    try:
        cells = _split_cells(line, _find_delimiter(line))
    except check.BadValueError:
        return set()
    known = [cell for cell in cells if columns.find(cell) is not None]
    if len(known) > 1 and all(cell.lower() in columns.common for cell in known):
        return set()
    return {name for name in map(columns.find, known) if name is not None}


def _make_signature(
    columns: ListColumns, entry: re.Pattern[str], other: re.Pattern[str], one_column: bool
) -> Signature:
    """Return the signature of a list. entry, other: what its JSON has, and what only that of other things has."""

    def is_document(text: str) -> bool:
        return entry.search(text) is not None and other.search(text) is None

    def is_beginning(lines: Sequence[str]) -> bool:
        first = lines[0]
        has_cells = any(mark in first for mark in ",;\t")
        names = _find_columns(first, columns)
        # Several known columns are surely meant as such a list: reading it then says which column is missing.
        return len(names) > 1 if has_cells else one_column and columns.required[0] in names

    return Signature(lambda line: _is_header(line, columns), is_document, is_beginning, row=lambda _line: True)


def _parse_broker(values: dict[str, Any]) -> Fact:
    names = ("broker_id", "rack", "host", "port")
    own = {name: None if values.get(name) == "" else values.get(name) for name in names}
    if type(own["rack"]) is int:  # racks are often just numbered
        own["rack"] = str(own["rack"])
    state = _parse_state(values.get("state"))
    return FactKind.BROKER, check.read_columns(own) | {"listed": True, "listed_state": state}


def _parse_state(value: object) -> str | None:
    """Return the state of a broker as text; JSON has numbers and flags, too."""
    if isinstance(value, dict | list) or value in (None, ""):
        return None
    return check.as_text(value if isinstance(value, str) else json.dumps(value), "state")


def _parse_topic(values: dict[str, Any]) -> Fact:
    topic = check.as_text(values["topic"], "topic")
    name = check.quote(topic)
    size = _parse_load(values, "size_bytes")
    if size is not None and size > check.INT64:
        raise check.unparsable(f"size_bytes is {check.quote(values['size_bytes'])}, which is too large")
    return FactKind.TOPIC, {
        "topic": topic,
        "partition_count": check.as_int(values["partitions"], f"partitions of {name}", 1),
        "replication_factor": check.as_int(values["replication_factor"], f"replication_factor of {name}", 1, 32767),
        "bytes_in_per_s": _parse_load(values, "bytes_in_per_s"),
        "bytes_out_per_s": _parse_load(values, "bytes_out_per_s"),
        "size_bytes": None if size is None else round(size),
    }


def _parse_load(values: dict[str, Any], name: str) -> float | None:
    value = values.get(name)
    return None if value in (None, "") else check.as_number(value, name)


def _make_format(
    texts: tuple[str, str], signature: Signature, columns: ListColumns, parse_values: Callable[[dict[str, Any]], Fact]
) -> Format:
    """Return the format of a list; texts: its name and title, parse_values: {our column name: value} -> fact."""

    def read_rows(text: str, path: str) -> Iterator[Row]:
        # Sentences and prompts may be above the data.
        begins = (line for line in split_lines(text) if DOCUMENT_BEGIN.match(line) or _is_header(line, columns))
        if DOCUMENT_BEGIN.match(next(begins, "")):
            arrays = [(), (columns.array,)]
            return read_elements(text, arrays, columns.array, lambda _event: _ELEMENT)
        return _read_csv(text, path, columns)

    def parse_row(context: str, raw: str) -> list[Fact]:
        values = _read_element(raw, columns) if context == _ELEMENT else _read_cells(context, raw, columns)
        for name in columns.required:
            if values.get(name) is None:
                raise check.unparsable(f"{name} is missing")
        return [parse_values(values)]

    return Format(*texts, signature, parse_elements(parse_row), read_rows)


def _describe_header(line: str, columns: ListColumns) -> str:
    """Return the reason why a header is ignored, with the columns that are not read."""
    unused = [cell for cell in _split_cells(line, _find_delimiter(line)) if cell and columns.find(cell) is None]
    if not unused:
        return "header"
    names = join_names(map(escape_invisible, unused), _MAX_UNUSED)
    return f"header; {'column' if len(unused) == 1 else 'columns'} not read: {names}"


def _read_cells(context: str, raw: str, columns: ListColumns) -> dict[str, Any]:
    header = json.loads(context)
    names = header["columns"]
    cells = _split_cells(raw, header["delimiter"])
    if len(cells) != len(names):
        raise check.unparsable(
            f"the row has {count_of(len(cells), 'value')}, the header {count_of(len(names), 'column')}"
        )
    pairs = ((columns.find(name), cell) for name, cell in zip(names, cells, strict=True))
    return {name: cell or None for name, cell in pairs if name is not None}


def _read_element(raw: str, columns: ListColumns) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in check.parse_object(raw, "the entry").items():
        name = columns.find(key)
        if name in values:
            raise check.unparsable(f"{check.quote(key)} is given twice")
        if name is not None:
            values[name] = value
    return values


def _read_csv(text: str, path: str, columns: ListColumns) -> Iterator[Row]:
    lines = split_lines(text)
    has_header = any(_is_header(line, columns) for line in lines)
    header: str | None = None
    delimiter = ""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            yield number, decide_ignored(BLANK), line
        elif line.lstrip().startswith("#"):
            yield number, decide_ignored("comment"), line
        elif _is_header(line, columns) or not (header or has_header):
            header = _read_header(line, number, path, columns)
            delimiter = _find_delimiter(line)
            yield number, decide_ignored(_describe_header(line, columns)), line
        else:
            yield number, TEXT if header is None or _is_text(line, delimiter) else header, line


def _is_text(line: str, delimiter: str) -> bool:
    """Return whether a line between rows is a sentence, a prompt or markup: no row has lost its delimiters there."""
    if delimiter in line:
        return False
    return classify_noise(line) != PROSE or (len(line.split()) > 1 and not any(c.isdigit() for c in line))


def _read_header(line: str, number: int, path: str, columns: ListColumns) -> str:
    delimiter = _find_delimiter(line)
    try:
        cells = _split_cells(line, delimiter)
    except check.BadValueError as error:
        raise SourceError(path, str(error), "Give a header line of column names.", number) from None
    result = [columns.find(cell) for cell in cells]
    for name in columns.required:
        if name not in result:
            names = " or ".join(columns.names[name])
            raise SourceError(path, f"no column {name} in {check.quote(line)}", f"Name a column {names}.", number)
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
        raise check.unparsable(f"not CSV: {error}") from None
    return [cell.strip() for cell in rows[0]] if rows else []


BROKER_LIST = _make_format(
    ("broker-list", "broker list with racks, CSV or JSON"),
    *(_make_signature(_BROKER_COLUMNS, _BROKER_ENTRY, _NO_BROKERS, one_column=True), _BROKER_COLUMNS, _parse_broker),
)
TOPIC_LIST = _make_format(
    ("topic-list", "topic list with partition counts, replication factors and loads, CSV or JSON"),
    *(_make_signature(_TOPIC_COLUMNS, _TOPIC_ENTRY, _NO_TOPICS, one_column=False), _TOPIC_COLUMNS, _parse_topic),
)
