"""What holds for every placement, whatever is asked."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from udfs.kernels.round_robin import Assignment, TopicBatch, kafka_rack_unaware, naive


@st.composite
def requests(draw: st.DrawFn) -> tuple[TopicBatch, np.ndarray, np.ndarray]:
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(0, 40), st.integers(0, 60), st.integers(1, 12), st.integers(0, 10**6), st.integers(0, 10**6)
            ),
            min_size=1,
            max_size=6,
        )
    )
    columns = np.array(rows, dtype=np.int64).T
    partitions, first, brokers = columns[0], columns[1], columns[2]
    factor = np.array([draw(st.integers(1, int(n))) for n in brokers], dtype=np.int64)
    return TopicBatch(partitions, first, factor, brokers), columns[3] % brokers, columns[4] % brokers


def both(request: tuple[TopicBatch, np.ndarray, np.ndarray]) -> list[Assignment]:
    return [kafka_rack_unaware(*request), naive(request[0])]


@given(requests())
def test_brokers_of_a_partition_are_distinct_and_known(request: tuple[TopicBatch, np.ndarray, np.ndarray]) -> None:
    for placed in both(request):
        for i, topic in enumerate(placed.topic.tolist()):
            replicas = placed.broker_index[placed.offsets[i] : placed.offsets[i + 1]].tolist()
            assert len(replicas) == request[0].replication_factor[topic]
            assert len(set(replicas)) == len(replicas)
            assert set(replicas) <= set(range(int(request[0].brokers[topic])))


@given(requests())
def test_leaders_of_a_topic_are_balanced_within_one(request: tuple[TopicBatch, np.ndarray, np.ndarray]) -> None:
    for placed in both(request):
        leaders = placed.broker_index[placed.offsets[:-1]]
        for topic, brokers in enumerate(request[0].brokers.tolist()):
            counts = np.bincount(leaders[placed.topic == topic], minlength=brokers)
            assert counts.max() - counts.min() <= 1


@given(requests(), st.randoms(use_true_random=False))
def test_permuting_topics_permutes_results(request: tuple[TopicBatch, np.ndarray, np.ndarray], random: object) -> None:
    batch, start, shift = request
    order = np.array(sorted(range(len(start)), key=lambda i: (i * 7919) % 13), dtype=np.int64)
    turned = TopicBatch(
        *(a[order] for a in (batch.partitions, batch.first_partition, batch.replication_factor, batch.brokers))
    )
    before, after = kafka_rack_unaware(batch, start, shift), kafka_rack_unaware(turned, start[order], shift[order])
    for new, old in enumerate(order.tolist()):
        a = before.broker_index[np.repeat(before.topic == old, np.diff(before.offsets))]
        b = after.broker_index[np.repeat(after.topic == new, np.diff(after.offsets))]
        assert a.tolist() == b.tolist()


@given(st.integers(2, 30), st.integers(1, 200))
def test_naive_is_kafka_with_start_and_shift_zero_up_to_as_many_partitions_as_brokers(
    brokers: int, partitions: int
) -> None:
    factor = min(3, brokers)
    one = lambda v: np.array([v], dtype=np.int64)  # noqa: E731
    batch = TopicBatch(one(min(partitions, brokers)), one(0), one(factor), one(brokers))
    assert naive(batch).broker_index.tolist() == kafka_rack_unaware(batch, one(0), one(0)).broker_index.tolist()
