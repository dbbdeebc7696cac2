"""What an execution sees of its cluster at one moment."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from pipelines.live.cluster_reader import get_assignments
from pipelines.live.kafka_changes import KafkaAdmin
from pipelines.live.kafka_connection import ClusterDescription, KafkaFault, Key, LivePartition, Reassignments

_READS = 8
_PAUSE_S = 0.5


class ClusterView(NamedTuple):
    """A cluster at one moment."""

    state: ClusterDescription
    partitions: dict[Key, LivePartition]
    topic_ids: dict[str, str | None]
    reassignments: Reassignments
    unreadable_topics: frozenset[str] = frozenset()  # that exist, but were not described

    @property
    def live_brokers(self) -> set[int]:
        """Ids of the brokers that are registered and not fenced."""
        return {broker.id for broker in self.state.brokers if not broker.is_fenced}

    def list_under_replicated(self) -> list[Key]:
        """List partitions with fewer replicas in sync than their replication factor, without those that are added."""
        under_replicated = []
        for key, partition in self.partitions.items():
            move = self.reassignments.get(key)
            adding = set(move.adding) if move else set()
            expected = [replica for replica in partition.replicas if replica not in adding]
            if len(set(partition.isr) - adding) < len(expected):
                under_replicated.append(key)
        return under_replicated


def view_cluster(connection: KafkaAdmin, pause: Callable[[float], None] = time.sleep) -> ClusterView:
    """Read reassignments first, then the metadata, which is stale right after one ends; until two reads agree.

    Raises: KafkaFault if the cluster does not answer, or if its brokers keep to disagree.
    """
    before = None
    for attempt in range(_READS):
        if attempt:
            pause(_PAUSE_S)
        reassignments = connection.list_reassignments()
        state = connection.describe_cluster()
        topics, unreadable = connection.describe_topics()
        shape = (state, get_assignments(topics), reassignments, unreadable)
        if shape == before:
            partitions = {(topic.name, one.partition): one for topic in topics for one in topic.partitions}
            ids = {topic.name: topic.topic_id for topic in topics}
            return ClusterView(state, partitions, ids, reassignments, frozenset(unreadable))
        before = shape
    problem = f"brokers, partitions or reassignments differed between {_READS} reads"
    raise KafkaFault(connection.servers, problem, "Wait until the changes that are under way have settled")


def name_partitions(keys: Iterable[Key], limit: int = 3) -> str:
    """Name the first partitions, and how many more there are."""
    names = [f"{topic}-{partition}" for topic, partition in sorted(keys)]
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return f"{', '.join(names[:limit])}{more}"
