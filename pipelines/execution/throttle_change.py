"""Another throttle for an execution that runs: a file beside its journal, which it looks for between two looks."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from pipelines.whole_files import replace_text

_FILE = "new-throttle"  # bytes per second of a broker


def leave_throttle(folder: Path, rate: int) -> None:
    """Leave a throttle for the execution of a plan folder."""
    replace_text(folder / _FILE, str(rate))


def take_throttle(folder: Path) -> int | None:
    """Return the throttle that was left, which is taken once; None without any."""
    path = folder / _FILE
    with suppress(FileNotFoundError, ValueError):
        rate = int(path.read_text())
        path.unlink()
        return rate
    return None
