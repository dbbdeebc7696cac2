"""The executor on a cluster that is simulated step by step: stale metadata, lost answers, crashes, failed brokers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TypeVar

import pytest

from pipelines.cli.apply_command import _act, _Mode
from pipelines.cli.apply_rendering import render_rollback, render_verification
from pipelines.config.setting_sections import Settings
from pipelines.config.settings import load_settings
from pipelines.errors import SettingsError, SourceError
from pipelines.execution import plan_application
from pipelines.execution.cluster_execution import ClusterExecution, ExecutionOptions, ExecutionStopped
from pipelines.execution.cluster_view import ClusterView
from pipelines.execution.journal import CANCEL, CORDON, END, RATE, EarlierConfigs, Journal, leave_throttle
from pipelines.execution.plan_application import PlanApplication, RollbackPreview, lock_cluster
from pipelines.execution.plan_cancellation import PlanCancellation
from pipelines.execution.plan_executor import PlanExecutor
from pipelines.execution.plan_verification import PlanState, Verification, verify_plan
from pipelines.execution.planned_steps import Direction, PlannedSteps
from pipelines.execution.preflight import ClusterDisks, check_answers, find_problems
from pipelines.execution.replication_throttle import read_throttles
from pipelines.execution.wave_window import WaveRange
from pipelines.live.client_properties import ClientProperties
from pipelines.live.cluster_records import (
    ClusterDescription,
    LiveBroker,
    LivePartition,
    LiveTopic,
    OngoingReassignment,
    Quorum,
    QuorumNode,
)
from pipelines.live.kafka_changes import KafkaAdmin
from pipelines.live.kafka_connection import CORDONED_LOG_DIRS, KafkaFault, Key, ReplicaLogDirs
from pipelines.plan_files.kafka_json import FOLLOWER_RATE, LEADER_RATE, LEADER_REPLICAS
from pipelines.plan_files.plan_reader import PlannedChange
from tests.unit.execution.test_planned_steps import _STEPS
from udfs.failures.topic_defaults import KAFKA_DEFAULTS

_E = TypeVar("_E", bound=ClusterExecution)
_KEY = ("t", 0)
_SETTINGS = load_settings(["topics.ignored=['x']"], environ={})
_RATE = 1_000


class _Cluster:
    """Stands for a KafkaAdmin. A reassignment takes `steps` looks; `faults` are raised by the next calls of a name."""

    servers = "b1:9092"

    def __init__(self, brokers: Sequence[int] = (1, 2, 3, 4), steps: int = 2) -> None:
        self.lists: dict[Key, tuple[int, ...]] = {_KEY: (1, 2)}
        self.leaders: dict[Key, int] = {}  # where another replica than the first leads
        self.moves: dict[Key, tuple[tuple[int, ...], int]] = {}  # target, looks until it is done
        self.brokers, self.steps = list(brokers), steps
        self.silent: set[int] = set()  # brokers that are live, and answer no client
        self.rates: dict[int, dict[str, str | None]] = {}
        self.topic_configs: dict[str, dict[str, str | None]] = {}
        self.faults: dict[str, list[KafkaFault]] = {}
        self.hidden_looks = 0  # how many looks do not show the topic
        self.stale_lists: list[tuple[int, ...]] = []  # what the next looks show instead
        self.calls: list[str] = []
        self.elected: list[Key] = []
        self.log_dirs: ReplicaLogDirs = {}
        self.log_dir_errors: dict[Key, str] = {}
        self.quorums: list[Quorum] = []  # what the next looks show
        self.rejections: dict[Key, str] = {}  # Kafka's answer to every reassignment of these partitions

    def close(self) -> None:
        pass

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if self.faults.get(name):
            raise self.faults[name].pop(0)

    def list_reassignments(self) -> dict[Key, OngoingReassignment]:
        self._call("list")
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

    def describe_quorum(self) -> Quorum | None:
        if self.faults.get("quorum"):
            raise self.faults["quorum"].pop()
        return self.quorums.pop(0) if self.quorums else None

    def describe_topics(self) -> tuple[tuple[LiveTopic, ...], tuple[str, ...]]:
        if self.hidden_looks:
            self.hidden_looks -= 1
            return (), ()
        partitions = []
        for key, ids in self.lists.items():
            listed = self._get_move(key).replicas if key in self.moves else ids
            if self.stale_lists:
                listed = self.stale_lists.pop()
            partitions.append(LivePartition(key[1], self.leaders.get(key, ids[0]), listed, ids, ()))
        return (LiveTopic("t", "id", tuple(partitions)),), ()

    def choose_log_dirs(self, log_dirs: ReplicaLogDirs) -> dict[Key, str]:
        self.log_dirs |= log_dirs
        return self.log_dir_errors

    def alter_reassignments(self, targets: Mapping[Key, Sequence[int] | None]) -> dict[Key, str]:
        self._call("alter")
        for key, ids in targets.items():
            if key in self.rejections:
                continue
            if ids is None:
                self.moves.pop(key, None)
                self.lists[key] = tuple(sorted(self.lists[key]))  # as Kafka loses the order
            elif set(ids) == set(self.lists[key]):
                self.lists[key] = tuple(ids)
            else:
                self.moves[key] = (tuple(ids), self.steps)
        return self.rejections

    def make_rejection(self, what: str, text: str) -> KafkaFault:
        return KafkaAdmin(self.servers, ClientProperties()).make_rejection(what, text)

    def describe_log_dirs(self, broker: int) -> list[dict[str, object]]:
        raise _fault()

    def elect_preferred_leaders(self, partitions: Sequence[Key]) -> dict[Key, str]:
        self._call("elect")
        self.elected += partitions
        return {}

    def describe_topic_configs(self, topics: Sequence[str], keys: Sequence[str]) -> dict[str, dict[str, str]]:
        found = {name: self.topic_configs.get(name, {}) for name in topics}
        return {name: {k: v for k, v in configs.items() if v is not None} for name, configs in found.items()}

    @contextmanager
    def connect_to(self, broker: LiveBroker) -> Iterator[_Cluster]:
        if broker.id in self.silent:
            raise _fault()
        yield self

    def describe_own_broker_configs(self, broker: int, keys: Sequence[str]) -> dict[str, str]:
        return {key: value for key, value in self.rates.get(broker, {}).items() if key in keys and value is not None}

    def alter_topic_configs(self, changes: Mapping[str, Mapping[str, str | None]]) -> dict[str, str]:
        self._call("topic configs")
        for name, configs in changes.items():
            self.topic_configs.setdefault(name, {}).update(configs)
        return {}

    def alter_broker_configs(self, broker: int, changes: Mapping[str, str | None]) -> None:
        self._call("broker configs")
        if broker not in self.brokers or broker in self.silent:
            raise KafkaFault(self.servers, f"no answer about the configs of broker {broker}", "")
        self.rates.setdefault(broker, {}).update(changes)

    @property
    def throttled_brokers(self) -> set[int]:
        return {id_ for id_, configs in self.rates.items() if any(configs.values())}


def _fault() -> KafkaFault:
    return KafkaFault("b1:9092", "no answer", "")


def _make_executor(cluster: _Cluster, folder: Path, say: Callable[[str], None] = lambda _: None) -> PlanExecutor:
    return _make(PlanExecutor, cluster, folder, say)


def _make_cancellation(cluster: _Cluster, folder: Path) -> PlanCancellation:
    return _make(PlanCancellation, cluster, folder, lambda _: None)


def _make(kind: type[_E], cluster: _Cluster, folder: Path, say: Callable[[str], None]) -> _E:
    options = ExecutionOptions(_RATE, max_pause_s=50, interval_s=1, progress_s=5)
    seconds = iter(range(100_000))
    folder.mkdir(exist_ok=True)
    journal = Journal.open(folder)
    journal.write("begin", direction="apply", kafka_cluster_id="c", throttle_bytes_per_s=_RATE)
    return kind(
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


def _make_application(cluster: _Cluster, folder: Path, monkeypatch: pytest.MonkeyPatch) -> PlanApplication:
    plan = SimpleNamespace(
        changes={key: replace(one, bytes_to_copy=1_000) for key, one in _STEPS.partitions.items()},
        waves=[SimpleNamespace(busiest_bytes=None, bytes_to_copy=1_000)] * _STEPS.waves,
        emptied_brokers=(),
        topic_ids={"t": "id"},
        kafka_cluster_id="c",
        cluster="c",
        election=[_KEY],
        rollback_election=[_KEY],
        sha256="",
        preceding_plans=(),
        next_steps=("another plan continues",),
    )
    monkeypatch.setattr(plan_application, "read_plan", lambda _: plan)
    for name, answer in (("list_hidden_topics", []), ("list_missing_permissions", [])):
        monkeypatch.setattr(_Cluster, name, lambda *_, answer=answer, **__: answer, raising=False)
    monkeypatch.setattr(plan_application, "explain_no_cordons", lambda _: "none")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return PlanApplication(folder, cluster, lambda _: None, lambda _: None)  # type: ignore[arg-type]


def _verify(
    cluster: _Cluster,
    view: ClusterView,
    restored: EarlierConfigs | None = None,
    outstanding: EarlierConfigs | None = None,
) -> Verification:
    none = EarlierConfigs()
    return verify_plan(cluster, _STEPS, [_KEY], view, restored or none, outstanding or none)  # type: ignore[arg-type]


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
    for direction, problem in (
        (Direction.APPLY, r"^1 partition was changed by another tool or a later plan \(t-0\)\. Make a new plan\."),
        (
            Direction.ROLLBACK,
            r"^1 partition was changed after this plan \(t-0\)\. Roll back the plans that were executed",
        ),
    ):
        with pytest.raises(ExecutionStopped, match=problem) as stopped:
            _make_executor(cluster, tmp_path).execute(direction)
        assert "Repeat the command" not in str(stopped.value)


def test_rollback_of_what_a_later_plan_has_moved_on_is_refused_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    application = _make_application(_Cluster(), tmp_path, monkeypatch)
    assert application._find_rollback_problems(application._view(), ExecutionOptions()) == []
    application.connection.lists[_KEY] = (3, 4)  # type: ignore[attr-defined]
    with pytest.raises(SettingsError, match=r"after this plan \(t-0\)\. Roll back the plans .* to its list in reass"):
        application.roll_back(ExecutionOptions())
    assert application.journal.describe_open() is None


def test_lock_of_another_process_counts_before_what_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = _Cluster()
    application = _make_application(cluster, tmp_path, monkeypatch)
    monkeypatch.setattr(PlanApplication, "preview", lambda *_: pytest.fail("brokers are checked first"))
    cluster.lists[_KEY] = (3, 4)
    with lock_cluster("c"):
        with pytest.raises(SettingsError, match=f"process {os.getpid()} is applying a plan to cluster c"):
            application.execute(ExecutionOptions(), _SETTINGS)
        with pytest.raises(SettingsError, match="is applying a plan to cluster c"):
            application.roll_back(ExecutionOptions())


def test_no_wave_is_left_of_a_plan_that_another_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = _Cluster()
    application = _make_application(cluster, tmp_path, monkeypatch)
    changed = (
        "  1 partition was changed by another tool or a later plan (t-0): the plan is over, or another followed it"
    )
    for now, line in (((1, 3), "  1 wave of 3 left, 500 B to copy"), ((3, 4), changed)):
        cluster.lists[_KEY] = now
        lines = list(render_verification(application.verify(_SETTINGS), application, ExecutionOptions()))
        assert line in lines
        assert ("  then: another plan continues" in lines) is (now == (1, 3))
        assert sum(" left" in one or "plan is over" in one for one in lines) == 1


def test_leaders_are_counted_as_check_counts_them(tmp_path: Path) -> None:
    """Those of partitions as planned, whose preferred leader is live; what the plan elects is awaited in any case."""
    for now, leader, brokers, counted in (
        ((1, 3), 3, (1, 2, 3, 4), ()),
        ((4, 3), 3, (1, 2, 3, 4), (_KEY,)),
        ((4, 3), 3, (1, 2, 3), ()),
    ):
        cluster = _Cluster(brokers)
        cluster.lists[_KEY], cluster.leaders[_KEY] = now, leader
        verification = _verify(cluster, _make_executor(cluster, tmp_path)._look())
        assert (verification.not_preferred, verification.not_elected) == (counted, (_KEY,))
        assert verification.pending == (() if now == (4, 3) else (_KEY,))


def test_leaders_beside_the_plan_are_counted_as_failures_of_brokers_move_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, other = _Cluster(), ("t", 1)
    cluster.lists |= {_KEY: (4, 3), other: (1, 2)}
    application = _make_application(cluster, tmp_path, monkeypatch)
    for leader, count in ((2, 1), (1, 0)):
        cluster.leaders[other] = leader
        verification = application.verify(_SETTINGS)
        assert (verification.state, verification.others_not_preferred) == (PlanState.APPLIED, count)
        text = "\n".join(render_verification(verification, application, ExecutionOptions()))
        assert ("  1 partition beside the plan is not led by the preferred leader" in text) is bool(count)
        assert ("--election-type preferred --all-topic-partitions" in text) is bool(count)


def test_a_plan_whose_earlier_plan_is_not_done_is_not_applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = _Cluster()
    cluster.lists[_KEY] = (3, 4)
    application = _make_application(cluster, tmp_path, monkeypatch)
    application.plan = SimpleNamespace(**{**vars(application.plan), "preceding_plans": ("n1",)})  # type: ignore[assignment]
    monkeypatch.setattr(plan_application, "read_snapshot", lambda *_: (SimpleNamespace(partitions=None), None))
    monkeypatch.setattr(plan_application, "build_snapshot_model", lambda _, defaults: defaults)

    def check_after(_: object, model: object, __: object, defaults: object) -> SimpleNamespace:
        assert model == defaults == _SETTINGS.topics.defaults != KAFKA_DEFAULTS
        return SimpleNamespace(undone_plans=("n1",))

    monkeypatch.setattr(plan_application, "check_after", check_after)
    verification = application.verify(_SETTINGS)
    lines = list(render_verification(verification, application, ExecutionOptions()))
    assert lines[0] == "not applied: made after n1, not done yet: execute that first"
    assert not any("another tool" in line or "another followed" in line for line in lines)
    assert verification.state is not PlanState.PARTLY_APPLIED
    assert replace(verification, throttled=EarlierConfigs(), unanswered_brokers=()).state is PlanState.NOT_APPLIED


def test_cancellation_with_nothing_under_way_succeeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the cluster is as another plan has left it, with a throttle of another tool."""
    cluster = _Cluster()
    cluster.lists[_KEY], cluster.rates[2] = (3, 4), {LEADER_RATE: "1"}
    application = _make_application(cluster, tmp_path, monkeypatch)
    assert _act(application, _Mode.CANCEL, ExecutionOptions(), Settings.model_construct(), tmp_path) == 0


