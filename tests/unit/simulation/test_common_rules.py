"""Rules that hold with ZooKeeper and with KRaft: controlled shutdowns, topic configs, minimum ISRs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines.cli.replay_rendering import render_replay
from pipelines.errors import SourceError
from pipelines.simulation.cluster_replay import Replay, ReplayRequest, parse_until, run_replay
from udfs.simulation.result_tables import (
    get_final_state,
    list_health,
    list_leaderships,
    list_requests,
    list_transitions,
)


def run_events(tmp_path: Path, topics: str, *events: str, settings: str = "") -> Replay:
    file = tmp_path / "scenario.yaml"
    head = [f"settings: {{auto_leader_rebalance: false{settings}}}", "brokers: [1, 2, 3]", "controller: 3"]
    lines = [*head, f"topics: {{{topics}}}", "events:", *(f"  - {event}" for event in events)]
    file.write_text("\n".join(lines) + "\n")
    return run_replay(ReplayRequest([str(file)]))


def find_partition(replay: Replay, topic: str, partition: int = 0) -> dict[str, Any]:
    rows = get_final_state(replay.simulation).partitions
    return next(row for row in rows if (row["topic"], row["partition"]) == (topic, partition))


KRAFT = ", kraft: true"


@pytest.mark.parametrize("settings", ["", KRAFT])
@pytest.mark.parametrize(
    "events",
    [
        ("t=1 topic o config unclean.leader.election.enable=true", "t=2 broker 1 shutting down", "t=3 broker 2 down"),
        ("t=2 broker 1 shutting down", "t=3 isr o-0 2,1", "t=4 preferred election o-0", "t=5 broker 2 down"),
    ],
)
def test_a_broker_that_shuts_down_is_not_elected(tmp_path: Path, settings: str, events: tuple[str, ...]) -> None:
    replay = run_events(tmp_path, "o: [[1, 2]]", *events, settings=settings)
    assert find_partition(replay, "o")["leader"] is None
    assert {row["leader"] for row in list_leaderships(replay.simulation)} <= {2, None}


@pytest.mark.parametrize("settings", ["", KRAFT])
def test_a_broker_that_shuts_down_does_not_lead_new_partitions(tmp_path: Path, settings: str) -> None:
    replay = run_events(
        tmp_path, "o: [[2]]", "t=1 broker 1 shutting down", "t=2 topic n created 1:2", settings=settings
    )
    assert (find_partition(replay, "n")["leader"], find_partition(replay, "n")["isr"]) == (2, [2])


def test_only_kraft_rejects_a_topic_without_live_brokers(tmp_path: Path) -> None:
    events = ("t=1 brokers 1,2 down", "t=2 topic n created 1:2", "t=3 brokers 1,2 up")
    assert find_partition(run_events(tmp_path, "o: [[3]]", *events), "n")["leader"] == 1
    rejected = run_events(tmp_path, "o: [[3]]", *events, settings=KRAFT)
    assert {row["topic"] for row in get_final_state(rejected.simulation).partitions} == {"o"}


def test_added_partitions_have_the_configs_of_their_topic(tmp_path: Path) -> None:
    configs = (
        "t=1 topic o config unclean.leader.election.enable=true",
        "t=1 topic o config min.insync.replicas=2",
        "t=2 topic o grown 1:2",
        "t=3 broker 2 down",
        "t=4 produce 1 to o-1",
        "t=5 broker 1 down",
        "t=6 broker 2 up",
    )
    replay = run_events(tmp_path, "o: [[1, 2]]", *configs)
    (answer,) = [row for row in list_requests(replay.simulation) if row["kind"] == "produce"]
    assert answer["part_error"] == "NOT_ENOUGH_REPLICAS"
    assert find_partition(replay, "o", 1)["leader"] == 2  # unclean
    # A topic of the same name that is created after a deletion has none of them.
    again = (
        "t=7 broker 1 up",
        "t=8 topic o deleted",
        "t=9 topic o created 1:2",
        "t=10 broker 2 down",
        "t=11 produce 1 to o-0",
    )
    replay = run_events(tmp_path, "o: [[1, 2]]", *configs, *again)
    assert [row["part_error"] for row in list_requests(replay.simulation) if row["kind"] == "produce"][-1] == "NONE"


def test_below_the_minimum_nothing_is_committed_with_kraft(tmp_path: Path) -> None:
    """Eligible leader replicas therefore have all that is committed, and the high watermark never falls."""
    events = (
        "t=0 topic o config min.insync.replicas=2",
        "t=0 followers fetch",
        "t=1 produce 5 to o-0 acks=all",
        "t=2 broker 2 fenced",
        "t=2500ms consumer fetches o-0 from 0 wait=0ms",
        "t=3 broker 1 fenced",
        "t=4 broker 2 unfenced",
    )
    elr = ", kraft: true, elr: true, followers_fetch_every_ms: 0"
    replay = run_events(tmp_path, "o: [[1, 2]]", *events, settings=elr)
    marks = [row["high_watermark"] for row in sorted(list_health(replay.simulation), key=lambda row: row["from_ms"])]
    assert set(marks) <= {0, None}
    (read,) = [row for row in list_requests(replay.simulation) if row["kind"] == "fetch of a consumer"]
    assert read["messages"] == 0
    assert find_partition(replay, "o")["leader"] == 2


@pytest.mark.parametrize(("settings", "error"), [("", "NOT_ENOUGH_REPLICAS"), (KRAFT, "NONE")])
def test_a_minimum_above_the_replicas(tmp_path: Path, settings: str, error: str) -> None:
    """Since 3.7 it counts as the number of replicas."""
    events = ("t=0 topic o config min.insync.replicas=3", "t=1 produce 5 to o-0 acks=all", "t=9 followers fetch")
    replay = run_events(tmp_path, "o: [[1, 2]]", *events, settings=settings)
    assert [row["part_error"] for row in list_requests(replay.simulation) if row["kind"] == "produce"] == [error]


def test_a_reassignment_deletes_replicas_of_down_brokers_too(tmp_path: Path) -> None:
    replay = run_events(tmp_path, "o: [[1, 2]]", "t=1 broker 2 down", "t=2 reassign o-0 to 1,3", "t=3 isr o-0 1,3")
    states = [row["to_state"] for row in list_transitions(replay.simulation) if row["broker_id"] == 2]
    assert states[-3:] == ["ReplicaDeletionStarted", "ReplicaDeletionSuccessful", "NonExistentReplica"]


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ("t=1 isr o-0 1,3", "broker 3 has no replica of o-0 and cannot be in its ISR. Its replicas: 1, 2."),
        ("t=1 topic n created 1:2,3", "has lists of different lengths"),
    ],
)
def test_impossible_events_are_rejected(tmp_path: Path, event: str, message: str) -> None:
    with pytest.raises(SourceError, match=message.replace(".", r"\.")):
        run_events(tmp_path, "o: [[1, 2]]", event)


def test_a_character_that_yaml_does_not_allow(tmp_path: Path) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text("brokers: [1]\nevents:\n  - t=1 broker 1 \0down\n")
    with pytest.raises(SourceError, match="line 3: has a character that YAML does not allow"):
        run_replay(ReplayRequest([str(file)]))


def list_lines(replay: Replay) -> list[str]:
    return list(render_replay(replay))


@pytest.mark.parametrize("settings", ["", KRAFT])
def test_an_unchanged_isr_is_not_written(tmp_path: Path, settings: str) -> None:
    replay = run_events(tmp_path, "o: [[1, 2]]", "t=1 isr o-0 1,2", settings=settings)
    assert not list_leaderships(replay.simulation)
    assert "isr of o: no change" in list_lines(replay)[0]


def test_kraft_rejects_an_isr_with_a_down_broker(tmp_path: Path) -> None:
    events = ("t=1 broker 2 down", "t=2 isr o-0 1,2")
    assert find_partition(run_events(tmp_path, "o: [[1, 2]]", *events), "o")["isr"] == [1, 2]
    rejected = run_events(tmp_path, "o: [[1, 2]]", *events, settings=KRAFT)
    assert find_partition(rejected, "o")["isr"] == [1]
    assert sum("no change" in line for line in list_lines(rejected)) == 1


def test_followers_fetch_until_the_end(tmp_path: Path) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text("brokers: [1, 2]\ntopics: {o: [[1, 2]]}\nevents:\n  - t=1 produce 5 to o-0 timeout=5s\n")
    replay = run_replay(ReplayRequest([str(file)], until=parse_until("t=90")))
    assert find_partition(replay, "o")["isr"] == [1, 2]
    assert [row["part_error"] for row in list_requests(replay.simulation) if row["kind"] == "produce"] == ["NONE"]


def test_kraft_rejects_a_topic_if_one_partition_has_no_live_replica(tmp_path: Path) -> None:
    events = ("t=1 broker 1 down", "t=2 topic n created 2,1", "t=3 topic n created 2,3")
    replay = run_events(tmp_path, "o: [[3]]", *events, settings=KRAFT)
    assert [row["replicas"] for row in get_final_state(replay.simulation).partitions if row["topic"] == "n"] == [
        [2],
        [3],
    ]
    with pytest.raises(SourceError, match="there is no partition n-0"):
        run_events(tmp_path, "o: [[3]]", *events[:2], "t=4 isr n-0 2", settings=KRAFT)


def test_a_topic_can_be_created_again_after_its_deletion(tmp_path: Path) -> None:
    events = (
        "t=1 broker 2 down",
        "t=2 topic o deleted",
        "t=3 topic o created 1:3",  # it waits for broker 2
        "t=4 broker 2 up",
        "t=5 topic o created 3:1",
    )
    assert find_partition(run_events(tmp_path, "o: [[1, 2]]", *events), "o")["replicas"] == [3, 1]


def test_new_replicas_are_online_even_if_their_brokers_are_down(tmp_path: Path) -> None:
    """KafkaController.onNewPartitionCreation of 2.8; the next controller finds them offline."""
    replay = run_events(tmp_path, "o: [[3]]", "t=1 brokers 1,2 down", "t=2 topic n created 1:2", "t=3 controller lost")
    new = [(row["at_ms"], row["to_state"]) for row in list_transitions(replay.simulation) if row["broker_id"] == 1]
    assert new == [(2000, "NewReplica"), (2000, "OnlineReplica"), (3000, "OfflineReplica")]


def test_eligible_replicas_need_kraft(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="elr is true, but kraft is not"):
        run_events(tmp_path, "o: [[1, 2]]", "t=1 broker 1 down", settings=", elr: true")


@pytest.mark.parametrize(("settings", "seconds"), [("", 5), (KRAFT, 300)])
def test_a_new_controller_checks_leaders(tmp_path: Path, settings: str, seconds: int) -> None:
    """With ZooKeeper after 5 s, with KRaft after the interval between checks: PeriodicTaskControlManager of 4.1."""
    file = tmp_path / "scenario.yaml"
    head = [f"settings: {{leader_imbalance_check_ms: 300000{settings}}}", "brokers: [1, 2, 3]", "controller: 3"]
    events = [
        "t=1 broker 1 down",
        "t=2 broker 1 up",
        "t=3 isr o-0 2,1",
        "t=10 controller lost to 2",
        "t=400 broker 3 down",
    ]
    file.write_text("\n".join([*head, "topics: {o: [[1, 2]]}", "events:", *(f"  - {event}" for event in events)]))
    replay = run_replay(ReplayRequest([str(file)]))
    rebalanced = [
        row["at_ms"] // 1000 for row in list_leaderships(replay.simulation) if row["cause"] == "auto rebalance"
    ]
    assert rebalanced == [10 + seconds]


@pytest.mark.parametrize("settings", ["", KRAFT])
def test_a_broker_that_shuts_down_goes_down_before_it_is_up(tmp_path: Path, settings: str) -> None:
    events = ("t=1 broker 2 shutting down", "t=2 broker 2 up")
    with pytest.raises(SourceError, match="broker 2 is shutting down: it must go down before it is up again"):
        run_events(tmp_path, "o: [[1, 2]]", *events, settings=settings)


@pytest.mark.parametrize("event", ["topic o deleted", "topic n created 1", "reassign o-0 to 3", "preferred election"])
def test_requests_need_a_live_broker(tmp_path: Path, event: str) -> None:
    with pytest.raises(SourceError, match="no broker is up at t=2s to take the request"):
        run_events(tmp_path, "o: [[1, 2]]", "t=1 brokers 1,2,3 down", f"t=2 {event}")


def test_a_fetch_of_no_partition_does_not_wait(tmp_path: Path) -> None:
    """Only requests that name partitions are delayed (DelayedFetch)."""
    with pytest.raises(SourceError, match="a fetch without partitions waits for nothing: it is answered at once"):
        run_events(tmp_path, "o: [[1, 2]]", "t=1 consumer fetches nothing wait=500ms min=1")
