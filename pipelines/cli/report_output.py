"""`report`: the page of the newest snapshot of each cluster, from the tables alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipelines.errors import StoreError
from pipelines.ingest.sources import SnapshotKey
from pipelines.report.figure_queries import FIGURES, TREND
from pipelines.report.html_page import write_page
from pipelines.report.report_data import Facts, facts_of
from pipelines.spark.store import Store
from pipelines.spark.views import needed

_NEWEST = "SELECT cluster_id, snapshot_id FROM insights.snapshots WHERE newest"


def report(
    store: Store, file: Path, clusters: Sequence[str] = (), snapshots: Sequence[SnapshotKey] = (), alone: bool = False
) -> Facts:
    """Write the page of these snapshots, and of the newest of every other cluster. Return what it shows.

    clusters: only these, () = all.   alone: only the snapshots'.
    """
    names, _ = needed([name for figure in (*FIGURES, TREND) for name in figure.tables])
    there = [name for name in names if store.exists(name)]
    if "gold.scheme_comparison" not in there or "ops.runs" not in there:
        raise StoreError(f"there is nothing to report at {store.warehouse}. Make it: kafka-placement run SOURCE...")
    run_sql = store.querier([*names, "insights.snapshots"])
    newest = [] if alone else [SnapshotKey(*row) for row in run_sql(_NEWEST).collect()]
    named = {key.cluster_id for key in snapshots}
    chosen = [*snapshots, *(key for key in newest if key.cluster_id not in named)]
    known = sorted(key.cluster_id for key in chosen)
    for cluster in clusters:
        if cluster not in known:
            raise StoreError(f"there is no cluster {cluster!r} at {store.warehouse}. Clusters: {', '.join(known)}.")
    chosen = [key for key in chosen if not clusters or key.cluster_id in clusters]
    facts = facts_of(run_sql, chosen, there)
    write_page(facts, file)
    return facts
