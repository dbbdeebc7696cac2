"""A plan as lists of replicas that each partition passes through, and where a partition is on this way."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from pipelines.errors import SettingsError
from pipelines.execution.cluster_view import ClusterView
from pipelines.execution.log_dir_moves import NO_LOGS, ReplicaLog, ReplicaLogs
from pipelines.live.cluster_records import LivePartition, OngoingReassignment
from pipelines.live.kafka_connection import Assignments, Key, Reassignments, ReplicaLogDirs
from pipelines.plan_files.plan_reader import PlannedChange, StoredPlan
from udfs.wording import count_of


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


class CopyPace(NamedTuple):
    """The median time of waves of a cluster over their estimates, and how many waves it rests on; 1 of too few."""

    ratio: float = 1.0
    waves: int = 0

    def __str__(self) -> str:
        """Describe the pace, as in `1.30 times the estimate of the plan, as of 7 waves before`; empty if it is 1."""
        if f"{self.ratio:.2f}" == "1.00":
            return ""
        return f"{self.ratio:.2f} times the estimate of the plan, as of {count_of(self.waves, 'wave')} before"


NO_PACE = CopyPace()


@dataclass(frozen=True)
class PlannedSteps:
    """All partitions that a plan changes."""

    partitions: Mapping[Key, PlannedChange]
    waves: int
    busiest_bytes: Sequence[float | None] = ()  # that the slowest broker of each wave copies; None = not known
    emptied_brokers: frozenset[int] = frozenset()
    pace: CopyPace = NO_PACE

    @classmethod
    def of_plan(cls, plan: StoredPlan) -> PlannedSteps:
        """Return the steps of a stored plan. Raises: SettingsError if one has the same list twice."""
        for key, change in plan.changes.items():
            is_repeated = len({*change.lists}) < len(change.lists)
            if is_repeated and not change.moves_log_dirs:  # where a partition is would be ambiguous
                raise SettingsError(f"the plan gives {key[0]}-{key[1]} the same replicas twice. Make a new plan")
        busiest = [wave.busiest_bytes for wave in plan.waves]
        return cls(plan.changes, len(plan.waves), busiest, frozenset(plan.emptied_brokers))

    def find_unlisted(self, wave: int) -> frozenset[int]:
        """Find the brokers that the plan empties, and that no list of this wave or a later one has."""
        later = [self.select_lists(self.find_targets(one, Direction.APPLY))[1] for one in range(wave, self.waves + 1)]
        return self.emptied_brokers - {broker for lists in later for one in lists.values() for broker in one}

    def end_with(self, last: int | None) -> PlannedSteps:
        """Return the steps of the waves up to `last`; None = all."""
        if last is None:
            return self
        until = {
            key: replace(change, steps=tuple(step for step in change.steps if step[0] <= last))
            for key, change in self.partitions.items()
            if change.waves[0] <= last
        }
        return replace(self, partitions=until)

    @cached_property
    def moves_log_dirs(self) -> bool:
        """Whether the plan moves replicas between the log dirs of their brokers, and nothing else."""
        return any(change.moves_log_dirs for change in self.partitions.values())

    @property
    def brokers(self) -> set[int]:
        """Ids of all brokers that have a replica before, during or after the plan."""
        return {broker for steps in self.partitions.values() for one in steps.lists for broker in one}

    @property
    def log_brokers(self) -> set[int]:
        """Ids of the brokers whose logs show how far the plan is: where it moves replicas between log dirs."""
        return {b for one in self.partitions.values() if one.moves_log_dirs for b in one.log_dirs}

    def select_lists(self, targets: Mapping[Key, WaveTarget]) -> tuple[Assignments, Assignments]:
        """Return the lists of partitions before and after a wave."""
        before = {key: self.partitions[key].lists[one.before] for key, one in targets.items()}
        return before, {key: self.partitions[key].lists[one.after] for key, one in targets.items()}

    def list_waves(self, direction: Direction) -> list[int]:
        """Return the waves in the order of a direction."""
        waves = range(1, self.waves + 1)
        return list(waves) if direction is Direction.APPLY else list(reversed(waves))

    def estimate_seconds(self, wave: int, rate: int | None, left: Mapping[Key, float] | None = None) -> float | None:
        """Estimate how long a wave of the plan takes, or what is left of it.

        rate: bytes per second of a broker, None = no throttle. left: partitions with the share of each that is still
        to be copied; None = all.
        Returns: None if sizes or the rate are not known.
        """
        size = self.busiest_bytes[wave - 1] if self.busiest_bytes else None
        if size and left is not None:
            all_of_it = dict.fromkeys(self.find_targets(wave, Direction.APPLY), 1.0)
            whole, rest = (self._find_busiest_bytes(wave, one) for one in (all_of_it, left))
            size *= rest / whole if whole else len(left) / max(len(all_of_it), 1)
        if not size:  # a wave without copies takes no time
            return size
        return None if rate is None else self.pace.ratio * size / rate

    def _find_busiest_bytes(self, wave: int, shares: Mapping[Key, float]) -> float:
        """Find the bytes that the broker copies which copies most of these shares of partitions, each way."""
        ways: dict[tuple[bool, int], float] = {}
        for key, share in shares.items():
            change = self.partitions[key]
            added, size = _list_copies(change)
            index = change.waves.index(wave)
            for broker in added[index]:
                for way in ((False, change.lists[index][0]), (True, broker)):
                    ways[way] = ways.get(way, 0.0) + share * size
        return max(ways.values(), default=0.0)

    def sum_bytes_left(self, keys: Collection[Key], view: ClusterView) -> float | None:
        """Sum what partitions that are not as planned have still to copy, with all of what is under way.

        Returns: None if the size of one is not known.
        """
        total = 0.0
        for key in keys:
            change, move = self.partitions[key], view.reassignments.get(key)
            if change.bytes_to_copy is None:
                return None
            done = change.count_steps_done(view.partitions[key].replicas, move and move.target) or 0
            added, size = _list_copies(change)
            total += change.bytes_to_copy if change.moves_log_dirs else size * sum(map(len, added[done:]))
        return total

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
        self,
        key: Key,
        target: WaveTarget,
        partition: LivePartition | None,
        move: OngoingReassignment | None,
        logs: ReplicaLogs = NO_LOGS,
    ) -> Place:
        """Return where a partition is. move: its ongoing reassignment, or None; logs: of a plan that moves log dirs.

        A partition that is further than the wave takes it, or on its way there, because an execution was repeated, is
        done: a later wave waits for it. One that only a cancellation takes there is pending.
        """
        if partition is None:
            return Place.GONE
        index = self.partitions[key].find(partition.replicas if move is None else move.target)
        if index is None:
            return Place.CHANGED
        if self.partitions[key].moves_log_dirs:
            return self._find_dir_place(key, target, logs)
        if index == target.after:
            if move is None:
                return Place.DONE
            return Place.PENDING if move.ends_when_cancelled else Place.MOVING
        is_forward = target.after > target.before
        is_beyond = index > target.after if is_forward else index < target.after
        return Place.DONE if is_beyond else Place.PENDING

    def list_left(
        self,
        wave: int,
        direction: Direction,
        view: ClusterView,
        places: Collection[Place] = (Place.PENDING, Place.MOVING),
    ) -> dict[Key, WaveTarget]:
        """List what a wave has still to reassign, or to wait for; or what is at other places."""
        return {
            key: target
            for key, target in self.find_targets(wave, direction).items()
            if self.find_place(key, target, view.partitions.get(key), view.reassignments.get(key), view.logs) in places
        }

    def _find_dir_place(self, key: Key, target: WaveTarget, logs: ReplicaLogs) -> Place:
        """Return where the replicas of a partition are that move between log dirs: where the last of them is."""
        places, before = set[Place](), self.list_dirs(key, target.before)
        for replica, path in self.list_dirs(key, target.after).items():
            broker = replica[-1]
            log = logs[broker].get(key, ReplicaLog(None, 0)) if broker in logs else ReplicaLog(path, 0, path)
            if log.path not in (None, path, before.get(replica, log.path)):
                places.add(Place.CHANGED)
            elif log.future is None:
                places.add(Place.DONE if log.path == path else Place.PENDING)
            else:
                places.add(Place.MOVING if log.future == path else Place.PENDING)
        order = (Place.CHANGED, Place.PENDING, Place.MOVING)
        return next((place for place in order if place in places), Place.DONE)

    def list_dirs(self, key: Key, index: int) -> ReplicaLogDirs:
        """List the log dirs of the replicas of a partition that moves some, before its step (0), or after it."""
        change = self.partitions[key]
        paths = change.log_dirs if index else change.log_dirs_before
        return {(*key, broker): path for broker, path in paths.items() if broker in change.log_dirs}

    def list_moving_dirs(self, logs: ReplicaLogs) -> ReplicaLogDirs:
        """List the replicas of the plan that are being moved to a log dir of it, with the log dirs where they are."""
        moving: ReplicaLogDirs = {}
        for key in self.partitions if self.moves_log_dirs else ():
            for replica, path in (*self.list_dirs(key, 0).items(), *self.list_dirs(key, 1).items()):
                log = logs.get(replica[-1], {}).get(key)
                if log is not None and log.path is not None and log.future == path:
                    moving[replica] = log.path
        return moving

    def find_log_dirs(self, lists: Mapping[Key, tuple[int, ...]], now: Mapping[Key, LivePartition]) -> ReplicaLogDirs:
        """Return the planned log dirs of the replicas that these lists add to those of now."""
        return {
            (*key, broker): path
            for key, replicas in lists.items()
            for broker, path in self.partitions[key].log_dirs.items()
            if broker in replicas and key in now and broker not in now[key].replicas
        }

    def list_returning(self, reassignments: Reassignments) -> list[Key]:
        """List the partitions of the plan with an ongoing reassignment to an earlier list: of a rollback."""
        return sorted(
            key
            for key, move in reassignments.items()
            if (change := self.partitions.get(key)) is not None
            and change.leads_back(set(move.replicas) - set(move.adding), move.target)
        )

    def list_foreign(self, reassignments: Reassignments) -> list[Key]:
        """List the partitions with an ongoing reassignment to where this plan does not take them."""
        return sorted(
            key
            for key, move in reassignments.items()
            if key not in self.partitions or self.partitions[key].find(move.target) is None
        )


def _list_copies(change: PlannedChange) -> tuple[list[set[int]], float]:
    """Return the brokers that each step copies a partition to, and the bytes of one copy (0 if not known)."""
    added = [set(after).difference(before) for before, after in pairwise(change.lists)]
    return added, (change.bytes_to_copy or 0.0) / max(sum(map(len, added)), 1)
