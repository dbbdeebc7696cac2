"""What a run does beside its stages: its report, and thresholds that may be crossed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Any

from pipelines.cli.report_output import report
from pipelines.config.settings import StoreSettings
from pipelines.errors import SettingsError
from pipelines.ingest.sources import SnapshotKey, Source
from pipelines.report.alerts import Alert, alerts_of
from pipelines.report.alerts import crossed as crossed_by
from pipelines.runner import Run
from pipelines.spark.store import Store
from pipelines.stages.scheme_comparison_stage import METRICS


def alerts(texts: Sequence[str], whole: bool, sources: Sequence[Source]) -> list[Alert]:
    """What is asked, before anything runs. whole: whether the run makes the metrics."""
    if texts and not whole:
        raise SettingsError("--alert needs gold.scheme_comparison: let the run go on to the end, without --to")
    return alerts_of(texts, METRICS, [source.cluster_id for source in sources])


def page(asked: Path | None, store: StoreSettings, wanted: bool) -> Path | None:
    """Where the report goes: as asked, else beside a warehouse that is a folder; None = there is none."""
    if not wanted:
        if asked is not None:
            raise SettingsError(f"--report {asked}: there is nothing to report before gold.scheme_comparison is made")
        return None
    if asked is not None or not store.in_folder:
        return asked
    folder = Path(store.warehouse)
    return folder.with_name(f"{folder.resolve().name}-report.html")


def write_report(
    store: Store, file: Path, snapshots: Sequence[SnapshotKey], work: Run, alone: bool
) -> dict[str, dict[str, Any]]:
    """Write the report: of these snapshots and, unless they stand alone, of all other clusters. Return the verdicts."""
    began = monotonic()
    facts = report(store, file, snapshots=snapshots, alone=alone)
    work.seconds["report"] = monotonic() - began
    return {cluster["cluster_id"]: cluster["verdict"] for cluster in facts.clusters}


def keep_views(store: Store) -> str:
    """Why the views are not in the catalog; "" = they are, or the tables are in a folder.

    A run that has written all of its tables does not fail for want of a right to make views.
    """
    from pyspark.errors import PySparkException

    try:
        store.keep_views()
    except PySparkException as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        return f"the views of schema insights were not made: {said[0]}"
    return ""


def crossed(store: Store, snapshots: Sequence[SnapshotKey], alerts: Sequence[Alert]) -> tuple[list[str], list[str]]:
    """Of the clusters as they are: thresholds that are crossed, and such as have nothing to look at, a line each."""
    if not alerts:
        return [], []
    rows = store.rows("gold.scheme_comparison", snapshots, ("cluster_id", "scheme", "metric", "value"))
    values = {(row["cluster_id"], row["metric"]): row["value"] for row in rows if row["scheme"] == "observed"}
    return crossed_by(alerts, [key.cluster_id for key in snapshots], values)
