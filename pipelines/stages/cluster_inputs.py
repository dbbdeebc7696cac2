"""What the failure stages are told of each cluster: its live brokers, the user's lists, what brokers can bear."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.config.settings import failure_lists
from pipelines.errors import SettingsError
from udfs.failures.headroom import RESOURCES
from udfs.failures.kernels.failure_sums import LOADS
from udfs.failures.scenarios import Cluster
from udfs.failures.shards import Clusters

_KEY = ("cluster_id", "snapshot_id")


def clusters_of(brokers: DataFrame, topics: DataFrame, lists: str) -> Clusters:
    """The clusters of a run by snapshot, also those without a live broker or a topic.

    lists: of failures.lists. A list without a cluster's name is of every cluster that has all of its brokers.
    """
    # Brokers, unlike partitions, are few: their lists go to the workers with the function.
    known: dict[tuple[str, str], set[int]] = {}
    live: dict[tuple[str, str], list[tuple[int, str | None]]] = {}
    for row in brokers.select(*_KEY, "broker_id", "rack", "live").collect():
        known.setdefault((row.cluster_id, row.snapshot_id), set()).add(row.broker_id)
        if row.live:
            live.setdefault((row.cluster_id, row.snapshot_id), []).append((row.broker_id, row.rack))
    counted = topics.groupBy(*_KEY).agg(F.sum("partitions").alias("n")).collect()
    partitions = {(row.cluster_id, row.snapshot_id): int(row.n or 0) for row in counted}
    wanted = failure_lists(lists)
    out = {}
    for key in sorted({*known, *partitions}):
        found = sorted(live.get(key, []), key=lambda broker: broker[0])
        mine = tuple(
            dict.fromkeys(ids for name, ids in wanted if name in ("", key[0]) and set(ids) <= known.get(key, set()))
        )
        out[key] = Cluster(
            tuple(broker for broker, _ in found), tuple(rack for _, rack in found), mine, partitions.get(key, 0)
        )
    return out


def check_named(brokers: DataFrame, lists: str, file: str) -> None:
    """Nothing; SettingsError if failures.lists or capacity.file name brokers, or clusters, that are not there.

    brokers: rows of silver.brokers, of the run's snapshots.
    """
    rows = brokers.select("cluster_id", "broker_id").collect()
    known: dict[str, set[int]] = {}
    for row in rows:
        known.setdefault(row.cluster_id, set()).add(row.broker_id)
    for name, ids in failure_lists(lists):
        of = {cluster: held for cluster, held in known.items() if name in ("", cluster)}
        if not any(set(ids) <= held for held in of.values()):
            text = ",".join(map(str, ids))
            have = "; ".join(
                f"{cluster}: {','.join(map(str, sorted(held)))}" for cluster, held in sorted((of or known).items())
            )
            problem = f"no cluster named {name!r} is" if name and not of else "no cluster has all of these brokers"
            raise SettingsError(f"failures.lists: {name and name + '='}{text}: {problem}. There are {have or 'none'}")
    _check_limits(file, read_limits(file), known)


def _check_limits(file: str, limits: Mapping[tuple[str, int], object], known: Mapping[str, set[int]]) -> None:
    for cluster, broker in limits:
        if cluster in known and broker not in known[cluster]:
            raise SettingsError(f"capacity.file {file}: cluster {cluster} has no broker {broker}")
        if not cluster and not any(broker in held for held in known.values()):
            raise SettingsError(f"capacity.file {file}: no cluster has a broker {broker}")
    if limits and not any(cluster in ("", *known) for cluster, _ in limits):
        raise SettingsError(f"capacity.file {file}: names none of the clusters of this run: {', '.join(sorted(known))}")


def capacities(file: str, clusters: Clusters) -> dict[tuple[str, str], np.ndarray]:
    """{snapshot: float64 (n, loads), what its live brokers can bear, NaN = no limit}, of a CSV file.

    A row without a cluster is of the broker of that id in every cluster. Rows of clusters that are not in the run are
    left alone.
    """
    limits = read_limits(file)
    out = {}
    for snapshot, live in clusters.items():
        mine = [limits.get((snapshot[0], b), limits.get(("", b))) for b in live.ids]
        if any(values is not None for values in mine):
            out[snapshot] = np.array([values or [np.nan] * LOADS for values in mine])
    return out


def read_limits(file: str) -> dict[tuple[str, int], list[float]]:
    """{(cluster or "", broker id): capacities (loads)} of the rows of the file; # begins a comment line."""
    limits: dict[tuple[str, int], list[float]] = {}
    if not file:
        return limits
    try:
        lines = Path(file).read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise SettingsError(f"capacity.file {file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"capacity.file {file}: byte {error.start} is not UTF-8. Save it as UTF-8") from error
    kept = [(i, line) for i, line in enumerate(lines, 1) if line.strip() and not line.lstrip().startswith("#")]
    head = kept[0][1] if kept else ""
    mark = next((m for m in (",", ";", "\t") if m in head), ",")
    names = [name.strip() for name in next(csv.reader([head], delimiter=mark), [])]
    where = f"capacity.file {file}, line {kept[0][0] if kept else 1}"
    allowed = ("cluster", "broker_id", *RESOURCES)
    wrong = [name for i, name in enumerate(names) if name not in allowed or name in names[:i]]
    if "broker_id" not in names or wrong:
        problem = f"column {wrong[0]!r} is unknown or there twice" if wrong else "no column broker_id"
        raise SettingsError(f"{where}: {problem}. Columns: {', '.join(allowed)}")
    for number, line in kept[1:]:
        where = f"capacity.file {file}, line {number}"
        cells = next(csv.reader([line], delimiter=mark))
        if len(cells) > len(names):
            raise SettingsError(f"{where}: {len(cells)} values for {len(names)} columns. Write 1500, not 1,500")
        key, values = _limit(dict(zip(names, cells, strict=False)), where)
        if key in limits:
            raise SettingsError(f"{where}: broker {key[1]} is there twice. Leave one row")
        limits[key] = values
    return limits


def _limit(row: dict[str, str], where: str) -> tuple[tuple[str, int], list[float]]:
    broker = (row.get("broker_id") or "").strip()
    if not (broker.isascii() and broker.isdigit()):
        raise SettingsError(f"{where}: broker_id is {broker!r}, expected a broker's id")
    values = [float("nan")] * LOADS
    for name, load in RESOURCES.items():
        text = (row.get(name) or "").strip()
        if not text:
            continue
        try:
            values[load] = float(text) if "_" not in text else -1.0  # Python would take 1_000
        except ValueError:
            values[load] = -1.0
        if not (np.isfinite(values[load]) and values[load] >= 0):
            raise SettingsError(f"{where}: {name} is {text!r}, expected a number >= 0, or nothing for no limit")
    return ((row.get("cluster") or "").strip(), int(broker)), values
