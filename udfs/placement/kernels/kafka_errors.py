"""Why Kafka rejects to place a topic: a code per topic, and Kafka's own exception and words for it.

Source: org.apache.kafka.admin.AdminUtils (4.0) and StripedReplicaPlacer (4.1), which check in this order.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled
from udfs.placement.kernels.topic_arrays import NO_RACK, BrokerLists, Topics

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int8]

NONE = 0
PARTITIONS = 1
FACTOR = 2
TOO_FEW_BROKERS = 3
SOME_RACKS = 4
BROKER_INDEX = 5
STRIPED_PARTITIONS = 6
STRIPED_FACTOR = 7
STRIPED_FENCED = 8
STRIPED_TOO_FEW_BROKERS = 9

_FACTOR_CLASS = "InvalidReplicationFactorException"
_WORDS = {
    PARTITIONS: ("InvalidPartitionsException", "Number of partitions must be larger than 0."),
    FACTOR: (_FACTOR_CLASS, "Replication factor must be larger than 0."),
    TOO_FEW_BROKERS: (_FACTOR_CLASS, "Replication factor: {factor} larger than available brokers: {brokers}."),
    SOME_RACKS: ("AdminOperationException", "Not all brokers have rack information for replica rack aware assignment."),
    BROKER_INDEX: ("IndexOutOfBoundsException", "Index {detail} out of bounds for length {brokers}"),
    STRIPED_PARTITIONS: ("IllegalArgumentException", "Illegal Capacity: {partitions}"),
    STRIPED_FACTOR: (_FACTOR_CLASS, "Invalid replication factor {factor}: the replication factor must be positive."),
    STRIPED_FENCED: (_FACTOR_CLASS, "All brokers are currently fenced."),
    STRIPED_TOO_FEW_BROKERS: (
        _FACTOR_CLASS,
        "The target replication factor of {factor} cannot be reached because only {brokers} broker(s) are registered.",
    ),
}


def in_words(code: int, partitions: int, factor: int, brokers: int, detail: int = 0) -> tuple[str, str]:
    """(Kafka's exception class, its message) of a refusal."""
    name, text = _WORDS[code]
    return name, text.format(partitions=partitions, factor=factor, brokers=brokers, detail=detail)


NONE_KNOWN, ALL_KNOWN, SOME_KNOWN = 0, 1, 2


@compiled
def racks_known(offsets: Ints, rack: npt.NDArray[np.int32], out: npt.NDArray[np.int8]) -> None:
    """For each list (out: int8, m): whether no broker has a rack, or all have, or some."""
    for k in range(len(out)):
        size = offsets[k + 1] - offsets[k]
        known = 0
        for i in range(offsets[k], offsets[k + 1]):
            known += rack[i] != NO_RACK
        out[k] = NONE_KNOWN if known == 0 else (ALL_KNOWN if known == size else SOME_KNOWN)


def of_admin_utils(topics: Topics, lists: BrokerLists, mixed_racks: npt.NDArray[np.bool_]) -> Codes:
    """Refusals (n) of AdminUtils' checks. mixed_racks (m): lists of which some brokers have a rack and others none."""
    brokers = np.diff(lists.offsets)[topics.of_list]
    out = np.zeros(len(brokers), dtype=np.int8)
    out[mixed_racks[topics.of_list]] = SOME_RACKS
    out[topics.replication_factor > brokers] = TOO_FEW_BROKERS
    out[topics.replication_factor <= 0] = FACTOR
    out[topics.partitions <= 0] = PARTITIONS
    return out


def of_striped(topics: Topics, lists: BrokerLists) -> Codes:
    """Refusals (n) of StripedReplicaPlacer. No partitions at all is none: the answer is empty then."""
    brokers = np.diff(lists.offsets)[topics.of_list]
    unfenced = np.zeros(len(lists.offsets) - 1, dtype=np.int64)
    list_of = np.repeat(np.arange(len(unfenced)), np.diff(lists.offsets))
    np.add.at(unfenced, list_of, ~lists.fenced)
    out = np.zeros(len(brokers), dtype=np.int8)
    out[topics.partitions < 0] = STRIPED_PARTITIONS
    out[topics.replication_factor > brokers] = STRIPED_TOO_FEW_BROKERS
    out[unfenced[topics.of_list] == 0] = STRIPED_FENCED
    out[topics.replication_factor <= 0] = STRIPED_FACTOR
    return out
