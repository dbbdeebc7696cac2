"""Metrics of schemes over many seeds: gold.scheme_distribution, and a study on synthetic clusters (`compare`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.arrow.columns import DOUBLE, LONG, TEXT, column, schema_of, table_of
from udfs.durability.kernels.loss_probability import find_copysets
from udfs.failures.failure_outcomes import SchemeAggregates
from udfs.failures.kernels.failure_totals import LEADERS
from udfs.failures.partition_sums import Array, Arrays, aggregate_seed
from udfs.placement.kernels.java_util import scramble_seeds
from udfs.placement.kernels.topic_arrays import BrokerLists, TopicPlacements, Topics
from udfs.placement.kernels.topic_seeds import compute_topic_seeds
from udfs.placement.schemes import KAFKA, KAFKA_RACK_UNAWARE, KRAFT, NAIVE, SCHEMES, find_place_function
from udfs.placement.topic_placement import get_utf8_buffers

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

METRICS = (
    "leaders_max_over_mean_ratio",
    "worst_survivor_ratio",
    "mean_worst_survivor_ratio",
    "fewest_takeover_brokers",
    "mean_takeover_brokers",
)
SCHEME_DISTRIBUTION_COLUMNS = (
    column("metric", TEXT, "as in gold.scheme_comparison", required=True),
    column("seeds", LONG, "seeds tried; fewer than failures.seeds for large clusters", required=True),
    column("value_p05", DOUBLE, "5th percentile over the seeds", required=True),
    column("value_p50", DOUBLE, "median over the seeds", required=True),
    column("value_p95", DOUBLE, "95th percentile over the seeds", required=True),
)
STUDIED_SCHEMES = (NAIVE, KAFKA_RACK_UNAWARE, KAFKA, KRAFT)


def measure_placement(leaders: Floats, takeovers: Floats, counted: Bools) -> Floats:
    """Compute METRICS (NaN = undefined) of leaders (n) and takeovers (n, n), first index: the failed broker.

    counted: bool (n), the brokers that means count.
    """
    n = len(leaders)
    out = np.full(len(METRICS), np.nan)
    if not n or not leaders.sum():
        return out
    out[0] = leaders.max() * counted.sum() / leaders.sum()
    if n < 2:
        return out
    after = leaders[None] + takeovers
    np.fill_diagonal(after, 0.0)
    total = after.sum(axis=1)
    ratio = np.divide(after.max(axis=1) * (counted.sum() - counted), total, out=np.full(n, np.nan), where=total > 0)
    if not np.isnan(ratio).all():
        out[1], out[2] = np.nanmax(ratio), np.nanmean(ratio)
    takeover_brokers = (takeovers > 0).sum(axis=1)[leaders > 0]  # brokers without leaders have no successors
    out[3], out[4] = takeover_brokers.min(), takeover_brokers.mean()
    return out


def measure_seeds(sums: Arrays, counted: Bools) -> dict[str, Array]:
    """Replace each seed's leaders and takeovers by `seed_metrics`: float64 (seeds, METRICS). counted: bool (n)."""
    names = ("seed_leaders", "seed_takeovers")
    out = {name: values for name, values in sums.items() if name not in names}
    pairs = zip(*(sums.get(name, ()) for name in names), strict=True)
    rows = [measure_placement(leaders, takeovers, counted) for leaders, takeovers in pairs]
    return out | {"seed_metrics": np.array(rows).reshape(-1, len(METRICS))}


def distribution_rows(aggregates: SchemeAggregates) -> pa.Table:
    """Return a row for each metric over the seeds, the run's own included; none if no other seed was tried."""
    schema, values = schema_of(SCHEME_DISTRIBUTION_COLUMNS), aggregates.sums["seed_metrics"]
    if not len(values):
        return schema.empty_table()
    leaders, takeovers = (aggregates.sums[name][..., LEADERS] for name in ("leader_loads", "takeovers"))
    values = np.vstack([measure_placement(leaders, takeovers, aggregates.counted), values])
    rows = []
    for i, metric in enumerate(METRICS):
        known = values[:, i][~np.isnan(values[:, i])]
        if len(known):
            rows.append((metric, len(known), *np.percentile(known, [5, 50, 95]).tolist()))
    return table_of(rows, schema)


@dataclass(frozen=True)
class SyntheticCluster:
    """A cluster whose topics all have the same size; brokers are on the racks in turn (0 = no racks)."""

    brokers: int
    racks: int
    partitions_per_topic: int
    replication_factor: int
    topics: int


@dataclass(frozen=True)
class StudyGrid:
    """The synthetic clusters to study: every combination of these values."""

    brokers: tuple[int, ...]
    racks: tuple[int, ...]  # 0 = no racks
    partitions_per_topic: tuple[int, ...]
    replication_factors: tuple[int, ...]
    leaders_per_broker: int  # Partitions that a broker leads on average; determines the number of topics
    first_seed: int
    seeds: int

    def list_clusters(self) -> list[SyntheticCluster]:
        """Return the combinations that can be placed."""
        sizes = (self.brokers, self.racks, self.partitions_per_topic, self.replication_factors)
        return [
            SyntheticCluster(n, racks, size, factor, max(1, math.ceil(n * self.leaders_per_broker / size)))
            for n, racks, size, factor in product(*sizes)
            if racks <= n and factor <= n
        ]

    def count_partitions(self) -> int:
        """Return how many partitions the study places with each scheme."""
        return self.seeds * sum(cluster.topics * cluster.partitions_per_topic for cluster in self.list_clusters())


