"""The report as one HTML file, with small rows of gold tables and chart libraries inside: it needs no network."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jinja2 import Environment, StrictUndefined
from pyspark.sql import DataFrame

from pipelines import __version__
from pipelines.errors import SettingsError, StoreError
from pipelines.ingest.sources import SnapshotKey
from pipelines.report.figure_queries import FIGURES, TREND
from pipelines.spark.store import Store
from pipelines.spark.views import find_dependencies, quote_text
from pipelines.verdict.cluster_evidence import AffectedPartitions, ClusterEvidence, ClusterFindings
from pipelines.verdict.failure_answers import assess_failure
from pipelines.verdict.judgement import Verdict, judge_cluster
from udfs.json_answers import to_json

# D3 and Observable Plot (ISC licence), from their packages.
_LIBRARIES = ("d3.min.js", "plot.umd.min.js")
_SCRIPTS = ("heat.js", "report.js")
_NEWEST = "SELECT cluster_id, snapshot_id FROM insights.snapshots WHERE newest"
_PARALLEL_QUERIES = 3
Rows = list[dict[str, Any]]
VERDICT_FIGURES = ("hotspots", "failures", "racks", "findings")  # figures that a verdict needs


def read_verdicts(store: Store, snapshots: Sequence[SnapshotKey]) -> dict[str, Verdict]:
    """Read what the verdicts of these snapshots need, and return the verdict of each cluster."""
    tables = _read_figures(store, VERDICT_FIGURES, snapshots)
    return {key.cluster_id: judge_rows(tables, key.cluster_id) for key in snapshots}


def judge_rows(tables: Mapping[str, pa.Table], cluster_id: str) -> Verdict:
    """Judge a cluster by the rows of VERDICT_FIGURES, by name."""
    return _judge(*(_filter(tables[name], cluster_id).to_pylist() for name in VERDICT_FIGURES))


def read_custom_failures(store: Store, snapshots: Sequence[SnapshotKey]) -> Rows:
    """Read the custom failures of these snapshots."""
    return list(_read_figures(store, ("custom_failures",), snapshots)["custom_failures"].to_pylist())


def _read_figures(store: Store, names: Sequence[str], snapshots: Sequence[SnapshotKey]) -> dict[str, pa.Table]:
    figures = [figure for figure in FIGURES if figure.name in names]
    run_sql = store.prepare_sql([name for figure in figures for name in figure.dependencies])
    with store.explain_faults():
        return {figure.name: run_sql(figure.query(sorted(snapshots))).toArrow() for figure in figures}


def _judge(hotspots: Rows, failures: Rows, racks: Rows, findings: Rows) -> Verdict:
    now = next((row for row in hotspots if row["scheme"] == "observed"), None)
    observed, by_rack = ([row for row in rows if row["scheme"] == "observed"] for rows in (failures, racks))
    return judge_cluster(ClusterEvidence(now, observed, by_rack, build_findings(findings)))


def build_findings(rows: Rows) -> ClusterFindings:
    """Return the findings on a cluster from its row of the figure `findings`."""
    known = {name: value for row in rows for name, value in row.items() if value is not None}
    issues = {row.pop("issue"): AffectedPartitions(**row) for row in known.pop("issues", ())}
    return ClusterFindings(issues=issues, **known)


class ReportData(NamedTuple):
    """What the report shows: a dict per cluster, with values as JSON takes them and the SQL of each figure."""

    clusters: list[dict[str, Any]]
    created_at: datetime  # UTC


def read_report_data(
    run_sql: Callable[[str], DataFrame], snapshots: Sequence[SnapshotKey], existing: Sequence[str]
) -> ReportData:
    """Run the queries of all figures for one snapshot per cluster; figures of tables that do not exist are empty."""
    figures = [figure for figure in FIGURES if set(figure.dependencies) <= set(existing)]
    ordered = sorted(snapshots)
    with ThreadPoolExecutor(_PARALLEL_QUERIES) as pool:
        queries = {f.name: pool.submit(lambda sql: run_sql(sql).toArrow(), f.query(ordered)) for f in figures}
        trend = pool.submit(_read_trend, run_sql, ordered, existing)
        tables = {name: query.result() for name, query in queries.items()}
        history = trend.result()
    own_tables = ({name: _filter(table, key.cluster_id) for name, table in tables.items()} for key in ordered)
    described = zip(ordered, own_tables, strict=True)
    clusters = [_describe_cluster(key, own, history.get(key.cluster_id, [])) for key, own in described]
    return ReportData(clusters, datetime.now(UTC))


def _read_trend(
    run_sql: Callable[[str], DataFrame], snapshots: Sequence[SnapshotKey], existing: Sequence[str]
) -> dict[str, Rows]:
    if "ops.runs" not in existing:
        return {}
    rows_by_cluster: dict[str, Rows] = {}
    for row in run_sql(trend_query([key.cluster_id for key in snapshots])).toArrow().to_pylist():
        row["as_of"] = row["as_of"].isoformat(timespec="seconds")
        rows_by_cluster.setdefault(row.pop("cluster_id"), []).append(row)
    return rows_by_cluster


def trend_query(clusters: Sequence[str]) -> str:
    """Return the query of TREND for these clusters."""
    return TREND.sql.format(clusters=", ".join(map(quote_text, dict.fromkeys(clusters))))


def _filter(table: pa.Table, cluster: str) -> pa.Table:
    return table.filter(pc.equal(table["cluster_id"], cluster)).drop_columns(["cluster_id"])


def _describe_cluster(key: SnapshotKey, tables: Mapping[str, pa.Table], trend: Rows) -> dict[str, Any]:
    def rows(name: str) -> Rows:
        return tables[name].to_pylist() if name in tables else []

    brokers, failures, sources, hotspots = rows("brokers"), rows("failures"), rows("sources"), rows("hotspots")
    metrics: dict[str, dict[str, Any]] = {}  # by name and scheme
    for row in rows("schemes"):
        metrics.setdefault(row["metric"], {})[row["scheme"]] = row["value"]
    worst: dict[str, list[list[Any]]] = {}  # by scheme: failed broker, ratio
    for row in failures:
        if row["worst_survivor_ratio"] is not None:
            worst.setdefault(row["scheme"], []).append([row["failed"], row["worst_survivor_ratio"]])
    names = ("one", "other", "worst_survivor_ratio", "newly_offline_partitions", "under_min_isr_partitions")
    pairs = ([row[name] for name in names] for row in rows("pairs"))
    return {
        "cluster_id": key.cluster_id,
        "snapshot_id": key.snapshot_id,
        "verdict": _judge(hotspots, failures, rows("racks"), rows("findings")),
        "sources": sources,
        "quarantined": sum(row["quarantined_records"] for row in sources),
        "hotspots": {row["scheme"]: row for row in hotspots},
        "metrics": metrics,
        "brokers": brokers,
        "racks_known": any(row["rack"] is not None for row in brokers),
        "failures": add_risks([row for row in failures if row["scheme"] == "observed"]),
        "custom_failures": add_risks(rows("custom_failures")),
        "worst": worst,
        "takeovers": _build_takeover_matrices(tables.get("takeovers"), [row["broker_id"] for row in brokers]),
        "pairs": [[round(x, 4) if isinstance(x, float) else x for x in pair] for pair in pairs],
        **{name: rows(name) for name in ("racks", "durability", "headroom", "topics", "moves")},
        # Where topics would be placed depends on the live brokers: without any, there is nothing to say.
        "origin": next(iter(rows("origin")), None) if brokers else None,
        "plans": rows("plan"),
        "trend": trend,
        "sql": {figure.name: figure.query([key]) for figure in FIGURES} | {"trend": trend_query([key.cluster_id])},
    }


def add_risks(failures: Rows) -> Rows:
    """Add to rows of gold.failure_summary the answer to "can it fail?" as `risk`."""
    return [{**row, "risk": assess_failure(row)} for row in failures]


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


def write_report(
    store: Store,
    file: Path,
    clusters: Sequence[str] = (),
    snapshots: Sequence[SnapshotKey] = (),
    only_these: bool = False,
) -> ReportData:
    """Write the report on snapshots and, unless only_these, the newest of other clusters; raise StoreError if none."""
    names, _ = find_dependencies([name for figure in (*FIGURES, TREND) for name in figure.dependencies])
    existing = [name for name in names if store.exists(name)]
    if "gold.scheme_comparison" not in existing or "ops.runs" not in existing:
        raise StoreError(f"there is nothing to report at {store.warehouse}. Create it: kafka-placement run SOURCE...")
    run_sql = store.prepare_sql([*names, "insights.snapshots"])
    with store.explain_faults():
        newest = [] if only_these else [SnapshotKey(*row) for row in run_sql(_NEWEST).collect()]
    covered = {key.cluster_id for key in snapshots}
    chosen = [*snapshots, *(key for key in newest if key.cluster_id not in covered)]
    known = sorted(key.cluster_id for key in chosen)
    for cluster in clusters:
        if cluster not in known:
            raise StoreError(f"there is no cluster {cluster!r} at {store.warehouse}. Clusters: {', '.join(known)}.")
    chosen = [key for key in chosen if not clusters or key.cluster_id in clusters]
    with store.explain_faults():
        data = read_report_data(run_sql, chosen, existing)
    write_page(data, file)
    return data


def render_page(data: ReportData) -> str:
    """Render the report as HTML."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(_asset("report.html"))
    plain = [_plain(to_json(cluster)) for cluster in data.clusters]
    text = json.dumps(plain, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    # Within a script element, no text may end the element or begin a comment.
    return template.render(
        title=data.clusters[0]["cluster_id"] if len(data.clusters) == 1 else f"{len(data.clusters)} Kafka clusters",
        clusters=data.clusters,
        created_at=data.created_at,
        version=__version__,
        style=_asset("report.css"),
        libraries=[_asset(name) for name in _LIBRARIES],
        scripts=[_asset(name) for name in _SCRIPTS],
        data=text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"),
    )


def write_page(data: ReportData, file: Path) -> None:
    """Replace the file by the report as a whole; raise SettingsError if it cannot be written."""
    text = render_page(data)
    temporary = file.with_name(f".{file.name}.new")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(file)
    except OSError as error:
        raise SettingsError(f"--report {file}: cannot be written: {error.strerror}. Name a file in a folder") from error


def _asset(name: str) -> str:
    return (resources.files("pipelines.report") / "assets" / name).read_text(encoding="utf-8")


def _plain(value: Any) -> Any:
    """Convert to values that JSON has, with floats rounded."""
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, str | int | bool) else str(value)
