"""kafka-reassign-partitions: other replicas than those of a reassignment, running reassignments, offline replicas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines.ingest.formats.tool_documents import REASSIGNMENT_STATUS
from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.sources import find_source
from pipelines.ingest.text import CHANGE

from .facts import check_facts, find_formats, shorten

OTHER = "There is no active reassignment of partition a.b-3, but replica set is 1,2,3 rather than 4,5,6.\n"
OLD = "ERROR: Assigned replicas (1,2) don't match the list of replicas for reassignment (3,4) for partition foo-0\n"
RUNNING = "Reassignment of partition foo-{} is still in progress.\n"
HEALTHY = (
    "Topic: foo\tPartitionCount: 2\tReplicationFactor: 2\tConfigs: \n"
    "\tTopic: foo\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n"
    "\tTopic: foo\tPartition: 1\tLeader: 2\tReplicas: 2,1\tIsr: 2,1\n"
)
VERIFY = "Status of partition reassignment:\nReassignment of partition foo-0 is completed.\n"


def parse(text: str) -> list[dict[str, Any]]:
    records = REASSIGNMENT_STATUS.read_records(text, "x")
    return shorten(check_facts(records, REASSIGNMENT_STATUS.parse_facts(records)))


@pytest.mark.parametrize(
    ("line", "partition"),
    [
        (OTHER, {"topic": "a.b", "partition": 3, "replicas": [1, 2, 3]}),
        (OLD, {"topic": "foo", "partition": 0, "replicas": [1, 2]}),
        (OLD.replace("foo-0", "[a-b.c,2]"), {"topic": "a-b.c", "partition": 2, "replicas": [1, 2]}),
    ],
)
def test_replicas_that_are_not_those_of_the_reassignment(line: str, partition: dict[str, Any]) -> None:
    later = {"warning": CHANGE, "until_listing": True}
    assert parse(line) == [{"kind": "partition", **partition, **later}]
    assert find_formats(VERIFY + line) == ["reassignment", "reassignment-list"]


@pytest.mark.parametrize("line", [OTHER, OLD])
def test_a_line_that_breaks_off_is_rejected(line: str) -> None:
    (row,) = parse(line[:60])
    assert "cut off?" in row["reasons"][0]


def find_warnings(folder: Path, text: str) -> list[str]:
    (folder / "verify.txt").write_text(text)
    return list(load_snapshot(find_source(str(folder / "verify.txt"))).warnings["warning"].to_pylist())


def test_running_reassignments_are_one_warning(tmp_path: Path) -> None:
    text = "a reassignment of partition foo-1 is running: its replicas change"
    assert find_warnings(tmp_path, VERIFY + RUNNING.format(1) + HEALTHY) == [text]
    old = "Reassignment of partition [foo,1] is still in progress\n"
    assert find_warnings(tmp_path, VERIFY + old + HEALTHY) == [text]
    text = "reassignments of 2 partitions are running, as of foo-1: their replicas change"
    assert find_warnings(tmp_path, VERIFY + RUNNING.format(1) + OTHER + RUNNING.format(2)) == [text]
    assert find_warnings(tmp_path, VERIFY + old + f"There is an existing assignment running.\n{old}{HEALTHY}") == [text]


@pytest.mark.parametrize(
    "message",
    [
        "There is an existing assignment running.",
        "Partitions reassignment failed due to Partition reassignment currently in progress for Map([a,1] -> x)",
        "kafka.common.AdminCommandFailedException: Partition reassignment currently in progress for Map(a-1 -> x)",
    ],
)
def test_a_reassignment_that_is_in_the_way_of_another_runs(tmp_path: Path, message: str) -> None:
    text = "a reassignment of partitions is running: their replicas change"
    assert find_warnings(tmp_path, f"{message}\n{HEALTHY}") == [text]


STARTED = "Successfully started reassignment of partitions"
TARGET = '{"version":1,"partitions":[{"topic":"foo","partition":1,"replicas":[7,8]}]}'


@pytest.mark.parametrize("message", [f"{STARTED}.", f"{STARTED} {TARGET}", f"{STARTED}\n{TARGET}"])
def test_a_reassignment_that_old_kafka_started_is_a_warning_until_it_completes(tmp_path: Path, message: str) -> None:
    text = "a reassignment of partitions was started: their replicas change until it completes"
    assert find_warnings(tmp_path, f"{message}\n{HEALTHY}") == [text]
    assert find_warnings(tmp_path, f"{VERIFY}{message}\n{HEALTHY}{message}\n") == [text]
    assert find_warnings(tmp_path, f"{message}\n{VERIFY}{HEALTHY}") == []


def test_a_describe_shows_what_new_kafka_started(tmp_path: Path) -> None:
    assert find_warnings(tmp_path, f"Successfully started partition reassignment for foo-1\n{HEALTHY}") == []


def test_a_replica_without_a_live_log_is_a_warning(tmp_path: Path) -> None:
    old = (
        "Partition foo-1 is not found in any live log dir on broker 2. There is likely an offline log directory on the "
        "broker.\n"
    )
    new = "Partition foo-1 cannot be found in any live log directory on broker 2.\n"
    text = "the replica of partition foo-1 on broker 2 is in no live log directory: it may be offline"
    assert find_warnings(tmp_path, VERIFY + old + HEALTHY) == find_warnings(tmp_path, VERIFY + new + HEALTHY) == [text]
    other = new.replace("broker 2", "broker 3")
    text = "2 replicas, as of partition foo-1 on broker 2, are in no live log directory: they may be offline"
    assert find_warnings(tmp_path, VERIFY + old + other + HEALTHY) == [text]
