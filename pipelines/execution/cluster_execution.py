"""What carrying out, rolling back and cancelling a plan have in common: looks at the cluster, limits, and their end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, NoReturn

from pipelines.errors import KafkaPlacementError
from pipelines.execution import journal as log
from pipelines.execution.broker_cordons import BrokerCordon
from pipelines.execution.cluster_view import ClusterView, explain_fault, name_partitions, view_cluster
from pipelines.execution.journal import EarlierConfigs, Journal, list_keys
from pipelines.execution.planned_steps import PlannedSteps
from pipelines.execution.replication_throttle import (
    ReplicationThrottle,
    find_foreign,
    find_left_throttles,
    list_restore_commands,
    name_throttled,
    read_throttles,
)
from pipelines.execution.wave_window import WaveWindow
from pipelines.live.kafka_changes import KafkaAdmin, KafkaRejection
from pipelines.live.kafka_connection import KafkaFault, Key, UnsupportedCall
from pipelines.live.pauses import growing_pauses
from pipelines.verdict.cluster_evidence import name_with_noun
from udfs.wording import count_of, is_or_are, join_names

FIRST_PAUSE_S = 0.25  # before the next look at a cluster that has just changed
_UNCORDON_S = 5.0  # until the controller knows of it, by heartbeats of the brokers
_ATTEMPTS = 5  # of restoring an order
_MAX_ERRORS = 5  # of Kafka, in a message


class ExecutionStopped(KafkaPlacementError):
    """An execution cannot go on; the message says what is under way or left, and how to continue or undo it."""


@dataclass(frozen=True)
class ExecutionOptions:
    """How a plan is carried out."""

    throttle_bytes_per_s: int | None = None  # None = no throttle
    max_under_replicated: int | None = None  # partitions; None = as many as when the execution begins
    max_pause_s: float = 3600.0  # a longer pause ends the execution
    interval_s: float = 2.0  # the longest time between two looks at the cluster
    progress_s: float = 15.0  # between two lines on the progress of a wave
    window: WaveWindow = field(default_factory=WaveWindow)  # the waves that may be begun
    command_config: Path | None = None  # of Kafka's tools, for the commands that messages contain
    cordons: bool = False  # whether the brokers that the plan empties are cordoned


@dataclass
class PauseTimer:
    """Measures a pause. announce: called with each new reason, and with an empty one when the pause is over."""

    clock: Callable[[], float]
    limit_s: float
    announce: Callable[[str], None] = lambda _: None
    _began: float | None = None
    _reason: str = ""

    def is_too_long(self, reason: str) -> bool:
        """Note why the execution does not go on, or with an empty reason that it does; return if that is too long."""
        if reason != self._reason:
            self._reason = reason
            self.announce(reason)
        if not reason:
            self._began = None
            return False
        now = self.clock()
        if self._began is None:
            self._began = now
        return now - self._began > self.limit_s


@dataclass
class ClusterExecution:
    """An execution of one plan on one cluster.

    say: prints a line. clock, pause: the time in seconds, and how to wait.
    """

    next_step: ClassVar[str] = "Repeat the command to continue, or use --cancel or --rollback."

    connection: KafkaAdmin
    steps: PlannedSteps
    elections: Sequence[Key]
    topic_ids: Mapping[str, str]  # of the plan's topics, as far as the plan knows them
    journal: Journal
    options: ExecutionOptions
    say: Callable[[str], None]
    pause: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    _left_out: set[Key] = field(default_factory=set)  # deleted partitions, and those that cannot be rolled back
    _seen_live: set[int] = field(default_factory=set)  # brokers that were live at some moment of this execution
    _under_way: set[Key] = field(default_factory=set)  # reassignments of the plan, when last seen or submitted
    _unconfirmed: set[Key] = field(default_factory=set)  # submitted without an answer since the last look
    _has_submitted: bool = False
    _foreign: EarlierConfigs = field(default_factory=EarlierConfigs)  # throttles of other tools, when it began
    _view: ClusterView | None = None  # the last one; None = the cluster does not answer

    def __post_init__(self) -> None:
        changes = (self.connection, self.journal, self.say, self.pause)
        self._throttle, self._cordon = ReplicationThrottle(*changes), BrokerCordon(*changes)

    def _uncordon(self, view: ClusterView) -> None:
        """Restore what cordons of the plan have replaced, before lists name their brokers again."""
        if brokers := sorted(self._cordon.earlier.brokers.keys() & view.live_brokers):
            self.say(
                f"{name_with_noun(brokers)} {'gets its' if len(brokers) == 1 else 'get their'} earlier cordons back"
            )
            self._cordon.restore(view.live_brokers)
            self.pause(_UNCORDON_S)

    def _adopt_throttles(self, view: ClusterView) -> None:
        """Have throttles removed that an earlier execution of the plan has left, whose journal is lost."""
        throttles = read_throttles(self.connection, self.steps, view, self.steps.brokers)
        known = self.journal.find_earlier_configs()
        left = find_left_throttles(self.steps, throttles, self.journal.find_restored_configs()).without(known)
        if left:
            self.say(
                f"an earlier execution of this plan has left throttles on {name_throttled(left)}: they will be removed"
            )
            self._throttle.adopt(left)
        self._foreign = find_foreign(self.steps, throttles, self.journal.find_earlier_configs())
        if self._foreign:
            brokers, topics = self._foreign.brokers, self._foreign.topics
            self.journal.write(log.FOREIGN_THROTTLE, earlier_brokers=brokers, earlier_topics=topics)

    def _make_timer(self, announce: Callable[[str], None] = lambda _: None) -> PauseTimer:
        return PauseTimer(self.clock, self.options.max_pause_s, announce)

    def _look(self) -> ClusterView:
        """View the cluster; wait for one that does not answer. Raises: KafkaFault after a long time, or if denied."""
        timer = self._make_timer(lambda reason: self.say(f"  {reason}" if reason else "  the cluster answers again"))
        while True:
            try:
                view = view_cluster(self.connection, self.pause, self.steps.log_brokers)
            except KafkaFault as error:
                if error.is_denied or timer.is_too_long(f"the cluster does not answer: {error.problem}"):
                    raise explain_fault(self.connection, error) from None
                self.pause(self.options.interval_s)
                continue
            timer.is_too_long("")
            self._seen_live |= view.live_brokers
            self._note_view(view)
            return view

    def _note_view(self, view: ClusterView) -> None:
        self._view = view
        foreign = set(self.steps.list_foreign(view.reassignments))
        self._under_way = (self.steps.partitions.keys() & view.reassignments.keys()) - foreign
        self._under_way |= {(topic, partition) for topic, partition, _ in self.steps.list_moving_dirs(view.logs)}
        self._unconfirmed.clear()

    def _restore_order(self) -> None:
        """Restore the order of replicas, which Kafka loses when it cancels: of cancellations that have not ended."""
        origins = self.journal.find_cancelled_lists()
        if not origins:
            return
        pauses = growing_pauses(FIRST_PAUSE_S, self.options.interval_s)
        reason = "no error of Kafka"
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
                self._stop(f"{name_partitions(wrong)}: the order of the replicas could not be restored: {reason}")
            self.journal.write(log.RESTORE_ORDER, partitions=list_keys(wrong))
            try:
                if rejected := self.connection.alter_reassignments(wrong):
                    reason = describe_rejections(rejected)
            except KafkaFault as error:
                reason = explain_passing(error)
            self.pause(next(pauses))

    def _finish(self, outcome: str, waves_left: Sequence[int] = ()) -> None:
        """End the journal. waves_left: those of another night. Raises: ExecutionStopped if throttles remain."""
        outstanding = self.journal.find_earlier_configs()
        left_out, brokers = len(self._left_out), sorted(outstanding.brokers)
        rest = {"waves_left": list(waves_left)} if waves_left else {}
        self.journal.write(log.END, outcome=outcome, partitions_left_out=left_out, throttled_brokers=brokers, **rest)
        if outstanding:
            raise ExecutionStopped(
                f"{outcome}, but throttles remain on {name_throttled(outstanding)}. Repeat the command when they can "
                "be changed again: it removes them",
                *self._list_commands(),
            )

    @contextmanager
    def _explain_faults(self) -> Iterator[None]:
        """Say what a fault of the cluster leaves behind."""
        try:
            yield
        except KafkaFault as error:
            self._stop(str(error).rstrip("."), error)

    def _stop(self, problem: str, cause: KafkaFault | None = None, *, can_continue: bool = True) -> NoReturn:
        """End the execution. Throttles are removed, unless copies are under way, which would run without them."""
        if cause is not None or self._unconfirmed:
            try:
                self._note_view(view_cluster(self.connection, self.pause, self.steps.log_brokers))
            except KafkaFault:
                self._view = None
        if self._view is not None and not self._under_way | self._unconfirmed:
            self._throttle.restore(self._view.live_brokers)
        raise ExecutionStopped(f"{problem}.", *self.describe_rest(can_continue=can_continue)) from cause

    def describe_rest(self, *, can_continue: bool = True) -> list[str]:
        """Say which reassignments of the plan continue without this execution, which throttles are left: lines."""
        under_way = self._under_way | self._unconfirmed
        count = count_of(len(under_way), "reassignment")
        if self._unconfirmed:
            text = f"Up to {count} of the plan may be under way, as Kafka has not answered."
        elif under_way:
            text = f"{count} of the plan {is_or_are(len(under_way))} under way: {name_partitions(under_way)}."
        else:
            text = f"No reassignment of the plan {'is under way' if self._has_submitted else 'was submitted'}."
        outstanding = self.journal.find_earlier_configs()
        left = (
            f"Throttles stay set on {name_throttled(outstanding)}."
            if outstanding
            else "No throttle of the plan is left."
        )
        if cordoned := sorted(self._cordon.earlier.brokers):
            left += f" {name_with_noun(cordoned).capitalize()} {is_or_are(len(cordoned))} cordoned."
        next_step = self.next_step if can_continue else "To end what is left of this execution, use --cancel."
        return [f"{text} {left}", next_step, *self._list_commands()]

    def _list_commands(self) -> list[str]:
        """List the commands that remove the throttles that are left, after a line that introduces them."""
        outstanding = self.journal.find_earlier_configs()
        if not outstanding:
            return []
        when = ", once the reassignments are over" if self._under_way | self._unconfirmed else ""
        commands = list_restore_commands(outstanding, self.connection.servers, self.options.command_config)
        return [f"To remove the throttles without this program{when}:", *commands]


def is_final(error: KafkaFault) -> bool:
    """Return whether a call will not succeed however often it is repeated."""
    return error.is_denied or isinstance(error, (KafkaRejection, UnsupportedCall))


def explain_passing(error: KafkaFault) -> str:
    """Return why a call failed that may be repeated. Raises: the error, if the call will never succeed."""
    if is_final(error):
        raise error
    return error.problem


def describe_rejections(rejected: Mapping[Key, str]) -> str:
    """Name Kafka's errors, each with the first of its partitions."""
    keys: dict[str, list[Key]] = {}
    for key, text in sorted(rejected.items()):
        keys.setdefault(text, []).append(key)
    return join_names((f"{name_partitions(some)} ({text})" for text, some in keys.items()), _MAX_ERRORS)
