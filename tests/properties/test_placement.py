"""What holds for every placement, whatever is asked."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from udfs.placement.kernels import admin_utils
from udfs.placement.kernels.java_random import scrambled
from udfs.placement.kernels.striped import striped
from udfs.placement.kernels.topic_arrays import BrokerLists, Placed, Topics

Place = Callable[[Topics, BrokerLists, np.ndarray], Placed]
SCHEMES: dict[str, Place] = {
    "kafka": admin_utils.kafka,
    "naive": lambda topics, lists, states: admin_utils.naive(topics, lists),
    "striped": striped,
}


def one(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@st.composite
def requests(draw: st.DrawFn) -> tuple[Topics, BrokerLists, np.ndarray]:
    """Good requests over one list of brokers, all with a rack or none; ids have gaps."""
    n = draw(st.integers(1, 12))
    ids = draw(st.lists(st.integers(0, 2000), min_size=n, max_size=n, unique=True))
    racks = draw(st.none() | st.lists(st.sampled_from(["a", "b", "c d", "é"]), min_size=n, max_size=n))
    asked = draw(
        st.lists(
            st.tuples(st.integers(1, 40), st.integers(1, n), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=6
        )
    )
    partitions, factor, seeds = (np.array(column, dtype=np.int64) for column in zip(*asked, strict=True))
    topics = Topics.of(partitions, factor, np.zeros(len(asked), dtype=np.int64))
    return topics, BrokerLists.of(np.array(ids), one(0, n), racks), seeds


def ask(scheme: str, request: tuple[Topics, BrokerLists, np.ndarray]) -> Placed:
    return SCHEMES[scheme](request[0], request[1], scrambled(request[2]))


@pytest.mark.parametrize("scheme", SCHEMES)
@given(request=requests())
def test_brokers_of_a_partition_are_distinct_and_known(
    scheme: str, request: tuple[Topics, BrokerLists, np.ndarray]
) -> None:
    placed = ask(scheme, request)
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
    placed = ask(scheme, request)
    leaders = placed.broker[placed.replica_offsets[:-1]]
    for a, b in zip(placed.row_offsets[:-1], placed.row_offsets[1:], strict=True):
        counts = [int((leaders[a:b] == broker).sum()) for broker in request[1].ids]
        assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("scheme", ["kafka", "striped"])
@given(request=requests())
def test_racks_are_used_before_one_is_used_again(scheme: str, request: tuple[Topics, BrokerLists, np.ndarray]) -> None:
    lists = request[1]
    if lists.rack[0] < 0:
        return
    rack_of = dict(zip(lists.ids.tolist(), lists.rack.tolist(), strict=True))
    racks = len(set(rack_of.values()))
    placed = ask(scheme, request)
    for row in np.split(placed.broker, placed.replica_offsets[1:-1]):
        assert len({rack_of[broker] for broker in row.tolist()}) == min(racks, len(row))


@pytest.mark.parametrize("scheme", SCHEMES)
@given(request=requests())
def test_permuting_topics_permutes_results(scheme: str, request: tuple[Topics, BrokerLists, np.ndarray]) -> None:
    topics, brokers, seeds = request
    turned = Topics.of(topics.partitions[::-1].copy(), topics.replication_factor[::-1].copy(), topics.of_list)
    before, after = ask(scheme, request), ask(scheme, (turned, brokers, seeds[::-1].copy()))
    ends = before.replica_offsets[before.row_offsets]
    parts = np.split(before.broker, ends[1:-1])
    assert np.concatenate(parts[::-1]).tolist() == after.broker.tolist()


@given(brokers=st.integers(2, 30), partitions=st.integers(1, 200))
def test_naive_is_kafka_from_index_0_up_to_as_many_partitions_as_brokers(brokers: int, partitions: int) -> None:
    lists = BrokerLists.of(np.arange(brokers), one(0, brokers))
    request = (one(min(partitions, brokers)), one(min(3, brokers)), one(0))
    kafka = admin_utils.kafka(Topics.of(*request, fixed_start=one(0)), lists, scrambled(one(1)))
    assert admin_utils.naive(Topics.of(*request), lists).broker.tolist() == kafka.broker.tolist()
