"""`run`: the whole pipeline over one or more clusters, and its summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.cli.app import app
from pipelines.cli.common_options import (
    ConfOption,
    FormatOption,
    SetOption,
    SourcesArgument,
    WarehouseOption,
    open_store,
    print_warnings,
    read_settings,
)
from pipelines.cli.help_examples import examples
from pipelines.config.settings import CustomFailure, Settings, StoreSettings
from pipelines.errors import EXIT_ALERT, SettingsError
from pipelines.ingest.sources import SnapshotKey, find_sources

if TYPE_CHECKING:
    from pipelines.runner import Progress, Run
    from pipelines.spark.store import Store

SUMMARY_STAGE = "gold.scheme_comparison"  # the last stage that the summary and the report need


@app.command(rich_help_panel="Tables, with Spark", epilog=examples("run"))
def run(
    sources: SourcesArgument,
    warehouse: WarehouseOption = None,
    first: Annotated[str | None, typer.Option("--from", help="First stage: its name, or bronze, silver, gold.")] = None,
    last: Annotated[str | None, typer.Option("--to", help="Last stage.")] = None,
    fail: Annotated[
        list[str] | None,
        typer.Option(
            help="A custom failure: brokers that fail together, as in 2,5 or prod=2,5; repeat for more.", metavar="IDS"
        ),
    ] = None,
    format_name: FormatOption = None,
    conf: ConfOption = None,
    options: SetOption = None,
    as_of: Annotated[
        datetime | None, typer.Option("--as-of", help="Time (UTC) that the sources describe.", show_default="now")
    ] = None,
    report_file: Annotated[
        Path | None,
        typer.Option(
            "--report",
            help="Write the report on these clusters there.",
            metavar="FILE",
            show_default="WAREHOUSE-report.html, on all clusters of the warehouse",
        ),
    ] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.")] = False,
    alert: Annotated[
        list[str] | None,
        typer.Option(
            help='A threshold, as in "worst_survivor_ratio > 1.3" or "prod: offline_partitions > 0"; if it is crossed, '
            "the exit code is 4.",
            metavar="METRIC",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Run every stage, even those already finished for these sources.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Also list every source, every table and the seconds of every stage.")
    ] = False,
) -> None:
    """Run all stages over one or more clusters, and print a summary."""
    began = monotonic()
    settings = _add_custom_failures(read_settings(conf, options, warehouse), fail or ())
    from pipelines.report.alerts import parse_alerts
    from pipelines.runner import Run, make_context
    from pipelines.setup.kernel_groups import SETUP, compile_missing, plan_group
    from pipelines.spark.session import starts_embedded_spark
    from pipelines.stages.scheme_comparison_stage import METRICS
    from pipelines.stages.stage_registry import steps_between

    steps = steps_between(first, last)
    is_complete = SUMMARY_STAGE in steps
    result = find_sources(sources)
    try:
        if alert and not is_complete:
            raise SettingsError(f"--alert needs {SUMMARY_STAGE}: leave out --to")
        alerts = parse_alerts(alert or (), METRICS, [source.cluster_id for source in result])
        page = _report_path(report_file, settings.store, is_complete and not no_report)
    except SettingsError as error:  # of options, not of a file
        raise typer.BadParameter(f"{error}.") from error
    print_warnings(result)
    when = as_of.replace(tzinfo=UTC) if as_of else datetime.now(UTC)
    context = make_context(result, settings, when, format_name)
    with _progress_bar(len(steps)) as progress:
        progress.began("starting Spark")
        small = sum(s.size_bytes for s in result) < settings.ingest.small_input_bytes
        embedded = starts_embedded_spark()
        store = open_store(settings, small, writing=True)
        work = Run(store.spark, store, context, progress)
        unfinished = steps if force or first else work.unfinished(steps)
        if unfinished and embedded:  # before Spark's workers do, each for itself and without a message
            groups = (*SETUP, *([plan_group(settings.plans.goal)] if settings.plans.goal else []))
            compile_missing(groups, lambda message: typer.echo(f"kafka-placement: {message}", err=True))
        work.go(unfinished, clock=lambda: datetime.now(UTC))
        verdicts = None
        if page is not None and (unfinished or not page.is_file()):
            progress.began("report")
            verdicts = _write_report(store, page, work, only_these=report_file is not None)
        problem = _create_views(store) if is_complete else ""
    if problem:
        typer.echo(f"kafka-placement: warning: {problem}", err=True)
    print_summary(store, context.snapshots, steps, page, settings, verdicts)
    if verbose:
        _print_details(store, context.snapshots, steps, work)
    if len(unfinished) < len(steps):
        finished = len(steps) - len(unfinished)
        typer.echo(f"{finished} of {len(steps)} stages were finished already; --force runs them again.")
    typer.echo(f"Finished in {monotonic() - began:.0f} s.")
    if alerts:
        _raise_alerts(store, context.snapshots, alerts)


def _add_custom_failures(settings: Settings, texts: Sequence[str]) -> Settings:
    """Add what --fail names to the settings' custom failures."""
    added = []
    for text in texts:
        cluster, _, ids = text.rpartition("=")
        brokers = [number.strip() for number in ids.split(",")]
        if not all(number.isascii() and number.isdigit() for number in brokers):
            raise typer.BadParameter(f"--fail {text!r}: write broker ids, as in 2,5 or prod=2,5.")
        added.append(CustomFailure(brokers=tuple(sorted(set(map(int, brokers)))), cluster=cluster.strip()))
    failures = settings.failures.model_copy(update={"custom": (*settings.failures.custom, *added)})
    return settings.model_copy(update={"failures": failures})


