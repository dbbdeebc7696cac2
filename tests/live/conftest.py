"""Real clusters for the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.kafka_cluster import KafkaCluster

TOPICS = {
    # Kafka's own placement, two racks per partition, one replica only, and a topic name with all kinds of characters.
    "orders": ({p: [p % 6 + 1, (p + 1) % 6 + 1, (p + 3) % 6 + 1] for p in range(24)}, {"min.insync.replicas": "2"}),
    "clicks": ({p: [(p + 2) % 6 + 1, (p + 5) % 6 + 1] for p in range(18)}, {"retention.ms": "3600000"}),
    "single": ({0: [4], 1: [2]}, {}),
    "hot": ({p: [1, 2, 3] for p in range(12)}, {"min.insync.replicas": "2"}),
    "un-clean_1.x": ({0: [5, 6]}, {"unclean.leader.election.enable": "true", "cleanup.policy": "compact,delete"}),
}
PARTITIONS = sum(len(assignments) for assignments, _ in TOPICS.values())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Six brokers of Kafka 4.1 in three racks, with TOPICS."""
    running = KafkaCluster(Path(tmp_path_factory.mktemp("kafka")) / "cluster", brokers=6)
    try:
        running.start()
        running.create_topics(TOPICS)
        running.wait_until_settled(PARTITIONS)
        yield running
    finally:
        running.stop()
