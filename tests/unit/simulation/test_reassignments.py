"""Reassignments: leader epochs and removed replicas, with ZooKeeper and with KRaft.

Sources: KafkaController.onPartitionReassignment of 2.8; PartitionChangeBuilder, PartitionReassignmentReplicas of 4.1.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.simulation.cluster_replay import ReplayRequest, run_replay
from tests.unit.simulation.event_helpers import T, cluster, led_partition
from tests.unit.simulation.interpreter import interpret
from udfs.simulation.cluster_events import Event, InitialPartition, InitialState
from udfs.simulation.kernels.codes import EventKind
from udfs.simulation.result_tables import get_final_state
from udfs.simulation.simulator import simulate

Final = tuple[int, list[int], list[int], int | None]


def reassign(at: int, *replicas: int) -> Event:
    return Event(at, EventKind.REASSIGN_PARTITION, partition=T, replicas=replicas)


def alter_isr(at: int, *isr: int) -> Event:
    return Event(at, EventKind.ALTER_ISR, partition=T, replicas=isr)


def down(at: int, broker: int) -> Event:
    return Event(at, EventKind.BROKER_DOWN, broker)


def simulate_final(replicas: tuple[int, ...], events: list[Event], kraft: bool) -> Final:
    """Return the final (leader epoch, AR, ISR, leader). Brokers 1 to 5 are live initially."""
    begin = cluster(led_partition(*replicas), led_partition(1, 2, 3, 4, 5, key=("other", 0)), kraft=kraft)
    row = next(row for row in get_final_state(simulate(begin, events)).partitions if row["topic"] == "t")
    return row["leader_epoch"], row["replicas"], sorted(row["isr"]), row["leader"]


@pytest.mark.parametrize(
    ("replicas", "events", "zookeeper", "kraft"),
    [
        # Only the order changes: complete at once.
        ((1, 2), [reassign(1, 2, 1)], (1, [2, 1], [1, 2], 1), (0, [2, 1], [1, 2], 1)),
        # Fewer replicas: those removed leave the ISR, which adds another epoch with ZooKeeper.
        ((1, 2, 3), [reassign(1, 1, 2)], (2, [1, 2], [1, 2], 1), (1, [1, 2], [1, 2], 1)),
        # The leader is removed.
        ((1, 2), [reassign(1, 2)], (2, [2], [2], 2), (1, [2], [2], 2)),
        # A move waits until the new replica is in sync.
        ((1, 2), [reassign(1, 2, 3)], (1, [2, 3, 1], [1, 2], 1), (0, [2, 3, 1], [1, 2], 1)),
        ((1, 2), [reassign(1, 2, 3), alter_isr(2, 1, 2, 3)], (3, [2, 3], [2, 3], 2), (1, [2, 3], [2, 3], 2)),
        # More replicas: none is removed, the leader stays.
        (
            (1, 2),
            [reassign(1, 1, 2, 3), alter_isr(2, 1, 2, 3)],
            (2, [1, 2, 3], [1, 2, 3], 1),
            (0, [1, 2, 3], [1, 2, 3], 1),
        ),
        # Reverted before it is complete.
        (
            (1, 2, 3),
            [reassign(1, 4, 1), reassign(2, 1, 2, 3)],
            (2, [1, 2, 3], [1, 2, 3], 1),
            (1, [1, 2, 3], [1, 2, 3], 1),
        ),
    ],
)
def test_epochs_of_reassignments(
    replicas: tuple[int, ...], events: list[Event], zookeeper: Final, kraft: Final
) -> None:
    assert simulate_final(replicas, events, False) == zookeeper
    assert simulate_final(replicas, events, True) == kraft


def test_only_zookeeper_rejects_a_down_broker() -> None:
    assert simulate_final((1, 2), [down(1, 3), reassign(2, 1, 3)], False) == (0, [1, 2], [1, 2], 1)
    assert simulate_final((1, 2), [down(1, 3), reassign(2, 1, 3)], True) == (0, [1, 3, 2], [1, 2], 1)


def run_events(tmp_path: Path, head: str, *events: str) -> dict:
    """Run the events and return the final state of partition a-0."""
    file = tmp_path / "scenario.yaml"
    file.write_text("\n".join([head, "events:", *(f"  - {event}" for event in events)]))
    (row,) = get_final_state(run_replay(ReplayRequest([str(file)])).simulation).partitions
    return row


@pytest.mark.parametrize(
    "resumed",
    [
        ("t=4 controller lost",),
        ("t=4 broker 1 down",),  # the controller's
        ("t=3 broker 5 down", "t=4 broker 5 up"),
    ],
)
def test_a_reassignment_that_is_resumed_adds_an_epoch(tmp_path: Path, resumed: tuple[str, ...]) -> None:
    """KafkaController.maybeResumeReassignments of 2.8 repeats the first step."""
    head = "settings: {auto_leader_rebalance: false}\nbrokers: [1, 2, 3, 4, 5]\ntopics: {a: [[2, 3]]}"
    row = run_events(tmp_path, head, "t=1 reassign a-0 to 4,5", *resumed)
    assert (row["leader"], row["leader_epoch"], row["replicas"]) == (2, 2, [4, 5, 2, 3])


def test_brokers_outside_the_target_do_not_resume_a_reassignment(tmp_path: Path) -> None:
    head = "settings: {auto_leader_rebalance: false}\nbrokers: [1, 2, 3, 4, 5]\ntopics: {a: [[2]]}"
    other = ("t=2 reassign a-0 to 4", "t=3 broker 5 down", "t=4 broker 5 up")
    assert run_events(tmp_path, head, *other)["leader_epoch"] == 1


def test_an_unclean_election_completes_a_reassignment_to_the_new_leader(tmp_path: Path) -> None:
    """Every new ISR is checked: PartitionReassignmentIsrChange of 2.8."""
    events = ("t=1 topic a config unclean.leader.election.enable=true", "t=2 reassign a-0 to 2", "t=3 broker 1 down")
    row = run_events(tmp_path, "brokers: [1, 2, 3]\ncontroller: 3\ntopics: {a: [[1]]}", *events)
    assert (row["leader"], row["isr"], row["replicas"]) == (2, [2], [2])


def test_a_reassignment_completes_when_any_broker_returns() -> None:
    """An unclean election has made the ISR equal to the target. The next step of any broker shows it."""
    begin = InitialState((1, 2, 3, 4), frozenset({1, 2, 4}), (InitialPartition(T, (1,), (1,), 1, unclean=True),), 4)
    events = [reassign(0, 2), down(1, 1), Event(2, EventKind.BROKER_UP, 3)]
    (row,) = get_final_state(simulate(begin, events)).partitions
    assert row["replicas"] == interpret(begin, events).partitions[T].ar == [2]