def test_copies_without_a_throttle_name_the_throttle_of_another_tool(tmp_path: Path) -> None:
    cluster, lines = _Cluster(steps=30), list[str]()
    cluster.rates[2] = {LEADER_RATE: "1", FOLLOWER_RATE: "1"}
    executor = _make_executor(cluster, tmp_path, lines.append)
    executor.options = replace(executor.options, throttle_bytes_per_s=None, max_pause_s=3)
    with pytest.raises(ExecutionStopped, match=r"nothing was copied .*broker 2 has a throttle of another tool"):
        executor.execute(Direction.APPLY)
    assert lines[0] == (
        "warning: broker 2 has a throttle of another tool (rate 1 B/s), which stays: --throttle none sets none. "
        "Copies through it may be slow; give a rate to replace it while a wave runs"
    )
    assert lines[2].endswith(", broker 2 has a throttle of another tool (rate 1 B/s)")


def test_throttles_that_were_there_before_are_not_left(tmp_path: Path) -> None:
    """The plan neither replaces nor restores them; a rate that is another one afterwards is left."""
    cluster = _Cluster()
    cluster.rates[2], cluster.topic_configs["t"] = {LEADER_RATE: "1000"}, {LEADER_REPLICAS: "*"}
    executor = _make_executor(cluster, tmp_path)
    executor.options = replace(executor.options, throttle_bytes_per_s=None)
    executor.execute(Direction.APPLY)
    journal = Journal.open(tmp_path)
    configs = journal.find_restored_configs(), journal.find_earlier_configs()
    verification = _verify(cluster, executor._look(), *configs)
    assert verification.state is PlanState.APPLIED
    assert (verification.restored.brokers.keys(), verification.restored.topics.keys()) == ({2}, {"t"})
    cluster.rates[2] = {LEADER_RATE: "2000"}
    assert _verify(cluster, executor._look(), *configs).state is PlanState.THROTTLED


