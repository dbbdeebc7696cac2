"""Text as the command line prints it: escaped lines, grids, wrapped sentences, and what fits on a screen."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import typer

from udfs.wording import escape_text

if TYPE_CHECKING:
    from pipelines.verdict.verdict_points import VerdictPoint

_MAX_ERROR_LINES, _MAX_ERROR_CHARACTERS = 50, 1200  # of each line


def print_line(text: str = "", stderr: bool = False) -> None:
    """Print text from anywhere as one line."""
    typer.echo(escape_text(text), err=stderr)


def print_message(text: str) -> None:
    """Print a message to the user on stderr."""
    print_line(f"kafka-placement: {text}", stderr=True)


def print_error(lines: Sequence[str]) -> None:
    """Print an error on stderr, shortened if its lines repeat much of what was wrong."""
    for number, line in enumerate(lines[:_MAX_ERROR_LINES]):
        print_line(_shorten(escape_text(line if number else f"kafka-placement: {line}")), stderr=True)
    if len(lines) > _MAX_ERROR_LINES:
        print_line(f"and {len(lines) - _MAX_ERROR_LINES:,} more lines", stderr=True)


def _shorten(line: str) -> str:
    """Leave out the middle of a line that is too long; the problem is at its begin, the remedy at its end."""
    rest = len(line) - _MAX_ERROR_CHARACTERS
    if rest <= 0:
        return line
    begin, end = line[: _MAX_ERROR_CHARACTERS // 2], line[-_MAX_ERROR_CHARACTERS // 2 :]
    return f"{begin}... ({rest:,} more characters) ...{end}"


def print_warning(text: str) -> None:
    """Print a warning on stderr."""
    print_message(f"warning: {text}")


def align_rows(rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> Iterator[str]:
    """Align the cells of rows as columns: those at `left` to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = enumerate(zip(row, widths, strict=True))
        yield "  ".join(cell.ljust(width) if i in left else cell.rjust(width) for i, (cell, width) in cells).rstrip()


def print_grid(
    headings: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = (), title: str | None = None
) -> None:
    """Print rows of text under headings of one or more lines: with lines on a terminal, plain in a pipe or a log.

    `right` names the headings of the columns to align to the right. Cells are escaped; escape headings that are not
    constants.
    """
    from rich.console import Console
    from rich.table import Table

    is_terminal = sys.stdout.isatty()
    grid = Table(title=title, title_justify="left")
    if not is_terminal:
        grid.box, grid.pad_edge = None, False
    for heading in headings:
        grid.add_column(heading, justify="right" if heading in right else "left")
    for row in rows:
        grid.add_row(*map(escape_text, row))
    # A pipe has no width: nothing is cut there. Brackets and colons in cells are data.
    width = None if is_terminal else 10_000
    Console(width=width, soft_wrap=False, markup=False, emoji=False, highlight=False).print(grid)


ROWS, COLUMNS = 40, 80  # of the screen that a short answer fits on
# A command within a sentence ends with it, or before "; ".
_COMMAND = re.compile(r": (?P<command>(?:kafka-|echo )(?:'[^']*'|#.*|[^;'#]|;(?! ))+)(?:; |$)")
_ONLY_COMMAND = re.compile(r"\s*(?:kafka-|echo |for id in )")
_TABLE_ROW = re.compile(r"\S {2,}\S")


class Limits(NamedTuple):
    """How many lines of each kind an answer shows; None = all."""

    findings: int | None = None
    steps: int | None = None  # of these findings, those with their next steps
    rows: int | None = None  # of a table
    notes: int | None = None

    @property
    def are_tight(self) -> bool:
        """Whether findings of now need the rows of what is only so later."""
        return self.notes == 0

    def hide(self, lines: int) -> int:
        """Return how many rows of a table are hidden: two or more, as a line says how many."""
        return 0 if self.rows is None or lines <= self.rows + 1 else lines - self.rows


EVERYTHING = Limits()
# findings, steps, rows and notes of a short answer: the first that fits on the screen.
_SHORT = tuple(
    Limits(*counts)
    for counts in (
        (3, 3, 10, 2),
        (3, 3, 6, 1),
        (3, 2, 5, 1),
        (3, 1, 4, 1),
        (3, 1, 3, 0),
        (3, 1, 2, 0),
        (2, 1, 2, 0),
        (1, 1, 2, 0),
    )
)


def lay_out_screen(render: Callable[[Limits], Iterable[str]], show_all: bool) -> Iterator[str]:
    """Lay out an answer: in full, or with the highest limits with which it fits on a screen."""
    lines: list[str] = []
    for limits in (EVERYTHING,) if show_all else _SHORT:
        lines = list(render(limits))
        if count_rows(lay_out(lines, COLUMNS)) <= ROWS:
            break
    yield from lay_out_terminal(lines)


def count_rows(lines: Iterable[str]) -> int:
    """Count the rows that lines fill on the screen of a short answer."""
    return sum(max(ceil(len(line) / COLUMNS), 1) for line in lines)


def lay_out_terminal(lines: Iterable[str]) -> Iterator[str]:
    """Lay out lines for the columns of the terminal; without a terminal, and without COLUMNS, nothing is wrapped."""
    is_terminal = sys.stdout.isatty() or "COLUMNS" in os.environ
    return lay_out(lines, shutil.get_terminal_size((COLUMNS, ROWS)).columns if is_terminal else None)


def lay_out(lines: Iterable[str], columns: int | None) -> Iterator[str]:
    """Yield lines with each command on a line of its own, and sentences wrapped. columns: None = not wrapped."""
    for line in lines:
        for part in _split_commands(line):
            if columns is None or _ONLY_COMMAND.match(part) or _TABLE_ROW.search(part):
                yield part
            else:
                yield from _wrap(part, columns)


def _split_commands(line: str) -> Iterator[str]:
    """Yield a line in parts: what a command is for, and below it the command. What follows the first is indented."""
    indent, end = line[: len(line) - len(line.lstrip())], 0
    for match in _COMMAND.finditer(line):
        yield f"{f'{indent}  ' if end else ''}{line[end : match.start() + 1]}"
        yield f"{indent}    {match['command']}"
        end = match.end()
    if end < len(line) or not line:
        yield f"{f'{indent}  ' if end else ''}{line[end:]}"


def _wrap(line: str, columns: int) -> list[str]:
    """Wrap a sentence; what follows its first line is indented by two more."""
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(line, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [
        line
    ]


def format_findings(
    points: Sequence[VerdictPoint], headline: str = "", limit: int | None = None, steps: int | None = None
) -> Iterator[str]:
    """Yield findings, the worst first, with their next steps.

    headline: the text of the finding that the caller has printed; limit: of how many findings, steps: of how many of
    these with their next step; None = all.
    """
    for number, point in enumerate(points[:limit]):
        if point.text != headline:
            yield f"  - {point.text}"
        if point.step and (steps is None or number < steps):
            yield f"    next: {point.step}"
