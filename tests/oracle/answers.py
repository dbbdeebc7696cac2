"""Our kernels' answers to requests: a hash per topic, as Oracle.java computes it, and errors as text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tests.oracle.requests import OracleCases
from udfs.kernel_compiler import compiled
from udfs.placement.kernels.java_util import scramble_seeds
from udfs.placement.kernels.topic_arrays import BrokerLists, TopicPlacements, Topics, describe_error

PlaceFunction = Callable[[Topics, BrokerLists, npt.NDArray[np.int64]], TopicPlacements]

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(29)
_INT_MASK = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class Answers:
    """Answers to all topics.

    Attributes:
        hashes: uint64 (topics), 0 = error.
        errors: "Class: message" of the exception, by topic.
    """

    hashes: npt.NDArray[np.uint64]
    errors: dict[int, str]


def compute_answers(requests: OracleCases, place: PlaceFunction, *, cordons: bool = False) -> Answers:
    """Return the answers of our kernel. cordons: with the error texts since Kafka 4.3."""
    placed = place(requests.topics, requests.lists, scramble_seeds(requests.seeds))
    hashes = np.zeros(len(placed.error_code), dtype=np.uint64)
    _hash(placed.row_offsets, placed.replica_offsets, placed.broker, requests.topics.start_partition, hashes)
    rejected = np.flatnonzero(placed.error_code)
    hashes[rejected] = 0
    return Answers(hashes, {i: _describe(requests, placed, i, cordons) for i in rejected.tolist()})


def _describe(requests: OracleCases, placed: TopicPlacements, topic: int, cordons: bool) -> str:
    code, detail = int(placed.error_code[topic]), int(placed.error_detail[topic])
    error = describe_error(requests.topics, requests.lists, topic, code, detail, cordons=cordons)
    return f"{error.exception}: {error.message}"


def place_replicas(requests: OracleCases, place: PlaceFunction) -> list[list[list[int]]]:
    """Return the replica lists of each topic; none for an error."""
    placed = place(requests.topics, requests.lists, scramble_seeds(requests.seeds))
    rows = [part.tolist() for part in np.split(placed.broker, placed.replica_offsets[1:-1])]
    return [rows[a:b] for a, b in zip(placed.row_offsets[:-1], placed.row_offsets[1:], strict=True)]


@compiled
def _extend(value: np.uint64, number: int) -> np.uint64:
    value = (value ^ (np.uint64(number) & _INT_MASK)) * _MULTIPLIER
    return value ^ (value >> _HALF)


@compiled
def _hash(
    row_offsets: npt.NDArray[np.int64],
    replica_offsets: npt.NDArray[np.int64],
    broker: npt.NDArray[np.int32],
    first: npt.NDArray[np.int64],
    out: npt.NDArray[np.uint64],
) -> None:
    for i in range(len(out)):
        value = np.uint64(0)
        partition = max(0, first[i])
        for row in range(row_offsets[i], row_offsets[i + 1]):
            begin, end = replica_offsets[row], replica_offsets[row + 1]
            value = _extend(value, partition)
            value = _extend(value, end - begin)
            for j in range(begin, end):
                value = _extend(value, broker[j])
            partition += 1
        out[i] = value
