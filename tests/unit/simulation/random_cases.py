"""Random events of small clusters, with and without data."""

from __future__ import annotations

import random
from typing import Any

from udfs.simulation.cluster_events import ClusterSettings, Event, InitialPartition, InitialState, TopicPartition
from udfs.simulation.kernels.codes import EventKind


def random_case(seed: int) -> tuple[InitialState, list[Event]]:
    draw = random.Random(seed)
    brokers = tuple(sorted(draw.sample(range(1, 20), draw.randint(1, 5))))
    live = frozenset(brokers)
    partitions = []
    for number in range(draw.randint(0, 4)):
        ar = tuple(draw.sample(brokers, draw.randint(1, min(3, len(brokers)))))
        partitions.append(
            InitialPartition((draw.choice("tu"), number), ar, ar, ar[0], 0, 1, unclean=draw.random() < 0.3)
        )
    rules = ClusterSettings(
        auto_leader_rebalance=draw.random() < 0.5, leader_imbalance_check_ms=draw.choice([300_000, 7_000])
    )
    begin = InitialState(brokers, live, tuple(partitions), draw.choice(brokers), 1, rules)
    assignments = {one.key: list(one.replicas) for one in partitions}
    events, at = [], 0
    for _ in range(draw.randint(1, 14)):
        at += draw.choice([0, 500, 4_000, 20_000])
        kind = draw.choice(
            [EventKind.BROKER_DOWN] * 5
            + [EventKind.BROKER_UP] * 4
            + [
                EventKind.CONTROLLED_SHUTDOWN,
                EventKind.CONTROLLER_LOST,
                EventKind.CREATE_PARTITION,
                EventKind.DELETE_PARTITION,
            ]
            + [
                EventKind.REASSIGN_PARTITION,
                EventKind.ELECT_PREFERRED_LEADER,
                EventKind.SET_UNCLEAN_ELECTION,
                EventKind.ALTER_ISR,
                EventKind.ALTER_ISR,
            ]
        )
        broker = draw.choice(brokers)
        if kind in (EventKind.BROKER_DOWN, EventKind.BROKER_UP, EventKind.CONTROLLED_SHUTDOWN):
            events.append(Event(at, kind, broker))
        elif kind == EventKind.CONTROLLER_LOST:
            events.append(Event(at, kind, draw.choice([None, broker])))
        elif kind == EventKind.CREATE_PARTITION:
            key = ("n", len(assignments))
            assignments[key] = draw.sample(brokers, draw.randint(1, min(3, len(brokers))))
            events.append(Event(at, kind, partition=key, replicas=tuple(assignments[key])))
        elif assignments:
            key = draw.choice(list(assignments))
            if kind == EventKind.REASSIGN_PARTITION:
                assignments[key] = draw.sample(brokers, len(assignments[key]))
                events.append(Event(at, kind, partition=key, replicas=tuple(assignments[key])))
            elif kind == EventKind.ALTER_ISR:
                isr = draw.sample(assignments[key], draw.randint(1, len(assignments[key])))
                events.append(Event(at, kind, partition=key, replicas=tuple(isr)))
            elif kind == EventKind.DELETE_PARTITION:
                events += [
                    Event(at, kind, partition=one) for one in assignments if one[0] == key[0] or draw.random() < 0.02
                ]
            else:
                events.append(Event(at, kind, partition=key, value=draw.randint(0, 1)))
    return begin, events or [Event(at, EventKind.BROKER_DOWN, brokers[0])]


def construct(kind: Any, *args: Any, **values: Any) -> Any:
    """Construct a dataclass, also with fields that it does not have."""
    known = {name: value for name, value in values.items() if name in kind.__dataclass_fields__}
    one = kind(*args, **known)
    for name, value in values.items():
        object.__setattr__(one, name, value)
    return one


def random_data_case(seed: int, facts: bool = True, kraft: bool = False) -> tuple[InitialState, list[Event]]:
    """Return a case with data. `facts` adds ISR changes, known offsets and settings with which Kafka may lose messages.

    Known offsets come first: later ones could contradict logs that have diverged.
    """
    return _Case(random.Random(seed), facts, kraft).build()


