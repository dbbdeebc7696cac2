"""Random sequences of every kind of event, for simulations against each other."""

from __future__ import annotations

import random
from typing import Any

from udfs.simulation.cluster_events import ClusterSettings, Event, InitialPartition, InitialState
from udfs.simulation.kernels.codes import EventKind


class _Sequence:
    """Random events of a small cluster with data; some brokers join later."""

    def __init__(self, seed: int, kraft: bool) -> None:
        self.draw = random.Random(seed)
        draw = self.draw
        self.brokers = tuple(sorted(draw.sample(range(1, 20), draw.choice([2, 3, 3, 4, 5]))))
        first = tuple(draw.sample(self.brokers, max(2, len(self.brokers) - draw.choice([0, 0, 1, 2]))))
        self.events: list[Event] = []
        self.at, self.requests = draw.choice([0, 1_234, 60_000]), 0
        self.keys = [("t", number) for number in range(draw.randint(1, 3))]
        partitions = tuple(self.draw_partition(key, first) for key in self.keys)
        rules = ClusterSettings(
            kraft=kraft,
            elr=kraft and draw.random() < 0.5,
            auto_leader_rebalance=draw.random() < 0.4,
            leader_imbalance_check_ms=draw.choice([300_000, 7_000]),
            first_check_ms=draw.choice([0, 5_000]),
            replica_lag_time_max_ms=draw.choice([30_000, 10_000, 2_000, 600]),
            replica_lag_max_messages=draw.choice([0, 0, 3]),
            checkpoint_ms=draw.choice([5_000, 1_000]),
            truncate_to=draw.choice(["epoch", "high_watermark"]),
            isr_joins_at_epoch_start=draw.random() < 0.7,
        )
        self.begin = InitialState(first, frozenset(first), partitions, draw.choice(first), 1, rules)

    def draw_partition(self, key: tuple[str, int], brokers: tuple[int, ...]) -> InitialPartition:
        draw = self.draw
        ar = tuple(draw.sample(brokers, min(len(brokers), draw.choice([1, 2, 3, 3]))))
        more: dict[str, Any] = {}
        if draw.random() < 0.3:
            more = {"leos": tuple(sorted((draw.randint(0, 6) for _ in ar), reverse=True)), "hws": (0,) * len(ar)}
        unclean = draw.random() < 0.4
        return InitialPartition(key, ar, ar, ar[0], 0, 1, unclean=unclean, min_isr=draw.choice([1, 1, 2]), **more)

    def build(self) -> tuple[InitialState, list[Event]]:
        for _ in range(self.draw.randint(4, 40)):
            self.at += self.draw.choice([0, 0, 0, 1, 100, 500, 4_000, 20_000])
            kind = self.draw.random()
            if kind < 0.3:
                self.add_control_event()
            elif kind < 0.32:
                self.add_log_event()
            else:
                self.add_data_event()
        return self.begin, self.events

    def add_event(self, kind: int, **values: Any) -> None:
        self.events.append(Event(self.at, kind, **values))

    def draw_brokers(self) -> tuple[int, ...]:
        return tuple(self.draw.sample(self.brokers, self.draw.randint(1, min(3, len(self.brokers)))))

    def add_data_event(self) -> None:
        draw, key, kind = self.draw, self.draw.choice(self.keys), self.draw.random()
        self.requests += 1
        request, wait = self.requests, draw.choice([0, 100, 500, 5_000, 40_000])
        if kind < 0.35:
            messages = draw.choice([0, 1, 2, 5])
            acks = draw.choice([0, 1, -1, -1])
            self.add_event(EventKind.APPEND, partition=key, request=request, acks=acks, messages=messages, wait_ms=wait)
        elif kind < 0.85:
            low = draw.random() < 0.1
            more = {"fetch_offset": draw.randint(0, 6)} if low else {}
            size = draw.choice([0, 1, 1, 300])
            for broker in draw.sample(self.brokers, draw.randint(1, len(self.brokers))):
                self.add_event(
                    EventKind.FETCH, broker=broker, partition=key, request=request, wait_ms=wait, min_bytes=size, **more
                )
                self.requests += 1
                request = self.requests
        elif kind < 0.97:
            keys = draw.sample(self.keys, min(len(self.keys), draw.choice([1, 2])))
            for one in keys:
                more = {"request": request, "parts": len(keys), "wait_ms": wait, "min_bytes": 200}
                self.add_event(EventKind.FETCH, partition=one, fetch_offset=draw.randint(0, 4), **more)
        else:
            leo, hw = draw.choice([None, draw.randint(0, 8)]), draw.choice([None, 1])
            self.add_event(EventKind.REPLICA_OFFSETS, broker=draw.choice(self.brokers), partition=key, leo=leo, hw=hw)

    def add_control_event(self) -> None:
        draw, key = self.draw, self.draw.choice(self.keys)
        kinds = (
            [EventKind.BROKER_DOWN] * 4
            + [EventKind.BROKER_UP] * 6
            + [EventKind.CONTROLLED_SHUTDOWN] * 2
            + [EventKind.CONTROLLER_LOST, EventKind.ELECT_PREFERRED_LEADER]
        )
        kinds += [
            EventKind.CREATE_PARTITION,
            EventKind.DELETE_PARTITION,
            EventKind.REASSIGN_PARTITION,
            EventKind.REASSIGN_PARTITION,
            EventKind.SET_UNCLEAN_ELECTION,
            EventKind.SET_MIN_ISR,
            EventKind.ALTER_ISR,
        ]
        kind = draw.choice(kinds)
        if kind in (
            EventKind.BROKER_DOWN,
            EventKind.BROKER_UP,
            EventKind.CONTROLLED_SHUTDOWN,
            EventKind.CONTROLLER_LOST,
        ):
            self.add_event(kind, broker=draw.choice(self.brokers))
        elif kind == EventKind.CREATE_PARTITION:
            if draw.random() < 0.5:
                self.keys.append(key := ("n", len(self.keys)))
            self.add_event(kind, partition=key, replicas=self.draw_brokers())
        elif kind in (EventKind.REASSIGN_PARTITION, EventKind.ALTER_ISR):
            self.add_event(kind, partition=key, replicas=self.draw_brokers())
        else:
            self.add_event(kind, partition=key, value=draw.randint(0, 2))

    def add_log_event(self) -> None:
        """Add an event that only comes from a controller's log."""
        draw, key = self.draw, self.draw.choice(self.keys)
        kind = draw.choice(
            [
                EventKind.PARTITION_RECORD,
                EventKind.PARTITION_RECORD,
                EventKind.CLEAR_ELR,
                EventKind.REMOVE_PARTITION,
                EventKind.BROKER_FENCED,
                EventKind.BROKER_UNFENCED,
                EventKind.CONTROLLER_CHANGE,
            ]
        )
        if kind in (EventKind.BROKER_FENCED, EventKind.BROKER_UNFENCED):
            self.add_event(kind, broker=draw.choice(self.brokers))
        elif kind == EventKind.CONTROLLER_CHANGE:
            self.add_event(kind, broker=draw.choice(self.begin.brokers), value=draw.randint(2, 9))
        elif kind == EventKind.PARTITION_RECORD:
            ar = self.draw_brokers()
            whole = draw.random() < 0.5
            lists = {"replicas": ar, "elr": ar[2:], "last_known": ar[1:2]} if whole or draw.random() < 0.3 else {}
            self.add_event(
                kind, partition=key, isr=ar[:2], leader=draw.choice([*ar, -1]), is_full_record=whole, **lists
            )
        else:
            self.add_event(kind, partition=key)


def random_zookeeper_sequence(seed: int) -> tuple[InitialState, list[Event]]:
    return _Sequence(seed, False).build()


def random_kraft_sequence(seed: int) -> tuple[InitialState, list[Event]]:
    return _Sequence(seed, True).build()
