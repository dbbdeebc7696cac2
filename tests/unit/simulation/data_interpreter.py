"""Logs, high watermarks and delayed requests in plain Python, written from docs/replay-rules.md.

A log is a list of messages. Two logs share their common beginning; messages not in the new leader's log are lost.
Where the rules leave a choice:

- Order at the same time: checkpoint (of the state before that time), deadlines, ISR checks, the controller's check of
  leaders, events. The first check and checkpoint come after the first event's time.
- An epoch of the initial state starts at offset 0.
- A leader that is written but down (no controller could write another) counts as none.
- acks 0 is "nothing awaited" also without error; acks 1 "append"; rejected, or complete on arrival: "at once". Errors
  of acks 0 are kept, although no client sees them. A fetch dropped by a newer one has no error and no messages.
- A disconnected request (its leader or the fetching replica failed) is never answered; its cause is "broker down".
- A deletion that waits changes nothing for data. Requests fail once the partition is deleted or if it never existed.
  The fetch of a down broker is rejected for that first.
- Of a consumer's fetch all parts fail that an event fails; the others are answered at the end of that event with what
  is readable then.
- A replica that joins the ISR may complete a reassignment, after its fetch. ISRs that the leader changes have the
  present controller epoch.
- A leader's hw above `committed` (after several unclean elections) becomes `committed`. Lost messages stay lost from
  the first loss on, even if a log that has them leads again.
- `offsets` events are known to the leader too; their hw is on disk; the leader's raises `committed`. A longer log gets
  the leader's messages, else those of the longest log that continues it; `fetch_offset` above `leo`: the leader's.
- Down brokers keep their hw until they return; a consumer without `fetch_offset` starts at 0.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

from udfs.simulation.cluster_events import Event, TopicPartition
from udfs.simulation.kernels.codes import AnsweredBy, EventKind, RequestError

NEVER = float("-inf")
Message = tuple[str, int]


@dataclass
class ModelReplica:
    """A replica. hw: in the broker's memory; checkpoint: on disk; the rest is what the leader knows of it."""

    log: list[Message] = field(default_factory=list)
    hw: int = 0
    checkpoint: int = 0
    remote: int = -1
    caught_up_at: float = NEVER
    fetched_at: float = NEVER
    leader_leo_at_fetch: int | None = None

    @property
    def leo(self) -> int:
        return len(self.log)

    def truncate_to(self, size: int) -> None:
        del self.log[size:]
        self.hw = min(self.hw, self.leo)


@dataclass(kw_only=True)
class PartitionData:
    """Data of a partition, beside its state in the controller."""

    key: TopicPartition = ("", 0)
    min_isr: int = 1
    replicas: dict[int, ModelReplica] = field(default_factory=dict)
    committed: int = 0
    visible: int | None = None
    has_fetches: bool = False  # a replica has fetched
    appends: list[tuple[Event, dict[str, Any], list[Message]]] = field(default_factory=list)
    lost: set[Message] = field(default_factory=set)
    waiting: list[Waiting] = field(default_factory=list)
    serving: int | None = None  # the leader if it is live, and its epoch, at the last change
    serving_epoch: int = 0
    last: int | None = None
    epoch_start: int = 0


@dataclass
class Group:
    """A consumer's fetch of some partitions."""

    parts: list[Waiting] = field(default_factory=list)
    failed_by: int | None = None


@dataclass(eq=False)
class Waiting:
    event: Event
    answer: dict[str, Any]
    deadline: int
    until: int = 0  # a produce: the hw that completes it
    offset: int = 0  # a fetch: where it begins
    group: Group | None = None  # a consumer's


def common(one: list[Message], other: list[Message]) -> int:
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


