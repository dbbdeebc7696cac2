"""Another throttle for an execution that runs: a file beside its journal, which it looks for between two looks."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from pipelines.whole_files import replace_text

_FILE = "new-throttle"  # bytes per second of a broker
NO_THROTTLE = 0  # instead of a rate


def leave_throttle(folder: Path, rate: int | None) -> None:
    """Leave a throttle for the execution of a plan folder; None = it is to copy without one."""
    replace_text(folder / _FILE, str(rate or NO_THROTTLE))


def take_throttle(folder: Path) -> int | None:
    """Return the throttle that was left, which is taken once, or NO_THROTTLE; None = no change was left."""
    path = folder / _FILE
    with suppress(FileNotFoundError, ValueError):
        rate = int(path.read_text())
        path.unlink()
        return rate
    return None
