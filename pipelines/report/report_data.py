"""The data of the report: small rows of gold tables, cluster by cluster, as plain values."""

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
from pipelines.report.verdict import Verdict, assess_failure, judge_cluster
from pipelines.spark.sql_conditions import quote_text
from pipelines.spark.store import Store

_PARALLEL_QUERIES = 3
Rows = list[dict[str, Any]]


# Figures that a verdict needs.
VERDICT_FIGURES = ("hotspots", "failures", "sources")


def read_verdicts(store: Store, snapshots: Sequence[SnapshotKey]) -> dict[str, Verdict]:
    """Read what the verdicts of these snapshots need, and return the verdict of each cluster."""
    tables = _read_figures(store, VERDICT_FIGURES, snapshots)
    return {
        key.cluster_id: _judge(*(_filter(tables[name], key.cluster_id).to_pylist() for name in VERDICT_FIGURES))
        for key in snapshots
    }


def read_custom_failures(store: Store, snapshots: Sequence[SnapshotKey]) -> Rows:
    """Read the custom failures of these snapshots."""
    rows: Rows = _read_figures(store, ("custom_failures",), snapshots)["custom_failures"].to_pylist()
    return rows


def _read_figures(store: Store, names: Sequence[str], snapshots: Sequence[SnapshotKey]) -> dict[str, pa.Table]:
    figures = [figure for figure in FIGURES if figure.name in names]
    run_sql = store.prepare_sql([name for figure in figures for name in figure.tables])
    return {figure.name: _run(run_sql, figure.query(sorted(snapshots))) for figure in figures}


def _judge(hotspots: Rows, failures: Rows, sources: Rows) -> Verdict:
    now = next((row for row in hotspots if row["scheme"] == "observed"), None)
    observed = [row for row in failures if row["scheme"] == "observed"]
    return judge_cluster(now, observed, sum(row["quarantined_records"] for row in sources))


@dataclass(frozen=True)
class ReportData:
    """What the report shows."""

    # One dict per cluster, with names and values as JSON takes them; its `sql` holds each figure's query
    clusters: list[dict[str, Any]]
    created_at: datetime  # Time of the report (UTC)


def read_report_data(
    run_sql: Callable[[str], DataFrame], snapshots: Sequence[SnapshotKey], existing: Sequence[str]
) -> ReportData:
    """Run the queries of all figures.

    Args:
        run_sql: Runs a query, from Store.prepare_sql.
        snapshots: One snapshot per cluster.
        existing: Tables that exist; figures of other tables are empty.

    Returns:
        The data of the report.
    """
    figures = [figure for figure in FIGURES if set(figure.tables) <= set(existing)]
    ordered = sorted(snapshots)
    with ThreadPoolExecutor(_PARALLEL_QUERIES) as pool:
        queries = {figure.name: pool.submit(_run, run_sql, figure.query(ordered)) for figure in figures}
        trend = pool.submit(_read_trend, run_sql, ordered, existing)
        tables = {name: query.result() for name, query in queries.items()}
        history = trend.result()
    clusters = []
    for key in ordered:
        own_tables = {name: _filter(table, key.cluster_id) for name, table in tables.items()}
        clusters.append(_describe_cluster(key, own_tables, history.get(key.cluster_id, [])))
    return ReportData(clusters, datetime.now(UTC))


def _run(run_sql: Callable[[str], DataFrame], sql: str) -> pa.Table:
    return run_sql(sql).toArrow()


def _read_trend(
    run_sql: Callable[[str], DataFrame], snapshots: Sequence[SnapshotKey], existing: Sequence[str]
) -> dict[str, Rows]:
    if "ops.runs" not in existing:
        return {}
    rows_by_cluster: dict[str, Rows] = {}
    for row in _run(run_sql, trend_query([key.cluster_id for key in snapshots])).to_pylist():
        row["as_of"] = row["as_of"].isoformat(timespec="seconds")
        rows_by_cluster.setdefault(row.pop("cluster_id"), []).append(row)
    return rows_by_cluster


def trend_query(clusters: Sequence[str]) -> str:
    """Return the query of TREND for these clusters."""
    return TREND.sql.strip().format(clusters=", ".join(map(quote_text, dict.fromkeys(clusters))))


