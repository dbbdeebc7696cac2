"""The report as one HTML file, with small rows of gold tables and chart libraries inside: it needs no network."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from jinja2 import Environment, FunctionLoader, StrictUndefined

from pipelines import __version__
from pipelines.errors import SettingsError
from pipelines.ingest.sources import SnapshotKey, Source
from pipelines.report.figure_queries import BLOCKED_IF_BROKER_FAILS, RANKED_ISSUES, TOPICS_AT_RISK
from pipelines.report.overview import find_priority, group_by_horizon
from pipelines.report.planned_work import describe_assumptions, list_cluster_plans, list_planned_work
from pipelines.report.report_data import ReportData, read_report
from pipelines.spark.store import Store
from pipelines.verdict.cluster_evidence import PartitionIssue, name_with_noun
from pipelines.verdict.verdict_points import VerdictPoint
from pipelines.whole_files import replace_text
from udfs.json_answers import to_json
from udfs.planning.goal_registry import GOALS
from udfs.wording import count_of, format_bytes, format_duration

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


_MAX_SHOWN, MAX_LISTED = 30, 1_000  # topics in the table, and those that its search finds
_FEW_MORE = 15  # topics that are rather shown than left out


# Issues of partitions: what is wrong in words, and which statements of a verdict say what to do.
ISSUES: dict[str, tuple[str, tuple[str, ...]]] = {
    PartitionIssue.OFFLINE: ("offline now", ("offline",)),
    PartitionIssue.UNDER_MIN_ISR: ("block acks=all producers now", ("under_min_isr",)),
    PartitionIssue.OFFLINE_IF_BROKER_FAILS: ("go offline if one broker fails", ("broker_offline",)),
    PartitionIssue.OFFLINE_IF_RACK_FAILS: ("go offline if one rack fails", ("rack_offline",)),
    BLOCKED_IF_BROKER_FAILS: ("block acks=all producers if one broker fails", ("broker_under_min_isr",)),
    PartitionIssue.UNDER_REPLICATED: ("under-replicated", ("down", "under_replicated", "failed_log_dir")),
}


class TopicAtRisk(NamedTuple):
    """The partitions of a topic with one issue."""

    topic: str
    partitions: int
    replicas: str  # of each partition, as in `1 to 3`
    size: str  # one replica of each partition, together
    cause: str


class RiskGroup(NamedTuple):
    """Topics of one cluster with the same issue, which need the same next step."""

    cluster_index: int
    cluster_id: str
    issue: str  # in words
    total: str  # all of them, also those that are not listed, as in `3 topics, 12 partitions, 66.2 GB`
    point: VerdictPoint | None  # the finding of the verdict
    topics: list[TopicAtRisk]


class TopicsAtRisk(NamedTuple):
    """What the table shows: the groups, the most serious first."""

    groups: list[RiskGroup]
    listed: int  # rows in groups
    total: int  # rows there are

    @property
    def rows_at_first(self) -> int:
        """Return how many rows to show at first."""
        return self.listed if self.total <= _MAX_SHOWN + _FEW_MORE else _MAX_SHOWN


def find_topics_at_risk(clusters: Sequence[Mapping[str, Any]]) -> TopicsAtRisk:
    """Group the topics at risk of clusters, which are in the order of rank_urgency; the first MAX_LISTED."""
    ranked = [
        (RANKED_ISSUES.index(row["issue"]), index, row)
        for index, cluster in enumerate(clusters)
        for row in cluster["topics_at_risk"]
    ]
    ranked.sort(key=lambda item: item[:2])  # within a cluster and an issue, the order of the rows stays
    listed = ranked[:MAX_LISTED]
    groups = [
        _make_group(index, clusters[index], RANKED_ISSUES[rank], [row for *_, row in items])
        for (rank, index), items in groupby(listed, key=lambda item: item[:2])
    ]
    total = sum(cluster["topics_at_risk"][0]["rows"] for cluster in clusters if cluster["topics_at_risk"])
    return TopicsAtRisk(groups, len(listed), total)


def _make_group(index: int, cluster: Mapping[str, Any], issue: str, rows: Sequence[Mapping[str, Any]]) -> RiskGroup:
    words, kinds = ISSUES[issue]
    point = next((point for point in cluster["verdict"].points if point.kind in kinds), None)
    row = rows[0]  # each has the totals
    size = "size unknown" if row["issue_bytes"] is None else format_bytes(row["issue_bytes"])
    if 0 < row["issue_sized_partitions"] < row["issue_partitions"]:
        size += " (of known size)"
    total = f"{count_of(row['issue_topics'], 'topic')}, {count_of(row['issue_partitions'], 'partition')}, {size}"
    return RiskGroup(index, cluster["cluster_id"], words, total, point, list(map(_describe_topic, rows)))


def _describe_topic(row: Mapping[str, Any]) -> TopicAtRisk:
    fewest, most = row["replicas_min"], row["replicas_max"]
    size = "unknown" if row["size_bytes"] is None else format_bytes(row["size_bytes"])
    if 0 < row["sized_partitions"] < row["partitions"]:
        size = f"over {size}"
    replicas = str(most) if fewest == most else f"{fewest} to {most}"
    return TopicAtRisk(row["topic"], row["partitions"], replicas, size, "; ".join(_describe_cause(row)))


def _describe_cause(row: Mapping[str, Any]) -> Iterator[str]:
    issue, single, lagging = row["issue"], row["single_replica_partitions"], row["under_replicated_partitions"]
    if single == row["partitions"]:
        yield "replication factor 1"
    elif single:
        yield f"replication factor 1 ({count_of(single, 'partition')})"
    if issue == PartitionIssue.OFFLINE_IF_RACK_FAILS:
        racks = ", ".join(row["leader_racks"])
        yield f"{'in-sync replicas' if lagging else 'all replicas'} in one rack ({racks})"
    elif issue in (PartitionIssue.UNDER_MIN_ISR, BLOCKED_IF_BROKER_FAILS):
        place = "below" if issue == PartitionIssue.UNDER_MIN_ISR else "at"
        yield f"{place} min.insync.replicas ({row['effective_min_isr']})"
    elif issue == PartitionIssue.OFFLINE_IF_BROKER_FAILS and single < row["partitions"]:
        yield "one replica in sync"
    if failed := row["failed_brokers"]:
        yield f"failed {name_with_noun(failed)}"
    elif lagging and issue != PartitionIssue.OFFLINE_IF_BROKER_FAILS:
        yield "replicas out of sync"
