"""Versions of Kafka are read and changed alike; what one lacks is left empty, and the output says so."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.execution.cluster_view import view_cluster
from pipelines.live.client_properties import ClientProperties
from pipelines.live.kafka_changes import KafkaAdmin
from pipelines.plan_files.plan_reader import read_plan
from tests.commands import call
from tests.live.kafka_cluster import KafkaCluster, ZooKeeperCluster, wait_until
from tests.seed_sampler import sample_some

pytestmark = [pytest.mark.slow, pytest.mark.live]

_TOPICS = {"t": ({p: [1, 2] for p in range(6)}, {"min.insync.replicas": "1"}), "u": ({0: [3, 1]}, {})}


_NEWER = {"kafka_4_2": 402, "kafka_4_3": 403, "kafka_4_4": 404}  # with the releases that they show
_VERSIONS = ["kafka_2_8", "kafka_3_9", *sample_some(list(_NEWER), 1, "newer versions")]


@pytest.fixture(scope="module", params=_VERSIONS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Three brokers: 2.8 with ZooKeeper, others with KRaft."""
    kind = ZooKeeperCluster if request.param == "kafka_2_8" else KafkaCluster
    running = kind(Path(tmp_path_factory.mktemp("kafka")) / "cluster", request.param)
    try:
        running.start()
        running.create_topics(_TOPICS)
        running.wait_until_settled(7)
        running.produce({("t", 0): 20, ("u", 0): 20})
        yield running
    finally:
        running.stop()


def test_version_is_read(cluster: KafkaCluster) -> None:
    out = call("inspect", f"prod=kafka://{cluster.bootstrap}", "--json", "-")
    answer = json.loads(out.stdout)
    has_elrs = cluster.version in _NEWER
    assert ("the cluster has no ELRs" in out.stderr) is not has_elrs
    assert {broker["broker_id"]: broker["rack"] for broker in answer["brokers"]} == {1: "r1", 2: "r2", 3: "r3"}
    assert [partition["replicas"] for partition in answer["partitions"]] == [*([[1, 2]] * 6), [3, 1]]
    assert {partition["elr"] is not None for partition in answer["partitions"]} == {has_elrs}
    if has_elrs:
        assert {broker["release_from"] for broker in answer["brokers"]} == {_NEWER[cluster.version]}
    assert [partition["size_bytes"] > 200_000 for partition in answer["partitions"]] == [True, *([False] * 5), True]
    assert answer["quarantined"] == answer["warnings"] == []


def test_plan_is_applied(cluster: KafkaCluster, tmp_path: Path) -> None:
    plan = tmp_path / "plan"
    call("plan", f"prod=kafka://{cluster.bootstrap}", "--goal", "balance", "--out", str(plan))
    changes = read_plan(plan).changes
    assert changes
    arguments = ("apply", str(plan), "--bootstrap-server", cluster.bootstrap)
    assert "as planned" in call(*arguments, "--execute").stdout
    with KafkaAdmin(cluster.bootstrap, ClientProperties()) as admin:
        partitions = view_cluster(admin).partitions
        assert {key: list(partitions[key].replicas) for key in changes} == {k: one.after for k, one in changes.items()}
    assert "as before the plan" in call(*arguments, "--rollback", "--execute").stdout


def test_interrupted_plan_is_rolled_back(tmp_path: Path) -> None:
    """Since 4.3 a request for the former replicas never completes: they are returned to by a cancellation."""
    running = KafkaCluster(tmp_path / "cluster", "kafka_4_3")
    try:
        running.start()
        running.create_topics({"t": ({0: [1, 2]}, {"min.insync.replicas": "1"})})
        running.wait_until_settled(1)
        running.produce({("t", 0): 200})
        file = tmp_path / "moves.json"
        file.write_text(json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [3, 2]}]}))
        source = f"prod=kafka://{running.bootstrap}"
        arguments = (str(file), "--bootstrap-server", running.bootstrap)
        command = [sys.executable, "-m", "pipelines.cli", "apply", *arguments, "--execute", "--throttle", "10kB"]
        with KafkaAdmin(running.bootstrap, ClientProperties()) as admin, subprocess.Popen(command) as process:
            wait_until(lambda: bool(admin.list_reassignments()), "nothing is being reassigned")
            process.kill()
            process.wait()
            text = call("apply", *arguments, "--rollback", "--execute", "--max-pause", "30").stdout
            assert "as before the plan" in text
            assert view_cluster(admin).partitions["t", 0].replicas == (1, 2)
            assert not admin.list_reassignments()
            # Another tool asks for the former replicas: the new one is in sync, and the request still runs.
            admin.alter_reassignments({("t", 0): (3, 2)})
            admin.alter_reassignments({("t", 0): (1, 2)})
            wait_until(lambda: 3 in view_cluster(admin).partitions["t", 0].isr, "broker 3 does not join the ISR")
            text = call("check", source, code=1).stdout
            assert "1 partition being reassigned, 1 of them stuck" in text
            assert "waits for broker 3, which it removes: it does not end until it is cancelled" in text
    finally:
        running.stop()
