"""Applies stored plans to running clusters: previews, executes, rolls back, cancels and verifies them."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pipelines import __version__
from pipelines.config.setting_sections import Settings
from pipelines.errors import SettingsError, SourceError
from pipelines.execution.broker_cordons import explain_no_cordons, find_rejections
from pipelines.execution.cluster_execution import ClusterExecution, ExecutionOptions
from pipelines.execution.cluster_view import ClusterView, explain_fault, explain_weak_quorum, view_cluster
from pipelines.execution.copy_pace import make_steps
from pipelines.execution.copy_progress import get_replica_sizes
from pipelines.execution.journal import BEGIN, CORDON, EarlierConfigs, Journal, leave_throttle, take_throttle
from pipelines.execution.plan_cancellation import PlanCancellation
from pipelines.execution.plan_executor import PlanExecutor
from pipelines.execution.plan_verification import Verification, verify_plan
from pipelines.execution.planned_steps import NO_PACE, CopyPace, Direction
from pipelines.execution.preflight import (
    WaveWork,
    check_answers,
    check_identity,
    check_topics,
    explain_changed,
    find_lost_places,
    find_problems,
    find_unchecked_disks,
    find_window_problem,
    list_changed,
    list_irreversible,
    list_work,
    measure_disks,
)
from pipelines.execution.replication_throttle import find_foreign, find_left_throttles, name_throttled, read_throttles
from pipelines.ingest.snapshot_reader import Snapshot
from pipelines.live.cluster_reader import ClusterReading
from pipelines.live.kafka_changes import KafkaAdmin
from pipelines.live.kafka_connection import KafkaFault, Key
from pipelines.live.live_sources import read_snapshot
from pipelines.plan_files.consecutive_plans import check_after
from pipelines.plan_files.plan_check import PlanProgress, PlanStatus
from pipelines.plan_files.plan_creation import build_snapshot_model
from pipelines.plan_files.plan_reader import StoredPlan, read_plan

_E = TypeVar("_E", bound=ClusterExecution)
_PAUSES_S = (0.5, 1.0, 2.0)  # before further looks, where brokers do not show a new leader or config yet


class PlanPreview(NamedTuple):
    """What `--execute` would do now. problems: what forbids it."""

    progress: PlanProgress
    work: list[WaveWork]
    problems: list[str]
    foreign: EarlierConfigs  # throttles that are not the plan's
    left: EarlierConfigs  # throttles of an earlier execution of the plan, which its journal may not know
    is_open: bool  # whether the journal has an execution that has not ended
    warnings: list[str]  # on log dirs of target brokers whose room is not known
    cordons: tuple[int, ...] = ()  # brokers that are to be cordoned
    level: str = ""  # how the plan was judged when it was made
    pace: CopyPace = NO_PACE  # of the times of its waves

    @property
    def is_under_way(self) -> bool:
        """Whether partitions of the plan are being reassigned."""
        return any(move.planned for move in self.progress.in_flight)

    @property
    def is_done(self) -> bool:
        """Whether there is nothing to do."""
        progress = self.progress
        is_applied = progress.status is PlanStatus.DONE and not progress.pending_elections
        return is_applied and not self.left and not self.is_open

    @property
    def fits_no_longer(self) -> bool:
        """Whether the cluster has changed, but so that what is left of the plan can be carried out."""
        return self.progress.status is PlanStatus.CHANGED and self.is_open and not self.problems


class RollbackPreview(NamedTuple):
    """What `--rollback --execute` would do now. problems: what forbids it."""

    work: list[WaveWork]
    irreversible: list[Key]  # partitions that stay, as brokers of their earlier replicas are down
    problems: list[str]
    foreign: EarlierConfigs  # as in PlanPreview


@dataclass
class PlanApplication:
    """A stored plan, and the running cluster that it is for.

    Raises, in all methods: KafkaFault if the cluster does not answer; SourceError if it is not the plan's.
    """

    folder: Path
    connection: KafkaAdmin
    say: Callable[[str], None]
    pause: Callable[[float], None] = time.sleep
    other_plans: Iterable[Path] = ()  # folders of plans for the cluster, whose journals show how long copies take

    def __post_init__(self) -> None:
        self.plan: StoredPlan = read_plan(self.folder)
        self.steps = make_steps(self.plan, [self.folder, *self.other_plans])
        self.journal = Journal.open(self.folder)
        self._running: ClusterExecution | None = None
        self._cluster_id: str | None = None  # of the cluster, once it was seen

    def preview(self, options: ExecutionOptions, settings: Settings) -> PlanPreview:
        """Check everything that `execute` would check, and change nothing."""
        view = self._view()
        check_topics(self.plan, view, self.connection.servers)
        left, others = self._find_throttles(view)
        is_used = self.lock_holder not in (None, f"process {os.getpid()}")
        left = EarlierConfigs() if is_used else left
        snapshot, reading, progress = self._check(settings)
        missing = self._list_missing_permissions(view, options)
        disks = measure_disks(snapshot, reading.log_dirs, settings)
        rate = options.throttle_bytes_per_s
        work = list_work(self.steps, view, disks.sizes, rate, present=get_replica_sizes(disks.log_dirs))
        problems = find_problems(self.steps, view, disks, missing, options.window.waves)
        if is_used:
            problems.insert(0, _explain_lock(self._cluster_id or self.plan.cluster))
        if weakness := explain_weak_quorum(self.connection):
            problems.append(f"{weakness}. Restart what is down first")
        if (begun := self.journal.last_begin) and self.journal.is_open and begun["direction"] == Direction.ROLLBACK:
            problems.append("a rollback of this plan has not ended. End it first, with --rollback or --cancel")
        if not self.journal.is_open and progress.status is PlanStatus.CHANGED:
            problems.append("the cluster has changed since the plan was made")
        elif foreign := self._find_foreign(progress):
            problems.append(explain_changed(foreign, Direction.APPLY))
        if options.cordons:
            own = None if self.steps.emptied_brokers else "--cordon is for plans that empty brokers. Leave it out"
            problems += filter(None, [own or explain_no_cordons(self.connection)])
        rest, config, none = self.steps.end_with(options.window.waves.last), options.command_config, EarlierConfigs()
        problems += find_rejections(rest, view, self.connection, reading.log_dirs, Direction.APPLY, none, config)
        problems += filter(None, [find_window_problem(self.steps, view, Direction.APPLY, options.window, rate)])
        warnings = find_unchecked_disks(rest, view, disks)
        cordons = tuple(sorted(self.steps.find_unlisted(self.steps.waves))) if options.cordons else ()
        seen = (progress, work, problems, others, left, self.journal.is_open, warnings, cordons)
        return PlanPreview(*seen, self.plan.level, self.steps.pace)

    def _list_missing_permissions(self, view: ClusterView, options: ExecutionOptions) -> list[str]:
        topics = sorted({topic for topic, _ in self.steps.partitions} & view.topic_ids.keys())
        configs = options.cordons or options.throttle_bytes_per_s is not None
        return self.connection.list_missing_permissions(topics, configs=configs)

    def _find_throttles(self, view: ClusterView) -> tuple[EarlierConfigs, EarlierConfigs]:
        """Find what is left of the plan's throttles, and those of other tools.

        Raises: SourceError if a live broker of the cluster does not answer.
        """
        throttles = read_throttles(self.connection, self.steps, view, view.unfenced_brokers)
        check_answers(throttles.unanswered, self.connection.servers)
        known, restored = self.journal.find_earlier_configs(), self.journal.find_restored_configs()
        left = find_left_throttles(self.steps, throttles, restored).without(known)
        left = EarlierConfigs(known.brokers | left.brokers, known.topics | left.topics)
        return left, find_foreign(self.steps, throttles, left)

    def _find_foreign(self, progress: PlanProgress) -> list[Key]:
        """Find partitions of the plan with replicas that are neither the plan's nor left of an ended cancellation."""
        cancelled = self.journal.find_cancelled_lists()
        keys = [(one.topic, one.partition) for one in progress.changed_partitions if one.now is not None]
        return [key for key in keys if key in self.steps.partitions and key not in cancelled]

    def execute(self, options: ExecutionOptions, settings: Settings) -> list[int] | None:
        """Carry out the plan, or the rest of it. Returns: the waves that are left; None if there was nothing to do.

        Raises: SettingsError if it must not be executed now; ExecutionStopped if it cannot go on.
        """
        self._view()
        with self._locked():  # before a look at what another process changes
            preview = self.preview(options, settings)
            if preview.problems:
                problems = [f"{self.connection.servers}: {problem}" for problem in preview.problems]
                if preview.fits_no_longer or preview.progress.status is PlanStatus.CHANGED:
                    problems.append("apply without --execute shows what has changed")
                if preview.left:
                    names = name_throttled(preview.left)
                    problems.append(f"throttles of this plan are left on {names}: --cancel removes them")
                raise SettingsError(*problems)
            if preview.is_done:
                return None
            return self._begin(PlanExecutor, Direction.APPLY, options).execute(Direction.APPLY)

    def describe_journal(self) -> str | None:
        """Describe an execution that has not ended, and throttles that are left; None without either."""
        outstanding = self.journal.find_earlier_configs()
        cordons = self.journal.find_earlier_configs(CORDON)
        process = self.running_process
        parts = [
            self.journal.describe_open(),
            None if process is None else f"process {process} of this machine carries it on",
            f"throttles are set on {name_throttled(outstanding)}" if outstanding else None,
            f"{name_throttled(cordons)} cordoned, which --rollback undoes" if cordons else None,
        ]
        return "; ".join(filter(None, parts)) or None

    @property
    def running_process(self) -> int | None:
        """The id of the process of this machine that carries the plan on; None without one."""
        process = (self.journal.last_begin or {}).get("process")
        return None if process is None or self.lock_holder != f"process {process}" else int(process)

    @property
    def lock_holder(self) -> str | None:
        """The process of this machine that carries out a plan on the cluster, this one or another; None without one."""
        begun = self.journal.last_begin
        return _find_holder(self._cluster_id or (begun and begun["kafka_cluster_id"]) or self.plan.cluster)

    def roll_back(self, options: ExecutionOptions) -> list[int]:
        """Return to the assignment before the plan. Returns: the waves that are left to roll back.

        Raises: ExecutionStopped if that cannot be finished.
        """
        view = self._view()
        with self._locked():
            self._find_throttles(view)
            if problems := self._find_rollback_problems(view, options):
                raise SettingsError(*(f"{self.connection.servers}: {problem}" for problem in problems))
            return self._begin(PlanExecutor, Direction.ROLLBACK, options).execute(Direction.ROLLBACK)

    def preview_rollback(self, options: ExecutionOptions, settings: Settings) -> RollbackPreview:
        """Check everything that `roll_back` would check, and change nothing."""
        view = self._view()
        problems, (_, others) = self._find_rollback_problems(view, options), self._find_throttles(view)
        snapshot, reading = read_snapshot(self.connection, self.plan.cluster, self.pause)
        sizes, rate = measure_disks(snapshot, reading.log_dirs, settings).sizes, options.throttle_bytes_per_s
        work = list_work(self.steps, view, sizes, rate, Direction.ROLLBACK)
        return RollbackPreview(work, sorted(list_irreversible(self.steps, view)), problems, others)

    def _find_rollback_problems(self, view: ClusterView, options: ExecutionOptions) -> list[str]:
        missing, rate = self._list_missing_permissions(view, options), options.throttle_bytes_per_s
        known = view.without_recreated(self.plan.topic_ids)
        left_out = list_irreversible(self.steps, known) | self.journal.find_cancelled_lists().keys()
        changed = [key for key in list_changed(self.steps, known, options.window.waves) if key not in left_out]
        problems = (
            explain_changed(changed, Direction.ROLLBACK) if changed else None,
            find_window_problem(self.steps, view, Direction.ROLLBACK, options.window, rate),
            find_lost_places(self.steps, view, self.connection),
            f"the user lacks permissions: {', '.join(missing[:5])}" if missing else None,
        )
        log_dirs: dict[int, list[dict[str, Any]]] = {}
        has_cordons = explain_no_cordons(self.connection) is None
        for broker in self.steps.brokers & view.live_brokers if has_cordons else ():
            with suppress(KafkaFault):  # the user may not see log dirs
                log_dirs[broker] = self.connection.describe_log_dirs(broker)
        cordons, config = self.journal.find_earlier_configs(CORDON), options.command_config
        rejected = find_rejections(self.steps, view, self.connection, log_dirs, Direction.ROLLBACK, cordons, config)
        return [*filter(None, problems), *rejected]

    def cancel(self, options: ExecutionOptions) -> None:
        """Cancel the plan's reassignments that are under way. Raises: ExecutionStopped if Kafka cannot cancel one."""
        self._view()
        with self._locked():
            self._begin(PlanCancellation, None, options).cancel()

    def change_throttle(self, rate: int | None) -> int:
        """Have the execution that runs on this machine use another throttle, or none. Returns: the id of its process.

        Raises: SettingsError if none runs.
        """
        process = self.running_process
        if process is None:
            raise SettingsError(f"{self.folder}: no execution of it runs on this machine. Start one with --execute")
        leave_throttle(self.folder, rate)
        return process

    def verify(self, settings: Settings) -> Verification:
        """Compare the cluster with the plan, and its throttles with those before it."""
        journal = Journal.open(self.folder)
        configs = (journal.find_restored_configs(), journal.find_earlier_configs())
        for pause_s in (*_PAUSES_S, None):
            view = self._view().without_recreated(self.plan.topic_ids)
            verification = verify_plan(self.connection, self.steps, self.plan.election, view, *configs)
            if pause_s is None or not (verification.not_elected or verification.throttled):
                break
            self.pause(pause_s)
        if not (verification.differing and self.plan.preceding_plans):
            return verification
        return replace(verification, undone_plans=self._check(settings)[2].undone_plans)

    def _check(self, settings: Settings) -> tuple[Snapshot, ClusterReading, PlanProgress]:
        """Return a snapshot of the cluster, how it was read, and how far the plan is there."""
        snapshot, reading = read_snapshot(self.connection, self.plan.cluster, self.pause)
        defaults = settings.topics.defaults
        model = build_snapshot_model(snapshot, defaults)
        return snapshot, reading, check_after(self.plan, model, snapshot.partitions, defaults)

    def find_drained(self) -> dict[int, list[Key]]:
        """Find the replicas that the registered brokers which the plan empties still have, of any topic."""
        drained, view = {}, self._view()
        for broker in sorted({one.id for one in view.state.brokers} & set(self.plan.emptied_brokers)):
            keys = {key for key, partition in view.partitions.items() if broker in partition.replicas}
            with suppress(KafkaFault):  # its logs also show topics that the user may not describe
                keys |= {key for _, key in get_replica_sizes({broker: self.connection.describe_log_dirs(broker)})}
            drained[broker] = sorted(keys)
        return drained

    def describe_rest(self) -> list[str]:
        """Say what a command that is interrupted now leaves behind: lines."""
        if self._running is None:
            return ["This command has changed nothing."]
        return self._running.describe_rest()

    def _view(self) -> ClusterView:
        try:
            view = view_cluster(self.connection, self.pause, self.steps.log_brokers)
        except KafkaFault as error:
            raise explain_fault(self.connection, error) from None
        check_identity(self.plan, view, self.connection.servers)
        begun = self.journal.last_begin
        if begun is not None and begun["kafka_cluster_id"] not in (None, view.state.cluster_id):
            problem = f"this is cluster {view.state.cluster_id}, but the journal is of {begun['kafka_cluster_id']}"
            raise SourceError(self.connection.servers, problem, "Name a broker of that cluster")
        missing = {topic for topic, _ in self.steps.partitions} - view.topic_ids.keys()
        if hidden := self.connection.list_hidden_topics(sorted(missing)):
            problem = f"the user may not describe topics of the plan, which look deleted: {', '.join(hidden[:5])}"
            raise SourceError(self.connection.servers, problem, "Grant the user Describe on them")
        self._cluster_id = view.state.cluster_id
        return view

    def _locked(self) -> AbstractContextManager[None]:
        return lock_cluster(self._cluster_id or self.plan.cluster)

    def _begin(self, kind: type[_E], direction: Direction | None, options: ExecutionOptions) -> _E:
        """Make an execution, and begin or continue the journal."""
        self.journal = Journal.open(self.folder)  # now that no other process writes to it
        self.journal.repair()
        take_throttle(self.folder)  # for an execution that has ended
        self.journal.write(
            BEGIN,
            direction=direction or "cancel",
            kafka_cluster_id=self._cluster_id,
            cluster=self.plan.cluster,
            plan=self.plan.sha256,
            waves=self.steps.waves,
            partitions=len(self.steps.partitions),
            throttle_bytes_per_s=options.throttle_bytes_per_s,
            host=socket.gethostname(),
            process=os.getpid(),
            program=__version__,
        )
        self._running = execution = kind(
            self.connection,
            self.steps,
            self.plan.rollback_election if direction is Direction.ROLLBACK else self.plan.election,
            self.plan.topic_ids,
            self.journal,
            options,
            self.say,
            self.pause,
        )
        return execution


@contextmanager
def lock_cluster(cluster_id: str) -> Iterator[None]:
    """Hold the lock of a cluster. Raises: SettingsError if another process of this machine holds it."""
    path = _find_lock(cluster_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SettingsError(_explain_lock(cluster_id)) from None
        file.truncate(0)
        file.write(f"process {os.getpid()}")
        file.flush()
        yield


def _explain_lock(cluster_id: str) -> str:
    problem = f"{_find_holder(cluster_id) or 'another process'} is applying a plan to cluster {cluster_id}"
    return f"{problem} (lock: {_find_lock(cluster_id)}). Wait for it, or stop it first"


def _find_lock(cluster_id: str) -> Path:
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "kafka-placement"
    return folder / f"{cluster_id}.lock"


def _find_holder(cluster_id: str) -> str | None:
    """Name the process of this machine that holds the lock of a cluster; None without one."""
    with suppress(FileNotFoundError), _find_lock(cluster_id).open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return file.read().strip() or "another process"
    return None
