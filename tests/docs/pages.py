"""The fenced blocks of the pages, and what is in them.

Each fence names its contents:

`sh` commands, one a line; `console` commands behind `$ ` with what they print (`...`: anything); `sql` one query;
`python` code that runs, in order, page by page; `yaml` a scenario; `text`, or nothing: neither.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "AGENTS.md", *sorted((ROOT / "docs").glob("*.md"))]
LANGUAGES = {"sh", "console", "sql", "python", "yaml", "toml", "json", "text", ""}
_FENCE = re.compile(r"^```(\S*)\n(.*?)^```$", re.M | re.S)
_IN_TABLE = re.compile(r"`(kafka-placement [^`]+)`")


@dataclass(frozen=True)
class Block:
    """line: of the fence, from 1."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True)
class Command:
    """words: as the shell splits them, without what is set before the program.   expected: what it prints, or None."""

    text: str
    expected: str | None = None

    @property
    def words(self) -> list[str]:
        words = shlex.split(self.text, comments=True)
        return list(dropwhile(re.compile(r"[A-Z_]+=").match, words))


def needs_cluster(text: str) -> bool:
    """Whether commands are for a running cluster, whose brokers the pages call b1 and b2: tests/live runs them."""
    return "b1:909" in text


def blocks(page: Path, *languages: str) -> list[Block]:
    """The page's blocks, in order; languages: these alone."""
    text = page.read_text(encoding="utf-8")
    found = [Block(page, text.count("\n", 0, m.start()) + 1, m[1], m[2]) for m in _FENCE.finditer(text)]
    return [one for one in found if not languages or one.language in languages]


def commands(block: Block) -> Iterator[Command]:
    """The commands of a `sh` or `console` block; a backslash joins lines, `&&` stands between two of one."""
    text = re.sub(r" *\\\n\s*", " ", block.text)
    if block.language == "sh":
        for line in text.splitlines():
            if line.strip() and not line.lstrip().startswith("#"):
                yield from map(Command, line.split(" && "))
        return
    first, *parts = re.split(r"^\$ ", text, flags=re.M)
    assert not first.strip(), f"{block.name}: a console block begins with $"
    for part in parts:
        line, _, printed = part.partition("\n")
        yield Command(line, printed)


def in_tables(page: Path) -> list[Command]:
    """Commands that stand in the cells of a page's tables."""
    lines = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    return [Command(text) for line in lines for text in _IN_TABLE.findall(line)]
