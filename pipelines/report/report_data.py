"""What the report shows, read from the tables: a dict per cluster, with few rows of gold tables."""

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import StoreError
from pipelines.ingest.sources import SnapshotKey
from pipelines.report.broker_groups import (
    MAX_CELLS,
    MAX_ROWS,
    BrokerGroup,
    group_brokers,
    list_survivors,
    sum_pairs,
    sum_takeovers,
)
from pipelines.report.changes_since import compare_snapshots, find_earlier
from pipelines.report.figure_queries import FIGURES, OF_ALL_RUNS, SINCE, TREND, VERDICT
from pipelines.report.load_sections import compare_zone_traffic, find_capacity_source, summarize_growth, summarize_loads
from pipelines.report.overview import rank_urgency
from pipelines.spark.sql_session import SqlSession
from pipelines.spark.store import Store
from pipelines.spark.table_migrations import check_migrated
from pipelines.spark.views import find_dependencies
from pipelines.verdict.cluster_evidence import ClusterFindings
from pipelines.verdict.finding_rows import read_finding_rows
from pipelines.verdict.judgement import Verdict
from pipelines.verdict.recommended_plans import list_recommended_plans
from pipelines.verdict.snapshot_findings import read_row
from pipelines.verdict.verdict_points import NEWLY_OFFLINE, NEWLY_UNDER_MIN_ISR, Level, assess_failure

Rows = list[dict[str, Any]]
_NEWEST = "SELECT cluster_id, snapshot_id FROM insights.snapshots WHERE newest"
_PARALLEL_QUERIES = 3


def read_custom_failures(store: Store, snapshots: Sequence[SnapshotKey]) -> Rows:
    """Read the custom failures of these snapshots."""
    (figure,) = (figure for figure in FIGURES if figure.name == "custom_failures")
    with store.explain_faults():
        session = store.open_sql(figure.dependencies, snapshots)
        return list(session.run(figure.query(sorted(snapshots))).to_pylist())


class ReportData(NamedTuple):
    """What the report shows: a dict per cluster, the worst first, with values as JSON takes them."""

    clusters: list[dict[str, Any]]
    created_at: datetime  # UTC

    def count_levels(self) -> dict[Level, int]:
        """Return the number of clusters by the level of their verdict."""
        counts = Counter(cluster["verdict"].level for cluster in self.clusters)
        return {level: counts[level] for level in Level}


def read_report_data(
    session: SqlSession, snapshots: Sequence[SnapshotKey], existing: Sequence[str], trend: Mapping[str, Rows]
) -> ReportData:
    """Run the queries of all figures for one snapshot per cluster; figures of tables that do not exist are empty.

    trend: the rows of TREND by cluster.
    """
    figures = [figure for figure in FIGURES if set(figure.dependencies) <= set(existing)]
    ordered = sorted(snapshots)
    with ThreadPoolExecutor(_PARALLEL_QUERIES) as pool:
        queries = {f.name: pool.submit(session.run, f.query(ordered)) for f in figures}
        tables = {name: query.result() for name, query in queries.items()}
    clusters = []
    for key in ordered:
        own = {name: table.filter(pc.equal(table["cluster_id"], key.cluster_id)) for name, table in tables.items()}
        own = {name: table.drop_columns(["cluster_id"]) for name, table in own.items()}
        clusters.append(_describe_cluster(key, own, trend.get(key.cluster_id, [])))
    return ReportData(sorted(clusters, key=rank_urgency), datetime.now(UTC))


def find_worst_failures(failures: Rows, racks: Rows) -> dict[str, int | None]:
    """Find the most partitions that the failure of one broker or rack would affect; None = no broker or rack is known.

    Keys: broker, rack (newly offline), blocked (newly below min.insync.replicas, if one broker fails),
    blocked_by_rack (the same, if one rack fails).
    """
    rules = {
        "broker": (NEWLY_OFFLINE, failures),
        "rack": (NEWLY_OFFLINE, racks),
        "blocked": (NEWLY_UNDER_MIN_ISR, failures),
        "blocked_by_rack": (NEWLY_UNDER_MIN_ISR, racks),
    }
    return {name: max((rule.count(row) for row in rows), default=None) for name, (rule, rows) in rules.items()}


def _read_trend(session: SqlSession, snapshots: Sequence[SnapshotKey]) -> dict[str, Rows]:
    rows_by_cluster: dict[str, Rows] = {}
    for row in session.run(TREND.query(snapshots)).to_pylist():
        row["as_of"] = row["as_of"].astimezone(UTC).isoformat(timespec="seconds")
        rows_by_cluster.setdefault(row.pop("cluster_id"), []).append(row)
    return rows_by_cluster


