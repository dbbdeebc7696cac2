"""Odd values in otherwise good sources lead to a warning or a quarantined row, and never stop the run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pipelines.errors import SourceError
from pipelines.ingest.merge import fact_merge
from pipelines.ingest.merge.shard_facts import ANSWERS, FENCED_LISTS, KRAFT_LOG
from pipelines.ingest.snapshot_reader import FORMATS, Snapshot, load_snapshot
from pipelines.ingest.sources import find_source
from pipelines.what_if.what_if_answers import evaluate_brokers, evaluate_failure
from udfs.failures.replica_logs import list_replica_bytes
from udfs.failures.topic_defaults import TopicDefaults

HEADER = "Topic: t\tPartitionCount: {count}\tReplicationFactor: 2\tConfigs: {configs}\n"
LINE = "\tTopic: t\tPartition: {partition}\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n"


def load(folder: Path, text: str, name: str = "describe.txt") -> Snapshot:
    file = folder / name
    file.write_text(text)
    return load_snapshot(find_source(str(file)))


@pytest.mark.parametrize("value", ["²", "99999999999999999999", "-1", "0", "two"])
def test_a_min_insync_replicas_that_is_no_number_is_a_warning(tmp_path: Path, value: str) -> None:
    text = HEADER.format(count=1, configs=f"min.insync.replicas={value}") + LINE.format(partition=0)
    (topic,) = load(tmp_path, text).topics.to_pylist()
    assert topic["min_insync_replicas"] is None
    assert topic["warnings"] == [f"min.insync.replicas={value} is not a positive number"]


def test_an_absurd_partition_count_costs_no_memory(tmp_path: Path) -> None:
    (tmp_path / "topics.csv").write_text("topic,partitions,replication_factor\nt,1,2\n")
    (tmp_path / "describe.txt").write_text(HEADER.format(count=1_000_001, configs=""))
    snapshot = load_snapshot(find_source(str(tmp_path)))
    reasons = ["partitions is 1000001, expected at most 1000000"]
    assert [row["reasons"] for row in snapshot.quarantined] == [reasons]
    assert [(t["partitions"], t["listed_partitions"]) for t in snapshot.topics.to_pylist()] == [(1, 1)]


def test_a_huge_partition_number_costs_no_memory(tmp_path: Path) -> None:
    text = HEADER.format(count=3, configs="") + LINE.format(partition=999_999)
    (topic,) = load(tmp_path, text).topics.to_pylist()
    assert topic["warnings"] == [
        f"999,999 of 1,000,000 partitions are not shown: {', '.join(map(str, range(20)))} and 999,979 more",
        "declares 3 partitions but shows partition 999999",
    ]


@pytest.mark.parametrize("number", [1_000_000, 2_147_483_647])
def test_a_partition_number_above_the_limit_costs_its_line_and_not_the_source(tmp_path: Path, number: int) -> None:
    describe = HEADER.format(count=1, configs="") + LINE.format(partition=0) + LINE.format(partition=number)
    entry = {"topic": "t", "partition": number, "replicas": [1]}
    reassignment = json.dumps({"version": 1, "partitions": [entry]})
    znode = json.dumps({"path": f"/brokers/topics/t/partitions/{number}/state", "data": '{"leader":1,"isr":[1]}'})
    files = {
        "describe.txt": describe,
        "plan.json": reassignment,
        "states.jsonl": znode + "\n",
        "offsets.txt": f"t:{number}:5\n",
        "kcat.txt": f" partition {number}, leader 1, replicas: 1, isrs: 1\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    snapshot = load_snapshot(find_source(str(tmp_path)))
    assert snapshot.partitions["partition"].to_pylist() == [0]
    reasons = [reason for row in snapshot.quarantined for reason in row["reasons"]]
    assert sum(str(number) in reason and "expected 0 to 999999" in reason for reason in reasons) >= 4


def test_an_absurd_topic_list_row_is_quarantined(tmp_path: Path) -> None:
    snapshot = load(tmp_path, "topic,partitions,replication_factor\na,2000000000,3\nb,2,3\n", "topics.csv")
    assert [row["line_number"] for row in snapshot.quarantined] == [2]
    assert snapshot.partitions.num_rows == 2


def test_different_loads_of_one_partition_are_a_conflict(tmp_path: Path) -> None:
    part = {"topic": "t", "partition": 0, "replicas": [1, 2], "in_kbps": 1, "out_kbps": 1}
    brokers = [{"id": 1, "rack": "a"}, {"id": 2, "rack": "b"}]
    model = {"name": "m", "brokers": brokers, "removed": [], "partitions": [{**part, "size_mb": s} for s in (1, 2)]}
    snapshot = load(tmp_path, json.dumps(model), "model.json")
    assert snapshot.quarantined == []
    assert [row["outcome"] for row in snapshot.conflicts.to_pylist()] == ["the first value is used"]


def test_one_registration_beside_a_describe_takes_no_broker_down(tmp_path: Path) -> None:
    (tmp_path / "describe.txt").write_text(HEADER.format(count=1, configs="") + LINE.format(partition=0))
    znode = {"path": "/brokers/ids/2", "data": json.dumps({"host": "h", "port": 1, "version": 5, "endpoints": []})}
    (tmp_path / "ids.jsonl").write_text(json.dumps(znode) + "\n")
    snapshot = load_snapshot(find_source(str(tmp_path)))
    assert [b["live"] for b in snapshot.brokers.to_pylist()] == [None, True]


def test_an_election_from_the_elr_leaves_one_replica(tmp_path: Path) -> None:
    line = "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1\tElr: 3\tLastKnownElr: \n"
    snapshot = load(
        tmp_path, line + "\tTopic: t\tPartition: 1\tLeader: 2\tReplicas: 2,3\tIsr: 2,3\tElr: \tLastKnownElr: \n"
    )
    answer = evaluate_failure(snapshot, [1], TopicDefaults())
    assert answer.partitions[0].leader_after == 3
    assert answer.summary.single_isr_partitions == 1


def test_a_name_without_a_path_is_rejected() -> None:
    with pytest.raises(SourceError, match="the path after '=' is empty"):
        find_source("prod=")


def test_reasons_of_conflicting_lines_name_the_other_lines(tmp_path: Path) -> None:
    other = LINE.format(partition=0).replace("Leader: 1", "Leader: 2")
    snapshot = load(tmp_path, LINE.format(partition=0) + other + LINE.format(partition=0) + LINE.format(partition=1))
    reasons = [
        "partition t-0: leader 1 in describe.txt line 1, but 2 in describe.txt line 2",
        "two listings or assignments of the same topics: keep one of them",
    ]
    assert {row["line_number"]: row["reasons"] for row in snapshot.quarantined} == dict.fromkeys((1, 2, 3), reasons)


def test_a_list_of_thousands_of_replicas_costs_no_memory(tmp_path: Path) -> None:
    ids = ",".join(map(str, range(100_000)))
    snapshot = load(
        tmp_path, LINE.format(partition=0) + f"\tTopic: t\tPartition: 1\tLeader: 0\tReplicas: {ids}\tIsr: 0\n"
    )
    (row,) = snapshot.quarantined
    assert row["reasons"] == ["partition t-1: 100000 replicas: no partition has more than 1,000"]
    assert evaluate_brokers(snapshot, TopicDefaults()).partitions == 1


def test_merging_names_formats_that_exist() -> None:
    source = "".join(path.read_text() for path in Path(fact_merge.__file__).parent.glob("*.py"))
    named = re.findall(r'facts\["format"\], "([a-z-]+)"\)|rejected\["format"\], "([a-z-]+)"\)', source)
    lists = (fact_merge.DECLARED_FORMATS, fact_merge.REPLICA_FORMATS, ANSWERS, FENCED_LISTS, (KRAFT_LOG,))
    names = {*(name for pair in named for name in pair if name), *(name for names in lists for name in names)}
    assert "kraft-log" in names
    assert len(names) > 10
    assert names <= FORMATS.keys()


def test_topics_whose_data_is_not_on_brokers_have_no_bytes_to_copy(tmp_path: Path) -> None:
    lines = [
        line
        for topic, configs in (("a", "diskless.enable=true"), ("b", "diskless.enable=false"))
        for line in (
            f"Topic: {topic}\tPartitionCount: 1\tReplicationFactor: 2\tConfigs: {configs}",
            f"\tTopic: {topic}\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2",
        )
    ]
    (tmp_path / "describe.txt").write_text("\n".join(lines))
    logs = [{"partition": f"{topic}-0", "size": 500, "offsetLag": 0, "isFuture": False} for topic in "ab"]
    dirs = [{"logDir": "/d", "error": None, "partitions": logs}]
    (tmp_path / "log-dirs.json").write_text(json.dumps({"version": 1, "brokers": [{"broker": 1, "logDirs": dirs}]}))
    rates = [f"load topic={topic} broker_id=1 bytes_in_per_s=8.0 bytes_out_per_s=9.0" for topic in "ab"]
    (tmp_path / "loads.txt").write_text("\n".join(["loads from loads.csv", *rates]))
    partitions = load_snapshot(find_source(str(tmp_path))).partitions
    assert partitions["size_bytes"].to_pylist() == [0, 500]
    assert [partitions[name].to_pylist() for name in ("bytes_in_per_s", "load_source")] == [[None, 8], [None, "even"]]
    sizes = list_replica_bytes(partitions)["replica_sizes"].to_pylist()
    assert sizes == [[500, 0], [500, 500]], "what a broker shows of a log is on its disk"
