"""The summary that `run` prints: rejected records, verdicts, schemes and custom failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.cli.text_format import format_findings, lay_out, print_grid, print_line
from pipelines.config.setting_sections import Settings
from pipelines.ingest.sources import SnapshotKey, Source
from pipelines.tables.ops_tables import SUMMARY_STAGE
from pipelines.verdict.verdict_points import Level
from udfs.wording import count_of

if TYPE_CHECKING:
    from pipelines.config.setting_sections import RetentionSettings
    from pipelines.runner import Run
    from pipelines.spark.store import Store
    from pipelines.verdict.judgement import Verdict

_MAX_FINDINGS = 3  # of a cluster in the summary
_CUT = "incomplete_topics"  # is always said, as most tables lack what the sources lack


def format_in_summary(cluster: str, verdict: Verdict, source: str) -> Iterator[str]:
    """Yield the headline of a cluster, whether topics are cut, and of one at risk also the worst findings with steps.

    source: as commands name it.
    """
    yield f"{cluster}: {verdict.headline}"
    if verdict.level is Level.AT_RISK:
        points = verdict.name_source(source, cluster).points
        yield from format_findings(points, verdict.sentence, _MAX_FINDINGS)
        if (more := len(verdict.points) - _MAX_FINDINGS) > 0:
            yield f"  {count_of(more, 'more finding')}: kafka-placement what-if {source}"
    printed = verdict.points[: _MAX_FINDINGS if verdict.level is Level.AT_RISK else 1]
    yield from (f"  - {point.text}" for point in verdict.points if point.kind == _CUT and point not in printed)


_TOO_OLD = ". It is older than [retention] keeps: the next maintenance deletes it"
_TIME = "%Y-%m-%d %H:%M UTC"


def print_summary(
    store: Store, sources: Mapping[SnapshotKey, Source], steps: Sequence[str], page: Path | None, settings: Settings
) -> Mapping[str, Verdict]:
    """Print the result of a run: rejected records, verdicts, schemes, custom failures, and where the report is.

    Returns the verdicts by cluster; none if the run stopped early.
    """
    from pipelines.verdict.finding_rows import FINDING_COLUMNS, read_verdicts

    snapshots = list(sources)
    if "silver.source_summary" in steps:
        for row in _read_source_summary(store, snapshots):
            if row["quarantined_records"]:
                print_line(_describe_source(row))
            elif not row["accepted_records"]:
                print_line(f"{row['cluster_id']}: nothing of {row['source']} is used: see kafka-placement inspect")
        rows = store.read_rows("silver.conflicts", snapshots, ["cluster_id"])
        for cluster, count in sorted(Counter(row["cluster_id"] for row in rows).items()):
            print_line(f"{cluster}: {count_of(count, 'conflict')} between sources, see silver.conflicts")
    verdicts: Mapping[str, Verdict] = {}
    if SUMMARY_STAGE in steps:
        names = ["cluster_id", *(column.name for column in FINDING_COLUMNS)]
        findings = store.read_rows("gold.findings", snapshots, names) if store.exists("gold.findings") else []
        verdicts = read_verdicts(findings, [key.cluster_id for key in snapshots])
        levels = [*Level]  # the worst first
        for key, source in sorted(
            sources.items(), key=lambda item: (levels.index(verdicts[item[0].cluster_id].level), item[0])
        ):
            lines = format_in_summary(key.cluster_id, verdicts[key.cluster_id], source.argument)
            for line in lay_out(lines, columns=None):
                print_line(line)
        print_line()
        _print_schemes(store, snapshots, settings.failures.max_pairs)
        if settings.failures.custom:
            _print_custom_failures(store, snapshots)
    if page is not None:
        print_line(f"Report: {page.resolve()}")
    return verdicts


def describe_older_snapshots(
    store: Store, snapshots: Sequence[SnapshotKey], as_of: datetime, retention: RetentionSettings
) -> Iterator[str]:
    """Yield a note on each snapshot of a run that is not the newest of its cluster: most views do not show it.

    as_of: the time that the run's sources describe (UTC).
    """
    from pipelines.maintenance import read_seen
    from pipelines.retention import choose_expired
    from pipelines.spark.views import SNAPSHOTS

    newest = store.open_sql([SNAPSHOTS]).run(f"SELECT * FROM {SNAPSHOTS} WHERE newest").to_pylist()
    seen_at = {SnapshotKey(row["cluster_id"], row["snapshot_id"]): row["seen_at"] for row in newest}
    newest_at = {key.cluster_id: at for key, at in seen_at.items()}
    older = sorted(key for key in snapshots if key not in seen_at and key.cluster_id in newest_at)
    expired = choose_expired(read_seen(store), retention, datetime.now(UTC)) if older else ()
    for key in older:
        yield (
            f"note: {key.cluster_id}: this snapshot, as of {as_of:{_TIME}}, is older than the newest one, as of "
            f"{newest_at[key.cluster_id].astimezone(UTC):{_TIME}}, which the views show. Query its tables with "
            f"WHERE snapshot_id = '{key.snapshot_id}'; {SNAPSHOTS} lists all snapshots"
            f"{_TOO_OLD if key in expired else ''}"
        )


def print_details(store: Store, snapshots: Sequence[SnapshotKey], steps: Sequence[str], work: Run) -> None:
    """Print what was read, every table, and the seconds of every stage."""
    from pipelines.tables import TABLES

    if "silver.source_summary" in steps:
        for row in _read_source_summary(store, snapshots):
            print_line(_describe_source(row))
    print_line("Written:")
    for name in steps:
        if name in TABLES:
            print_line(f"  {name:28} {store.describe_location(name)}")
    if "quality" in steps:
        print_line(f"  {'ops.quality_results':28} {store.describe_location('ops.quality_results')}")
        if work.docs_folder:
            print_line(f"  {'quality pages':28} {Path(work.docs_folder).resolve()}/index.html")
    print_line(f"  {'ops.runs':28} {store.describe_location('ops.runs')}")
    seconds = ", ".join(f"{step} {seconds:.1f}" for step, seconds in work.seconds.items())
    print_line(f"Seconds per stage (stages run in parallel): {seconds}")


def _read_source_summary(store: Store, snapshots: Sequence[SnapshotKey]) -> list[dict[str, Any]]:
    counts = ("records", "accepted_records", "quarantined_records", "ignored_records")
    columns = ("cluster_id", "source", "format", *counts)
    return sorted(store.read_rows("silver.source_summary", snapshots, columns), key=itemgetter("cluster_id", "source"))


def _describe_source(row: Mapping[str, Any]) -> str:
    parts = [f"{row[f'{what}_records']} {what}" for what in ("accepted", "quarantined", "ignored")]
    records = f"{count_of(row['records'], 'record')}"
    return f"{row['cluster_id']}: {row['source']} ({row['format']}): {records}: {', '.join(parts)}"


def _print_schemes(store: Store, snapshots: Sequence[SnapshotKey], max_pairs: int) -> None:
    metrics: dict[tuple[str, str], dict[str, Any]] = {}
    columns = ("cluster_id", "scheme", "metric", "value", "ratio_to_naive")
    for row in store.read_rows(SUMMARY_STAGE, snapshots, columns):
        metrics.setdefault((row["cluster_id"], row["scheme"]), {})[row["metric"]] = row
    states = store.read_rows("silver.brokers", snapshots, ["cluster_id", "live"])
    brokers = Counter(row["cluster_id"] for row in states if row["live"] is not False)
    unknown = Counter(row["cluster_id"] for row in states if row["live"] is None)
    for cluster in {key.cluster_id for key in snapshots} - {cluster for cluster, _ in metrics}:
        metrics[cluster, "-"] = {}
    # heading -> (metric, column, digits)
    cells = {
        "leaders\nmax/mean": ("leaders_max_over_mean_ratio", "value", 3),
        "worst survivor\nmax/mean": ("worst_survivor_ratio", "value", 3),
        "ratio\nto naive": ("worst_survivor_ratio", "ratio_to_naive", 3),
        "takeover\nbrokers (mean)": ("mean_takeover_brokers", "value", 1),
        "newly offline\n(worst case)": ("most_newly_offline_partitions", "value", 0),
        "copysets": ("copysets", "value", 0),
        "P(loss if\n3 fail)": ("loss_probability_of_3_brokers", "value", 5),
    }

    def format_cell(row: Mapping[str, Any], metric: str, column: str, digits: int) -> str:
        value = row.get(metric, {}).get(column)
        return "-" if value is None else f"{value:.{digits}f}"

    rows = []
    for (cluster, scheme), row in sorted(metrics.items()):
        live = f"{brokers[cluster]}{f' ({unknown[cluster]} unknown)' if unknown[cluster] else ''}"
        rows.append([cluster, scheme, live, *(format_cell(row, *cell) for cell in cells.values())])
    headings = ("cluster", "scheme", "live\nbrokers", *cells)
    print_grid(headings, rows, right=headings[2:], title="Leaders now, and after the worst failure of one broker")
    for cluster, n in sorted(brokers.items()):
        pairs = n * (n - 1) // 2
        if pairs > max_pairs:
            print_line(f"{cluster}: failures of pairs are not evaluated: {pairs} pairs exceed failures.max_pairs")


def _print_custom_failures(store: Store, snapshots: Sequence[SnapshotKey]) -> None:
    from pipelines.report.report_data import read_custom_failures

    # heading -> column
    cells = {
        "newly offline\npartitions": "newly_offline_partitions",
        "newly below\nmin.insync.replicas": "newly_under_min_isr_partitions",
        "unclean\nelections": "unclean_elections",
        "takeover\nbrokers": "takeover_brokers",
        "worst\nsurvivor": "worst_survivor",
        "max/mean": "worst_survivor_ratio",
    }

    lines = []
    for row in sorted(read_custom_failures(store, snapshots), key=itemgetter("cluster_id", "failed_brokers")):
        values = (row[column] for column in cells.values())
        texts = ("-" if v is None else f"{v:.3f}" if isinstance(v, float) else str(v) for v in values)
        lines.append([row["cluster_id"], ",".join(map(str, row["failed_brokers"])), *texts])
    print_line()
    print_grid(("cluster", "failed brokers", *cells), lines, right=tuple(cells), title="Custom failures")