def test_throttles_are_not_to_be_removed_while_a_process_carries_the_plan_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = _Cluster()
    cluster.rates[2] = {LEADER_RATE: "1000", FOLLOWER_RATE: "1000"}
    application = _make_application(cluster, tmp_path, monkeypatch)
    own, other = "carries the plan on, and removes them at the end", "carries out another plan, and may need them"
    for process, is_running, says in ((os.getpid(), True, own), (os.getpid(), False, ""), (1, True, other)):
        application.journal.write(
            "begin", direction="apply", kafka_cluster_id="c", throttle_bytes_per_s=1, process=process
        )
        with lock_cluster("c") if is_running else nullcontext():
            text = "\n".join(render_verification(application.verify(_SETTINGS), application, ExecutionOptions()))
        assert ("remove them:" in text) is ("kafka-configs" in text) is not is_running
        assert says in text


def test_rollback_names_throttles_of_other_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = _Cluster()
    cluster.rates[2] = {LEADER_RATE: "1000", FOLLOWER_RATE: "1000"}
    application = _make_application(cluster, tmp_path, monkeypatch)
    _, others = application._find_throttles(application._view())
    text = "\n".join(render_rollback(RollbackPreview([], [], [], others), ExecutionOptions()))
    assert "  warning: broker 2 has a throttle of another tool (rate 1 kB/s)" in text


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


