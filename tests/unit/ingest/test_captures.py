"""The captures of the two real clusters agree between formats, to the last partition."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.ingest.snapshot_reader import Snapshot, load_snapshot
from pipelines.ingest.source_format import FactKind
from pipelines.ingest.sources import find_source

from .facts import SAMPLES, load_facts

KRAFT, ZOOKEEPER = SAMPLES / "kafka-4.1.1-kraft", SAMPLES / "kafka-2.8.2-zookeeper"
KRAFT_LATER, ZOOKEEPER_LATER = SAMPLES / "captures" / KRAFT.name, SAMPLES / "captures" / ZOOKEEPER.name

SICK = {version: SAMPLES / "captures" / f"kafka-{version}-sick" for version in ("4.2.1", "4.3.1", "4.4.0")}

State = dict[tuple[str, int], dict[str, Any]]


def rows(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = load_facts(path).to_pylist()
    assert not [row for row in found if row["kind"] == FactKind.REJECTED]
    return found


def partitions(path: Path, *columns: str) -> State:
    """Return columns of each partition, from all facts about it."""
    state: State = {}
    for row in rows(path):
        if row["kind"] == "partition":
            known = {name: row[name] for name in columns if row[name] is not None}
            state.setdefault((row["topic"], row["partition"]), {}).update(known)
    return state


def compute_log_end(path: Path) -> State:
    """Return the state of the partitions at the end of a KRaft log, by the rules of the log."""
    state: State = {}
    for row in rows(path):
        key = (row["topic"], row["partition"])
        if row["kind"] in ("partition", "partition_change"):
            names = ("leader", "replicas", "isr", "elr", "last_known_elr")
            state.setdefault(key, {}).update({n: row[n] for n in names if row[n] is not None})
        elif row["kind"] == "clear_elr":
            for (topic, _), partition in state.items():
                if row["topic"] in (None, topic):
                    partition |= {"elr": [], "last_known_elr": []}
        elif row["kind"] == "topic_removed":
            state = {k: v for k, v in state.items() if k[0] != row["topic"]}
    return state


def test_every_partition_of_both_clusters_is_read() -> None:
    for path, count in (
        (KRAFT / "topics-describe.txt", 743),
        (KRAFT_LATER / "topics-describe.broker-2-down.txt", 743),
        (ZOOKEEPER / "topics-describe.txt", 61),
        (ZOOKEEPER_LATER / "topics-describe.broker-1001-down.txt", 61),
    ):
        assert len(partitions(path, "leader")) == count


def test_each_topic_of_both_clusters_shows_as_many_partitions_as_it_declares() -> None:
    for path in (KRAFT / "topics-describe.txt", ZOOKEEPER / "topics-describe.txt"):
        declared = {row["topic"]: row["partition_count"] for row in rows(path) if row["kind"] == "topic"}
        shown = [topic for topic, _ in partitions(path, "leader")]
        assert declared == {topic: shown.count(topic) for topic in declared}


def test_the_zookeeper_dumps_agree_with_the_describes() -> None:
    columns = ("leader", "replicas", "isr")
    for describe, dump in (
        (ZOOKEEPER / "topics-describe.txt", ZOOKEEPER / "zookeeper-dump.jsonl"),
        (
            ZOOKEEPER_LATER / "topics-describe.broker-1001-down.txt",
            ZOOKEEPER_LATER / "zookeeper-dump.broker-1001-down.jsonl",
        ),
    ):
        assert partitions(describe, *columns) == partitions(dump, *columns)
        ids = [{r["topic"]: r["topic_id"] for r in rows(p) if r["kind"] == "topic"} for p in (describe, dump)]
        assert ids[0] == ids[1]


def test_the_zookeeper_dumps_show_which_brokers_are_live() -> None:
    def registered(path: Path) -> list[int]:
        return [row["broker_id"] for row in rows(path) if row["registered"]]

    assert registered(ZOOKEEPER / "zookeeper-dump.jsonl") == [1000, 1001, 1002, 1003, 1004]
    assert registered(ZOOKEEPER_LATER / "zookeeper-dump.broker-1001-down.jsonl") == [1000, 1002, 1003, 1004]


def test_the_state_at_the_end_of_the_kraft_log_is_the_describe_after_it() -> None:
    columns = ("leader", "replicas", "isr", "elr", "last_known_elr")
    describe = partitions(KRAFT_LATER / "topics-describe.broker-2-down.txt", *columns)
    assert compute_log_end(KRAFT_LATER / "cluster-metadata-dump.until-broker-2-down.txt") == describe


def test_the_broker_list_agrees_with_the_kraft_log() -> None:
    columns = ("broker_id", "rack", "host", "port")

    def brokers(path: Path) -> list[tuple[Any, ...]]:
        return [tuple(row[c] for c in columns) for row in rows(path) if row["kind"] == "broker"]

    assert brokers(KRAFT / "brokers.csv") == brokers(KRAFT_LATER / "cluster-metadata-dump.until-broker-2-down.txt")


def test_the_files_of_the_kraft_cluster_agree() -> None:
    state = partitions(KRAFT / "topics-describe.txt", "replicas", "leader")
    logs: dict[tuple[str, int], set[int]] = {}
    for row in rows(KRAFT / "log-dirs-describe.txt"):
        if row["kind"] == "replica":
            logs.setdefault((row["topic"], row["partition"]), set()).add(row["broker_id"])
    assert logs == {key: set(value["replicas"]) for key, value in state.items()}
    ends = {(r["topic"], r["partition"]): r["log_end_offset"] for r in rows(KRAFT / "get-offsets.txt")}
    assert set(ends) == set(state)
    for broker in (0, 1):
        marks = [r for r in rows(KRAFT / f"replication-offset-checkpoint.broker-{broker}") if r["kind"] == "replica"]
        expected = {key for key, value in state.items() if broker in value["replicas"]}
        assert {(r["topic"], r["partition"]) for r in marks} == expected
        assert all(r["high_watermark"] == ends[r["topic"], r["partition"]] for r in marks)


def test_the_filtered_describe_is_part_of_the_full_one() -> None:
    columns = ("leader", "replicas", "isr", "elr")
    whole = partitions(KRAFT_LATER / "topics-describe.broker-2-down.txt", *columns)
    part = partitions(KRAFT_LATER / "topics-describe-under-replicated.broker-2-down.txt", *columns)
    assert len(part) == 315
    assert part == {key: value for key, value in whole.items() if len(value["isr"]) < len(value["replicas"])}


def read_capture(path: Path) -> Snapshot:
    snapshot = load_snapshot(find_source(f"prod={path}"))
    assert snapshot.quarantined == []
    return snapshot


def list_states(snapshot: Snapshot) -> State:
    names = ("leader", "replicas", "isr", "elr", "adding_replicas", "removing_replicas")
    return {
        (row["topic"], row["partition"]): {n: row[n] if n == "leader" else row[n] or [] for n in names}
        for row in snapshot.partitions.to_pylist()
    }


@pytest.mark.parametrize("version", SICK)
def test_the_tools_of_a_newer_version_show_the_same_sick_cluster(version: str) -> None:
    folder = SICK[version]
    expected = list_states(read_capture(folder / "topics-describe.txt"))
    assert len(expected) == 13
    assert expected["single", 0] | {"elr": [2]} == expected["single", 0]
    names = ["cluster-metadata-dump.txt", "cluster-metadata-dump.snapshot.txt", "metadata-shell.txt"]
    for name in names if version != "4.4.0" else names[:2]:
        snapshot = read_capture(folder / name)
        states = list_states(snapshot)
        assert states == expected, name
        live = {row["broker_id"]: row["live"] for row in snapshot.brokers.to_pylist()}
        assert live == {1: True, 2: False, 3: True, 4: True}
        if name != "metadata-shell.txt":
            cordoned = {row["broker_id"] for row in snapshot.brokers.to_pylist() if row["cordoned"]}
            assert cordoned == (set() if version == "4.2.1" else {4})


@pytest.mark.parametrize("version", SICK)
def test_a_metadata_log_names_the_voters_as_the_tool_does(version: str) -> None:
    folder = SICK[version]
    quorums = [
        read_capture(folder / name).quorum.to_pylist()
        for name in ("cluster-metadata-dump.txt", "metadata-quorum.status.txt", "metadata-quorum.replication.txt")
    ]
    voters = [{(row["node_id"], row["leader"]) for row in rows if row["voter"]} for rows in quorums]
    assert {node for node, _ in voters[0]} == {100, 101, 102}
    assert voters[0] == voters[1] == voters[2]


@pytest.mark.parametrize("version", SICK)
def test_generate_shows_the_log_dirs_that_the_brokers_name(version: str) -> None:
    def list_dirs(name: str) -> State:
        return {
            (row["topic"], row["partition"], row["broker_id"]): row["log_dir"]
            for row in rows(SICK[version] / name)
            if row["kind"] == FactKind.REPLICA and row["topic"] == "orders"
        }

    shown = list_dirs("reassign-generate.txt")
    assert shown == list_dirs("log-dirs.txt")
    assert len(shown) == 13  # of 18: broker 2 has the others


@pytest.mark.parametrize("version", SICK)
def test_the_files_of_a_sick_cluster_are_one_source(version: str) -> None:
    snapshot = read_capture(SICK[version])
    assert list_states(snapshot) == list_states(read_capture(SICK[version] / "topics-describe.txt"))
    (conflict,) = snapshot.conflicts.to_pylist()
    assert "big-0" in conflict["entity"]  # before the reassignment


def test_voters_that_change_at_run_time(tmp_path: Path) -> None:
    """A snapshot of a quorum that kafka-storage formatted with --initial-controllers, and a later log."""
    head = "| offset: {} CreateTime: 1795965792654 keySize: 4 valueSize: 157 sequence: -1 headerKeys: [] "
    voters = [
        {
            "voterId": node,
            "voterDirectoryId": f"AAAAAAAAAAAAAAAAAAAA{end}",
            "endpoints": [{"name": "CONTROLLER", "host": "127.0.0.1", "port": 19990 + node}],
            "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 1},
        }
        for node, end in ((1, "ZQ"), (2, "Zw"), (3, "aA"), (4, "aQ"))
    ]
    changes = [
        (2, f"KRaftVoters {json.dumps({'version': 0, 'voters': voters[:3]})}"),
        (
            3,
            f"LeaderChange: {json.dumps({'version': 1, 'leaderId': 2, 'voters': [{'voterId': n} for n in (1, 2, 3)]})}",
        ),
        (9, f"KRaftVoters {json.dumps({'version': 0, 'voters': voters[1:]})}"),
    ]
    partition = (SAMPLES / "formats" / "kraft-snapshot.txt").read_text()
    file = tmp_path / "log.txt"
    for count, expected in ((1, {1: False, 2: False, 3: False}), (2, {1: False, 2: True, 3: False})):
        file.write_text(partition + "".join(f"{head.format(n)}{text}\n" for n, text in changes[:count]))
        assert {row["node_id"]: row["leader"] for row in read_capture(file).quorum.to_pylist()} == expected
    file.write_text(partition + "".join(f"{head.format(n)}{text}\n" for n, text in changes))
    rows = read_capture(file).quorum.to_pylist()
    assert {row["node_id"]: row["leader"] for row in rows} == {2: True, 3: False, 4: False}
    assert [row["directory_id"][-2:] for row in rows] == ["Zw", "aA", "aQ"]
