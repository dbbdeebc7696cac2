"""Kafka's rack-aware round robin over batches of topics.

Source: kafka.admin.AdminUtils.assignReplicasToBrokersRackAware and getRackAlternatedBrokerList. The broker list is
alternated by rack; a follower candidate is passed over while its rack is used and another is not, or while it is
used itself and another broker is not.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from udfs.kernels.ragged import offsets_of
from udfs.kernels.round_robin import Assignment, Ints, TopicBatch, grid


def alternate_by_rack(racks: Mapping[int, str]) -> list[int]:
    """Broker ids in Kafka's alternated order: racks by name, ids in order inside, one of each rack in turn."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    queues = [by_rack[rack] for rack in sorted(by_rack)]
    longest = max(map(len, queues), default=0)
    return [queue[i] for i in range(longest) for queue in queues if i < len(queue)]


def kafka_rack_aware(
    batch: TopicBatch, start_index: Ints, shift: Ints, rack: npt.NDArray[np.int64], rack_offsets: npt.NDArray[np.int64]
) -> Assignment:
    """Kafka's assignment with racks; broker indices are into each topic's alternated broker list.

    start_index, shift: int64 (n), as in `kafka_rack_unaware`.
    rack (flat), rack_offsets (n + 1): for each topic, the rack number 0.. of each broker of its alternated list.
    """
    topic, partition = grid(batch)
    brokers, factor = batch.brokers[topic], batch.replication_factor[topic]
    begin = rack_offsets[:-1][topic]
    racks = np.array([len(np.unique(part)) for part in np.split(rack, rack_offsets[1:-1])], dtype=np.int64)[topic]
    passed = np.where(batch.first_partition > 0, (batch.first_partition - 1) // batch.brokers, 0)
    step = (shift[topic] + partition // brokers - passed[topic]) * racks
    first = (partition + start_index[topic]) % brokers

    width = int(factor.max(initial=1))
    chosen = np.full((len(topic), width), -1, dtype=np.int64)
    chosen[:, 0] = first
    tried = np.zeros(len(topic), dtype=np.int64)
    others = np.maximum(brokers - 1, 1)
    for rank in range(1, width):
        rows = np.flatnonzero(factor > rank)
        held = chosen[rows, :rank]
        held_racks = rack[begin[rows, None] + held]
        ordered = np.sort(held_racks, axis=1)
        all_racks = 1 + (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1) == racks[rows]
        while len(rows):
            candidate = (first[rows] + 1 + (step[rows] + tried[rows]) % others[rows]) % brokers[rows]
            tried[rows] += 1
            new_rack = ~(held_racks == rack[begin[rows] + candidate][:, None]).any(axis=1) | all_racks
            # No broker can be used up: the replication factor never exceeds the brokers.
            good = new_rack & ~(held == candidate[:, None]).any(axis=1)
            chosen[rows[good], rank] = candidate[good]
            rows, held, held_racks, all_racks = rows[~good], held[~good], held_racks[~good], all_racks[~good]

    filled = np.arange(width)[None, :] < factor[:, None]
    return Assignment(topic, partition, offsets_of(factor), chosen[filled].astype(np.int32))
