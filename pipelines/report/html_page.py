"""The report as one HTML file, with small rows of gold tables and chart libraries inside: it needs no network."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined

from pipelines import __version__
from pipelines.errors import SettingsError
from pipelines.ingest.sources import SnapshotKey, Source
from pipelines.report.figure_queries import TOPICS_AT_RISK
from pipelines.report.overview import find_priority, group_by_horizon
from pipelines.report.planned_work import describe_assumptions, list_cluster_plans, list_planned_work
from pipelines.report.report_data import ReportData, read_report
from pipelines.report.topics_at_risk import find_topics_at_risk
from pipelines.spark.store import Store
from pipelines.whole_files import replace_text
from udfs.json_answers import to_json
from udfs.planning.goal_registry import GOALS
from udfs.quantities import format_bytes, format_duration

# D3 and Observable Plot (ISC licence), from their packages.
_LIBRARIES = ("d3.min.js", "plot.umd.min.js")
_SCRIPTS = ("heat.js", "charts.js", "topics.js", "report.js")
_MAX_OPEN = 3  # with more clusters, they are folded
_NOTES = ("one_rack",)  # findings of the level OK that are no good news
_COMMAND = re.compile(r"(?<=: )(kafka-[a-z-]+ (?:(?!; ).)+)")
_CHANGE = re.compile(r"([0-9.,]+(?: [kMGTP]?B)? -> [0-9.,]+(?: [kMGTP]?B)?)")
# What the scripts draw; the rest of a cluster is in the HTML.
_DRAWN = (
    *("cluster_id", "brokers", "groups", "worst", "takeovers", "pairs", "racks", "durability", "trend", "plan"),
    *("topics", "network"),
)
# Figures whose SQL the scripts show, below the charts.
_CHARTED = ("brokers", "network", "failures", "takeovers", "pairs", "racks", "durability", "trend", "plan")


def write_report(
    store: Store,
    file: Path,
    clusters: Sequence[str] = (),
    sources: Mapping[SnapshotKey, Source] = MappingProxyType({}),
    only_these: bool = False,
) -> ReportData:
    """Write the report on the snapshots of sources and, unless only_these, the newest of other clusters.

    Raises: StoreError if there are none.
    """
    data = read_report(store, clusters, list(sources), only_these)
    arguments = {key.cluster_id: source.argument for key, source in sources.items()}
    for cluster in data.clusters:
        name = cluster["cluster_id"]
        if argument := arguments.get(name):
            cluster["verdict"] = cluster["verdict"].name_source(argument, name)
    write_page(data, file)
    return data


def render_page(data: ReportData) -> str:
    """Render the report as HTML."""
    environment = Environment(
        loader=FunctionLoader(_asset), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"bytes": format_bytes, "duration": format_duration, "split_commands": _COMMAND.split}
    environment.filters["split_changes"] = _CHANGE.split
    environment.filters |= {"planned_work": list_cluster_plans, "assumptions": describe_assumptions}
    environment.filters["goal_label"] = lambda name: GOALS[name].label
    drawn = [
        {name: one[name] for name in _DRAWN} | {"sql": {name: one["sql"][name] for name in _CHARTED}}
        for one in data.clusters
    ]
    plain = [_plain(to_json(cluster)) for cluster in drawn]
    text = json.dumps(plain, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    # Within a script element, no text may end the element or begin a comment.
    return environment.get_template("report.html").render(
        title=data.clusters[0]["cluster_id"] if len(data.clusters) == 1 else f"{len(data.clusters)} Kafka clusters",
        clusters=data.clusters,
        levels=data.count_levels(),
        priority=find_priority(data.clusters),
        horizons=group_by_horizon(data.clusters),
        work=list_planned_work(data.clusters),
        at_risk=find_topics_at_risk(data.clusters),
        at_risk_sql=TOPICS_AT_RISK.query(SnapshotKey(c["cluster_id"], c["snapshot_id"]) for c in data.clusters),
        notes=_NOTES,
        is_open=len(data.clusters) <= _MAX_OPEN,
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
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_text(file, text)
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
