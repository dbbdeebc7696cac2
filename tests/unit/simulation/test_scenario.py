"""Scenarios: what sentences mean, and how wrong ones are rejected."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.cli.replay_rendering import render_replay
from pipelines.errors import SourceError
from pipelines.simulation.cluster_replay import ReplayRequest, build_answer, run_replay
from udfs.simulation.result_tables import list_health

HEAD = "brokers: [1, 2, 3]\ntopics:\n  orders: [[1, 2], [2, 3], [3, 1]]\n  solo: [[2]]\nevents:\n"


def state(tmp_path: Path, *sentences: str, head: str = HEAD) -> dict[tuple[str, int], dict]:
    file = tmp_path / "scenario.yaml"
    file.write_text(head + "".join(f"  - {sentence}\n" for sentence in sentences))
    final = build_answer(run_replay(ReplayRequest([str(file)])))
    return {(p["topic"], p["partition"]): p for p in final.partitions} | {("", -1): final}


def test_a_broker_that_is_not_the_controller_fails(tmp_path: Path) -> None:
    final = state(tmp_path, "t=10 broker 2 down")
    assert (final["orders", 1]["leader"], final["orders", 1]["isr"], final["orders", 1]["leader_epoch"]) == (3, [3], 1)
    assert (final["orders", 0]["leader"], final["orders", 0]["isr"], final["orders", 0]["leader_epoch"]) == (1, [1], 1)
    assert (final["solo", 0]["leader"], final["solo", 0]["isr"], final["solo", 0]["leader_epoch"]) == (None, [2], 1)
    assert final["", -1].controller_epoch == 1


def test_the_controller_fails(tmp_path: Path) -> None:
    """What it led is written twice, what it followed once."""
    final = state(tmp_path, "t=10 broker 1 down")
    assert final["orders", 0]["leader_epoch"] == 2
    assert final["orders", 2]["leader_epoch"] == 1
    assert final["orders", 1]["leader_epoch"] == 0
    assert final["", -1].controller_epoch == 2


def test_a_failed_broker_leads_nothing_even_if_no_controller_is_left(tmp_path: Path) -> None:
    """With ZooKeeper the last broker's partitions stay as they were written: no controller is left."""
    file = tmp_path / "night.yaml"
    file.write_text(HEAD + "".join(f"  - t={9 - broker} broker {broker} down\n" for broker in (3, 2, 1)))
    replay = run_replay(ReplayRequest([str(file)]))
    state = build_answer(replay)
    assert {row["leader"] for row in state.partitions} == {None}
    assert [row["state"] for row in state.partitions] == [
        "OnlinePartition",  # led by 1 to the last
        "OfflinePartition",
        "OnlinePartition",
        "OfflinePartition",
    ]
    assert {row["leader"] for row in state.replication_health if row["at_the_end"]} == {None}
    *_, summary, names = render_replay(replay)
    assert summary.endswith("4 partitions, 3 under-replicated, 4 without leader")
    assert names == "without leader: orders-0, orders-1, orders-2, solo-0"


def test_a_controlled_shutdown_moves_leaders_first(tmp_path: Path) -> None:
    final = state(tmp_path, "t=10 broker 1 shutting down", "t=11 broker 1 down")
    assert (final["orders", 0]["leader"], final["orders", 0]["leader_epoch"]) == (2, 1)
    assert final["", -1].controller_epoch == 2


def test_leaders_are_rebalanced_automatically(tmp_path: Path) -> None:
    returns = ("t=10 broker 2 down", "t=20 broker 2 up", "t=25 isr orders-1 3,2")
    assert state(tmp_path, *returns, "t=299 broker 3 up")["orders", 1]["leader"] == 3
    # A check 300 s after the first event: all that prefers broker 2 is led elsewhere, more than 10 %.
    assert state(tmp_path, *returns, "t=311 broker 3 up")["orders", 1]["leader"] == 2


