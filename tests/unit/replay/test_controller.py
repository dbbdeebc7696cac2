"""The controller's kernel against plain Python, on random events of small clusters, and what must always hold."""

from __future__ import annotations

import random

import pytest

from tests.unit.replay.interpreter import interpret
from udfs.kernels import replay_codes as k
from udfs.replay.answers import leaderships, replay, state_of
from udfs.replay.events import Begin, Event, Held, Rules

SEQUENCES = 1500


def random_case(seed: int) -> tuple[Begin, list[Event]]:
    draw = random.Random(seed)
    brokers = tuple(sorted(draw.sample(range(1, 20), draw.randint(1, 5))))
    alive = frozenset(brokers)
    held = []
    for number in range(draw.randint(0, 4)):
        ar = tuple(draw.sample(brokers, draw.randint(1, min(3, len(brokers)))))
        held.append(Held(("t", number), ar, ar, ar[0], 0, 1, unclean=draw.random() < 0.3))
    rules = Rules(auto_leader_rebalance=draw.random() < 0.5, leader_imbalance_check_ms=draw.choice([300_000, 7_000]))
    begin = Begin(brokers, alive, tuple(held), draw.choice(brokers), 1, rules)
    there = {one.key: list(one.replicas) for one in held}
    events, at = [], 0
    for _ in range(draw.randint(1, 14)):
        at += draw.choice([0, 500, 4_000, 20_000])
        kind = draw.choice(
            [k.BROKER_DOWN] * 5
            + [k.BROKER_UP] * 4
            + [k.SHUTDOWN, k.CONTROLLER_LOST, k.CREATE, k.DELETE]
            + [k.REASSIGN, k.ELECT_PREFERRED, k.SET_UNCLEAN, k.SET_ISR, k.SET_ISR]
        )
        broker = draw.choice(brokers)
        if kind in (k.BROKER_DOWN, k.BROKER_UP, k.SHUTDOWN):
            events.append(Event(at, kind, broker))
        elif kind == k.CONTROLLER_LOST:
            events.append(Event(at, kind, draw.choice([None, broker])))
        elif kind == k.CREATE:
            key = ("n", len(there))
            there[key] = draw.sample(brokers, draw.randint(1, min(3, len(brokers))))
            events.append(Event(at, kind, partition=key, replicas=tuple(there[key])))
        elif there:
            key = draw.choice(list(there))
            if kind == k.REASSIGN:
                there[key] = draw.sample(brokers, len(there[key]))
                events.append(Event(at, kind, partition=key, replicas=tuple(there[key])))
            elif kind == k.SET_ISR:
                isr = draw.sample(there[key], draw.randint(1, len(there[key])))
                events.append(Event(at, kind, partition=key, replicas=tuple(isr)))
            else:
                events.append(Event(at, kind, partition=key, value=draw.randint(0, 1)))
    return begin, events or [Event(at, k.BROKER_DOWN, brokers[0])]


@pytest.mark.parametrize("part", range(3))
def test_as_plain_python(part: int) -> None:
    for seed in range(part * SEQUENCES // 3, (part + 1) * SEQUENCES // 3):
        begin, events = random_case(seed)
        got = state_of(replay(begin, events))
        want = interpret(begin, events)
        assert got["controller_epoch"] == want.epoch, seed
        assert {b["broker_id"] for b in got["brokers"] if b["alive"]} == want.alive, seed
        shown = {
            (p["topic"], p["partition"]): (
                p["replicas"],
                p["isr"],
                p["leader"],
                p["leader_epoch"],
                p["controller_epoch"],
            )
            for p in got["partitions"]
        }
        assert shown == {
            key: (one.ar, one.isr, one.leader, one.epoch, one.written) for key, one in want.partitions.items()
        }, seed


def test_a_leader_is_in_its_isr_and_epochs_never_go_back() -> None:
    for seed in range(300):
        begin, events = random_case(seed)
        epochs: dict[tuple[str, int], int] = {}
        controllers = begin.controller_epoch
        for row in leaderships(replay(begin, events)):
            key = (row["topic"], row["partition"])
            assert row["leader_epoch"] >= epochs.get(key, 0)
            assert row["controller_epoch"] >= controllers
            epochs[key], controllers = row["leader_epoch"], row["controller_epoch"]
            if row["cause"] not in ("isr shrunk", "isr expanded", "reassignment") and row["leader"] is not None:
                assert row["leader"] in row["isr"]