@pytest.mark.parametrize("looks", [0, 12])
def test_throttle_is_changed_while_it_runs(tmp_path: Path, looks: int) -> None:
    """Before the first wave, and while it copies; the rate of another tool is set again at the end."""
    cluster, lines = _Cluster(steps=10), list[str]()
    cluster.rates[1] = {LEADER_RATE: "77"}
    executor = _make_executor(cluster, tmp_path, lines.append)
    rates: list[str | None] = []
    look = cluster.list_reassignments

    def watch() -> dict[Key, OngoingReassignment]:
        if len(rates) == looks:
            leave_throttle(tmp_path, 5_000)
        rates.append(cluster.rates.get(1, {}).get(LEADER_RATE))
        return look()

    cluster.list_reassignments = watch  # type: ignore[method-assign]
    executor.execute(Direction.APPLY)
    assert lines.count("throttle: 5 kB/s per broker from now on") == 1
    assert (str(_RATE) in rates) is bool(looks)
    assert "5000" in rates
    assert cluster.rates[1] == {LEADER_RATE: "77", FOLLOWER_RATE: None}
    changes = [entry for entry in Journal.open(tmp_path).entries if entry["event"] == RATE]
    assert [entry["throttle_bytes_per_s"] for entry in changes] == [5_000]


def test_throttle_is_removed_while_it_runs(tmp_path: Path) -> None:
    cluster, lines = _Cluster(steps=30), list[str]()
    cluster.rates[1] = {LEADER_RATE: "77"}
    executor = _make_executor(cluster, tmp_path, lines.append)
    looks: list[tuple[str | None, bool]] = []
    look = cluster.list_reassignments

    def watch() -> dict[Key, OngoingReassignment]:
        if len(looks) == 12:
            leave_throttle(tmp_path, None)
        looks.append((cluster.rates.get(1, {}).get(LEADER_RATE), bool(cluster.moves)))
        return look()

    cluster.list_reassignments = watch  # type: ignore[method-assign]
    executor.execute(Direction.APPLY)
    assert lines.count("throttle: none from now on") == 1
    assert looks[11] == (str(_RATE), True)
    assert all(rate == "77" for rate, _ in looks[14:])
    assert looks[14][1]  # while copies are under way
    assert cluster.rates[1] == {LEADER_RATE: "77", FOLLOWER_RATE: None}


