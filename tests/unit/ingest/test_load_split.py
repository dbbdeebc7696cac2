"""Loads of topics on brokers become loads of partitions, and none gets lost."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipelines.ingest.merge.load_split import PartitionLoads, split_loads


def _split(partitions: list[tuple[int, int, float]], loads: dict[tuple[int, int], float]) -> PartitionLoads:
    topic, leader, appended = zip(*partitions, strict=True) if partitions else ((), (), ())
    keys = list(loads)
    return split_loads(
        np.array(topic, dtype=np.int64),
        np.array(leader, dtype=np.int64),
        np.array(appended, dtype=np.float64),
        np.array([key[0] for key in keys], dtype=np.int64),
        np.array([key[1] for key in keys], dtype=np.int64),
        np.array(list(loads.values()), dtype=np.float64),
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


def test_nothing_is_split_into_nothing() -> None:
    assert len(_split([], {(0, 1): 5}).rate) == 0
    assert np.isnan(_split([(0, -1, 1)], {(0, 1): 5}).rate).all()


_PARTITION = st.tuples(st.integers(0, 3), st.integers(-1, 3), st.sampled_from([0.0, 1.0, 2.5, math.nan]))
_LOADS = st.dictionaries(st.tuples(st.integers(0, 4), st.integers(0, 4)), st.sampled_from([0.0, 1.0, 8.0]), max_size=8)


@given(st.lists(_PARTITION, max_size=12), _LOADS)
def test_the_sum_of_a_topic_is_its_load(partitions: list[Any], loads: dict[tuple[int, int], float]) -> None:
    split = _split(partitions, loads)
    for topic in range(5):
        has_leader = [t == topic and leader >= 0 for t, leader, _ in partitions]
        rates = split.rate[np.flatnonzero(has_leader)]
        total = sum(load for (t, _), load in loads.items() if t == topic)
        if any(has_leader):
            assert math.isclose(np.nansum(rates), total, abs_tol=1e-9)
        if not any(t == topic for t, _ in loads):
            assert np.isnan(rates).all()
