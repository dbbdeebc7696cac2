"""What `replay` prints: what time causes is shown at its own time."""

from __future__ import annotations

from pathlib import Path

from pipelines.cli.replay_rendering import render_replay
from pipelines.simulation.cluster_replay import ReplayRequest, parse_until, run_replay
from udfs.simulation.controller import list_controller_steps

BACK = ("t=10 broker 2 down", "t=20 broker 2 up", "t=25 isr o-1 3,2")


def render(tmp_path: Path, *events: str, until: str | None = None, settings: str = "") -> list[str]:
    request = make_request(tmp_path, *events, until=until, settings=settings)
    return [line for line in render_replay(run_replay(request)) if line]


def make_request(tmp_path: Path, *events: str, until: str | None = None, settings: str = "") -> ReplayRequest:
    file = tmp_path / "scenario.yaml"
    head = [f"settings: {{{settings}}}", "brokers: [1, 2, 3]", "topics: {o: [[1, 2], [2, 3], [3, 1]]}", "events:"]
    file.write_text("\n".join([*head, *(f"  - {event}" for event in events)]) + "\n")
    return ReplayRequest([str(file)], until=parse_until(until))


def test_a_rebalance_is_shown_before_the_next_event(tmp_path: Path) -> None:
    lines = render(tmp_path, *BACK, "t=350 topic zz created 1:2")
    assert lines[3:5] == [
        "t=310s  automatically: 1 auto rebalance; leaders to 2: 1",
        "t=350s  partition created of zz: 1 created; leaders to 1: 1",
    ]


def test_a_rebalance_is_shown_after_the_last_event(tmp_path: Path) -> None:
    assert "t=310s  automatically: 1 auto rebalance; leaders to 2: 1" in render(tmp_path, *BACK, until="t=320s")


def test_a_lagging_replica_leaves_the_isr_at_its_own_time(tmp_path: Path) -> None:
    events = ("t=0 followers fetch o-0", "t=1 produce 5 to o-0 acks=1", "t=90 broker 3 down")
    lines = render(tmp_path, *events, settings="followers_fetch_every_ms: 0")
    assert next(line for line in lines if "isr shrunk" in line) == "t=45s  automatically: 1 isr shrunk"


def test_partitions_of_a_failed_controller_get_leaders(tmp_path: Path) -> None:
    (line,) = [line for line in render(tmp_path, "t=1 broker 1 down") if "broker down" in line]
    assert line == "t=1s  broker down 1: 1 leader failed, 1 isr shrunk; leaders to 2: 1"


def test_acks_0_acknowledges_no_message(tmp_path: Path) -> None:
    events = ("t=1 produce 5 to o-0 acks=0", "t=2 broker 1 down", "t=3 broker 3 down")
    lines = render(tmp_path, *events, settings="followers_fetch_every_ms: 0")
    assert [line for line in lines if line.startswith("acks=0")] == [
        "acks=0: 5 messages written, 5 lost (none of them acknowledged); requests: 1 NONE (nothing awaited)"
    ]


def test_a_topic_is_created_after_a_rebalance_at_the_same_event(tmp_path: Path) -> None:
    steps = list_controller_steps(run_replay(make_request(tmp_path, *BACK, "t=350 topic zz created 1:2")).simulation)
    actions = [row.action for row in steps if row.at_ms == 350_000]
    assert actions[:2] == ["request to create zz: validated", "created"]


def test_a_kraft_topic_is_created_after_a_rebalance_at_the_same_event(tmp_path: Path) -> None:
    settings = "kraft: true, leader_imbalance_check_ms: 10000"
    request = make_request(tmp_path, *BACK, "t=30 topic zz created 1:2", settings=settings)
    steps = list_controller_steps(run_replay(request).simulation)
    records = [row for row in steps if row.event == 3 and row.action == "PARTITION_RECORD"]
    assert any(row.action.startswith("leader balance") for row in steps if row.event == 3)
    assert [row.at_ms for row in records] == [30_000]


def test_creating_an_existing_topic_is_rejected(tmp_path: Path) -> None:
    events = ("t=1 broker 2 down", "t=2 topic o deleted", "t=3 topic o created 1:3")
    steps = list_controller_steps(run_replay(make_request(tmp_path, *events)).simulation)
    actions = [row.action for row in steps if row.at_ms == 3_000]
    assert actions == ["request to create o: rejected, TOPIC_ALREADY_EXISTS"]
