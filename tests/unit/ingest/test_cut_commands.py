"""Listings of one topic under commands that terminals cut, loops, other names and calls of clients: never OK."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.sources import find_source
from tests.commands import call

ROWS = (
    "Topic: orders\tTopicId: 4Gq3JtJbS8GkZf0T1xqv1A\tPartitionCount: 3\tReplicationFactor: 3\t"
    "Configs: min.insync.replicas=2\n"
    + "".join(
        f"\tTopic: orders\tPartition: {p}\tLeader: {ids[0]}\tReplicas: {ids}\tIsr: {ids}\n"
        for p, ids in enumerate(("1,2,3", "2,3,1", "3,1,2"))
    )
)
PYTHON = str(
    [
        {
            "error_code": 0,
            "topic": "orders",
            "is_internal": False,
            "partitions": [
                {"error_code": 0, "partition": 0, "leader": 1, "replicas": [1, 2, 3], "isr": [1, 2, 3]},
                {"error_code": 0, "partition": 1, "leader": 2, "replicas": [2, 3, 1], "isr": [2, 3, 1]},
                {"error_code": 0, "partition": 2, "leader": 3, "replicas": [3, 1, 2], "isr": [3, 1, 2]},
            ],
        }
    ]
)
TOOL = "kafka-topics.sh --bootstrap-server b1:9092"


@pytest.mark.parametrize(
    "text",
    [
        f"u@bastion:~$ kafka-topics.sh --bootstrap-server broker-1.internal:\n9092 --describe --topic orders\n{ROWS}",
        f"[app@client ~]$ kafka-topics --bootstrap-server b1:9092 --describ\ne --topic orders\n{ROWS}",
        f"$ {TOOL}\n--describe --topic orders\n{ROWS}",
        f"$ {TOOL} --describe --top\nic orders\n{ROWS}",
        f"$ for t in orders; do {TOOL} --describe --topic $t; done\n{ROWS}",
        f'$ for t in orders ; do {TOOL} --describe --topic "${{t}}" ; done\n{ROWS}',
        f'$ alias kt="{TOOL}"\n$ kt --describe --topic orders\n{ROWS}',
        f">>> admin.describe_topics(['orders'])\n{PYTHON}\n",
        f'>>> admin.describe_topics(topics=["orders"])\n{PYTHON}\n',
        f'jshell> admin.describeTopics(List.of("orders")).all().get()\n{ROWS}',
    ],
)
def test_one_topic_is_no_evidence_for_others(text: str, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text(text)
    printed = call("what-if", "one.txt", "--json", "answer.json", folder=tmp_path).stdout
    assert "OK:" not in printed
    assert "UNKNOWN: " in printed
    assert json.loads((tmp_path / "answer.json").read_text())["verdict"]["level"] == "unknown"


@pytest.mark.parametrize(
    "command",
    [
        f"for t in $({TOOL} --list); do {TOOL} --describe --topic $t; done",
        f"cat topics | while read t; do {TOOL} --describe --topic $t; done",
        f"{TOOL} --describe",
    ],
)
def test_a_loop_over_all_topics_shows_all(command: str, tmp_path: Path) -> None:
    (tmp_path / "all.txt").write_text(f"$ {command}\n{ROWS}")
    assert "OK: any single broker can fail" in call("what-if", "all.txt", folder=tmp_path).stdout


def test_lists_that_a_terminal_cuts_are_joined(tmp_path: Path) -> None:
    rows = ROWS.splitlines()
    cut = [rows[0]]
    for row in rows[1:]:
        cut += [row[:-2], f"{row[-2:]}\tElr: \tLastKnownElr: "]
    (tmp_path / "cut.txt").write_text("\n".join(cut) + "\n")
    snapshot = load_snapshot(find_source(f"c={tmp_path / 'cut.txt'}"))
    assert not snapshot.quarantined
    assert snapshot.partitions["isr"].to_pylist() == [[1, 2, 3], [2, 3, 1], [3, 1, 2]]


def test_a_printed_description_that_nothing_reads_is_not_lost(tmp_path: Path) -> None:
    node = "b1:9092 (id: 1 rack: null)"
    partition = f"TopicPartitionInfo{{partition=0, leader=null, replicas=[{node}], isr=[]}}"
    known = f"(name=orders, internal=false, partitions=(partition=0, leader={node}, replicas={node}, isr={node}))"
    text = f"{known}\nTopicDescription(name=audit, internal=false, partitions=[{partition}])\n"
    (tmp_path / "java.txt").write_text(text)
    snapshot = load_snapshot(find_source(f"c={tmp_path / 'java.txt'}"))
    assert ["audit" in str(row) for row in snapshot.quarantined] == [True]
