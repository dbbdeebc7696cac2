"""Reading a cluster whose brokers disagree, or of which some do not answer."""

from __future__ import annotations

from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest

from pipelines.execution.cluster_view import view_cluster
from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.sources import Source, find_source
from pipelines.live.cluster_reader import read_cluster, read_layout
from pipelines.live.cluster_records import (
    ClusterDescription,
    LiveBroker,
    LivePartition,
    LiveTopic,
    OngoingReassignment,
    Quorum,
    QuorumNode,
)
from pipelines.live.kafka_connection import KafkaFault, Reassignments
from pipelines.live.pauses import growing_pauses
from pipelines.verdict.snapshot_findings import list_warnings
from pipelines.what_if.what_if_answers import evaluate_brokers
from udfs.failures.topic_defaults import TopicDefaults

_BROKERS = tuple(LiveBroker(id_, f"b{id_}", 9092, None, False) for id_ in (1, 2))


class _Connection:
    """Stands for a KafkaConnection: each read shows the next number of partitions, and finally always the last one."""

    servers = "b1:9092"

    def __init__(self, *partitions: int, silent_broker: int | None = None, denied: bool = False) -> None:
        self._partitions = list(partitions)
        self._silent_broker = silent_broker
        self._denied = denied
        self.controller_fault: KafkaFault | None = None
        self.quorum: Quorum | KafkaFault | None = None
        self.operations: tuple[str, ...] = ("ALTER",)
        self.logs: list[str] = []  # topics of all log dirs
        self.hidden: list[str] = []
        self.calls: list[str] = []

    def list_reassignments(self) -> Reassignments:
        self.calls.append("reassignments")
        if self._denied:
            raise KafkaFault(
                self.servers,
                "not authorized",
                "Grant Describe on the cluster",
                is_denied=True,
                acl="Describe on the cluster",
            )
        if self.controller_fault:
            raise self.controller_fault
        return {}

    def list_hidden_topics(self, names: list[str]) -> list[str]:
        return [name for name in names if name in self.hidden]

    def describe_cluster(self) -> ClusterDescription:
        return ClusterDescription("id", _BROKERS, self.operations)

    def describe_topics(self) -> tuple[tuple[LiveTopic, ...], tuple[str, ...]]:
        partitions = self._partitions.pop(0) if len(self._partitions) > 1 else self._partitions[0]
        if not partitions:
            return (), ()
        return (LiveTopic("t", "i", tuple(LivePartition(p, 1, (1, 2), (1, 2), ()) for p in range(partitions))),), ()

    def describe_topic_configs(self, names: list[str]) -> dict[str, dict[str, str]]:
        return {name: {"min.insync.replicas": "1"} for name in names}

    def describe_features(self) -> dict[str, Any]:
        return {}

    def describe_quorum(self) -> Quorum | None:
        if isinstance(self.quorum, KafkaFault):
            raise self.quorum
        return self.quorum

    def describe_elrs(self, _names: list[str], _features: dict[str, Any]) -> dict[str, Any]:
        return {}

    def describe_broker(self, broker: int) -> dict[str, str]:
        self._check(broker, "the configs")
        return {"broker.rack": f"r{broker}"}

    def describe_log_dirs(self, broker: int) -> list[dict[str, Any]]:
        self._check(broker, "the log dirs")
        return [{"error_code": 0, "log_dir": "/d", "topics": [{"name": name} for name in self.logs]}]

    def _check(self, broker: int, what: str) -> None:
        if broker == self._silent_broker:
            cause = f"broker {broker} (b{broker}:9092) does not answer"
            raise KafkaFault(self.servers, f"no answer about {what}: {cause}", "Restart it", cause=cause)


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
    sentence = "broker 2 (b2:9092) does not answer, so log dirs and configs of broker 2 are not known"
    assert reading.problems == (sentence,)


def test_unknown_reassignments_are_named_when_reading_and_forbid_to_execute() -> None:
    connection: Any = _Connection(1, denied=True)
    problem, *_ = read_cluster(connection, pause=lambda _: None).problems
    assert (
        problem == "the user needs the ACL Describe on the cluster, so ongoing reassignments and voters are not known"
    )
    with pytest.raises(KafkaFault, match="Grant Describe on the cluster") as caught:
        view_cluster(connection, lambda _: None)
    assert caught.value.is_denied


def test_ongoing_reassignment_is_part_of_what_must_agree() -> None:
    connection: Any = _Connection(1)
    moves = iter([{("t", 0): OngoingReassignment((1, 2), (2,), (1,))}])
    connection.list_reassignments = lambda: next(moves, {})
    assert read_layout(connection, lambda _: None).reassignments == {}


