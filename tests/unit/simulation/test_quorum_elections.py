"""The controller quorum in a replay: who leads it, and what waits without a majority."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.errors import SourceError
from pipelines.simulation.cluster_replay import Replay, ReplayRequest, build_answer, run_replay

CLUSTER = """
brokers: [1, 2, 3]
voters: [1, 2, 3]
topics: {t: [[1, 2, 3], [2, 3, 1], [3, 1, 2]]}
settings: {kraft: true}
"""
SEPARATE = CLUSTER.replace("voters: [1, 2, 3]", "voters: [100, 101, 102]")


def replay(folder: Path, events: list[str], cluster: str = CLUSTER) -> Replay:
    file = folder / "scenario.yaml"
    file.write_text(cluster + "events:\n" + "".join(f"  - {one}\n" for one in events))
    return run_replay(ReplayRequest([str(file)]))


def list_leaders(folder: Path, events: list[str], cluster: str = CLUSTER) -> list[tuple[int | None, int]]:
    return [(p["leader"], p["leader_epoch"]) for p in build_answer(replay(folder, events, cluster)).partitions]


def test_a_majority_elects_and_another_controller_is_active(tmp_path: Path) -> None:
    answer = build_answer(replay(tmp_path, ["t=1 broker 1 down"]))
    assert [p["leader"] for p in answer.partitions] == [2, 2, 3]
    assert answer.controller_epoch == 2
    assert any("leader of the metadata quorum: 2, epoch 2" in step.action for step in answer.controller_steps)


def test_without_a_majority_nobody_is_elected_until_it_returns(tmp_path: Path) -> None:
    lost = ["t=1 broker 1 down", "t=2 broker 2 down"]
    assert list_leaders(tmp_path, lost) == [(None, 1), (None, 0), (3, 0)]
    # Broker 1 is a voter again, and notices that broker 2 has failed.
    returned = [*lost, "t=9 broker 1 up"]
    assert list_leaders(tmp_path, returned) == [(3, 2), (3, 1), (3, 0)]
    answer = build_answer(replay(tmp_path, returned))
    assert [broker.broker_id for broker in answer.brokers if broker.is_live] == [1, 3]
    assert answer.controller_epoch == 3  # 2 led after broker 1 failed, and 1 leads again


def test_nodes_that_fail_together_elect_nobody_in_between(tmp_path: Path) -> None:
    assert list_leaders(tmp_path, ["t=1 brokers 1,2 down"]) == [(None, 0), (None, 0), (3, 0)]


def test_separate_controllers_may_fail_alone(tmp_path: Path) -> None:
    lost = ["t=1 controllers 100,101 down", "t=2 broker 1 down", "t=3 preferred election"]
    finished = replay(tmp_path, lost, SEPARATE)
    assert [p["leader"] for p in build_answer(finished).partitions] == [None, 2, 3]
    assert finished.warnings == (
        "from t=3s on without a controller, which needs 2 of 3 voters: no effect of preferred election",
    )
    again = [*lost, "t=4 controller 100 up"]
    assert list_leaders(tmp_path, again, SEPARATE) == list_leaders(tmp_path, ["t=2 broker 1 down"], SEPARATE)


def test_a_broker_that_returns_waits_for_a_controller(tmp_path: Path) -> None:
    events = ["t=1 broker 1 down", "t=2 controllers 100,101 down", "t=3 broker 1 up"]
    answer = build_answer(replay(tmp_path, events, SEPARATE))
    assert [broker.broker_id for broker in answer.brokers if broker.is_live] == [2, 3]
    answer = build_answer(replay(tmp_path, [*events, "t=4 controller 101 up"], SEPARATE))
    assert [broker.broker_id for broker in answer.brokers if broker.is_live] == [1, 2, 3]


def test_messages_wait_for_a_dead_replica_that_nobody_removes(tmp_path: Path) -> None:
    """The leader lives on, and its ISR has a broker that is down: acks=all times out."""
    events = [
        "t=1 controllers 100,101 down",
        "t=2 broker 2 down",
        "t=3 produce 1 to t-0 acks=all timeout=5s",
        "t=9 isr t-0 1",
    ]
    (request,) = (one for one in build_answer(replay(tmp_path, events, SEPARATE)).requests if one["kind"] == "produce")
    assert "TIMED_OUT" in str(request).upper()


@pytest.mark.parametrize(
    ("cluster", "event", "problem"),
    [
        (CLUSTER, "t=1 controller 1 down", "there is no controller 1"),
        (CLUSTER.replace("[1, 2, 3]\ntopics", "[1, 1]\ntopics"), "t=1 broker 1 down", "one is listed twice"),
        (CLUSTER.replace("kraft: true", "elr: false"), "t=1 broker 1 down", "voters need KRaft"),
        (CLUSTER.replace("voters: [1, 2, 3]", "voters: x"), "t=1 broker 1 down", "voters is "),
    ],
)
def test_invalid_voters(tmp_path: Path, cluster: str, event: str, problem: str) -> None:
    with pytest.raises(SourceError, match=problem):
        replay(tmp_path, [event], cluster)
