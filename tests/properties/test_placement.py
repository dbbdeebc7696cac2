"""Properties of every placement, for random requests."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from udfs.placement.kernels import admin_utils
from udfs.placement.kernels.java_util import scramble_seeds
from udfs.placement.kernels.striped import place_striped
from udfs.placement.kernels.topic_arrays import BrokerLists, TopicPlacements, Topics

PlaceFunction = Callable[[Topics, BrokerLists, np.ndarray], TopicPlacements]
SCHEMES: dict[str, PlaceFunction] = {
    "kafka": admin_utils.place_kafka,
    "naive": admin_utils.place_naive,
    "striped": place_striped,
}


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@st.composite
def requests(draw: st.DrawFn) -> tuple[Topics, BrokerLists, np.ndarray]:
    """Draw valid requests over one list of brokers, all with a rack or none; ids have gaps."""
    n = draw(st.integers(1, 12))
    ids = draw(st.lists(st.integers(0, 2000), min_size=n, max_size=n, unique=True))
    racks = draw(st.none() | st.lists(st.sampled_from(["a", "b", "c d", "é"]), min_size=n, max_size=n))
    requested = draw(
        st.lists(
            st.tuples(st.integers(1, 40), st.integers(1, n), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=6
        )
    )
    partitions, factor, seeds = (np.array(column, dtype=np.int64) for column in zip(*requested, strict=True))
    topics = Topics.create(partitions, factor, np.zeros(len(requested), dtype=np.int64))
    return topics, BrokerLists.create(np.array(ids), ints(0, n), racks), seeds


def place(scheme: str, request: tuple[Topics, BrokerLists, np.ndarray]) -> TopicPlacements:
    return SCHEMES[scheme](request[0], request[1], scramble_seeds(request[2]))


@pytest.mark.parametrize("scheme", SCHEMES)
@given(request=requests())
def test_brokers_of_a_partition_are_distinct_and_known(
    scheme: str, request: tuple[Topics, BrokerLists, np.ndarray]
) -> None:
    placed = place(scheme, request)
    assert np.diff(placed.row_offsets).tolist() == request[0].partitions.tolist()
    assert (
        np.diff(placed.replica_offsets).tolist()
        == np.repeat(request[0].replication_factor, request[0].partitions).tolist()
    )
    for row in np.split(placed.broker, placed.replica_offsets[1:-1]):
        assert len(set(row.tolist())) == len(row)
        assert set(row.tolist()) <= set(request[1].ids.tolist())


@pytest.mark.parametrize("scheme", ["kafka", "naive"])
@given(request=requests())
def test_leaders_of_a_topic_are_balanced_within_one(
    scheme: str, request: tuple[Topics, BrokerLists, np.ndarray]
) -> None:
    placed = place(scheme, request)
    leaders = placed.broker[placed.replica_offsets[:-1]]
    for a, b in zip(placed.row_offsets[:-1], placed.row_offsets[1:], strict=True):
        counts = [int((leaders[a:b] == broker).sum()) for broker in request[1].ids]
        assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("scheme", ["kafka", "striped"])
@given(request=requests())
def test_every_rack_is_used_before_one_is_used_again(
    scheme: str, request: tuple[Topics, BrokerLists, np.ndarray]
) -> None:
    lists = request[1]
    if lists.rack[0] < 0:
        return
    rack_of = dict(zip(lists.ids.tolist(), lists.rack.tolist(), strict=True))
    racks = len(set(rack_of.values()))
    placed = place(scheme, request)
    for row in np.split(placed.broker, placed.replica_offsets[1:-1]):
        assert len({rack_of[broker] for broker in row.tolist()}) == min(racks, len(row))


@pytest.mark.parametrize("scheme", SCHEMES)
@given(request=requests())
def test_permuting_topics_permutes_results(scheme: str, request: tuple[Topics, BrokerLists, np.ndarray]) -> None:
    topics, brokers, seeds = request
    reversed_topics = Topics.create(
        topics.partitions[::-1].copy(), topics.replication_factor[::-1].copy(), topics.broker_list
    )
    before, after = place(scheme, request), place(scheme, (reversed_topics, brokers, seeds[::-1].copy()))
    ends = before.replica_offsets[before.row_offsets]
    parts = np.split(before.broker, ends[1:-1])
    assert np.concatenate(parts[::-1]).tolist() == after.broker.tolist()


@given(brokers=st.integers(2, 30), partitions=st.integers(1, 200))
def test_naive_equals_kafka_from_index_0_for_no_more_partitions_than_brokers(brokers: int, partitions: int) -> None:
    lists = BrokerLists.create(np.arange(brokers), ints(0, brokers))
    request = (ints(min(partitions, brokers)), ints(min(3, brokers)), ints(0))
    kafka = admin_utils.place_kafka(Topics.create(*request, fixed_start_index=ints(0)), lists, scramble_seeds(ints(1)))
    assert admin_utils.place_naive(Topics.create(*request), lists).broker.tolist() == kafka.broker.tolist()