@pytest.mark.parametrize("rate", [None, 5_000])
@pytest.mark.parametrize(("now", "target"), [((1, 2), (1, 3)), ((1, 3), (4, 3))])  # of the first and the last wave
def test_rate_of_a_resume_holds_for_what_is_under_way(
    tmp_path: Path, rate: int | None, now: tuple[int, int], target: tuple[int, int]
) -> None:
    cluster = _Cluster(steps=1_000)
    cluster.rates[1] = {LEADER_RATE: "77"}
    cluster.lists[_KEY] = now
    executor = _make_executor(cluster, tmp_path)
    executor._throttle.apply(1, _RATE, {_KEY: now}, {_KEY: target}, {1, 2, 3, 4})  # and then it was killed
    cluster.alter_reassignments({_KEY: target})
    looks: list[tuple[dict[int, str | None], str | None]] = []
    look, copied = cluster.list_reassignments, (set(target) - set(now)).pop()

    def watch() -> dict[Key, OngoingReassignment]:
        rates = {id_: configs.get(FOLLOWER_RATE) for id_, configs in cluster.rates.items()}
        looks.append((rates, cluster.topic_configs["t"]["follower.replication.throttled.replicas"]))
        if len(looks) == 30:
            cluster.moves[_KEY], cluster.steps = (target, 0), 2
        return look()

    cluster.list_reassignments = watch  # type: ignore[method-assign]
    executor = _make_executor(cluster, tmp_path)
    executor.options = replace(executor.options, throttle_bytes_per_s=rate)
    executor.execute(Direction.APPLY)
    for rates, replicas in looks[10:30]:
        assert (rates[copied], replicas) == ((None, None) if rate is None else ("5000", f"0:{copied}"))
    assert cluster.lists[_KEY] == (4, 3)
    assert cluster.rates[1] == {LEADER_RATE: "77", FOLLOWER_RATE: None}
    assert cluster.throttled_brokers == {1}


def test_earlier_rate_is_back_after_a_crash_and_a_resume(tmp_path: Path) -> None:
    cluster = _Cluster()
    cluster.rates[1] = {LEADER_RATE: "77"}
    executor = _make_executor(cluster, tmp_path)
    executor._throttle.apply(1, _RATE, {_KEY: (1, 2)}, {_KEY: (1, 3)}, {1, 2, 3})  # and then it was killed
    _make_executor(cluster, tmp_path).execute(Direction.APPLY)
    assert cluster.rates[1] == {LEADER_RATE: "77", FOLLOWER_RATE: None}
    restored = Journal.open(tmp_path).find_restored_configs()
    view = _make_executor(cluster, tmp_path)._look()
    assert _verify(cluster, view, restored).throttled.brokers == {}
    assert _verify(cluster, view, restored).restored.brokers == {1: {LEADER_RATE: "77"}}
    cluster.rates[2] = {LEADER_RATE: "5"}
    assert _verify(cluster, view, restored).throttled.brokers == {2: {LEADER_RATE: None}}
    cluster.rates = {}  # whoever set the earlier throttle has removed it
    verification = _verify(cluster, view, restored)
    assert not verification.throttled
    assert not verification.restored


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
    _make_cancellation(cluster, tmp_path).cancel()
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


def test_fault_before_anything_is_submitted_leaves_no_throttle(tmp_path: Path) -> None:
    cluster = _Cluster()
    cluster.faults["alter"] = [KafkaFault("b1:9092", "the user may not change the reassignment", "", is_denied=True)]
    with pytest.raises(
        ExecutionStopped, match=r"No reassignment of the plan was submitted. No throttle of the plan is left"
    ):
        _make_executor(cluster, tmp_path).execute(Direction.APPLY)
    assert not cluster.throttled_brokers


def test_repair_may_begin_with_replicas_on_a_failed_broker() -> None:
    steps = PlannedSteps({_KEY: PlannedChange([9, 2], ((1, [3, 2]),))}, 1)
    cluster = _Cluster((2, 3))
    cluster.lists[_KEY] = (9, 2)
    view = PlanExecutor(cluster, steps, [], {}, Journal(Path("none")), ExecutionOptions(), print)._look()  # type: ignore[arg-type]
    no_disks = ClusterDisks({}, {}, {}, 0.95)
    assert find_problems(steps, view, no_disks, []) == []
    without = view._replace(state=ClusterDescription("c", view.state.brokers[:1]))
    assert "brokers that the rest of the plan needs are down: 3" in find_problems(steps, without, no_disks, [])[0]


def test_what_a_later_night_needs_does_not_keep_tonight_from_beginning() -> None:
    steps = PlannedSteps({_KEY: PlannedChange([1, 2], ((1, [2, 1]), (2, [2, 3])))}, 2)
    cluster = _Cluster((1, 2))
    view = PlanExecutor(cluster, steps, [], {}, Journal(Path("none")), ExecutionOptions(), print)._look()  # type: ignore[arg-type]
    view = view._replace(state=ClusterDescription("c", view.state.brokers[:2]))
    no_disks = ClusterDisks({}, {}, {}, 0.95)
    assert find_problems(steps, view, no_disks, [], WaveRange(1, 1)) == []
    (problem,) = find_problems(steps, view, no_disks, [], WaveRange(1, 2))
    assert problem.startswith("brokers that waves 1-2 need are down: 3 (not registered)")
    (problem,) = find_problems(steps, view, no_disks, [])
    assert problem.startswith("brokers that the rest of the plan needs are down: 3")


def test_broker_that_does_not_take_its_throttle_ends_the_execution(tmp_path: Path) -> None:
    """It answers the other brokers, and no client; after --max-pause, nothing is left but what it may have."""
    cluster, lines = _Cluster(), list[str]()
    cluster.silent = {3}
    with pytest.raises(ExecutionStopped) as stopped:
        _make_executor(cluster, tmp_path, lines.append).execute(Direction.APPLY)
    text = str(stopped.value)
    assert "paused for 50 s: the throttle is not set: no answer about the configs of broker 3." in text
    assert "No reassignment of the plan was submitted. Throttles stay set on broker 3." in text
    assert text.splitlines()[-1] == (
        "kafka-configs --bootstrap-server b1:9092 --alter --entity-type brokers --entity-name=3 "
        f"--delete-config {LEADER_RATE},{FOLLOWER_RATE}"
    )
    assert not cluster.throttled_brokers
    assert not cluster.moves
    assert sum("paused" in line for line in lines) == 1
    assert sum(entry["event"] == "throttle" for entry in Journal.open(tmp_path).entries) == 1


