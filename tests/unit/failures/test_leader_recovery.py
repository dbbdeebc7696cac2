"""Which brokers bring partitions back online: the rules of what-if beside the simulated controller, and the order."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

from udfs.arrow.columns import INTS
from udfs.failures.partition_health import BrokerStart, KnownStops, LeaderRecovery, find_recovery, order_starts
from udfs.simulation.cluster_events import ClusterSettings, Event, InitialPartition, InitialState, build_event_log
from udfs.simulation.kernels.codes import EventKind
from udfs.simulation.result_tables import get_final_state
from udfs.simulation.simulator import simulate_log

BROKERS = (1, 2, 3, 4)
LISTS = {"replicas": "replicas", "isr": "isr", "elr": "elr", "last_known_elr": "last_known"}


def recover(state: InitialState, order: tuple[int, ...] = ()) -> tuple[LeaderRecovery, KnownStops]:
    columns = {name: pa.array([getattr(one, field) for one in state.partitions], INTS) for name, field in LISTS.items()}
    unclean = np.array([one.unclean for one in state.partitions], dtype=np.bool_)
    stops = KnownStops(np.array(sorted(state.live), dtype=np.int32), tuple(state.shut_down), order)
    return find_recovery(pa.table(columns), unclean, stops), stops


def draw_state(draw: random.Random) -> InitialState:
    """Partitions without a leader, as failures and clean stops leave them; broker 4 is live and was never in sync."""
    elr, partitions = draw.random() < 0.7, []
    for number in range(40):
        replicas = tuple(draw.sample(BROKERS[:3], draw.randint(1, 3))) + ((4,) if draw.random() < 0.3 else ())
        unclean = draw.random() < 0.2 and 4 not in replicas
        left = tuple(draw.sample(replicas, draw.randint(1, len(replicas))))
        down = tuple(broker for broker in left if broker != 4)
        if elr:
            lists = ((), down if draw.random() < 0.7 else (), (draw.choice(replicas),) if draw.random() < 0.9 else ())
            if lists[2] == (4,) and not lists[1]:
                continue  # it would lead
        else:
            lists = (down[:1], (), ())
        one = InitialPartition(("t", number), replicas, lists[0], None, elr=lists[1], unclean=unclean)
        partitions.append(replace(one, last_known=lists[2]))
    shut_down = frozenset(broker for broker in (1, 2, 3) if draw.random() < 0.4)
    settings = ClusterSettings(kraft=True, elr=elr, auto_leader_rebalance=False)
    return InitialState(BROKERS, frozenset({4}), tuple(partitions), 4, 1, settings, shut_down)


def simulate_returns(state: InitialState, ids: tuple[int, ...]) -> list[int | None]:
    events = [Event(place, EventKind.BROKER_UP, broker) for place, broker in enumerate(ids)]
    rows = get_final_state(simulate_log(build_event_log(state, events))).partitions
    leaders = {row["partition"]: row["leader"] for row in rows}
    return [leaders[one.key[1]] for one in state.partitions]


@pytest.mark.parametrize("index", range(12))
def test_the_same_partitions_come_online_as_in_the_simulation(index: int) -> None:
    draw = random.Random(f"{os.environ['TEST_SEED']}-{index}")
    state = draw_state(draw)
    recovery, stops = recover(state)
    seen = set()
    for size in (1, 2, 3):
        for ids in combinations((1, 2, 3), size):
            order = tuple(draw.sample(ids, size))
            expected = simulate_returns(state, order)
            _, leader = recovery.find_returned(ids, stops.live)
            found = [None if broker < 0 else broker for broker in leader.tolist()]
            assert [one is None for one in found] == [one is None for one in expected], (state, order)
            if size == 1:
                assert found == expected, (state, order)
            seen |= {one is None for one in found}
    assert seen == {True, False}


def test_a_crashed_broker_alone_is_not_enough_for_an_elr_of_two() -> None:
    """2 led last. After crashes both are needed, whichever comes first; a clean stop of 1 is enough."""
    one = InitialPartition(("t", 0), (1, 2), (), None, elr=(1, 2), last_known=(2,))
    state = InitialState((1, 2), frozenset(), (one,), None, 1, ClusterSettings(kraft=True, elr=True))
    recovery, stops = recover(state)
    leaders = {ids: int(recovery.find_returned(ids, stops.live)[1][0]) for ids in ((1,), (2,), (1, 2))}
    assert leaders == {(1,): -1, (2,): -1, (1, 2): 2}
    recovery, stops = recover(replace(state, shut_down=frozenset({1})))
    leaders = {ids: int(recovery.find_returned(ids, stops.live)[1][0]) for ids in ((1,), (2,), (1, 2))}
    assert leaders == {(1,): 1, (2,): -1, (1, 2): 1}


def test_the_broker_that_brings_most_online_starts_first() -> None:
    lists = [((1,), (1,)), ((2,), (2,)), ((2,), (2,)), ((3, 5), (5,))]
    partitions = tuple(
        InitialPartition(("t", i), (*elr, 7), (), None, elr=elr, last_known=last) for i, (elr, last) in enumerate(lists)
    )
    partitions += (InitialPartition(("t", 9), (6, 7), (), None, unclean=True),)  # 7 stopped last: it has most
    state = InitialState((1, 2, 3, 5, 6, 7), frozenset(), partitions, None, 1, ClusterSettings(kraft=True, elr=True))
    recovery, stops = recover(state, order=(6, 7))
    starts = order_starts(recovery, state.brokers, stops)
    pairs = [(start.broker, start.partitions) for start in starts]
    assert pairs == [(2, 2), (1, 1), (3, 0), (5, 1), (7, 1)]
    assert recovery.stopped_last.tolist() == [-1, -1, -1, -1, 7]
    assert order_starts(recovery, (1, 6), stops) == [BrokerStart(1, 1), BrokerStart(6, 1)]


def test_an_eligible_broker_brings_a_topic_with_unclean_elections_back_however_it_stopped() -> None:
    """1 is eligible, and 2 would lead too, with fewer messages: 1 comes first."""
    one = InitialPartition(("t", 0), (2, 1), (), None, elr=(1,), unclean=True)
    state = InitialState((1, 2), frozenset(), (one,), None, 1, ClusterSettings(kraft=True, elr=True))
    recovery, stops = recover(state)
    assert simulate_returns(state, (1,)) == [1]
    assert order_starts(recovery, state.brokers, stops) == [BrokerStart(1, 1)]
    recovery, stops = recover(replace(state, partitions=(replace(one, unclean=False),)))
    assert order_starts(recovery, state.brokers, stops) == []
