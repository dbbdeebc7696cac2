"""Walks JSON documents of any size, also in the middle of text, and hands out the elements of named arrays.

Only one element at a time becomes Python objects: a 300 MB document on one line costs its text and no more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterable, Iterator
from typing import Any, NamedTuple

# What an event tells.
LINE = "line"  # a line of text outside of any document; `raw` is the line
START = "start"  # a container on the way to a named array begins
ELEMENT = "element"  # an element of a named array; `raw` is its text
VALUE = "value"  # any other value beside the way; `value` is decoded
END = "end"  # a container on the way to a named array ends
OTHER = "other"  # a document that had none of the named arrays; `raw` is its beginning
BROKEN = "broken"  # the document breaks off or is not JSON here; `value` says why, `raw` is what stands here

KEPT = 2_000  # characters of a broken or foreign document that are kept

Path = tuple[str | int, ...]


class Event(NamedTuple):
    """One step of the walk: what it is, where in the document, on which line of the file."""

    kind: str
    path: Path
    line: int
    raw: str
    value: Any = None


_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")
_OPENS = re.compile(r"[ \t]*(?:\{|\[\s*(?:[\[{\]]|$))")
_ANY = "*"


def events(text: str, wanted: Iterable[tuple[str, ...]]) -> Iterator[Event]:
    """Events of all documents and of the lines around them, in file order.

    wanted: paths of arrays, with `*` for any index: `("brokers", "*", "logDirs")`; `()` is a top-level array.
    """
    walker = _Walker(text, wanted)
    position, size = 0, len(text)
    while position < size:
        if _OPENS.match(text, position):
            position = yield from walker.document(_SPACE.match(text, position).end())  # type: ignore[union-attr]
            end = _line_end(text, position)
            if not text[position:end].strip():
                position = end + 1
                continue
            if _OPENS.match(text, position):
                continue
        end = _line_end(text, position)
        yield Event(LINE, (), walker.line_of(position), text[position:end])
        position = end + 1


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end


class _BreakError(Exception):
    def __init__(self, position: int, problem: str) -> None:
        super().__init__(problem)
        self.position = position


class _Walker:
    def __init__(self, text: str, wanted: Iterable[tuple[str, ...]]) -> None:
        self._text = text
        self._arrays = frozenset(wanted)
        self._ways = frozenset(path[:i] for path in self._arrays for i in range(len(path) + 1))
        self._counted = 0  # text position up to which line ends are counted
        self._line = 1
        self._seen = False

    def line_of(self, position: int) -> int:
        """Line number of the position; positions must come in ascending order (each is counted once)."""
        if position > self._counted:
            self._line += self._text.count("\n", self._counted, position)
            self._counted = position
        return self._line

    def document(self, begin: int) -> Generator[Event, None, int]:
        """Events of the document that begins here; returns the position behind it."""
        self._seen = False
        line = self.line_of(begin)
        try:
            end = yield from self._value(begin, (), ())
        except _BreakError as broken:
            at = min(broken.position, len(self._text))
            stop = _line_end(self._text, at)
            problem = str(broken)
            yield Event(BROKEN, (), self.line_of(at), self._text[at : min(stop, at + KEPT)], problem)
            return stop
        if not self._seen:
            yield Event(OTHER, (), line, self._text[begin : min(end, begin + KEPT)])
        return end

    def _value(self, begin: int, path: Path, pattern: tuple[str, ...]) -> Generator[Event, None, int]:
        text = self._text
        first = text[begin : begin + 1]
        if first == "[" and pattern in self._arrays:
            self._seen = True
            return (yield from self._array(begin, path, pattern, leaf=True))
        if first == "[" and (*pattern, _ANY) in self._ways:
            return (yield from self._array(begin, path, pattern, leaf=False))
        if first == "{" and pattern in self._ways:
            return (yield from self._object(begin, path, pattern))
        value, end = self._decode(begin)
        yield Event(VALUE, path, self.line_of(begin), "", value)
        return end

    def _array(self, begin: int, path: Path, pattern: tuple[str, ...], leaf: bool) -> Generator[Event, None, int]:
        text, below = self._text, (*pattern, _ANY)
        yield Event(START, path, self.line_of(begin), "")
        position = self._space(begin + 1)
        index = 0
        if text[position : position + 1] == "]":
            position += 1
            yield Event(END, path, self.line_of(position), "")
            return position
        while True:
            if leaf and below not in self._ways:
                value, end = self._decode(position)
                yield Event(ELEMENT, (*path, index), self.line_of(position), text[position:end], value)
            else:
                end = yield from self._value(position, (*path, index), below)
            index += 1
            position = self._space(end)
            mark = text[position : position + 1]
            if mark == "]":
                position += 1
                yield Event(END, path, self.line_of(position), "")
                return position
            if mark != ",":
                raise _BreakError(position, self._expected(position, "a comma or ]"))
            position = self._space(position + 1)

    def _object(self, begin: int, path: Path, pattern: tuple[str, ...]) -> Generator[Event, None, int]:
        text = self._text
        yield Event(START, path, self.line_of(begin), "")
        position = self._space(begin + 1)
        if text[position : position + 1] == "}":
            yield Event(END, path, self.line_of(position), "")
            return position + 1
        while True:
            if text[position : position + 1] != '"':
                raise _BreakError(position, self._expected(position, "a key"))
            key, end = self._decode(position)
            position = self._space(end)
            if text[position : position + 1] != ":":
                raise _BreakError(position, self._expected(position, "a colon"))
            end = yield from self._value(self._space(position + 1), (*path, key), (*pattern, key))
            position = self._space(end)
            mark = text[position : position + 1]
            if mark == "}":
                yield Event(END, path, self.line_of(position), "")
                return position + 1
            if mark != ",":
                raise _BreakError(position, self._expected(position, "a comma or }"))
            position = self._space(position + 1)

    def _decode(self, begin: int) -> tuple[Any, int]:
        try:
            return _DECODER.raw_decode(self._text, begin)
        except json.JSONDecodeError as error:
            at_end = error.pos >= len(self._text) or error.msg.startswith("Unterminated")
            problem = "the JSON breaks off" if at_end else f"not JSON: {error.msg}"
            raise _BreakError(begin, problem) from None
        except (ValueError, RecursionError):
            raise _BreakError(begin, "not usable JSON: too deep, or a number too long") from None

    def _expected(self, position: int, what: str) -> str:
        if position >= len(self._text):
            return "the JSON breaks off"
        return f"not JSON: expected {what}, found {self._text[position]!r}"

    def _space(self, position: int) -> int:
        return _SPACE.match(self._text, position).end()  # type: ignore[union-attr]
