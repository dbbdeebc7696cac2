"""Which scheme could have produced each topic of a cluster, over which brokers in which order.

Patterns are tried over the brokers that live, that are known, that hold replicas, and over every order that enough
topics share; each topic is then given to the scheme that explains most of the cluster.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from udfs.origin.kernels.broker_orders import fit_some_order, proposals
from udfs.origin.kernels.round_robin_fit import UNKNOWN, Observed
from udfs.origin.kernels.scheme_patterns import (
    KAFKA,
    SCHEMES,
    Brokers,
    Mask,
    Pattern,
    kafka_pattern,
    naive_pattern,
    rack_aware_pattern,
    striped_pattern,
)
from udfs.origin.kernels.topic_growth import without_growth
from udfs.placement.kernels.topic_arrays import NO_RACK, Ids, Ints

NONE, NOT_JUDGED = -1, -2
_ORDERS = 8  # that a cluster is searched for beyond those by id
_MOST_BROKERS = 4096  # votes are a square of them
_CLEARLY_MORE = 5  # replicas that only the one of two schemes could have failed on
_ALL_SIZES = 32  # up to so many brokers, orders over any number of them are thought of


@dataclass(frozen=True)
class Origins:
    """The origin of each of n topics.

    scheme: int8 (n), of origin_patterns, NONE = no scheme explains it, NOT_JUDGED = none of its replicas are known.
    matching_schemes: bool (n, SCHEMES), schemes that explain it, also where that says little.
    pattern: int64 (n), index of the pattern that explains it; for NONE, of the leading scheme's that goes furthest.
    until: int64 (n), the first row that breaks it; the end of the topic's rows = none does.
    evidence: int64 (n), replicas before that which could have broken it.   start, shift, expanded_from_partition: see
    Fits.
    own_size: int64 (n), brokers in an order of its own that Kafka's pattern would need here; 0 = not needed, or none.
    """

    scheme: npt.NDArray[np.int8]
    matching_schemes: Mask
    pattern: Ints
    patterns: list[Pattern]
    until: Ints
    evidence: Ints
    start: Ints
    shift: Ints
    expanded_from_partition: Ints
    own_size: Ints


def _distinct(sets: list[Ids]) -> list[Ids]:
    found: dict[bytes, Ids] = {}
    for members in sets:
        if len(members):
            found.setdefault(members.tobytes(), members)
    return list(found.values())


def _base_sets(observed: Observed, brokers: Brokers) -> list[Ids]:
    """Live brokers, all known ones, those that hold replicas: int32, by rising id."""
    seen = np.zeros(len(brokers.ids), dtype=np.bool_)
    seen[observed.broker] = True
    everyone = np.ones(len(seen), dtype=np.bool_)
    masks = (brokers.live, everyone, seen, brokers.live & seen)
    return _distinct([np.flatnonzero(mask).astype(np.int32) for mask in masks])


def _score(pattern: Pattern, possible: Ints, n: int) -> int:
    """Replicas that could have failed and did not, of the topics that tell an order.

    possible: int64 (m), replicas of each topic that could fail. A topic with fewer than n of them fits one order in
    many by chance: such topics count only if the order explains half of those that there are.
    """
    evidence = np.where(pattern.sure, pattern.fits.evidence, 0)
    small = (possible < n) & (possible > 0)
    fitted = int((small & (evidence > 0)).sum())
    return int(evidence[~small].sum()) + (int(evidence[small].sum()) if 2 * fitted >= int(small.sum()) else 0)


def _possible(observed: Observed, topics: Ints) -> Ints:
    lo, hi = observed.row_offsets[topics], observed.row_offsets[topics + 1]
    cells = observed.replica_offsets[hi] - observed.replica_offsets[lo]
    return cells - 1 - (cells > hi - lo)  # less the first leader and the first follower: start index and shift


def find_orders(observed: Observed, judged: Ints, sets: list[Ids], brokers: Brokers) -> list[Pattern]:
    """Kafka's pattern over each order, not by id, that enough topics (int64) share; fits of these topics.

    Enough: replicas that could have failed are twice the brokers, that is, more than it takes to make up an order.
    The first search goes by all topics, the next by those that no order explains so far, by id included.
    """
    known = {members.tobytes() for members in sets}
    accepted: list[Pattern] = []
    open_ = np.ones(len(judged), dtype=np.bool_)
    possible = _possible(observed, judged)
    for round_ in range(_ORDERS):
        if len(brokers.ids) > _MOST_BROKERS or not open_.any():
            break
        best, best_score, tried = None, 0, set(known)
        shown, among = observed, judged[open_]
        if round_ > 0:  # a growth is by id, whatever the order before it
            for members in sets:
                shown, among = without_growth(shown, among, members), np.arange(int(open_.sum()))
        for order in proposals(shown, among, sets):
            if order.tobytes() in tried:
                continue
            tried.add(order.tobytes())
            pattern = kafka_pattern(observed, judged[open_], order, sets, brokers)
            score = _score(pattern, possible[open_], len(order))
            if score >= 2 * len(order) and score > best_score:
                best, best_score = order, score
        if best is not None:
            known.add(best.tobytes())
            accepted.append(kafka_pattern(observed, judged, best, sets, brokers))
            open_ &= ~accepted[-1].sure
        if round_ == 0:
            for members in sets:
                open_ &= ~kafka_pattern(observed, judged, members, sets, brokers).sure
        elif best is None:
            break
    return accepted


def _patterns(observed: Observed, judged: Ints, brokers: Brokers) -> list[Pattern]:
    base = _base_sets(observed, brokers)
    found = find_orders(observed, judged, base, brokers)
    sets = _distinct([*base, *(np.sort(pattern.order) for pattern in found)])
    for members in sets:
        found.append(kafka_pattern(observed, judged, members, base, brokers))
        if (brokers.rack[members] != NO_RACK).all():
            found.append(rack_aware_pattern(observed, judged, members, base, brokers))
        found += (striped_pattern(observed, judged, members, brokers, shuffles) for shuffles in (True, False))
        found.append(naive_pattern(observed, judged, members, brokers))
    return found


def _own_orders(observed: Observed, topics: Ints, patterns: list[Pattern], brokers: Brokers) -> Ints:
    """For each of these topics, the size of an order that Kafka could have placed it over, 0 = none."""
    everyone = len(brokers.ids)
    sizes = {len(p.order) for p in patterns} | {everyone}
    if everyone <= _ALL_SIZES:
        sizes |= set(range(2, everyone + 1))
    rising = np.array(sorted(size for size in sizes if size > 1), dtype=np.int64)
    out = np.zeros(len(topics), dtype=np.int64)
    if len(rising):
        room = (np.full(everyone, UNKNOWN, dtype=np.int64), np.full(int(rising[-1]), UNKNOWN, dtype=np.int64))
        fit_some_order(*observed.arrays, topics, rising, *room, out)
        for members in _base_sets(observed, brokers):
            left = np.flatnonzero(out == 0)
            part, found = without_growth(observed, topics[left], members), np.zeros(len(left), dtype=np.int64)
            fit_some_order(*part.arrays, np.arange(len(left)), rising, *room, found)
            out[left] = found
    return out


def _preference(explained: Ints, evidence: Ints) -> list[int]:
    """The schemes, that which explains most topics first; both arguments int64 (SCHEMES).

    Of two that explain as many, the later one goes first only if clearly more would have had to coincide: with a
    shift of 0 in every topic, say, KRaft's placement is likelier than Kafka's round robin.
    """
    order = sorted(range(SCHEMES), key=lambda scheme: (-explained[scheme], scheme))
    for i in range(1, SCHEMES):
        while i > 0 and explained[order[i - 1]] == explained[order[i]]:
            if evidence[order[i]] < evidence[order[i - 1]] + _CLEARLY_MORE:
                break
            order[i - 1], order[i] = order[i], order[i - 1]
            i -= 1
    return order


def find_origins(observed: Observed, brokers: Brokers) -> Origins:
    """The origin of every topic that is observed. Brokers of any replica must be among `brokers`."""
    n = len(observed.row_offsets) - 1
    judged = np.flatnonzero(np.diff(observed.row_offsets) > 0)
    patterns = _patterns(observed, judged, brokers) if len(judged) else []
    matching_schemes, sure = np.zeros((n, SCHEMES), dtype=np.bool_), np.zeros((n, SCHEMES), dtype=np.bool_)
    evidence = np.zeros((n, SCHEMES), dtype=np.int64)
    for pattern in patterns:
        scheme = pattern.scheme
        matching_schemes[judged, scheme] |= pattern.whole
        sure[judged, scheme] |= pattern.sure
        told = np.where(pattern.sure, pattern.fits.evidence, 0)
        evidence[judged, scheme] = np.maximum(evidence[judged, scheme], told)
    by_preference = _preference(sure.sum(axis=0), evidence.sum(axis=0))

    chosen = np.full(n, NOT_JUDGED, dtype=np.int8)
    chosen[judged] = NONE
    for scheme in by_preference[::-1]:
        chosen[sure[:, scheme]] = scheme

    out = Origins(
        scheme=chosen,
        matching_schemes=matching_schemes,
        pattern=np.full(n, UNKNOWN, dtype=np.int64),
        patterns=patterns,
        until=observed.row_offsets[:-1].copy(),
        evidence=np.zeros(n, dtype=np.int64),
        start=np.full(n, UNKNOWN, dtype=np.int64),
        shift=np.full(n, UNKNOWN, dtype=np.int64),
        expanded_from_partition=np.full(n, UNKNOWN, dtype=np.int64),
        own_size=np.zeros(n, dtype=np.int64),
    )
    # Of patterns that go equally far, the first of these stays.
    rank = {scheme: i for i, scheme in enumerate(by_preference)}
    for i in sorted(range(len(patterns)), key=lambda i: (rank[patterns[i].scheme], -patterns[i].explained, i)):
        _take_better(out, i, judged, by_preference[0])

    alone = np.flatnonzero((chosen != NOT_JUDGED) & ~matching_schemes[:, KAFKA])
    out.own_size[alone] = _own_orders(observed, alone, patterns, brokers)
    matching_schemes[:, KAFKA] |= out.own_size > 0
    return out


def _take_better(out: Origins, number: int, judged: Ints, leading: int) -> None:
    """Takes this pattern for the topics whose scheme it is, unless they have one.

    Those that no scheme explains are held against the leading scheme: there, the pattern that they follow furthest.
    """
    pattern = out.patterns[number]
    scheme = out.scheme[judged]
    fresh = out.pattern[judged] == UNKNOWN
    mine = (scheme == pattern.scheme) & pattern.sure & fresh
    none = (scheme == NONE) & (pattern.scheme == leading)
    take = mine | (none & (fresh | (pattern.fits.until > out.until[judged])))
    rows = judged[take]
    out.pattern[rows] = number
    mine_out = (out.until, out.evidence, out.start, out.shift, out.expanded_from_partition)
    for values, new in zip(mine_out, pattern.fits.arrays, strict=True):
        values[rows] = new[take]
