"""Failed log dirs of live brokers, as sources show them, in the verdict and in elections."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.ingest.snapshot_reader import Snapshot, load_snapshot
from pipelines.ingest.sources import find_source
from pipelines.verdict.snapshot_findings import find_findings
from tests.commands import call

# Broker 1 has lost /b with t-0 (leader elsewhere) and t-2; t-1 is in /a. t-3 lags on broker 2, which has no failed log
# dir. Broker 4 holds nothing.
_LISTS = {0: ("2", "1,2,3", "2,3"), 1: ("1", "1,2,3", "1,2,3"), 2: ("3", "3,1,2", "3,2"), 3: ("3", "3,2,4", "3,4")}
_LOGS = {(1, "/a"): [1], (2, "/a"): [0, 1, 2, 3], (3, "/a"): [0, 1, 2, 3], (4, "/a"): [3]}


def write_describe(folder: Path, lists: dict[int, tuple[str, str, str]], offline: str | None = None) -> None:
    lines = [f"Topic: t\tPartitionCount: {len(lists)}\tReplicationFactor: 3\tConfigs: min.insync.replicas=2"]
    for partition, (leader, replicas, isr) in lists.items():
        shown = "" if offline is None else f"\tOffline: {offline if offline not in isr.split(',') else ''}"
        lines.append(f"\tTopic: t\tPartition: {partition}\tLeader: {leader}\tReplicas: {replicas}\tIsr: {isr}{shown}")
    (folder / "describe.txt").write_text("\n".join(lines) + "\n")


def write_log_dirs(folder: Path, usable: int = 900) -> None:
    volume = {"totalBytes": 1000, "usableBytes": usable}
    brokers: dict[int, list[dict[str, Any]]] = {}
    for (broker, path), partitions in _LOGS.items():
        logs = [{"partition": f"t-{p}", "size": 10, "offsetLag": 0, "isFuture": False} for p in partitions]
        brokers.setdefault(broker, []).append({"logDir": path, "error": None, **volume, "partitions": logs})
    failed = "org.apache.kafka.common.errors.KafkaStorageException"
    brokers[1].append({"logDir": "/b", "error": failed, "partitions": []})
    answer = {"version": 1, "brokers": [{"broker": id_, "logDirs": dirs} for id_, dirs in brokers.items()]}
    (folder / "log-dirs.json").write_text(json.dumps(answer))


@pytest.fixture(params=["log dirs", "offline replicas", "both"])
def snapshot(tmp_path: Path, request: pytest.FixtureRequest) -> Snapshot:
    """The same cluster, as kafka-log-dirs or a column of offline replicas shows it."""
    folder = tmp_path / "prod"
    folder.mkdir()
    write_describe(folder, _LISTS, None if request.param == "log dirs" else "1")
    if request.param != "offline replicas":
        write_log_dirs(folder)
    return load_snapshot(find_source(str(folder)))


def test_replicas_in_a_failed_log_dir_do_not_lag(snapshot: Snapshot) -> None:
    findings = find_findings(snapshot)
    assert (findings.failed_dir_brokers, findings.failed_dir_replicas) == ((1,), (2,))
    assert (findings.lagging_partitions, findings.lagging_brokers) == (1, (2,))
    assert findings.failed_log_dirs == (("/b of broker 1",) if snapshot.log_dirs.num_rows else ())
    assert findings.down_brokers == ()


def test_the_verdict_names_the_log_dir_and_what_to_do(tmp_path: Path) -> None:
    folder = tmp_path / "prod"
    folder.mkdir()
    write_describe(folder, {id_: _LISTS[id_] for id_ in (0, 1, 2)})
    write_log_dirs(folder)
    answer = tmp_path / "answer.json"
    lines = call("what-if", str(folder), "--json", str(answer)).stdout.splitlines()
    assert lines[1] == (
        "  AT RISK: log dir /b of broker 1 failed: 2 replicas on broker 1 are offline, so that 2 partitions are "
        "under-replicated."
    )
    assert lines[2:6] == [
        "    next: replace the disk; with KRaft, format its log dir:",
        "        kafka-storage format --ignore-formatted --cluster-id ID --config FILE",
        "      then restart the broker (Kafka uses the log dir again only then), or move exactly these replicas to "
        "other brokers:",
        f"        kafka-placement plan {folder} --goal repair --out plan-prod-repair",
    ]
    steps = "\n".join(lines)
    assert "watch the replicas catch up" not in steps
    assert "next: replace the failed disk of broker 1 and restart it; wait until all replicas are in sync" in steps
    cause = call("what-if", str(folder), "--fail", "2").stdout.splitlines()
    assert "  - All 2 partitions have a replica in a failed log dir." in cause


def test_partitions_that_only_the_failed_disk_has(tmp_path: Path) -> None:
    """The last replica in sync stays in the ISR although its log dir failed: the partition has no leader."""
    folder = tmp_path / "prod"
    folder.mkdir()
    write_describe(folder, {**_LISTS, 3: ("none", "1", "1")})
    write_log_dirs(folder)
    findings = find_findings(load_snapshot(find_source(str(folder))))
    assert findings.failed_dir_replicas == (3,)
    assert findings.issues["offline"].on_failed_dirs == 1
    out = call("what-if", str(folder)).stdout
    effect = "so that 2 partitions are under-replicated and 1 partition is offline; keep the failed disk"
    assert f"{effect}, which may have the only copy of it." in out


def test_a_disk_with_the_only_copy_in_sync_is_recovered(tmp_path: Path) -> None:
    """No restart of broker 4 brings t-3 online, and an empty disk at broker 1 would make its followers empty too."""
    folder = tmp_path / "prod"
    folder.mkdir()
    write_describe(folder, {**_LISTS, 3: ("none", "1,4,2", "1")})
    write_log_dirs(folder)
    answer = tmp_path / "answer.json"
    lines = call("what-if", str(folder), "--down", "4", "--all", "--json", str(answer)).stdout.splitlines()
    begin = "    next: recover the failed disk of broker 1 and restart it; list the offline partitions"
    assert lines[2].startswith(begin)
    steps = "\n".join(lines)
    assert "next: recover the disk and restart the broker: 1 partition would lose all messages" in steps
    assert "replace the failed disk" not in steps
    at = lines.index("No broker that is down is sure to bring an offline partition online:")
    assert lines[at + 1] == "  1 partition has its only in-sync copy in a failed log dir of a live broker: t-3 (1)"
    (outage,) = json.loads(answer.read_text())["outage"]["offline"]
    assert (outage["eligible_brokers"], outage["only_in_failed_dirs"]) == ([1], True)


def test_an_unclean_election_passes_a_failed_log_dir_by(tmp_path: Path) -> None:
    folder = tmp_path / "prod"
    folder.mkdir()
    head = "Topic: t\tPartitionCount: 1\tReplicationFactor: 2\tConfigs: unclean.leader.election.enable=true"
    (folder / "describe.txt").write_text(f"{head}\n\tTopic: t\tPartition: 0\tLeader: 2\tReplicas: 1,2\tIsr: 2\n")
    write_log_dirs(folder)
    lines = call("what-if", str(folder), "--fail", "2").stdout.splitlines()
    assert lines[0] == "NO: 1 partition would go offline: t-0"


def test_a_failed_log_dir_that_held_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "prod"
    folder.mkdir()
    write_describe(folder, {1: _LISTS[1]})
    write_log_dirs(folder)
    lines = call("what-if", str(folder)).stdout
    assert "WARNING: log dir /b of broker 1 failed." in lines
    assert "next: replace the disk; with KRaft, format its log dir" in lines
    assert "--goal repair" not in lines


def test_full_log_dirs_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "prod"
    folder.mkdir()
    write_describe(folder, {1: _LISTS[1]})
    write_log_dirs(folder, usable=20)
    findings = find_findings(load_snapshot(find_source(str(folder))))
    assert findings.full_log_dirs[0] == "/a of broker 1 (98 %)"
    assert "Log dir /a of broker 1 (98 %), log dir /a of broker 2 (98 %)" in call("what-if", str(folder)).stdout


def test_a_metadata_log_shows_failed_log_dirs(tmp_path: Path) -> None:
    """Records of Kafka 4.1 as a log dir fails: the broker's online log dirs lack that of its replica of t-1."""
    unassigned = "AAAAAAAAAAAAAAAAAAAAAQ"
    records: list[tuple[str, dict[str, Any]]] = [
        ("REGISTER_BROKER_RECORD", {"brokerId": id_, "fenced": False, "logDirs": [f"{id_}a", f"{id_}b"]})
        for id_ in (1, 2, 3)
    ]
    records.append(("TOPIC_RECORD", {"name": "t", "topicId": "tid"}))
    for partition, dirs in enumerate((["1a", "2a", "3b"], [unassigned] * 3)):
        state = {"partitionId": partition, "topicId": "tid", "replicas": [1, 2, 3], "isr": [1, 2, 3], "leader": 1}
        records.append(("PARTITION_RECORD", {**state, "leaderEpoch": 0, "directories": dirs}))
    change = {"partitionId": 1, "topicId": "tid"}
    records += [
        ("PARTITION_CHANGE_RECORD", {**change, "directories": ["1b", "2b", unassigned]}),
        ("PARTITION_CHANGE_RECORD", {**change, "isr": [2, 3], "leader": 2}),
        ("BROKER_REGISTRATION_CHANGE_RECORD", {"brokerId": 1, "brokerEpoch": 12, "logDirs": ["1a"]}),
        ("BROKER_REGISTRATION_CHANGE_RECORD", {"brokerId": 2, "brokerEpoch": 13, "fenced": -1}),
    ]
    head = "CreateTime: 1795790034259 keySize: -1 valueSize: 256 sequence: -1 headerKeys: []"
    lines = [
        f"| offset: {offset} {head} payload: {json.dumps({'type': kind, 'version': 2, 'data': data})}"
        for offset, (kind, data) in enumerate(records)
    ]
    file = tmp_path / "metadata.txt"
    file.write_text("\n".join(lines) + "\n")
    findings = find_findings(load_snapshot(find_source(str(file))))
    assert (findings.failed_dir_brokers, findings.failed_dir_replicas) == ((1,), (1,))
    assert findings.down_brokers == ()
    assert findings.lagging_partitions == 0


def test_a_listing_of_other_topics_shows_no_lost_replica(tmp_path: Path) -> None:
    """kafka-log-dirs --topic-list: a topic of which no log is shown may lag for another reason."""
    folder = tmp_path / "prod"
    folder.mkdir()
    write_describe(folder, _LISTS)
    text = (folder / "describe.txt").read_text()
    (folder / "describe.txt").write_text(text + text.replace("Topic: t\t", "Topic: other\t"))
    write_log_dirs(folder)
    findings = find_findings(load_snapshot(find_source(str(folder))))
    assert (findings.failed_dir_replicas, findings.lagging_brokers) == ((2,), (1, 2))
