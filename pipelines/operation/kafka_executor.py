"""Carries out the plan of a proposal on its running cluster, as `apply` does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from pipelines.config.setting_sections import Settings
from pipelines.errors import KafkaPlacementError
from pipelines.execution.cluster_execution import ExecutionOptions
from pipelines.execution.plan_application import PlanApplication, PlanPreview
from pipelines.execution.plan_verification import PlanState
from pipelines.execution.wave_window import WaveWindow
from pipelines.live.kafka_changes import KafkaAdmin
from pipelines.operation.operating import Obstacles, Outcome
from pipelines.plan_files.plan_check import PlanStatus
from udfs.wording import count_of

# Beginnings of the names of topics that balancers keep.
_BALANCERS = {
    "__CruiseControl": "Cruise Control",
    "__KafkaCruiseControl": "Cruise Control",
    "strimzi.cruisecontrol.": "Cruise Control of Strimzi",
    "_confluent_balancer_": "Confluent's Self-Balancing",
}


@dataclass(frozen=True)
class KafkaExecutor:
    """The plan in a folder, and the cluster that it is for."""

    plan_folder: Path
    connection: KafkaAdmin
    settings: Settings
    say: Callable[[str], None]
    command_config: Path | None = None
    other_plans: Sequence[Path] = ()  # folders of the plans of other proposals for the cluster

    def _open(self, until: datetime | None = None) -> tuple[PlanApplication, ExecutionOptions]:
        application = PlanApplication(self.plan_folder, self.connection, self.say, other_plans=self.other_plans)
        options = ExecutionOptions(application.plan.throttle_bytes_per_s, command_config=self.command_config)
        if until is not None:  # a pause does not outlast the window
            pause_s = max((until - datetime.now(UTC)).total_seconds(), 0.0)
            options = replace(options, window=WaveWindow(until=until), max_pause_s=pause_s)
        return application, options

    def find_obstacles(self) -> Obstacles:
        """Find why `apply` would not begin, and what another balancer does."""
        try:
            application, options = self._open()
            preview = application.preview(options, self.settings)
        except KafkaPlacementError as error:
            return Obstacles(waits=tuple(map(str, error.args)))
        if not preview.is_open and preview.progress.status is PlanStatus.CHANGED:
            return Obstacles("the cluster has changed since the plan was made")
        return Obstacles(waits=(*preview.problems, *self._find_balancing(preview)))

    def _find_balancing(self, preview: PlanPreview) -> Iterable[str]:
        """Yield what other tools do on the cluster now, and name balancers that it has."""
        foreign = [move for move in preview.progress.in_flight if not (move.planned or move.rolls_back)]
        work = [f"{count_of(len(foreign), 'reassignment')} of another tool run"] if foreign else []
        work += ["throttles of another tool are set"] if preview.foreign else []
        if work:
            topics, _ = self.connection.describe_topics()
            names = {name for topic in topics for name in _name_balancers(topic.name)}
            yield " and ".join(work) + (f" (the cluster has topics of {', '.join(sorted(names))})" if names else "")

    def execute(self, until: datetime) -> Outcome:
        """Carry out the waves that end before a moment, and compare the cluster with the plan at the end."""
        try:
            application, options = self._open(until)
            left = application.execute(options, self.settings)
            if left:
                return Outcome(left)
            state = application.verify(self.settings).state
        except KafkaPlacementError as error:
            return Outcome(problem="; ".join(map(str, error.args)))
        is_applied = state is PlanState.APPLIED
        return Outcome(problem="" if is_applied else f"after the last wave the cluster is not as planned: {state}")

    def roll_back(self) -> Outcome:
        """Return to the assignment before the plan."""
        try:
            application, options = self._open()
            left = application.roll_back(options)
            is_done = application.verify(self.settings).is_rolled_back
        except KafkaPlacementError as error:
            return Outcome(problem="; ".join(map(str, error.args)))
        return Outcome(left, "" if is_done else "after the rollback the cluster is not as before the plan")


def _name_balancers(topic: str) -> list[str]:
    return [name for begin, name in _BALANCERS.items() if topic.startswith(begin)]
