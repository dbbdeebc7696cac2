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


def _gathered(of_topic: Ints, topic: Ints) -> Ints | np.int64:
    """Each partition's value of its topic; one number where all topics have the same, which is faster to divide by."""
    if len(of_topic) and (of_topic == of_topic[0]).all():
        return np.int64(of_topic[0])
    return of_topic[topic]


def _spread(
    batch: TopicBatch, topic: Ints, partition: Ints, start: Ints | np.int64, turn: Ints | np.int64
) -> Assignment:
    """Leader at (partition + start) % n, follower j at (leader + 1 + (turn + j) % (n - 1)) % n, for any mix of RFs.

    start: in [0, n).   turn: what the followers are shifted by in the first round over the brokers; 0 <= turn.
    Every remainder after the first two is kept by stepping: dividing is what costs here.
    """
    brokers = _gathered(batch.brokers, topic)
    factor = _gathered(batch.replication_factor, topic)
    first = partition % brokers + start
    first -= np.where(first >= brokers, brokers, 0)
    others = np.maximum(brokers - 1, 1)
    ahead = turn % others + 1  # of the leader
    if isinstance(factor, np.integer):
        table = np.empty((len(topic), int(factor)), dtype=np.int32)
        for rank in range(table.shape[1]):
            follower = first if rank == 0 else first + ahead
            if rank:
                follower -= np.where(follower >= brokers, brokers, 0)
                ahead += 1
                ahead -= np.where(ahead > others, others, 0)
            table[:, rank] = follower
        return Assignment(topic, partition, np.arange(len(topic) + 1) * int(factor), table.ravel())
    offsets = offsets_of(factor)
    out = np.empty(int(offsets[-1]), dtype=np.int32)
    # One pass per rank, over the partitions that have it: RF is a handful.
    for rank in range(int(factor.max(initial=1))):
        rows = np.flatnonzero(factor > rank)
        n = brokers if isinstance(brokers, np.integer) else brokers[rows]
        follower = first[rows]
        if rank:
            follower = follower + ahead[rows]
            follower -= np.where(follower >= n, n, 0)
            ahead += 1
            ahead -= np.where(ahead > others, others, 0)
        out[offsets[:-1][rows] + rank] = follower
    return Assignment(topic, partition, offsets, out)


def kafka_rack_unaware(batch: TopicBatch, start_index: Ints, shift: Ints, asked: Asked = None) -> Assignment:
    """Kafka's assignment without racks.

    start_index, shift: int64 (n), each in [0, brokers) - drawn in this order from one Random, or both set to
    Kafka's `fixedStartIndex`. The shift grows at each placed partition id > 0 that is a multiple of `brokers`.
    """
    topic, partition = asked or grid(batch)
    origin = batch.first_partition
    passed = np.where(origin > 0, (origin - 1) // batch.brokers, 0)
    turn = partition // _gathered(batch.brokers, topic) + (shift - passed)[topic]
    return _spread(batch, topic, partition, start_index[topic], turn)


def naive(batch: TopicBatch, asked: Asked = None) -> Assignment:
    """Replica j of partition i on broker (i + j) % n: what many texts claim that Kafka does."""
    topic, partition = asked or grid(batch)
    return _spread(batch, topic, partition, np.int64(0), np.zeros_like(partition))
