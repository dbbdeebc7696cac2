"""A plan as lists of replicas that each partition passes through, and where a partition is on this way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from pipelines.errors import SettingsError
from pipelines.live.cluster_records import LivePartition, OngoingReassignment
from pipelines.live.kafka_connection import Assignments, Key, Reassignments, ReplicaLogDirs
from pipelines.plan_files.plan_reader import PlannedChange, StoredPlan

_NO_LOG_DIRS = (
    "the plan moves replicas between the log dirs of their brokers, which apply does not do. Use Kafka's tool, as the "
    "output of plan shows: kafka-reassign-partitions --reassignment-json-file wave-01.json --execute "
    "--replica-alter-log-dirs-throttle BYTES_PER_S, then --verify, and so on with each wave"
)


class Direction(StrEnum):
    """Which way an execution goes."""

    APPLY = "apply"
    ROLLBACK = "rollback"


class Place(StrEnum):
    """Where a partition is, as seen by one wave."""

    DONE = "done"  # the wave has nothing to do
    PENDING = "pending"  # has to be reassigned
    MOVING = "moving"  # is being reassigned to where the wave takes it
    GONE = "gone"  # its topic was deleted
    CHANGED = "changed"  # has replicas that the plan does not know


class WaveTarget(NamedTuple):
    """What a wave does to a partition: the lists are by index."""

    before: int
    after: int


@dataclass(frozen=True)
class PlannedSteps:
    """All partitions that a plan changes."""

    partitions: Mapping[Key, PlannedChange]
    waves: int
    busiest_bytes: Sequence[float | None] = ()  # that the slowest broker of each wave copies; None = not known

    @classmethod
    def of_plan(cls, plan: StoredPlan) -> PlannedSteps:
        """Return the steps of a stored plan. Raises: SettingsError if one has the same list twice."""
        if any(change.moves_log_dirs for change in plan.changes.values()):
            raise SettingsError(_NO_LOG_DIRS)
        for key, change in plan.changes.items():
            if len({*change.lists}) < len(change.lists):  # where a partition is would be ambiguous
                raise SettingsError(f"the plan gives {key[0]}-{key[1]} the same replicas twice. Make a new plan")
        return cls(plan.changes, len(plan.waves), [wave.busiest_bytes for wave in plan.waves])

    @property
    def brokers(self) -> set[int]:
        """Ids of all brokers that have a replica before, during or after the plan."""
        return {broker for steps in self.partitions.values() for one in steps.lists for broker in one}

    def select_lists(self, targets: Mapping[Key, WaveTarget]) -> tuple[Assignments, Assignments]:
        """Return the lists of partitions before and after a wave."""
        before = {key: self.partitions[key].lists[one.before] for key, one in targets.items()}
        return before, {key: self.partitions[key].lists[one.after] for key, one in targets.items()}

    def list_waves(self, direction: Direction) -> list[int]:
        """Return the waves in the order of a direction."""
        waves = range(1, self.waves + 1)
        return list(waves) if direction is Direction.APPLY else list(reversed(waves))

    def estimate_seconds(self, wave: int, rate: int | None) -> float | None:
        """Estimate how long a wave of the plan takes. rate: bytes per second of a broker, None = no throttle.

        Returns: None if sizes or the rate are not known.
        """
        size = self.busiest_bytes[wave - 1] if self.busiest_bytes else None
        if not size:  # a wave without copies takes no time
            return size
        return None if rate is None else size / rate

    def find_targets(self, wave: int, direction: Direction) -> dict[Key, WaveTarget]:
        """Return what a wave does, by partition."""
        targets = {}
        for key, steps in self.partitions.items():
            if wave in steps.waves:
                index = steps.waves.index(wave) + 1
                forward = direction is Direction.APPLY
                targets[key] = WaveTarget(index - 1, index) if forward else WaveTarget(index, index - 1)
        return targets

    def find_place(
        self, key: Key, target: WaveTarget, partition: LivePartition | None, move: OngoingReassignment | None
    ) -> Place:
        """Return where a partition is. move: its ongoing reassignment, or None.

        A partition that is further than the wave takes it, because an execution was repeated, is done.
        """
        if partition is None:
            return Place.GONE
        index = self.partitions[key].find(partition.replicas if move is None else move.target)
        if index is None:
            return Place.CHANGED
        if index == target.after:
            return Place.DONE if move is None else Place.MOVING
        is_forward = target.after > target.before
        is_beyond = index > target.after if is_forward else index < target.after
        return Place.DONE if is_beyond and move is None else Place.MOVING if is_beyond else Place.PENDING

    def find_log_dirs(self, lists: Mapping[Key, tuple[int, ...]], now: Mapping[Key, LivePartition]) -> ReplicaLogDirs:
        """Return the planned log dirs of the replicas that these lists add to those of now."""
        return {
            (*key, broker): path
            for key, replicas in lists.items()
            for broker, path in self.partitions[key].log_dirs.items()
            if broker in replicas and key in now and broker not in now[key].replicas
        }

    def list_foreign(self, reassignments: Reassignments) -> list[Key]:
        """List the partitions with an ongoing reassignment to where this plan does not take them."""
        return sorted(
            key
            for key, move in reassignments.items()
            if key not in self.partitions or self.partitions[key].find(move.target) is None
        )
