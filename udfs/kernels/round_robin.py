"""Kafka's rack-unaware round robin with a shift, and the naive scheme, over batches of topics.

Source: kafka.admin.AdminUtils.assignReplicasToBrokersRackUnaware. Brokers are indices 0..n-1 into each topic's own
list; the caller maps them to ids.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from udfs.kernels.ragged import offsets_of

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TopicBatch:
    """Requests for n topics. All arrays int64 of length n.

    partitions: how many partitions to place, >= 0.   first_partition: id of the first of them, >= 0.
    replication_factor: 1 <= RF <= brokers.           brokers: how many brokers the topic is placed over, >= 1.
    """

    partitions: Ints
    first_partition: Ints
    replication_factor: Ints
    brokers: Ints


# (topic, partition id) of the partitions to place, int64 (p) each, in any order; None = all of the batch, in order.
Asked = tuple[Ints, Ints] | None


@dataclass(frozen=True)
class Assignment:
    """Replicas of the partitions asked for, in their order.

    topic (p): index of the topic; partition (p): partition id;
    offsets (p + 1), broker_index (flat): partition i's replicas, preferred leader first.
    """

    topic: Ints
    partition: Ints
    offsets: npt.NDArray[np.int64]
    broker_index: npt.NDArray[np.int32]


def grid(batch: TopicBatch) -> tuple[Ints, Ints]:
    """(topic, partition id) of every partition of the batch: int64 (p) each."""
    topic = np.repeat(np.arange(len(batch.partitions), dtype=np.int64), batch.partitions)
    begin = offsets_of(batch.partitions)[:-1]
    partition = np.arange(len(topic), dtype=np.int64) + np.repeat(batch.first_partition - begin, batch.partitions)
    return topic, partition


def _spread(batch: TopicBatch, topic: Ints, partition: Ints, first: Ints, step: Ints) -> Assignment:
    """Leader at `first`, follower j at (first + 1 + (step + j) % (n - 1)) % n, for any mix of RFs."""
    brokers = batch.brokers[topic]
    factor = batch.replication_factor[topic]
    offsets = offsets_of(factor)
    out = np.empty(int(offsets[-1]), dtype=np.int32)
    out[offsets[:-1]] = first
    # One pass per follower rank, over the partitions that have it: RF is a handful.
    others = np.maximum(brokers - 1, 1)
    uniform = len(factor) > 0 and factor.min() == factor.max()
    for rank in range(1, int(factor.max(initial=1))):
        rows = slice(None) if uniform else np.flatnonzero(factor > rank)
        follower = first[rows] + 1 + (step[rows] + (rank - 1)) % others[rows]
        follower -= np.where(follower >= brokers[rows], brokers[rows], 0)
        out[offsets[:-1][rows] + rank] = follower
    return Assignment(topic, partition, offsets, out)


def kafka_rack_unaware(batch: TopicBatch, start_index: Ints, shift: Ints, asked: Asked = None) -> Assignment:
    """Kafka's assignment without racks.

    start_index, shift: int64 (n), each in [0, brokers) - drawn in this order from one Random, or both set to
    Kafka's `fixedStartIndex`. The shift grows at each placed partition id > 0 that is a multiple of `brokers`.
    """
    topic, partition = asked or grid(batch)
    brokers = batch.brokers[topic]
    origin = batch.first_partition
    passed = np.where(origin > 0, (origin - 1) // batch.brokers, 0)
    step = shift[topic] + partition // brokers - passed[topic]
    first = (partition + start_index[topic]) % brokers
    return _spread(batch, topic, partition, first, step)


def naive(batch: TopicBatch, asked: Asked = None) -> Assignment:
    """Replica j of partition i on broker (i + j) % n: what many texts claim that Kafka does."""
    topic, partition = asked or grid(batch)
    first = partition % batch.brokers[topic]
    return _spread(batch, topic, partition, first, np.zeros_like(first))
