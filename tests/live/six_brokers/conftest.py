"""The real cluster that the tests of this folder share; it ends with the last of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.kafka_cluster import KafkaCluster, wait_until
from tests.seed_sampler import sample_some

TOPICS = {
    # Kafka's own placement, two racks per partition, one replica only, and a topic name with all kinds of characters.
    "orders": ({p: [p % 6 + 1, (p + 1) % 6 + 1, (p + 3) % 6 + 1] for p in range(24)}, {"min.insync.replicas": "2"}),
    "clicks": ({p: [(p + 2) % 6 + 1, (p + 5) % 6 + 1] for p in range(18)}, {"retention.ms": "3600000"}),
    "single": ({0: [4], 1: [2]}, {}),
    "hot": ({p: [1, 2, 3] for p in range(12)}, {"min.insync.replicas": "2"}),
    "un-clean_1.x": ({0: [5, 6]}, {"unclean.leader.election.enable": "true", "cleanup.policy": "compact,delete"}),
}
PARTITIONS = sum(len(assignments) for assignments, _ in TOPICS.values())


_VERSIONS = ("kafka_4_1", "kafka_4_2", "kafka_4_3", "kafka_4_4")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test on one of the versions, another in every run; in `make test-soak`, on all."""
    if "six_brokers" in metafunc.fixturenames:
        versions = sample_some(_VERSIONS, 1, "six brokers")
        metafunc.parametrize("six_brokers", versions, indirect=True, scope="package")


@pytest.fixture(scope="package")
def six_brokers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Six brokers in three racks."""
    running = KafkaCluster(Path(tmp_path_factory.mktemp("kafka")) / "cluster", request.param, brokers=6)
    try:
        running.start()
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def cluster(six_brokers: KafkaCluster) -> KafkaCluster:
    """The cluster with TOPICS alone, as if they had just been created, whatever tests of another file have left."""
    for id_, node in six_brokers.nodes.items():
        if not node.is_running:
            six_brokers.restart(id_)
    six_brokers.delete_topics(six_brokers.list_topics())
    wait_until(lambda: not six_brokers.list_topics(), "the topics are not deleted")
    six_brokers.create_topics(TOPICS)
    six_brokers.wait_until_settled(PARTITIONS)
    return six_brokers
