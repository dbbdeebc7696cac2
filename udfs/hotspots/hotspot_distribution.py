"""How hot the hottest broker gets over many seeds: one cluster's topics, by one scheme. The kernels do the counting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.ragged import offsets_of, take_segments
from udfs.hotspots.kernels import leader_counts
from udfs.hotspots.kernels.balls_in_bins import Fullest, fullest
from udfs.placement.kernels import kafka_errors
from udfs.placement.kernels.java_random import scrambled
from udfs.placement.kernels.rack_aware_round_robin import alternate
from udfs.placement.kernels.topic_arrays import NO_RACK, BrokerLists, Ints, Topics
from udfs.placement.kernels.topic_seeds import Words, run_words, seeds_of, topic_hashes
from udfs.placement.schemes import KAFKA, KAFKA_RACK_UNAWARE, KRAFT, NAIVE, SCHEMES
from udfs.placement.topic_batches import LiveBrokers, text_of

Flags = npt.NDArray[np.bool_]

_BLOCK = 1000  # seeds whose counts are held at once


@dataclass(frozen=True)
class Mix:
    """The topics of a cluster, as far as leaders are concerned.

    names: uint64 (t), of topic_hashes.   partitions, factor: int64 (t), as asked for.
    listed (flat), listed_offsets (t + 1): int64, just these partitions of a topic are wanted; none = all.
    """

    names: Words
    partitions: Ints
    factor: Ints
    listed: Ints
    listed_offsets: Ints

    def only(self, rows: Flags) -> Mix:
        """The topics that are marked (t)."""
        listed, offsets = take_segments(self.listed, self.listed_offsets, np.flatnonzero(rows))
        return Mix(self.names[rows], self.partitions[rows], self.factor[rows], listed.astype(np.int64), offsets)

    def shown(self) -> Ints:
        """The partitions wanted of each topic (t)."""
        listed = np.diff(self.listed_offsets)
        return np.where(listed > 0, listed, self.partitions)


def mix_of(cluster: str, topics: pa.Table) -> Mix:
    """Of a cluster's topics: topic, partitions, replication_factor, partition_loads as in silver.topics."""
    names, partitions, factor, loads = (
        topics[name].combine_chunks() for name in ("topic", "partitions", "replication_factor", "partition_loads")
    )
    ids = pc.struct_field(loads.flatten(), "partition")
    offsets = offsets_of(int64(pc.list_value_length(loads)))
    last = np.maximum.reduceat(np.append(int64(ids), -1), offsets[:-1]) if len(offsets) > 1 else offsets[:-1]
    asked = int64(partitions)
    # Listed are all partitions of a topic with loads: only where some are missing does it matter which.
    gaps = ~((np.diff(offsets) == asked) & (last == asked - 1))
    listed, kept = take_segments(int64(ids), offsets, np.flatnonzero(gaps))
    lengths = np.zeros(len(asked), dtype=np.int64)
    lengths[gaps] = np.diff(kept)
    hashes = names_of(pa.array([cluster] * len(asked), pa.string()), names.cast(pa.string()))
    return Mix(hashes.to_numpy().view(np.uint64), asked, int64(factor), listed.astype(np.int64), offsets_of(lengths))


def int64(values: pa.Array) -> Ints:
    """The values, 0 for null."""
    return np.asarray(pc.fill_null(values, pa.scalar(0, values.type)).to_numpy(zero_copy_only=False), dtype=np.int64)


def names_of(cluster: pa.Array, topic: pa.Array) -> pa.Array:
    """Body of a scalar Arrow UDF: `Mix.names` as int64, of topics (strings without nulls) of clusters."""
    return pa.array(topic_hashes(text_of(cluster), text_of(topic)).view(np.int64), pa.int64())


@dataclass(frozen=True)
class Counts:
    """int64 (seeds, brokers) each: the leaders and replicas of each broker, in the order of the brokers given."""

    leaders: Ints
    replicas: Ints


def _whole(mix: Mix, brokers: int) -> leader_counts.Arcs:
    return leader_counts.Arcs.of(mix.partitions, mix.listed, mix.listed_offsets, brokers)


def _round_robin(mix: Mix, order: Ints, runs: Words, draws: bool) -> Counts:
    """By the round robin over the brokers in this order (places in the list given)."""
    counts = _none(runs, order)
    arcs = _whole(mix, len(order))
    flat = (arcs.whole, arcs.offsets, arcs.begin, arcs.length, arcs.turn, mix.factor)
    leader_counts.count_round_robin(runs, mix.names, draws, *flat, counts.leaders, counts.replicas)
    return _in_order(counts, order)


def _none(runs: Words, order: Ints) -> Counts:
    shape = (len(runs), len(order))
    return Counts(np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64))


def _in_order(counts: Counts, order: Ints) -> Counts:
    """Counts of brokers in this order (places in the list given), in the order given."""
    back = np.argsort(order)
    return Counts(counts.leaders[:, back], counts.replicas[:, back])


