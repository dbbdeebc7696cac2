"""Our kernels' answers to requests: a hash per topic, as Oracle.java takes it, and refusals in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tests.oracle.requests import Requests
from udfs.kernel_compiler import compiled
from udfs.placement.kernels import kafka_errors
from udfs.placement.kernels.java_random import scrambled
from udfs.placement.kernels.topic_arrays import BrokerLists, Placed, Topics

Place = Callable[[Topics, BrokerLists, npt.NDArray[np.int64]], Placed]

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(29)
_INT_MASK = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class Answers:
    """hashes: uint64 (topics), 0 where there is a text.   texts: of a topic, what was thrown as "Class: message"."""

    hashes: npt.NDArray[np.uint64]
    texts: dict[int, str]


def ours(requests: Requests, place: Place) -> Answers:
    """What `place` answers."""
    placed = place(requests.topics, requests.lists, scrambled(requests.seeds))
    hashes = np.zeros(len(placed.refusal), dtype=np.uint64)
    _hash(placed.row_offsets, placed.replica_offsets, placed.broker, requests.topics.first_partition, hashes)
    rejected = np.flatnonzero(placed.refusal)
    hashes[rejected] = 0
    return Answers(hashes, {i: _words(requests, placed, i) for i in rejected.tolist()})


def _words(requests: Requests, placed: Placed, topic: int) -> str:
    asked = requests.topics
    offsets = requests.lists.offsets
    brokers = np.diff(offsets[asked.of_list[topic] :][:2])[0]
    request = (asked.partitions[topic], asked.replication_factor[topic], brokers, placed.detail[topic])
    return ": ".join(kafka_errors.in_words(int(placed.refusal[topic]), *map(int, request)))


def replicas(requests: Requests, place: Place) -> list[list[list[int]]]:
    """The replica lists that `place` answers, of each topic; none of a rejected one."""
    placed = place(requests.topics, requests.lists, scrambled(requests.seeds))
    rows = [part.tolist() for part in np.split(placed.broker, placed.replica_offsets[1:-1])]
    return [rows[a:b] for a, b in zip(placed.row_offsets[:-1], placed.row_offsets[1:], strict=True)]


@compiled
def _added(value: np.uint64, number: int) -> np.uint64:
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
            value = _added(value, partition)
            value = _added(value, end - begin)
            for j in range(begin, end):
                value = _added(value, broker[j])
            partition += 1
        out[i] = value
