"""Predicted leaders beside those of a later source, with the reason where they differ."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import call

_BEFORE = {0: (1, "1,2,3", "1,2,3"), 1: (2, "2,3,1", "2,3,1"), 2: (1, "1,3,2", "1,3,2"), 3: (1, "1", "1")}


def _describe(partitions: dict[int, tuple[int, str, str]]) -> str:
    lines = [f"Topic: t\tPartitionCount: {len(partitions)}\tReplicationFactor: 3\tConfigs: min.insync.replicas=1"]
    for partition, (leader, replicas, isr) in partitions.items():
        text = "none" if leader < 0 else leader
        lines.append(f"\tTopic: t\tPartition: {partition}\tLeader: {text}\tReplicas: {replicas}\tIsr: {isr}")
    return "\n".join(lines) + "\n"


def _check(folder: Path, **changed: tuple[int, str, str]) -> dict[str, object]:
    """Compare with what Kafka does if broker 1 fails, but for the changed partitions."""
    kafka = {0: (2, "1,2,3", "2,3"), 1: (2, "2,3,1", "2,3"), 2: (3, "1,3,2", "3,2"), 3: (-1, "1", "1")}
    after = kafka | {int(name.removeprefix("p")): one for name, one in changed.items()}
    (folder / "before.txt").write_text(_describe(_BEFORE))
    (folder / "after.txt").write_text(_describe(after))
    arguments = ("what-if", "before.txt", "--fail", "1", "--actual", "after.txt")
    return json.loads(call(*arguments, "--json", "-", folder=folder).stdout)["actual"]


def test_leaders_as_predicted(tmp_path: Path) -> None:
    check = _check(tmp_path)
    assert check == {"partitions": 4, "as_predicted": 4, "differences": [], "only_before": 0, "only_after": 0}
    out = call("what-if", "before.txt", "--fail", "1", "--actual", "after.txt", folder=tmp_path)
    assert out.stdout.endswith("Compared with the later source: 4 of 4 leaders as predicted\n")


@pytest.mark.parametrize(
    ("partition", "reason"),
    [
        ((3, "1,2,3", "3"), "broker 2 has left the ISR since, which is now [3]"),
        ((3, "2,4,3", "4,3"), "its replicas changed from [1, 2, 3] to [2, 4, 3]"),
        ((-1, "1,2,3", "2,3"), "no leader has been elected yet"),
        ((3, "1,2,3", "3,2"), "broker 3 was elected although 2 is in sync and comes first in [1, 2, 3]"),
        ((3, "1,2,3", "1,2,3"), "broker 1 is in sync again"),
    ],
)
def test_other_leaders_have_a_reason(tmp_path: Path, partition: tuple[int, str, str], reason: str) -> None:
    check = _check(tmp_path, p0=partition)
    (difference,) = check["differences"]
    assert (difference["topic"], difference["partition"], difference["predicted"]) == ("t", 0, 2)
    assert reason in difference["reason"]


def test_actual_needs_a_failure(tmp_path: Path) -> None:
    (tmp_path / "before.txt").write_text(_describe(_BEFORE))
    out = call("what-if", "before.txt", "--actual", "before.txt", code=64, folder=tmp_path)
    assert "--actual needs --fail" in out.stderr


@pytest.mark.parametrize("is_first", [True, False], ids=["before", "after"])
def test_one_of_the_sources_may_be_a_running_cluster(tmp_path: Path, is_first: bool) -> None:
    """--command-config is for this one then, and --format for the other."""
    (tmp_path / "d.txt").write_text(_describe(_BEFORE))
    (tmp_path / "client.properties").write_text("socket.connection.setup.timeout.ms=500\n")
    sources = ["kafka://127.0.0.1:1", "d.txt"][:: 1 if is_first else -1]
    options = ("--fail", "1", "--actual", sources[1], "--command-config", "client.properties", "--format", "describe")
    out = call("what-if", sources[0], *options, code=1, folder=tmp_path)
    assert "127.0.0.1:1 cannot be reached" in out.stderr
