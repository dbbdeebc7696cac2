"""When a broker list is complete, and what follows for replicas on other brokers and for removed brokers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipelines.ingest.merge.cluster_merge import merge_facts
from pipelines.ingest.snapshot_reader import Snapshot, load_snapshot, parse_facts, read_files
from pipelines.ingest.source_format import FactKind
from pipelines.ingest.sources import find_source

DESCRIBE = (
    "Topic: t\tPartitionCount: 2\tReplicationFactor: 2\tConfigs: \n"
    "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n"
    "\tTopic: t\tPartition: 1\tLeader: 1\tReplicas: 1,3\tIsr: 1,3\n"
)


def load(folder: Path, **texts: str) -> Snapshot:
    """The snapshot of a folder of these files (name without suffix: text)."""
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text)
    return load_snapshot(find_source(str(folder)))


def model(folder: Path, **changes: Any) -> Snapshot:
    """The snapshot of a small model with some of its arrays replaced."""
    loads = {"size_mb": 1, "in_kbps": 1, "out_kbps": 1}
    parts = [{"topic": "t", "partition": p, "replicas": r, **loads} for p, r in enumerate([[1, 2], [1, 9]])]
    brokers = [{"id": 1, "rack": "a"}, {"id": 2, "rack": "b"}]
    return load(folder, model=json.dumps({"brokers": brokers, "removed": [], "partitions": parts, **changes}))


def quarantined(snapshot: Snapshot) -> dict[str, list[str]]:
    return {row["raw"].strip(): row["reasons"] for row in snapshot.quarantined}


def test_a_replica_outside_of_a_complete_list_is_quarantined(tmp_path: Path) -> None:
    snapshot = load(tmp_path, brokers="broker_id,rack\n1,a\n2,b\n", describe=DESCRIBE)
    ((_, reasons),) = quarantined(snapshot).items()
    assert reasons == ["partition t-1: replica 3 is not in the cluster's broker list"]


@pytest.mark.parametrize(
    ("listed", "bad"),
    [
        ("broker_id,port\n1,1\n2,2\n3,many\n", "3,many"),
        ("broker_id,rack\n1,a\n2,b\nthree,c\n", "three,c"),
        ("broker_id,rack\n1,a\n2,b\n3\n", "3"),
        ('{"brokers":[{"id":1},{"id":2},{"id":3,"rack":[]}]}', '{"id":3,"rack":[]}'),
        ('{"brokers":[{"id":1},{"id":2},{"id":3', '{"id":3'),
    ],
)
def test_a_list_with_a_quarantined_row_is_not_complete(tmp_path: Path, listed: str, bad: str) -> None:
    snapshot = load(tmp_path, brokers=listed, describe=DESCRIBE)
    assert list(quarantined(snapshot)) == [bad]
    assert snapshot.partitions["partition"].to_pylist() == [0, 1]
    assert {b["broker_id"]: b["live"] for b in snapshot.brokers.to_pylist()} == {1: True, 2: True, 3: True}


def test_a_model_with_a_quarantined_broker_is_not_complete(tmp_path: Path) -> None:
    snapshot = model(tmp_path, brokers=[{"id": 1}, {"id": 2}, {"id": 9, "rack": 9}])
    assert list(quarantined(snapshot)) == ['{"id": 9, "rack": 9}']
    assert snapshot.partitions["partition"].to_pylist() == [0, 1]


def test_a_quarantined_partition_or_removal_leaves_a_model_complete(tmp_path: Path) -> None:
    loads = {"size_mb": 1, "in_kbps": 1, "out_kbps": 1}
    parts = [
        {"topic": "t", "partition": p, "replicas": r, **loads} for p, r in ((0, [1, 2]), ("one", [1, 2]), (2, [9]))
    ]
    snapshot = model(tmp_path, removed=["two"], partitions=parts)
    assert snapshot.partitions["partition"].to_pylist() == [0]
    assert len(snapshot.quarantined) == 3
    assert snapshot.quarantined[-1]["reasons"] == ["partition t-2: replica 9 is not in the cluster's broker list"]


def test_a_removed_broker_that_is_not_listed_is_down_and_still_has_replicas(tmp_path: Path) -> None:
    snapshot = model(tmp_path, removed=[9, 2])
    brokers = {b["broker_id"]: (b["live"], b["live_reason"], b["draining"]) for b in snapshot.brokers.to_pylist()}
    assert brokers == {
        1: (True, "in the broker list", False),
        2: (True, "in the broker list", True),
        9: (False, "not in the broker list", True),
    }
    assert snapshot.quarantined == []
    assert snapshot.partitions["replicas"].to_pylist() == [[1, 2], [1, 9]]
    assert snapshot.partitions["isr"].to_pylist() == [[1, 2], [1]]


def test_it_is_unknown_whether_a_removed_broker_with_a_quarantined_entry_is_live(tmp_path: Path) -> None:
    snapshot = model(tmp_path, removed=[9], brokers=[{"id": 1}, {"id": 2}, {"id": 9, "rack": 9}])
    assert {b["broker_id"]: b["live"] for b in snapshot.brokers.to_pylist()} == {1: True, 2: True, 9: None}


def test_a_removed_broker_that_answers_is_live(tmp_path: Path) -> None:
    answer = {"version": 1, "brokers": [{"broker": 9, "logDirs": []}]}
    (tmp_path / "dirs.txt").write_text(json.dumps(answer))
    snapshot = model(tmp_path, removed=[9])
    assert snapshot.brokers["live_reason"].to_pylist()[-1] == "answers kafka-log-dirs or kafka-broker-api-versions"


def test_a_shard_does_not_count_records_whose_home_is_another_shard(tmp_path: Path) -> None:
    (tmp_path / "brokers.txt").write_text("broker_id,port\n1,1\n2,2\n3,many\n")
    (tmp_path / "describe.txt").write_text(DESCRIBE)
    files = list(read_files(find_source(str(tmp_path))))
    facts = parse_facts(files)
    elsewhere = pc.and_(
        pc.equal(facts["source"], "brokers.txt"),
        pc.is_in(facts["kind"], pa.array([FactKind.BROKER, FactKind.REJECTED])),
    )
    home = facts.schema.get_field_index("home")
    facts = facts.set_column(home, "home", pc.invert(elsewhere)).combine_chunks()
    entities = merge_facts(facts)
    assert entities.quarantine.num_rows == 0
    assert entities.partitions.num_rows == 2
    assert {(a["source"], a["outcome"]): a["records"] for a in entities.outcomes.to_pylist()} == {
        ("brokers.txt", "ignored"): 1,
        ("describe.txt", "accepted"): 3,
    }
