"""What every placement kernel is given and gives back: topics, the broker lists they share, and replicas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from udfs.arrow.ragged import offsets_of
from udfs.placement.kernels.java_hash import rack_names

Ints = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]

NO_RACK = -1
DRAWN = -1  # a fixed start index below 0: none was given


@dataclass(frozen=True)
class BrokerLists:
    """m lists of brokers; list k is [offsets[k]:offsets[k + 1]] of the flat arrays. No id is twice in a list.

    ids: int32 (flat), in the order that Kafka is given.   offsets: int64 (m + 1).
    rack: int32 (flat), index into the rack names, NO_RACK = none.   fenced: bool (flat).
    rack_rank, rack_hash: int32 (rack names), each name's place in Java's order of them and its Java hash code.
    """

    ids: Ids
    offsets: Ints
    rack: Ids
    fenced: npt.NDArray[np.bool_]
    rack_rank: Ids
    rack_hash: Ids

    @staticmethod
    def of(
        ids: npt.NDArray[np.integer],
        offsets: Ints,
        racks: Sequence[str | None] | None = None,
        fenced: npt.NDArray[np.bool_] | None = None,
    ) -> BrokerLists:
        """Lists from ids (flat) and offsets (m + 1), with the racks' names and fences if there are any (flat)."""
        codes, rank, hashes = rack_names(racks or [])
        # Copied: for arrays that may not be written, numba would compile every kernel once more.
        return BrokerLists(
            np.array(ids, dtype=np.int32),
            np.array(offsets, dtype=np.int64),
            codes if racks else np.full(len(ids), NO_RACK, dtype=np.int32),
            np.zeros(len(ids), dtype=np.bool_) if fenced is None else np.array(fenced, dtype=np.bool_),
            rank,
            hashes,
        )


@dataclass(frozen=True)
class Topics:
    """Requests for n topics, good and bad. All arrays int64 (n) but for the last.

    partitions, replication_factor: as asked for.   of_list: index of the broker list.
    stream: the generator (index into the states) that the topic draws from; topics draw in their order.
    first_partition: id of the first partition, below 0 = 0.   fixed_start: Kafka's fixedStartIndex, DRAWN = none.
    listed (flat), listed_offsets (n + 1): just these partition ids of a topic are wanted; none = all of its partitions.
    """

    partitions: Ints
    replication_factor: Ints
    of_list: Ints
    stream: Ints
    first_partition: Ints
    fixed_start: Ints
    listed: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    listed_offsets: Ints | None = None

    @staticmethod
    def of(partitions: Ints, replication_factor: Ints, of_list: Ints, **more: Ints) -> Topics:
        """Requests with the usual rest: from partition 0 on, all drawn, each topic from its own generator."""
        n = len(partitions)
        usual = {
            "stream": np.arange(n, dtype=np.int64),
            "first_partition": np.zeros(n, dtype=np.int64),
            "fixed_start": np.full(n, DRAWN, dtype=np.int64),
        }
        return Topics(partitions, replication_factor, of_list, **(usual | more))

    def listed_bounds(self) -> Ints:
        """listed_offsets, all 0 where no topic lists any."""
        return (
            np.zeros(len(self.partitions) + 1, dtype=np.int64) if self.listed_offsets is None else self.listed_offsets
        )


@dataclass(frozen=True)
class Placed:
    """Replicas of n topics. A rejected topic has no rows.

    row_offsets: int64 (n + 1), the rows (partitions) of each topic, in the order asked for.
    replica_offsets: int64 (rows + 1); broker: int32 (flat), the ids of a row's replicas, preferred leader first.
    start_index, shift: int64 (n), as drawn or fixed, or None where the scheme has no such thing.
    refusal: int8 (n), see refusals.py; detail: int64 (n), the value that a refusal is about, if any.
    """

    row_offsets: Ints
    replica_offsets: Ints
    broker: Ids
    start_index: Ints | None
    shift: Ints | None
    refusal: npt.NDArray[np.int8]
    detail: Ints


def rows_of(topics: Topics, refusal: npt.NDArray[np.int8]) -> tuple[Ints, Ints, Ints]:
    """(row_offsets, replica_offsets, where each topic's replicas begin) of topics placed but for those rejected."""
    shown = np.diff(topics.listed_bounds())
    good = refusal == 0
    rows = np.where(good, np.where(shown > 0, shown, np.maximum(topics.partitions, 0)), 0)
    width = np.where(good, topics.replication_factor, 0)
    row_offsets, begins = offsets_of(rows), offsets_of(rows * width)
    placed = width[rows > 0]
    if len(placed) and (placed == placed[0]).all():
        return row_offsets, np.arange(int(row_offsets[-1]) + 1) * placed[0], begins
    return row_offsets, offsets_of(np.repeat(width, rows)), begins
