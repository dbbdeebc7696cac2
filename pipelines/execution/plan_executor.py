"""Carries out a plan wave by wave, or rolls it back; the state of the cluster decides what is done next.

Each step can be repeated: what is already as planned stays unchanged, so that an execution that was interrupted, or
whose calls were answered too late, continues by looking at the cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pipelines.execution import journal as log
from pipelines.execution.cluster_execution import (
    FIRST_PAUSE_S,
    ClusterExecution,
    PauseTimer,
    describe_rejections,
    explain_passing,
    is_final,
)
from pipelines.execution.cluster_view import ClusterView, explain_weak_quorum, name_partitions
from pipelines.execution.copy_progress import CopyProgress
from pipelines.execution.journal import NO_THROTTLE, list_keys, take_throttle
from pipelines.execution.log_dir_moves import MoveProgress
from pipelines.execution.planned_steps import Direction, Place, WaveTarget
from pipelines.execution.preflight import explain_changed, list_irreversible
from pipelines.execution.replication_throttle import describe_foreign, explain_foreign
from pipelines.execution.wave_window import describe_waves
from pipelines.live.kafka_changes import UNKNOWN_PARTITION, is_error
from pipelines.live.kafka_connection import KafkaFault, Key, ReplicaLogDirs
from pipelines.live.pauses import growing_pauses
from pipelines.verdict.cluster_evidence import name_with_noun
from udfs.wording import count_of, format_bytes, is_or_are

_REJECTIONS = 3  # of a partition's reassignment, which may be rejected only while brokers disagree
_ELECTIONS, _LONGEST_PAUSE_S = 5, 4.0  # attempts to elect preferred leaders, and the longest pause before one
_CONFIRMATIONS = 3  # further looks before a partition counts as deleted, or as changed by another tool


@dataclass
class PlanExecutor(ClusterExecution):
    """Carries out one plan on one cluster, or rolls it back."""

    _max_under_replicated: int = 0
    _has_changed: bool = False
    _copies: PauseTimer = field(init=False)  # how long nothing was copied

    def execute(self, direction: Direction) -> list[int]:
        """Carry out the waves of the window in a direction, and elect preferred leaders after the last of the plan.

        Returns: the waves that are left. Raises: ExecutionStopped.
        """
        with self._explain_faults():
            view = self._look()
            self._adopt_throttles(view)
            if self._foreign.brokers and self.options.throttle_bytes_per_s is None:
                warning, remedy = explain_foreign(self._foreign, None)
                self.say(f"warning: {warning}. {remedy.capitalize()}")
            limit = self.options.max_under_replicated
            self._max_under_replicated = len(view.list_under_replicated()) if limit is None else limit
            if direction is Direction.ROLLBACK:
                if left_out := list_irreversible(self.steps, view):  # Kafka takes no list with a down broker
                    count = count_of(len(left_out), "partition")
                    names = name_partitions(left_out)
                    self.say(f"warning: {count} cannot be rolled back, as brokers are down: {names}")
                    self._left_out |= left_out
                self._uncordon(view)
            self._restore_order()  # if a cancellation was interrupted
            self._remove_throttles(view)
            left = self._execute_waves(direction)
            self._remove_throttles(self._look())
            if not left and (self._has_changed or direction is Direction.APPLY):
                self._elect(direction)
        if left:
            self._finish(f"{describe_waves(left)} left", left)
        else:
            self._finish("complete" if direction is Direction.APPLY else "rolled back")
        return left

    def _execute_waves(self, direction: Direction) -> list[int]:
        """Carry out the waves of the window that end in time. Returns: the waves after them, in their order."""
        waves = self.steps.list_waves(direction)
        chosen = [wave for wave in waves if wave in self.options.window.waves]
        for wave in chosen:
            if not self._execute_wave(wave, direction):
                return waves[waves.index(wave) :]
        return waves[waves.index(chosen[-1]) + 1 :] if chosen else waves

    def _adopt_rate(self) -> bool:
        """Take over a throttle that `--change-throttle` has left. Returns: whether there was one."""
        rate = take_throttle(self.journal.path.parent)
        if rate is None:
            return False
        self.options = replace(self.options, throttle_bytes_per_s=rate or None)
        self.journal.write(log.RATE, throttle_bytes_per_s=self.options.throttle_bytes_per_s)
        limit = "none" if rate == NO_THROTTLE else f"{format_bytes(rate)}/s per broker"
        self.say(f"throttle: {limit} from now on")
        return True

    def _is_late(self, wave: int, left: Iterable[Key]) -> bool:
        """Return whether what is left of a wave would end too late if it began now, and say so."""
        rate = self.options.throttle_bytes_per_s
        seconds = self.steps.estimate_seconds(wave, rate, dict.fromkeys(left, 1.0))
        text = self.options.window.explain_lateness(wave, seconds, rate)
        if text:
            self.say(f"{text}; times are {self.steps.pace}" if str(self.steps.pace) else text)
        return bool(text)

    def _execute_wave(self, wave: int, direction: Direction) -> bool:
        """Carry out a wave. Returns: whether it was, as it would not end too late."""
        targets = {k: one for k, one in self.steps.find_targets(wave, direction).items() if k not in self._left_out}
        view, places = self._find_places(self._look(), targets)
        if self.options.cordons and direction is Direction.APPLY:
            self._cordon.apply(self.steps.find_unlisted(wave) & view.live_brokers)
        todo = {key: targets[key] for key, place in places.items() if place in (Place.PENDING, Place.MOVING)}
        if not todo:
            return True
        self._adopt_rate()
        has_begun = Place.MOVING in places.values()  # in an execution that was interrupted
        if not has_begun and self._is_late(wave, todo):
            return False
        self._has_changed = True
        done = sum(place is Place.DONE for place in places.values())
        partitions = count_of(len(todo) + done, "partition")  # of the wave, as check and --verify count them
        self.say(f"wave {wave} of {self.steps.waves}: {partitions}{f', {done:,} of them done before' if done else ''}")
        self.journal.write(log.WAVE, wave=wave, direction=direction, partitions=len(todo))
        progress = self._make_progress(todo)
        is_throttled = self.options.throttle_bytes_per_s is None
        if has_begun:
            is_throttled = not self._set_throttle(wave, todo, view)
            progress.resume()
        rejections = Counter[Key]()
        calls, self._copies = self._make_timer(lambda reason: self._note_pause(wave, reason)), self._make_timer()
        printed = self.clock()
        for pause_s in growing_pauses(FIRST_PAUSE_S, self.options.interval_s):
            view, places = self._find_places(self._wait_while_unhealthy(wave), targets)
            pending = {key: targets[key] for key, place in places.items() if place is Place.PENDING}
            if not pending and Place.MOVING not in places.values():
                break
            self._check_brokers(wave, pending, view)
            is_throttled = is_throttled and not self._adopt_rate()
            if not has_begun and self._is_late(wave, todo):  # after a pause
                return False
            reason = "" if is_throttled else self._set_throttle(wave, todo, view)
            is_throttled = not reason
            if pending and is_throttled:
                has_begun = True
                reason = self._submit(wave, pending, view, rejections)
            if calls.is_too_long(reason):
                self._stop(f"paused for {calls.limit_s:.0f} s: {reason}")
            if self.clock() - printed >= self.options.progress_s:
                printed = self.clock()
                done = sum(place is Place.DONE for place in places.values())
                moving = [key for key, place in places.items() if place is Place.MOVING]
                lagging = view.describe_lagging(moving)
                if self._foreign.brokers and self.options.throttle_bytes_per_s is None:
                    lagging += f", {describe_foreign(self._foreign)}"
                self.say(f"  {done} of {partitions} done{progress.describe()}{lagging}")
                if self._copies.is_too_long("" if progress.has_changed(done) else "nothing is copied"):
                    where = f"{name_partitions(moving)}{lagging}"
                    self._stop(f"nothing was copied for {self._copies.limit_s:.0f} s: {where}")
            self.pause(pause_s)
        progress.describe()
        self._remove_throttles(view)
        self.journal.write(log.WAVE_DONE, wave=wave, direction=direction, copied_bytes=progress.copied_bytes)
        return True

    def _make_progress(self, targets: Mapping[Key, WaveTarget]) -> CopyProgress:
        if self.steps.moves_log_dirs:
            return MoveProgress(self.connection, self._list_dirs(targets), self.clock)
        return CopyProgress(self.connection, *self.steps.select_lists(targets), self.clock)

    def _list_dirs(self, targets: Mapping[Key, WaveTarget]) -> ReplicaLogDirs:
        """List the log dirs that a wave moves replicas to."""
        return {
            replica: path
            for key, one in targets.items()
            for replica, path in self.steps.list_dirs(key, one.after).items()
            if path != self.steps.list_dirs(key, one.before).get(replica)
        }

    def _set_throttle(self, wave: int, targets: Mapping[Key, WaveTarget], view: ClusterView) -> str:
        """Throttle a wave, or no longer. Return why that failed, or nothing: the next look names brokers that fail."""
        rate = self.options.throttle_bytes_per_s
        if rate is None:
            self._throttle.restore(view.live_brokers)
            return ""
        try:
            if self.steps.moves_log_dirs:
                brokers = {broker for *_, broker in self._list_dirs(targets)}
                self._throttle.limit_dir_moves(wave, rate, brokers & view.live_brokers)
            else:
                self._throttle.apply(wave, rate, *self.steps.select_lists(targets), view.live_brokers)
        except KafkaFault as error:
            return f"the throttle is not set: {explain_passing(error)}"
        return ""

    def _remove_throttles(self, view: ClusterView) -> None:
        """Remove the throttles, unless copies of the plan are under way, which would run without the rate of now."""
        is_under_way = self._under_way | (view.reassignments.keys() & self.steps.partitions.keys())
        if self.options.throttle_bytes_per_s is None or not is_under_way:
            self._throttle.restore(view.live_brokers)

    def _check_brokers(self, wave: int, pending: Mapping[Key, WaveTarget], view: ClusterView) -> None:
        """Check that the brokers that a wave moves to are live. Raises: ExecutionStopped."""
        lists = self.steps.select_lists(pending)[1].values()
        if down := sorted({broker for one in lists for broker in one} - view.live_brokers):
            self._stop(f"{name_with_noun(down)} {is_or_are(len(down))} down or fenced, and needed by wave {wave}")

    def _submit(self, wave: int, pending: Mapping[Key, WaveTarget], view: ClusterView, rejections: Counter[Key]) -> str:
        """Reassign partitions. Return why not all were accepted, or nothing.

        A call without an answer is not repeated here: the next look at the cluster decides. Raises: ExecutionStopped if
        Kafka rejects a partition repeatedly.
        """
        lists = self.steps.select_lists(pending)[1]
        self.journal.write(log.ALTER, wave=wave, partitions=list_keys(lists))
        try:
            moves = self._list_dirs(pending) if self.steps.moves_log_dirs else {}
            self._unconfirmed |= {(topic, partition) for topic, partition, _ in moves}
            log_dirs = moves or self.steps.find_log_dirs(lists, view.partitions)
            rejected = self.connection.choose_log_dirs(log_dirs)
            if moves:
                self._note_submission(lists, rejected)
            elif not rejected:
                self._unconfirmed |= lists.keys()  # until Kafka answers, or the next look
                moving = view.reassignments
                cancelled = [key for key in lists if key in moving and moving[key].ends_when_cancelled]
                rejected = self.connection.alter_reassignments({**lists, **dict.fromkeys(cancelled)})
                self._note_submission(lists, rejected)
        except KafkaFault as error:
            if is_final(error):
                self._unconfirmed -= lists.keys()
                raise
            self._has_submitted = True
            return f"{error.problem}: looking at the cluster"
        rejections.update(rejected.keys())
        lasting = {
            key: text
            for key, text in rejected.items()
            if rejections[key] > _REJECTIONS and not is_error(text, UNKNOWN_PARTITION)
        }
        if lasting:
            self._stop(
                f"Kafka rejects the reassignment of {count_of(len(lasting), 'partition')}: "
                f"{describe_rejections(lasting)}"
            )
        return f"Kafka rejects a reassignment: {describe_rejections(rejected)}" if rejected else ""

    def _note_submission(self, keys: Iterable[Key], rejected: Mapping[Key, str]) -> None:
        """Note that Kafka has answered."""
        self._unconfirmed -= set(keys)
        self._under_way |= set(keys) - rejected.keys()
        self._has_submitted |= bool(self._under_way)

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
            is_back = any(target.after < target.before for target in targets.values())
            direction = Direction.ROLLBACK if is_back else Direction.APPLY
            self._stop(explain_changed(changed, direction), can_continue=False)
        return view, places

    def _read_places(self, view: ClusterView, targets: Mapping[Key, WaveTarget]) -> dict[Key, Place]:
        places = {}
        for key, target in targets.items():
            partition = view.partitions.get(key)
            if key[0] in view.unreadable_topics or (partition is None and key in view.reassignments):
                places[key] = Place.MOVING  # it exists, so a later look will show it
                continue
            if view.is_recreated(key[0], self.topic_ids):
                partition = None  # another topic of the same name
            places[key] = self.steps.find_place(key, target, partition, view.reassignments.get(key), view.logs)
        return places

    def _wait_while_unhealthy(self, wave: int) -> ClusterView:
        """Return a view of the cluster once nothing forbids to go on. Raises: ExecutionStopped after a long pause."""
        timer = self._make_timer(lambda reason: self._note_pause(wave, reason))
        while True:
            view = self._look()
            reason = self._explain_pause(view)
            if timer.is_too_long(reason):
                self._stop(f"paused for {timer.limit_s:.0f} s: {reason}")
            if not reason:
                return view
            self.pause(self.options.interval_s)

    def _note_pause(self, wave: int, reason: str) -> None:
        self.say(f"  paused: {reason}" if reason else "  continuing")
        if reason:
            self.journal.write(log.PAUSE, wave=wave, reason=reason)
        else:
            self._copies.is_too_long("")  # what was not copied during a pause does not count

    def _explain_pause(self, view: ClusterView) -> str:
        if weakness := explain_weak_quorum(self.connection):
            return weakness
        if foreign := self.steps.list_foreign(view.reassignments):
            return f"another tool reassigns {name_partitions(foreign)}"
        if down := sorted(self.steps.brokers & self._seen_live - view.live_brokers):
            silent = view.unfenced_brokers.issuperset(down)
            verb = ("does not answer" if len(down) == 1 else "do not answer") if silent else "failed"
            return f"{name_with_noun(down)} {verb}"
        under = len(view.list_under_replicated())
        if under > self._max_under_replicated:
            return f"{count_of(under, 'partition')} under-replicated, more than {self._max_under_replicated}"
        return ""

    def _elect(self, direction: Direction) -> None:
        # A broker that failed meanwhile no longer leads partitions whose election the plan did not foresee.
        moved = self.steps.partitions if direction is Direction.APPLY and not self.steps.moves_log_dirs else ()
        keys = [key for key in dict.fromkeys((*self.elections, *moved)) if key not in self._left_out]
        if not keys:
            return
        self.journal.write(log.ELECT, partitions=list_keys(keys))
        failed = dict.fromkeys(keys, "not tried")
        pauses = growing_pauses(FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        for attempt in range(_ELECTIONS):  # a replica may come back in sync a moment later
            if attempt:
                self.pause(next(pauses))
            try:
                errors = self.connection.elect_preferred_leaders(list(failed))
            except KafkaFault as error:
                if error.is_denied or attempt == _ELECTIONS - 1:
                    raise
                continue
            failed = {key: reason for key, reason in errors.items() if reason != UNKNOWN_PARTITION}  # deleted meanwhile
            if not failed:
                return
        self.say(f"warning: no preferred leader was elected for {describe_rejections(failed)}")