@dataclass(frozen=True)
class Percentiles:
    """Percentiles over seeds; None = undefined for all of them."""

    p05: float | None
    p50: float | None
    p95: float | None

    @classmethod
    def from_values(cls, values: npt.NDArray[np.float64]) -> Percentiles:
        """Compute the percentiles of values (seeds), NaN = undefined."""
        known = values[~np.isnan(values)]
        return cls(*np.percentile(known, [5, 50, 95]).tolist()) if len(known) else cls(None, None, None)


@dataclass(frozen=True)
class SchemeFigures:
    """Figures of one scheme on one synthetic cluster."""

    worst_survivor_ratio: Percentiles  # Leaders over the mean, of the most loaded survivor of the worst single failure
    fewest_takeover_brokers: Percentiles  # Brokers that take over, in the single failure with fewest
    copysets: Percentiles  # Distinct replica sets
    loss_probability: Percentiles  # Probability that as many failures as replicas lose some partition


@dataclass(frozen=True)
class StudiedCluster:
    """A synthetic cluster and the figures of each scheme."""

    cluster: SyntheticCluster
    schemes: Mapping[str, SchemeFigures]


@dataclass(frozen=True)
class SchemeVerdict:
    """Clusters where kraft's median is higher or lower than kafka's, also beyond 90 % of the seeds; ratios."""

    clusters: int
    kraft_higher: int
    kraft_higher_beyond_seeds: int
    kraft_lower: int
    kraft_lower_beyond_seeds: int
    kraft_over_kafka_median: float | None
    kraft_over_kafka_min: float | None
    kraft_over_kafka_max: float | None


@dataclass(frozen=True)
class StudyResult:
    """The result of a study; verdicts by name of the figure."""

    first_seed: int
    seeds: int
    clusters: Sequence[StudiedCluster]
    verdicts: Mapping[str, SchemeVerdict]


def place_cluster(cluster: SyntheticCluster, scheme: str, seed: int) -> TopicPlacements:
    """Place the topics of a synthetic cluster by a scheme."""
    n, count = cluster.brokers, cluster.topics
    racks = [f"rack-{i % cluster.racks}" for i in range(n)] if cluster.racks else None
    lists = BrokerLists.create(np.arange(n, dtype=np.int32), np.array([0, n]), racks)
    names = get_utf8_buffers(pa.array([f"topic-{i}" for i in range(count)]))
    clusters = get_utf8_buffers(pa.array([f"{n}x{cluster.racks}"] * count))
    values = (cluster.partitions_per_topic, cluster.replication_factor, 0)
    topics = Topics.create(*(np.full(count, value, dtype=np.int64) for value in values))
    return find_place_function(scheme)(topics, lists, scramble_seeds(compute_topic_seeds(seed, clusters, names)))


def measure_scheme(
    cluster: SyntheticCluster, scheme: str, first_seed: int, seeds: int
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the fields of SchemeFigures by seed, from first_seed; a scheme that is not random has a single seed."""
    rows = []
    for seed in range(first_seed, first_seed + (seeds if SCHEMES[scheme].is_random else 1)):
        placements = place_cluster(cluster, scheme, seed)
        sums = aggregate_seed(placements, cluster.brokers)
        leaders, takeovers = (sums[name][0].astype(np.float64) for name in ("seed_leaders", "seed_takeovers"))
        values = measure_placement(leaders, takeovers, np.ones(len(leaders), dtype=np.bool_))
        metrics = dict(zip(METRICS, values.tolist(), strict=True))
        copysets = len(find_copysets(placements.replica_offsets, placements.broker, cluster.brokers)[0]) - 1
        loss = copysets / math.comb(cluster.brokers, cluster.replication_factor)
        rows.append((metrics["worst_survivor_ratio"], metrics["fewest_takeover_brokers"], copysets, loss))
    return dict(zip(SchemeFigures.__annotations__, np.array(rows, dtype=np.float64).T, strict=True))


def _judge(clusters: Sequence[StudiedCluster], figure: str) -> SchemeVerdict:
    pairs = [tuple(getattr(c.schemes[scheme], figure) for scheme in (KAFKA, KRAFT)) for c in clusters]
    pairs = [(kafka, kraft) for kafka, kraft in pairs if kafka.p50 and kraft.p50]
    ratios = sorted(kraft.p50 / kafka.p50 for kafka, kraft in pairs)
    tests = [
        (kraft.p50 > kafka.p50, kraft.p05 > kafka.p95, kraft.p50 < kafka.p50, kraft.p95 < kafka.p05)
        for kafka, kraft in pairs
    ]
    spread = (float(np.median(ratios)), ratios[0], ratios[-1]) if ratios else (None, None, None)
    return SchemeVerdict(len(pairs), *np.array(tests, dtype=int).reshape(-1, 4).sum(axis=0).tolist(), *spread)


def run_study(grid: StudyGrid) -> StudyResult:
    """Measure all schemes on every cluster of the grid."""
    clusters = []
    for cluster in grid.list_clusters():
        figures = {}
        for scheme in STUDIED_SCHEMES:
            if cluster.racks or scheme != KAFKA_RACK_UNAWARE:  # without racks, kafka is the same
                values = measure_scheme(cluster, scheme, grid.first_seed, grid.seeds)
                figures[scheme] = SchemeFigures(*map(Percentiles.from_values, values.values()))
        clusters.append(StudiedCluster(cluster, figures))
    verdicts = {figure: _judge(clusters, figure) for figure in ("worst_survivor_ratio", "copysets")}
    return StudyResult(grid.first_seed, grid.seeds, clusters, verdicts)