def _read_changes(store: Store, data: ReportData, trend: Mapping[str, Rows], since: datetime | None) -> None:
    """Add to each cluster what has changed since an earlier snapshot, if there is one."""
    newest = {one["cluster_id"]: SnapshotKey(one["cluster_id"], one["snapshot_id"]) for one in data.clusters}
    earlier = {name: then for name, key in newest.items() if (then := find_earlier(trend.get(name, []), key, since))}
    if not earlier:
        return
    keys_then = sorted(then.key for then in earlier.values())
    keys = sorted([*keys_then, *(newest[name] for name in earlier)])
    figures = [figure for figure in (*SINCE, VERDICT) if all(map(store.exists, figure.dependencies))]
    rows: dict[str, dict[str, Rows]] = {name: {figure.name: [] for figure in (*SINCE, VERDICT)} for name in earlier}
    names = [name for figure in figures if figure not in OF_ALL_RUNS for name in figure.dependencies]
    of_snapshots = store.open_sql(names, keys)
    for figure in figures:
        # Plans were made for any snapshot.
        session = store.open_sql(figure.dependencies) if figure in OF_ALL_RUNS else of_snapshots
        of_figure = keys_then if figure is VERDICT else keys
        for row in session.run(figure.query(of_figure)).to_pylist():
            rows[row["cluster_id"]][figure.name].append(row)
    for cluster in data.clusters:
        then = earlier.get(name := cluster["cluster_id"])
        if then and rows[name]["verdict"]:  # else it is of an earlier version
            verdicts = read_finding_rows(rows[name]["verdict"]), cluster["verdict"]
            cluster["since"] = compare_snapshots(newest[name], then, verdicts, rows[name], cluster["currency"])
            cluster["sql"] |= {figure.name: figure.query([then.key, newest[name]]) for figure in SINCE}


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
    racks, facts = rows("racks"), rows("findings")
    findings = read_row(facts[0]) if facts else ClusterFindings()
    observed, observed_racks = ([row for row in part if row["scheme"] == "observed"] for part in (failures, racks))
    verdict = read_finding_rows(rows("verdict")).name_source("SOURCE", key.cluster_id)
    origin = next(iter(rows("origin")), None) if brokers else None
    survivors, network = rows("survivor_bytes"), rows("network")
    plan_metrics: dict[str, dict[str, list[float | None]]] = {}  # by goal and name: before and after the plan
    for row in rows("plan_metrics"):
        plan_metrics.setdefault(row["goal"], {})[row["metric"]] = [row["before"], row["after"]]
    plans = [{**plan, "metrics": plan_metrics.get(plan["goal"], {})} for plan in rows("plan")]
    return {
        "cluster_id": key.cluster_id,
        "snapshot_id": key.snapshot_id,
        "as_of": max((row["as_of"] for row in trend if row["snapshot_id"] == key.snapshot_id), default=None),
        "currency": max((row["currency"] or "" for row in trend if row["snapshot_id"] == key.snapshot_id), default=""),
        "verdict": verdict,
        "findings": findings,
        "sources": sources,
        "hotspots": {row["scheme"]: row for row in hotspots},
        "metrics": metrics,
        "brokers": brokers,
        "racks_known": any(row["rack"] is not None for row in brokers),
        "failures": add_risks(observed, survivors),
        "rack_failures": add_risks(observed_racks, survivors),
        "worst_failures": find_worst_failures(observed, observed_racks),
        "custom_failures": add_risks(rows("custom_failures"), survivors),
        "worst": worst,
        "racks": racks,
        **describe_broker_pairs(brokers, tables),
        **{name: rows(name) for name in ("topics_at_risk", "durability", "headroom", "over_capacity")},
        "network": network,
        "capacity_source": find_capacity_source(rows("headroom")),
        "loads": summarize_loads(rows("loads"), network, findings.warnings),
        "zone_traffic": compare_zone_traffic(rows("zone_traffic"), plans, _list_goals(verdict)),
        "growth": summarize_growth(rows("growth")),
        "topics": [_shorten_topic(row) for row in rows("topics")],
        # Where topics would be placed depends on the live brokers: without any, there is nothing to say.
        "origin": origin,
        "manual_topics": rows("manual_topics") if origin else [],
        **select_plans(verdict, plans, rows("moves")),
        "trend": trend,
        "since": None,
        "sql": {figure.name: figure.query([key]) for figure in (*FIGURES, TREND)},
    }