def _report_path(requested: Path | None, store: StoreSettings, enabled: bool) -> Path | None:
    """Return where the report goes: as requested, else beside a warehouse that is a folder; None = no report."""
    if not enabled:
        if requested is not None:
            raise SettingsError(f"--report {requested}: there is nothing to report without {SUMMARY_STAGE}")
        return None
    if requested is not None or not store.in_folder:
        return requested
    folder = Path(store.warehouse)
    return folder.with_name(f"{folder.resolve().name}-report.html")


@contextmanager
def _progress_bar(steps: int) -> Iterator[Progress]:
    """Show a bar on a terminal's stderr; nothing elsewhere, so that logs stay readable."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    from pipelines.runner import Progress

    console = Console(stderr=True)
    if not console.is_terminal:
        yield Progress()
        return
    description = TextColumn("{task.description:28}", markup=False)
    columns = (description, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=steps)
        yield Progress(
            began=lambda step: bar.update(task, description=step), ended=lambda step, seconds: bar.advance(task)
        )


def _write_report(store: Store, page: Path, work: Run, only_these: bool) -> Mapping[str, Any]:
    """Write the report on the run's clusters, and on all others unless `only_these`; return the verdicts."""
    from pipelines.report.html_page import write_report

    began = monotonic()
    facts = write_report(store, page, snapshots=work.snapshots, only_these=only_these)
    work.seconds["report"] = monotonic() - began
    return {cluster["cluster_id"]: cluster["verdict"] for cluster in facts.clusters}


def _create_views(store: Store) -> str:
    """Create the views of a catalog; return why that failed, if it did: the run's tables are complete all the same."""
    from pyspark.errors import PySparkException

    try:
        store.create_catalog_views()
    except PySparkException as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return f"the views of schema insights were not created: {lines[0]}"
    return ""


def print_summary(
    store: Store,
    snapshots: Sequence[SnapshotKey],
    steps: Sequence[str],
    page: Path | None,
    settings: Settings,
    verdicts: Mapping[str, Any] | None = None,
) -> None:
    """Print the result of a run: rejected records, verdicts, schemes, custom failures, and where the report is.

    Args:
        store: The tables.
        snapshots: Snapshots of the run.
        steps: Steps of the run.
        page: The report.
        settings: Settings of the run.
        verdicts: Verdicts by cluster, if they are known already.
    """
    if "silver.source_summary" in steps:
        _print_rejected(store, snapshots)
    if SUMMARY_STAGE in steps:
        _print_verdicts(store, snapshots, verdicts)
        _print_schemes(store, snapshots, settings.failures.max_pairs)
        if settings.failures.custom:
            _print_custom_failures(store, snapshots)
    if page is not None:
        typer.echo(f"Report: {page.resolve()}")


def _print_details(store: Store, snapshots: Sequence[SnapshotKey], steps: Sequence[str], work: Run) -> None:
    from pipelines.tables import TABLES

    if "silver.source_summary" in steps:
        for row in _read_source_summary(store, snapshots):
            typer.echo(_describe_source(row))
    typer.echo("Written:")
    for name in steps:
        if name in TABLES:
            typer.echo(f"  {name:28} {store.location(name)}")
    if "quality" in steps:
        typer.echo(f"  {'ops.quality_results':28} {store.location('ops.quality_results')}")
        if work.docs_folder:
            typer.echo(f"  {'quality pages':28} {Path(work.docs_folder).resolve()}/index.html")
    typer.echo(f"  {'ops.runs':28} {store.location('ops.runs')}")
    seconds = ", ".join(f"{step} {seconds:.1f}" for step, seconds in work.seconds.items())
    typer.echo(f"Seconds per stage (stages run in parallel): {seconds}")


def _read_source_summary(store: Store, snapshots: Sequence[SnapshotKey]) -> list[dict[str, Any]]:
    counts = ("records", "accepted_records", "quarantined_records", "ignored_records")
    columns = ("cluster_id", "source", "format", *counts)
    return sorted(store.read_rows("silver.source_summary", snapshots, columns), key=itemgetter("cluster_id", "source"))


def _describe_source(row: Mapping[str, Any]) -> str:
    parts = [f"{row[f'{what}_records']} {what}" for what in ("accepted", "quarantined", "ignored")]
    return f"{row['cluster_id']}: {row['source']} ({row['format']}): {row['records']} records: {', '.join(parts)}"


