"""One pattern - a scheme over one list of brokers - held against all topics of a cluster."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from udfs.origin.kernels.rack_aware_fit import fit_growth, fit_rack_aware
from udfs.origin.kernels.round_robin_fit import UNKNOWN, Fits, Observed, fit_naive, fit_round_robin
from udfs.origin.kernels.striped_fit import fit_striped, fit_striped_growth
from udfs.placement.kernels.rack_aware_round_robin import alternate
from udfs.placement.kernels.topic_arrays import NO_RACK, Ids, Ints

KAFKA, RACK_AWARE, KRAFT, NAIVE = range(4)  # in the order of preference, where nothing else tells
SCHEMES = 4
_SURE_GROWTH = 2  # replicas of a growth that could have failed: fewer fit by chance

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Brokers:
    """The b brokers that a cluster's topics are judged over, by rising id.

    ids: int32 (b).   live: bool (b).   rack: int32 (b), place of the rack's name in Java's order, NO_RACK = not known.
    """

    ids: Ids
    live: Mask
    rack: Ids


@dataclass(frozen=True)
class Pattern:
    """How all n topics fit one scheme over one list of brokers.

    order: int32, broker indices in the order placed over; the striped scheme's by id.
    whole: bool (n), the pattern explains every partition.   sure: bool (n), and no growth too short to tell.
    shuffles: the striped scheme of 4.1 and later.
    """

    scheme: int
    order: Ids
    fits: Fits
    whole: Mask
    sure: Mask
    shuffles: bool = True

    @property
    def explained(self) -> int:
        """Topics that it explains and might not have explained."""
        return int((self.sure & (self.fits.evidence > 0)).sum())


def place_of(order: Ids, brokers: int) -> Ids:
    """Each broker's place in the order, int32 (brokers), -1 = not in it."""
    place = np.full(brokers, -1, dtype=np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    return place


def alternated(members: Ids, brokers: Brokers) -> tuple[Ids, Ids, int]:
    """(members in Kafka's rack-alternated order, the racks beside them from 0, number of racks)."""
    order, rack = np.empty_like(members), np.empty_like(members)
    racks = alternate(members, brokers.rack[members], order, rack)
    return order, rack, racks


def _room(size: int) -> Ints:
    return np.zeros(size, dtype=np.int64)


def grow(observed: Observed, topics: Ints, fits: Fits, order: Ids, sets: list[Ids], brokers: Brokers) -> Mask:
    """Continues fits (m) to Kafka's round robin by growths over any of these sets; bool (m), growths that are sure."""
    sure = np.ones(len(topics), dtype=np.bool_)
    first = np.where(fits.start >= 0, order[np.maximum(fits.start, 0)], -1).astype(np.int64)
    for members in sets:
        ways = [(members, np.zeros_like(members), 0)]
        if (brokers.rack[members] != NO_RACK).all():
            ways.append(alternated(members, brokers))
        for over, rack, racks in ways:
            open_ = np.flatnonzero((fits.until > observed.row_offsets[topics]) & ~_whole(observed, topics, fits))
            if len(open_) == 0:
                return sure
            part = Fits(*(values[open_] for values in fits.arrays))
            before = part.evidence.copy()
            place, room = place_of(over, len(brokers.ids)), _room(3 * len(over) + 1)
            given = (*observed.arrays, topics[open_], place, members, over, rack, racks, room, first[open_])
            fit_growth(*given, part.until, part.evidence, part.expanded_from_partition)
            for values, new in zip(fits.arrays, part.arrays, strict=True):
                values[open_] = new
            sure[open_] = (part.expanded_from_partition == UNKNOWN) | (part.evidence - before >= _SURE_GROWTH)
    return sure


def _whole(observed: Observed, topics: Ints, fits: Fits) -> Mask:
    begin, end = observed.row_offsets[topics], observed.row_offsets[topics + 1]
    whole: Mask = (fits.until == end) & (end > begin)
    return whole


def kafka_pattern(observed: Observed, topics: Ints, order: Ids, sets: list[Ids], brokers: Brokers) -> Pattern:
    """Kafka's round robin over an order, and growths of it over sets (by rising id) of brokers."""
    fits = Fits.none(len(topics))
    fit_round_robin(*observed.arrays, topics, place_of(order, len(brokers.ids)), len(order), *fits.arrays)
    sure = grow(observed, topics, fits, order, sets, brokers)
    whole = _whole(observed, topics, fits)
    return Pattern(KAFKA, order, fits, whole, whole & sure)


def rack_aware_pattern(observed: Observed, topics: Ints, members: Ids, sets: list[Ids], brokers: Brokers) -> Pattern:
    """Kafka's rack-aware round robin over these brokers (by rising id), all of whose racks are known."""
    order, rack, racks = alternated(members, brokers)
    fits, room = Fits.none(len(topics)), _room(3 * len(order) + 1)
    place = place_of(order, len(brokers.ids))
    fit_rack_aware(*observed.arrays, topics, place, order, rack, racks, room, *fits.arrays)
    sure = grow(observed, topics, fits, order, sets, brokers)
    whole = _whole(observed, topics, fits)
    return Pattern(RACK_AWARE, order, fits, whole, whole & sure)


def striped_pattern(observed: Observed, topics: Ints, members: Ids, brokers: Brokers, shuffles: bool) -> Pattern:
    """KRaft's placement over these brokers (by rising id); one without a known rack is taken to have none."""
    by_rack = members[np.argsort(brokers.rack[members], kind="stable")]
    _, begins, counts = np.unique(brokers.rack[by_rack], return_index=True, return_counts=True)
    rack_begin = np.append(begins, len(by_rack)).astype(np.int32)
    rack_of = np.full(len(brokers.ids), -1, dtype=np.int32)
    rack_of[by_rack] = np.repeat(np.arange(len(counts)), counts)
    spot = np.zeros(len(brokers.ids), dtype=np.int32)
    spot[by_rack] = np.arange(len(by_rack)) - np.repeat(begins, counts)

    fits, room = Fits.none(len(topics)), _room(5 * len(counts) + 2 + len(members) + len(brokers.ids))
    given = (*observed.arrays, topics, rack_of, spot, rack_begin, shuffles, room)
    fit_striped(*given, *fits.arrays)
    sure = np.ones(len(topics), dtype=np.int64)
    fit_striped_growth(*given, fits.until, fits.evidence, fits.expanded_from_partition, sure)
    whole = _whole(observed, topics, fits)
    return Pattern(KRAFT, members, fits, whole, whole & (sure == 1), shuffles)


def naive_pattern(observed: Observed, topics: Ints, members: Ids, brokers: Brokers) -> Pattern:
    """The naive placement over these brokers (by rising id)."""
    fits = Fits.none(len(topics))
    fit_naive(*observed.arrays, topics, place_of(members, len(brokers.ids)), len(members), *fits.arrays)
    whole = _whole(observed, topics, fits)
    return Pattern(NAIVE, members, fits, whole, whole)
