"""Patterns: one scheme over one list of brokers, compared with all topics of a cluster."""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.origin.kernels.rack_aware_fit import BrokerOrder, create_order, fit_expansions, fit_rack_aware
from udfs.origin.kernels.round_robin_fit import (
    UNKNOWN,
    ObservedTopics,
    PatternFits,
    create_fits,
    fit_naive,
    fit_round_robin,
)
from udfs.origin.kernels.striped_fit import RackPositions, create_draws, fit_striped, fit_striped_expansions
from udfs.placement.kernels.round_robin import alternate_racks
from udfs.placement.kernels.topic_arrays import NO_RACK, Ids, Ints

_MIN_EVIDENCE = 2  # replicas of an expansion that could be a mismatch: fewer fit by chance

Mask = npt.NDArray[np.bool_]


class Origin(IntEnum):
    """The scheme that placed a topic. Where nothing else decides, the first matching scheme is preferred."""

    UNKNOWN = -2  # no replicas are known
    MANUAL = -1  # no scheme explains the topic
    KAFKA = 0
    KAFKA_RACK_AWARE = 1
    KRAFT = 2
    NAIVE = 3


SCHEMES = tuple(origin for origin in Origin if origin >= 0)


class CandidateBrokers(NamedTuple):
    """The b brokers that a cluster's topics may have been placed over, by id."""

    ids: Ids  # int32 (b)
    live: Mask  # bool (b)
    rack: Ids  # int32 (b), rank of the rack's name in Java's order, NO_RACK = unknown
    cordoned: Mask  # bool (b), whether it gets no new replicas now; it may have when a topic was placed


class Pattern(NamedTuple):
    """How m topics fit one scheme over one list of brokers."""

    scheme: Origin  # The scheme
    order: Ids  # int32, broker indices in the order placed over; by id for the striped placement
    fits: PatternFits  # Fits (m)
    complete: Mask  # bool (m), whether the pattern explains every partition
    conclusive: Mask  # bool (m), whether it does so without an expansion that is too short to be conclusive
    shuffles: bool = True  # For the striped placement, whether it is that of Kafka 4.1 and later


def _find_positions(order: Ids, brokers: CandidateBrokers) -> Ids:
    """Return each broker's position in the order: int32 (b), -1 = not in it."""
    position = np.full(len(brokers.ids), -1, dtype=np.int32)
    position[order] = np.arange(len(order), dtype=np.int32)
    return position


def _alternate(members: Ids, brokers: CandidateBrokers) -> BrokerOrder:
    order, rack = np.empty_like(members), np.empty_like(members)
    racks = alternate_racks(members, brokers.rack[members], order, rack)
    return create_order(order, rack, racks)


def has_all_racks(members: Ids, brokers: CandidateBrokers) -> bool:
    """Return whether the racks of all these brokers are known."""
    return bool((brokers.rack[members] != NO_RACK).all())


def _find_complete(observed: ObservedTopics, topics: Ints, fits: PatternFits) -> Mask:
    begin, end = observed.row_offsets[topics], observed.row_offsets[topics + 1]
    complete: Mask = (fits.until == end) & (end > begin)
    return complete


def _add_expansions(
    observed: ObservedTopics,
    topics: Ints,
    fits: PatternFits,
    order: Ids,
    member_sets: Sequence[Ids],
    brokers: CandidateBrokers,
) -> Mask:
    """Continue fits by expansions over sets of brokers; return (bool, m) whether none of these is too short."""
    conclusive = np.ones(len(topics), dtype=np.bool_)
    first = np.where(fits.start >= 0, order[np.maximum(fits.start, 0)], -1).astype(np.int64)
    for members in member_sets:
        orders = [create_order(members)]
        if has_all_racks(members, brokers):
            orders.append(_alternate(members, brokers))
        for expansion_order in orders:
            started = fits.until > observed.row_offsets[topics]
            rows = np.flatnonzero(started & ~_find_complete(observed, topics, fits))
            if len(rows) == 0:
                return conclusive
            part = PatternFits(*(values[rows] for values in fits))
            before = part.evidence.copy()
            fit_expansions(observed, topics[rows], members, expansion_order, first[rows], part)
            for values, new in zip(fits, part, strict=True):
                values[rows] = new
            long_enough = part.evidence - before >= _MIN_EVIDENCE
            conclusive[rows] = (part.expanded_from_partition == UNKNOWN) | long_enough
    return conclusive


def match_kafka(
    observed: ObservedTopics, topics: Ints, order: Ids, member_sets: Sequence[Ids], brokers: CandidateBrokers
) -> Pattern:
    """Compare topics with Kafka's round robin over an order, and its expansions over sets of brokers (by id)."""
    fits = create_fits(len(topics))
    fit_round_robin(observed, topics, _find_positions(order, brokers), len(order), fits)
    conclusive = _add_expansions(observed, topics, fits, order, member_sets, brokers)
    complete = _find_complete(observed, topics, fits)
    return Pattern(Origin.KAFKA, order, fits, complete, complete & conclusive)


def match_rack_aware(
    observed: ObservedTopics, topics: Ints, members: Ids, member_sets: Sequence[Ids], brokers: CandidateBrokers
) -> Pattern:
    """Compare topics with Kafka's rack-aware round robin over brokers (by id) whose racks are all known."""
    order = _alternate(members, brokers)
    fits = create_fits(len(topics))
    fit_rack_aware(observed, topics, _find_positions(order.order, brokers), order, fits)
    conclusive = _add_expansions(observed, topics, fits, order.order, member_sets, brokers)
    complete = _find_complete(observed, topics, fits)
    return Pattern(Origin.KAFKA_RACK_AWARE, order.order, fits, complete, complete & conclusive)


def match_striped(
    observed: ObservedTopics, topics: Ints, members: Ids, brokers: CandidateBrokers, shuffles: bool
) -> Pattern:
    """Compare topics with KRaft's placement over brokers (by id); brokers of unknown rack count as without a rack."""
    by_rack = members[np.argsort(brokers.rack[members], kind="stable")]
    _, begin, counts = np.unique(brokers.rack[by_rack], return_index=True, return_counts=True)
    rack = np.full(len(brokers.ids), -1, dtype=np.int32)
    rack[by_rack] = np.repeat(np.arange(len(counts)), counts)
    position = np.zeros(len(brokers.ids), dtype=np.int32)
    position[by_rack] = np.arange(len(by_rack)) - np.repeat(begin, counts)
    racks = RackPositions(rack, position, np.append(begin, len(by_rack)).astype(np.int32))

    fits, draws = create_fits(len(topics)), create_draws(racks)
    fit_striped(observed, topics, racks, shuffles, draws, fits)
    conclusive = np.ones(len(topics), dtype=np.int64)
    fit_striped_expansions(observed, topics, racks, shuffles, draws, fits, conclusive)
    complete = _find_complete(observed, topics, fits)
    return Pattern(Origin.KRAFT, members, fits, complete, complete & (conclusive == 1), shuffles)


def match_naive(observed: ObservedTopics, topics: Ints, members: Ids, brokers: CandidateBrokers) -> Pattern:
    """Compare topics with the naive placement over brokers (by id)."""
    fits = create_fits(len(topics))
    fit_naive(observed, topics, _find_positions(members, brokers), len(members), fits)
    complete = _find_complete(observed, topics, fits)
    return Pattern(Origin.NAIVE, members, fits, complete, complete)