def test_topics_are_created_grown_reassigned_and_deleted(tmp_path: Path) -> None:
    final = state(tmp_path, "t=1 topic new created 1:2,2:3", "t=2 topic new grown 3:1", "t=3 reassign new-0 to 3,2")
    assert final["new", 2]["replicas"] == [3, 1]
    assert final["new", 0]["replicas"] == [3, 2, 1]  # 3 is not in sync yet
    final = state(tmp_path, "t=1 reassign orders-0 to 2,3", "t=2 isr orders-0 1,2,3")
    assert (final["orders", 0]["replicas"], final["orders", 0]["leader"]) == ([2, 3], 2)
    assert ("orders", 0) not in state(tmp_path, "t=1 topic orders deleted")
    final = state(tmp_path, "t=1 broker 2 down", "t=2 topic orders deleted")
    # The whole topic waits for a replica that cannot be deleted yet, and has no leader.
    assert {final["orders", p]["state"] for p in range(3)} == {"NonExistentPartition"}
    assert {final["orders", p]["leader"] for p in range(3)} == {None}
    assert ("orders", 0) not in state(tmp_path, "t=1 broker 2 down", "t=2 topic orders deleted", "t=3 broker 2 up")


def test_an_unclean_election_can_be_allowed_later(tmp_path: Path) -> None:
    failures = ("t=1 broker 2 down", "t=2 broker 1 down", "t=3 broker 2 up")
    assert state(tmp_path, *failures)["orders", 0]["leader"] is None
    final = state(tmp_path, *failures, "t=4 topic orders config unclean.leader.election.enable=true")
    assert (final["orders", 0]["leader"], final["orders", 0]["isr"]) == (2, [2])


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        ("t=10 broker 9 down", "line 6: there is no broker 9"),
        ("broker 2 down", "line 6: 'broker 2 down' is not a sentence"),
        ("t=10 broker 2 dances", "line 6: 'broker 2 dances' matches no sentence"),
        ("t=10 reassign orders-7 to 1,2", "line 6: there is no partition orders-7"),
        ("t=10 reassign orders-0 to 1,1", "line 6: 1,1 names a broker twice"),
        ("t=10 topic orders created 1:2", "line 6: topic orders already exists"),
        ("t=10 topic orders config min.insync.replicas=two", "line 6: min.insync.replicas=two is not valid"),
    ],
)
def test_wrong_sentences_are_rejected_with_their_line(tmp_path: Path, sentence: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        state(tmp_path, sentence)


def test_wrong_files_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="line 1: 'broker' is not a key of a scenario"):
        state(tmp_path, head="broker: 1\nevents:\n")
    with pytest.raises(SourceError, match="is not YAML"):
        state(tmp_path, head="brokers: [1\nevents:\n")
    with pytest.raises(SourceError, match="topic t: the replicas of partition 0 are"):
        state(tmp_path, head="brokers: [1]\ntopics:\n  t: [[2]]\nevents:\n")


def test_a_scenario_with_a_source(tmp_path: Path) -> None:
    file = tmp_path / "night.yaml"
    file.write_text("events:\n  - t=10 broker 1001 down\n")
    source = Path(__file__).parents[3] / "data_samples" / "kafka-2.8.2-zookeeper" / "zookeeper-dump.jsonl"
    replay = build_answer(run_replay(ReplayRequest([str(source), str(file)])))
    assert replay.partitions == build_answer(run_replay(ReplayRequest([str(source)], fail=[1001]))).partitions


def test_a_scenario_with_two_snapshots_starts_at_the_last_one(tmp_path: Path) -> None:
    """Broker 1001 lives in the first and is down in the second."""
    samples, dump = Path(__file__).parents[3] / "data_samples", "kafka-2.8.2-zookeeper/zookeeper-dump"
    first, second = samples / f"{dump}.jsonl", samples / "captures" / f"{dump}.broker-1001-down.jsonl"
    file = tmp_path / "night.yaml"
    file.write_text("events:\n  - t=10 controller lost to 1001\n")
    assert run_replay(ReplayRequest([str(first), str(file)])).events[-1].broker == 1001
    with pytest.raises(SourceError, match="line 2: broker 1001 is down at t=10s"):
        run_replay(ReplayRequest([str(first), str(second), str(file)]))


@pytest.mark.parametrize("every_ms", [100, 500, 2_000])
def test_followers_learn_the_high_watermark_at_any_fetch_interval(tmp_path: Path, every_ms: int) -> None:
    file = tmp_path / "night.yaml"
    file.write_text(
        f"brokers: [1, 2, 3]\ntopics: {{a: [[1, 2, 3]]}}\nsettings: {{followers_fetch_every_ms: {every_ms}}}\n"
        "events: [t=1 produce 10 to a-0, t=60 broker 3 down]\n"
    )
    (last,) = [row for row in list_health(run_replay(ReplayRequest([str(file)])).simulation) if row["at_the_end"]]
    assert last["high_watermarks"] == [10, 10, 10]
