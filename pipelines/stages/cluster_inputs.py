"""What the failure stages need of each cluster: its live brokers, custom failures, and the capacities of brokers."""

import csv
from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from pipelines.config.settings import CustomFailure
from pipelines.errors import SettingsError
from pipelines.quoted_values import quote_value
from pipelines.tables.table_contract import SNAPSHOT_KEY
from udfs.failures.arrow_functions import Clusters
from udfs.failures.kernels.failure_totals import LOADS
from udfs.failures.required_headroom import RESOURCES
from udfs.failures.scenarios import Cluster
from udfs.failures.topic_defaults import KAFKA_DEFAULTS, TopicDefaults

_MAX_BYTES = 100_000_000  # of a capacity file
_BROKER = ("broker_id", "rack", "live", "caps_min_isr", "follower_fetching")
_COLUMNS = ("cluster", "broker_id", *RESOURCES)

# Capacities (one per load, NaN = no limit) by cluster ("" = every cluster) and broker id.
Capacities = Mapping[tuple[str, int], list[float]]


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
    custom: Sequence[CustomFailure] = (),
    defaults: TopicDefaults = KAFKA_DEFAULTS,
) -> Clusters:
    """Describe clusters. A custom failure without a cluster applies to every one that has all of its brokers."""
    known = collect_brokers(brokers)
    counts = topics.groupBy(*SNAPSHOT_KEY).agg(F.sum("partitions").alias("n")).collect()
    partitions = {(row.cluster_id, row.snapshot_id): int(row.n or 0) for row in counts}

    def describe(key: tuple[str, str]) -> Cluster:
        rows = known.get(key, [])
        all_ids = {row.broker_id for row in rows}
        failures = (
            tuple(sorted(failure.brokers))
            for failure in custom
            if failure.cluster in ("", key[0]) and all_ids.issuperset(failure.brokers)
        )
        live = [row for row in rows if row.live is not False]  # unknown counts as live
        ids, racks = tuple(row.broker_id for row in live), tuple(row.rack for row in live)
        unknown = tuple(row.broker_id for row in live if row.live is None)
        caps = defaults.adapt_to(row.caps_min_isr for row in live).cap_min_insync_replicas
        fetching = tuple(row.follower_fetching for row in live)
        return Cluster(ids, racks, tuple(dict.fromkeys(failures)), partitions.get(key, 0), unknown, caps, fetching)

    return {key: describe(key) for key in sorted({*known, *partitions})}


def check_settings(brokers: DataFrame, custom: Sequence[CustomFailure], file: str) -> None:
    """Check that custom failures and the capacity file name known brokers and clusters, else raise SettingsError."""
    known: dict[str, set[int]] = {}
    for row in brokers.select("cluster_id", "broker_id").collect():
        known.setdefault(row.cluster_id, set()).add(row.broker_id)
    for failure in custom:
        _check_custom_failure(failure, known)
    capacities = read_capacities(file)
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
        rows = [capacities.get((key[0], broker), capacities.get(("", broker))) for broker in cluster.ids]
        if any(row is not None for row in rows):
            out[key] = np.array([row or [np.nan] * LOADS for row in rows])
    return out


def read_capacities(file: str) -> Capacities:
    """Read the capacity file: CSV with commas, semicolons or tabs, # for comments; raise SettingsError if wrong."""
    if not file:
        return {}
    try:
        with Path(file).open("rb") as stream:
            data = stream.read(_MAX_BYTES + 1)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise SettingsError(f"capacity.file {file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"capacity.file {file}: byte {error.start} is not UTF-8. Save it as UTF-8") from error
    if len(data) > _MAX_BYTES:
        raise SettingsError(f"capacity.file {file}: has more than {_MAX_BYTES:,} bytes. Name a list of capacities")
    lines = [(i, line) for i, line in enumerate(text.splitlines(), 1) if line.strip() and line.lstrip()[0] != "#"]
    number, header = lines[0] if lines else (1, "")
    delimiter = next((mark for mark in ",;\t" if mark in header), ",")
    names = [name.strip() for name in _split_cells(header, delimiter, f"capacity.file {file}, line {number}")]
    wrong = [name for i, name in enumerate(names) if name not in _COLUMNS or name in names[:i]]
    if "broker_id" not in names or wrong:
        problem = f"column {quote_value(wrong[0])} is unknown or repeated" if wrong else "there is no column broker_id"
        raise SettingsError(f"capacity.file {file}, line {number}: {problem}. Columns: {', '.join(_COLUMNS)}")
    capacities: dict[tuple[str, int], list[float]] = {}
    for number, line in lines[1:]:
        where = f"capacity.file {file}, line {number}"
        cells = _split_cells(line, delimiter, where)
        if len(cells) > len(names):
            raise SettingsError(f"{where}: {len(cells)} values for {len(names)} columns. Write 1500, not 1,500")
        key, values = _parse_row(dict(zip(names, cells, strict=False)), where)
        if key in capacities:
            raise SettingsError(f"{where}: broker {key[1]} is repeated. Keep one row")
        capacities[key] = values
    return capacities


def _split_cells(line: str, delimiter: str, where: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error as error:  # a cell of more than 128 KB
        raise SettingsError(f"{where}: {error}. Correct the line") from error


def _parse_row(row: Mapping[str, str], where: str) -> tuple[tuple[str, int], list[float]]:
    broker = row.get("broker_id", "").strip()
    if not (broker.isascii() and broker.isdigit() and len(broker) <= 10):
        raise SettingsError(f"{where}: broker_id is {quote_value(broker)}. Write a broker's id")
    values = [float("nan")] * LOADS
    for name, load in RESOURCES.items():
        text = row.get(name, "").strip()
        if not text:
            continue
        try:
            values[load] = float(text) if "_" not in text else -1.0  # Python would accept 1_000
        except ValueError:
            values[load] = -1.0
        if not (np.isfinite(values[load]) and values[load] >= 0):
            raise SettingsError(f"{where}: {name} is {quote_value(text)}. Write a number >= 0, or nothing for no limit")
    return (row.get("cluster", "").strip(), int(broker)), values