def _count_unaware(mix: Mix, lists: BrokerLists, runs: Words) -> Counts:
    return _round_robin(mix, np.arange(len(lists.ids)), runs, draws=True)


def _count_kafka(mix: Mix, lists: BrokerLists, runs: Words) -> Counts:
    if lists.rack[0] == NO_RACK:
        return _count_unaware(mix, lists, runs)
    ids, rack = np.empty_like(lists.ids), np.empty_like(lists.rack)
    racks = alternate(lists.ids, lists.rack_rank[lists.rack], ids, rack)
    by_id = np.argsort(lists.ids)
    order = by_id[np.searchsorted(lists.ids[by_id], ids)]
    counts = _none(runs, order)
    for width in np.unique(mix.factor).tolist():
        part = mix.only(mix.factor == width)
        arcs = _whole(part, len(order))
        flat = (arcs.whole, arcs.offsets, arcs.begin, arcs.length, arcs.turn)
        leader_counts.count_rack_aware(runs, part.names, *flat, width, rack, racks, counts.leaders, counts.replicas)
    return _in_order(counts, order)


def _count_naive(mix: Mix, lists: BrokerLists, runs: Words) -> Counts:
    return _round_robin(mix, np.argsort(lists.ids), runs, draws=False)


def _count_kraft(mix: Mix, lists: BrokerLists, runs: Words) -> Counts:
    order = np.argsort(lists.ids)
    counts = _none(runs, order)
    places = np.argsort(order).astype(np.int32)  # by id, as the placement sorts them
    rank = np.append(lists.rack_rank, NO_RACK).astype(np.int32)[lists.rack]
    hashes = np.append(lists.rack_hash, 0).astype(np.int32)[lists.rack]
    short_cut = _short_cut(mix, lists)
    simple, other = mix.only(short_cut), mix.only(~short_cut)
    if len(simple.names):
        whole, rest = np.divmod(simple.partitions, len(order))
        flat = (runs, simple.names, whole, rest, simple.factor)
        leader_counts.count_striped_one_rack(*flat, counts.leaders, counts.replicas)
    if len(other.names):
        asked = (other.names, other.partitions, other.factor, other.listed, other.listed_offsets)
        leader_counts.count_striped(runs, *asked, places, rank, hashes, counts.leaders, counts.replicas)
    return _in_order(counts, order)


def _short_cut(mix: Mix, lists: BrokerLists) -> Flags:
    """The topics (t) that kraft need not place to count them: whole ones, all brokers being in one rack, or in none."""
    one_rack = len(np.unique(lists.rack)) == 1
    return np.asarray((np.diff(mix.listed_offsets) == 0) & one_rack, dtype=np.bool_)


def _cost(scheme: str, mix: Mix, lists: BrokerLists) -> int:
    """What a seed costs: arithmetic on so many topics (or replicas) and brokers."""
    n = len(lists.ids)
    if scheme == KRAFT:
        simple = _short_cut(mix, lists)
        shuffled = np.where(mix.partitions > n, mix.partitions, 1)
        return n + int(np.where(simple, shuffled, mix.partitions * mix.factor).sum())
    pairs = n * n if scheme == KAFKA and n and lists.rack[0] != NO_RACK else 0
    return n + len(mix.names) + len(mix.listed) + pairs


def _by_placing(scheme: str) -> Callable[[Mix, BrokerLists, Words], Counts]:
    """For a scheme without a way of counting: every seed is placed."""

    def count(mix: Mix, lists: BrokerLists, runs: Words) -> Counts:
        place = SCHEMES[scheme].place
        assert place is not None
        topics = _topics(mix)
        counts = _none(runs, lists.ids.astype(np.int64))
        by_id = np.argsort(lists.ids)
        for s, run in enumerate(runs):
            placed = place(topics, lists, scrambled(seeds_of(mix.names, run)))
            at = by_id[np.searchsorted(lists.ids[by_id], placed.broker)]
            counts.replicas[s] = np.bincount(at, minlength=len(by_id))
            counts.leaders[s] = np.bincount(at[placed.replica_offsets[:-1]], minlength=len(by_id))
        return counts

    return count


def _topics(mix: Mix) -> Topics:
    zero = np.zeros_like(mix.partitions)
    return Topics.of(mix.partitions, mix.factor, zero, listed=mix.listed, listed_offsets=mix.listed_offsets)


_COUNTERS = {KAFKA: _count_kafka, KAFKA_RACK_UNAWARE: _count_unaware, KRAFT: _count_kraft, NAIVE: _count_naive}