def test_answers_that_stay_away_end_the_execution(tmp_path: Path) -> None:
    cluster = _Cluster()
    cluster.faults["alter"] = [_fault() for _ in range(1_000)]
    with pytest.raises(ExecutionStopped, match=r"paused for 50 s: no answer: looking at the cluster"):
        _make_executor(cluster, tmp_path).execute(Direction.APPLY)
    assert not cluster.throttled_brokers


def test_rejected_partition_ends_the_execution_with_kafkas_message(tmp_path: Path) -> None:
    cluster = _Cluster()
    cluster.rejections = {_KEY: "InvalidReplicationAssignment: broker 3 is not registered"}
    with pytest.raises(ExecutionStopped) as stopped:
        _make_executor(cluster, tmp_path).execute(Direction.APPLY)
    assert str(stopped.value).splitlines() == [
        "Kafka rejects the reassignment of 1 partition: "
        "t-0 (InvalidReplicationAssignment: broker 3 is not registered).",
        "No reassignment of the plan was submitted. No throttle of the plan is left.",
        "Repeat the command to continue, or use --cancel or --rollback.",
    ]
    assert not cluster.throttled_brokers


@pytest.mark.parametrize(
    ("error", "is_lasting"),
    [
        ("[Error 44] PolicyViolationError: no throttles here", True),
        ("[Error 29] TopicAuthorizationFailedError: None", True),
        ("[Error 41] NotControllerError: None", False),
    ],
)
def test_rejected_throttle_ends_the_execution(tmp_path: Path, error: str, is_lasting: bool) -> None:
    cluster = _Cluster()
    alter = cluster.alter_topic_configs

    def reject(changes: Mapping[str, Mapping[str, str | None]]) -> dict[str, str]:
        if any(None not in configs.values() for configs in changes.values()):
            return dict.fromkeys(changes, error)
        return alter(changes)

    cluster.alter_topic_configs = reject  # type: ignore[method-assign]
    with pytest.raises(ExecutionStopped) as stopped:
        _make_executor(cluster, tmp_path).execute(Direction.APPLY)
    assert f"Kafka rejects the throttle of topic t: {error}" in str(stopped.value)
    assert ("paused for 50 s" in str(stopped.value)) is not is_lasting
    assert not cluster.throttled_brokers
    assert "alter" not in cluster.calls


def test_log_dir_that_a_broker_does_not_have_ends_the_execution(tmp_path: Path) -> None:
    cluster = _Cluster()
    cluster.log_dir_errors = {_KEY: "LogDirNotFound: /data-9 on broker 3"}
    with pytest.raises(ExecutionStopped, match=r"t-0 \(LogDirNotFound: /data-9 on broker 3\)"):
        _make_executor(cluster, tmp_path).execute(Direction.APPLY)
    assert "alter" not in cluster.calls
    assert not cluster.throttled_brokers


def test_reassignment_that_copies_nothing_ends_the_execution_and_stays_throttled(tmp_path: Path) -> None:
    cluster = _Cluster(steps=100_000)
    with pytest.raises(ExecutionStopped) as stopped:
        _make_executor(cluster, tmp_path).execute(Direction.APPLY)
    lines = str(stopped.value).splitlines()
    assert lines[0] == "nothing was copied for 50 s: t-0."
    assert lines[1].startswith(
        "1 reassignment of the plan is under way: t-0. Throttles stay set on brokers 1, 2, 3 and"
    )
    assert lines[3] == "To remove the throttles without this program, once the reassignments are over:"
    assert len(lines) == 4 + 3 + 1
    assert cluster.throttled_brokers == {1, 2, 3}


def test_cancellation_without_an_answer_is_repeated(tmp_path: Path) -> None:
    cluster = _Cluster(steps=100_000)
    cluster.alter_reassignments({_KEY: (1, 3)})
    cluster.faults["alter"] = [_fault(), _fault()]
    _make_cancellation(cluster, tmp_path).cancel()
    assert not cluster.moves
    cluster.alter_reassignments({_KEY: (1, 3)})
    cluster.faults["alter"] = [_fault() for _ in range(1_000)]
    with pytest.raises(ExecutionStopped, match=r"no answer, for 50 s.\n1 reassignment of the plan is under way: t-0"):
        _make_cancellation(cluster, tmp_path).cancel()


@pytest.mark.parametrize("direction", [Direction.APPLY, Direction.ROLLBACK, None])
def test_throttles_are_removed_though_the_journal_is_lost(tmp_path: Path, direction: Direction | None) -> None:
    """The rate is one that neither the plan nor an option names; broker 4 has a throttle of another tool."""
    cluster, lines = _Cluster(), list[str]()
    killed = _make_executor(cluster, tmp_path / "killed")
    killed._throttle.apply(1, 123, {_KEY: (1, 2)}, {_KEY: (1, 3)}, {1, 2, 3})
    cluster.alter_reassignments({_KEY: (1, 3)})
    cluster.rates[4] = {LEADER_RATE: "77"}
    if direction is None:
        _make(PlanCancellation, cluster, tmp_path / "copy", lines.append).cancel()
    else:
        _make_executor(cluster, tmp_path / "copy", lines.append).execute(direction)
    assert any("left throttles on brokers 1, 2, 3 and topic t: they will be removed" in line for line in lines)
    assert {id_: rates[LEADER_RATE] for id_, rates in cluster.rates.items()} == {1: None, 2: None, 3: None, 4: "77"}
    assert not any(value for configs in cluster.topic_configs.values() for value in configs.values())


