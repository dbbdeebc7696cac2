"""Where KRaft differs: controlled shutdowns, eligible leader replicas, minimum ISRs.

Sources: ReplicationControlManager, PartitionChangeBuilder, ClusterControlManager of 4.1.
"""

from __future__ import annotations

from pathlib import Path

from pipelines.simulation.cluster_replay import Replay, ReplayRequest, run_replay
from udfs.simulation.result_tables import list_leaderships, list_transitions

Changes = list[tuple[int, str, int | None, int, list[int]]]


def run_events(tmp_path: Path, topics: str, *events: str, elr: bool = True) -> Replay:
    file = tmp_path / "scenario.yaml"
    lines = [
        f"settings: {{kraft: true, elr: {str(elr).lower()}}}",
        "brokers: [1, 2, 3]",
        f"topics: {{{topics}}}",
        "events:",
    ]
    file.write_text("\n".join([*lines, *(f"  - {event}" for event in events)]) + "\n")
    return run_replay(ReplayRequest([str(file)]))


def list_changes(replay: Replay, topic: str) -> Changes:
    """Return (second, cause, leader, leader epoch, ISR) of each row of a topic."""
    rows = [row for row in list_leaderships(replay.simulation) if row["topic"] == topic]
    return [(row["at_ms"] // 1000, row["cause"], row["leader"], row["leader_epoch"], row["isr"]) for row in rows]


SHUTDOWN = (
    "t=1 topic a config min.insync.replicas=2",
    "t=1 topic f config min.insync.replicas=2",
    "t=10 broker 1 shutting down",
    "t=15 broker 1 down",
    "t=20 broker 2 down",
    "t=30 broker 1 up",
    "t=40 broker 2 up",
)


def test_a_broker_that_shuts_down_stays_eligible_and_does_not_lead(tmp_path: Path) -> None:
    """Also with a single replica: it has no leader from the shutdown on, not only from the failure on."""
    replay = run_events(tmp_path, "a: [[1, 2]], s: [[1]], f: [[2, 1]]", *SHUTDOWN)
    assert list_changes(replay, "a") == [
        (10, "controlled shutdown", 2, 1, [2]),
        (20, "no leader can be elected", None, 2, []),
        (30, "eligible leader replica", 1, 3, [1]),
    ]
    assert list_changes(replay, "s") == [
        (10, "no leader can be elected", None, 1, []),
        (30, "eligible leader replica", 1, 2, [1]),
    ]
    assert list_changes(replay, "f") == [
        (10, "isr shrunk", 2, 0, [2]),
        (20, "no leader can be elected", None, 1, []),
        (30, "eligible leader replica", 1, 2, [1]),
    ]


def test_without_elr_the_last_replica_stays_in_sync(tmp_path: Path) -> None:
    replay = run_events(
        tmp_path, "s: [[1]]", "t=10 broker 1 shutting down", "t=15 broker 1 down", "t=30 broker 1 up", elr=False
    )
    assert list_changes(replay, "s") == [
        (10, "no leader can be elected", None, 1, [1]),
        (30, "leader failed", 1, 2, [1]),
    ]


def test_a_changed_minimum_clears_the_elr(tmp_path: Path) -> None:
    replay = run_events(
        tmp_path,
        "a: [[1, 2]]",
        "t=1 topic a config min.insync.replicas=2",
        "t=10 broker 2 fenced",
        "t=20 topic a config min.insync.replicas=1",
        "t=25 broker 1 fenced",
        "t=30 broker 2 unfenced",
        "t=40 broker 1 unfenced",
    )
    assert [(at, leader) for at, _, leader, _, _ in list_changes(replay, "a")] == [(10, 1), (25, None), (40, 1)]


def test_followers_go_offline_for_another_cause(tmp_path: Path) -> None:
    replay = run_events(tmp_path, "a: [[1, 2]], f: [[2, 1]]", "t=10 broker 1 down")
    causes = {row["topic"]: row["cause"] for row in list_transitions(replay.simulation) if row["broker_id"] == 1}
    assert causes == {"a": "leader failed", "f": "isr shrunk"}


def test_an_unclean_stop_ends_eligibility(tmp_path: Path) -> None:
    """A fenced broker stays eligible. The last known leader leads only if no replica is eligible."""
    min_isr = "t=1 topic a config min.insync.replicas=2"
    failures = (min_isr, "t=10 broker 1 {}", "t=20 broker 2 down")
    replay = run_events(tmp_path, "a: [[1, 2]]", *(one.format("fenced") for one in failures), "t=30 broker 1 unfenced")
    assert list_changes(replay, "a")[-1] == (30, "eligible leader replica", 1, 3, [1])
    replay = run_events(tmp_path, "a: [[1, 2]]", *(one.format("down") for one in failures), "t=30 broker 1 up")
    assert list_changes(replay, "a")[-1] == (20, "no leader can be elected", None, 2, [])
    replay = run_events(
        tmp_path, "a: [[1, 2]]", *(one.format("down") for one in failures), "t=30 broker 1 up", "t=40 broker 2 up"
    )
    assert list_changes(replay, "a")[-1] == (40, "last known leader", 2, 3, [2])
