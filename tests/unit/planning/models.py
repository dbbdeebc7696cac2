"""Synthetic clusters with loads, placed by Kafka's own scheme, as cluster models."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from udfs.arrow.ragged import offsets_of
from udfs.placement.kernels.topic_arrays import BrokerLists
from udfs.placement.schemes import KAFKA
from udfs.placement.topic_placement import TopicBatch, place_topics
from udfs.planning.cluster_model import ClusterModel


def make_model(
    brokers: int, racks: int, topics: int, seed: int, empty: int = 0, oversized: bool = True
) -> ClusterModel:
    """Make a cluster whose last `empty` brokers hold nothing; loads are log-normal, the same for a topic's partitions.

    Sizes are bytes; one to five bytes are read per byte written. Without oversized partitions, no load is above four
    medians.
    """
    rng = np.random.default_rng(seed)
    old = brokers - empty
    names = pa.array([f"t{i:04d}" for i in range(topics)])
    counts = np.clip(rng.lognormal(1.6, 1.0, topics), 1, 64).astype(np.int32)
    factors = np.where(rng.random(topics) < 0.9, 3, 2).astype(np.int32)
    rack_of = np.arange(brokers) % racks
    lists = BrokerLists.create(np.arange(old), np.array([0, old]), [f"r{r}" for r in rack_of[:old]])
    asked = TopicBatch(names, names, pa.array(counts), pa.array(factors))
    placed = place_topics(asked, lists, np.zeros(topics, dtype=np.int64), KAFKA, seed)
    replicas = np.array(placed.field(0).flatten(), dtype=np.int32)
    topic = np.repeat(np.arange(topics, dtype=np.int32), counts)
    rate = rng.lognormal(3, 1.6 if oversized else 0.5, topics)
    if not oversized:
        rate = np.minimum(rate, 4 * np.exp(3))
    into = 1000 * np.round(rate[topic] * rng.uniform(0.6, 1.4, len(topic)), 3)
    return ClusterModel(
        f"model{seed}",
        np.arange(brokers, dtype=np.int32),
        rack_of.astype(np.int32),
        tuple(f"r{r}" for r in range(racks)),
        np.ones(brokers, dtype=np.bool_),
        np.zeros(brokers, dtype=np.bool_),
        tuple(names.to_pylist()),
        topic,
        np.concatenate([np.arange(n, dtype=np.int32) for n in counts]),
        offsets_of(factors.astype(np.int64)[topic]),
        replicas,
        np.round(into * 3600 * rng.uniform(4, 24, len(topic))),
        into,
        into * rng.choice([1, 2, 3, 5], topics)[topic],
        (True, True, True),
        np.zeros(len(topic), dtype=np.int8),
        np.ones(len(topic), dtype=np.int32),
    )
