"""Find the scheme that could have placed each topic of a cluster, and the broker order that it was placed over.

Patterns are tried over base sets of brokers, and over every order that enough topics share. Each topic is then
attributed to the scheme that explains most of the cluster.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.origin.kernels import scheme_patterns
from udfs.origin.kernels.broker_orders import fit_any_order, propose_orders
from udfs.origin.kernels.rack_aware_fit import remove_expansions
from udfs.origin.kernels.round_robin_fit import UNKNOWN, ObservedTopics, PatternFits
from udfs.origin.kernels.scheme_patterns import SCHEMES, CandidateBrokers, Mask, Origin, Pattern
from udfs.placement.kernels.topic_arrays import Ids, Ints

_MAX_ORDERS = 8  # orders searched for in a cluster, beyond those by id
_MAX_BROKERS = 4096  # the votes are a square matrix of them
_CLEARLY_MORE = 5  # replicas that only one of two schemes could have failed to explain
_MAX_BROKERS_ALL_SIZES = 32  # up to so many brokers, orders over any number of them are tried


class TopicOrigins(NamedTuple):
    """The origin of each of n topics."""

    origin: npt.NDArray[np.int8]  # int8 (n), of Origin
    matching_schemes: Mask  # bool (n, schemes), schemes that explain the topic, conclusive or not
    patterns: list[Pattern]  # All patterns tried
    pattern: Ints  # int64 (n), that explains the topic, or of the leading scheme fits furthest; UNKNOWN = no replicas
    fits: PatternFits  # Fits (n) to this pattern
    own_order_size: Ints  # int64 (n), brokers in an order of its own by which Kafka could have placed it; 0 = none


def _remove_repeated(member_sets: list[Ids]) -> list[Ids]:
    return list({members.tobytes(): members for members in member_sets if len(members)}.values())


def _find_base_sets(observed: ObservedTopics, brokers: CandidateBrokers) -> list[Ids]:
    """Return the live brokers, all known ones, those with replicas, and those not cordoned: int32, by id.

    A cordon may be newer than a topic: an exact match decides.
    """
    with_replicas = np.zeros(len(brokers.ids), dtype=np.bool_)
    with_replicas[observed.broker] = True
    live, uncordoned = brokers.live, brokers.live & ~brokers.cordoned
    masks = (live, np.ones_like(with_replicas), with_replicas, live & with_replicas, uncordoned)
    return _remove_repeated([np.flatnonzero(mask).astype(np.int32) for mask in masks])


def _score_order(pattern: Pattern, possible: Ints, n: int) -> int:
    """Return how many replicas could have broken an order; topics with few of these count if half are explained."""
    evidence = np.where(pattern.conclusive, pattern.fits.evidence, 0)
    small = (possible < n) & (possible > 0)
    explained = int((small & (evidence > 0)).sum())
    return int(evidence[~small].sum()) + (int(evidence[small].sum()) if 2 * explained >= int(small.sum()) else 0)


def _count_possible_evidence(observed: ObservedTopics, topics: Ints) -> Ints:
    lo, hi = observed.row_offsets[topics], observed.row_offsets[topics + 1]
    replicas = observed.replica_offsets[hi] - observed.replica_offsets[lo]
    return replicas - 1 - (replicas > hi - lo)  # the first leader and follower determine start index and shift


def _find_orders(
    observed: ObservedTopics, topics: Ints, base_sets: list[Ids], brokers: CandidateBrokers
) -> list[Pattern]:
    """Find orders, other than by id, that enough topics share; return Kafka's round robin over each.

    An order needs twice as much evidence as it has brokers. Later searches use the topics that no order explains so
    far.
    """
    known = {members.tobytes() for members in base_sets}
    accepted: list[Pattern] = []
    unexplained = np.ones(len(topics), dtype=np.bool_)
    possible = _count_possible_evidence(observed, topics)
    for search in range(_MAX_ORDERS):
        if len(brokers.ids) > _MAX_BROKERS or not unexplained.any():
            break
        best, best_score, tried = None, 0, set(known)
        voters, among = observed, topics[unexplained]
        if search > 0:  # an expansion is by id, whatever the order before it
            for members in base_sets:
                voters, among = remove_expansions(voters, among, members), np.arange(int(unexplained.sum()))
        for order in propose_orders(voters, among, base_sets):
            if order.tobytes() in tried:
                continue
            tried.add(order.tobytes())
            pattern = scheme_patterns.match_kafka(observed, topics[unexplained], order, base_sets, brokers)
            score = _score_order(pattern, possible[unexplained], len(order))
            if score >= 2 * len(order) and score > best_score:
                best, best_score = order, score
        if best is not None:
            known.add(best.tobytes())
            accepted.append(scheme_patterns.match_kafka(observed, topics, best, base_sets, brokers))
            unexplained &= ~accepted[-1].conclusive
        if search == 0:
            for members in base_sets:
                unexplained &= ~scheme_patterns.match_kafka(observed, topics, members, base_sets, brokers).conclusive
        elif best is None:
            break
    return accepted


def _match_patterns(observed: ObservedTopics, topics: Ints, brokers: CandidateBrokers) -> list[Pattern]:
    base_sets = _find_base_sets(observed, brokers)
    patterns = _find_orders(observed, topics, base_sets, brokers)
    for members in _remove_repeated([*base_sets, *(np.sort(pattern.order) for pattern in patterns)]):
        patterns.append(scheme_patterns.match_kafka(observed, topics, members, base_sets, brokers))
        if scheme_patterns.has_all_racks(members, brokers):
            patterns.append(scheme_patterns.match_rack_aware(observed, topics, members, base_sets, brokers))
        patterns += (
            scheme_patterns.match_striped(observed, topics, members, brokers, shuffles) for shuffles in (True, False)
        )
        patterns.append(scheme_patterns.match_naive(observed, topics, members, brokers))
    return patterns


def _find_own_orders(
    observed: ObservedTopics, topics: Ints, patterns: list[Pattern], brokers: CandidateBrokers
) -> Ints:
    """Return the size of an order over which Kafka could have placed each topic: int64 (m), 0 = none."""
    count = len(brokers.ids)
    sizes = {len(pattern.order) for pattern in patterns} | {count}
    if count <= _MAX_BROKERS_ALL_SIZES:
        sizes |= set(range(2, count + 1))
    ascending = np.array(sorted(size for size in sizes if size > 1), dtype=np.int64)
    out = np.zeros(len(topics), dtype=np.int64)
    if len(ascending):
        position = np.full(count, UNKNOWN, dtype=np.int64)
        broker_at = np.full(int(ascending[-1]), UNKNOWN, dtype=np.int64)
        fit_any_order(observed, topics, ascending, position, broker_at, out)
        for members in _find_base_sets(observed, brokers):
            rows = np.flatnonzero(out == 0)
            rest, size = remove_expansions(observed, topics[rows], members), np.zeros(len(rows), dtype=np.int64)
            fit_any_order(rest, np.arange(len(rows)), ascending, position, broker_at, size)
            out[rows] = size
    return out


def _rank_schemes(explained: Ints, evidence: Ints) -> list[int]:
    """Return the schemes, the one that explains most topics first; arguments: int64 (schemes).

    Of equal ones, the later comes first only with clearly more evidence: with shifts of 0, KRaft is likelier than
    Kafka.
    """
    order = sorted(SCHEMES, key=lambda scheme: (-explained[scheme], scheme))
    for i in range(1, len(order)):
        while i > 0 and explained[order[i - 1]] == explained[order[i]]:
            if evidence[order[i]] < evidence[order[i - 1]] + _CLEARLY_MORE:
                break
            order[i - 1], order[i] = order[i], order[i - 1]
            i -= 1
    return [int(scheme) for scheme in order]


def find_origins(observed: ObservedTopics, brokers: CandidateBrokers) -> TopicOrigins:
    """Find the origin of every observed topic. `brokers` must include the brokers of all replicas."""
    n = len(observed.row_offsets) - 1
    topics = np.flatnonzero(np.diff(observed.row_offsets) > 0)
    patterns = _match_patterns(observed, topics, brokers) if len(topics) else []
    matching, conclusive = np.zeros((n, len(SCHEMES)), dtype=np.bool_), np.zeros((n, len(SCHEMES)), dtype=np.bool_)
    evidence = np.zeros((n, len(SCHEMES)), dtype=np.int64)
    for pattern in patterns:
        scheme = pattern.scheme
        matching[topics, scheme] |= pattern.complete
        conclusive[topics, scheme] |= pattern.conclusive
        of_pattern = np.where(pattern.conclusive, pattern.fits.evidence, 0)
        evidence[topics, scheme] = np.maximum(evidence[topics, scheme], of_pattern)
    ranked = _rank_schemes(conclusive.sum(axis=0), evidence.sum(axis=0))

    origin = np.full(n, Origin.UNKNOWN, dtype=np.int8)
    origin[topics] = Origin.MANUAL
    for scheme_number in reversed(ranked):
        origin[conclusive[:, scheme_number]] = scheme_number

    unknown = (np.full(n, UNKNOWN, dtype=np.int64) for _ in range(3))
    fits = PatternFits(observed.row_offsets[:-1].copy(), np.zeros(n, dtype=np.int64), *unknown)
    pattern_index, own_order_size = np.full(n, UNKNOWN, dtype=np.int64), np.zeros(n, dtype=np.int64)
    origins = TopicOrigins(origin, matching, patterns, pattern_index, fits, own_order_size)
    # Of patterns that fit equally far, the first in this order is kept.
    rank = {scheme: i for i, scheme in enumerate(ranked)}
    explained = [int((pattern.conclusive & (pattern.fits.evidence > 0)).sum()) for pattern in patterns]
    for i in sorted(range(len(patterns)), key=lambda i: (rank[patterns[i].scheme], -explained[i], i)):
        _assign_pattern(origins, i, topics, ranked[0])

    without_kafka = np.flatnonzero((origin != Origin.UNKNOWN) & ~matching[:, Origin.KAFKA])
    own_order_size[without_kafka] = _find_own_orders(observed, without_kafka, patterns, brokers)
    matching[:, Origin.KAFKA] |= own_order_size > 0
    return origins


def _assign_pattern(origins: TopicOrigins, number: int, topics: Ints, leading_scheme: int) -> None:
    """Assign a pattern to its topics that have none, and to manual ones that follow the leading scheme."""
    pattern = origins.patterns[number]
    origin = origins.origin[topics]
    unassigned = origins.pattern[topics] == UNKNOWN
    explains = (origin == pattern.scheme) & pattern.conclusive & unassigned
    is_manual = (origin == Origin.MANUAL) & (pattern.scheme == leading_scheme)
    take = explains | (is_manual & (unassigned | (pattern.fits.until > origins.fits.until[topics])))
    rows = topics[take]
    origins.pattern[rows] = number
    for values, new in zip(origins.fits, pattern.fits, strict=True):
        values[rows] = new[take]
