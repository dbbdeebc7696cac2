"""Input and output of the placement kernels as flat arrays: broker lists, topics to place, replicas, Kafka's errors.

Source of errors: AdminUtils (4.0) and StripedReplicaPlacer (4.1), with their exceptions, messages and order of checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.arrow.ragged import offsets_of
from udfs.placement.kernels.java_util import index_rack_names

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


class ErrorCode(IntEnum):
    """The check of Kafka's that a request fails."""

    NONE = 0
    PARTITIONS = 1
    REPLICATION_FACTOR = 2
    TOO_FEW_BROKERS = 3
    MISSING_RACKS = 4
    INDEX_OUT_OF_BOUNDS = 5
    STRIPED_PARTITIONS = 6
    STRIPED_REPLICATION_FACTOR = 7
    STRIPED_ALL_FENCED = 8
    STRIPED_TOO_FEW_BROKERS = 9


@dataclass(frozen=True)
class KafkaError:
    """An exception of Kafka's: its class name and its message."""

    exception: str
    message: str


_FACTOR = "InvalidReplicationFactorException"
_EXCEPTIONS = {
    ErrorCode.PARTITIONS: ("InvalidPartitionsException", "Number of partitions must be larger than 0."),
    ErrorCode.REPLICATION_FACTOR: (_FACTOR, "Replication factor must be larger than 0."),
    ErrorCode.TOO_FEW_BROKERS: (_FACTOR, "Replication factor: {factor} larger than available brokers: {brokers}."),
    ErrorCode.MISSING_RACKS: (
        "AdminOperationException",
        "Not all brokers have rack information for replica rack aware assignment.",
    ),
    ErrorCode.INDEX_OUT_OF_BOUNDS: ("IndexOutOfBoundsException", "Index {detail} out of bounds for length {brokers}"),
    ErrorCode.STRIPED_PARTITIONS: ("IllegalArgumentException", "Illegal Capacity: {partitions}"),
    ErrorCode.STRIPED_REPLICATION_FACTOR: (
        _FACTOR,
        "Invalid replication factor {factor}: the replication factor must be positive.",
    ),
    ErrorCode.STRIPED_ALL_FENCED: (_FACTOR, "All brokers are currently fenced."),
    ErrorCode.STRIPED_TOO_FEW_BROKERS: (
        _FACTOR,
        "The target replication factor of {factor} cannot be reached because only {brokers} broker(s) are registered.",
    ),
}
# Texts of StripedReplicaPlacer since 4.3, the first one that can cordon log dirs.
_SINCE_CORDONS = {
    ErrorCode.STRIPED_ALL_FENCED: "All brokers are currently fenced, or have all their log directories cordoned.",
    ErrorCode.STRIPED_TOO_FEW_BROKERS: (
        "The target replication factor of {factor} cannot be reached because only {brokers} broker(s) are registered "
        "or some brokers have all their log directories cordoned."
    ),
}


def describe_error(
    topics: Topics, lists: BrokerLists, topic: int, code: int, detail: int, *, cordons: bool = False
) -> KafkaError:
    """Return Kafka's exception for a topic (by index) with this error code and detail. cordons: since Kafka 4.3."""
    exception, message = _EXCEPTIONS[ErrorCode(code)]
    message = _SINCE_CORDONS.get(ErrorCode(code), message) if cordons else message
    values = {
        "partitions": topics.partitions[topic],
        "factor": topics.replication_factor[topic],
        "brokers": lists.sizes[topics.broker_list[topic]],
    }
    return KafkaError(exception, message.format(**values, detail=detail))


def _count_in_lists(flags: npt.NDArray[np.bool_], lists: BrokerLists) -> npt.NDArray[np.int64]:
    """Count the brokers of each list (m) with a flag (flat)."""
    total: npt.NDArray[np.int64] = np.append(0, np.cumsum(flags))
    return np.diff(total[lists.offsets])


def check_admin_utils(topics: Topics, lists: BrokerLists, use_racks: bool) -> Codes:
    """Return the error codes (n) of AdminUtils' checks. use_racks: whether racks must be known for all or none."""
    with_rack = _count_in_lists(lists.rack != NO_RACK, lists)
    mixed = use_racks & (with_rack > 0) & (with_rack < lists.sizes)
    codes = np.zeros(len(topics.partitions), dtype=np.int8)
    codes[mixed[topics.broker_list]] = ErrorCode.MISSING_RACKS
    codes[topics.replication_factor > lists.sizes[topics.broker_list]] = ErrorCode.TOO_FEW_BROKERS
    codes[topics.replication_factor <= 0] = ErrorCode.REPLICATION_FACTOR
    codes[topics.partitions <= 0] = ErrorCode.PARTITIONS
    return codes


def check_striped(topics: Topics, lists: BrokerLists) -> Codes:
    """Return the error codes (n) of StripedReplicaPlacer's checks. A request for 0 partitions passes."""
    unfenced = _count_in_lists(~lists.fenced, lists)
    codes = np.zeros(len(topics.partitions), dtype=np.int8)
    codes[topics.partitions < 0] = ErrorCode.STRIPED_PARTITIONS
    codes[topics.replication_factor > lists.sizes[topics.broker_list]] = ErrorCode.STRIPED_TOO_FEW_BROKERS
    codes[unfenced[topics.broker_list] == 0] = ErrorCode.STRIPED_ALL_FENCED
    codes[topics.replication_factor <= 0] = ErrorCode.STRIPED_REPLICATION_FACTOR
    return codes
