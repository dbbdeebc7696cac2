"""Counts, sizes, durations and grids as the command line prints them."""

import sys
from collections.abc import Iterable, Sequence

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def format_count(count: int, noun: str) -> str:
    """Format a count with its noun: 1 partition, 2,000 partitions."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def format_bytes(value: float) -> str:
    """Format a size in the largest unit that leaves a number of 1 or more."""
    unit = 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.0f} B" if unit == 0 else f"{value:.3g} {_UNITS[unit]}"


def format_duration(seconds: float) -> str:
    """Format a duration in seconds, minutes or hours."""
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{seconds:.0f} s" if seconds >= 1 else "under 1 s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def print_grid(
    headings: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = (), title: str | None = None
) -> None:
    """Print rows of text under headings of one or more lines: with lines on a terminal, plain in a pipe or a log.

    `right` names the headings of the columns to align to the right.
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
        grid.add_row(*row)
    # A pipe has no width: nothing is cut there. Brackets and colons in cells are data.
    width = None if is_terminal else 10_000
    Console(width=width, soft_wrap=False, markup=False, emoji=False, highlight=False).print(grid)