def _filter(table: pa.Table, cluster: str) -> pa.Table:
    return table.filter(pc.equal(table["cluster_id"], cluster)).drop_columns(["cluster_id"])


def _describe_cluster(key: SnapshotKey, tables: Mapping[str, pa.Table], trend: Rows) -> dict[str, Any]:
    def rows(name: str) -> Rows:
        return tables[name].to_pylist() if name in tables else []

    brokers, failures, sources, hotspots = rows("brokers"), rows("failures"), rows("sources"), rows("hotspots")
    return {
        "cluster_id": key.cluster_id,
        "snapshot_id": key.snapshot_id,
        "verdict": _judge(hotspots, failures, sources),
        "sources": sources,
        "quarantined": sum(row["quarantined_records"] for row in sources),
        "hotspots": {row["scheme"]: row for row in hotspots},
        "metrics": _pivot_metrics(rows("schemes")),
        "brokers": brokers,
        "racks_known": any(row["rack"] is not None for row in brokers),
        "failures": add_risks([row for row in failures if row["scheme"] == "observed"]),
        "custom_failures": add_risks(rows("custom_failures")),
        "worst": _list_worst_survivors(failures),
        "takeovers": _build_takeover_matrices(tables.get("takeovers"), [row["broker_id"] for row in brokers]),
        "pairs": _shorten_pairs(rows("pairs")),
        "racks": rows("racks"),
        "durability": rows("durability"),
        "headroom": rows("headroom"),
        "topics": rows("topics"),
        # Where topics would be placed depends on the live brokers: without any, there is nothing to say.
        "origin": next(iter(rows("origin")), None) if brokers else None,
        "plans": rows("plan"),
        "moves": rows("moves"),
        "trend": trend,
        "sql": {figure.name: figure.query([key]) for figure in FIGURES} | {"trend": trend_query([key.cluster_id])},
    }


def add_risks(failures: Rows) -> Rows:
    """Add to rows of gold.failure_summary the answer to "can it fail?" as `risk`."""
    return [{**row, "risk": assess_failure(row)} for row in failures]


def _pivot_metrics(rows: Rows) -> dict[str, dict[str, Any]]:
    """Return {metric: {scheme: value}}."""
    values: dict[str, dict[str, Any]] = {}
    for row in rows:
        values.setdefault(row["metric"], {})[row["scheme"]] = row["value"]
    return values


def _list_worst_survivors(failures: Rows) -> dict[str, list[list[Any]]]:
    """Return {scheme: [[failed broker, worst_survivor_ratio], ...]}."""
    pairs: dict[str, list[list[Any]]] = {}
    for row in failures:
        if row["worst_survivor_ratio"] is not None:
            pairs.setdefault(row["scheme"], []).append([row["failed"], row["worst_survivor_ratio"]])
    return pairs


def _build_takeover_matrices(table: pa.Table | None, ids: Sequence[int]) -> dict[str, Any]:
    """Return, per scheme, the partitions that each broker (column) takes over from each (row), row by row."""
    matrices: dict[str, Any] = {"ids": list(ids), "schemes": {}}
    if table is None or not table.num_rows:
        return matrices
    position = {broker: i for i, broker in enumerate(ids)}
    scheme = np.asarray(table["scheme"].to_pylist(), object)
    failed, survivor = (
        np.asarray([position.get(broker, -1) for broker in table[name].to_pylist()]) for name in ("failed", "survivor")
    )
    known = (failed >= 0) & (survivor >= 0)
    takeovers = np.asarray(table["takeovers"].to_pylist())
    for name in dict.fromkeys(scheme.tolist()):
        rows = known & (scheme == name)
        values = np.zeros(len(ids) ** 2, np.int64)
        values[failed[rows] * len(ids) + survivor[rows]] = takeovers[rows]
        matrices["schemes"][name] = values.tolist()
    return matrices


def _shorten_pairs(rows: Rows) -> list[list[Any]]:
    names = ("one", "other", "worst_survivor_ratio", "newly_offline_partitions", "under_min_isr_partitions")
    return [[round(row[n], 4) if isinstance(row[n], float) else row[n] for n in names] for row in rows]
