"""Text as the command line prints it: escaped lines, counts, sizes, durations and grids."""

import sys
from collections.abc import Iterable, Iterator, Sequence

import typer

from pipelines.quoted_values import escape_text

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
