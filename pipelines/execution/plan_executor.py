"""Carries out a plan wave by wave, or rolls it back, or cancels it; the state of the cluster decides what is done next.

Each step can be repeated: what is already as planned stays unchanged, so that an execution that was interrupted, or
whose calls were answered too late, continues by looking at the cluster.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from pipelines.errors import KafkaPlacementError
from pipelines.execution import journal as log
from pipelines.execution.cluster_view import ClusterView, name_partitions, view_cluster
from pipelines.execution.copy_progress import CopyProgress
from pipelines.execution.journal import Journal, list_keys, list_origins
from pipelines.execution.plan_waves import Direction, Place, PlanWaves, WaveTarget
from pipelines.execution.preferred_elections import elect_preferred_leaders
from pipelines.execution.replication_throttle import ReplicationThrottle
from pipelines.live.kafka_changes import NOT_IN_PROGRESS, UNKNOWN_PARTITION, KafkaAdmin
from pipelines.live.kafka_connection import KafkaFault, Key
from pipelines.live.pauses import growing_pauses
from udfs.plurals import count_of

_ATTEMPTS = 5  # of restoring an order
_REJECTIONS = 3  # of a partition's reassignment, which may be rejected only while brokers disagree
_FIRST_PAUSE_S = 0.25  # before the next look at a cluster that has just changed
_CONFIRMATIONS = 3  # further looks before a partition counts as deleted, or as changed by another tool


class ExecutionStopped(KafkaPlacementError):
    """An execution cannot go on; the message says what is under way, and how to continue or undo it."""


@dataclass(frozen=True)
class ExecutionOptions:
    """How a plan is carried out."""

    throttle_bytes_per_s: int | None = None  # None = no throttle
    max_under_replicated: int | None = None  # partitions; None = as many as when the execution begins
    max_pause_s: float = 3600.0  # a longer pause ends the execution
    interval_s: float = 2.0  # the longest time between two looks at the cluster
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
    _left_out: set[Key] = field(default_factory=set)  # deleted partitions, and those that cannot be rolled back
    _seen_live: set[int] = field(default_factory=set)  # brokers that were live at some moment of this execution
    _max_under_replicated: int = 0
    _has_changed: bool = False

    def __post_init__(self) -> None:
        self._throttle = ReplicationThrottle(self.connection, self.journal, self.say, self.pause)

    def execute(self, direction: Direction) -> None:
        """Carry out all waves in a direction, and elect preferred leaders. Raises: ExecutionStopped."""
        with self._explain_faults():
            view = self._look()
            limit = self.options.max_under_replicated
            self._max_under_replicated = len(view.list_under_replicated()) if limit is None else limit
            if direction is Direction.ROLLBACK:
                self._leave_out_irreversible(view)
            self._restore_order()  # if a cancellation was interrupted
            if not view.reassignments.keys() & self.steps.partitions.keys():
                self._clean_up(view)  # else the copies that are under way would run without a throttle
            for wave in self.steps.list_waves(direction):
                self._execute_wave(wave, direction)
            self._clean_up(self._look())
            if self._has_changed or direction is Direction.APPLY:
                self._elect(direction)
        self._finish("complete" if direction is Direction.APPLY else "rolled back")

    def cancel(self) -> None:
        """Cancel the reassignments that are under way, and restore the order of the replicas that they began with."""
        with self._explain_faults():
            view = self._look()
            moving = {
                key: self._find_origin(key, view)
                for key, move in view.reassignments.items()
                if key in self.steps.partitions and self.steps.partitions[key].find(move.target) is not None
            }
            self.say(
                f"cancelling {count_of(len(moving), 'reassignment')}" if moving else "no reassignment is under way"
            )
            lost: dict[Key, str] = {}
            if moving:
                self.journal.write(log.CANCEL, partitions=list_keys(moving), origins=list_origins(moving))
                rejected = self.connection.alter_reassignments(dict.fromkeys(moving))
                harmless = (NOT_IN_PROGRESS, UNKNOWN_PARTITION)
                lost = {key: error for key, error in rejected.items() if error not in harmless}
                self._wait_until_none({key: ids for key, ids in moving.items() if key not in lost})
            self._restore_order()
            if lost:
                self._stop(
                    f"{name_partitions(lost)}: Kafka cannot cancel this reassignment ({_name_errors(lost)}). Start its "
                    "original brokers again, or let it finish",
                    self._look(),
                )
            self._clean_up(self._look())
        self._finish("cancelled")

    def _execute_wave(self, wave: int, direction: Direction) -> None:
        targets = {k: one for k, one in self.steps.find_targets(wave, direction).items() if k not in self._left_out}
        view, places = self._find_places(self._look(), targets)
        todo = {key: targets[key] for key, place in places.items() if place in (Place.PENDING, Place.MOVING)}
        if not todo:
            return
        self._has_changed = True
        self.say(f"wave {wave} of {self.steps.waves}: {count_of(len(todo), 'partition')}")
        self.journal.write(log.WAVE, wave=wave, direction=direction, partitions=len(todo))
        progress = CopyProgress(self.connection, self._select_lists(todo), self.clock)
        is_throttled = False
        if Place.MOVING in places.values():  # of an execution that was interrupted
            is_throttled = self._set_throttle(wave, todo, view)
            progress.resume()
        rejections = Counter[Key]()
        printed = self.clock()
        for pause_s in growing_pauses(_FIRST_PAUSE_S, self.options.interval_s):
            view, places = self._find_places(self._wait_while_unhealthy(wave), targets)
            pending = {key: targets[key] for key, place in places.items() if place is Place.PENDING}
            if not pending and Place.MOVING not in places.values():
                break
            self._check_brokers(wave, pending, view)
            is_throttled = is_throttled or self._set_throttle(wave, todo, view)
            if pending and is_throttled:
                self._submit(wave, pending, view, rejections)
            if self.clock() - printed >= self.options.progress_s:
                printed = self.clock()
                done = sum(place is Place.DONE for key, place in places.items() if key in todo)
                self.say(f"  {done} of {count_of(len(todo), 'partition')} done{progress.describe()}")
            self.pause(pause_s)
        progress.describe()
        self._clean_up(view)
        self.journal.write(log.WAVE_DONE, wave=wave, direction=direction, copied_bytes=progress.copied_bytes)

    def _select_lists(self, targets: Mapping[Key, WaveTarget]) -> dict[Key, tuple[tuple[int, ...], tuple[int, ...]]]:
        """Return the lists before and after a wave."""
        partitions = self.steps.partitions
        return {
            key: (partitions[key].lists[one.before], partitions[key].lists[one.after]) for key, one in targets.items()
        }

    def _set_throttle(self, wave: int, targets: Mapping[Key, WaveTarget], view: ClusterView) -> bool:
        """Throttle a wave. Return whether that succeeded: if a broker fails just now, the next look says so."""
        rate = self.options.throttle_bytes_per_s
        if rate is None:
            return True
        lists = self._select_lists(targets)
        before = {key: one for key, (one, _) in lists.items()}
        after = {key: one for key, (_, one) in lists.items()}
        try:
            self._throttle.apply(wave, rate, before, after, view.live_brokers)
        except KafkaFault as error:
            if error.is_denied:
                raise
            self.say(f"  the throttle is not set yet: {error.problem}")
            return False
        return True

    def _check_brokers(self, wave: int, pending: Mapping[Key, WaveTarget], view: ClusterView) -> None:
        """Check that the brokers that a wave moves to are live. Raises: ExecutionStopped."""
        lists = (self.steps.partitions[key].lists[target.after] for key, target in pending.items())
        if down := sorted({broker for one in lists for broker in one} - view.live_brokers):
            self._stop(f"brokers {', '.join(map(str, down))}, which wave {wave} needs, are down or fenced", view)

    def _submit(
        self, wave: int, pending: Mapping[Key, WaveTarget], view: ClusterView, rejections: Counter[Key]
    ) -> None:
        """Reassign partitions. A call without an answer is not repeated here: the next look at the cluster decides."""
        lists = {key: self.steps.partitions[key].lists[target.after] for key, target in pending.items()}
        self.journal.write(log.ALTER, wave=wave, partitions=list_keys(lists))
        try:
            self.connection.choose_log_dirs(self.steps.find_log_dirs(lists, view.partitions))
            rejected = self.connection.alter_reassignments(lists)
        except KafkaFault as error:
            if error.is_denied:
                raise
            self.say(f"  no answer to the reassignment of wave {wave}: looking at the cluster ({error.problem})")
            return
        for key, reason in rejected.items():
            rejections[key] += 1
            if reason != UNKNOWN_PARTITION and rejections[key] > _REJECTIONS:
                self._stop(f"Kafka rejects the reassignment of {name_partitions([key])}: {reason}", view)

    def _find_places(
        self, view: ClusterView, targets: Mapping[Key, WaveTarget]
    ) -> tuple[ClusterView, dict[Key, Place]]:
        """Return where the partitions of a wave are. Raises: ExecutionStopped if another tool has changed one.

        Metadata may be stale: a partition counts as deleted or changed if several looks, at other brokers, agree.
        """
        for _ in range(_CONFIRMATIONS):
            places = self._read_places(view, targets)
            odd = {key for key, place in places.items() if place in (Place.GONE, Place.CHANGED)} - self._left_out
            if not odd:
                return view, places
            self.pause(self.options.interval_s)
            self.connection.close()
            view = self._look()
        places = self._read_places(view, targets)
        gone = {key for key, place in places.items() if place is Place.GONE} - self._left_out
        if gone:
            self._left_out |= gone
            topics = sorted({topic for topic, _ in gone})
            self.say(f"warning: deleted meanwhile, and left out: {', '.join(topics[:5])}")
        if changed := [key for key, place in places.items() if place is Place.CHANGED]:
            now = list(view.partitions[changed[0]].replicas)
            self._stop(f"{name_partitions(changed)}: changed by another tool (now {now})", view)
        return view, places

    def _read_places(self, view: ClusterView, targets: Mapping[Key, WaveTarget]) -> dict[Key, Place]:
        places = {}
        for key, target in targets.items():
            partition, known = view.partitions.get(key), self.topic_ids.get(key[0])
            if key[0] in view.unreadable_topics or (partition is None and key in view.reassignments):
                places[key] = Place.MOVING  # it exists, so a later look will show it
                continue
            if partition is not None and known and view.topic_ids.get(key[0]) not in (None, known):
                partition = None  # another topic of the same name
            places[key] = self.steps.find_place(key, target, partition, view.reassignments.get(key))
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
        if down := sorted(needed & self._seen_live - view.live_brokers):
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
            self._seen_live |= view.live_brokers
            return view

    def _leave_out_irreversible(self, view: ClusterView) -> None:
        """Leave out partitions whose earlier replicas are on brokers that are down: Kafka takes no such list."""
        left_out = {
            key
            for key, steps in self.steps.partitions.items()
            if not view.live_brokers.issuperset(steps.lists[0])
            and (partition := view.partitions.get(key)) is not None
            and partition.replicas != steps.lists[0]
        }
        if left_out:
            count = count_of(len(left_out), "partition")
            self.say(f"warning: {count} cannot be rolled back, as brokers are down: {name_partitions(left_out)}")
            self._left_out |= left_out

    def _elect(self, direction: Direction) -> None:
        # A broker that failed meanwhile no longer leads partitions whose election the plan did not foresee.
        planned = self.elections if direction is Direction.APPLY else ()
        keys = [key for key in dict.fromkeys((*planned, *self.steps.partitions)) if key not in self._left_out]
        if not keys:
            return
        self.journal.write(log.ELECT, partitions=list_keys(keys))
        if failed := elect_preferred_leaders(self.connection, keys, self.pause):
            names = f"{name_partitions(failed)} ({_name_errors(failed)})"
            self.say(f"warning: no preferred leader was elected for {names}")

    def _find_origin(self, key: Key, view: ClusterView) -> tuple[int, ...]:
        """Return the list of a partition from before its reassignment: if possible, a neighbour of its target."""
        move, steps = view.reassignments[key], self.steps.partitions[key]
        origin, index = set(move.replicas) - set(move.adding), steps.find(move.target) or 0
        neighbours = [*steps.lists[max(index - 1, 0) : index], *steps.lists[index + 1 : index + 2], *steps.lists]
        return next((one for one in neighbours if set(one) == origin), tuple(r for r in move.replicas if r in origin))

    def _wait_until_none(self, keys: Mapping[Key, Sequence[int]]) -> None:
        began = self.clock()
        for pause_s in growing_pauses(_FIRST_PAUSE_S, self.options.interval_s):
            view = self._look()
            if not (rest := keys.keys() & view.reassignments.keys()):
                return
            if self.clock() - began > self.options.max_pause_s:
                self._stop(f"{name_partitions(rest)}: still being reassigned after the cancellation", view)
            self.pause(pause_s)

    def _restore_order(self) -> None:
        """Restore the order of replicas, which Kafka loses when it cancels: of cancellations that have not ended."""
        origins = self.journal.find_cancelled_lists()
        if not origins:
            return
        pauses = growing_pauses(_FIRST_PAUSE_S, self.options.interval_s)
        for attempt in range(_ATTEMPTS + 1):
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
                self.journal.write(log.RESTORE_ORDER, partitions=[])  # nothing is left to restore
                return
            if attempt == _ATTEMPTS:
                self._stop(f"{name_partitions(wrong)}: the order of the replicas could not be restored", view)
            self.journal.write(log.RESTORE_ORDER, partitions=list_keys(wrong))
            try:
                self.connection.alter_reassignments(wrong)
            except KafkaFault as error:
                if error.is_denied:
                    raise
            self.pause(next(pauses))

    def _clean_up(self, view: ClusterView) -> None:
        """Remove the throttles of waves that are over; brokers that are down keep theirs until the next attempt."""
        if missing := self._throttle.restore(view.live_brokers):
            names = ", ".join(map(str, missing))
            self.say(
                f"warning: the throttle of brokers {names} was not removed: they do not answer, or do not allow it"
            )

    def _finish(self, outcome: str) -> None:
        outstanding = self.journal.find_earlier_configs()
        left_out, brokers = len(self._left_out), sorted(outstanding.brokers)
        self.journal.write(log.END, outcome=outcome, partitions_left_out=left_out, throttled_brokers=brokers)
        if outstanding:
            names = [f"broker {id_}" for id_ in brokers] + [f"topic {name}" for name in sorted(outstanding.topics)]
            raise ExecutionStopped(
                f"{outcome}, but a throttle remains on {', '.join(names[:10])}. Repeat the command when they can be "
                "changed again: it removes the throttle"
            )

    @contextmanager
    def _explain_faults(self) -> Iterator[None]:
        """Say what a fault of the cluster leaves behind."""
        try:
            yield
        except KafkaFault as error:
            raise ExecutionStopped(
                f"{error} {self._describe_throttles()}Reassignments of the plan may still be under way. Repeat the "
                "command to continue, or use --cancel or --rollback"
            ) from error

    def _stop(self, problem: str, view: ClusterView) -> None:
        own = [key for key in view.reassignments if key in self.steps.partitions]
        under_way = f" {count_of(len(own), 'reassignment')} of the plan under way." if own else ""
        raise ExecutionStopped(
            f"{problem}.{under_way} {self._describe_throttles()}Repeat the command to continue, or use --cancel or "
            "--rollback"
        )

    def _describe_throttles(self) -> str:
        return "Throttles are still set. " if self.journal.find_earlier_configs() else ""


def _name_errors(errors: Mapping[Key, str]) -> str:
    return ", ".join(sorted(set(errors.values())))
