"""Applies stored plans to running clusters: previews, executes, rolls back, cancels and verifies them."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from pipelines import __version__
from pipelines.errors import SettingsError, SourceError
from pipelines.execution.cluster_view import ClusterView, view_cluster
from pipelines.execution.execution_lock import lock_cluster
from pipelines.execution.journal import BEGIN, Journal
from pipelines.execution.plan_executor import ExecutionOptions, PlanExecutor
from pipelines.execution.plan_verification import Verification, read_rates, verify_plan
from pipelines.execution.plan_waves import Direction, PlanWaves
from pipelines.execution.preflight import (
    WaveWork,
    check_identity,
    check_topics,
    find_problems,
    find_unchecked_disks,
    list_work,
)
from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.sources import Source
from pipelines.live.cluster_reader import read_cluster
from pipelines.live.kafka_changes import KafkaAdmin
from pipelines.plan_files.plan_check import PlanProgress, PlanStatus, check_plan
from pipelines.plan_files.plan_creation import build_snapshot_model
from pipelines.plan_files.plan_reader import StoredPlan, read_plan
from udfs.failures.topic_defaults import TopicDefaults


class PlanPreview(NamedTuple):
    """What `--execute` would do now. problems: what forbids it."""

    progress: PlanProgress
    work: list[WaveWork]
    problems: list[str]
    throttled_brokers: tuple[int, ...]  # with a throttle that the journal does not know
    unchecked_disks: list[str]  # log dirs of target brokers whose room is not known

    @property
    def is_under_way(self) -> bool:
        """Whether partitions of the plan are being reassigned."""
        return self.progress.status is PlanStatus.IN_FLIGHT


@dataclass
class PlanApplication:
    """A stored plan, and the running cluster that it is for.

    Raises, in all methods: KafkaFault if the cluster does not answer; SourceError if it is not the plan's.
    """

    folder: Path
    connection: KafkaAdmin
    say: Callable[[str], None]
    pause: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        self.plan: StoredPlan = read_plan(self.folder)
        self.steps = PlanWaves.of_plan(self.plan)
        self.journal = Journal.open(self.folder)

    def preview(self, options: ExecutionOptions, defaults: TopicDefaults) -> PlanPreview:
        """Check everything that `execute` would check, and change nothing."""
        view = self._view()
        check_topics(self.plan, view, self.connection.servers)
        with TemporaryDirectory() as folder:
            reading = read_cluster(self.connection, pause=self.pause)
            files = reading.write_files(Path(folder))
            snapshot = load_snapshot(Source(self.plan.cluster, tuple(files)))
        progress = check_plan(self.plan, build_snapshot_model(snapshot, defaults), snapshot.partitions, defaults)
        topics = sorted({topic for topic, _ in self.steps.partitions} & view.topic_ids.keys())
        throttles = options.throttle_bytes_per_s is not None
        missing = self.connection.list_missing_permissions(topics, configs=throttles)
        work = list_work(self.steps, view, reading.log_dirs)
        problems = find_problems(self.steps, view, reading.log_dirs, missing)
        begun = self.journal.last_begin
        if begun is not None and self._is_open and begun["direction"] == Direction.ROLLBACK:
            problems.append("a rollback of this plan has not ended. End it first, with --rollback or --cancel")
        if not self._is_open and progress.status is PlanStatus.CHANGED:
            problems.append("the cluster has changed since the plan was made; apply without --execute shows how")
        rates, _ = read_rates(self.connection, self.steps, view)
        own = self.journal.find_earlier_configs().brokers
        throttled = tuple(broker for broker, configs in rates.items() if configs and broker not in own)
        unchecked = find_unchecked_disks(self.steps, view, reading.log_dirs)
        return PlanPreview(progress, work, problems, throttled, unchecked)

    @property
    def _is_open(self) -> bool:
        """Whether an execution has not ended."""
        return self.journal.last_begin is not None and self.journal.last_end is None

    def execute(self, options: ExecutionOptions, defaults: TopicDefaults) -> bool:
        """Carry out the plan, or the rest of it. Returns: whether there was anything to do.

        Raises: SettingsError if it must not be executed now; ExecutionStopped if it cannot go on.
        """
        preview = self.preview(options, defaults)
        if preview.problems:
            raise SettingsError(*(f"{self.connection.servers}: {problem}" for problem in preview.problems))
        is_done = preview.progress.status is PlanStatus.DONE and not preview.progress.pending_elections
        if is_done and not self._is_open and not self.journal.find_earlier_configs():
            return False
        with self._locked():
            self._executor(Direction.APPLY, options).execute(Direction.APPLY)
        return True

    def describe_journal(self) -> str | None:
        """Describe an execution that has not ended, and throttles that are left; None without either."""
        begun, outstanding = self.journal.last_begin, self.journal.find_earlier_configs()
        parts = []
        if begun is not None and self._is_open:
            parts.append(f"{begun['direction']} began at {begun['at']} and has not ended")
        if outstanding:
            names = [f"broker {id_}" for id_ in sorted(outstanding.brokers)] + sorted(outstanding.topics)
            parts.append(f"throttles are set on {', '.join(names[:10])}")
        return "; ".join(parts) or None

    def roll_back(self, options: ExecutionOptions) -> None:
        """Return to the assignment before the plan. Raises: ExecutionStopped if that cannot be finished."""
        view = self._view()
        topics = sorted({topic for topic, _ in self.steps.partitions} & view.topic_ids.keys())
        throttles = options.throttle_bytes_per_s is not None
        if missing := self.connection.list_missing_permissions(topics, configs=throttles):
            raise SettingsError(f"{self.connection.servers}: the user lacks permissions: {', '.join(missing[:5])}")
        with self._locked():
            self._executor(Direction.ROLLBACK, options).execute(Direction.ROLLBACK)

    def cancel(self, options: ExecutionOptions) -> None:
        """Cancel the plan's reassignments that are under way. Raises: ExecutionStopped if Kafka cannot cancel one."""
        self._view()
        with self._locked():
            self._executor(None, options).cancel()

    def verify(self) -> Verification:
        """Compare the cluster with the plan, and its throttles with those before it."""
        return verify_plan(self.connection, self.steps, self._view(), Journal.open(self.folder).find_restored_configs())

    def _view(self) -> ClusterView:
        view = view_cluster(self.connection, self.pause)
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

    def _locked(self) -> Any:
        return lock_cluster(self._cluster_id or self.plan.cluster)

    def _executor(self, direction: Direction | None, options: ExecutionOptions) -> PlanExecutor:
        """Make an executor, and begin or continue the journal."""
        self.journal = Journal.open(self.folder)  # now that no other process writes to it
        self.journal.repair()
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
        return PlanExecutor(
            self.connection,
            self.steps,
            self.plan.election,
            self.plan.topic_ids,
            self.journal,
            options,
            self.say,
            self.pause,
        )
