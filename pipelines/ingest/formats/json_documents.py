"""Reads JSON documents of any size, alone or amid a tool's text lines, as the elements of named arrays.

Only one element at a time becomes Python objects: a 300 MB document on one line needs memory for its text and no more.
"""

import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator
from enum import StrEnum, auto
from typing import Any, NamedTuple

from pipelines.ingest.formats.checked_values import quote, unparsable
from pipelines.ingest.source_format import Fact, ParseRecord, Row, ignore
from pipelines.ingest.text import PROSE, TOOL_MESSAGE, TYPOGRAPHIC_QUOTES, classify_noise, find_line_end

TOPIC_TO_MOVE = "topic to move"

_ANY = "*"
MAX_RAW = 2_000  # characters of a broken or foreign document that its record keeps
# Contexts of records that are no element; every other context is the format's own.
TEXT, _BROKEN, _FOREIGN = "text", "broken: ", "other: "

# Every string, also an unfinished one, and whether it is a key. Strings are consumed whole, so this takes linear time.
_STRING = re.compile(r'"((?:[^"\\]++|\\.)*+)(?:"(\s*+:)?|$)', re.DOTALL)
REST_OF_DOCUMENT = re.compile(
    r'(?:\n(?:[ \t]++[\[{",\d“”][^\n]*+|[ \t]*+[\]}][ \t\]},;]*+(?:[\[{"“”][^\n]*+|\r?+(?=\n|\Z))))++'
)
_PIECE = re.compile(r'\s*[\[\]{}",]')
_SPACE = re.compile(r"[ \t\r\n]*")
# Not {code} or [user@host]: after a brace, a document has a key. A dictionary of Python has its keys in single quotes.
DOCUMENT_BEGIN = re.compile(r'[ \t]*+(?:\{\s*+(?:["}]|$)|\[\s*+(?:[\[\]]|\{(?!\')|$))')
_DECODER = json.JSONDecoder()

Path = tuple[str | int, ...]


class JsonEventKind(StrEnum):
    """What a walk over JSON documents meets."""

    LINE = auto()  # a line of text outside of any document; `raw` is the line
    START = auto()  # a container on the way to a named array begins
    ELEMENT = auto()  # an element of a named array; `raw` is its text
    VALUE = auto()  # any other value beside the way; `value` is decoded
    END = auto()  # a container on the way to a named array ends
    FOREIGN = auto()  # a document that has none of the named arrays, before its fault if any; `raw` is its beginning
    BROKEN = auto()  # the document breaks off or is not JSON here; `value` is the reason, `raw` the text here


class JsonEvent(NamedTuple):
    """One step of a walk: its kind, where in the document, on which line of the file."""

    kind: JsonEventKind
    path: Path
    line: int
    raw: str
    value: Any = None


def walk_documents(text: str, arrays: Iterable[tuple[str, ...]]) -> Iterator[JsonEvent]:
    """Yield the events of all documents and of the lines around them, in file order.

    Paths of arrays have `*` for any index: `("brokers", "*", "logDirs")`; `()` is a top-level array.
    """
    walker = _Walker(text, arrays)
    position, size = 0, len(text)
    while position < size:
        if DOCUMENT_BEGIN.match(text, position):
            position = yield from walker.walk_document(walker.skip_space(position))
            end = find_line_end(text, position)
            if not text[position:end].strip():
                position = end + 1
                continue
            if DOCUMENT_BEGIN.match(text, position):
                continue
        end = find_line_end(text, position)
        yield JsonEvent(JsonEventKind.LINE, (), walker.get_line(position), text[position:end])
        position = end + 1


class _BreakError(Exception):
    """The document cannot be read beyond this position; the text says why."""

    def __init__(self, position: int, problem: str) -> None:
        super().__init__(problem)
        self.position = position


