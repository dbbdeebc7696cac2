"""Whether observed topics follow Kafka's round robin, or the naive one, over a given order of brokers.

Nothing is placed anew: a leader's place less its partition id is the start index, a follower's distance from its
leader, less its rank and the rounds so far, is the shift; both must be the same in every partition of a topic.
Source of the formulas: round_robin.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from udfs.kernel_compiler import compiled, part
from udfs.placement.kernels.topic_arrays import Ids, Ints

UNKNOWN = -1


@dataclass(frozen=True)
class Observed:
    """The partitions of n topics as they are seen; rows in the order of topic and partition id.

    row_offsets: int64 (n + 1), the rows of each topic.   partition: int64 (rows), ids, rising within a topic.
    replica_offsets: int64 (rows + 1).   broker: int32 (flat), index of each replica's broker, from 0, by rising id.
    """

    row_offsets: Ints
    partition: Ints
    replica_offsets: Ints
    broker: Ids

    @property
    def arrays(self) -> tuple[Ints, Ints, Ints, Ids]:
        return self.row_offsets, self.partition, self.replica_offsets, self.broker


@dataclass(frozen=True)
class Fits:
    """How far m topics follow a pattern. All arrays int64 (m).

    until: the first row that breaks it; the end of the topic's rows = none does.   evidence: how many of the replicas
    before that the pattern could have forbidden.   start, shift: as far as the pattern has them, UNKNOWN = not known.
    expanded_from_partition: the partition id that a later growth began with, UNKNOWN = none.
    """

    until: Ints
    evidence: Ints
    start: Ints
    shift: Ints
    expanded_from_partition: Ints

    @staticmethod
    def none(count: int) -> Fits:
        """Room for the fits of `count` topics."""
        return Fits(
            *(np.zeros(count, dtype=np.int64) for _ in range(2)),
            *(np.full(count, UNKNOWN, dtype=np.int64) for _ in range(3)),
        )

    @property
    def arrays(self) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        return self.until, self.evidence, self.start, self.shift, self.expanded_from_partition


@part
def _fit_topic(
    row_offsets: Ints, partition: Ints, replica_offsets: Ints, broker: Ids, topic: int, place: Ids, n: int
) -> tuple[int, int, int, int]:
    """(until, evidence, start, shift) of one topic. place: int32 (brokers), place in the order, -1 = not in it."""
    lo, hi = row_offsets[topic], row_offsets[topic + 1]
    start, shift, evidence = UNKNOWN, UNKNOWN, 0
    width = replica_offsets[lo + 1] - replica_offsets[lo] if hi > lo else 0
    if width == 0 or width > n:
        return lo, 0, start, shift
    for row in range(lo, hi):
        first = replica_offsets[row]
        if replica_offsets[row + 1] - first != width:
            return row, evidence, start, shift
        leader = place[broker[first]]
        if leader < 0:
            return row, evidence, start, shift
        found = (leader - partition[row]) % n
        if start == UNKNOWN:
            start = found
        elif found != start:
            return row, evidence, start, shift
        elif n > 1:
            evidence += 1
        if width == 1:
            continue
        rounds = partition[row] // n
        for rank in range(width - 1):
            follower = place[broker[first + 1 + rank]]
            if follower < 0 or follower == leader:
                return row, evidence, start, shift
            ahead = follower - leader - 1
            if ahead < 0:
                ahead += n
            found = (ahead - rank - rounds) % (n - 1)
            if shift == UNKNOWN:
                shift = found
            elif found != shift:
                return row, evidence, start, shift
            elif rank < n - 2:  # else only one broker is left
                evidence += 1
    return hi, evidence, start, shift


@compiled
def fit_round_robin(
    row_offsets: Ints,
    partition: Ints,
    replica_offsets: Ints,
    broker: Ids,
    topics: Ints,
    place: Ids,
    n: int,
    until: Ints,
    evidence: Ints,
    start: Ints,
    shift: Ints,
    expanded_from_partition: Ints,
) -> None:
    """Fits of these topics (int64, m) to Kafka's pattern over an order of n brokers."""
    for i in range(len(topics)):
        found = _fit_topic(row_offsets, partition, replica_offsets, broker, topics[i], place, n)
        until[i], evidence[i], start[i], shift[i] = found
        expanded_from_partition[i] = UNKNOWN


@compiled
def fit_naive(
    row_offsets: Ints,
    partition: Ints,
    replica_offsets: Ints,
    broker: Ids,
    topics: Ints,
    place: Ids,
    n: int,
    until: Ints,
    evidence: Ints,
    start: Ints,
    shift: Ints,
    expanded_from_partition: Ints,
) -> None:
    """Fits of these topics (int64, m) to the naive pattern over an order of n brokers."""
    for i in range(len(topics)):
        lo, hi = row_offsets[topics[i]], row_offsets[topics[i] + 1]
        width = replica_offsets[lo + 1] - replica_offsets[lo] if hi > lo else 0
        until[i], evidence[i], start[i], shift[i], expanded_from_partition[i] = lo, 0, UNKNOWN, UNKNOWN, UNKNOWN
        if width == 0 or width > n:
            continue
        until[i] = hi
        for row in range(lo, hi):
            first = replica_offsets[row]
            good = replica_offsets[row + 1] - first == width
            expected = partition[row] % n
            for rank in range(width if good else 0):
                good = good and place[broker[first + rank]] == expected
                if good and rank < n - 1:
                    evidence[i] += 1
                expected = expected + 1 if expected + 1 < n else 0
            if not good:
                until[i] = row
                break