def test_states_of_a_plan(tmp_path: Path) -> None:
    cluster = _Cluster()
    executor = _make_executor(cluster, tmp_path)

    def get_state() -> PlanState:
        return _verify(cluster, executor._look()).state

    assert get_state() is PlanState.NOT_APPLIED
    cluster.rates[1] = {LEADER_RATE: "5"}
    assert get_state() is PlanState.THROTTLED
    cluster.lists[_KEY] = (1, 3)
    assert get_state() is PlanState.PARTLY_APPLIED
    assert _verify(cluster, executor._look()).waves_left == (3,)
    cluster.lists[_KEY] = (7, 8)
    assert get_state() is PlanState.PARTLY_APPLIED
    cluster.lists[_KEY] = (4, 3)
    assert get_state() is PlanState.THROTTLED
    cluster.rates.clear()
    assert get_state() is PlanState.APPLIED
    cluster.moves[_KEY] = ((1, 2), 100)
    assert get_state() is PlanState.PARTLY_APPLIED
    assert _verify(cluster, executor._look()).returning == (_KEY,)
    cluster.moves.clear()
    cluster.leaders[_KEY] = 3
    assert get_state() is PlanState.PARTLY_APPLIED  # its planned election is missing
    cluster.lists.clear()
    assert get_state() is PlanState.NOT_APPLIED  # its topic was deleted


def test_state_of_a_plan_that_only_elects(tmp_path: Path) -> None:
    cluster = _Cluster()
    view = _make_executor(cluster, tmp_path)._look()
    steps, none = PlannedSteps({}, 0), EarlierConfigs()
    assert verify_plan(cluster, steps, [_KEY], view, none, none).state is PlanState.APPLIED  # type: ignore[arg-type]
    cluster.leaders[_KEY] = 2
    view = _make_executor(cluster, tmp_path)._look()
    assert verify_plan(cluster, steps, [_KEY], view, none, none).state is PlanState.NOT_APPLIED  # type: ignore[arg-type]


def test_silent_broker_leaves_the_state_unknown(tmp_path: Path) -> None:
    cluster = _Cluster()
    view = _make_executor(cluster, tmp_path)._look()
    cluster.silent = {2}
    assert _verify(cluster, view).state is PlanState.UNKNOWN
    assert _verify(cluster, view).unanswered_brokers == (2,)


def test_throttle_of_a_broker_that_is_down_is_left(tmp_path: Path) -> None:
    """It returns with the broker."""
    cluster = _Cluster((1, 2, 3))
    cluster.lists[_KEY] = (4, 3)
    outstanding = EarlierConfigs({3: {LEADER_RATE: None}, 4: {LEADER_RATE: "77"}})
    verification = _verify(cluster, _make_executor(cluster, tmp_path)._look(), None, outstanding)
    assert verification.state is PlanState.THROTTLED
    assert verification.throttled.brokers == {4: {LEADER_RATE: "77"}}


def test_every_live_broker_has_to_answer(tmp_path: Path) -> None:
    """Also those that the plan does not need: requests to the controller may go to any of them."""
    cluster = _Cluster((1, 2, 3, 4, 5, 6))
    view = _make_executor(cluster, tmp_path)._look()
    check_answers({}, "b1:9092")
    cluster.silent = {2, 6}
    silent = read_throttles(cluster, _STEPS, view, view.live_brokers).unanswered  # type: ignore[arg-type]
    with pytest.raises(SourceError) as error:
        check_answers(silent, "b1:9092")
    assert str(error.value).startswith(
        "b1:9092: brokers 2, 6 do not answer, though the cluster lists them as live (broker 2 at h:1: no answer; "
        "broker 6 at h:1: no answer). Nothing was changed. Start what has just failed; else make the listeners "
    )


def test_cluster_that_does_not_answer_names_its_silent_brokers(tmp_path: Path) -> None:
    """As where the broker that passes requests on to the controller is one of them."""
    cluster = _Cluster()
    executor = _make_executor(cluster, tmp_path)
    cluster.faults["list"] = [_fault() for _ in range(1_000)]
    cluster.silent = {3}
    with pytest.raises(
        ExecutionStopped,
        match=r"no answer; broker 3 does not answer, though the cluster lists it as live \(broker 3 at",
    ):
        executor.execute(Direction.APPLY)


def test_order_that_kafka_does_not_restore_names_its_error(tmp_path: Path) -> None:
    cluster = _Cluster()
    cluster.lists[_KEY] = (2, 1)
    cluster.rejections = {_KEY: "InvalidReplicationAssignment: not now"}
    Journal.open(tmp_path).write(CANCEL, partitions=[["t", 0]], origins=[["t", 0, [1, 2]]])
    with pytest.raises(ExecutionStopped, match=r"could not be restored: t-0 \(InvalidReplicationAssignment: not now\)"):
        _make_cancellation(cluster, tmp_path).cancel()


