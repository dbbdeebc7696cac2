"""Reassignments: leader epochs and removed replicas, with ZooKeeper and with KRaft.

Sources: KafkaController.onPartitionReassignment of 2.8; of 4.1 and 4.3 PartitionChangeBuilder and
PartitionReassignmentReplicas.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.simulation.cluster_replay import ReplayRequest, run_replay
from tests.unit.simulation.event_helpers import T, cluster, led_partition
from tests.unit.simulation.interpreter import interpret
from udfs.failures.topic_defaults import KAFKA_DEFAULTS, parse_release
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


CANCELLED = Event(2, EventKind.REASSIGN_PARTITION, partition=T, value=1)


def simulate_final(replicas: tuple[int, ...], events: list[Event], kraft: bool, **settings: bool) -> Final:
    """Return the final (leader epoch, AR, ISR, leader). Brokers 1 to 5 are live initially."""
    begin = cluster(led_partition(*replicas), led_partition(1, 2, 3, 4, 5, key=("other", 0)), kraft=kraft, **settings)
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
        # Cancelled before it is complete.
        ((1, 2, 3), [reassign(1, 4, 1), CANCELLED], (2, [1, 2, 3], [1, 2, 3], 1), (1, [1, 2, 3], [1, 2, 3], 1)),
        ((1, 2, 3), [CANCELLED], (0, [1, 2, 3], [1, 2, 3], 1), (0, [1, 2, 3], [1, 2, 3], 1)),  # none runs
    ],
)
def test_epochs_of_reassignments(
    replicas: tuple[int, ...], events: list[Event], zookeeper: Final, kraft: Final
) -> None:
    assert simulate_final(replicas, events, False) == zookeeper
    assert simulate_final(replicas, events, True) == kraft


@pytest.mark.parametrize(
    ("events", "before", "since_4_3"),
    [
        # Replica 3 lags and stays: since 4.3 only the new one is waited for.
        ([alter_isr(1, 1, 2), reassign(2, 2, 3, 4), alter_isr(3, 1, 2, 4)], [2, 3, 4, 1], [2, 3, 4]),
        # More replicas are removed than added.
        ([alter_isr(1, 1, 2), reassign(2, 3, 4), alter_isr(3, 1, 2, 4)], [3, 4, 1, 2], [3, 4, 1, 2]),
        ([alter_isr(1, 1, 2), reassign(2, 2, 3)], [2, 3, 1], [2, 3, 1]),
        # A request for the former replicas: since 4.3 the one that was added is waited for, and never joins the ISR.
        ([reassign(1, 4, 2, 3), reassign(2, 1, 2, 3), alter_isr(3, 1, 2, 3, 4)], [1, 2, 3], [1, 2, 3, 4]),
        # A request that adds a replica in place of it.
        ([reassign(1, 4, 2, 3), reassign(2, 5, 2, 3), alter_isr(3, 1, 2, 3, 5)], [5, 2, 3], [5, 2, 3]),
    ],
)
def test_kraft_waits_for_what_is_added_since_4_3(events: list[Event], before: list[int], since_4_3: list[int]) -> None:
    for with_added, replicas in ((False, before), (True, since_4_3)):
        assert simulate_final((1, 2, 3), events, True, completes_with_added=with_added)[1] == replicas


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


DESCRIBED = """\
Topic: t	TopicId: dOzjTp5YQAuRgQNSOLDrQw	PartitionCount: 1	ReplicationFactor: 3	Configs: 
	Topic: t	Partition: 0	Leader: 1	Replicas: 2,3,4,1	Isr: 1,2	Adding Replicas: 4	Removing Replicas: 1	Elr: 	LastKnownElr: 
"""  # noqa: E501, W291


@pytest.mark.parametrize(("version", "replicas"), [("4.2", [2, 3, 4, 1]), ("4.3", [2, 3, 4])])
def test_a_reassignment_that_runs_in_the_snapshot(tmp_path: Path, version: str, replicas: list[int]) -> None:
    source, scenario = tmp_path / "describe.txt", tmp_path / "joins.yaml"
    source.write_text(DESCRIBED)
    scenario.write_text("events:\n  - t=1 isr t-0 1,2,4\n")
    defaults = KAFKA_DEFAULTS.assume(parse_release(version) or 0)
    replay = run_replay(ReplayRequest([str(source), str(scenario)], defaults=defaults))
    assert get_final_state(replay.simulation).partitions[0]["replicas"] == replicas
    scenario.write_text("events:\n  - t=1 reassign t-0 cancelled\n")
    replay = run_replay(ReplayRequest([str(source), str(scenario)], defaults=defaults))
    assert get_final_state(replay.simulation).partitions[0]["replicas"] == [2, 3, 1]


@pytest.mark.parametrize(("version", "replicas"), [("4.2", [2, 3, 4, 1]), ("4.3", [2, 3, 4])])
def test_the_version_of_a_scenario(tmp_path: Path, version: str, replicas: list[int]) -> None:
    file = tmp_path / "scenario.yaml"
    events = ("t=1 isr a-0 1,2", "t=2 reassign a-0 to 2,3,4", "t=3 isr a-0 1,2,4")
    head = "brokers: [1, 2, 3, 4]\ntopics: {a: [[1, 2, 3]]}\nsettings: {kraft: true"
    written = "".join(f"  - {event}\n" for event in events)
    file.write_text(f"{head}}}\nevents:\n{written}")
    defaults = KAFKA_DEFAULTS.assume(parse_release(version) or 0)
    (row,) = get_final_state(run_replay(ReplayRequest([str(file)], defaults=defaults)).simulation).partitions
    assert row["replicas"] == replicas
    file.write_text(f"{head}, completes_with_added: false}}\nevents:\n{written}")
    (row,) = get_final_state(run_replay(ReplayRequest([str(file)])).simulation).partitions
    assert row["replicas"] == [2, 3, 4, 1]
