"""How much memory a process and all its descendants hold together, sampled while it runs."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Event, Thread

EVERY_SECONDS = 0.25


def _children() -> dict[int, list[int]]:
    out: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        out.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    return out


def held_bytes(pid: int) -> int:
    """Proportional set size of the process and its descendants: what they share is counted once."""
    children = _children()
    todo, total = [pid], 0
    while todo:
        one = todo.pop()
        todo += children.get(one, [])
        try:
            lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


class Watch:
    """Samples a process tree in a thread of its own: samples are (monotonic seconds, bytes)."""

    def __init__(self, pid: int) -> None:
        self.samples: list[tuple[float, int]] = []
        self._pid = pid
        self._stop = Event()
        self._thread = Thread(target=self._sample, daemon=True)
        self._thread.start()

    def _sample(self) -> None:
        while not self._stop.wait(EVERY_SECONDS):
            self.samples.append((time.monotonic(), held_bytes(self._pid)))

    def peak_between(self, begin: float, end: float) -> int:
        """The most that was held between two moments (monotonic seconds); 0 if no sample lies there."""
        return max((held for at, held in self.samples if begin <= at <= end), default=0)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