class _Walker:
    def __init__(self, text: str, arrays: Iterable[tuple[str, ...]]) -> None:
        self._text = text
        self._arrays = frozenset(arrays)
        self._ways = frozenset(path[:i] for path in self._arrays for i in range(len(path) + 1))
        self._counted_to = 0  # text position up to which line ends are counted
        self._line = 1
        # Whether the current document has a named array; whether arrays or objects stand beside the way to one.
        self._has_array = self._has_others = False

    def get_line(self, position: int) -> int:
        """Return the line number of a position; positions must come in ascending order (each is counted once)."""
        if position > self._counted_to:
            self._line += self._text.count("\n", self._counted_to, position)
            self._counted_to = position
        return self._line

    def skip_space(self, position: int) -> int:
        return _SPACE.match(self._text, position).end()  # type: ignore[union-attr]

    def walk_document(self, begin: int) -> Generator[JsonEvent, None, int]:
        """Yield the events of the document that begins here; return the position behind it."""
        self._has_array = self._has_others = False
        line = self.get_line(begin)
        try:
            end = yield from self._walk_value(begin, (), ())
        except _BreakError as error:
            at = min(error.position, len(self._text))
            if self._has_others and not self._has_array:
                yield JsonEvent(JsonEventKind.FOREIGN, (), line, self._text[begin : min(at, begin + MAX_RAW)])
            end = find_line_end(self._text, at)
            # One fault per document: its other lines are indented, or close it.
            rest = REST_OF_DOCUMENT.match(self._text, end)
            end = rest.end() if rest is not None else end
            raw = self._text[at : min(end, at + MAX_RAW)]
            yield JsonEvent(JsonEventKind.BROKEN, (), self.get_line(at), raw, str(error))
            return end
        if not self._has_array:
            yield JsonEvent(JsonEventKind.FOREIGN, (), line, self._text[begin : min(end, begin + MAX_RAW)])
        return end

    def _walk_value(self, begin: int, path: Path, pattern: tuple[str, ...]) -> Generator[JsonEvent, None, int]:
        first = self._text[begin : begin + 1]
        is_named = first == "[" and pattern in self._arrays
        self._has_array |= is_named
        if is_named or (first == "{" and pattern in self._ways) or (first == "[" and (*pattern, _ANY) in self._ways):
            return (yield from self._walk_container(begin, path, pattern))
        value, end = self._decode(begin)
        self._has_others |= isinstance(value, dict | list)
        yield JsonEvent(JsonEventKind.VALUE, path, self.get_line(begin), "", value)
        return end

    def _walk_container(self, begin: int, path: Path, pattern: tuple[str, ...]) -> Generator[JsonEvent, None, int]:
        text = self._text
        is_object = text[begin] == "{"
        close = "}" if is_object else "]"
        below = (*pattern, _ANY)
        has_elements = not is_object and pattern in self._arrays and below not in self._ways
        yield JsonEvent(JsonEventKind.START, path, self.get_line(begin), "")
        position = self.skip_space(begin + 1)
        index = 0
        while index or text[position : position + 1] != close:
            if is_object:
                key, position = self._read_key(position)
                end = yield from self._walk_value(position, (*path, key), (*pattern, key))
            elif has_elements:
                value, end = self._decode(position)
                yield JsonEvent(
                    JsonEventKind.ELEMENT, (*path, index), self.get_line(position), text[position:end], value
                )
            else:
                end = yield from self._walk_value(position, (*path, index), below)
            index += 1
            position = self.skip_space(end)
            mark = text[position : position + 1]
            if mark == close:
                break
            if mark != ",":
                raise self._expected(position, f"a comma or {close}")
            position = self.skip_space(position + 1)
        yield JsonEvent(JsonEventKind.END, path, self.get_line(position), "")
        return position + 1

    def _read_key(self, position: int) -> tuple[str, int]:
        """Return (the key that stands here, position of its value)."""
        if self._text[position : position + 1] != '"':
            raise self._expected(position, "a key")
        key, end = self._decode(position)
        position = self.skip_space(end)
        if self._text[position : position + 1] != ":":
            raise self._expected(position, "a colon")
        return key, self.skip_space(position + 1)

    def _decode(self, begin: int) -> tuple[Any, int]:
        try:
            return _DECODER.raw_decode(self._text, begin)
        except json.JSONDecodeError as error:
            at_end = error.pos >= len(self._text) or error.msg.startswith("Unterminated")
            raise _BreakError(begin, "the JSON breaks off" if at_end else f"not JSON: {error.msg}") from None
        except (ValueError, RecursionError):
            raise _BreakError(begin, "not usable JSON: too deep, or a number too long") from None

    def _expected(self, position: int, what: str) -> _BreakError:
        if position >= len(self._text):
            return _BreakError(position, "the JSON breaks off")
        return _BreakError(position, f"not JSON: expected {what}, found {self._text[position]!r}")


def find_keys(text: str) -> set[str]:
    """Return every key that the JSON in the text has."""
    return {match[1] for match in _STRING.finditer(text) if match[2]}


def to_row(event: JsonEvent, arrays: str) -> Row | None:
    """Return the row of a line outside of documents, of a broken document or of a foreign one, else None.

    `arrays` names the arrays that the format reads, for a reason.
    """
    match event.kind:
        case JsonEventKind.LINE:
            return event.line, TEXT, event.raw
        case JsonEventKind.BROKEN:
            return event.line, _BROKEN + str(event.value), event.raw
        case JsonEventKind.FOREIGN:
            return event.line, _FOREIGN + arrays, event.raw
    return None


def read_elements(
    text: str, arrays: Iterable[tuple[str, ...]], names: str, get_context: Callable[[JsonEvent], str]
) -> Iterator[Row]:
    """Yield a row for each element of these arrays (see walk_documents), and for all that is outside of them.

    `names` are those of the arrays, for a reason; `get_context` returns the context of an element's record.
    """
    for event in walk_documents(text, arrays):
        if (row := to_row(event, names)) is not None:
            yield row
        elif event.kind == JsonEventKind.ELEMENT:
            yield event.line, get_context(event), event.raw


def get_array(event: JsonEvent) -> str:
    """Return the name of the top-level array that an element is in."""
    return str(event.path[0])


def parse_elements(
    parse_element: Callable[[str, str], list[Fact]], is_message: Callable[[str], object] = lambda _line: False
) -> ParseRecord:
    """Return a parser of the records of `to_row` and, by `parse_element` (context, raw text), of elements.

    is_message: whether a line of text is a message of the tool that printed the document.
    """

    def parse_record(context: str | None, raw: str) -> list[Fact]:
        context = context or ""
        if context == TEXT:
            reason = classify_noise(raw)
            if reason == PROSE and _PIECE.match(raw):
                raise unparsable("a piece of JSON outside of its document")
            return ignore(TOOL_MESSAGE if is_message(raw) else reason)
        if context.startswith(_BROKEN):
            hint = " (typographic quotes: replace them by straight ones)" if TYPOGRAPHIC_QUOTES & set(raw) else ""
            raise unparsable(f"{context[len(_BROKEN) :]}{hint}, at {quote(raw[:60])}")
        if context.startswith(_FOREIGN):
            if find_keys(raw) - {"version"} == {"topics", "topic"}:  # the input of --generate, saved beside its output
                return ignore(TOPIC_TO_MOVE)
            raise unparsable(f"a JSON document without {context[len(_FOREIGN) :]}")
        return parse_element(context, raw)

    return parse_record
