"""What the replay says of a KRaft cluster against Kafka's own controller, told of the same: no difference, ever."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest

from tests.oracle.kraft_controller import KRaftController, Life, Partitions, Stands, random_life, random_returns
from tests.seed_sampler import TWENTIETH, SeedSampler
from udfs.simulation.cluster_events import (
    BrokerIds,
    ClusterSettings,
    Event,
    InitialPartition,
    InitialState,
    build_event_log,
)
from udfs.simulation.kernels.codes import EventKind
from udfs.simulation.result_tables import ResultTables, get_final_state
from udfs.simulation.simulator import simulate, simulate_log

RELEASES = ("4_1", "4_3", "4_4")
LIVES = 2_000
KEPT = [42656000159, 50037000128, 50057000114]  # an ELR that one record with a reassignment changes


def replayed(lives: dict[int, Life]) -> dict[tuple[int, int], Partitions]:
    """How each cluster stands after so many of its events, by the replay."""
    logs = [
        build_event_log(life.begin, life.events[:size], cluster=str(number), snapshot=str(size))
        for number, life in lives.items()
        for size, _ in life.stood
    ]
    found: dict[tuple[int, int], Partitions] = {}
    for row in ResultTables(simulate_log(pa.concat_tables(logs).combine_chunks())).final_partitions.to_pylist():
        stands = Stands(
            tuple(row["replicas"]), tuple(row["isr"]), tuple(row["elr"]), row["leader"], row["leader_epoch"]
        )
        key = int(row["cluster_id"]), int(row["snapshot_id"])
        found.setdefault(key, {})[row["topic"], row["partition"]] = stands
    return found


def as_sets(partitions: Partitions) -> dict:
    """The same; ISRs and ELRs without their order, which means nothing."""
    return {
        key: (one.replicas, frozenset(one.isr), frozenset(one.elr), one.leader, one.leader_epoch)
        for key, one in partitions.items()
    }


@pytest.mark.slow
@pytest.mark.usefixtures("jdk")
@pytest.mark.parametrize("release", RELEASES)
def test_kafkas_controller_does_the_same(release: str, seed_sampler: SeedSampler) -> None:
    with KRaftController(release) as kafka:
        lives = {seed: random_life(kafka, seed) for seed in seed_sampler.seeds(LIVES, TWENTIETH)}
        lives |= {seed: random_life(kafka, seed, reverts=False) for seed in KEPT}
    seen = compare(lives)
    assert min(seen["eligible"], seen["leaderless"]) > len(lives) / 2


@pytest.mark.slow
@pytest.mark.usefixtures("jdk")
@pytest.mark.parametrize("release", RELEASES)
def test_kafkas_controller_does_the_same_after_a_snapshot(release: str, seed_sampler: SeedSampler) -> None:
    """Brokers that are down in the snapshot return, after a crash or a clean stop; replication factors 1 to 3."""
    with KRaftController(release) as kafka:
        lives = {seed: random_returns(kafka, seed) for seed in seed_sampler.seeds(LIVES, TWENTIETH)}
    draw = random.Random(0)
    cut = {number: life.since(draw.randrange(len(life.stood))) for number, life in lives.items() if life.stood}
    seen = compare({number: life for number, life in cut.items() if life.events})
    assert min(seen["eligible"], seen["leaderless"]) > len(lives) / 10
    assert min(seen["back to the last known leader"], seen["reassigned"]) > 0


@pytest.mark.usefixtures("jdk")
@pytest.mark.parametrize("release", RELEASES)
def test_reassignments_complete_as_in_kafka(release: str, seed_sampler: SeedSampler) -> None:
    """PartitionReassignmentReplicas, with any lists of replicas that are added and removed."""
    draw = random.Random(seed_sampler.first)
    cases: dict[str, tuple[BrokerIds, BrokerIds, BrokerIds, BrokerIds]] = {}
    for number in range(5_000):
        replicas = tuple(draw.sample(range(8), draw.randint(1, 6)))
        isr, adding, removing = (tuple(draw.sample(replicas, draw.randint(0, len(replicas)))) for _ in range(3))
        cases[f"t{number}"] = replicas, isr or replicas[:1], adding, removing
    with KRaftController(release) as kafka:
        settings = ClusterSettings(kraft=True, completes_with_added=kafka.completes_with_added)
        in_kafka = {topic: kafka.complete(*case) for topic, case in cases.items()}
    partitions = tuple(
        InitialPartition((topic, 0), replicas, isr, isr[0], adding=adding, removing=removing)
        for topic, (replicas, isr, adding, removing) in cases.items()
    )
    state = InitialState(tuple(range(8)), frozenset(range(8)), partitions, 0, 1, settings)
    events = [Event(1, EventKind.ALTER_ISR, partition=one.key, replicas=one.isr) for one in partitions]
    wrong = []
    for row in get_final_state(simulate(state, events)).partitions:
        replicas, isr, *_ = cases[row["topic"]]
        expected = in_kafka[row["topic"]] or (replicas, isr)
        if (tuple(row["replicas"]), set(row["isr"])) != (expected[0], set(expected[1])):
            wrong.append((cases[row["topic"]], expected, row))
    assert not wrong, f"{len(wrong)} of {len(cases)}, the first: {wrong[0]}"
    assert 500 < sum(one is None for one in in_kafka.values()) < 4_500


def compare(lives: dict[int, Life]) -> Counter[str]:
    """Count what was seen in lives that the replay must predict exactly."""
    found = replayed(lives)
    seen: Counter[str] = Counter()
    wrong = []
    for number, life in lives.items():
        for size, stood in life.stood:
            mine = found.get((number, size), {})
            if as_sets(mine) != as_sets(stood):
                wrong.append((number, size, life.events[:size], mine, stood))
                break
            seen["partitions"] += len(stood)
            seen["eligible"] += sum(bool(one.elr) for one in stood.values())
            seen["leaderless"] += sum(one.leader is None for one in stood.values())
        led = {(key, one.leader) for _, stood in life.stood for key, one in stood.items()}
        leaderless = [one for one in life.begin.partitions if one.leader is None and len(one.last_known) == 1]
        seen["reassigned"] += sum(bool(one.adding or one.removing) for one in life.begin.partitions)
        seen["back to the last known leader"] += sum((one.key, one.last_known[0]) in led for one in leaderless)
    assert not wrong, f"{len(wrong)} of {len(lives)}, the first: {wrong[0]}"
    assert seen["partitions"] > 10 * len(lives)
    return seen
