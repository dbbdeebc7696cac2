"""What the failure stages need of each cluster: its live brokers, custom failures, and the capacities of brokers."""

from collections.abc import Mapping, Sequence
from operator import attrgetter

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from pipelines.config.capacity_file import match_broker, read_capacities, read_capacity_rows
from pipelines.config.setting_sections import CustomFailure
from pipelines.errors import SettingsError
from pipelines.ingest.merge.kraft_merge import get_voters
from pipelines.spark.entity_shards import unpack
from pipelines.tables.table_contract import SNAPSHOT_KEY
from udfs.failures.arrow_functions import Clusters
from udfs.failures.kernels.failure_totals import LOADS
from udfs.failures.scenarios import Cluster
from udfs.failures.topic_defaults import KAFKA_DEFAULTS, ReleaseRange, TopicDefaults

_BROKER = ("broker_id", "rack", "live", "release_from", "release_before", "follower_fetching", "cordoned")


def collect_brokers(brokers: DataFrame) -> dict[tuple[str, str], list[Row]]:
    """Collect brokers (columns _BROKER) of each snapshot, rising by id: for functions of workers."""
    by_snapshot: dict[tuple[str, str], list[Row]] = {}
    rows = brokers.select(*SNAPSHOT_KEY, *_BROKER).collect()
    for row in sorted(rows, key=attrgetter("broker_id")):
        by_snapshot.setdefault((row.cluster_id, row.snapshot_id), []).append(row)
    return by_snapshot


def collect_clusters(
    brokers: DataFrame,
    topics: DataFrame,
    entities: DataFrame | None = None,
    custom: Sequence[CustomFailure] = (),
    defaults: TopicDefaults = KAFKA_DEFAULTS,
) -> Clusters:
    """Describe clusters. A custom failure without a cluster applies to every one that has all of its brokers.

    entities: show the controller quorum; None = it does not matter.
    """
    known = collect_brokers(brokers)
    counts = topics.groupBy(*SNAPSHOT_KEY).agg(F.sum("partitions").alias("n")).collect()
    partitions = {(row.cluster_id, row.snapshot_id): int(row.n or 0) for row in counts}
    # Not from gold.quorum: the sums of failures do not wait for the quality gate.
    packed = [] if entities is None else entities.where("quorum IS NOT NULL").select(*SNAPSHOT_KEY, "quorum").collect()
    nodes = {(row.cluster_id, row.snapshot_id): unpack([row.quorum], "quorum").to_pylist() for row in packed}

    def describe(key: tuple[str, str]) -> Cluster:
        rows = known.get(key, [])
        all_ids = {row.broker_id for row in rows}
        failures = dict.fromkeys(
            tuple(sorted(failure.brokers))
            for failure in custom
            if failure.cluster in ("", key[0]) and all_ids.issuperset(failure.brokers)
        )
        live = [row for row in rows if row.live is not False]  # unknown counts as live
        ids, racks = tuple(row.broker_id for row in live), tuple(row.rack for row in live)
        unknown = tuple(row.broker_id for row in live if row.live is None)
        caps = defaults.adapt_to(
            ReleaseRange(row.release_from, row.release_before) for row in live
        ).cap_min_insync_replicas
        fetching, cordoned = (tuple(row[name] for row in live) for name in ("follower_fetching", "cordoned"))
        voters = get_voters(nodes.get(key, ()), all_ids.difference(ids))
        return Cluster(ids, racks, tuple(failures), partitions.get(key, 0), unknown, caps, fetching, cordoned, voters)

    return {key: describe(key) for key in sorted({*known, *partitions})}


def check_settings(brokers: DataFrame, custom: Sequence[CustomFailure], file: str) -> None:
    """Check that custom failures and the capacity file name known brokers and clusters, else raise SettingsError."""
    known: dict[str, set[int]] = {}
    for row in brokers.select("cluster_id", "broker_id").collect():
        known.setdefault(row.cluster_id, set()).add(row.broker_id)
    for failure in custom:
        _check_custom_failure(failure, known)
    capacities = {row.key: row for row in read_capacity_rows(file)}
    for cluster, broker in capacities:
        if cluster in known and broker not in known[cluster]:
            raise SettingsError(f"capacity.file {file}: cluster {cluster} has no broker {broker}")
        if not cluster and not any(broker in ids for ids in known.values()):
            raise SettingsError(f"capacity.file {file}: no cluster has a broker {broker}")
    if capacities and not any(cluster in ("", *known) for cluster, _ in capacities):
        names = ", ".join(sorted(known))
        raise SettingsError(f"capacity.file {file}: it names none of the clusters of this run: {names}")


def _check_custom_failure(failure: CustomFailure, known: Mapping[str, set[int]]) -> None:
    candidates = {cluster: ids for cluster, ids in known.items() if failure.cluster in ("", cluster)}
    if any(ids.issuperset(failure.brokers) for ids in candidates.values()):
        return
    if not candidates:
        problem = f"there is no cluster {failure.cluster!r}"
    else:
        problem = f"cluster {failure.cluster} does not have" if failure.cluster else "no cluster has"
        problem += " this broker" if len(failure.brokers) == 1 else " all of these brokers"
    clusters = sorted((candidates or known).items())
    brokers = "; ".join(f"{cluster}: {','.join(map(str, sorted(ids)))}" for cluster, ids in clusters)
    failed = ",".join(map(str, sorted(failure.brokers)))
    text = f"broker {failed}" if len(failure.brokers) == 1 else f"brokers {failed}"
    origin = f"the custom failure of {text} (--fail or failures.custom)"
    raise SettingsError(f"{origin}: {problem}. Brokers: {brokers or 'none'}")


def match_capacities(file: str, clusters: Clusters) -> dict[tuple[str, str], npt.NDArray[np.float64]]:
    """Read the capacities of live brokers of each snapshot that has any: float64 (n, loads), NaN = no limit."""
    capacities = read_capacities(file)
    out = {}
    for key, cluster in clusters.items():
        rows = [match_broker(capacities, key[0], broker) for broker in cluster.ids]
        limits = np.array([row or [np.nan] * LOADS for row in rows])
        if not np.isnan(limits).all():  # the file may have bytes of disks alone
            out[key] = limits
    return out
