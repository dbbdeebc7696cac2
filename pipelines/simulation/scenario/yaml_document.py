"""The YAML file that a scenario is written in, and what is said of a place in it that is wrong."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.reader import ReaderError

from pipelines.errors import SourceError


@dataclass(frozen=True)
class Page:
    """A file's top level. Lines count from 1."""

    path: str
    content: Any  # a mapping of ruamel, which knows its lines

    def fail(self, problem: str, remedy: str, line: int | None = None) -> NoReturn:
        """SourceError, with the file and the line."""
        raise SourceError(self.path, problem, remedy, line)

    def line(self, key: Any) -> int | None:
        """Where a key of the top level stands."""
        return line_of(self.content, key) if key in self.content else None

    def mapping(self, key: str, remedy: str) -> Any:
        """What stands under a key, which has to be a mapping; an empty one where nothing does."""
        found = self.content.get(key)
        if found is None:
            return {}
        if not isinstance(found, dict):
            self.fail(f"{key} is no mapping", remedy, self.line(key))
        return found

    def sentences(self, key: str, remedy: str) -> list[tuple[str, int]]:
        """(sentence, its line) of a list of text."""
        found = self.content.get(key)
        if found is None:
            return []
        if not isinstance(found, list):
            self.fail(f"{key} is no list", remedy, self.line(key))
        places = self.content[key].lc  # ruamel's list, which knows its lines
        lines = [places.item(i)[0] + 1 for i in range(len(found))]
        return [(self._sentence(one, line, remedy), line) for one, line in zip(found, lines, strict=True)]

    def _sentence(self, one: Any, line: int, remedy: str) -> str:
        if not isinstance(one, str):
            self.fail(f"{one!r} is no sentence", remedy, line)
        return " ".join(one.split())


def is_number(value: Any) -> bool:
    """Whether it is a whole number; YAML's yes and no are ints in Python, and ruamel's 0 is one of its own."""
    return isinstance(value, int) and not isinstance(value, bool)


def line_of(mapping: Any, key: Any) -> int:
    """Where a key of a mapping stands."""
    return int(mapping.lc.key(key)[0]) + 1


def read_page(path: str, keys: Sequence[str]) -> Page:
    """The file. keys: those that it may have. SourceError if it cannot be read, or is not such a mapping."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(path, f"cannot be read ({error})", "Name a scenario in YAML.") from None
    try:
        content = YAML(typ="rt").load(io.StringIO(text))
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise SourceError(path, f"is no YAML: {error.problem}", "See docs/replay.md.", line) from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        remedy = "Write a text without control characters."
        raise SourceError(
            path, f"has a character that YAML does not allow: {error.character!r}", remedy, line
        ) from None
    if not isinstance(content, dict):
        raise SourceError(path, "holds no mapping", f"Write the keys {', '.join(keys)}.")
    page = Page(path, content)
    for key in content:
        if key not in keys:
            page.fail(f"{key!r} is no key of a scenario", f"Keys: {', '.join(keys)}.", page.line(key))
    return page
