"""kafka-reassign-partitions --verify: replicas that are not those of the reassignment, and reassignments that run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines.ingest.formats.reassignment_status import FORMAT
from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.sources import find_source

from .facts import check_facts, find_formats, shorten

OTHER = "There is no active reassignment of partition a.b-3, but replica set is 1,2,3 rather than 4,5,6.\n"
OLD = "ERROR: Assigned replicas (1,2) don't match the list of replicas for reassignment (3,4) for partition foo-0\n"
RUNNING = "Reassignment of partition foo-{} is still in progress.\n"
VERIFY = "Status of partition reassignment:\nReassignment of partition foo-0 is completed.\n"


def parse(text: str) -> list[dict[str, Any]]:
    records = FORMAT.read_records(text, "x")
    return shorten(check_facts(records, FORMAT.parse_facts(records)))


@pytest.mark.parametrize(
    ("line", "partition"),
    [
        (OTHER, {"topic": "a.b", "partition": 3, "replicas": [1, 2, 3]}),
        (OLD, {"topic": "foo", "partition": 0, "replicas": [1, 2]}),
    ],
)
def test_replicas_that_are_not_those_of_the_reassignment(line: str, partition: dict[str, Any]) -> None:
    assert parse(line) == [{"kind": "partition", **partition}]
    assert find_formats(VERIFY + line) == ["reassignment", "reassignment-list"]


@pytest.mark.parametrize("line", [OTHER, OLD])
def test_a_line_that_breaks_off_is_rejected(line: str) -> None:
    (row,) = parse(line[:60])
    assert "cut off?" in row["reasons"][0]


def test_running_reassignments_are_one_warning(tmp_path: Path) -> None:
    file = tmp_path / "verify.txt"
    file.write_text(VERIFY + RUNNING.format(1))
    text = "a reassignment of partition foo-1 is running: its replicas change"
    assert load_snapshot(find_source(str(file))).warnings["warning"].to_pylist() == [text]
    file.write_text(VERIFY + RUNNING.format(1) + OTHER + RUNNING.format(2))
    text = "reassignments of 2 partitions are running, as of foo-1: their replicas change"
    assert load_snapshot(find_source(str(file))).warnings["warning"].to_pylist() == [text]
