"""The executor on a cluster that is simulated step by step: stale metadata, lost answers, crashes, failed brokers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from pipelines.execution.journal import CANCEL, END, Journal
from pipelines.execution.plan_executor import ExecutionOptions, ExecutionStopped, PlanExecutor
from pipelines.execution.plan_verification import verify_plan
from pipelines.execution.plan_waves import Direction, PartitionSteps, PlanWaves
from pipelines.execution.preflight import find_problems
from pipelines.live.cluster_records import ClusterDescription, LiveBroker, LivePartition, LiveTopic, OngoingReassignment
from pipelines.live.kafka_connection import KafkaFault, Key, ReplicaLogDirs
from pipelines.plan_files.kafka_json import FOLLOWER_RATE, LEADER_RATE
from tests.unit.execution.test_plan_waves import _STEPS

_KEY = ("t", 0)
_RATE = 1_000


class _Cluster:
    """Stands for a KafkaAdmin. A reassignment takes `steps` looks; `faults` are raised by the next calls of a name."""

    servers = "b1:9092"

    def __init__(self, brokers: Sequence[int] = (1, 2, 3, 4), steps: int = 2) -> None:
        self.lists: dict[Key, tuple[int, ...]] = {_KEY: (1, 2)}
        self.moves: dict[Key, tuple[tuple[int, ...], int]] = {}  # target, looks until it is done
        self.brokers, self.steps = list(brokers), steps
        self.rates: dict[int, dict[str, str | None]] = {}
        self.topic_configs: dict[str, dict[str, str | None]] = {}
        self.faults: dict[str, list[KafkaFault]] = {}
        self.hidden_looks = 0  # how many looks do not show the topic
        self.stale_lists: list[tuple[int, ...]] = []  # what the next looks show instead
        self.calls: list[str] = []
        self.elected: list[Key] = []
        self.log_dirs: ReplicaLogDirs = {}

    def close(self) -> None:
        pass

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if self.faults.get(name):
            raise self.faults[name].pop(0)

    def list_reassignments(self) -> dict[Key, OngoingReassignment]:
        for key, (target, looks) in list(self.moves.items()):
            if looks:
                self.moves[key] = (target, looks - 1)
            else:
                self.lists[key] = target
                del self.moves[key]
        return {key: self._get_move(key) for key in self.moves}

    def _get_move(self, key: Key) -> OngoingReassignment:
        now, (target, _) = self.lists[key], self.moves[key]
        added = tuple(b for b in target if b not in now)
        removed = tuple(b for b in now if b not in target)
        return OngoingReassignment((*target, *removed), added, removed)

    def describe_cluster(self) -> ClusterDescription:
        return ClusterDescription("c", tuple(LiveBroker(id_, "h", 1, None, None) for id_ in self.brokers))

    def describe_topics(self) -> tuple[tuple[LiveTopic, ...], tuple[str, ...]]:
        if self.hidden_looks:
            self.hidden_looks -= 1
            return (), ()
        partitions = []
        for key, ids in self.lists.items():
            listed = self._get_move(key).replicas if key in self.moves else ids
            if self.stale_lists:
                listed = self.stale_lists.pop()
            partitions.append(LivePartition(key[1], ids[0], listed, ids, ()))
        return (LiveTopic("t", "id", tuple(partitions)),), ()

    def choose_log_dirs(self, log_dirs: ReplicaLogDirs) -> None:
        self.log_dirs |= log_dirs

    def alter_reassignments(self, targets: Mapping[Key, Sequence[int] | None]) -> dict[Key, str]:
        self._call("alter")
        for key, ids in targets.items():
            if ids is None:
                self.moves.pop(key, None)
                self.lists[key] = tuple(sorted(self.lists[key]))  # as Kafka loses the order
            elif set(ids) == set(self.lists[key]):
                self.lists[key] = tuple(ids)
            else:
                self.moves[key] = (tuple(ids), self.steps)
        return {}

    def describe_log_dirs(self, broker: int) -> list[dict[str, object]]:
        raise _fault()

    def elect_preferred_leaders(self, partitions: Sequence[Key]) -> dict[Key, str]:
        self._call("elect")
        self.elected += partitions
        return {}

    def describe_topic_configs(self, topics: Sequence[str], keys: Sequence[str]) -> dict[str, dict[str, str]]:
        found = {name: self.topic_configs.get(name, {}) for name in topics}
        return {name: {k: v for k, v in configs.items() if v is not None} for name, configs in found.items()}

    def describe_own_broker_configs(self, broker: int, keys: Sequence[str]) -> dict[str, str]:
        return {key: value for key, value in self.rates.get(broker, {}).items() if value is not None}

    def alter_topic_configs(self, changes: Mapping[str, Mapping[str, str | None]]) -> dict[str, str]:
        self._call("topic configs")
        for name, configs in changes.items():
            self.topic_configs.setdefault(name, {}).update(configs)
        return {}

    def alter_broker_configs(self, broker: int, changes: Mapping[str, str | None]) -> None:
        self._call("broker configs")
        if broker not in self.brokers:
            raise KafkaFault(self.servers, f"no answer about the configs of broker {broker}", "")
        self.rates.setdefault(broker, {}).update(changes)

    @property
    def throttled_brokers(self) -> set[int]:
        return {id_ for id_, configs in self.rates.items() if any(configs.values())}


def _fault() -> KafkaFault:
    return KafkaFault("b1:9092", "no answer", "")


def _make_executor(cluster: _Cluster, folder: Path, say: Callable[[str], None] = lambda _: None) -> PlanExecutor:
    options = ExecutionOptions(_RATE, max_pause_s=50, interval_s=1)
    seconds = iter(range(100_000))
    journal = Journal.open(folder)
    journal.write("begin", direction="apply", kafka_cluster_id="c", throttle_bytes_per_s=_RATE)
    return PlanExecutor(
        cluster,  # type: ignore[arg-type]
        _STEPS,
        [_KEY],
        {"t": "id"},
        journal,
        options,
        say,
        pause=lambda _: None,
        clock=lambda: float(next(seconds)),
    )


def test_plan_is_applied_and_rolled_back(tmp_path: Path) -> None:
    cluster = _Cluster()
    _make_executor(cluster, tmp_path).execute(Direction.APPLY)
    assert cluster.lists[_KEY] == (4, 3)
    assert not cluster.throttled_brokers
    _make_executor(cluster, tmp_path).execute(Direction.ROLLBACK)
    assert cluster.lists[_KEY] == (1, 2)
    assert not cluster.throttled_brokers


def test_topic_that_brokers_do_not_show_for_a_moment_is_not_deleted(tmp_path: Path) -> None:
    cluster, lines = _Cluster(), list[str]()
    cluster.hidden_looks = 4
    _make_executor(cluster, tmp_path, lines.append).execute(Direction.APPLY)
    assert cluster.lists[_KEY] == (4, 3)
    assert not any("deleted" in line for line in lines)


def test_topic_that_is_gone_is_left_out(tmp_path: Path) -> None:
    cluster, lines = _Cluster(), list[str]()
    cluster.hidden_looks = 10_000
    _make_executor(cluster, tmp_path, lines.append).execute(Direction.APPLY)
    assert any("deleted meanwhile, and left out: t" in line for line in lines)


def test_stale_list_is_not_a_change_of_another_tool(tmp_path: Path) -> None:
    cluster = _Cluster()
    cluster.stale_lists = [(1, 3, 2)] * 2
    _make_executor(cluster, tmp_path).execute(Direction.APPLY)
    assert cluster.lists[_KEY] == (4, 3)


def test_change_of_another_tool_stops_the_execution(tmp_path: Path) -> None:
    cluster = _Cluster()
    cluster.lists[_KEY] = (3, 4)
    with pytest.raises(ExecutionStopped, match=r"t-0: changed by another tool \(now \[3, 4\]\)"):
        _make_executor(cluster, tmp_path).execute(Direction.APPLY)


def test_throttle_is_removed_though_a_call_fails(tmp_path: Path) -> None:
    cluster = _Cluster()
    executor = _make_executor(cluster, tmp_path)
    alter = cluster.alter_broker_configs

    def fail_once_per_removal(broker: int, changes: Mapping[str, str | None]) -> None:
        if None in changes.values() and cluster.calls.count(f"failed {broker}") < 2:
            cluster.calls.append(f"failed {broker}")
            raise _fault()
        alter(broker, changes)

    cluster.alter_broker_configs = fail_once_per_removal  # type: ignore[method-assign]
    executor.execute(Direction.APPLY)
    assert not cluster.throttled_brokers


def test_copies_that_are_under_way_stay_throttled_on_resume(tmp_path: Path) -> None:
    cluster = _Cluster(steps=1_000)
    cluster.faults["alter"] = []
    executor = _make_executor(cluster, tmp_path)
    executor._throttle.apply(1, _RATE, {_KEY: (1, 2)}, {_KEY: (1, 3)}, {1, 2, 3})
    cluster.alter_reassignments({_KEY: (1, 3)})
    cluster.calls.clear()
    throttled: list[set[int]] = []
    look = cluster.list_reassignments

    def watch() -> dict[Key, OngoingReassignment]:
        throttled.append(cluster.throttled_brokers)
        if len(throttled) > 20:
            cluster.moves = {key: (target, 0) for key, (target, _) in cluster.moves.items()}
        return look()

    cluster.list_reassignments = watch  # type: ignore[method-assign]
    _make_executor(cluster, tmp_path).execute(Direction.APPLY)
    assert all(ids >= {1, 2, 3} for ids in throttled[:20])
    assert not cluster.throttled_brokers


def test_earlier_rate_is_back_after_a_crash_and_a_resume(tmp_path: Path) -> None:
    cluster = _Cluster()
    cluster.rates[1] = {LEADER_RATE: "77"}
    executor = _make_executor(cluster, tmp_path)
    executor._throttle.apply(1, _RATE, {_KEY: (1, 2)}, {_KEY: (1, 3)}, {1, 2, 3})  # and then it was killed
    _make_executor(cluster, tmp_path).execute(Direction.APPLY)
    assert cluster.rates[1] == {LEADER_RATE: "77", FOLLOWER_RATE: None}
    restored = Journal.open(tmp_path).find_restored_configs()
    view = _make_executor(cluster, tmp_path)._look()
    assert verify_plan(cluster, _STEPS, view, restored).throttled_brokers == ()  # type: ignore[arg-type]
    assert verify_plan(cluster, _STEPS, view, restored).restored_brokers == (1,)  # type: ignore[arg-type]
    cluster.rates[2] = {LEADER_RATE: "5"}
    assert verify_plan(cluster, _STEPS, view, restored).throttled_brokers == (2,)  # type: ignore[arg-type]
    cluster.rates = {}  # whoever set the earlier throttle has removed it
    verification = verify_plan(cluster, _STEPS, view, restored)  # type: ignore[arg-type]
    assert verification.throttled_brokers == verification.restored_brokers == ()


def test_interrupted_cancellation_is_finished_before_the_plan_goes_on(tmp_path: Path) -> None:
    cluster = _Cluster()
    cluster.lists[_KEY] = (2, 1)  # what Kafka's cancellation left of (1, 2)
    Journal.open(tmp_path).write(CANCEL, partitions=[["t", 0]], origins=[["t", 0, [1, 2]]])
    _make_executor(cluster, tmp_path).execute(Direction.APPLY)
    assert cluster.lists[_KEY] == (4, 3)


def test_ended_cancellations_restore_no_order(tmp_path: Path) -> None:
    cluster = _Cluster()
    cluster.lists[_KEY] = (2, 1)
    journal = Journal.open(tmp_path)
    journal.write(CANCEL, partitions=[["t", 0]], origins=[["t", 0, [1, 2]]])
    journal.write(END, outcome="cancelled")
    _make_executor(cluster, tmp_path).cancel()
    assert cluster.lists[_KEY] == (2, 1)


def test_partitions_whose_election_the_plan_did_not_foresee_are_elected(tmp_path: Path) -> None:
    """A broker that failed for a moment has lost its leaders."""
    cluster = _Cluster()
    executor = _make_executor(cluster, tmp_path)
    executor.elections = []
    executor.execute(Direction.APPLY)
    assert cluster.elected == [_KEY]


def test_rollback_without_anything_to_do_elects_nothing(tmp_path: Path) -> None:
    cluster = _Cluster()
    _make_executor(cluster, tmp_path).execute(Direction.ROLLBACK)
    assert "elect" not in cluster.calls


def test_rollback_leaves_out_what_was_on_failed_brokers(tmp_path: Path) -> None:
    cluster, lines = _Cluster((1, 3, 4)), list[str]()
    cluster.lists[_KEY] = (4, 3)
    _make_executor(cluster, tmp_path, lines.append).execute(Direction.ROLLBACK)
    assert cluster.lists[_KEY] == (4, 3)
    assert any("cannot be rolled back, as brokers are down: t-0" in line for line in lines)
    cluster.lists[_KEY] = (1, 2)  # rolled back already
    lines.clear()
    _make_executor(cluster, tmp_path, lines.append).execute(Direction.ROLLBACK)
    assert lines == []


def test_fault_says_what_is_left(tmp_path: Path) -> None:
    cluster = _Cluster()
    cluster.faults["alter"] = [KafkaFault("b1:9092", "the user may not change the reassignment", "", is_denied=True)]
    with pytest.raises(ExecutionStopped, match=r"Throttles are still set.*Repeat the command to continue"):
        _make_executor(cluster, tmp_path).execute(Direction.APPLY)


def test_repair_may_begin_with_replicas_on_a_failed_broker() -> None:
    steps = PlanWaves({_KEY: PartitionSteps(((9, 2), (3, 2)), (1,))}, 1)
    cluster = _Cluster((2, 3))
    cluster.lists[_KEY] = (9, 2)
    view = PlanExecutor(cluster, steps, [], {}, Journal(Path("none")), ExecutionOptions(), print)._look()  # type: ignore[arg-type]
    assert find_problems(steps, view, {}, []) == []
    without = view._replace(state=ClusterDescription("c", view.state.brokers[:1]))
    assert "brokers that the rest of the plan needs are down: 3" in find_problems(steps, without, {}, [])[0]
