"""What the listings of --at-min-isr-partitions and --under-min-isr-partitions show beyond their partitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines.ingest.formats.partition_filters import read_kcat, read_options
from pipelines.ingest.snapshot_reader import Snapshot, load_snapshot
from pipelines.ingest.sources import find_source
from pipelines.verdict.verdict_points import Level
from pipelines.what_if.what_if_answers import evaluate_brokers
from udfs.failures.topic_defaults import TopicDefaults

ASK = "$ kafka-topics.sh --bootstrap-server b1:9092 --describe"
HEADER = "Topic: t\tPartitionCount: 2\tReplicationFactor: 3\tConfigs: "
AT_2 = "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2\n"
ALSO_AT_2 = "\tTopic: t\tPartition: 1\tLeader: 2\tReplicas: 2,3,1\tIsr: 2,1\n"
AT_1 = "\tTopic: t\tPartition: 1\tLeader: 2\tReplicas: 2,3,1\tIsr: 2\n"
AT, UNDER = f"{ASK} --at-min-isr-partitions\n", f"{ASK} --under-min-isr-partitions\n"
LEAST = "min.insync.replicas is at least 3, as --under-min-isr-partitions shows"


def load(folder: Path, *texts: str) -> Snapshot:
    for i, text in enumerate(texts):
        (folder / f"{i}.txt").write_text(text)
    return load_snapshot(find_source(str(folder)))


def get_topic(snapshot: Snapshot) -> dict[str, Any]:
    (row,) = snapshot.topics.to_pylist()
    return row


@pytest.mark.parametrize(
    ("texts", "minimum"),
    [
        ([AT + AT_2 + ALSO_AT_2], 2),
        ([UNDER + AT_2 + AT_1], 3),
        ([UNDER + AT_1 + AT + AT_2], 2),  # two commands of one session
        ([f"{HEADER}\n{AT_2}{ALSO_AT_2}", AT + AT_2], 2),  # beside a complete listing
        ([AT + AT_2 + AT_1], None),  # not of one moment
        ([f"{ASK} --under-replicated-partitions\n{AT_2}"], None),
        ([f"{ASK}\n{HEADER}\n{AT_2}{ALSO_AT_2}"], None),
        ([f"{AT}\n{HEADER}\n{AT_2}{ALSO_AT_2}"], None),  # the listing is of another command
        ([AT_2 + AT + ALSO_AT_2.replace(": 2,1\n", ": 2\n")], 1),  # what is above is of another command
        ([f"{HEADER}min.insync.replicas=1\n{AT_2}{ALSO_AT_2}", UNDER + AT_2], 1),  # as shown
    ],
)
def test_the_isr_shows_min_insync_replicas(tmp_path: Path, texts: list[str], minimum: int | None) -> None:
    assert get_topic(load(tmp_path, *texts))["min_insync_replicas"] == minimum


def test_a_lower_bound_is_said_to_be_one(tmp_path: Path) -> None:
    assert LEAST in get_topic(load(tmp_path, UNDER + AT_2))["warnings"]
    assert get_topic(load(tmp_path, AT + AT_2))["warnings"][1:] == []


@pytest.mark.parametrize(
    ("text", "point"),
    [
        (UNDER + AT_2, "1 partition is below min.insync.replicas now and blocks acks=all producers: t (1)."),
        (
            AT + AT_2 + ALSO_AT_2,
            "Losing broker 1 or 2 blocks acks=all producers (in each case 2 partitions below min.insync.replicas).",
        ),
        (
            AT + AT_2.replace("1,2,3", "1,2"),
            "Losing any single broker blocks acks=all producers (in each case 1 partition below min.insync.replicas).",
        ),
    ],
)
def test_the_verdict_says_what_the_partitions_have_in_common(tmp_path: Path, text: str, point: str) -> None:
    snapshot = load(tmp_path, text)
    answer = evaluate_brokers(snapshot, TopicDefaults())
    assert point in [item.text for item in answer.verdict.points]
    assert answer.verdict.level is not Level.OK
    assert all(row["live"] is not False for row in snapshot.brokers.to_pylist())


def test_a_command_without_words_has_no_options() -> None:
    assert list(read_options([])) == list(read_kcat([])) == []
