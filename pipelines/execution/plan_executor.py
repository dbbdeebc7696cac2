"""Carries out a plan wave by wave, or rolls it back, or cancels it. The state of the cluster decides what is done next.

Each step can be repeated: what is already as planned stays unchanged, so that an execution that was interrupted, or
whose calls were answered too late, continues by looking at the cluster.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pipelines.errors import KafkaPlacementError
from pipelines.execution import journal as log
from pipelines.execution.cluster_view import ClusterView, name_partitions, view_cluster
from pipelines.execution.copy_progress import CopyProgress
from pipelines.execution.journal import Journal
from pipelines.execution.plan_waves import Direction, Place, PlanWaves, WaveTarget
from pipelines.execution.replication_throttle import ReplicationThrottle
from pipelines.live.kafka_changes import NOT_IN_PROGRESS, UNKNOWN_PARTITION, KafkaAdmin
from pipelines.live.kafka_connection import KafkaFault, Key
from udfs.plurals import count_of

_ELECTIONS = 5  # attempts, as a preferred leader may come back in sync only now


class ExecutionStopped(KafkaPlacementError):
    """An execution cannot go on; the message says what is under way, and how to continue or undo it."""


@dataclass(frozen=True)
class ExecutionOptions:
    """How a plan is carried out."""

    throttle_bytes_per_s: int | None = None  # None = no throttle
    max_under_replicated: int | None = None  # partitions; None = as many as when the execution begins
    max_pause_s: float = 3600.0  # a longer pause ends the execution
    interval_s: float = 2.0  # between two looks at the cluster
    progress_s: float = 15.0  # between two lines on the progress of a wave


@dataclass
class PlanExecutor:
    """Executes one plan on one cluster.

    say: prints a line. clock, pause: the time in seconds, and how to wait.
    """

    connection: KafkaAdmin
    steps: PlanWaves
    elections: Sequence[Key]
    topic_ids: Mapping[str, str]  # of the plan's topics, as far as the plan knows them
    journal: Journal
    options: ExecutionOptions
    say: Callable[[str], None]
    pause: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    _gone: set[Key] = field(default_factory=set)
    _max_under_replicated: int = 0

    def __post_init__(self) -> None:
        self._throttle = ReplicationThrottle(self.connection, self.journal, self.say)

    def execute(self, direction: Direction) -> None:
        """Carry out all waves in a direction, and elect preferred leaders. Raises: ExecutionStopped, KafkaFault."""
        view = self._look()
        limit = self.options.max_under_replicated
        self._max_under_replicated = len(view.list_under_replicated()) if limit is None else limit
        self._clean_up(view)
        for wave in self.steps.list_waves(direction):
            self._execute_wave(wave, direction)
        self._elect(direction)
        self._finish("complete" if direction is Direction.APPLY else "rolled back")

    def cancel(self) -> None:
        """Cancel the reassignments that are under way, and restore the order of the replicas that they began with."""
        view = self._look()
        moving = {
            key: self._find_origin(key, view)
            for key, move in view.reassignments.items()
            if key in self.steps.partitions and self.steps.partitions[key].find(move.target) is not None
        }
        self.say(f"cancelling {count_of(len(moving), 'reassignment')}" if moving else "no reassignment is under way")
        if moving:
            self.journal.write(log.CANCEL, partitions=_list_keys(moving), origins=_list_origins(moving))
            rejected = self.connection.alter_reassignments(dict.fromkeys(moving))
            lost = {key: error for key, error in rejected.items() if error not in (NOT_IN_PROGRESS, UNKNOWN_PARTITION)}
            if lost:
                problem = f"{name_partitions(lost)}: Kafka cannot cancel this reassignment ({_name_errors(lost)})"
                remedy = "Start its original brokers again, or let it finish"
                raise ExecutionStopped(f"{problem}. {remedy}")
            self._wait_until_none(moving)
        self._restore_order()
        self._clean_up(self._look())
        self._finish("cancelled")

    def _execute_wave(self, wave: int, direction: Direction) -> None:
        targets = self.steps.find_targets(wave, direction)
        places = self._find_places(self._look(), targets)
        if all(place in (Place.DONE, Place.GONE) for place in places.values()):
            return
        todo = {key: targets[key] for key, place in places.items() if place in (Place.PENDING, Place.MOVING)}
        self.say(f"wave {wave} of {self.steps.waves}: {count_of(len(todo), 'partition')}")
        self.journal.write(log.WAVE, wave=wave, direction=direction, partitions=len(todo))
        progress = CopyProgress(self.connection, self._select_lists(todo), self.clock)
        is_throttled = False
        rejections = Counter[Key]()
        printed = self.clock()
        while True:
            view = self._wait_while_unhealthy(wave)
            places = self._find_places(view, targets)
            pending = {key: targets[key] for key, place in places.items() if place is Place.PENDING}
            moving = [key for key, place in places.items() if place is Place.MOVING]
            if not pending and not moving:
                break
            if not is_throttled:
                self._set_throttle(wave, todo, view)
                is_throttled = True
            if pending:
                self._submit(wave, pending, view, rejections)
            if self.clock() - printed >= self.options.progress_s:
                printed = self.clock()
                done = sum(place is Place.DONE for key, place in places.items() if key in todo)
                self.say(f"  {done} of {count_of(len(todo), 'partition')} done{progress.describe()}")
            self.pause(self.options.interval_s)
        self._clean_up(view)
        self.journal.write(log.WAVE_DONE, wave=wave, direction=direction, copied_bytes=progress.copied_bytes)

    def _select_lists(self, targets: Mapping[Key, WaveTarget]) -> dict[Key, tuple[tuple[int, ...], tuple[int, ...]]]:
        """Return the lists before and after a wave."""
        partitions = self.steps.partitions
        return {
            key: (partitions[key].lists[one.before], partitions[key].lists[one.after]) for key, one in targets.items()
        }

    def _set_throttle(self, wave: int, targets: Mapping[Key, WaveTarget], view: ClusterView) -> None:
        rate = self.options.throttle_bytes_per_s
        if rate is None:
            return
        lists = self._select_lists(targets)
        before = {key: one for key, (one, _) in lists.items()}
        after = {key: one for key, (_, one) in lists.items()}
        self._throttle.set(wave, rate, before, after, view.live_brokers)

    def _submit(
        self, wave: int, pending: Mapping[Key, WaveTarget], view: ClusterView, rejections: Counter[Key]
    ) -> None:
        """Reassign partitions. A call without an answer is not repeated here: the next look at the cluster decides."""
        lists = {key: self.steps.partitions[key].lists[target.after] for key, target in pending.items()}
        if down := sorted({broker for one in lists.values() for broker in one} - view.live_brokers):
            self._stop(f"brokers {', '.join(map(str, down))}, which wave {wave} needs, are down or fenced", view)
        self.journal.write(log.ALTER, wave=wave, partitions=_list_keys(lists))
        try:
            rejected = self.connection.alter_reassignments(lists)
        except KafkaFault as error:
            if error.is_denied:
                raise
            self.say(f"  no answer to the reassignment of wave {wave}: looking at the cluster ({error.problem})")
            return
        for key, reason in rejected.items():
            rejections[key] += 1
            if reason != UNKNOWN_PARTITION and rejections[key] > 1:
                self._stop(f"Kafka rejects the reassignment of {name_partitions([key])}: {reason}", view)

    def _find_places(self, view: ClusterView, targets: Mapping[Key, WaveTarget]) -> dict[Key, Place]:
        """Return where the partitions of a wave are. Raises: ExecutionStopped if one was changed by another tool."""
        places = {}
        for key, target in targets.items():
            partition, known = view.partitions.get(key), self.topic_ids.get(key[0])
            if partition is not None and known and view.topic_ids.get(key[0]) not in (None, known):
                partition = None  # another topic of the same name
            places[key] = self.steps.find_place(key, target, partition, view.reassignments.get(key))
        gone = {key for key, place in places.items() if place is Place.GONE} - self._gone
        if gone:
            self._gone |= gone
            topics = sorted({topic for topic, _ in gone})
            self.say(f"warning: deleted meanwhile, and left out: {', '.join(topics[:5])}")
        if changed := [key for key, place in places.items() if place is Place.CHANGED]:
            key = changed[0]
            now = list(view.partitions[key].replicas)
            self._stop(f"{name_partitions(changed)}: changed by another tool (now {now})", view)
        return places

    def _wait_while_unhealthy(self, wave: int) -> ClusterView:
        """Return a view of the cluster once nothing forbids to go on. Raises: ExecutionStopped after a long pause."""
        began, reason_before = self.clock(), ""
        while True:
            view = self._look()
            reason = self._explain_pause(view)
            if not reason:
                if reason_before:
                    self.say("  continuing")
                return view
            if reason != reason_before:
                self.say(f"  paused: {reason}")
                self.journal.write(log.PAUSE, wave=wave, reason=reason)
                reason_before = reason
            if self.clock() - began > self.options.max_pause_s:
                self._stop(f"paused for {self.options.max_pause_s:.0f} s: {reason}", view)
            self.pause(self.options.interval_s)

    def _explain_pause(self, view: ClusterView) -> str:
        if foreign := self.steps.list_foreign(view.reassignments):
            return f"another tool reassigns {name_partitions(foreign)}"
        needed = {broker for steps in self.steps.partitions.values() for one in steps.lists for broker in one}
        if down := sorted(needed & self._began_with - view.live_brokers):
            return f"{'broker' if len(down) == 1 else 'brokers'} {', '.join(map(str, down))} failed"
        under = len(view.list_under_replicated())
        if under > self._max_under_replicated:
            return f"{count_of(under, 'partition')} under-replicated, more than {self._max_under_replicated}"
        return ""

    def _look(self) -> ClusterView:
        """View the cluster; wait for one that does not answer. Raises: KafkaFault after a long time, or if denied."""
        began = self.clock()
        while True:
            try:
                view = view_cluster(self.connection, self.pause)
            except KafkaFault as error:
                if error.is_denied or self.clock() - began > self.options.max_pause_s:
                    raise
                self.say(f"  the cluster does not answer: {error.problem}")
                self.pause(self.options.interval_s)
                continue
            self._began_with = getattr(self, "_began_with", view.live_brokers) | view.live_brokers
            return view

    def _elect(self, direction: Direction) -> None:
        keys = [key for key in self.elections if key not in self._gone]
        if direction is Direction.ROLLBACK:
            keys = [key for key in self.steps.partitions if key not in self._gone]
        if not keys:
            return
        self.journal.write(log.ELECT, partitions=_list_keys(keys))
        failed: dict[Key, str] = {}
        for attempt in range(_ELECTIONS):
            if attempt:
                self.pause(self.options.interval_s)
            try:
                failed = self.connection.elect_preferred_leaders(keys)
            except KafkaFault as error:
                if error.is_denied or attempt == _ELECTIONS - 1:
                    raise
                continue
            keys = [key for key in failed if failed[key] != UNKNOWN_PARTITION]
            if not keys:
                return
        self.say(f"warning: no preferred leader was elected for {name_partitions(keys)} ({_name_errors(failed)})")

    def _find_origin(self, key: Key, view: ClusterView) -> tuple[int, ...]:
        """Return the list of a partition that is being reassigned, from before its reassignment."""
        move = view.reassignments[key]
        origin = set(move.replicas) - set(move.adding)
        lists = self.steps.partitions[key].lists
        return next((one for one in lists if set(one) == origin), tuple(r for r in move.replicas if r in origin))

    def _wait_until_none(self, keys: Mapping[Key, Sequence[int]]) -> None:
        began = self.clock()
        while True:
            view = self._look()
            if not (rest := keys.keys() & view.reassignments.keys()):
                return
            if self.clock() - began > self.options.max_pause_s:
                self._stop(f"{name_partitions(rest)}: still being reassigned after the cancellation", view)
            self.pause(self.options.interval_s)

    def _restore_order(self) -> None:
        """Restore the order of replicas, which Kafka loses when it cancels: of every cancellation that was begun."""
        origins = {
            (topic, partition): tuple(replicas)
            for entry in self.journal.entries
            if entry["event"] == log.CANCEL
            for topic, partition, replicas in entry["origins"]
        }
        for _ in range(_ELECTIONS):
            view = self._look()
            wrong = {
                key: replicas
                for key, replicas in origins.items()
                if (now := view.partitions.get(key)) is not None
                and key not in view.reassignments
                and now.replicas != replicas
                and set(now.replicas) == set(replicas)
            }
            if not wrong:
                return
            self.journal.write(log.RESTORE_ORDER, partitions=_list_keys(wrong))
            self.connection.alter_reassignments(wrong)
            self.pause(self.options.interval_s)
        self._stop(f"{name_partitions(wrong)}: the order of the replicas could not be restored", view)

    def _clean_up(self, view: ClusterView) -> None:
        """Remove the throttles of waves that are over; brokers that are down keep theirs until the next attempt."""
        if missing := self._throttle.restore():
            names = ", ".join(map(str, missing))
            self.say(f"warning: the throttle of brokers {names} could not be removed: they do not answer")

    def _finish(self, outcome: str) -> None:
        outstanding = self.journal.find_earlier_configs()
        gone = len(self._gone)
        self.journal.write(
            log.END, outcome=outcome, deleted_partitions=gone, throttled_brokers=sorted(outstanding.brokers)
        )
        if outstanding:
            names = [f"broker {id_}" for id_ in sorted(outstanding.brokers)]
            names += [f"topic {name}" for name in sorted(outstanding.topics)]
            raise ExecutionStopped(
                f"{outcome}, but a throttle remains on {', '.join(names[:10])}. Repeat the command when they can be "
                "changed again: it removes the throttle"
            )

    def _stop(self, problem: str, view: ClusterView) -> None:
        own = [key for key in view.reassignments if key in self.steps.partitions]
        under_way = f" {count_of(len(own), 'reassignment')} of the plan is still under way." if own else ""
        throttled = " Throttles are still set." if self.journal.find_earlier_configs() else ""
        raise ExecutionStopped(
            f"{problem}.{under_way}{throttled} Repeat the command to continue, or use --cancel or --rollback"
        )


def _list_keys(keys: Mapping[Key, object] | Sequence[Key]) -> list[list[str | int]]:
    return [[topic, partition] for topic, partition in sorted(keys)]


def _list_origins(moving: Mapping[Key, Sequence[int]]) -> list[list[object]]:
    return [[topic, partition, list(replicas)] for (topic, partition), replicas in sorted(moving.items())]


def _name_errors(errors: Mapping[Key, str]) -> str:
    return ", ".join(sorted(set(errors.values())))
