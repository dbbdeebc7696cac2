"""Measures growth at the end of a run: gold.growth and gold.growth_forecasts, of all snapshots of its clusters."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import NamedTuple

from pyspark.sql import functions as F

from pipelines.config.capacity_file import read_disk_capacities
from pipelines.config.settings import Settings
from pipelines.ingest.sources import SnapshotKey
from pipelines.spark.store import Store
from pipelines.stages.growth_stage import ClusterSample, PartitionLimits, disk_limits, growth, growth_forecasts
from pipelines.tables.growth_tables import GROWTH, GROWTH_FORECASTS
from pipelines.tables.ops_tables import RUNS
from udfs.growth.growth_rows import HistoryLimits

GROWTH_INPUTS = ("gold.load_totals", "gold.headroom")
LAST_STAGE = "gold.scheme_comparison"  # a run that finished it has seen the cluster, as in insights.snapshots


class SeenSnapshot(NamedTuple):
    """A time at which a run saw a cluster: columns of ops.runs."""

    cluster_id: str
    snapshot_id: str
    as_of: datetime
    finished_at: datetime


def read_seen(store: Store, clusters: Sequence[str]) -> list[SeenSnapshot]:
    """Read when runs saw clusters."""
    if not store.exists(RUNS.name):
        return []
    is_wanted = F.col("cluster_id").isin(list(clusters)) & (F.col("stage") == LAST_STAGE)
    runs = store.read(RUNS.name).where(is_wanted).groupBy("cluster_id", "snapshot_id", "as_of")
    rows = runs.agg(F.max("finished_at").alias("finished_at")).collect()
    return [SeenSnapshot(*row[:2], *(at.astimezone(UTC) for at in row[2:])) for row in rows]


def measure_growth(store: Store, seen: Iterable[SeenSnapshot], settings: Settings) -> bool:
    """Measure the growth of the clusters that runs have seen, and write it with the newest snapshot of each.

    Return whether one of them has as many samples as a slope needs.
    """
    samples = _order_samples(seen)
    if not samples or not all(store.exists(name) for name in GROWTH_INPUTS):
        return False
    newest = [SnapshotKey(cluster, seen[-1].snapshot_id) for cluster, seen in samples.items()]
    options = settings.growth
    limits = HistoryLimits(options.min_samples, options.min_days, options.window_days, options.max_samples)
    totals = store.read("gold.load_totals").where(F.col("cluster_id").isin(list(samples)))
    store.replace(GROWTH, growth(totals, samples, limits), newest)
    measured, headroom = store.read(GROWTH.name, newest), store.read("gold.headroom", newest)
    capacities = read_disk_capacities(settings.capacity.file)
    brokers, log_dirs = store.read("silver.brokers", newest), store.read("silver.log_dirs", newest)
    disks = disk_limits(brokers, log_dirs, capacities, settings.plans.broker_bytes)
    partitions = PartitionLimits(options.max_partitions_per_broker, options.max_partitions_per_cluster)
    store.replace(GROWTH_FORECASTS, growth_forecasts(measured, headroom, disks, partitions), newest)
    return any(len(of_cluster) >= options.min_samples for of_cluster in samples.values())


def _order_samples(seen: Iterable[SeenSnapshot]) -> Mapping[str, Sequence[ClusterSample]]:
    """List when runs saw each cluster, and as what snapshot, by time; of several at one time, the last."""
    samples: dict[str, dict[datetime, ClusterSample]] = {}
    for row in sorted(seen, key=attrgetter("as_of", "finished_at", "snapshot_id")):
        samples.setdefault(row.cluster_id, {})[row.as_of] = ClusterSample(row.snapshot_id, row.as_of)
    return {cluster: list(by_time.values()) for cluster, by_time in samples.items()}
