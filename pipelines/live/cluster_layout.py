"""Brokers, partitions and reassignments of a running cluster at one moment: read until two reads agree."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from pipelines.live.cluster_records import ClusterDescription, LiveTopic
from pipelines.live.kafka_connection import Assignments, KafkaConnection, KafkaFault, Reassignments
from pipelines.live.pauses import growing_pauses

_READS = 8  # until two in a row agree
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0


class ClusterLayout(NamedTuple):
    """What must agree between two reads: leaders and ISRs may change at any time, replicas and brokers seldom do."""

    state: ClusterDescription
    topics: tuple[LiveTopic, ...]
    unreadable_topics: tuple[str, ...]  # that exist, but were not described
    reassignments: Reassignments | None  # None = not known
    fault: KafkaFault | None = None  # why reassignments are not known: an ACL is missing, or the controller is silent

    @property
    def shape(self) -> tuple[Any, ...]:
        """Return brokers, partitions and replicas."""
        return (self.state, get_assignments(self.topics), self.unreadable_topics, self.reassignments)


def read_layout(connection: KafkaConnection, pause: Callable[[float], None]) -> ClusterLayout:
    """Read brokers, topics and reassignments until two reads in a row agree: brokers may lag behind each other.

    pause: waits for so many seconds. Raises: KafkaFault if the cluster does not answer, or changes all the time.
    """
    before = _read_once(connection, None)
    for _, pause_s in zip(range(_READS - 1), growing_pauses(_FIRST_PAUSE_S, _LONGEST_PAUSE_S), strict=False):
        pause(pause_s)
        now = _read_once(connection, before.fault)
        if now.shape == before.shape:
            return now
        before = now
    problem = f"brokers, partitions or replicas differed between {_READS} reads"
    raise KafkaFault(connection.servers, problem, "Wait until the changes that are under way have settled")


def get_assignments(topics: Iterable[LiveTopic]) -> Assignments:
    """Return {(topic, partition): replicas in their order}."""
    return {(topic.name, one.partition): one.replicas for topic in topics for one in topic.partitions}


def _read_once(connection: KafkaConnection, fault: KafkaFault | None) -> ClusterLayout:
    """Read all once. fault: why reassignments are not known, so that they are not asked for again."""
    reassignments: Reassignments | None = None
    if fault is None:  # Reassignments first: metadata is stale right after one ends.
        try:
            reassignments = connection.list_reassignments()
        except KafkaFault as error:
            if not error.is_denied and error.cause is None:
                raise
            fault = error
    state = connection.describe_cluster()
    topics, unreadable = connection.describe_topics()
    return ClusterLayout(state, topics, unreadable, reassignments, fault)
