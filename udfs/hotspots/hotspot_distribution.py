"""How many leaders the hottest broker has over many seeds: one cluster's topics, placed by one scheme."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.arrow.columns import DOUBLE, LONG, column
from udfs.hotspots.kernels.balls_in_bins import FullestBin, find_fullest_bin
from udfs.hotspots.kernels.leader_counts import ClusterTopics, SeedCounts, find_arcs
from udfs.hotspots.leaders_by_seed import count_replicas, estimate_cost, find_errors
from udfs.placement.kernels.topic_arrays import BrokerLists, Ints
from udfs.placement.kernels.topic_seeds import mix_run_seeds
from udfs.placement.schemes import KRAFT, SCHEMES
from udfs.placement.topic_placement import LiveBrokers, create_broker_lists

_SEEDS_AT_ONCE = 1000
_PERCENTILES = {"p5": 5, "p50": 50, "p95": 95, "p99": 99, "highest": 100}
_EXCEEDANCE = pa.struct([("above_ratio", DOUBLE), ("probability", DOUBLE)])


def _percentile_columns(counted: str, *names: str) -> tuple[pa.Field, ...]:
    meaning = {name: f"at most this in {percent} % of the seeds" for name, percent in _PERCENTILES.items()}
    meaning["highest"] = "the highest of all seeds"
    comment = f"{counted} of the hottest broker over the mean: "
    return tuple(column(f"{counted}_max_over_mean_{name}_ratio", DOUBLE, comment + meaning[name]) for name in names)


# Columns of gold.hotspot_distribution after its keys.
DISTRIBUTION_COLUMNS: tuple[pa.Field, ...] = (
    column(
        "seeds",
        LONG,
        "seeds tried, from run.seed; fewer than hotspots.seeds if these would exceed hotspots.max_placed_topics; "
        "1 = the scheme is not random; 0 = no topic can be placed, and columns that depend on seeds are null",
        required=True,
    ),
    column("brokers", LONG, "live brokers, without cordoned ones that are empty", required=True),
    column("unplaceable_topics", LONG, "topics that the scheme cannot place; not counted", required=True),
    column("partitions", LONG, "partitions placed", required=True),
    column("single_partition_topics", LONG, "topics with one partition", required=True),
    column("leaders_mean", DOUBLE, "leaders per live broker"),
    *_percentile_columns("leaders", *_PERCENTILES),
    *_percentile_columns("replicas", "p50", "p95", "highest"),
    column(
        "exceedance_probabilities",
        pa.list_(_EXCEEDANCE),
        "fraction of the seeds (0 to 1) with leaders max/mean above each of hotspots.thresholds",
    ),
    column("observed_leaders_max", LONG, "leaders of the hottest live broker now; null = no live broker leads"),
    column("observed_max_over_mean_ratio", DOUBLE, "that number over the mean of the live brokers"),
    column("observed_percent", DOUBLE, "seeds whose max/mean is at most the observed one, %"),
    column(
        "single_partition_leaders_max_expected",
        DOUBLE,
        "expected leaders of the hottest broker, of single-partition topics alone (balls into bins)",
    ),
    column("single_partition_max_over_mean_expected_ratio", DOUBLE, "that number over their mean"),
    column(
        "random_leaders_max_expected",
        DOUBLE,
        "expected leaders of the hottest broker if whole rounds stay even and every other partition falls on a random "
        "broker, independently of its topic (balls into bins)",
    ),
    column("random_max_over_mean_expected_ratio", DOUBLE, "that number over leaders_mean"),
)


class TrialOptions(NamedTuple):
    """What to try."""

    schemes: Sequence[str]  # Computed schemes
    run_seed: int  # The first seed
    seeds: int  # Number of seeds
    max_placed_topics: int  # Limit of seeds times the cost of a seed, see `estimate_cost`
    thresholds: Sequence[float] = ()  # Ratios of max/mean whose exceedance probability is of interest
    chunks: int = 1  # Number of parts that the seeds are divided into, for parallel work


@dataclass(frozen=True)
class TrialFacts:
    """What is known of a trial apart from its seeds. Expected values are None if no topic can be placed."""

    brokers: int
    unplaceable_topics: int
    partitions: int
    replica_count: int
    single_partition_topics: int
    observed_leaders_max: int | None
    observed_max_over_mean_ratio: float | None
    single_partition_leaders_max_expected: float | None
    single_partition_leaders_max_p95: int | None
    random_leaders_max_expected: float | None
    random_leaders_max_p95: int | None


@dataclass(frozen=True)
class PlacementTrial:
    """A cluster's topics, placed by one scheme over its live brokers with many seeds."""

    scheme: str  # A computed one
    brokers: LiveBrokers
    topics: ClusterTopics  # Those that can be placed
    unplaceable_topics: int  # Number of those that cannot
    seeds: int  # Number of seeds to try

    @classmethod
    def create(
        cls, scheme: str, topics: ClusterTopics, brokers: LiveBrokers, seeds: int, max_placed_topics: int
    ) -> PlacementTrial:
        """Prepare a trial of so many seeds, or of fewer if these would exceed `max_placed_topics`."""
        lists = create_broker_lists(brokers.select_usable(scheme))
        placeable = topics.select(find_errors(scheme, topics, lists) == 0)
        affordable = max(1, max_placed_topics // max(1, estimate_cost(scheme, placeable, lists)))
        seeds = min(seeds, affordable) if SCHEMES[scheme].is_random else 1
        rejected = len(topics.name_hash) - len(placeable.name_hash)
        return cls(scheme, brokers, placeable, rejected, seeds if placeable.count_rows().any() else 0)

    def count(self, run_seed: int, first: int = 0, until: int | None = None) -> SeedCounts:
        """Count by seeds first to until - 1; seed i places what a run with run.seed = run_seed + i does."""
        run_words = mix_run_seeds(run_seed + first, (self.seeds if until is None else until) - first)
        return count_replicas(self.scheme, self.topics, self.usable, run_words)

    def find_hottest(self, run_seed: int, first: int = 0, until: int | None = None) -> tuple[Ints, Ints]:
        """Return (leaders, replicas) of the broker with most of them, by seed: int64 (seeds)."""
        end = self.seeds if until is None else until
        hottest = [np.empty((2, 0), dtype=np.int64)]
        for start in range(first, end, _SEEDS_AT_ONCE):
            counts = self.count(run_seed, start, min(start + _SEEDS_AT_ONCE, end))
            hottest.append(np.array([counts.leaders.max(axis=1), counts.replicas.max(axis=1)]))
        leaders, replicas = np.concatenate(hottest, axis=1)
        return leaders, replicas

    @cached_property
    def usable(self) -> BrokerLists:
        """A single list of the brokers that the scheme places over."""
        return create_broker_lists(self.brokers.select_usable(self.scheme))

    @cached_property
    def single_partition_topics(self) -> int:
        """Topics of which one partition is placed."""
        return int((self.topics.count_rows() == 1).sum())

    @property
    def partitions(self) -> int:
        """Partitions placed."""
        return int(self.topics.count_rows().sum())

    def expect_single_partition_leaders(self) -> FullestBin:
        """Return the distribution of the hottest broker's leaders of single-partition topics alone."""
        sizes = self.usable.sizes
        if self.scheme == KRAFT and self.brokers.racks:
            sizes = np.unique(self.usable.rack, return_counts=True)[1]
        sizes, racks = np.unique(sizes, return_counts=True)
        return find_fullest_bin(self.single_partition_topics, 1.0 / (racks.sum() * sizes), racks * sizes)

    def expect_random_leaders(self) -> tuple[int, FullestBin]:
        """Return (leaders of whole rounds on every broker, the hottest broker's others, each falling on any broker)."""
        n = len(self.usable.ids)
        arcs = find_arcs(self.topics, n)
        return int(arcs.whole.sum()), find_fullest_bin(int(arcs.length.sum()), np.array([1.0 / n]), np.array([n]))

    def find_facts(self, leaders: Sequence[int]) -> TrialFacts:
        """Return what is known apart from seeds; leaders: of each live broker now."""
        n, total, most = len(self.brokers.ids), sum(leaders), max(leaders, default=0)
        replicas = int((self.topics.count_rows() * self.topics.replication_factor).sum())
        counts = (n, self.unplaceable_topics, self.partitions, replicas, self.single_partition_topics)
        observed: tuple[int | None, float | None] = (most, most * n / total) if total else (None, None)
        single: tuple[float | None, int | None] = (None, None)
        random: tuple[float | None, int | None] = (None, None)
        if self.seeds:
            rounds, others = self.expect_random_leaders()
            random = (rounds + others.mean, rounds + others.percentile(95))
            if self.single_partition_topics:
                bins = self.expect_single_partition_leaders()
                single = (bins.mean, bins.percentile(95))
        return TrialFacts(*counts, *observed, *single, *random)


@dataclass(frozen=True)
class HotspotDistribution:
    """Leaders, or replicas, of the hottest broker over seeds."""

    hottest: Ints  # int64 (seeds), ascending
    mean: float  # Mean of all brokers, the same for every seed

    @classmethod
    def create(cls, hottest: npt.ArrayLike, total: int, brokers: int) -> HotspotDistribution | None:
        """Build the distribution of `hottest` (seeds) with `total` on all brokers; None if that is nothing."""
        values = np.sort(np.asarray(hottest, dtype=np.int64))
        return cls(values, total / brokers) if len(values) and total else None

    def percentile(self, percent: float) -> int:
        """Return the smallest count that at least `percent` % of the seeds do not exceed."""
        return int(self.hottest[max(0, int(np.ceil(len(self.hottest) * percent / 100.0)) - 1)])

    def exceedance_probability(self, ratio: float) -> float:
        """Return the share of seeds whose hottest broker has more than `ratio` times the mean."""
        return float((self.hottest > ratio * self.mean * (1.0 + 1e-12)).mean())


@dataclass(frozen=True)
class SchemeHotspots:
    """The hottest broker by one scheme over many seeds; distributions are None if no topic can be placed."""

    facts: TrialFacts
    seeds: int
    leaders: HotspotDistribution | None
    replicas: HotspotDistribution | None
    thresholds: Sequence[float]

    @classmethod
    def create(
        cls, facts: TrialFacts, leaders: npt.ArrayLike, replicas: npt.ArrayLike, thresholds: Sequence[float]
    ) -> SchemeHotspots:
        """Build it from the hottest broker's leaders and replicas by seed, of all seeds."""
        by_leaders = HotspotDistribution.create(leaders, facts.partitions, facts.brokers)
        by_replicas = HotspotDistribution.create(replicas, facts.replica_count, facts.brokers)
        return cls(facts, len(np.asarray(leaders)), by_leaders, by_replicas, thresholds)

    def to_row(self) -> dict[str, object]:
        """Return the values of DISTRIBUTION_COLUMNS and of `facts` by name."""
        facts, leaders = self.facts, self.leaders
        row: dict[str, object] = dict.fromkeys(c.name for c in DISTRIBUTION_COLUMNS)
        row |= {"seeds": self.seeds} | vars(facts)
        for counted, distribution in (("leaders", leaders), ("replicas", self.replicas)):
            for name, percent in _PERCENTILES.items():
                ratio = distribution and distribution.percentile(percent) / distribution.mean
                row[f"{counted}_max_over_mean_{name}_ratio"] = ratio
        if leaders is None:
            return row
        row["leaders_mean"] = leaders.mean
        row["exceedance_probabilities"] = [
            {"above_ratio": ratio, "probability": leaders.exceedance_probability(ratio)} for ratio in self.thresholds
        ]
        if facts.random_leaders_max_expected is not None:
            row["random_max_over_mean_expected_ratio"] = facts.random_leaders_max_expected / leaders.mean
        if facts.single_partition_leaders_max_expected is not None:
            mean = facts.single_partition_topics / facts.brokers
            row["single_partition_max_over_mean_expected_ratio"] = facts.single_partition_leaders_max_expected / mean
        if facts.observed_max_over_mean_ratio is not None:
            row["observed_percent"] = 100.0 * (1.0 - leaders.exceedance_probability(facts.observed_max_over_mean_ratio))
        return row
