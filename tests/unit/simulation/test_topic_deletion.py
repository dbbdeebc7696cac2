"""Deletion of whole topics. Source: TopicDeletionManager of Kafka 2.8."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipelines.simulation.cluster_replay import Replay, ReplayRequest, run_replay
from udfs.simulation.controller import list_controller_steps
from udfs.simulation.result_tables import get_final_state, list_leaderships, list_requests, list_transitions

HEAD = """\
settings: {auto_leader_rebalance: false}
brokers: [1, 2, 3, 4]
controller: 4
topics:
  t: [[1, 2], [2, 3], [3]]
  other: [[1, 2]]
events:
"""


def run_events(tmp_path: Path, *events: str) -> Replay:
    file = tmp_path / "scenario.yaml"
    file.write_text(HEAD + "\n".join(f"  - {event}" for event in events) + "\n")
    return run_replay(ReplayRequest([str(file)]))


def list_final_partitions(replay: Replay) -> dict[int, tuple[Any, ...]]:
    """Return (state, leader, leader epoch, ISR) of the final partitions of t."""
    rows = get_final_state(replay.simulation).partitions
    return {r["partition"]: (r["state"], r["leader"], r["leader_epoch"], r["isr"]) for r in rows if r["topic"] == "t"}


def list_transitions_of(replay: Replay, partition: int, broker: int) -> list[tuple[int, str]]:
    """Return (second, state) of each transition of a replica of t; illegal ones are in brackets."""
    rows = [r for r in list_transitions(replay.simulation) if (r["topic"], r["partition"]) == ("t", partition)]
    broker_rows = [row for row in rows if row["broker_id"] == broker]
    return [(r["at_ms"] // 1000, r["to_state"] if r["legal"] else f"({r['to_state']})") for r in broker_rows]


DELETED = ["OfflineReplica", "ReplicaDeletionStarted", "ReplicaDeletionSuccessful"]


def test_a_topic_waits_for_its_last_replica(tmp_path: Path) -> None:
    """Partitions are removed at once, replicas one by one; each that leaves the ISR adds an epoch."""
    replay = run_events(tmp_path, "t=1 broker 3 down", "t=2 topic t deleted", "t=5 produce 1 to t-0,other-0")
    assert list_final_partitions(replay) == {
        0: ("NonExistentPartition", None, 2, [2]),
        1: ("NonExistentPartition", None, 2, [2]),
        2: ("NonExistentPartition", None, 1, [3]),
    }
    assert list_transitions_of(replay, 0, 1) == [(2, state) for state in DELETED]
    assert list_transitions_of(replay, 2, 3) == [(1, "OfflineReplica"), (2, "ReplicaDeletionIneligible")]
    causes = {
        row["cause"] for row in list_leaderships(replay.simulation) if row["topic"] == "t" and row["at_ms"] == 2000
    }
    assert causes == {"topic deleted"}
    answers = {row["topic"]: row["part_error"] for row in list_requests(replay.simulation) if row["kind"] == "produce"}
    assert answers == {"t": "UNKNOWN_TOPIC_OR_PARTITION", "other": "NONE"}


def test_deletion_is_retried_when_the_broker_returns(tmp_path: Path) -> None:
    replay = run_events(tmp_path, "t=1 broker 3 down", "t=2 topic t deleted", "t=3 broker 1 down", "t=4 broker 3 up")
    assert list_final_partitions(replay) == {}
    back = [(4, "OnlineReplica"), *((4, state) for state in DELETED), (4, "NonExistentReplica")]
    assert list_transitions_of(replay, 2, 3) == [(1, "OfflineReplica"), (2, "ReplicaDeletionIneligible"), *back]
    # Deleted replicas neither block the deletion nor are waited for.
    assert list_transitions_of(replay, 0, 1)[3:] == [(3, "(ReplicaDeletionIneligible)"), (4, "NonExistentReplica")]


def test_a_new_controller_starts_over(tmp_path: Path) -> None:
    """It does not know which replicas are deleted, and waits for the broker of an offline replica."""
    first = ("t=1 broker 3 down", "t=2 topic t deleted", "t=3 broker 4 down")
    replay = run_events(tmp_path, *first)
    assert list_transitions_of(replay, 0, 1) == [(2, state) for state in DELETED]
    assert list_transitions_of(replay, 2, 3)[-1] == (3, "OfflineReplica")
    replay = run_events(tmp_path, *first, "t=4 broker 3 up")
    assert list_final_partitions(replay) == {}
    assert list_transitions_of(replay, 0, 1)[3:] == [*((4, state) for state in DELETED), (4, "NonExistentReplica")]
    replay = run_events(tmp_path, "t=1 broker 3 down", "t=2 topic t deleted", "t=3 controller lost", "t=4 broker 3 up")
    assert list_final_partitions(replay) == {}


def test_a_reassignment_of_one_partition_delays_the_deletion(tmp_path: Path) -> None:
    moving = ("t=1 reassign t-0 to 3,4", "t=2 topic t deleted", "t=3 broker 2 down")
    replay = run_events(tmp_path, *moving)
    assert {p: state for p, (state, *_) in list_final_partitions(replay).items()} == dict.fromkeys(
        range(3), "OnlinePartition"
    )
    assert list_final_partitions(replay)[1][1:] == (None, 0, [2, 3])  # its leader is down, and no other is elected
    assert list_transitions_of(replay, 1, 2) == [(3, "(ReplicaDeletionIneligible)")]
    replay = run_events(tmp_path, *moving, "t=5 isr t-0 1,3,4")
    assert {p: state for p, (state, *_) in list_final_partitions(replay).items()} == dict.fromkeys(
        range(3), "NonExistentPartition"
    )
    actions = [row.action for row in list_controller_steps(replay.simulation) if row.at_ms == 5000]
    assert actions[:2] == ["deletion resumed", "partitions Offline, then NonExistent: 3"]
    assert actions[-1] == "deletion waits"
    assert list_final_partitions(run_events(tmp_path, *moving, "t=5 isr t-0 1,3,4", "t=6 broker 2 up")) == {}


def test_a_topic_cannot_be_created_during_its_deletion(tmp_path: Path) -> None:
    again = "topic t created 4:1,4:2,4:1,4:2"
    waits = ("t=1 broker 3 down", "t=2 topic t deleted", f"t=3 {again}")
    replay = run_events(tmp_path, *waits)
    assert sorted(list_final_partitions(replay)) == [0, 1, 2]
    assert list_final_partitions(replay)[0][1] is None
    assert list_final_partitions(run_events(tmp_path, *waits, "t=4 broker 3 up")) == {}
    replay = run_events(tmp_path, "t=2 topic t deleted", f"t=3 {again}")
    assert {p: row[:3] for p, row in list_final_partitions(replay).items()} == dict.fromkeys(
        range(4), ("OnlinePartition", 4, 0)
    )


def test_deletions_continue_with_the_last_broker(tmp_path: Path) -> None:
    """Deletions of topics are independent; a broker that returns as controller continues them."""
    replay = run_events(
        tmp_path, "t=1 topic t deleted", "t=2 topic other deleted", "t=3 brokers 1,2,3,4 down", "t=4 broker 4 up"
    )
    assert get_final_state(replay.simulation).partitions == []
