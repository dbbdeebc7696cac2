"""What Kafka rejects of a plan because of cordons, found before it is executed; and when --cordon is offered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import EXIT_USAGE
from pipelines.execution.broker_cordons import explain_no_cordons, find_cordoned_brokers, find_rejections
from pipelines.execution.cluster_view import ClusterView
from pipelines.execution.journal import EarlierConfigs
from pipelines.execution.log_dir_moves import ReplicaLog
from pipelines.execution.planned_steps import Direction, PlannedSteps
from pipelines.live.cluster_records import ClusterDescription, Feature, Features, LiveBroker, LivePartition
from pipelines.live.kafka_connection import CORDONED_LOG_DIRS
from pipelines.plan_files.plan_reader import PlannedChange
from tests.commands import call
from tests.unit.execution.test_execution_history import DESCRIBE

_KEY = ("t", 0)
_OF_4_2, _OF_4_3, _OF_4_4 = 28, 30, 33  # levels of metadata.version


class _Connection:
    servers = "b1:9092"

    def __init__(self, highest: int | None, finalized: int | None = None) -> None:
        self.feature = None if highest is None else Feature(7, highest, finalized or highest)

    def describe_features(self) -> Features:
        return {} if self.feature is None else {"metadata.version": self.feature}


def _dirs(*cordoned: bool) -> list[dict[str, Any]]:
    return [{"log_dir": f"/d{i}", "error": None, "is_cordoned": one} for i, one in enumerate(cordoned)]


def _find(
    connection: _Connection, change: PlannedChange, now: tuple[int, ...], dirs: dict[int, Any], *back: EarlierConfigs
) -> list[str]:
    """Return the sentences on a plan of one wave; back: configs that a rollback restores."""
    state = ClusterDescription("c", tuple(LiveBroker(id_, "h", 1, None, False) for id_ in (1, 2, 3)))
    logs = {2: {_KEY: ReplicaLog("/d0", 1)}} if change.moves_log_dirs else {}
    view = ClusterView(state, {_KEY: LivePartition(0, now[0], now, now, ())}, {"t": "id"}, {}, logs=logs)
    steps, direction = PlannedSteps({_KEY: change}, 1), Direction.ROLLBACK if back else Direction.APPLY
    earlier = back[0] if back else EarlierConfigs()
    return list(find_rejections(steps, view, connection, dirs, direction, earlier, None))  # type: ignore[arg-type]


def test_lists_with_a_cordoned_broker_are_found_since_4_4() -> None:
    drain, dirs = PlannedChange([1, 2], ((1, [1, 3]),)), {2: _dirs(True, True), 3: _dirs(True, False)}
    assert find_cordoned_brokers(dirs | {4: [{"log_dir": "/f", "error": "KafkaStorage"}]}) == {2}
    assert _find(_Connection(_OF_4_4), drain, (1, 2), dirs) == []
    uncordon = EarlierConfigs({2: {CORDONED_LOG_DIRS: None}})
    for highest, earlier, is_rejected in (
        (_OF_4_4, EarlierConfigs(), True),
        (_OF_4_3, EarlierConfigs(), False),
        (None, EarlierConfigs(), False),
        (_OF_4_4, uncordon, False),  # apply brings back what was there
        (_OF_4_4, EarlierConfigs({2: {CORDONED_LOG_DIRS: "*"}}), True),
    ):
        found = _find(_Connection(highest, _OF_4_3), drain, (1, 3), dirs, earlier)
        assert (
            found
            == [
                "Kafka 4.4 rejects lists with broker 2, all of whose log dirs are cordoned: 1 partition (t-0). "
                "Uncordon first: kafka-configs --bootstrap-server b1:9092 --alter --entity-type brokers "
                "--entity-name=2 --delete-config cordoned.log.dirs"
            ]
            * is_rejected
        )
    # What is done is not submitted again.
    assert _find(_Connection(_OF_4_4), drain, (1, 2), dirs, EarlierConfigs()) == []


@pytest.mark.parametrize(("cordoned", "count"), [((False, True), 1), ((True, False), 0)])
def test_moves_to_cordoned_log_dirs_are_found(cordoned: tuple[bool, bool], count: int) -> None:
    move = PlannedChange([1, 2], ((1, [1, 2]),), {2: "/d0"}, {2: "/d1"})
    assert (
        _find(_Connection(_OF_4_3), move, (1, 2), {2: _dirs(*cordoned)})
        == ["1 partition would be moved to cordoned log dirs (t-0), which Kafka rejects. Uncordon them first"] * count
    )


def test_brokers_can_be_cordoned_since_4_3() -> None:
    reasons = [explain_no_cordons(_Connection(*one)) for one in ((None,), (_OF_4_4, _OF_4_2), (_OF_4_4,), (_OF_4_3,))]  # type: ignore[arg-type]
    text = "--cordon needs Kafka 4.3, and metadata.version 4.3-IV0 of the cluster. Leave it out, or upgrade first"
    assert reasons == [text, text, None, None]


@pytest.mark.parametrize("mode", ["--rollback", "--cancel", "--verify"])
def test_cordon_is_an_option_of_the_execution(mode: str, tmp_path: Path) -> None:
    (tmp_path / "prod.txt").write_text(DESCRIBE)
    call("plan", "prod.txt", "--goal", "leaders", "--out", "plan", folder=tmp_path)
    arguments = ("apply", "plan", "--bootstrap-server", "127.0.0.1:1", "--cordon", mode)
    error = " ".join(call(*arguments, code=EXIT_USAGE, folder=tmp_path).stderr.split())
    assert "--cordon is for --execute" in error


@pytest.mark.parametrize(("level", "is_offered"), [(_OF_4_2, False), (_OF_4_3, True)])
@pytest.mark.parametrize("goal", ["drain", "balance"])
def test_the_ticket_of_a_drain_offers_it(goal: str, level: int, is_offered: bool, tmp_path: Path) -> None:
    lines = [f"\tTopic: t\tPartition: {i}\tLeader: 1\tReplicas: 1,2\tIsr: 1,2" for i in range(3)]
    lines.append("\tTopic: t\tPartition: 3\tLeader: 3\tReplicas: 3,2\tIsr: 3,2")
    (tmp_path / "prod.txt").write_text("\n".join(["Topic: t\tPartitionCount: 4\tReplicationFactor: 2", *lines, ""]))
    feature = f"Feature: metadata.version\tSupportedMinVersion: 7\tSupportedMaxVersion: {level}"
    (tmp_path / "features.txt").write_text(f"{feature}\tFinalizedVersionLevel: {level}\tEpoch: 1\n")
    options = ("--brokers", "1") if goal == "drain" else ()
    call("plan", ".", "--goal", goal, *options, "--out", "plan", "--ticket", "t.md", folder=tmp_path)
    assert ("--execute --cordon" in (tmp_path / "t.md").read_text()) is (is_offered and goal == "drain")
