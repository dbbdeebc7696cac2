"""Log lines are skipped together only where no format claims one of them."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.errors import SourceError
from pipelines.ingest import sections
from pipelines.ingest.sections import LogSkipper
from pipelines.ingest.snapshot_reader import FORMATS, divide_text
from pipelines.ingest.text import read_text, split_lines

from .facts import SAMPLES
from .test_sections import DESCRIBE

TIMES = (
    "[2023-05-04 10:00:01,140] INFO ",
    "2024-05-01 12:00:00 WARN ",
    "2024-05-01T12:00:00.5Z [DEBUG] ",
    "2024-05-01 12:00:00 INFO",
)
LOG = "[2023-05-04 10:00:01,140] INFO [Partition orders-{} broker=1] Leader: 1, Isr: (1,2) (kafka.cluster.Partition)\n"


class _NoSkipper:
    def __init__(self, _text: str) -> None: ...

    def skip(self, position: int) -> int:
        return position


def _list_lines() -> list[str]:
    lines: set[str] = set()
    for path in sorted(SAMPLES.rglob("*")):
        if path.is_file() and path.stat().st_size < 300_000:
            try:
                lines.update(line for line in split_lines(read_text(path)) if line.strip() and len(line) < 900)
            except SourceError:
                continue
    return sorted(lines)


LINES = _list_lines()


def check_skipped(line: str) -> None:
    if LogSkipper(f"{line}\n").skip(0):
        assert [form.name for form in FORMATS.values() if form.signature.line(line)] == []


def test_a_line_of_a_sample_behind_a_time_is_skipped_only_if_no_format_claims_it() -> None:
    for line in LINES:
        for start in TIMES:
            check_skipped(start + line)


@given(st.sampled_from(TIMES), st.sampled_from(LINES), st.data())
def test_so_is_a_damaged_line(start: str, line: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(line)))
    piece = data.draw(st.sampled_from(["", " ", ",", ";", ":", '"', "topic", "id,", "Isr: ", "partition ", "kafka-"]))
    check_skipped(start + (line[:at] + piece + line[at:]).replace("\n", " "))


def test_the_division_is_the_same_with_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    data = "[2023-05-04 10:00:01,140] INFO Topic: t Partition: 0 Leader: 1 Replicas: 1 Isr: 1\n"
    log = "".join(map(LOG.format, range(100)))
    text = f"hello\n{log}{DESCRIBE}{log}{data}{log}$ kafka-topics --describe\n{DESCRIBE}{log}\n{log}end"
    skipped = divide_text(text)
    monkeypatch.setattr(sections, "LogSkipper", _NoSkipper)
    assert divide_text(text) == skipped


def test_a_long_log_is_fast() -> None:
    line = "[2023-05-04 10:00:01,140] INFO [Partition orders-{} broker=1] Shrinking ISR from 1,2 to 1. Leader: (1, 2)\n"
    text = "start\n" + "".join(line.format(i) for i in range(100_000))
    begin = time.process_time()
    divide_text(text)
    assert time.process_time() - begin < 3  # 0.3 s; line by line, it took 7 s