class _Case:
    def __init__(self, draw: random.Random, facts: bool, kraft: bool = False) -> None:
        self.draw, self.facts, self.kraft = draw, facts, kraft
        self.brokers = tuple(sorted(draw.sample(range(1, 20), draw.choice([1, 2, 3, 3, 3, 4, 5]))))
        self.live = set(self.brokers)
        self.at, self.requests = draw.choice([0, 0, 1_234, 60_000]), 0
        self.assignments: dict[TopicPartition, list[int]] = {}  # the AR, as far as the events show
        self.leads: dict[TopicPartition, int | None] = {}  # the leader, as far as the events show
        self.written: dict[TopicPartition, int] = {}
        self.events: list[Event] = []

    def build(self) -> tuple[InitialState, list[Event]]:
        draw = self.draw
        if draw.random() < 0.1 and len(self.brokers) > 1:
            self.live.discard(draw.choice(self.brokers))
        partitions = tuple(self.draw_partition(number) for number in range(draw.choice([0, 1, 1, 1, 2, 2, 3, 4])))
        rules = construct(
            ClusterSettings,
            auto_leader_rebalance=draw.random() < 0.4,
            leader_imbalance_check_ms=draw.choice([300_000, 7_000]),
            replica_lag_time_max_ms=draw.choice([30_000, 10_000, 2_000, 600]),
            replica_lag_max_messages=draw.choice([0, 0, 0, 3]),
            message_bytes=draw.choice([100, 100, 1]),
            checkpoint_ms=draw.choice([5_000, 5_000, 1_000]),
            truncate_to=draw.choice(["epoch", "epoch", "high_watermark"]) if self.facts else "epoch",
            isr_joins_at_epoch_start=draw.random() < 0.75 or not self.facts,
            kraft=self.kraft,
            elr=self.kraft and draw.random() < 0.5,
        )
        begin = InitialState(
            self.brokers, frozenset(self.live), partitions, draw.choice(sorted(self.live)), draw.randint(1, 3), rules
        )
        size = draw.randint(5, 30)
        if self.facts and self.assignments and draw.random() < 0.1:
            self.add_known_offsets()
        while len(self.events) < size:
            self.at += draw.choice([0, 0, 0, 1, 1, 100, 100, 500, 500, 4_000, 20_000])
            self.add_step()
        while size < len(self.events) and None is not self.events[size].request == self.events[size - 1].request:
            size += 1  # never a part of a fetch alone
        return begin, self.events[:size]

    def draw_partition(self, number: int) -> InitialPartition:
        draw = self.draw
        ar = draw.sample(self.brokers, min(len(self.brokers), draw.choice([1, 2, 2, 3, 3, 3])))
        key = (draw.choice("tu"), number)
        self.assignments[key], self.written[key] = ar, 0
        isr = [b for b in ar if b in self.live]
        if draw.random() < 0.2 and len(isr) > 1:
            isr.remove(draw.choice(isr))
        leader = self.leads[key] = isr[0] if isr else None
        more: dict[str, Any] = {}
        if draw.random() < 0.3:
            leos = {b: draw.randint(0, 6) for b in ar}
            longest = max([leos[b] for b in isr], default=0)
            if leader is not None:
                leos[leader] = self.written[key] = longest
            least = min([leos[b] for b in isr], default=0)
            for b in ar:
                leos[b] = min(leos[b], longest)
            more["leos"] = tuple(leos[b] for b in ar)
            more["hws"] = tuple(draw.randint(0, min(leos[b], least)) for b in ar)
            if leader is not None:
                committed = draw.randint(max(more["hws"]), least)
                more["hws"] = tuple(committed if b == leader else h for b, h in zip(ar, more["hws"], strict=True))
        return construct(
            InitialPartition,
            key,
            tuple(ar),
            tuple(isr) if isr else (ar[0],),
            leader,
            draw.choice([0, 0, 5]),
            1,
            unclean=draw.random() < 0.25,
            min_isr=draw.choice([1, 1, 1, min(2, len(ar)), 2, len(ar)]),
            **more,
        )

    def add_step(self) -> None:
        draw, kind = self.draw, self.draw.random()
        if not self.assignments or kind < 0.32:
            self.add_control_event()
            return
        key = draw.choice(list(self.assignments))
        if kind < 0.52:
            self.add_append(key)
        elif kind < 0.64:
            self.add_consumer_fetch()
        elif kind < 0.70:  # data that one follower has and another may not, and then somebody fails
            self.add_append(key)
            self.add_replica_fetch(key, draw.choice(self.assignments[key]))
            if draw.random() < 0.5:
                self.add_broker_down(draw.choice(self.assignments[key]))
        elif kind < 0.76:
            self.add_successive_failures(key)
        elif kind < 0.80 and len(self.assignments[key]) > 2:
            self.add_overtaken_leader(key)
        else:
            self.add_fetch_rounds(key)

    def add_fetch_rounds(self, key: TopicPartition) -> None:
        """Let all followers fetch, once or twice."""
        for _ in range(self.draw.choice([1, 2, 2])):
            for broker in self.draw.sample(self.assignments[key], len(self.assignments[key])):
                likely = broker in self.live and broker != self.leads.get(key)
                if likely or self.draw.random() < 0.1:
                    self.add_replica_fetch(key, broker)
            self.at += self.draw.choice([0, 1, 100])

    def add_successive_failures(self, key: TopicPartition) -> None:
        """Append to all replicas; then leaders fail one after another, while others return or fetch."""
        draw = self.draw
        self.add_fetch_rounds(key)
        self.add_append(key, acks=-1)
        for _ in range(2):
            for broker in self.assignments[key]:
                if broker in self.live and broker != self.leads.get(key):
                    self.add_replica_fetch(key, broker)
        for broker in self.assignments[key][: draw.choice([1, 2, 2])]:
            self.at += draw.choice([0, 1, 100])
            failed = [b for b in self.assignments[key] if b not in self.live]
            if failed and draw.random() < 0.5:
                self.add_broker_up(draw.choice(failed))
            if draw.random() < 0.3:
                if draw.random() < 0.5:
                    self.add_event(EventKind.CONTROLLED_SHUTDOWN, broker=draw.choice(self.assignments[key]))
                else:
                    self.add_event(EventKind.ELECT_PREFERRED_LEADER, partition=key)
                    self.leads[key] = self.assignments[key][0]
            for other in draw.sample(self.assignments[key], draw.randint(0, len(self.assignments[key]))):
                self.add_replica_fetch(key, other)
            self.add_broker_down(broker)

    def add_overtaken_leader(self, key: TopicPartition) -> None:
        """Make a leader with an old high watermark and its predecessor in sync; a third replica returns with less."""
        draw = self.draw
        old = self.leads.get(key) or self.assignments[key][0]
        new, third = draw.sample([b for b in self.assignments[key] if b != old], 2)
        self.add_broker_down(third)
        for _ in range(2):
            self.add_append(key)
            self.add_replica_fetch(key, new)
        if draw.random() < 0.5:
            self.assignments[key] = [new, third, old]
            self.add_event(EventKind.REASSIGN_PARTITION, partition=key, replicas=(new, third, old))
        self.add_event(EventKind.ELECT_PREFERRED_LEADER, partition=key)
        self.leads[key] = self.assignments[key][0]
        self.add_broker_up(third)
        self.add_replica_fetch(key, third)
        if draw.random() < 0.5:
            self.add_broker_down(new)

    def add_event(self, kind: int, **values: Any) -> None:
        self.events.append(Event(self.at, kind, offset=len(self.events), **values))

    def next_request(self) -> int:
        self.requests += 1
        return self.requests

    def add_append(self, key: TopicPartition, acks: int | None = None) -> None:
        draw = self.draw
        messages = draw.choice([0, 1, 1, 2, 3, 4, 5])
        self.written[key] += messages
        self.add_event(
            EventKind.APPEND,
            partition=key,
            request=self.next_request(),
            acks=draw.choice([0, 1, 1, -1, -1, -1]) if acks is None else acks,
            messages=messages,
            wait_ms=draw.choice([0, 100, 1_000, 5_000, 30_000, 40_000]),
        )

    def add_replica_fetch(self, key: TopicPartition, broker: int) -> None:
        draw, more = self.draw, {}
        if self.facts and draw.random() < 0.08:
            more["fetch_offset"] = draw.randint(0, self.written[key] + 1)
        if self.facts and draw.random() < 0.05:
            more["leader_epoch"] = draw.randint(0, 6)
        self.add_event(
            EventKind.FETCH,
            broker=broker,
            partition=key,
            request=self.next_request(),
            wait_ms=draw.choice([0, 0, 0, 500, 500, 5_000]),
            min_bytes=draw.choice([0, 1, 1, 1, 200, 2_000]),
            **more,
        )

    def add_consumer_fetch(self) -> None:
        draw = self.draw
        keys = draw.sample(list(self.assignments), min(len(self.assignments), draw.choice([1, 1, 1, 2])))
        request, wait_ms, min_bytes = (
            self.next_request(),
            draw.choice([0, 500, 5_000, 40_000]),
            draw.choice([1, 1, 100, 300]),
        )
        for key in keys:
            self.add_event(
                EventKind.FETCH,
                partition=key,
                request=request,
                parts=len(keys),
                wait_ms=wait_ms,
                min_bytes=min_bytes,
                fetch_offset=draw.choice([0, draw.randint(0, self.written[key]), draw.randint(0, 2)]),
            )

    def add_known_offsets(self) -> None:
        """Add known offsets of a partition's replicas."""
        key = self.draw.choice(list(self.assignments))
        high = self.draw.randint(0, 10)
        self.written[key] = max(self.written[key], high)
        for broker in self.assignments[key]:
            leo = high if broker == self.leads.get(key) else self.draw.choice([high, self.draw.randint(0, high)])
            hw = self.draw.choice([None, self.draw.randint(0, leo)])
            self.add_event(EventKind.REPLICA_OFFSETS, broker=broker, partition=key, leo=leo, hw=hw)

    def add_broker_down(self, broker: int) -> None:
        self.live.discard(broker)
        for key, ar in self.assignments.items():
            if self.leads.get(key) == broker:
                self.leads[key] = next((b for b in ar if b in self.live), None)
        self.add_event(EventKind.BROKER_DOWN, broker=broker)

    def add_broker_up(self, broker: int) -> None:
        self.live.add(broker)
        for key, ar in self.assignments.items():
            if self.leads.get(key) is None and broker in ar:
                self.leads[key] = broker
        self.add_event(EventKind.BROKER_UP, broker=broker)

    def add_control_event(self) -> None:
        draw = self.draw
        kind = draw.choice(
            [EventKind.BROKER_DOWN] * 5
            + [EventKind.BROKER_UP] * 6
            + [
                EventKind.CONTROLLED_SHUTDOWN,
                EventKind.CONTROLLED_SHUTDOWN,
                EventKind.CONTROLLER_LOST,
                EventKind.CREATE_PARTITION,
                EventKind.DELETE_PARTITION,
                EventKind.REASSIGN_PARTITION,
                EventKind.REASSIGN_PARTITION,
            ]
            + [
                EventKind.ELECT_PREFERRED_LEADER,
                EventKind.ELECT_PREFERRED_LEADER,
                EventKind.SET_UNCLEAN_ELECTION,
                EventKind.SET_MIN_ISR,
            ]
            + [EventKind.ALTER_ISR] * self.facts
        )
        broker = draw.choice(self.brokers)
        failed = [b for b in self.brokers if b not in self.live]
        if failed and draw.random() < 0.6 * len(failed) / len(self.brokers):
            kind = EventKind.BROKER_UP
        if kind == EventKind.BROKER_UP and failed:
            self.add_broker_up(draw.choice(failed))
        elif kind in (EventKind.BROKER_DOWN, EventKind.BROKER_UP):
            if self.assignments and draw.random() < 0.5:
                broker = draw.choice(list(self.assignments.values()))[0]
            self.add_broker_down(broker)
        elif kind == EventKind.CONTROLLED_SHUTDOWN:
            self.add_event(kind, broker=broker)
            if draw.random() < 0.6:
                self.at += draw.choice([0, 100])
                self.add_broker_down(broker)
        elif kind == EventKind.CONTROLLER_LOST:
            self.add_event(kind, broker=draw.choice([None, broker]))
        elif kind == EventKind.CREATE_PARTITION:
            key = ("n", len(self.assignments))
            self.assignments[key] = draw.sample(self.brokers, draw.randint(1, min(3, len(self.brokers))))
            self.written[key], self.leads[key] = 0, self.assignments[key][0]
            self.add_event(kind, partition=key, replicas=tuple(self.assignments[key]))
        elif self.assignments:
            key = draw.choice(list(self.assignments))
            if kind == EventKind.REASSIGN_PARTITION:
                self.assignments[key] = draw.sample(self.brokers, len(self.assignments[key]))
                self.add_event(kind, partition=key, replicas=tuple(self.assignments[key]))
            elif kind == EventKind.ALTER_ISR:
                isr = draw.sample(self.assignments[key], draw.randint(1, len(self.assignments[key])))
                self.add_event(kind, partition=key, replicas=tuple(isr))
            elif kind == EventKind.DELETE_PARTITION:
                if draw.random() < 0.7:
                    for one in self.assignments:
                        if one[0] == key[0]:
                            self.add_event(kind, partition=one)
            else:
                self.add_event(
                    kind,
                    partition=key,
                    value=draw.randint(1, 3) if kind == EventKind.SET_MIN_ISR else draw.randint(0, 1),
                )
