"""Count the files of the product that a command enters, and how often calls go from one file to another.

    python -m tests.bench.entered_files what-if data_samples/kafka-4.1.1-kraft --fail 2
    python -m tests.bench.entered_files plan data_samples/kafka-4.1.1-kraft --goal balance --out /tmp/plan

What modules do while they are imported does not count. `--list` before the command also lists the files.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType

from pipelines.cli import entry

ROOT = Path(__file__).parents[2]
_PLACES = tuple(f"{ROOT / name}/" for name in ("pipelines", "udfs"))


class Entries:
    """Calls by file, and those that come from another file of the product."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.moves = 0
        self._importing: Counter[int] = Counter()  # imports that are going on, by thread

    def record(self, frame: FrameType, event: str, _: object) -> None:
        """Record a call: a function for sys.setprofile."""
        name = frame.f_code.co_filename
        if event not in ("call", "return") or not name.startswith(_PLACES):
            return
        thread = threading.get_ident()
        if frame.f_code.co_name == "<module>":
            self._importing[thread] += 1 if event == "call" else -1
        elif event == "call" and not self._importing[thread]:
            self.calls[name] += 1
            caller = frame.f_back
            while caller is not None and not caller.f_code.co_filename.startswith(_PLACES):
                caller = caller.f_back
            self.moves += caller is not None and caller.f_code.co_filename != name


def count(arguments: list[str]) -> Entries:
    """Run a command of kafka-placement in this process, and count."""
    entries = Entries()
    sys.argv = ["kafka-placement", *arguments]
    threading.setprofile(entries.record)
    sys.setprofile(entries.record)
    try:
        entry()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return entries


if __name__ == "__main__":
    arguments = sys.argv[1:]
    lists = arguments[:1] == ["--list"]
    result = count(arguments[lists:])
    if lists:
        for name, calls in sorted(result.calls.items()):
            print(f"{calls:8,} {Path(name).relative_to(ROOT)}")
    print(f"{len(result.calls)} files entered, {result.moves:,} calls from one file to another")
