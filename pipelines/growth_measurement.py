"""Measures growth at the end of a run: gold.growth and gold.growth_forecasts, of all snapshots of its clusters."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter

from pipelines.config.capacity_file import read_disk_capacities
from pipelines.config.setting_sections import Settings
from pipelines.ingest.sources import SnapshotKey
from pipelines.retention import SeenSnapshot
from pipelines.spark.store import Store
from pipelines.stages.growth_stage import (
    DISKS,
    FORECAST_INPUTS,
    ClusterSample,
    PartitionLimits,
    disk_limits,
    growth,
    growth_forecasts,
    growth_of_few,
    select_history,
)
from pipelines.tables.growth_tables import GROWTH, GROWTH_FORECASTS
from pipelines.tables.table_contract import SNAPSHOT_KEY
from udfs.growth.growth_rows import HistoryLimits
from udfs.growth.load_history import LOAD_SAMPLES

_LOADS = tuple(name for name in LOAD_SAMPLES.names if name != "sample")
_LOG_DIRS = ("cluster_id", "broker_id", "log_dir", "total_bytes", "usable_bytes", "log_dir_error", "used_bytes")
GROWTH_INPUTS = ("gold.load_history", "gold.headroom")


def measure_growth(store: Store, seen: Iterable[SeenSnapshot], settings: Settings) -> bool:
    """Measure the growth of the clusters that runs have seen, and write it with the newest snapshot of each.

    Return whether one of them has as many samples as a slope needs.
    """
    samples = order_samples(seen)
    if not samples or not all(store.exists(name) for name in GROWTH_INPUTS):
        return False
    newest = [SnapshotKey(cluster, seen[-1].snapshot_id) for cluster, seen in samples.items()]
    options = settings.growth
    limits = HistoryLimits(options.min_samples, options.min_days, options.window_days, options.max_samples)
    used = {cluster: select_history(seen, limits) for cluster, seen in samples.items()}
    keys = {SnapshotKey(cluster, sample.snapshot_id) for cluster, seen in used.items() for sample in seen}
    few = store.read_arrow("gold.load_history", sorted(keys), (*SNAPSHOT_KEY, *_LOADS))
    if few is None:
        store.replace(GROWTH, growth(store.read("gold.load_history", sorted(keys)), used, limits), newest)
    else:
        store.replace(GROWTH, growth_of_few(few, used, limits), newest)
    brokers = store.read_columns("silver.brokers", ("cluster_id", "broker_id"), newest)
    log_dirs = store.read_columns("silver.log_dirs", _LOG_DIRS, newest)
    capacities = read_disk_capacities(settings.capacity.file)
    known = {DISKS: disk_limits(brokers, log_dirs, capacities, settings.plans.broker_bytes)}
    partitions = PartitionLimits(options.max_partitions_per_broker, options.max_partitions_per_cluster)
    with store.explain_faults():
        forecasts = growth_forecasts(store.open_sql(FORECAST_INPUTS, newest, known), newest, partitions)
    store.replace(GROWTH_FORECASTS, forecasts, newest)
    return any(len(of_cluster) >= options.min_samples for of_cluster in samples.values())


def order_samples(seen: Iterable[SeenSnapshot]) -> Mapping[str, Sequence[ClusterSample]]:
    """List when runs saw each cluster, and as what snapshot, by time; of several at one time, the last."""
    samples: dict[str, dict[datetime, ClusterSample]] = {}
    for row in sorted(seen, key=attrgetter("as_of", "finished_at", "snapshot_id")):
        samples.setdefault(row.cluster_id, {})[row.as_of] = ClusterSample(row.snapshot_id, row.as_of)
    return {cluster: list(by_time.values()) for cluster, by_time in samples.items()}
