"""Read the part of YAML that a scenario needs: mappings, lists and plain values, with the line of each."""

import re
from collections.abc import Iterator
from typing import Any, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.reader import ReaderError

from pipelines.quoted_values import quote_value

_Event = Any  # ruamel declares no attributes of its events
_MAX_DEPTH = 20  # lists and mappings within each other
_MAX_DIGITS = 18
_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=e))(?:e[+-]?[0-9]{1,3})?", re.ASCII | re.IGNORECASE)
_CONSTANTS: dict[str, bool | None] = {"": None, "~": None, "null": None, "true": True, "false": False}


class YamlFault(Exception):
    """YAML that cannot be used: (problem, remedy, line)."""


class YamlMapping(dict[Any, Any]):
    """A mapping, and the line of each key."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[Any, int] = {}


class YamlList(list[Any]):
    """A list, and the line of each item."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[int] = []


def read_yaml(text: str) -> Any:
    """Return the only document of a YAML text; raise YamlFault if it is wrong, or uses what no scenario needs."""
    try:
        return _Composer(text).read_document()
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise YamlFault(f"is not YAML: {error.problem}", "See docs/replay.md.", line) from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = f"has a character that YAML does not allow: {quote_value(chr(error.character))}"
        raise YamlFault(problem, "Remove control characters.", line) from None


class _Composer:
    """Makes values of ruamel's events. Unlike ruamel's own, it follows no aliases and makes no objects of tags."""

    def __init__(self, text: str) -> None:
        self._events: Iterator[_Event] = YAML(typ="rt", pure=True).parse(text)

    def read_document(self) -> Any:
        documents = [
            self._read_value(next(self._events), 0) for event in self._events if isinstance(event, DocumentStartEvent)
        ]
        if len(documents) > 1:
            raise YamlFault("has more than one document", "Write each scenario into a file of its own.", None)
        return documents[0] if documents else None

    def _read_value(self, event: _Event, depth: int) -> Any:
        if isinstance(event, AliasEvent) or event.anchor is not None:
            _fail(event, f"has the anchor or alias {quote_value(event.anchor)}", "Write the value where it is needed.")
        if event.tag is not None:
            _fail(event, f"has the tag {quote_value(str(event.tag))}", "Remove it: a value needs no tag.")
        if depth > _MAX_DEPTH:
            _fail(event, f"is nested more than {_MAX_DEPTH} deep", "A scenario needs at most 4 levels.")
        if isinstance(event, ScalarEvent):
            return _read_scalar(event)
        return self._read_list(depth) if isinstance(event, SequenceStartEvent) else self._read_mapping(depth)

    def _read_list(self, depth: int) -> YamlList:
        items = YamlList()
        while not isinstance(event := next(self._events), SequenceEndEvent):
            items.lines.append(_get_line(event))
            items.append(self._read_value(event, depth + 1))
        return items

    def _read_mapping(self, depth: int) -> YamlMapping:
        mapping = YamlMapping()
        while not isinstance(event := next(self._events), MappingEndEvent):
            if isinstance(event, SequenceStartEvent | MappingStartEvent):
                _fail(event, "has a list or a mapping as a key", "Write a name as the key.")
            key = self._read_value(event, depth + 1)
            if key == "<<" and event.implicit[0]:
                _fail(event, "merges mappings with <<", "Write the keys where they are needed.")
            if key in mapping:
                _fail(event, f"has the key {quote_value(key)} twice", "Write it once.")
            mapping.lines[key] = _get_line(event)
            mapping[key] = self._read_value(next(self._events), depth + 1)
        return mapping


def _read_scalar(event: ScalarEvent) -> Any:
    """Return the value of a scalar: text, unless it is plain and reads as a number, true, false or null."""
    text: str = event.value
    if not event.implicit[0]:
        return text
    if (lower := text.lower()) in _CONSTANTS:
        return _CONSTANTS[lower]
    if _WHOLE.fullmatch(text):
        if len(text) > _MAX_DIGITS:
            _fail(event, f"{quote_value(text)} is too large a number", f"Write at most {_MAX_DIGITS} digits.")
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else text


def _get_line(event: _Event) -> int:
    return int(event.start_mark.line) + 1


def _fail(event: _Event, problem: str, remedy: str) -> NoReturn:
    raise YamlFault(problem, remedy, _get_line(event))
