"""Grids of text: with lines on a terminal, as plain columns in a pipe or a log."""

import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table


def print_grid(
    headings: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = (), title: str | None = None
) -> None:
    """Print rows under headings.

    Args:
        headings: One per column; a heading may have several lines.
        rows: Cells as text.
        right: Headings of the columns to align to the right.
        title: A line above.
    """
    is_terminal = sys.stdout.isatty()
    grid = Table(title=title, title_justify="left")
    if not is_terminal:
        grid.box, grid.pad_edge = None, False
    for heading in headings:
        grid.add_column(heading, justify="right" if heading in right else "left")
    for row in rows:
        grid.add_row(*row)
    # A pipe has no width: nothing is cut there. Brackets and colons in cells are data.
    width = None if is_terminal else 10_000
    Console(width=width, soft_wrap=False, markup=False, emoji=False, highlight=False).print(grid)
