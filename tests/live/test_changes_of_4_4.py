"""What Kafka 4.2 to 4.4 changed, as a running cluster of 4.4 shows it: the program's rules by version rest on it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.kafka_cluster import KafkaCluster
from tests.live.kafka_tools import run_tool

pytestmark = [pytest.mark.slow, pytest.mark.live]

_RELEASE = "kafka_4_4"


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Two brokers, in `make soak`."""
    if not request.config.getoption("soak"):
        pytest.skip("facts about a version do not change: run with --soak")
    running = KafkaCluster(tmp_path_factory.mktemp("kafka") / "cluster", _RELEASE, brokers=2, racks=0, heap_mb=512)
    try:
        running.start()
        running.create_topics({"t": ({0: [1, 2]}, {}), "tiered": ({0: [1]}, {"remote.copy.lag.ms": "60000"})})
        running.wait_until_settled(2)
        yield running
    finally:
        running.stop()


def test_a_request_adds_at_most_ten_thousand_partitions(cluster: KafkaCluster) -> None:
    alter = ("--bootstrap-server", cluster.bootstrap, "--alter", "--topic", "t", "--partitions")
    text = run_tool(_RELEASE, "kafka-topics", *alter, "10002", may_fail=True)
    assert "Excessively large number of additional partitions per request." in text


def test_tools_take_their_former_and_their_new_options(cluster: KafkaCluster, tmp_path: Path) -> None:
    settings = tmp_path / "client.properties"
    settings.write_text("request.timeout.ms=20000\n")
    server = ("--bootstrap-server", cluster.bootstrap)
    elect = ("--election-type", "preferred", "--all-topic-partitions")
    for option, is_deprecated in (("--command-config", False), ("--admin.config", True)):
        text = run_tool(_RELEASE, "kafka-leader-election", *server, *elect, option, str(settings), may_fail=True)
        assert ("deprecated" in text.lower()) is is_deprecated, text
        assert "is not a recognized option" not in text


def test_describe_and_log_dirs_have_the_columns_of_4_1(cluster: KafkaCluster) -> None:
    server = ("--bootstrap-server", cluster.bootstrap)
    text = run_tool(_RELEASE, "kafka-topics", *server, "--describe")
    assert "MarkedForDeletion" not in text
    partition = next(line for line in text.splitlines() if line.startswith("\tTopic: t\t"))
    labels = [cell.partition(":")[0].strip() for cell in partition.split("\t") if ":" in cell]
    assert labels == ["Topic", "Partition", "Leader", "Replicas", "Isr", "Elr", "LastKnownElr"]
    text = run_tool(_RELEASE, "kafka-log-dirs", *server, "--describe")
    (line,) = [line for line in text.splitlines() if line.startswith("{")]
    (log_dir, *_) = json.loads(line)["brokers"][0]["logDirs"]
    assert log_dir.keys() == {"logDir", "error", "partitions"}


def test_voters_and_observers_are_shown(cluster: KafkaCluster) -> None:
    server = ("--bootstrap-server", cluster.bootstrap)
    text = run_tool(_RELEASE, "kafka-metadata-quorum", *server, "describe", "--replication")
    rows = [line.split() for line in text.splitlines()[1:]]
    assert sorted((row[0], row[-1]) for row in rows) == [("1", "Observer"), ("100", "Leader"), ("2", "Observer")]


def test_a_topic_may_upload_late(cluster: KafkaCluster) -> None:
    server = ("--bootstrap-server", cluster.bootstrap)
    text = run_tool(_RELEASE, "kafka-configs", *server, "--describe", "--entity-type", "topics")
    assert "remote.copy.lag.ms=60000" in text


def test_there_is_no_unclean_recovery_strategy(cluster: KafkaCluster) -> None:
    """KIP-966 has ELRs only: after all members crashed, the last known leader is waited for."""
    alter = ("--bootstrap-server", cluster.bootstrap, "--alter", "--entity-type", "topics", "--entity-name", "t")
    name = "unclean.recovery.strategy"
    text = run_tool(_RELEASE, "kafka-configs", *alter, "--add-config", f"{name}=Aggressive", may_fail=True)
    assert f"Unknown topic config name: {name}" in text
    server = ("--bootstrap-server", cluster.bootstrap)
    described = run_tool(_RELEASE, "kafka-configs", *server, "--describe", "--all", "--entity-type", "brokers")
    assert "unclean.leader.election.enable=" in described
    assert name not in described
