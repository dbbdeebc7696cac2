"""Why Kafka rejects a placement request: a code for each topic, and Kafka's own exception and message.

Source: org.apache.kafka.admin.AdminUtils (4.0) and StripedReplicaPlacer (4.1), with their order of checks.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from udfs.placement.kernels.topic_arrays import NO_RACK, BrokerLists, Codes, Topics


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


def describe_error(topics: Topics, lists: BrokerLists, topic: int, code: int, detail: int) -> KafkaError:
    """Return Kafka's exception for a topic (by index) with this error code and detail."""
    exception, message = _EXCEPTIONS[ErrorCode(code)]
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
