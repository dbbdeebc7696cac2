"""The report as one HTML file, with its data, styles, scripts and chart libraries inside; it needs no network."""

import json
import math
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from pipelines import __version__
from pipelines.errors import SettingsError, StoreError
from pipelines.ingest.sources import SnapshotKey
from pipelines.report.figure_queries import FIGURES, TREND
from pipelines.report.report_data import ReportData, read_report_data
from pipelines.spark.store import Store
from pipelines.spark.views import find_dependencies
from udfs.json_output import to_json

# D3 and Observable Plot (ISC licence), from their packages.
_LIBRARIES = ("d3.min.js", "plot.umd.min.js")
_SCRIPTS = ("heat.js", "report.js")


_NEWEST = "SELECT cluster_id, snapshot_id FROM insights.snapshots WHERE newest"


def write_report(
    store: Store,
    file: Path,
    clusters: Sequence[str] = (),
    snapshots: Sequence[SnapshotKey] = (),
    only_these: bool = False,
) -> ReportData:
    """Write the report on these snapshots, and on the newest of every other cluster.

    Args:
        store: The tables.
        file: The page to write.
        clusters: Only these clusters; empty = all.
        snapshots: Snapshots to show whether or not they are the newest.
        only_these: Whether to leave out the other clusters.

    Returns:
        What the page shows.

    Raises:
        StoreError: If there is nothing to report, or no such cluster.
    """
    names, _ = find_dependencies([name for figure in (*FIGURES, TREND) for name in figure.tables])
    existing = [name for name in names if store.exists(name)]
    if "gold.scheme_comparison" not in existing or "ops.runs" not in existing:
        raise StoreError(f"there is nothing to report at {store.warehouse}. Create it: kafka-placement run SOURCE...")
    run_sql = store.prepare_sql([*names, "insights.snapshots"])
    newest = [] if only_these else [SnapshotKey(*row) for row in run_sql(_NEWEST).collect()]
    covered = {key.cluster_id for key in snapshots}
    chosen = [*snapshots, *(key for key in newest if key.cluster_id not in covered)]
    known = sorted(key.cluster_id for key in chosen)
    for cluster in clusters:
        if cluster not in known:
            raise StoreError(f"there is no cluster {cluster!r} at {store.warehouse}. Clusters: {', '.join(known)}.")
    chosen = [key for key in chosen if not clusters or key.cluster_id in clusters]
    data = read_report_data(run_sql, chosen, existing)
    write_page(data, file)
    return data


def render_page(data: ReportData) -> str:
    """Render the report as HTML."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(_asset("report.html"))
    return template.render(
        title=_title(data),
        clusters=data.clusters,
        created_at=data.created_at,
        version=__version__,
        style=_asset("report.css"),
        libraries=[_asset(name) for name in _LIBRARIES],
        scripts=[_asset(name) for name in _SCRIPTS],
        data=_embedded([_plain(to_json(cluster)) for cluster in data.clusters]),
    )


def write_page(data: ReportData, file: Path) -> None:
    """Write the report; the file is replaced as a whole, or stays as it was.

    Raises:
        SettingsError: If the file cannot be written.
    """
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


def _title(data: ReportData) -> str:
    names = [cluster["cluster_id"] for cluster in data.clusters]
    return names[0] if len(names) == 1 else f"{len(names)} Kafka clusters"


def _embedded(value: Any) -> str:
    """Return JSON for a script element: no text in it can end the element or begin a comment."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _plain(value: Any) -> Any:
    """Convert to values that JSON has, with floats rounded."""
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, str | int | bool) else str(value)
