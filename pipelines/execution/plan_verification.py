"""Whether a cluster is as a plan leaves it, or as it was before: replicas in their order, leaders, throttles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from pipelines.execution.cluster_view import ClusterView
from pipelines.execution.journal import EarlierConfigs
from pipelines.execution.planned_steps import Direction, Place, PlannedSteps, WaveTarget
from pipelines.execution.replication_throttle import Configs, is_left, read_throttles
from pipelines.live.kafka_changes import KafkaAdmin
from pipelines.live.kafka_connection import Key

_Name = TypeVar("_Name", int, str)


class PlanState(StrEnum):
    """How far a cluster is on the way through a plan."""

    APPLIED = "applied"  # and nothing of the execution is left
    NOT_APPLIED = "not applied"  # as before the plan, and nothing of an execution is left
    PARTLY_APPLIED = "partly applied"  # or under way, or changed by another tool
    THROTTLED = "throttled"  # all as planned, or all as before, but throttles are left
    UNKNOWN = "unknown"  # likewise, but not all brokers say whether they are throttled


@dataclass(frozen=True)
class Verification:
    """What was found. Lists of partitions are in order of topic and partition."""

    planned: int  # partitions of the plan
    done: int  # as after the plan
    not_begun: int  # as before it
    pending: tuple[Key, ...]  # not yet as after it
    differing: tuple[Key, ...]  # as neither, nor after one of its steps
    gone: tuple[Key, ...]
    moving: tuple[Key, ...]
    returning: tuple[Key, ...]  # those of them that a rollback reassigns
    not_preferred: tuple[Key, ...]  # as after the plan, and led by another replica than the first, which is live
    not_elected: tuple[Key, ...]  # of which the plan elects the first, and another replica leads
    under_replicated: tuple[Key, ...]
    throttled: EarlierConfigs  # what is left of throttles, with what was there before them
    unanswered_brokers: tuple[int, ...]  # whose throttles are not known
    restored: EarlierConfigs  # throttles that were there before the plan's, and are back
    waves_left: tuple[int, ...]
    bytes_left: float | None  # that they copy; None = not known
    others_not_preferred: int  # partitions beside the plan that their preferred leader could lead, and does not
    undone_plans: tuple[str, ...] = ()  # folders of the plans that must be executed before it

    @property
    def state(self) -> PlanState:
        """How far the cluster is."""
        left = self.planned - len(self.gone)
        if self.moving or (left not in (self.done, self.not_begun) and not self.undone_plans):
            return PlanState.PARTLY_APPLIED
        if self.throttled:
            return PlanState.THROTTLED
        if self.unanswered_brokers:
            return PlanState.UNKNOWN
        if self.done < left or (self.planned and not left):
            return PlanState.NOT_APPLIED
        if self.not_elected:
            return PlanState.PARTLY_APPLIED if left else PlanState.NOT_APPLIED
        return PlanState.APPLIED

    @property
    def has_begun(self) -> bool:
        """Whether partitions are as a step of the plan leaves them, or none of those that exist is as before it."""
        left = self.planned - len(self.gone)
        return not self.not_begun or self.not_begun + len(self.differing) + len(self.moving) < left

    @property
    def is_rolled_back(self) -> bool:
        """Whether the cluster is as before the plan, and nothing of its execution is left."""
        return self.not_begun + len(self.gone) == self.planned and self.is_cancelled

    @property
    def is_cancelled(self) -> bool:
        """Whether nothing is under way, and no throttle is left."""
        return not (self.moving or self.throttled or self.unanswered_brokers)


def verify_plan(
    connection: KafkaAdmin,
    steps: PlannedSteps,
    elections: Sequence[Key],
    view: ClusterView,
    restored: EarlierConfigs,
    outstanding: EarlierConfigs,
) -> Verification:
    """Compare a cluster with a plan.

    restored: configs that were there before its throttles, and are back since. Such a config may have been removed
    since, but a config with another value is one that was left behind.
    outstanding: those that are not back yet, which counts for brokers that do not show their configs, as they are down.
    """
    settled = sorted(steps.partitions.keys() & view.partitions.keys() - view.reassignments.keys())
    steps_done = {key: steps.partitions[key].find(view.partitions[key].replicas) for key in settled}
    if steps.moves_log_dirs:
        steps_done = _count_dir_steps(steps, view)
    moving_dirs = {(topic, partition) for topic, partition, _ in steps.list_moving_dirs(view.logs)}
    not_first = [
        key
        for key in sorted({*steps.partitions, *elections} & view.partitions.keys() - view.reassignments.keys())
        if view.partitions[key].leader != view.partitions[key].replicas[0]
    ]
    done = {key for key, steps_behind in steps_done.items() if steps_behind == len(steps.partitions[key].waves)}
    pending = steps.partitions.keys() & view.partitions.keys() - done
    is_live = {key: view.partitions[key].replicas[0] in view.live_brokers for key in not_first}
    not_preferred = [key for key in not_first if is_live[key] and key not in pending]
    throttles = read_throttles(connection, steps, view, steps.brokers)
    brokers_left, brokers_back = _split_left(throttles.rates, restored.brokers)
    topics_left, topics_back = _split_left(throttles.replicas, restored.topics)
    silent = {id_: one for id_, one in outstanding.brokers.items() if id_ not in throttles.rates}
    under = set(view.list_under_replicated())
    return Verification(
        len(steps.partitions),
        len(done),
        sum(steps_behind == 0 for steps_behind in steps_done.values()),
        tuple(sorted(pending)),
        tuple(key for key, steps_behind in steps_done.items() if steps_behind is None),
        tuple(sorted(steps.partitions.keys() - view.partitions.keys())),
        tuple(sorted((steps.partitions.keys() & view.reassignments.keys()) | moving_dirs)),
        tuple(steps.list_returning(view.reassignments)),
        tuple(not_preferred),
        tuple(key for key in not_first if key in set(elections)),
        tuple(sorted(under & steps.partitions.keys())),
        EarlierConfigs(silent | brokers_left, topics_left),
        tuple(throttles.unanswered),
        EarlierConfigs(brokers_back, topics_back),
        tuple(wave for wave in steps.list_waves(Direction.APPLY) if steps.list_left(wave, Direction.APPLY, view)),
        steps.sum_bytes_left(pending, view),
        sum(
            one.leader != one.replicas[0] and one.replicas[0] in one.isr
            for key, one in view.partitions.items()
            if key not in steps.partitions and key not in view.reassignments
        ),
    )


def _count_dir_steps(steps: PlannedSteps, view: ClusterView) -> dict[Key, int | None]:
    """Count the steps behind the partitions of a plan that moves log dirs, 0 or 1; those on their way are left out.

    None = a replica is in a log dir that the plan does not know.
    """
    counts: dict[Key, int | None] = {}
    for key in sorted(steps.partitions.keys() & view.partitions.keys()):
        for index in (0, 1):
            target, partition = WaveTarget(1 - index, index), view.partitions[key]
            place = steps.find_place(key, target, partition, view.reassignments.get(key), view.logs)
            if place in (Place.CHANGED, Place.DONE):
                counts[key] = index if place is Place.DONE else None
    return counts


def _split_left(
    configs: Mapping[_Name, Configs], restored: Mapping[_Name, Configs]
) -> tuple[dict[_Name, dict[str, str | None]], dict[_Name, dict[str, str | None]]]:
    """Return what was there before throttles that are left, and throttles that were there before: both by name."""
    left = {
        name: {key: restored.get(name, {}).get(key) for key in one}
        for name, one in configs.items()
        if is_left(one, restored.get(name))
    }
    return left, {name: dict(one) for name, one in configs.items() if one and name not in left}
