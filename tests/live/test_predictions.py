"""Predicted leaders beside those that Kafka elects: after the failure of each broker, and of three pairs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.execution.cluster_view import view_cluster
from pipelines.live.client_properties import ClientProperties
from pipelines.live.kafka_changes import KafkaAdmin
from tests.commands import call
from tests.live.conftest import PARTITIONS, TOPICS
from tests.live.kafka_cluster import KafkaCluster, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.live]

_FAILURES = [(1,), (2,), (3,), (4,), (5,), (6,), (1, 2), (3, 5), (4, 6)]


@pytest.fixture(scope="module")
def saved(cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A snapshot of the whole cluster."""
    folder = tmp_path_factory.mktemp("saved") / "prod"
    call("snapshot", f"prod=kafka://{cluster.bootstrap}", "--out", str(folder))
    return folder


@pytest.mark.parametrize("failed", _FAILURES, ids=[",".join(map(str, ids)) for ids in _FAILURES])
def test_leaders_are_as_predicted(cluster: KafkaCluster, saved: Path, failed: tuple[int, ...]) -> None:
    for broker in failed:
        cluster.nodes[broker].kill()
    with KafkaAdmin(cluster.bootstrap, ClientProperties()) as admin:
        wait_until(lambda: not view_cluster(admin).live_brokers & set(failed), "the failure is not noticed")
        ids = ",".join(map(str, failed))
        arguments = ("what-if", str(saved), "--fail", ids, "--actual", f"prod=kafka://{cluster.bootstrap}")
        check = json.loads(call(*arguments, "--json", "-").stdout)["actual"]
        for broker in failed:
            cluster.restart(broker)
        cluster.wait_until_settled(PARTITIONS)
        admin.elect_preferred_leaders([(topic, p) for topic, (assignments, _) in TOPICS.items() for p in assignments])
    assert check["differences"] == []
    assert check["as_predicted"] == check["partitions"] == PARTITIONS