def _print_rejected(store: Store, snapshots: Sequence[SnapshotKey]) -> None:
    for row in _read_source_summary(store, snapshots):
        if row["quarantined_records"]:
            typer.echo(_describe_source(row))
    conflicts = Counter(row["cluster_id"] for row in store.read_rows("silver.conflicts", snapshots, ["cluster_id"]))
    for cluster, count in sorted(conflicts.items()):
        what = "conflict" if count == 1 else "conflicts"
        typer.echo(f"{cluster}: {count} {what} between sources, see silver.conflicts")


def _print_verdicts(store: Store, snapshots: Sequence[SnapshotKey], verdicts: Mapping[str, Any] | None) -> None:
    from pipelines.report.report_data import read_verdicts

    known = read_verdicts(store, snapshots) if verdicts is None else verdicts
    for cluster in sorted(key.cluster_id for key in snapshots):
        typer.echo(f"{cluster}: {known[cluster].headline}")
    typer.echo("")


def _print_schemes(store: Store, snapshots: Sequence[SnapshotKey], max_pairs: int) -> None:
    from pipelines.cli.text_grid import print_grid

    metrics: dict[tuple[str, str], dict[str, Any]] = {}
    columns = ("cluster_id", "scheme", "metric", "value", "ratio_to_naive")
    for row in store.read_rows(SUMMARY_STAGE, snapshots, columns):
        metrics.setdefault((row["cluster_id"], row["scheme"]), {})[row["metric"]] = row
    live = store.read_rows("silver.brokers", snapshots, ["cluster_id", "live"])
    brokers = Counter(row["cluster_id"] for row in live if row["live"])
    for cluster in {key.cluster_id for key in snapshots} - {cluster for cluster, _ in metrics}:
        metrics[cluster, "-"] = {}
    # heading -> (metric, column, digits)
    cells = {
        "leaders\nmax/mean": ("leaders_max_over_mean_ratio", "value", 3),
        "worst survivor\nmax/mean": ("worst_survivor_ratio", "value", 3),
        "ratio\nto naive": ("worst_survivor_ratio", "ratio_to_naive", 3),
        "takeover\nbrokers (mean)": ("mean_takeover_brokers", "value", 1),
        "offline partitions\n(worst case)": ("most_offline_partitions", "value", 0),
        "copysets": ("copysets", "value", 0),
        "P(loss if\n3 fail)": ("loss_probability_of_3_brokers", "value", 5),
    }

    def format_cell(row: Mapping[str, Any], metric: str, column: str, digits: int) -> str:
        if metric == "most_offline_partitions" and row.get(metric, {}).get("value") is None:
            metric = "offline_partitions"  # no live broker, so that none can fail: what is offline now
        value = row.get(metric, {}).get(column)
        return "-" if value is None else f"{value:.{digits}f}"

    rows = (
        [cluster, scheme, str(brokers.get(cluster, 0)), *(format_cell(row, *cell) for cell in cells.values())]
        for (cluster, scheme), row in sorted(metrics.items())
    )
    headings = ("cluster", "scheme", "live\nbrokers", *cells)
    print_grid(headings, rows, right=headings[2:], title="Leaders now, and after the worst failure of one broker")
    for cluster, n in sorted(brokers.items()):
        pairs = n * (n - 1) // 2
        if pairs > max_pairs:
            typer.echo(f"{cluster}: {pairs} pairs of brokers are not evaluated: more than failures.max_pairs")


def _print_custom_failures(store: Store, snapshots: Sequence[SnapshotKey]) -> None:
    from pipelines.cli.text_grid import print_grid
    from pipelines.report.report_data import read_custom_failures

    # heading -> column
    cells = {
        "newly offline\npartitions": "newly_offline_partitions",
        "below\nmin.insync.replicas": "under_min_isr_partitions",
        "unclean\nelections": "unclean_elections",
        "takeover\nbrokers": "takeover_brokers",
        "worst\nsurvivor": "worst_survivor",
        "max/mean": "worst_survivor_ratio",
    }

    def format_cell(value: Any) -> str:
        return "-" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)

    lines = (
        [row["cluster_id"], ",".join(map(str, row["failed_brokers"])), *(format_cell(row[c]) for c in cells.values())]
        for row in sorted(read_custom_failures(store, snapshots), key=itemgetter("cluster_id", "failed_brokers"))
    )
    typer.echo("")
    print_grid(("cluster", "failed brokers", *cells), lines, right=tuple(cells), title="Custom failures")


def _raise_alerts(store: Store, snapshots: Sequence[SnapshotKey], alerts: Sequence[Any]) -> None:
    """Print the alerts whose threshold is crossed; raise typer.Exit with code 4 if there are any."""
    from pipelines.report.alerts import check_alerts

    rows = store.read_rows(SUMMARY_STAGE, snapshots, ("cluster_id", "scheme", "metric", "value"))
    values = {(row["cluster_id"], row["metric"]): row["value"] for row in rows if row["scheme"] == "observed"}
    crossed, unknown = check_alerts(alerts, [key.cluster_id for key in snapshots], values)
    for line in unknown:
        typer.echo(f"kafka-placement: warning: --alert {line}", err=True)
    for line in crossed:
        typer.echo(f"kafka-placement: alert: {line}", err=True)
    if crossed:
        raise typer.Exit(EXIT_ALERT)
