"""Loads of topics on brokers become loads of partitions, and none gets lost."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipelines.ingest.merge.load_merge import (
    PartitionLoads,
    ServedPartitions,
    TopicLoads,
    split_loads,
    subtract_known_rates,
)

Pairs = list[tuple[int, int]]  # of a partition's index and a broker


def _split(
    partitions: list[tuple[int, int, float]], loads: dict[tuple[int, int], float], *others: Pairs
) -> PartitionLoads:
    """Split loads by (topic, broker) among partitions of (topic, leader, appended). others: served beside leaders."""
    columns = zip(*partitions, strict=True) if partitions else ((), (), ())
    topic, leader, appended = (np.array(column) for column in columns)
    leaders = [(i, broker) for i, (_, broker, _) in enumerate(partitions) if broker >= 0]
    keys = list(loads)
    return split_loads(
        topic.astype(np.int64),
        leader >= 0,
        appended.astype(np.float64),
        [ServedPartitions(*np.array(pairs, dtype=np.int64).reshape(-1, 2).T) for pairs in (leaders, *others)],
        TopicLoads(
            np.array([key[0] for key in keys], dtype=np.int64),
            np.array([key[1] for key in keys], dtype=np.int64),
            np.array(list(loads.values()), dtype=np.float64),
        ),
    )


def test_shares_are_those_of_the_appended_records() -> None:
    split = _split([(0, 1, 30), (0, 1, 10), (0, 2, 5), (1, 1, 7)], {(0, 1): 400, (0, 2): 50})
    assert split.rate[:3].tolist() == [300, 100, 50]
    assert math.isnan(split.rate[3])
    assert split.is_measured.tolist() == [True, True, True, False]


def test_unknown_appends_divide_evenly() -> None:
    split = _split([(0, 1, 30), (0, 1, math.nan), (0, 2, 0), (0, 2, 0)], {(0, 1): 400, (0, 2): 50})
    assert split.rate.tolist() == [200, 200, 25, 25]
    assert not split.is_measured.any()


def test_load_of_a_former_leader_goes_to_the_whole_topic() -> None:
    split = _split([(0, 1, 30), (0, 2, 10), (0, -1, 10)], {(0, 1): 100, (0, 9): 40})
    assert split.rate[:2].tolist() == [130, 10]
    assert math.isnan(split.rate[2])


def test_what_a_follower_sends_goes_to_the_partitions_that_it_follows() -> None:
    partitions = [(0, 1, 30), (0, 2, 10), (0, 2, 10), (0, 2, 10)]
    split = _split(partitions, {(0, 1): 100, (0, 3): 60}, [(1, 3), (2, 3)])
    assert split.rate[:3].tolist() == [100, 30, 30]
    assert math.isnan(split.rate[3])


def test_a_broker_that_leads_some_partitions_did_not_send_what_it_follows() -> None:
    split = _split([(0, 1, 30), (0, 2, 10)], {(0, 1): 100}, [(1, 1)])
    assert split.rate[0] == 100
    assert math.isnan(split.rate[1])


def test_nothing_is_split_into_nothing() -> None:
    assert len(_split([], {(0, 1): 5}).rate) == 0
    assert np.isnan(_split([(0, -1, 1)], {(0, 1): 5}).rate).all()


_PARTITION = st.tuples(st.integers(0, 3), st.integers(-1, 3), st.sampled_from([0.0, 1.0, 2.5, math.nan]))
_LOADS = st.dictionaries(st.tuples(st.integers(0, 4), st.integers(0, 4)), st.sampled_from([0.0, 1.0, 8.0]), max_size=8)


_FOLLOWED = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 4)), max_size=9)


@given(st.lists(_PARTITION, max_size=12), _LOADS, _FOLLOWED)
def test_the_sum_of_a_topic_is_its_load(
    partitions: list[Any], loads: dict[tuple[int, int], float], followed: Pairs
) -> None:
    known = sorted({(i, broker) for i, broker in followed if i < len(partitions) and partitions[i][1] >= 0})
    split = _split(partitions, loads, known)
    for topic in range(5):
        has_leader = [t == topic and leader >= 0 for t, leader, _ in partitions]
        rates = split.rate[np.flatnonzero(has_leader)]
        total = sum(load for (t, _), load in loads.items() if t == topic)
        if any(has_leader):
            assert math.isclose(np.nansum(rates), total, abs_tol=1e-9)
        if not any(t == topic for t, _ in loads):
            assert np.isnan(rates).all()


def _subtract(
    partitions: list[tuple[int, int, float]], loads: list[tuple[int, int, float]]
) -> tuple[list[int], dict[tuple[int, int], float]]:
    """Return which partitions remain, and the loads for them. partitions: topic, leader, own rate."""
    topic, leader, known = (np.array(column) for column in zip(*partitions, strict=True))
    pairs = np.flatnonzero(leader >= 0)
    columns = [np.array(column) for column in zip(*loads, strict=True)]
    served = [ServedPartitions(pairs, leader[pairs])]
    (rest,), left = subtract_known_rates(topic, leader, known, served, TopicLoads(*columns))
    return rest.partition.tolist(), {
        (t, b): r for t, b, r in zip(left.topic.tolist(), left.broker.tolist(), left.rate.tolist(), strict=True)
    }


def test_known_rates_of_partitions_are_part_of_their_topics_load() -> None:
    nan = math.nan
    partitions = [(0, 1, 30.0), (0, 1, nan), (0, 1, nan), (0, 2, 5.0), (1, 1, nan), (0, -1, 7.0)]
    loads = [(0, 1, 90.0), (0, 1, 10.0), (0, 2, 50.0), (1, 1, 8.0), (0, 3, 4.0)]
    # Broker 2 leads no other partition of topic 0; broker 3 leads none of it, and keeps its load.
    assert _subtract(partitions, loads) == ([1, 2, 4], {(0, 1): 70, (1, 1): 8, (0, 3): 4})


def test_what_exceeds_the_load_of_a_topic_leaves_the_others_unknown() -> None:
    assert _subtract([(0, 1, 100.5), (0, 1, math.nan)], [(0, 1, 100.0)]) == ([1], {(0, 1): 0})
    assert _subtract([(0, 1, 120.0), (0, 1, math.nan)], [(0, 1, 100.0)]) == ([1], {})


def test_without_known_rates_nothing_is_subtracted() -> None:
    assert _subtract([(0, 1, math.nan), (2, 0, math.nan)], [(0, 1, 9.0)]) == ([0, 1], {(0, 1): 9})


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.sampled_from([1.0, 2.5]), st.booleans()), min_size=1)
)
def test_known_and_divided_rates_add_up_to_the_load(rows: list[tuple[int, int, float, bool]]) -> None:
    """Each broker transfers what its partitions have; of some of them, the rate is known."""
    loads: dict[tuple[int, int], float] = {}
    for topic, leader, rate, _ in rows:
        loads[topic, leader] = loads.get((topic, leader), 0) + rate
    partitions = [(topic, leader, rate if is_known else math.nan) for topic, leader, rate, is_known in rows]
    rest, left = _subtract(partitions, [(*key, load) for key, load in loads.items()])
    assert rest == [i for i, row in enumerate(rows) if not row[3]]
    expected: dict[tuple[int, int], float] = {}
    for i in rest:
        expected[rows[i][:2]] = expected.get(rows[i][:2], 0) + rows[i][2]
    assert left.keys() == expected.keys()
    for key, load in expected.items():
        assert math.isclose(left[key], load, abs_tol=1e-9)
