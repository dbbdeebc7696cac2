"""Topics as our own kernels place them, for the search of their origin."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tests.unit.placement.placement_requests import lists, one
from udfs.origin.topic_origins import BROKERS, TOPICS, topic_origins
from udfs.placement.kernels import admin_utils
from udfs.placement.kernels.java_random import scrambled
from udfs.placement.kernels.striped import striped
from udfs.placement.kernels.topic_arrays import BrokerLists, Topics

Replicas = list[list[int]]


def placed(
    scheme: str,
    brokers: Sequence[int],
    sizes: Sequence[tuple[int, int]],
    seed: int,
    racks: Sequence[str | None] | None = None,
) -> list[Replicas]:
    """The replicas of topics of these (partitions, factor), in brokers in this order."""
    list_ = BrokerLists.of(one(*brokers), one(0, len(brokers)), racks)
    partitions, factor = one(*(p for p, _ in sizes)), one(*(f for _, f in sizes))
    topics = Topics.of(partitions, factor, np.zeros(len(sizes), dtype=np.int64))
    states = scrambled(seed * 1_000_003 + np.arange(len(sizes), dtype=np.int64))
    if scheme == "kraft":
        return lists(striped(topics, list_, states))
    if scheme == "naive":
        return lists(admin_utils.naive(topics, list_))
    return lists(admin_utils.kafka(topics, list_, states, use_racks=scheme == "kafka_rack_aware"))


def grown(topic: Replicas, more: int, brokers: Sequence[int], racks: Sequence[str | None] | None = None) -> Replicas:
    """The topic as Kafka 2.8 adds `more` partitions to it."""
    ids = sorted(brokers)
    start = next((i for i, b in enumerate(ids) if b >= topic[0][0]), 0)
    by_id = None if racks is None else [racks[list(brokers).index(b)] for b in ids]
    list_ = BrokerLists.of(one(*ids), one(0, len(ids)), by_id)
    asked = Topics.of(*(one(more), one(len(topic[0])), one(0)), first_partition=one(len(topic)), fixed_start=one(start))
    return topic + lists(admin_utils.kafka(asked, list_, scrambled(one(0)), use_racks=racks is not None))[0]


def judge(
    topics: Sequence[Replicas | dict[int, list[int] | None]],
    brokers: Sequence[int],
    racks: Sequence[str | None] | None = None,
    down: Sequence[int] = (),
) -> list[dict]:
    """The origins of these topics: replicas by partition, or of partitions 0.. in order."""
    shown = [dict(enumerate(topic)) if isinstance(topic, list) else topic for topic in topics]
    rows = [
        ("c", "s", str(i), [{"partition": p, "replicas": r} for p, r in topic.items()]) for i, topic in enumerate(shown)
    ]
    table = pa.Table.from_pylist([dict(zip(TOPICS.names, row, strict=True)) for row in rows], schema=TOPICS)
    live = [b not in down for b in brokers]
    about = [list(brokers), list(racks or [None] * len(brokers)), live]
    given = pa.Table.from_arrays(
        [pa.array(values, field.type) for values, field in zip(about, BROKERS, strict=True)], schema=BROKERS
    )
    return topic_origins(table, given).to_pylist()
