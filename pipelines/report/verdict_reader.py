"""Verdicts of snapshots, read from the tables that they need: for the report, the summary of `run`, and its plans."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from pipelines.ingest.sources import SnapshotKey
from pipelines.report.figure_queries import FIGURES
from pipelines.spark.sql_session import SparkSql, SqlSession
from pipelines.spark.views import use_temporary_names
from pipelines.verdict.cluster_evidence import ClusterEvidence, ClusterFindings
from pipelines.verdict.judgement import Verdict, judge_cluster
from pipelines.verdict.snapshot_findings import read_row

Rows = list[dict[str, Any]]
VERDICT_FIGURES = ("hotspots", "failures", "racks", "findings")  # figures that a verdict needs
_FIGURES = [figure for figure in FIGURES if figure.name in VERDICT_FIGURES]
VERDICT_TABLES = tuple(dict.fromkeys(name for figure in _FIGURES for name in figure.dependencies))
_PARALLEL_QUERIES = 2


def judge_frames(frames: Mapping[str, DataFrame], snapshots: Sequence[SnapshotKey]) -> dict[str, Verdict]:
    """Judge the cluster of each snapshot by frames of VERDICT_TABLES, by name."""
    for name in VERDICT_TABLES:
        frames[name].createOrReplaceTempView(use_temporary_names(name))
    return judge_snapshots(SparkSql(frames[VERDICT_TABLES[0]].sparkSession, has_catalog=False), snapshots)


def judge_snapshots(session: SqlSession, snapshots: Sequence[SnapshotKey]) -> dict[str, Verdict]:
    """Judge the cluster of each snapshot by VERDICT_TABLES, which a session has opened."""
    with ThreadPoolExecutor(_PARALLEL_QUERIES) as pool:
        results = pool.map(lambda figure: session.run(figure.query(sorted(snapshots))), _FIGURES)
        tables = {figure.name: rows for figure, rows in zip(_FIGURES, results, strict=True)}
    return {key.cluster_id: judge_rows(tables, key.cluster_id) for key in snapshots}


def judge_rows(tables: Mapping[str, pa.Table], cluster_id: str) -> Verdict:
    """Judge a cluster by the rows of VERDICT_FIGURES, by name."""
    rows = (select_cluster(tables[name], cluster_id).to_pylist() for name in VERDICT_FIGURES)
    hotspots, failures, racks, findings = rows
    return judge_figures(hotspots, failures, racks, build_findings(findings))


def judge_figures(hotspots: Rows, failures: Rows, racks: Rows, findings: ClusterFindings) -> Verdict:
    """Judge a cluster by its rows of the figures."""
    now = next((row for row in hotspots if row["scheme"] == "observed"), None)
    observed, by_rack = ([row for row in rows if row["scheme"] == "observed"] for rows in (failures, racks))
    return judge_cluster(ClusterEvidence(now, observed, by_rack, findings))


def build_findings(rows: Rows) -> ClusterFindings:
    """Return the findings on a cluster from its row of the figure `findings`."""
    if not rows:
        return ClusterFindings(warnings=("gold.cluster_findings has no row of this snapshot: run the cluster again",))
    return read_row({name: value for name, value in rows[0].items() if name != "snapshot_id"})


def select_cluster(table: pa.Table, cluster_id: str) -> pa.Table:
    """Select the rows of a cluster, without its name."""
    return table.filter(pc.equal(table["cluster_id"], cluster_id)).drop_columns(["cluster_id"])
