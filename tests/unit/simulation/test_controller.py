"""The controller's kernel: random events of small clusters against the interpreter, and invariants."""

from __future__ import annotations

from tests.seed_sampler import SIXTH, SeedSampler
from tests.unit.simulation.comparison import collect_interpreted_partitions, index_partitions
from tests.unit.simulation.interpreter import interpret
from tests.unit.simulation.random_cases import random_case
from udfs.simulation.cluster_events import ClusterSettings, Event, InitialPartition, InitialState
from udfs.simulation.kernels.codes import EventKind
from udfs.simulation.result_tables import get_final_state, list_leaderships, list_transitions
from udfs.simulation.simulator import simulate

SEQUENCES = 1500


def test_no_difference_to_the_interpreter(seed_sampler: SeedSampler) -> None:
    for seed in seed_sampler.seeds(SEQUENCES, SIXTH):
        begin, events = random_case(seed)
        actual = get_final_state(simulate(begin, events))
        expected = interpret(begin, events)
        assert actual.controller_epoch == expected.epoch, seed
        assert {b.broker_id for b in actual.brokers if b.is_live} == expected.live, seed
        assert index_partitions(actual.partitions) == collect_interpreted_partitions(expected), seed


def test_a_leader_is_in_its_isr_and_epochs_never_go_back(seed_sampler: SeedSampler) -> None:
    for seed in seed_sampler.seeds(300, SIXTH):
        begin, events = random_case(seed)
        epochs: dict[tuple[str, int], int] = {}
        controllers = begin.controller_epoch
        for row in list_leaderships(simulate(begin, events)):
            key = (row["topic"], row["partition"])
            assert row["leader_epoch"] >= epochs.get(key, 0)
            assert row["controller_epoch"] >= controllers
            epochs[key], controllers = row["leader_epoch"], row["controller_epoch"]
            if row["cause"] not in ("isr shrunk", "isr expanded", "reassignment") and row["leader"] is not None:
                assert row["leader"] in row["isr"]


def test_leaders_are_first_checked_after_an_interval() -> None:
    rules = ClusterSettings(leader_imbalance_check_ms=10_000)
    begin = InitialState((1, 2), frozenset({1, 2}), (InitialPartition(("t", 0), (1, 2), (1, 2), 2),), 1, 0, rules)
    events = [Event(at, EventKind.APPEND, partition=("t", 0), request=at, messages=1) for at in (0, 4_000, 12_000)]
    changes = [(row["cause"], row["at_ms"]) for row in list_leaderships(simulate(begin, events))]
    assert changes == [("auto rebalance", 10_000)]


def test_topics_are_not_deleted_without_a_controller() -> None:
    """The next controller finds the request, waits while broker 2 is down, and deletes once it is up."""
    both = (1, 2)
    begin = InitialState(both, frozenset(both), (InitialPartition(("t", 0), both, both, 1),), 1, 0, ClusterSettings())
    events = [
        Event(1_000, EventKind.BROKER_DOWN, broker=2),
        Event(2_000, EventKind.BROKER_DOWN, broker=1),
        Event(3_000, EventKind.DELETE_PARTITION, partition=("t", 0)),
        Event(4_000, EventKind.BROKER_UP, broker=1),
    ]
    assert [row["state"] for row in get_final_state(simulate(begin, events)).partitions] == ["OnlinePartition"]
    simulation = simulate(begin, [*events, Event(5_000, EventKind.BROKER_UP, broker=2)])
    assert {row["at_ms"] for row in list_transitions(simulation) if row["cause"] == "topic deleted"} == {5_000}
    assert all(row["legal"] for row in list_transitions(simulation))
    assert not get_final_state(simulation).partitions