@dataclass(frozen=True)
class Trial:
    """A cluster's topics to be placed by one scheme over its live brokers, again and again.

    mix: the topics that can be placed.   rejected: how many cannot.   seeds: how many to try.
    """

    scheme: str
    brokers: LiveBrokers
    mix: Mix
    rejected: int
    seeds: int

    @staticmethod
    def of(scheme: str, mix: Mix, brokers: LiveBrokers, seeds: int, work: int) -> Trial:
        """seeds: how many to try; fewer where these would cost more than `work`, counted in topics (see _cost)."""
        lists = _lists(brokers)
        topics = _topics(mix)
        if scheme == KRAFT:
            refusal = kafka_errors.of_striped(topics, lists)
        else:
            known = np.empty(1, dtype=np.int8)
            kafka_errors.racks_known(lists.offsets, lists.rack, known)
            refusal = kafka_errors.of_admin_utils(topics, lists, (known == kafka_errors.SOME_KNOWN) & (scheme == KAFKA))
        good = mix.only(refusal == 0)
        cost = _cost(scheme, good, lists)
        tried = max(1, min(seeds, work // max(1, cost))) if SCHEMES[scheme].draws else 1
        return Trial(scheme, brokers, good, len(mix.names) - len(good.names), tried if good.shown().any() else 0)

    def counts(self, run_seed: int, first: int = 0, until: int | None = None) -> Counts:
        """The counts by seeds first to until - 1 (all): seed i places as a run with run.seed = run_seed + i does."""
        lists = _lists(self.brokers)
        runs = run_words(run_seed + first, (self.seeds if until is None else until) - first)
        if not len(runs):
            return _none(runs, lists.ids.astype(np.int64))
        return (_COUNTERS.get(self.scheme) or _by_placing(self.scheme))(self.mix, lists, runs)

    def hottest(self, run_seed: int, first: int = 0, until: int | None = None) -> Counts:
        """int64 (seeds) each: the leaders and the replicas of the broker that has most of them, by these seeds."""
        end = self.seeds if until is None else until
        blocks = [self.counts(run_seed, at, min(at + _BLOCK, end)) for at in range(first, end, _BLOCK)]
        none = np.empty(0, dtype=np.int64)
        return Counts(
            np.concatenate([none, *(block.leaders.max(axis=1) for block in blocks)]),
            np.concatenate([none, *(block.replicas.max(axis=1) for block in blocks)]),
        )

    @property
    def singles(self) -> int:
        """Topics of which one partition is wanted."""
        return int((self.mix.shown() == 1).sum())

    @property
    def partitions(self) -> int:
        """Partitions wanted of all topics."""
        return int(self.mix.shown().sum())

    @property
    def replicas(self) -> int:
        """Replicas of these."""
        return int((self.mix.shown() * self.mix.factor).sum())

    def expected_singles(self) -> Fullest:
        """The hottest broker's leaders of single-partition topics alone: each falls on some broker, whatever the rest.

        kraft draws a rack first, then a broker of it: those of a small rack are hit more.
        """
        sizes = np.array([len(self.brokers.ids)])
        if self.scheme == KRAFT and self.brokers.racks:
            sizes = np.unique(_lists(self.brokers).rack, return_counts=True)[1]
        sizes, racks = np.unique(sizes, return_counts=True)
        return fullest(self.singles, 1.0 / (racks.sum() * sizes), racks * sizes)

    def expected_blind(self) -> tuple[int, Fullest]:
        """(leaders that whole rounds give every broker, the fullest broker if the others each fell on any broker)."""
        arcs = _whole(self.mix, len(self.brokers.ids))
        n = len(self.brokers.ids)
        return int(arcs.whole.sum()), fullest(int(arcs.length.sum()), np.array([1.0 / n]), np.array([n]))


def _lists(brokers: LiveBrokers) -> BrokerLists:
    ids = np.asarray(brokers.ids, dtype=np.int32)
    return BrokerLists.of(ids, np.array([0, len(ids)]), brokers.racks)


@dataclass(frozen=True)
class HotspotDistribution:
    """What seeds say of the hottest broker (its leaders, or its replicas).

    hottest: int64 (seeds), of each seed, ascending.   mean: of all brokers, the same for every seed.
    """

    hottest: Ints
    mean: float

    @staticmethod
    def of(hottest: npt.ArrayLike, total: int, brokers: int) -> HotspotDistribution | None:
        """None if there is nothing on any broker. hottest: (seeds), in any order; total: on all brokers."""
        values = np.sort(np.asarray(hottest, dtype=np.int64))
        return HotspotDistribution(values, total / brokers) if len(values) and total else None

    def percentile(self, percent: float) -> int:
        """The least count that `percent` % of the seeds do not pass."""
        return int(self.hottest[max(0, int(np.ceil(len(self.hottest) * percent / 100.0)) - 1)])

    def above(self, ratio: float) -> float:
        """The share of seeds whose hottest broker has more than `ratio` times the mean."""
        return float((self.hottest > ratio * self.mean * (1.0 + 1e-12)).mean())

    def percent_up_to(self, ratio: float) -> float:
        """The seeds whose hottest broker has at most `ratio` times the mean, %."""
        return 100.0 * (1.0 - self.above(ratio))


def observed_max(leaders: Sequence[int]) -> tuple[int | None, float | None]:
    """(leaders of the hottest broker, that over the mean), of each live broker's leaders; None where none leads."""
    total = sum(leaders)
    return (max(leaders), max(leaders) * len(leaders) / total) if total else (None, None)
