"""Topics placed by our own kernels, as input of the search for their origin."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tests.unit.placement.placement_requests import ints, to_lists
from udfs.origin.topic_origins import BROKERS, TOPICS, find_topic_origins
from udfs.placement.kernels import admin_utils
from udfs.placement.kernels.java_util import scramble_seeds
from udfs.placement.kernels.striped import place_striped
from udfs.placement.kernels.topic_arrays import BrokerLists, Topics

Replicas = list[list[int]]


def place_topics(
    scheme: str,
    brokers: Sequence[int],
    sizes: Sequence[tuple[int, int]],
    seed: int,
    racks: Sequence[str | None] | None = None,
) -> list[Replicas]:
    """Place topics of these (partitions, replication factor) over brokers in this order."""
    list_ = BrokerLists.create(ints(*brokers), ints(0, len(brokers)), racks)
    partitions, factor = ints(*(p for p, _ in sizes)), ints(*(f for _, f in sizes))
    topics = Topics.create(partitions, factor, np.zeros(len(sizes), dtype=np.int64))
    states = scramble_seeds(seed * 1_000_003 + np.arange(len(sizes), dtype=np.int64))
    if scheme == "kraft":
        return to_lists(place_striped(topics, list_, states))
    if scheme == "naive":
        return to_lists(admin_utils.place_naive(topics, list_))
    return to_lists(admin_utils.place_kafka(topics, list_, states, use_racks=scheme == "kafka_rack_aware"))


def expand(topic: Replicas, more: int, brokers: Sequence[int], racks: Sequence[str | None] | None = None) -> Replicas:
    """Add `more` partitions to a topic as Kafka 2.8 does."""
    ids = sorted(brokers)
    start = next((i for i, b in enumerate(ids) if b >= topic[0][0]), 0)
    by_id = None if racks is None else [racks[list(brokers).index(b)] for b in ids]
    list_ = BrokerLists.create(ints(*ids), ints(0, len(ids)), by_id)
    added = Topics.create(
        *(ints(more), ints(len(topic[0])), ints(0)), start_partition=ints(len(topic)), fixed_start_index=ints(start)
    )
    return (
        topic + to_lists(admin_utils.place_kafka(added, list_, scramble_seeds(ints(0)), use_racks=racks is not None))[0]
    )


def find_origins_of(
    topics: Sequence[Replicas | dict[int, list[int] | None]],
    brokers: Sequence[int],
    racks: Sequence[str | None] | None = None,
    down: Sequence[int] = (),
    cordoned: Sequence[int] = (),
) -> list[dict]:
    """Find the origins of topics: replicas by partition, or of partitions 0, 1, ... in order."""
    by_partition = [dict(enumerate(topic)) if isinstance(topic, list) else topic for topic in topics]
    rows = [
        ("c", "s", str(i), [{"partition": p, "replicas": r} for p, r in topic.items()])
        for i, topic in enumerate(by_partition)
    ]
    table = pa.Table.from_pylist([dict(zip(TOPICS.names, row, strict=True)) for row in rows], schema=TOPICS)
    live, flags = [b not in down for b in brokers], [b in cordoned for b in brokers]
    columns = [list(brokers), list(racks or [None] * len(brokers)), live, flags]
    brokers_table = pa.Table.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, BROKERS, strict=True)], schema=BROKERS
    )
    return find_topic_origins(table, brokers_table).to_pylist()
