"""The timeline that a person reads: what happens by itself stands at its own time."""

from __future__ import annotations

from pathlib import Path

from pipelines.cli.replay_output import Asked, lines, timeline, until_of
from udfs.simulation.controller.controller_steps import controller_steps

BACK = ("t=10 broker 2 down", "t=20 broker 2 up", "t=25 isr o-1 3,2")


def told(tmp_path: Path, *events: str, until: str | None = None, settings: str = "") -> list[str]:
    return [line for line in lines(timeline(asked(tmp_path, *events, until=until, settings=settings))) if line]


def asked(tmp_path: Path, *events: str, until: str | None = None, settings: str = "") -> Asked:
    file = tmp_path / "told.yaml"
    head = [f"settings: {{{settings}}}", "brokers: [1, 2, 3]", "topics: {o: [[1, 2], [2, 3], [3, 1]]}", "events:"]
    file.write_text("\n".join([*head, *(f"  - {event}" for event in events)]) + "\n")
    return Asked([str(file)], until=until_of(until))


def test_a_rebalance_before_the_next_event(tmp_path: Path) -> None:
    found = told(tmp_path, *BACK, "t=350 topic zz created 1:2")
    assert found[3:5] == [
        "t=310s  by itself: 1 auto rebalance; leaders to 2: 1",
        "t=350s  partition created of zz: 1 created; leaders to 1: 1",
    ]


def test_a_rebalance_after_the_last_event(tmp_path: Path) -> None:
    assert "t=310s  by itself: 1 auto rebalance; leaders to 2: 1" in told(tmp_path, *BACK, until="t=320s")


def test_an_isr_that_lags(tmp_path: Path) -> None:
    events = ("t=0 followers fetch o-0", "t=1 produce 5 to o-0 acks=1", "t=90 broker 3 down")
    found = told(tmp_path, *events, settings="followers_fetch_every_ms: 0")
    assert next(line for line in found if "isr shrunk" in line) == "t=45s  by itself: 1 isr shrunk"


def test_a_controller_that_fails_leaves_nobody_without_leader(tmp_path: Path) -> None:
    (line,) = [line for line in told(tmp_path, "t=1 broker 1 down") if "broker down" in line]
    assert line == "t=1s  broker down 1: 1 leader failed, 1 isr shrunk; leaders to 2: 1"


def test_acks_0_acknowledges_nothing(tmp_path: Path) -> None:
    events = ("t=1 produce 5 to o-0 acks=0", "t=2 broker 1 down", "t=3 broker 3 down")
    found = told(tmp_path, *events, settings="followers_fetch_every_ms: 0")
    assert [line for line in found if line.startswith("acks=0")] == [
        "acks=0: 5 messages written, 5 lost, 0 of these acknowledged; 1 NONE (nothing awaited)"
    ]


def test_a_topic_that_is_new_is_created_though_leaders_were_rebalanced_before(tmp_path: Path) -> None:
    steps = controller_steps(timeline(asked(tmp_path, *BACK, "t=350 topic zz created 1:2")).replayed)
    actions = [row["action"] for row in steps if row["at_ms"] == 350_000]
    assert actions[:2] == ["request to create zz: validated", "created"]


def test_a_topic_that_is_still_there_is_not_created(tmp_path: Path) -> None:
    events = ("t=1 broker 2 down", "t=2 topic o deleted", "t=3 topic o created 1:3")
    steps = controller_steps(timeline(asked(tmp_path, *events)).replayed)
    actions = [row["action"] for row in steps if row["at_ms"] == 3_000]
    assert actions == ["request to create o: rejected, TOPIC_ALREADY_EXISTS"]
