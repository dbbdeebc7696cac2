"""The election rule, case by case, and against the controller simulation on random partitions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.seed_sampler import count_cases
from udfs.arrow.ragged import offsets_of
from udfs.failures.kernels.election import MAX_REPLICAS, ElectedFrom, PartitionGroup
from udfs.failures.partition_arrays import elect_after, find_indices
from udfs.simulation.cluster_events import ClusterSettings, Event, InitialPartition, InitialState
from udfs.simulation.kernels.codes import EventKind
from udfs.simulation.result_tables import get_final_state
from udfs.simulation.simulator import simulate


class Partition(NamedTuple):
    replicas: list[int]
    isr: list[int]
    elr: list[int]
    leader: int
    unclean: bool = False


def elect(partitions: list[Partition], failed: set[int], live: set[int] | None = None) -> list[tuple[int, str]]:
    """Return the leader, -1 = none, and where it was elected from, of each partition after brokers failed."""
    replicas = [b for p in partitions for b in p.replicas]
    ids = np.array(sorted(set(replicas) if live is None else live), dtype=np.int32)
    count = len(partitions)
    group = PartitionGroup(
        offsets_of(np.array([len(p.replicas) for p in partitions], dtype=np.int64)),
        find_indices(ids, np.array(replicas, dtype=np.int32)),
        np.array([b in p.isr for p in partitions for b in p.replicas], dtype=np.bool_),
        np.array([b in p.elr for p in partitions for b in p.replicas], dtype=np.bool_),
        np.zeros(len(replicas), dtype=np.int64),
        find_indices(ids, np.array([p.leader for p in partitions], dtype=np.int32)),
        np.ones(count, dtype=np.int32),
        np.array([p.unclean for p in partitions], dtype=np.bool_),
        np.zeros(count, dtype=np.int64),
        np.zeros((count, 2)),
        np.ones(count, dtype=np.bool_),
    )
    leader, elected_from = elect_after(group, np.array([b in failed for b in replicas], dtype=np.bool_))
    leaders = [-1 if i < 0 else int(ids[i]) for i in leader]
    return [(b, ElectedFrom(code).label) for b, code in zip(leaders, elected_from, strict=True)]


@pytest.mark.parametrize(
    ("replicas", "isr", "elr", "leader", "unclean", "failed", "expected"),
    [
        ([1, 2, 3], [1, 2, 3], [], 1, False, {1}, (2, "isr")),
        ([1, 2, 3], [1, 3], [], 1, False, {1}, (3, "isr")),
        ([3, 1, 2], [2, 1, 3], [], 3, False, {3}, (1, "isr")),  # assignment order, not the ISR's
        ([1, 2, 3], [1, 2, 3], [], 2, False, {3}, (2, "kept")),
        ([1, 2, 3], [1, 2, 3], [], 2, False, {2}, (1, "isr")),
        ([1, 2], [1], [], 1, False, {1}, (-1, "offline")),
        ([1, 2], [1], [], 1, True, {1}, (2, "unclean")),
        ([1, 2, 3], [1], [3], 1, False, {1}, (3, "elr")),
        ([1, 2, 3], [1], [3], 1, True, {1}, (3, "elr")),
        ([1, 2, 3], [1], [3], 1, True, {1, 3}, (2, "unclean")),
        ([1], [1], [], 1, False, {1}, (-1, "offline")),
        ([1], [1], [], 1, True, {1}, (-1, "offline")),
        ([1, 2, 3], [1, 2, 3], [], 1, False, {1, 2}, (3, "isr")),
        ([1, 2, 3], [1, 2, 3], [], 1, False, set(), (1, "kept")),
        ([1, 2], [2], [], -1, True, {1}, (-1, "offline")),  # a failure brings no replica back
    ],
)
def test_election(
    replicas: list[int],
    isr: list[int],
    elr: list[int],
    leader: int,
    unclean: bool,
    failed: set[int],
    expected: tuple[int, str],
) -> None:
    assert elect([Partition(replicas, isr, elr, leader, unclean)], failed) == [expected]


def test_no_partitions() -> None:
    assert elect([], {1}) == []


def test_replicas_beyond_the_bits_of_a_mask_are_ignored() -> None:
    replicas = list(range(MAX_REPLICAS + 3))
    assert elect([Partition(replicas, [0, MAX_REPLICAS], [], 0)], {0}) == [(-1, "offline")]
    assert elect([Partition(replicas, [0, MAX_REPLICAS - 1], [], 0)], {0}) == [(MAX_REPLICAS - 1, "isr")]


@st.composite
def clusters(draw: st.DrawFn) -> tuple[bool, set[int], list[Partition]]:
    """Return (whether it is KRaft with ELR, live brokers, led partitions)."""
    kraft, live = draw(st.booleans()), draw(st.sets(st.integers(1, 6), min_size=1))
    partitions = []
    for _ in range(draw(st.integers(1, 6))):
        replicas = draw(st.permutations(range(1, 7)))[: draw(st.integers(1, 6))]
        live_replicas = [b for b in replicas if b in live]
        if not live_replicas:
            continue
        leader = draw(st.sampled_from(live_replicas))
        isr = [b for b in live_replicas if b == leader or draw(st.booleans())]
        elr = [b for b in replicas if b not in isr and kraft and draw(st.booleans())]
        partitions.append(Partition(replicas, isr, elr, leader, draw(st.booleans())))
    return kraft, live, partitions


@pytest.mark.slow
@settings(max_examples=count_cases(200))
@given(clusters(), st.integers(1, 6))
def test_the_controller_simulation_elects_the_same_leaders(
    cluster: tuple[bool, set[int], list[Partition]], failed: int
) -> None:
    kraft, live, partitions = cluster
    controller = 99
    initial = InitialState(
        (1, 2, 3, 4, 5, 6, controller),
        frozenset({*live, controller}),
        tuple(
            InitialPartition(("t", i), tuple(p.replicas), tuple(p.isr), p.leader, elr=tuple(p.elr), unclean=p.unclean)
            for i, p in enumerate(partitions)
        ),
        controller,
        settings=ClusterSettings(kraft=kraft, elr=kraft, auto_leader_rebalance=False),
    )
    state = get_final_state(simulate(initial, [Event(1, EventKind.BROKER_DOWN, failed)]))
    simulated = {row["partition"]: row["leader"] for row in state.partitions}
    expected = [leader for leader, _ in elect(partitions, failed={failed}, live=live)]
    assert [-1 if simulated[i] is None else simulated[i] for i in range(len(partitions))] == expected