def test_reassignment_of_another_tool_is_not_the_plans(tmp_path: Path) -> None:
    cluster = _Cluster()
    cluster.moves[_KEY] = ((8, 9), 100_000)
    with pytest.raises(
        ExecutionStopped, match=r"1 partition was changed by another tool .*\nNo reassignment of the plan was submitted"
    ):
        _make_executor(cluster, tmp_path).execute(Direction.APPLY)


def test_brokers_are_cordoned_once_no_later_list_names_them(tmp_path: Path) -> None:
    """Kafka 4.4 rejects such lists. The earlier value comes back before the rollback, and not twice."""
    cluster, lines = _Cluster(), list[str]()
    cluster.rates = {1: {CORDONED_LOG_DIRS: "/a"}}

    def execute(direction: Direction) -> None:
        executor = _make_executor(cluster, tmp_path, lines.append)
        executor.steps = replace(_STEPS, emptied_brokers=frozenset({1, 2}))
        executor.options = replace(executor.options, cordons=True, throttle_bytes_per_s=None)
        executor.execute(direction)

    alter = cluster.alter_reassignments
    seen: list[dict[int, str | None]] = []

    def note(targets: Mapping[Key, Sequence[int] | None]) -> dict[Key, str]:
        seen.append({id_: one.get(CORDONED_LOG_DIRS) for id_, one in sorted(cluster.rates.items())})
        return alter(targets)

    cluster.alter_reassignments = note  # type: ignore[method-assign]
    execute(Direction.APPLY)
    assert seen == [{1: "/a", 2: "*"}, {1: "*", 2: "*"}]  # the first wave leads to [1, 3]
    assert "broker 2 is cordoned: it gets no new replicas" in lines
    execute(Direction.APPLY)  # again: nothing is left to do
    earlier = Journal.open(tmp_path).find_earlier_configs(CORDON).brokers
    assert earlier == {1: {CORDONED_LOG_DIRS: "/a"}, 2: {CORDONED_LOG_DIRS: None}}
    assert not Journal.open(tmp_path).find_earlier_configs()
    seen.clear()
    execute(Direction.ROLLBACK)
    assert seen == [{1: "/a", 2: None}] * 2
    assert cluster.lists[_KEY] == (1, 2)
    assert not Journal.open(tmp_path).find_earlier_configs(CORDON)


def test_a_cancellation_uncordons(tmp_path: Path) -> None:
    """As Kafka rejects the list that restores the order of replicas."""
    cluster = _Cluster()
    executor = _make_executor(cluster, tmp_path)
    executor._cordon.apply({2})
    assert executor.describe_rest()[0].endswith("No throttle of the plan is left. Broker 2 is cordoned.")
    _make_cancellation(cluster, tmp_path).cancel()
    assert cluster.rates == {2: {CORDONED_LOG_DIRS: None}}


def test_brokers_that_are_down_stay_cordoned_until_they_are_back(tmp_path: Path) -> None:
    cluster, lines = _Cluster(), list[str]()
    _make_executor(cluster, tmp_path)._cordon.apply({3, 4})
    cluster.brokers.remove(4)
    _make_executor(cluster, tmp_path, lines.append).execute(Direction.ROLLBACK)
    assert "warning: the cordon of broker 4 was not removed: it is down, or does not answer" in lines
    assert list(Journal.open(tmp_path).find_earlier_configs(CORDON).brokers) == [4]


def _make_quorum(*caught_up_ms: int, end: int = 50) -> Quorum:
    """Voters 100, 101, ..., of which the first leads."""
    nodes = (QuorumNode(100 + n, None, True, end, at, at, ()) for n, at in enumerate(caught_up_ms))
    return Quorum(100, tuple(nodes))


def test_execution_pauses_while_one_more_voter_may_not_fail(tmp_path: Path) -> None:
    cluster, said = _Cluster(), list[str]()
    weak, strong = _make_quorum(90_000, 89_000, 60_000), _make_quorum(90_000, 89_000, 89_500)
    cluster.quorums = [strong] * 3 + [weak] * 2
    _make_executor(cluster, tmp_path, said.append).execute(Direction.APPLY)
    assert cluster.lists[_KEY] != (1, 2)
    reason = "1 of 3 voters of the controller quorum is down or lags (102): one more failure would leave no controller"
    assert said.count(f"  paused: {reason}") == said.count("  continuing") == 1


def test_execution_pauses_while_no_controller_describes_the_quorum(tmp_path: Path) -> None:
    cluster, said = _Cluster(), list[str]()
    cluster.faults["quorum"] = [KafkaFault("b1:9092", "no answer about the controller quorum", "Restart it")]
    _make_executor(cluster, tmp_path, said.append).execute(Direction.APPLY)
    assert said.count("  paused: no answer about the controller quorum") == said.count("  continuing") == 1


def test_a_cancellation_does_not_read_the_quorum(tmp_path: Path) -> None:
    cluster = _Cluster()
    cluster.quorums = [_make_quorum(9, 9, 9)] * 9
    _make_cancellation(cluster, tmp_path).cancel()
    assert len(cluster.quorums) == 9


def test_quorum_that_never_had_a_spare_voter_does_not_pause() -> None:
    for quorum, lagging in (
        (_make_quorum(9), ()),
        (_make_quorum(9, 9), ()),
        (_make_quorum(9, 9, 9, end=-1), (100, 101, 102)),
    ):
        assert quorum.voters.lagging == lagging
        assert quorum.voters.is_weak is bool(lagging)
