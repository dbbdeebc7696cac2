"""What the page knows: small rows of gold tables, cluster by cluster, as plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from pipelines.ingest.sources import SnapshotKey
from pipelines.report.figure_queries import FIGURES, TREND
from pipelines.report.verdict import loss_of, verdict_of
from pipelines.spark.view_creation import quoted

_AT_ONCE = 3
Rows = list[dict[str, Any]]


# The figures that a verdict is made of.
OF_VERDICT = ("hotspots", "failures", "sources")


def verdicts_of(run_sql: Callable[[str], DataFrame], snapshots: Sequence[SnapshotKey]) -> dict[str, dict[str, Any]]:
    """Return the verdict (see verdict_of) of each cluster. run_sql: of Store.querier."""
    tables = {
        figure.name: _ask(run_sql, figure.of(sorted(snapshots))) for figure in FIGURES if figure.name in OF_VERDICT
    }
    out = {}
    for key in sorted(snapshots):
        hotspots, failures, sources = (
            table.filter(pc.equal(table["cluster_id"], key.cluster_id)).to_pylist()
            for table in (tables[name] for name in OF_VERDICT)
        )
        out[key.cluster_id] = _verdict(hotspots, failures, sources)
    return out


def _verdict(hotspots: Rows, failures: Rows, sources: Rows) -> dict[str, Any]:
    now = next((row for row in hotspots if row["scheme"] == "observed"), None)
    observed = [row for row in failures if row["scheme"] == "observed"]
    return verdict_of(now, observed, sum(row["quarantined"] for row in sources))


@dataclass(frozen=True)
class Facts:
    """clusters: of each what the page shows, names and values as JSON takes them.   sql: of each figure, by cluster."""

    clusters: list[dict[str, Any]]
    made_at: datetime


def facts_of(run_sql: Callable[[str], DataFrame], snapshots: Sequence[SnapshotKey], there: Sequence[str]) -> Facts:
    """Of these snapshots. run_sql: of Store.querier. there: tables that exist: figures of others are empty."""
    chosen = [figure for figure in FIGURES if set(figure.tables) <= set(there)]
    ordered = sorted(snapshots)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        asked = {figure.name: pool.submit(_ask, run_sql, figure.of(ordered)) for figure in chosen}
        trend = pool.submit(_trend, run_sql, ordered, there)
        tables = {name: made.result() for name, made in asked.items()}
        history = trend.result()
    clusters = []
    for key in ordered:
        mine = {figure.name: _of(tables.get(figure.name), key.cluster_id) for figure in FIGURES}
        clusters.append(_cluster(key, mine, history.get(key.cluster_id, [])))
    return Facts(clusters, datetime.now(UTC))


def _ask(run_sql: Callable[[str], DataFrame], sql: str) -> pa.Table:
    return run_sql(sql).toArrow()


def _trend(
    run_sql: Callable[[str], DataFrame], snapshots: Sequence[SnapshotKey], there: Sequence[str]
) -> dict[str, Rows]:
    if "ops.runs" not in there:
        return {}
    out: dict[str, Rows] = {}
    for row in _ask(run_sql, trend_sql([key.cluster_id for key in snapshots])).to_pylist():
        row["as_of"] = row["as_of"].isoformat(timespec="seconds")
        out.setdefault(row.pop("cluster_id"), []).append(row)
    return out


def trend_sql(clusters: Sequence[str]) -> str:
    """The query of TREND for these clusters."""
    return TREND.sql.strip().format(clusters=", ".join(map(quoted, dict.fromkeys(clusters))))


def _of(table: pa.Table | None, cluster: str) -> pa.Table | None:
    if table is None:
        return None
    return table.filter(pc.equal(table["cluster_id"], cluster)).drop_columns(["cluster_id"])


def _cluster(key: SnapshotKey, tables: Mapping[str, pa.Table | None], trend: Rows) -> dict[str, Any]:
    def rows(name: str) -> Rows:
        table = tables[name]
        return [] if table is None else table.to_pylist()

    brokers, failures = rows("brokers"), rows("failures")
    observed = [row for row in failures if row["scheme"] == "observed"]
    sources = rows("sources")
    quarantined = sum(row["quarantined"] for row in sources)
    loads = rows("hotspots")
    verdict = _verdict(loads, failures, sources)
    hotspots = {row.pop("scheme"): row for row in loads}
    metrics = _metrics(rows("schemes"))
    return {
        "cluster_id": key.cluster_id,
        "snapshot_id": key.snapshot_id,
        "verdict": verdict,
        "sources": sources,
        "quarantined": quarantined,
        "hotspots": hotspots,
        "metrics": metrics,
        "brokers": brokers,
        "racks_known": any(row["rack"] is not None for row in brokers),
        "failures": answered(observed),
        "worst": _worst(failures),
        "takeovers": _matrices(tables["takeovers"], [row["broker_id"] for row in brokers]),
        "pairs": _pairs(rows("pairs")),
        "racks": rows("racks"),
        "durability": rows("durability"),
        "headroom": rows("headroom"),
        "topics": rows("topics"),
        # Who would be placed where follows from who lives: of a cluster in which nobody does, nothing is said.
        "origin": next(iter(rows("origin")), None) if brokers else None,
        "plans": rows("plan"),
        "moves": rows("moves"),
        "trend": trend,
        "sql": {figure.name: figure.of([key]) for figure in FIGURES} | {"trend": trend_sql([key.cluster_id])},
    }


def answered(failures: Rows) -> Rows:
    """The rows, each with the answer to "can I lose this broker now?": loss_level, loss."""
    out = []
    for row in failures:
        level, answer = loss_of(row)
        out.append({**row, "loss_level": level, "loss": answer})
    return out


def _metrics(rows: Rows) -> dict[str, dict[str, Any]]:
    """Of each metric, values by scheme."""
    out: dict[str, dict[str, Any]] = {}
    for row in rows:
        out.setdefault(row["metric"], {})[row["scheme"]] = row["value"]
    return out


def _worst(failures: Rows) -> dict[str, list[list[Any]]]:
    """Of each scheme, [broker that fails, worst survivor over mean]."""
    out: dict[str, list[list[Any]]] = {}
    for row in failures:
        if row["worst_survivor_ratio"] is not None:
            out.setdefault(row["scheme"], []).append([row["failed"], row["worst_survivor_ratio"]])
    return out


def _matrices(table: pa.Table | None, ids: Sequence[int]) -> dict[str, Any]:
    """Of each scheme, how many partitions each broker (column) takes over from each (row), row by row."""
    out: dict[str, Any] = {"ids": list(ids), "schemes": {}}
    if table is None or not table.num_rows:
        return out
    place = {broker: i for i, broker in enumerate(ids)}
    scheme = np.asarray(table["scheme"].to_pylist(), object)
    failed, survivor = ([place.get(one, -1) for one in table[name].to_pylist()] for name in ("failed", "survivor"))
    at = np.asarray(failed) * len(ids) + np.asarray(survivor)
    known = (np.asarray(failed) >= 0) & (np.asarray(survivor) >= 0)
    takeovers = np.asarray(table["takeovers"].to_pylist())
    for name in dict.fromkeys(scheme.tolist()):
        mine = known & (scheme == name)
        values = np.zeros(len(ids) ** 2, np.int64)
        values[at[mine]] = takeovers[mine]
        out["schemes"][name] = values.tolist()
    return out


def _pairs(rows: Rows) -> list[list[Any]]:
    names = ("one", "other", "worst_survivor_ratio", "newly_offline_partitions", "under_min_isr_partitions")
    return [[_short(row[name]) for name in names] for row in rows]


def _short(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value
