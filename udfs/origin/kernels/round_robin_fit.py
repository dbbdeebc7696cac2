"""Fit observed topics to Kafka's round robin, or to the naive scheme, over a known order of brokers.

Nothing is placed: a leader's position minus its partition id is the start index, and the distance of a follower from
its leader, minus its rank and the rounds so far, is the shift; both must be the same throughout a topic. Source:
udfs/placement/kernels/round_robin.py. Kernels take the topics (int64, m) and each broker's position (int32, -1 = none).
"""

from typing import NamedTuple

import numpy as np

from udfs.kernel_compiler import compiled, part
from udfs.placement.kernels.topic_arrays import Ids, Ints

UNKNOWN = -1


class ObservedTopics(NamedTuple):
    """The partitions of n topics with known replicas, by topic and partition id."""

    row_offsets: Ints  # int64 (n + 1), the rows of each topic
    partition: Ints  # int64 (rows), ids, ascending within a topic
    replica_offsets: Ints  # int64 (rows + 1)
    broker: Ids  # int32 (flat), index of each replica's broker; brokers are numbered from 0 by id


class PatternFits(NamedTuple):
    """How far m topics follow a pattern. All arrays are int64 (m)."""

    until: Ints  # First row that breaks the pattern; the end of the topic's rows = none does
    evidence: Ints  # Replicas before that row that could have broken it
    start: Ints  # Start index, UNKNOWN = the pattern has none, or it is not determined
    shift: Ints  # Shift, UNKNOWN likewise
    expanded_from_partition: Ints  # First partition of a later expansion, UNKNOWN = none


def create_fits(count: int) -> PatternFits:
    """Allocate the fits of `count` topics."""
    return PatternFits(*(np.full(count, value, dtype=np.int64) for value in (0, 0, UNKNOWN, UNKNOWN, UNKNOWN)))


@part
def get_width(observed: ObservedTopics, row: int) -> int:
    """Return the number of replicas in a row."""
    return int(observed.replica_offsets[row + 1] - observed.replica_offsets[row])


@part
def _fit_topic(observed: ObservedTopics, topic: int, position: Ids, n: int) -> tuple[int, int, int, int]:
    """Return (until, evidence, start, shift) of one topic."""
    lo, hi = observed.row_offsets[topic], observed.row_offsets[topic + 1]
    partition, broker = observed.partition, observed.broker
    start, shift, evidence = UNKNOWN, UNKNOWN, 0
    width = get_width(observed, lo) if hi > lo else 0
    if width == 0 or width > n:
        return lo, 0, start, shift
    for row in range(lo, hi):
        first = observed.replica_offsets[row]
        if get_width(observed, row) != width:
            return row, evidence, start, shift
        leader = position[broker[first]]
        if leader < 0:
            return row, evidence, start, shift
        value = (leader - partition[row]) % n
        if start == UNKNOWN:
            start = value
        elif value != start:
            return row, evidence, start, shift
        elif n > 1:
            evidence += 1
        if width == 1:
            continue
        rounds = partition[row] // n
        for rank in range(width - 1):
            follower = position[broker[first + 1 + rank]]
            if follower < 0 or follower == leader:
                return row, evidence, start, shift
            distance = follower - leader - 1
            if distance < 0:
                distance += n
            value = (distance - rank - rounds) % (n - 1)
            if shift == UNKNOWN:
                shift = value
            elif value != shift:
                return row, evidence, start, shift
            elif rank < n - 2:  # else only one broker is left
                evidence += 1
    return hi, evidence, start, shift


@compiled
def fit_round_robin(observed: ObservedTopics, topics: Ints, position: Ids, n: int, fits: PatternFits) -> None:
    """Fit topics to Kafka's round robin; n: brokers in the order."""
    for i in range(len(topics)):
        fits.until[i], fits.evidence[i], fits.start[i], fits.shift[i] = _fit_topic(observed, topics[i], position, n)


@compiled
def fit_naive(observed: ObservedTopics, topics: Ints, position: Ids, n: int, fits: PatternFits) -> None:
    """Fit topics to the naive scheme; n: brokers in the order."""
    for i in range(len(topics)):
        lo, hi = observed.row_offsets[topics[i]], observed.row_offsets[topics[i] + 1]
        width = get_width(observed, lo) if hi > lo else 0
        fits.until[i] = lo
        if width == 0 or width > n:
            continue
        fits.until[i] = hi
        for row in range(lo, hi):
            first = observed.replica_offsets[row]
            fits_row = get_width(observed, row) == width
            expected = observed.partition[row] % n
            for rank in range(width if fits_row else 0):
                fits_row = fits_row and position[observed.broker[first + rank]] == expected
                if fits_row and rank < n - 1:
                    fits.evidence[i] += 1
                expected = expected + 1 if expected + 1 < n else 0
            if not fits_row:
                fits.until[i] = row
                break
