"""Where a cluster's bytes per second are from, what they lack, and the worst survivors of failures by bytes."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from udfs.plurals import count_of

_SOURCES = {
    "partition": "as sources show them",
    "offsets": "by the records appended, of what leaders transfer of the topic",
    "even": "as even shares of what leaders transfer of the topic",
    "topic": "as shares of what is transferred of the topic",
}
_METRICS_WARNING = " metrics: "  # in warnings, as in `loads-from-metrics.txt line 2: metrics: broker 3 has no series`


class LoadSummary(NamedTuple):
    """Where loads are from, and what they lack."""

    header: str  # which metrics over which time; empty = they are not from --metrics
    sources: list[str]  # how rates are known, as in `60 % of the partitions as sources show them`
    gaps: list[str]


def summarize_loads(
    rows: Sequence[Mapping[str, Any]], network: Sequence[Mapping[str, Any]], warnings: Sequence[str]
) -> LoadSummary | None:
    """Summarize the loads of a cluster by rows of the figures `loads` and `network`; None if no load is known."""
    if not rows:
        return None
    (row,) = rows
    known = sum(one["n"] for one in row["load_sources"])
    sources = [
        f"{_format_share(one['n'], row['partitions'])} of the partitions {_SOURCES[one['load_source']]}"
        for one in row["load_sources"]
    ]
    gaps = [text.partition(_METRICS_WARNING)[2] for text in warnings if _METRICS_WARNING in text]
    if unknown := row["partitions"] - known:
        gaps.insert(0, f"The loads of {count_of(unknown, 'partition')} are unknown.")
    for way in ("in", "out"):
        if network and all(one[f"network_bytes_{way}_per_s"] is None for one in network):
            gaps.insert(0, f"Bytes {way} of brokers are unknown.")
    return LoadSummary((row["header"] or "").removeprefix("loads from "), sources, gaps)


def add_survivor_bytes(
    failures: Sequence[Mapping[str, Any]], survivors: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Add to failures, by `scenario`, the row of the figure `survivor_bytes` as `survivor_bytes`; None = unknown."""
    by_scenario = {row["scenario"]: row for row in survivors}
    return [{**row, "survivor_bytes": by_scenario.get(row["scenario"])} for row in failures]


def find_capacity_source(headroom: Sequence[Mapping[str, Any]]) -> str | None:
    """Return where capacities for bytes are from, by rows of gold.headroom: file, uniform, or None without loads."""
    sources = {row["capacity_source"] for row in headroom if row["quantity"] != "leaders"}
    return "file" if "file" in sources else next(iter(sources), None)


def _format_share(part: int, whole: int) -> str:
    percent = 100 * part / whole
    return "under 1 %" if percent < 1 else f"{percent:.0f} %" if part == whole else f"{min(percent, 99):.0f} %"
