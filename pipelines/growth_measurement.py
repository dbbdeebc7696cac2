"""Measures growth at the end of a run: gold.growth and gold.growth_forecasts, of all snapshots of its clusters."""

from collections.abc import Mapping, Sequence
from datetime import UTC

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.config.capacity_file import read_capacities
from pipelines.config.settings import Settings
from pipelines.ingest.sources import SnapshotKey
from pipelines.spark.store import Store
from pipelines.stages.growth_stage import ClusterSample, PartitionLimits, disk_limits, growth, growth_forecasts
from pipelines.tables.growth_tables import GROWTH, GROWTH_FORECASTS
from pipelines.tables.ops_tables import RUNS
from udfs.growth.growth_rows import HistoryLimits

GROWTH_INPUTS = ("gold.load_totals", "gold.headroom")
_LAST_STAGE = "gold.scheme_comparison"  # a run that finished it has seen the cluster, as in insights.snapshots


def measure_growth(store: Store, clusters: Sequence[str], settings: Settings) -> None:
    """Measure the growth of clusters, and write it with the newest snapshot of each; skip those without a whole run."""
    if not all(store.exists(name) for name in (*GROWTH_INPUTS, RUNS.name)):
        return
    is_wanted = F.col("cluster_id").isin(list(clusters))
    samples = _read_samples(store.read(RUNS.name).where(is_wanted))
    newest = [SnapshotKey(cluster, seen[-1].snapshot_id) for cluster, seen in samples.items()]
    if not newest:
        return
    options = settings.growth
    limits = HistoryLimits(options.min_samples, options.min_days, options.window_days, options.max_samples)
    totals = store.read("gold.load_totals").where(is_wanted)
    store.replace(GROWTH, growth(totals, samples, limits), newest)
    measured, headroom = store.read(GROWTH.name, newest), store.read("gold.headroom", newest)
    capacities = read_capacities(settings.capacity.file)
    brokers, log_dirs = store.read("silver.brokers", newest), store.read("silver.log_dirs", newest)
    disks = disk_limits(brokers, log_dirs, capacities, settings.plans.broker_bytes)
    partitions = PartitionLimits(options.max_partitions_per_broker, options.max_partitions_per_cluster)
    store.replace(GROWTH_FORECASTS, growth_forecasts(measured, headroom, disks, partitions), newest)


def _read_samples(runs: DataFrame) -> Mapping[str, Sequence[ClusterSample]]:
    """Read when runs saw each cluster, and as what snapshot, by time; of several at one time, the last."""
    seen = runs.where(F.col("stage") == _LAST_STAGE).groupBy("cluster_id", "snapshot_id", "as_of")
    rows = seen.agg(F.max("finished_at").alias("finished_at")).collect()
    samples: dict[str, dict[object, ClusterSample]] = {}
    for row in sorted(rows, key=lambda row: (row.as_of, row.finished_at, row.snapshot_id)):
        samples.setdefault(row.cluster_id, {})[row.as_of] = ClusterSample(row.snapshot_id, row.as_of.astimezone(UTC))
    return {cluster: list(by_time.values()) for cluster, by_time in samples.items()}
