"""How much memory a process and all its descendants hold together, and their processor time, sampled while it runs."""

from __future__ import annotations

import os
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


def _list_tree(pid: int) -> list[int]:
    children = _children()
    pids = [pid]
    for one in pids:  # grows in the loop
        pids += children.get(one, [])
    return pids


def held_bytes(pid: int) -> int:
    """Proportional set size of the process and its descendants: what they share is counted once."""
    total = 0
    for one in _list_tree(pid):
        try:
            lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


def _read_cpu_seconds(pid: int) -> dict[tuple[int, str], float]:
    """Processor time of the process and its descendants by process id and start."""
    seconds = {}
    for one in _list_tree(pid):
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        seconds[one, fields[19]] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds


class Watch:
    """Samples a process tree in a thread of its own: samples are (monotonic seconds, bytes).

    Processor time of descendants that nobody waits for, as Java's, is in no other figure; the last quarter of a second
    of each may be missing.
    """

    def __init__(self, pid: int) -> None:
        self.samples: list[tuple[float, int]] = []
        self._pid = pid
        self._cpu: dict[tuple[int, str], float] = {}
        self._stop = Event()
        self._thread = Thread(target=self._sample, daemon=True)
        self._thread.start()

    def _sample(self) -> None:
        while not self._stop.wait(EVERY_SECONDS):
            self.samples.append((time.monotonic(), held_bytes(self._pid)))
            self._cpu |= _read_cpu_seconds(self._pid)

    @property
    def cpu_seconds(self) -> float:
        """Processor time of the process and all its descendants so far."""
        return sum(self._cpu.values())

    def peak_between(self, begin: float, end: float) -> int:
        """The most that was held between two moments (monotonic seconds); 0 if no sample lies there."""
        return max((held for at, held in self.samples if begin <= at <= end), default=0)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
