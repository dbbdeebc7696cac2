"""What the report says has changed since an earlier snapshot: risks, sizes, brokers, topics, and plans carried out."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from pipelines.ingest.sources import SnapshotKey
from pipelines.tables.growth_tables import ForecastKind
from pipelines.verdict.judgement import Verdict
from pipelines.verdict.risk_findings import QUANTITIES
from pipelines.verdict.verdict_points import Level, VerdictPoint
from udfs.wording import count_of, format_bytes, format_duration, join_names

_WEEK = timedelta(days=7)
_TOTALS = ("partitions", "replicas", "size_bytes", "bytes_in_per_s", "bytes_out_per_s")
_RISKS = (Level.AT_RISK, Level.WARNING)


class ChangesSince(NamedTuple):
    """What has changed in a cluster since an earlier snapshot."""

    as_of: str  # time of the earlier snapshot (UTC)
    new: list[VerdictPoint]  # findings of a kind that there was none of; of the levels At risk and Warning
    gone: list[VerdictPoint]
    changed: list[tuple[VerdictPoint, VerdictPoint]]  # findings that count more or less than before: then and now
    facts: list[tuple[str, str]]  # a quantity, and what it was and is, in words


class EarlierSnapshot(NamedTuple):
    """A snapshot to compare with."""

    key: SnapshotKey
    as_of: str  # when it was seen (UTC)


def find_earlier(
    trend: Sequence[Mapping[str, Any]], newest: SnapshotKey, since: datetime | None
) -> EarlierSnapshot | None:
    """Return the snapshot to compare with: the last that was seen by `since`, else the first one.

    trend: rows of the figure, by time. since: None = a week before the newest. Returns None if the cluster was not
    seen earlier, or was the same then.
    """
    times = {row["as_of"]: row["snapshot_id"] for row in trend}
    last = max((when for when, snapshot in times.items() if snapshot == newest.snapshot_id), default=None)
    if last is None:
        return None
    limit = since or datetime.fromisoformat(last) - _WEEK
    earlier = [when for when in times if when < last]
    chosen = max(
        (when for when in earlier if datetime.fromisoformat(when) <= limit), default=min(earlier, default=last)
    )
    if times[chosen] == newest.snapshot_id:
        return None
    return EarlierSnapshot(SnapshotKey(newest.cluster_id, times[chosen]), chosen)


def compare_snapshots(
    newest: SnapshotKey,
    earlier: EarlierSnapshot,
    verdicts: tuple[Verdict, Verdict],
    tables: Mapping[str, Sequence[Mapping[str, Any]]],
    currency: str,
) -> ChangesSince:
    """Compare a cluster's newest snapshot with an earlier one.

    verdicts: of the earlier and the newest one. tables: rows of the figures since_*, of this cluster.
    """
    then, now = ({p.kind: p for p in verdict.points if p.level in _RISKS} for verdict in verdicts)
    totals = {row["snapshot_id"]: row for row in tables["since_totals"]}
    facts = [
        *_compare_totals(totals.get(earlier.key.snapshot_id, {}), totals.get(newest.snapshot_id, {}), currency),
        *_list_members(tables["since_members"], newest),
        *_list_plans(tables["since_plans"], datetime.fromisoformat(earlier.as_of)),
        *_list_forecasts(tables["since_forecasts"]),
    ]
    return ChangesSince(
        earlier.as_of,
        [point for kind, point in now.items() if kind not in then],
        [point for kind, point in then.items() if kind not in now],
        [(then[kind], p) for kind, p in now.items() if kind in then and then[kind].affected != p.affected],
        facts,
    )


def _compare_totals(then: Mapping[str, Any], now: Mapping[str, Any], currency: str) -> Iterator[tuple[str, str]]:
    titles = {"size_bytes": "bytes on disks", **QUANTITIES}
    for name in (*_TOTALS, "cost_per_month"):
        before, after = then.get(name), now.get(name)
        if name == "size_bytes" and (before is None or after is None) and (unsized := _count_unsized(then, now)):
            yield titles[name], f"not compared: the size of {count_of(unsized, 'partition')} is unknown"
        if before is None or after is None or before == after:
            continue
        if name == "cost_per_month":
            title, values = f"cost between zones, {currency} a month", [f"{value:,.0f}" for value in (before, after)]
        elif "bytes" in name:
            unit = "/s" if name.endswith("per_s") else ""
            title, values = titles[name], [f"{format_bytes(value)}{unit}" for value in (before, after)]
        else:
            title, values = name, [f"{value:,}" for value in (before, after)]
        yield title, f"{values[0]} -> {values[1]}{f', {(after / before - 1):+.1%}' if before else ''}"


def _count_unsized(then: Mapping[str, Any], now: Mapping[str, Any]) -> int:
    """Count the partitions without a size, of the snapshot that lacks more; 0 where a snapshot has no sizes at all."""
    sized = [one.get("partitions_with_size") or 0 for one in (then, now)]
    return max(one["partitions"] - count for one, count in zip((then, now), sized, strict=True)) if all(sized) else 0


def _list_members(rows: Sequence[Mapping[str, Any]], newest: SnapshotKey) -> Iterator[tuple[str, str]]:
    """Name brokers and topics that only one of the snapshots has."""
    for kind, name in (("broker", "broker_id"), ("topic", "topic")):
        for title, is_new in (("new", True), ("gone", False)):
            own = [
                row
                for row in rows
                if row["subject_kind"] == kind and (row["snapshot_id"] == newest.snapshot_id) is is_new
            ]
            if own:
                yield f"{title} {kind}s", join_names((row[name] for row in own), count=own[0]["rows"])


def _list_plans(rows: Sequence[Mapping[str, Any]], after: datetime) -> Iterator[tuple[str, str]]:
    """Say what was carried out since, with estimated and real times of the waves that ended."""
    for row in rows:
        started_at: datetime = row["started_at"]
        if started_at.replace(tzinfo=started_at.tzinfo or UTC) < after:
            continue
        parts = [count_of(row["waves"], "wave")]
        if row["copied_bytes"] is not None:
            parts.append(f"{format_bytes(row['copied_bytes'])} copied")
        if row["actual_s"] is not None:
            estimate = "" if row["estimated_s"] is None else f", estimated {format_duration(row['estimated_s'])}"
            parts.append(f"in {format_duration(row['actual_s'])}{estimate}")
        if row["interrupted"]:
            parts.append(f"{row['interrupted']} interrupted")
        noun = "plan carried out" if row["direction"] == "apply" else "plan rolled back"
        yield f"{noun} on {started_at:%Y-%m-%d}", ", ".join(parts)


def _list_forecasts(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Say how many forecasts have come true so far."""
    for row in rows:
        forecasts, true = row["forecasts"], row["as_forecast"]
        if row["forecast_kind"] == ForecastKind.GROWTH:
            name, text = "next values forecast", f"{true / forecasts:.1%} of {forecasts:,} in their 95 % interval"
        elif row["forecast_kind"] == ForecastKind.COPY_TIME:
            ratios = " to ".join(f"{row[name]:.2f}" for name in ("lowest_ratio", "highest_ratio"))
            name, text = "copy times forecast", f"{count_of(forecasts, 'wave')} took {ratios} times the forecast"
        else:
            noun = str(row["forecast_kind"]).replace("_", " ")
            name, text = f"{noun} forecast for failures", f"{true:,} of {forecasts:,} came true"
        yield name, f"{text}, over all nights"
