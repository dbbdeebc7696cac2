"""Reading a cluster whose brokers disagree, or of which some do not answer."""

from __future__ import annotations

from itertools import count, islice
from typing import Any

import pytest

from pipelines.execution.cluster_view import view_cluster
from pipelines.live.cluster_layout import read_layout
from pipelines.live.cluster_reader import read_cluster
from pipelines.live.kafka_connection import (
    ClusterDescription,
    KafkaFault,
    LiveBroker,
    LivePartition,
    LiveTopic,
    OngoingReassignment,
    Reassignments,
)
from pipelines.live.pauses import growing_pauses

_BROKERS = tuple(LiveBroker(id_, f"b{id_}", 9092, None, False) for id_ in (1, 2))


class _Connection:
    """Stands for a KafkaConnection: each read shows the next number of partitions, and finally always the last one."""

    servers = "b1:9092"

    def __init__(self, *partitions: int, silent_broker: int | None = None, denied: bool = False) -> None:
        self._partitions = list(partitions)
        self._silent_broker = silent_broker
        self._denied = denied

    def list_reassignments(self) -> Reassignments:
        if self._denied:
            raise KafkaFault(self.servers, "not authorized", "Grant Describe", is_denied=True)
        return {}

    def describe_cluster(self) -> ClusterDescription:
        return ClusterDescription("id", _BROKERS)

    def describe_topics(self) -> tuple[tuple[LiveTopic, ...], tuple[str, ...]]:
        partitions = self._partitions.pop(0) if len(self._partitions) > 1 else self._partitions[0]
        return (LiveTopic("t", "i", tuple(LivePartition(p, 1, (1, 2), (1, 2), ()) for p in range(partitions))),), ()

    def describe_topic_configs(self, names: list[str]) -> dict[str, dict[str, str]]:
        return {name: {"min.insync.replicas": "1"} for name in names}

    def describe_elrs(self, _names: list[str]) -> dict[str, Any]:
        return {}

    def describe_broker(self, broker: int) -> dict[str, str]:
        return {"broker.rack": f"r{broker}"}

    def describe_log_dirs(self, broker: int) -> list[dict[str, Any]]:
        if broker == self._silent_broker:
            raise KafkaFault(self.servers, f"broker {broker} did not answer about its log dirs", "Repeat the command")
        return [{"error_code": 0, "log_dir": "/d", "topics": []}]


def test_reads_until_two_agree() -> None:
    pauses: list[float] = []
    layout = read_layout(_Connection(3, 5, 4, 4), pauses.append)  # type: ignore[arg-type]
    assert len(layout.topics[0].partitions) == 4
    assert pauses == [0.1, 0.2, 0.4]


def test_brokers_that_never_agree_are_an_error() -> None:
    with pytest.raises(KafkaFault, match="differed between 8 reads"):
        read_layout(_Connection(*islice(count(), 20)), lambda _: None)  # type: ignore[arg-type]


def test_silent_broker_is_named_and_the_others_are_read() -> None:
    reading = read_cluster(_Connection(1, silent_broker=2), pause=lambda _: None)  # type: ignore[arg-type]
    assert list(reading.log_dirs) == [1]
    assert reading.problems == ("broker 2 did not answer about its log dirs",)


def test_unknown_reassignments_are_named_when_reading_and_forbid_to_execute() -> None:
    connection: Any = _Connection(1, denied=True)
    problem, *_ = read_cluster(connection, pause=lambda _: None).problems
    assert problem.startswith("ongoing reassignments are not known")
    with pytest.raises(KafkaFault, match="Grant Describe on the cluster") as caught:
        view_cluster(connection, lambda _: None)
    assert caught.value.is_denied


def test_ongoing_reassignment_is_part_of_what_must_agree() -> None:
    connection: Any = _Connection(1)
    moves = iter([{("t", 0): OngoingReassignment((1, 2), (2,), (1,))}])
    connection.list_reassignments = lambda: next(moves, {})
    assert read_layout(connection, lambda _: None).reassignments == {}


def test_pauses_grow_to_the_longest() -> None:
    assert list(islice(growing_pauses(0.25, 2), 5)) == [0.25, 0.5, 1, 2, 2]
    assert list(islice(growing_pauses(5, 2), 2)) == [2, 2]