class DataPlane:
    def __init__(self, controller: Any, first_at: int) -> None:
        rules = controller.settings
        self.cluster = controller
        self.lag_ms = getattr(rules, "replica_lag_time_max_ms", 30_000)
        self.lag_messages = getattr(rules, "replica_lag_max_messages", 0)
        self.bytes = getattr(rules, "message_bytes", 100)
        self.to_high_watermark = getattr(rules, "truncate_to", "epoch") == "high_watermark"
        self.checkpoint_ms = getattr(rules, "checkpoint_ms", 5_000)
        self.joins_at_epoch_start = getattr(rules, "isr_joins_at_epoch_start", True)
        self.first_at = first_at
        self.checkpoint_at = (first_at // self.checkpoint_ms + 1) * self.checkpoint_ms
        self.lag_at = (first_at // (self.lag_ms // 2) + 1) * (self.lag_ms // 2)
        self.messages = itertools.count()
        self.groups: dict[int, Group] = {}

    # ---- decisions of the controller

    def add_partition(
        self, one: Any, key: TopicPartition, leos: tuple[int, ...], hws: tuple[int, ...], at: int
    ) -> None:
        """Add a partition of the initial state."""
        one.key = key
        for i, broker in enumerate(one.ar):
            leo = leos[i] if leos else 0
            hw = min(hws[i] if hws else 0, leo)
            one.replicas[broker] = ModelReplica(
                [("initial", n) for n in range(leo)], hw, hw, remote=leo, caught_up_at=at
            )
        one.serving, one.serving_epoch = self.leader(one), one.epoch
        one.last = one.leader
        known = [one.replicas[one.leader].hw] if one.leader in one.replicas else [r.hw for r in one.replicas.values()]
        one.committed = max(known, default=0)
        self.try_high_watermark(one)
        self.update_visible(one)

    def add_new_partition(self, one: Any, key: TopicPartition) -> None:
        one.key = key
        one.replicas = {broker: ModelReplica() for broker in one.ar}

    def update_assignment(self, one: Any) -> None:
        """Set the replicas of a new AR: new ones are empty, removed ones are deleted."""
        one.replicas = {broker: one.replicas.get(broker) or ModelReplica() for broker in one.ar}

    def leader(self, one: Any) -> int | None:
        return one.leader if one.leader in self.cluster.live else None

    def apply_leader_change(self, one: Any) -> None:
        """Update data after the leader or its epoch may have changed."""
        leader = self.leader(one)
        if leader != one.serving:
            if one.serving is not None:
                lives = one.serving in self.cluster.live
                for wait in list(one.waiting):
                    if lives:
                        self.answer(one, wait, RequestError.NOT_LEADER_OR_FOLLOWER, AnsweredBy.LEADER_CHANGE)
                    else:
                        self.drop(one, wait)
            one.serving, one.serving_epoch = leader, one.epoch
            if leader is not None:
                self.become_leader(one)
        elif leader is not None and one.epoch != one.serving_epoch:
            one.serving_epoch = one.epoch
            one.epoch_start = one.replicas[leader].leo
            for wait in [wait for wait in one.waiting if wait.event.kind == EventKind.FETCH]:
                self.answer(one, wait, RequestError.FENCED_LEADER_EPOCH, AnsweredBy.LEADER_CHANGE)
            self.try_high_watermark(one)
        self.update_visible(one)

    def become_leader(self, one: Any) -> None:
        new = one.replicas[one.serving]
        if one.last not in (None, one.serving):
            kept = set(new.log)
            for event, answer, messages in one.appends:
                gone = [m for m in messages if m not in kept and m not in one.lost]
                if gone:
                    one.lost.update(gone)
                    answer["lost_messages"] += len(gone)
                    if answer["lost_at"] is None:
                        answer["lost_at"] = self.cluster.at
                    self.cluster.note("lost", one, request=event.request, answer=dict(answer))
        one.last = one.serving
        self.commit(one, max(min(one.committed, new.leo), new.hw))
        for broker, replica in one.replicas.items():
            replica.remote, replica.fetched_at, replica.leader_leo_at_fetch = -1, NEVER, None
            replica.caught_up_at = self.cluster.at if broker in one.isr else NEVER
        one.epoch_start = new.leo
        self.try_high_watermark(one)
        for broker in one.replicas:
            if broker != one.serving and broker in self.cluster.live:
                self.truncate(one, broker)

    def truncate(self, one: Any, broker: int) -> None:
        replica, leader = one.replicas[broker], one.replicas[one.serving]
        replica.truncate_to(replica.hw if self.to_high_watermark else common(replica.log, leader.log))

    def on_broker_failure(self, broker: int, in_order: bool) -> None:
        for one in self.cluster.partitions.values():
            if broker not in one.replicas:
                continue
            if in_order:
                one.replicas[broker].checkpoint = one.replicas[broker].hw
            for wait in list(one.waiting):
                if wait.event.kind == EventKind.FETCH and wait.event.broker == broker:
                    self.drop(one, wait)
            self.apply_leader_change(one)

    def on_broker_return(self, broker: int) -> None:
        for one in self.cluster.partitions.values():
            if broker in one.replicas:
                replica = one.replicas[broker]
                replica.hw = min(replica.checkpoint, replica.leo)
                if one.serving not in (None, broker):
                    self.truncate(one, broker)
                self.update_visible(one)

    def fail_partition_requests(self, one: Any) -> None:
        for wait in list(one.waiting):
            self.answer(one, wait, RequestError.UNKNOWN_TOPIC_OR_PARTITION, AnsweredBy.TOPIC_DELETION)

    # ---- high watermarks

    def update_visible(self, one: Any) -> None:
        one.visible = None if one.serving is None else one.replicas[one.serving].hw

    def commit(self, one: Any, to: int) -> None:
        if to != one.committed:
            self.cluster.note("committed", one, was=one.committed, now=to)
        one.committed = to

    def try_high_watermark(self, one: Any) -> None:
        if one.serving is None:
            return
        leader = one.replicas[one.serving]
        others = [one.replicas[b].remote if b in one.replicas else -1 for b in one.isr if b != one.serving]
        if -1 in others or min([leader.leo, *others]) <= leader.hw:
            return
        leader.hw = min([leader.leo, *others])
        self.commit(one, max(one.committed, leader.hw))
        self.update_visible(one)
        for wait in list(one.waiting):
            if wait.event.kind == EventKind.APPEND:
                self.try_produce(one, wait, AnsweredBy.HIGH_WATERMARK)
            elif wait.group is not None and wait in one.waiting:
                self.try_complete_group(wait.group)

    # ---- requests

    def open(self, event: Event) -> dict[str, Any]:
        answer = {
            "error": RequestError.NONE,
            "answered_by": AnsweredBy.WAITING,
            "answered_at": None,
            "base_offset": None,
            "messages": 0,
            "lost_messages": 0,
            "lost_at": None,
        }
        if event.request is not None:
            self.cluster.requests[event.request, event.partition] = answer
        return answer

    def close(self, answer: dict[str, Any], error: int, by: int, messages: int | None = None) -> None:
        answer.update(error=error, answered_by=by, answered_at=self.cluster.at)
        if messages is not None:
            answer["messages"] = messages

    def answer(self, one: Any, wait: Waiting, error: int, by: int, messages: int | None = None) -> None:
        one.waiting.remove(wait)
        self.close(wait.answer, error, by, messages)
        if wait.group is not None and error != RequestError.NONE:
            wait.group.failed_by = by

    def drop(self, one: Any, wait: Waiting) -> None:
        self.answer(one, wait, RequestError.DISCONNECTED, AnsweredBy.BROKER_DOWN)
        wait.answer["answered_at"] = None

    def append(self, one: Any, event: Event) -> None:
        answer = self.open(event)
        error = RequestError.NONE
        if one is None:
            error = RequestError.UNKNOWN_TOPIC_OR_PARTITION
        elif one.serving is None:
            error = RequestError.LEADER_NOT_AVAILABLE
        elif event.acks == -1 and len(one.isr) < one.min_isr:
            error = RequestError.NOT_ENOUGH_REPLICAS
        if error != RequestError.NONE:
            self.close(answer, error, AnsweredBy.NOTHING_AWAITED if event.acks == 0 else AnsweredBy.AT_ONCE)
            return
        leader = one.replicas[one.serving]
        base = leader.leo
        answer["base_offset"] = -1 if event.acks == 0 else base
        answer["messages"] = event.messages
        if event.messages:
            written = [("append", next(self.messages)) for _ in range(event.messages)]
            leader.log += written
            one.appends.append((event, answer, written))
            self.try_high_watermark(one)
        if event.acks == 0:
            self.close(answer, RequestError.NONE, AnsweredBy.NOTHING_AWAITED)
        elif event.acks == 1:
            self.close(answer, RequestError.NONE, AnsweredBy.APPEND)
        elif not event.messages:
            self.close(answer, RequestError.NONE, AnsweredBy.AT_ONCE)
        else:
            wait = Waiting(event, answer, event.at_ms + event.wait_ms, until=base + event.messages)
            one.waiting.append(wait)
            self.try_produce(one, wait, AnsweredBy.AT_ONCE)
        if event.messages:
            for wait in [wait for wait in one.waiting if wait.event.kind == EventKind.FETCH and wait.group is None]:
                if self.readable(one, wait) >= wait.event.min_bytes:
                    self.deliver(one, wait, AnsweredBy.APPEND)

    def try_produce(self, one: Any, wait: Waiting, by: int) -> None:
        if one.replicas[one.serving].hw >= wait.until:
            enough = len(one.isr) >= one.min_isr
            self.answer(one, wait, RequestError.NONE if enough else RequestError.NOT_ENOUGH_REPLICAS_AFTER_APPEND, by)

    def readable(self, one: Any, wait: Waiting) -> int:
        leader = one.replicas[one.serving]
        end = leader.leo if wait.group is None else leader.hw
        return self.bytes * max(0, end - wait.offset)

    def deliver(self, one: Any, wait: Waiting, by: int) -> None:
        leader = one.replicas[one.serving]
        if wait.group is not None:
            self.answer(one, wait, RequestError.NONE, by, len(leader.log[wait.offset : leader.hw]))
            return
        replica, read = one.replicas[wait.event.broker], leader.log[wait.offset :]
        replica.log[wait.offset :] = read
        replica.hw = min(replica.leo, leader.hw)
        self.answer(one, wait, RequestError.NONE, by, len(read))

    def find_error(self, one: Any, event: Event, offset: int) -> int:
        if event.broker is not None and event.broker not in self.cluster.live:
            return RequestError.BROKER_DOWN
        if one is None:
            return RequestError.UNKNOWN_TOPIC_OR_PARTITION
        if one.serving is None:
            return RequestError.LEADER_NOT_AVAILABLE
        if event.broker is not None and (event.broker == one.serving or event.broker not in one.ar):
            return RequestError.NOT_ASSIGNED_REPLICA
        if event.leader_epoch >= 0 and event.leader_epoch != one.epoch:
            return (
                RequestError.FENCED_LEADER_EPOCH
                if event.leader_epoch < one.epoch
                else RequestError.UNKNOWN_LEADER_EPOCH
            )
        return RequestError.OFFSET_OUT_OF_RANGE if offset > one.replicas[one.serving].leo else RequestError.NONE

    def fetch(self, one: Any, event: Event) -> None:
        if event.broker is None:
            self.fetch_as_consumer(event)
            return
        answer = self.open(event)
        replica = one.replicas.get(event.broker) if one else None
        if replica and event.fetch_offset is None and event.broker in self.cluster.live and one.serving is not None:
            replica.truncate_to(one.replicas[one.serving].leo)
        offset = event.fetch_offset if event.fetch_offset is not None else replica.leo if replica else 0
        error = self.find_error(one, event, offset)
        if error != RequestError.NONE:
            self.close(answer, error, AnsweredBy.AT_ONCE)
            return
        now, leader = self.cluster.at, one.replicas[one.serving]
        for wait in [w for w in one.waiting if w.event.kind == EventKind.FETCH and w.event.broker == event.broker]:
            self.answer(one, wait, RequestError.NONE, AnsweredBy.NEWER_FETCH)
        if not one.has_fetches:
            one.has_fetches = True
            for other in one.replicas.values():
                other.caught_up_at = max(other.caught_up_at, now)
        replica.log += leader.log[replica.leo : offset]
        replica.truncate_to(offset)
        replica.remote = offset
        if offset >= leader.leo:
            replica.caught_up_at = now
        elif replica.leader_leo_at_fetch is not None and offset >= replica.leader_leo_at_fetch:
            replica.caught_up_at = max(replica.caught_up_at, replica.fetched_at)
        replica.fetched_at, replica.leader_leo_at_fetch = now, leader.leo
        begins = one.epoch_start if self.joins_at_epoch_start else 0
        can_join = event.broker not in one.isr and event.broker not in self.cluster.leaving
        can_join = can_join and offset >= max(leader.hw, begins)
        if can_join:
            one.isr.append(event.broker)
            one.written = self.cluster.epoch
            self.cluster.note("isr", one)
        self.try_high_watermark(one)
        wait = Waiting(event, answer, event.at_ms + event.wait_ms, offset=offset)
        one.waiting.append(wait)
        if event.wait_ms <= 0 or self.readable(one, wait) >= event.min_bytes:
            self.deliver(one, wait, AnsweredBy.AT_ONCE)
        if can_join and one.target:
            self.cluster.try_complete_reassignment(one)

    def fetch_as_consumer(self, event: Event) -> None:
        group = self.groups.setdefault(event.request, Group()) if event.request is not None else Group()
        group.parts.append(
            Waiting(event, self.open(event), event.at_ms + event.wait_ms, offset=event.fetch_offset or 0, group=group)
        )
        if len(group.parts) < event.parts and event.request is not None:
            return
        in_sync = []
        for wait in group.parts:
            one = self.cluster.partitions.get(wait.event.partition)
            wait.deadline = event.at_ms + event.wait_ms
            error = self.find_error(one, wait.event, wait.offset)
            if error != RequestError.NONE:
                self.close(wait.answer, error, AnsweredBy.AT_ONCE)
            else:
                one.waiting.append(wait)
                in_sync.append((one, wait))
        enough = sum(self.readable(one, wait) for one, wait in in_sync) >= event.min_bytes
        if len(in_sync) < len(group.parts) or event.wait_ms <= 0 or enough:
            for one, wait in in_sync:
                self.deliver(one, wait, AnsweredBy.AT_ONCE)

    def list_waiting(self, group: Group) -> list[tuple[Any, Waiting]]:
        return [(one, w) for one in self.cluster.partitions.values() for w in one.waiting if w.group is group]

    def try_complete_group(self, group: Group) -> None:
        parts = self.list_waiting(group)
        if group.failed_by is not None:
            return
        if sum(self.readable(one, wait) for one, wait in parts) >= parts[0][1].event.min_bytes:
            for one, wait in parts:
                self.deliver(one, wait, AnsweredBy.HIGH_WATERMARK)

    def complete_failed_groups(self) -> None:
        """Answer, at the end of an event, the other parts of fetches of which a part has failed."""
        waiting_topics = [(one, w) for one in self.cluster.partitions.values() for w in one.waiting]
        for one, wait in waiting_topics:
            if wait.group is not None and wait.group.failed_by is not None:
                self.deliver(one, wait, wait.group.failed_by)

    def offsets(self, one: Any, event: Event) -> None:
        replica = one.replicas.get(event.broker) if one else None
        if replica is None:
            return
        if event.leo is not None:
            others = sorted((r for r in one.replicas.values() if r is not replica), key=lambda r: -r.leo)
            leads = [one.replicas[b] for b in (one.serving, one.last) if b in one.replicas and b != event.broker]
            for other in [*leads, *others]:
                if other.log[: replica.leo] == replica.log:
                    replica.log += other.log[replica.leo : event.leo]
            replica.log += [("known", next(self.messages)) for _ in range(event.leo - replica.leo)]
            replica.truncate_to(event.leo)
            replica.remote = event.leo
        if event.hw is not None:
            replica.hw = replica.checkpoint = min(event.hw, replica.leo)
        if event.broker == one.serving:
            self.commit(one, max(one.committed, replica.hw))
        self.try_high_watermark(one)
        self.update_visible(one)

    # ---- timers

    def next_due(self) -> tuple[int, int]:
        """Return when something is due next, and what: 0 = checkpoint, 1 = deadline, 2 = check of the ISR."""
        deadlines = [(w.deadline, 1) for one in self.cluster.partitions.values() for w in one.waiting]
        return min([(self.checkpoint_at, 0), (self.lag_at, 2), *deadlines])

    def run_due(self, what: int) -> None:
        if what == 0:
            self.checkpoint_at += self.checkpoint_ms
            for one in self.cluster.partitions.values():
                for broker, replica in one.replicas.items():
                    if broker in self.cluster.live:
                        replica.checkpoint = replica.hw
        elif what == 1:
            for one in self.cluster.partitions.values():
                for wait in [wait for wait in one.waiting if wait.deadline <= self.cluster.at]:
                    if wait.event.kind == EventKind.APPEND:
                        self.answer(one, wait, RequestError.REQUEST_TIMED_OUT, AnsweredBy.TIMEOUT)
                    else:
                        self.deliver(one, wait, AnsweredBy.TIMEOUT)
        else:
            self.lag_at += self.lag_ms // 2
            for one in self.cluster.partitions.values():
                if one.has_fetches and one.serving is not None:
                    self.check_lag(one)

    def check_lag(self, one: Any) -> None:
        leo, late = one.replicas[one.serving].leo, []
        for broker in one.isr:
            replica = one.replicas.get(broker) or ModelReplica()
            slow = replica.remote != leo and self.cluster.at - replica.caught_up_at > self.lag_ms
            far = self.lag_messages > 0 and leo - max(replica.remote, 0) > self.lag_messages
            if broker != one.serving and (slow or far):
                late.append(broker)
        if late:
            one.isr = [broker for broker in one.isr if broker not in late]
            one.written = self.cluster.epoch
            self.cluster.note("isr", one)
            self.try_high_watermark(one)
