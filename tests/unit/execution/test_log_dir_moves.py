"""Moves between the log dirs of brokers: where partitions are, throttles, cancellation and the way back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pipelines.execution.cluster_execution import ExecutionStopped
from pipelines.execution.journal import EarlierConfigs
from pipelines.execution.log_dir_moves import MoveProgress, ReplicaLog, ReplicaLogs
from pipelines.execution.plan_cancellation import PlanCancellation
from pipelines.execution.plan_executor import PlanExecutor
from pipelines.execution.plan_verification import PlanState, verify_plan
from pipelines.execution.planned_steps import Direction, Place, PlannedSteps, WaveTarget
from pipelines.execution.preflight import list_work
from pipelines.live.cluster_records import LivePartition
from pipelines.live.kafka_connection import Key, ReplicaLogDirs
from pipelines.plan_files.plan_reader import PlannedChange
from tests.unit.execution.test_plan_executor import _KEY, _RATE, _Cluster, _make_cancellation, _make_executor

_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
_CHANGE = PlannedChange([1, 2], ((1, [1, 2]),), {1: "/a", 2: "/a"}, {1: "/b", 2: "/a"})
_STEPS = PlannedSteps({_KEY: _CHANGE}, 1, (100.0,))


class _DiskCluster(_Cluster):
    """A cluster whose brokers have the log dirs /a, /b and /c; a move takes `steps` looks."""

    def __init__(self, steps: int = 2) -> None:
        super().__init__(steps=steps)
        self.places = {(*_KEY, 1): "/a", (*_KEY, 2): "/a"}
        self.futures: dict[tuple[str, int, int], tuple[str, int]] = {}
        self.throttled_looks: list[bool] = []

    def choose_log_dirs(self, log_dirs: ReplicaLogDirs) -> dict[Key, str]:
        self._call("log dirs")
        if self.log_dir_errors:
            return self.log_dir_errors
        for replica, path in log_dirs.items():
            self.futures.pop(replica, None)
            if self.places[replica] != path:
                self.futures[replica] = (path, self.steps)
        return {}

    def describe_log_dirs(self, broker: int) -> list[dict[str, Any]]:
        if self.futures:
            self.throttled_looks.append(bool(self.rates.get(1, {}).get(_DIR_RATE)))
        for replica, (path, looks) in list(self.futures.items()):
            if replica[-1] == broker:
                self.futures[replica] = (path, looks - 1)
                if not looks:
                    self.places[replica] = self.futures.pop(replica)[0]
        logs = [(path, replica, False) for replica, path in self.places.items()]
        logs += [(path, replica, True) for replica, (path, _) in self.futures.items()]
        return [
            {
                "log_dir": log_dir,
                "error": None,
                "topics": [
                    {
                        "name": topic,
                        "partitions": [{"partition_index": id_, "partition_size": 100, "is_future_key": is_future}],
                    }
                    for path, (topic, id_, owner), is_future in logs
                    if owner == broker and path == log_dir
                ],
            }
            for log_dir in ("/a", "/b", "/c")
        ]


def _make_mover(cluster: _DiskCluster, folder: Path) -> PlanExecutor:
    executor = _make_executor(cluster, folder)
    executor.steps = _STEPS
    return executor


def _make_dir_cancellation(cluster: _DiskCluster, folder: Path) -> PlanCancellation:
    cancellation = _make_cancellation(cluster, folder)
    cancellation.steps = _STEPS
    return cancellation


def _get_state(cluster: _DiskCluster, folder: Path) -> PlanState:
    view, none = _make_mover(cluster, folder)._look(), EarlierConfigs()
    return verify_plan(cluster, _STEPS, [], view, none, none).state  # type: ignore[arg-type]


def test_replicas_move_and_return_throttled(tmp_path: Path) -> None:
    cluster = _DiskCluster()
    cluster.rates[1] = {_DIR_RATE: "77"}
    assert _get_state(cluster, tmp_path) is PlanState.THROTTLED
    _make_mover(cluster, tmp_path).execute(Direction.APPLY)
    assert cluster.places == {(*_KEY, 1): "/b", (*_KEY, 2): "/a"}
    assert cluster.throttled_looks
    assert cluster.rates == {1: {_DIR_RATE: "77"}}
    assert "alter" not in cluster.calls
    assert cluster.elected == [_KEY]  # as the plan says
    cluster.rates.clear()
    assert _get_state(cluster, tmp_path) is PlanState.APPLIED
    _make_mover(cluster, tmp_path).execute(Direction.ROLLBACK)
    assert cluster.places == {(*_KEY, 1): "/a", (*_KEY, 2): "/a"}
    assert cluster.rates == {1: {_DIR_RATE: None}}
    assert _get_state(cluster, tmp_path) is PlanState.NOT_APPLIED


def test_moves_that_are_under_way_are_awaited_or_cancelled(tmp_path: Path) -> None:
    cluster = _DiskCluster(steps=5)
    cluster.choose_log_dirs({(*_KEY, 1): "/b"})
    cluster.calls.clear()
    assert _get_state(cluster, tmp_path) is PlanState.PARTLY_APPLIED
    _make_mover(cluster, tmp_path).execute(Direction.APPLY)
    assert cluster.places[(*_KEY, 1)] == "/b"
    assert "log dirs" not in cluster.calls
    cluster = _DiskCluster(steps=1_000)
    cluster.choose_log_dirs({(*_KEY, 1): "/b"})
    _make_dir_cancellation(cluster, tmp_path / "cancelled").cancel()
    assert (cluster.places[(*_KEY, 1)], cluster.futures) == ("/a", {})


def test_rollback_takes_back_what_is_under_way(tmp_path: Path) -> None:
    cluster = _DiskCluster(steps=1_000)
    cluster.choose_log_dirs({(*_KEY, 1): "/b"})
    _make_mover(cluster, tmp_path).execute(Direction.ROLLBACK)
    assert (cluster.places[(*_KEY, 1)], cluster.futures) == ("/a", {})


def test_stop_during_a_move_leaves_its_throttle(tmp_path: Path) -> None:
    cluster = _DiskCluster(steps=100_000)
    executor = _make_mover(cluster, tmp_path)
    with pytest.raises(ExecutionStopped, match=r"nothing was copied(.|\n)*1 reassignment .* under way: t-0"):
        executor.execute(Direction.APPLY)
    assert cluster.rates == {1: {_DIR_RATE: str(_RATE)}}


def test_log_dir_that_kafka_does_not_know_stops_the_execution(tmp_path: Path) -> None:
    cluster = _DiskCluster()
    cluster.log_dir_errors = {_KEY: "LogDirNotFound: /b on broker 1"}
    with pytest.raises(ExecutionStopped, match="LogDirNotFound: /b on broker 1"):
        _make_mover(cluster, tmp_path).execute(Direction.APPLY)


@pytest.mark.parametrize(
    ("log", "forward", "back"),
    [
        (ReplicaLog("/a", 1), Place.PENDING, Place.DONE),
        (ReplicaLog("/b", 1), Place.DONE, Place.PENDING),
        (ReplicaLog("/a", 1, "/b", 1), Place.MOVING, Place.PENDING),
        (ReplicaLog("/b", 1, "/a", 1), Place.PENDING, Place.MOVING),
        (ReplicaLog("/c", 1), Place.CHANGED, Place.CHANGED),
        (None, Place.PENDING, Place.PENDING),  # in a failed log dir
    ],
)
def test_places_of_a_moving_replica(log: ReplicaLog | None, forward: Place, back: Place) -> None:
    logs: ReplicaLogs = {1: {} if log is None else {_KEY: log}, 2: {_KEY: ReplicaLog("/a", 1)}}
    partition = LivePartition(0, 1, (1, 2), (1, 2), ())

    def find(target: WaveTarget, replicas: Sequence[int] = (1, 2), seen: ReplicaLogs = logs) -> Place:
        return _STEPS.find_place(_KEY, target, partition._replace(replicas=tuple(replicas)), None, seen)

    assert find(WaveTarget(0, 1)) is forward
    assert find(WaveTarget(1, 0)) is back
    assert find(WaveTarget(0, 1), (2, 1)) is Place.CHANGED
    assert find(WaveTarget(0, 1), seen={2: logs[2]}) is Place.MOVING  # broker 1 does not answer


def test_work_and_progress_count_bytes_of_moves(tmp_path: Path) -> None:
    cluster = _DiskCluster(steps=5)
    view = _make_mover(cluster, tmp_path)._look()
    (work,) = list_work(_STEPS, view, {_KEY: 100}, 50)
    assert (work.partitions, work.copies, work.copied_bytes, work.seconds) == (1, 1, 100, 2)
    progress = MoveProgress(cluster, {(*_KEY, 1): "/b"}, lambda: 0.0)  # type: ignore[arg-type]
    assert progress.describe() == ", 0 B of 100 B copied"
    cluster.places[(*_KEY, 1)] = "/b"
    assert progress.describe() == ", 100 B of 100 B copied"
