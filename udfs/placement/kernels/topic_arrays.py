"""Input and output of the placement kernels as flat arrays: broker lists, topics to place, and their replicas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.arrow.ragged import offsets_of
from udfs.placement.kernels.java_hash import index_rack_names

Ints = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]
Codes = npt.NDArray[np.int8]

NO_RACK = -1
DRAW_START = -1  # as fixed_start_index: draw the start index, as Kafka does


class BrokerLists(NamedTuple):
    """m lists of brokers to place over; list k is [offsets[k]:offsets[k + 1]] of the flat arrays."""

    ids: Ids  # int32 (flat), broker ids in the order that Kafka uses; distinct within a list
    offsets: Ints  # int64 (m + 1)
    rack: Ids  # int32 (flat), index of the broker's rack name, NO_RACK = none
    fenced: npt.NDArray[np.bool_]  # bool (flat)
    rack_rank: Ids  # int32 (rack names), position of each name in Java's sort order
    rack_hash: Ids  # int32 (rack names), Java hash code of each name

    @classmethod
    def create(
        cls,
        ids: npt.NDArray[np.integer],
        offsets: Ints,
        racks: Sequence[str | None] | None = None,
        fenced: npt.NDArray[np.bool_] | None = None,
    ) -> BrokerLists:
        """Build broker lists from ids (flat), offsets (m + 1) and optional rack names and fences (flat)."""
        codes, rank, hashes = index_rack_names(racks or [])
        # Copy: numba would compile every kernel again for read-only arrays.
        return cls(
            np.array(ids, dtype=np.int32),
            np.array(offsets, dtype=np.int64),
            codes if racks else np.full(len(ids), NO_RACK, dtype=np.int32),
            np.zeros(len(ids), dtype=np.bool_) if fenced is None else np.array(fenced, dtype=np.bool_),
            rank,
            hashes,
        )

    @property
    def sizes(self) -> Ints:
        """Brokers in each list: int64 (m)."""
        return np.diff(self.offsets)

    def broker_rank(self) -> Ids:
        """Return the rack rank of each broker: int32 (flat), NO_RACK = none."""
        return np.append(self.rack_rank, NO_RACK).astype(np.int32)[self.rack]

    def broker_hash(self) -> Ids:
        """Return the hash code of each broker's rack: int32 (flat), that of Java's Optional.empty() without a rack."""
        return np.append(self.rack_hash, 0).astype(np.int32)[self.rack]


class Topics(NamedTuple):
    """n topics to place, valid or not. All arrays are int64 (n) except partition_ids and its offsets."""

    partitions: Ints  # Number of partitions requested
    replication_factor: Ints  # Replicas of each partition
    broker_list: Ints  # Index of the broker list to place over
    generator: Ints  # Index of the random generator that the topic draws from; topics draw in their order
    start_partition: Ints  # Kafka's startPartitionId, the id of the first partition to place; below 0 = 0
    fixed_start_index: Ints  # Kafka's fixedStartIndex; DRAW_START = draw it
    partition_ids: Ints  # int64 (flat), the only partitions to place of each topic; none = all of them
    partition_id_offsets: Ints  # int64 (n + 1)

    @classmethod
    def create(cls, partitions: Ints, replication_factor: Ints, broker_list: Ints, **other: Ints) -> Topics:
        """Build topics; by default all of their partitions, drawn by a generator for each topic."""
        n = len(partitions)
        defaults = {
            "generator": np.arange(n, dtype=np.int64),
            "start_partition": np.zeros(n, dtype=np.int64),
            "fixed_start_index": np.full(n, DRAW_START, dtype=np.int64),
            "partition_ids": np.empty(0, dtype=np.int64),
            "partition_id_offsets": np.zeros(n + 1, dtype=np.int64),
        }
        return cls(partitions, replication_factor, broker_list, **(defaults | other))

    def count_rows(self) -> Ints:
        """Return the partitions to place of each topic: int64 (n)."""
        selected = np.diff(self.partition_id_offsets)
        return np.where(selected > 0, selected, np.maximum(self.partitions, 0))


@dataclass(frozen=True)
class TopicPlacements:
    """The replicas of n topics. A topic with an error has no rows."""

    row_offsets: Ints  # int64 (n + 1), the rows (partitions) of each topic, in the order requested
    replica_offsets: Ints  # int64 (rows + 1)
    broker: Ids  # int32 (flat), broker ids of each row's replicas, preferred leader first
    start_index: Ints | None  # int64 (n), drawn or fixed; None if the scheme has none
    # int64 (n), followers' shift of the first partition, drawn or fixed; None if the scheme has none
    shift: Ints | None
    error_code: Codes  # int8 (n), see `kafka_errors.ErrorCode`
    error_detail: Ints  # int64 (n), the value that the error is about, if any


class PlacementBuffers(NamedTuple):
    """Arrays that the AdminUtils kernels read draws from and write n topics' replicas to."""

    start_index: Ints  # int64 (n)
    shift: Ints  # int64 (n)
    begin: Ints  # int64 (n + 1), where each topic's replicas begin in `broker`
    broker: Ids  # int32 (flat), output
    error_code: Codes  # int8 (n), output: set where Java would throw while it places
    error_detail: Ints  # int64 (n), output


def compute_offsets(topics: Topics, error_code: Codes) -> tuple[Ints, Ints, Ints]:
    """Return (row_offsets, replica_offsets, begin of each topic's replicas) of the topics without an error."""
    valid = error_code == 0
    rows = np.where(valid, topics.count_rows(), 0)
    width = np.where(valid, topics.replication_factor, 0)
    row_offsets, begin = offsets_of(rows), offsets_of(rows * width)
    widths = width[rows > 0]
    if len(widths) and (widths == widths[0]).all():
        return row_offsets, np.arange(int(row_offsets[-1]) + 1) * widths[0], begin
    return row_offsets, offsets_of(np.repeat(width, rows)), begin
