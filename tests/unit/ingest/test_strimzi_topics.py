"""KafkaTopic resources declare counts and configs; what the cluster shows goes first."""

from __future__ import annotations

from pathlib import Path

import pytest

from .facts import facts
from .test_sections import DESCRIBE, load, replicas

RESOURCE = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaTopic
metadata:
  name: orders
spec:
  partitions: 2
  replicas: 2
  config:
    min.insync.replicas: 2
"""


def test_counts_and_configs_of_a_resource() -> None:
    assert facts("strimzi-topics.yaml", "topic", "config") == [
        {"kind": "config", "topic": "orders", "configs": [("min.insync.replicas", "2")]},
        {"kind": "config", "topic": "orders", "configs": [("retention.ms", "7200000")]},
        {"kind": "topic", "topic": "orders", "partition_count": 2},
        {"kind": "topic", "topic": "orders", "replication_factor": 3},
    ]


def test_a_describe_goes_before_a_resource(tmp_path: Path) -> None:
    header = "Topic: orders\tPartitionCount: 2\tReplicationFactor: 2\tConfigs: min.insync.replicas=1\n"
    snapshot = load(tmp_path, f"{RESOURCE}---\n{header}{DESCRIBE}")
    assert snapshot.topics["min_insync_replicas"].to_pylist() == [1]
    assert snapshot.conflicts["field"].to_pylist() == ["config min.insync.replicas"]


def test_a_resource_shows_what_partition_lines_lack(tmp_path: Path) -> None:
    lines = "".join(line for line in DESCRIBE.splitlines(keepends=True) if "PartitionCount" not in line)
    snapshot = load(tmp_path, f'{RESOURCE}Defaulted container "kafka" out of: kafka\n{lines}')
    assert replicas(snapshot) == {0: [3, 2], 1: [2, 3]}
    assert snapshot.topics.select(["min_insync_replicas", "incomplete"]).to_pylist() == [
        {"min_insync_replicas": 2, "incomplete": False}
    ]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("  config:\n    min.insync.replicas: 2", "  config: {min.insync.replicas: 2}", "keys on lines of their own"),
        ("partitions: 2", "partitions: many", 'partitions is "many"'),
        ("  name: orders\n", "", "of which topic? metadata.name is missing"),
        ("name: orders", "name: a/b", "bad topic name 'a/b'"),
    ],
)
def test_bad_values_are_quarantined(tmp_path: Path, old: str, new: str, reason: str) -> None:
    snapshot = load(tmp_path, RESOURCE.replace(old, new))
    assert reason in snapshot.quarantined[0]["reasons"][0]


@pytest.mark.parametrize(
    ("resource", "problem"),
    [
        (RESOURCE + 'status:\n  conditions:\n  - status: "False"\n    type: Ready\n', "is not ready"),
        (RESOURCE + "status:\n  conditions:\n  - type: NotReady\n    status: 'True'\n", "is not ready"),
        (
            RESOURCE.replace("metadata:", 'metadata:\n  annotations:\n    strimzi.io/managed: "false"'),
            "is not managed by Strimzi",
        ),
    ],
)
def test_what_is_not_applied_is_a_warning(tmp_path: Path, resource: str, problem: str) -> None:
    snapshot = load(tmp_path, f"{resource}---\n{DESCRIBE}")
    (row,) = snapshot.warnings.to_pylist()
    assert row["warning"] == f"KafkaTopic orders {problem}: its counts and configs are not used"
    assert snapshot.topics["min_insync_replicas"].to_pylist() == [None]


def test_other_resources_end_a_resource(tmp_path: Path) -> None:
    other = "---\napiVersion: kafka.strimzi.io/v1beta2\nkind: Kafka\nmetadata:\n  name: c\nspec:\n  replicas: 7\n"
    snapshot = load(tmp_path, RESOURCE + other + RESOURCE.replace("orders", "audit"))
    assert snapshot.topics.select(["topic", "replication_factor"]).to_pylist() == [
        {"topic": "audit", "replication_factor": 2},
        {"topic": "orders", "replication_factor": 2},
    ]


def test_a_document_between_its_lines_is_quarantined(tmp_path: Path) -> None:
    wrapped = '{"log":"Topic: orders\\tPartitionCount: 1\\tReplicationFactor: 1\\n"}\n'
    snapshot = load(tmp_path, RESOURCE.replace("  partitions: 2\n", f"{wrapped}  partitions: 2\n"))
    (row,) = snapshot.quarantined
    assert (row["line_number"], "is no part of a KafkaTopic" in str(row["reasons"])) == (6, True)


def test_what_kubectl_apply_keeps_inside_of_a_resource_is_no_fault() -> None:
    assert facts("strimzi-topics.yaml", "rejected") == []