def test_silent_controller_is_asked_once_and_reading_goes_on() -> None:
    connection: Any = _Connection(1)
    connection.controller_fault = KafkaFault("b1:9092", "no answer", "Restart it", cause="the controller is silent")
    reading = read_cluster(connection, pause=lambda _: None)
    assert reading.problems == ("the controller is silent, so ongoing reassignments and voters are not known",)
    assert connection.calls == ["reassignments"]
    with pytest.raises(KafkaFault, match="no answer"):
        view_cluster(connection, lambda _: None)


def test_without_a_controller_what_brokers_show_of_silent_ones_is_old(tmp_path: Path) -> None:
    connection: Any = _Connection(1, silent_broker=1)  # it leads t-0, as broker 2 shows it
    connection.controller_fault = KafkaFault("b1:9092", "no answer", "Restart it", cause="no connection")
    read_cluster(connection, pause=lambda _: None).write_files(tmp_path)
    snapshot = load_snapshot(find_source(str(tmp_path)))
    assert {row["broker_id"]: row["live"] for row in snapshot.brokers.to_pylist()} == {1: False, 2: True}
    answer = evaluate_brokers(snapshot, TopicDefaults())
    assert answer.verdict.headline.startswith("AT RISK: the controller quorum has no majority")
    stale = "no controller with a majority answers: no leader is elected, and brokers, leaders and ISRs are shown as "
    assert [point.text for point in answer.verdict.points if stale in point.text]


_FAULT = KafkaFault("b1:9092", "no answer", "Restart it", cause="the controller does not lead the quorum")
_VOTERS = tuple(QuorumNode(id_, None, True, 5, at, at, ()) for id_, at in ((1, 1000), (2, 99_000), (3, 1000)))


@pytest.mark.parametrize("answer", [_FAULT, Quorum(2, _VOTERS)], ids=["none", "old"])
def test_controller_that_lost_the_majority_may_list_reassignments(answer: Any, tmp_path: Path) -> None:
    """It leads no longer, but answers what it knows. Before Kafka 3.7, it also describes the quorum as its leader."""
    connection: Any = _Connection(1, silent_broker=1)
    connection.quorum = answer
    reading = read_cluster(connection, pause=lambda _: None)
    assert reading.states == ("no controller with a majority answers", "broker 1 does not answer")
    reading.write_files(tmp_path)
    assert [row["live"] for row in load_snapshot(find_source(str(tmp_path))).brokers.to_pylist()] == [False, True]


def test_silent_brokers_are_not_live() -> None:
    connection: Any = _Connection(1)
    state = ClusterDescription("id", _BROKERS, silent_brokers=(2,))
    connection.describe_cluster = lambda: state
    assert view_cluster(connection, lambda _: None).live_brokers == {1}


def test_empty_cluster_is_no_problem_but_topics_that_may_be_hidden_are(tmp_path: Path) -> None:
    connection: Any = _Connection(0)
    reading = read_cluster(connection, pause=lambda _: None)
    assert reading.problems == ()
    snapshot = load_snapshot(Source("prod", tuple(reading.write_files(tmp_path))))
    assert snapshot.is_empty
    assert snapshot.quarantined == []
    assert all(file.problem is None for file in snapshot.files)
    connection.operations = ("DESCRIBE",)
    reading = read_cluster(connection, pause=lambda _: None)
    assert reading.problems == ("no topic is shown: there is none, or the user needs the ACL Describe on topics",)
    assert not load_snapshot(Source("prod", tuple(reading.write_files(tmp_path / "other")))).is_empty


def test_hidden_topics_are_found_by_their_logs() -> None:
    connection: Any = _Connection(1)
    connection.logs, connection.hidden = ["t", "secret", "deleted"], ["secret"]
    reading = read_cluster(connection, pause=lambda _: None)
    assert reading.problems == ("1 topic (secret) is hidden: the user needs the ACL Describe on it",)


def test_answers_are_named_by_their_requests_unless_they_are_saved(tmp_path: Path) -> None:
    reading = read_cluster(_Connection(1, silent_broker=2), pause=lambda _: None)  # type: ignore[arg-type]
    sentence = "broker 2 (b2:9092) does not answer, so log dirs and configs of broker 2 are not known"
    snapshot = load_snapshot(Source("prod", tuple(reading.write_files(tmp_path / "temporary"))))
    assert list_warnings(snapshot) == [f"running cluster: {sentence}"]
    assert not any(file.name.endswith(".txt") or file.problem for file in snapshot.files)
    saved = load_snapshot(Source("prod", tuple(reading.write_files(tmp_path / "saved", is_saved=True))))
    assert list_warnings(saved) == [f"not-read.txt line 2: {sentence}"]
    facts = ["topic", "partition", "leader", "replicas", "isr"]
    assert saved.partitions.select(facts).equals(snapshot.partitions.select(facts))


def test_pauses_grow_to_the_longest() -> None:
    assert list(islice(growing_pauses(0.25, 2), 5)) == [0.25, 0.5, 1, 2, 2]
    assert list(islice(growing_pauses(5, 2), 2)) == [2, 2]