def select_plans(verdict: Verdict, plans: Rows, moves: Rows) -> dict[str, Any]:
    """Select the plans that the verdict recommends from rows of gold.plans, with their metrics, and gold.plan_moves.

    Keys: plans (by goal), plan and moves of the first goal that is recommended (None and empty if gold.plans lacks it).
    """
    goals = _list_goals(verdict)
    by_goal = {plan["goal"]: plan for plan in plans if plan["goal"] in goals}
    plan = by_goal.get(goals[0]) if goals else None
    return {"plans": by_goal, "plan": plan, "moves": [move for move in moves if plan and move["goal"] == plan["goal"]]}


def _list_goals(verdict: Verdict) -> list[str]:
    return [plan.goal for plan in list_recommended_plans(verdict)]


def add_risks(failures: Rows, survivors: Sequence[Mapping[str, Any]] = ()) -> Rows:
    """Add to rows of gold.failure_summary the answer to "can it fail?" as `risk`.

    survivors: rows of the figure `survivor_bytes`, which are added by `scenario`; None = unknown.
    """
    by_scenario = {row["scenario"]: row for row in survivors}
    return [
        {**row, "risk": assess_failure(row), "survivor_bytes": by_scenario.get(row["scenario"])} for row in failures
    ]


def _shorten_topic(row: dict[str, Any]) -> dict[str, Any]:
    """Turn the brokers of a topic into lists of broker, leaders and replicas."""
    names = ("broker_id", "leaders", "replicas")
    return {**row, "broker_list": [[broker[name] for name in names] for broker in row["broker_list"]]}


def describe_broker_pairs(brokers: Rows, tables: Mapping[str, pa.Table]) -> dict[str, Any]:
    """Return takeovers and failures of two brokers, broker by broker, or for many brokers group by group."""
    ids = [row["broker_id"] for row in brokers]
    groups = group_brokers(brokers) if len(ids) > MAX_ROWS else []
    is_summed = len(ids) > MAX_CELLS
    cells = groups if is_summed else [BrokerGroup(str(broker), [broker]) for broker in ids]
    takeovers, pairs = tables.get("takeovers"), tables.get("pairs")
    columns = ("one", "other", "worst_survivor_ratio", "newly_offline_partitions", "newly_under_min_isr_partitions")
    if pairs is None:
        rows: list[list[Any]] = []
    elif is_summed:
        rows = sum_pairs(pairs, groups)
    else:
        values = zip(*(pairs[name].to_pylist() for name in columns), strict=True)
        rows = [[round(x, 4) if isinstance(x, float) else x for x in row] for row in values]
    return {
        "groups": [group._asdict() for group in groups],
        "takeovers": {
            "names": [cell.name for cell in cells],
            "schemes": sum_takeovers(takeovers, cells),
            "survivors": list_survivors(takeovers) if is_summed else None,
        },
        "pairs": rows,
    }


def read_report(
    store: Store,
    clusters: Sequence[str] = (),
    snapshots: Sequence[SnapshotKey] = (),
    only_these: bool = False,
    since: datetime | None = None,
) -> ReportData:
    """Read the report on snapshots and, unless only_these, the newest of other clusters; raise StoreError if none.

    since: each cluster is compared with its last snapshot by this time; None = a week before its newest.
    """
    names, _ = find_dependencies([name for figure in (*FIGURES, TREND) for name in figure.dependencies])
    existing = [name for name in names if store.exists(name)]
    if "gold.scheme_comparison" not in existing or "ops.runs" not in existing:
        raise StoreError(f"there is nothing to report at {store.warehouse}. Create it: kafka-placement run SOURCE...")
    check_migrated(store)
    store.check_versions(["ops.runs"])
    with store.explain_faults():
        session = store.open_sql([*TREND.dependencies, "insights.snapshots"])
        newest = [] if only_these else [SnapshotKey(**row) for row in session.run(_NEWEST).to_pylist()]
    covered = {key.cluster_id for key in snapshots}
    chosen = [*snapshots, *(key for key in newest if key.cluster_id not in covered)]
    known = sorted(key.cluster_id for key in chosen)
    for cluster in clusters:
        if cluster not in known:
            raise StoreError(f"there is no cluster {cluster!r} at {store.warehouse}. Clusters: {', '.join(known)}.")
    chosen = [key for key in chosen if not clusters or key.cluster_id in clusters]
    with store.explain_faults():
        trend = _read_trend(session, chosen)
        data = read_report_data(store.open_sql(names, chosen), chosen, existing, trend)
        _read_changes(store, data, trend, since)
        return data
