"""`run`: the whole pipeline over one or more clusters, and its summary."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli import common_options as common
from pipelines.cli.app import app, examples
from pipelines.cli.option_values import flag, option, parse_moment, parse_report
from pipelines.cli.run_summary import describe_older_snapshots, print_details, print_summary
from pipelines.cli.source_arguments import (
    CommandConfigsOption,
    MetricsOption,
    MetricsRequest,
    SourcesArgument,
    WindowOption,
    leave_out,
    open_sources,
)
from pipelines.cli.text_format import print_line, print_message, print_warning
from pipelines.config.setting_sections import CustomFailure, Settings, StoreSettings
from pipelines.errors import EXIT_ALERT, EXIT_INPUT, SettingsError, SourceError, StoreError
from pipelines.ingest.sources import SnapshotKey, Source
from pipelines.tables.ops_tables import SUMMARY_STAGE
from udfs.wording import count_of

if TYPE_CHECKING:
    from pipelines.alerts.alert_outputs import AlertRules
    from pipelines.config.setting_sections import AlertSettings
    from pipelines.runner import Progress
    from pipelines.spark.store import Store
    from pipelines.verdict.judgement import Verdict


@app.command(rich_help_panel="Tables, with Spark", epilog=examples("run"))
def run(
    sources: SourcesArgument,
    warehouse: common.WarehouseOption = None,
    first: Annotated[
        str | None, option("Start at this stage or layer (bronze, silver, gold).", "STAGE", "--from")
    ] = None,
    last: Annotated[str | None, option("Stop after this stage or layer.", "STAGE", "--to")] = None,
    fail: Annotated[
        list[str] | None, option("Brokers that fail together, as in 2,5 or prod=2,5; repeat for more failures.", "IDS")
    ] = None,
    ignored: common.IgnoreTopicsOption = None,
    format_name: common.FormatOption = None,
    command_configs: CommandConfigsOption = None,
    metrics: MetricsOption = None,
    window: WindowOption = None,
    conf: common.ConfOption = None,
    options: common.SetOption = None,
    as_of: Annotated[
        datetime | None,
        option(
            "When the sources were captured, in UTC: 2026-11-22T10:00:00.",
            "TIME",
            "--as-of",
            parser=parse_moment,
            default="now",
        ),
    ] = None,
    report_file: Annotated[
        Path | None,
        option(
            "Write a report on the clusters of this run to this file.",
            "FILE",
            "--report",
            parser=parse_report,
            default="WAREHOUSE-report.html, on all clusters of the warehouse",
        ),
    ] = None,
    no_report: Annotated[bool, flag("no-report", "Write no report.")] = False,
    alert: Annotated[
        list[str] | None,
        option(
            "Exit with code 4 if the clusters have new findings (new), or if a metric crosses a threshold, as in "
            '"worst_survivor_ratio > 1.3" or "prod: offline_partitions > 0"; repeat for more.',
            "new|METRIC",
        ),
    ] = None,
    force: Annotated[bool, flag("force", "Run every stage, even those that are finished for these sources.")] = False,
    verbose: Annotated[
        bool, flag("verbose", "Also list every source, every table and the seconds of every stage.")
    ] = False,
    log_level: common.LogLevelOption = None,
) -> None:
    """Run all stages over one or more clusters, and print a summary."""
    began = monotonic()
    settings = _add_custom_failures(common.read_settings(conf, options, warehouse, ignored), fail or ())
    from pipelines.alerts.alert_outputs import parse_alerts
    from pipelines.ingest.snapshot_reader import check_source
    from pipelines.report.html_page import write_report
    from pipelines.runner import Run, make_context
    from pipelines.setup.compile_on_demand import SETUP, compile_missing, plan_group
    from pipelines.spark.session import starts_embedded_spark
    from pipelines.stages.plan_requests import list_possible_goals
    from pipelines.stages.stage_registry import steps_between

    result, unreachable = open_sources(
        sources, command_configs, MetricsRequest.of_options(metrics, window, settings, as_of), format_name
    )
    try:
        steps = steps_between(first, last)
        is_complete = SUMMARY_STAGE in steps
        rules = parse_alerts(alert or (), settings.alerts, [source.cluster_id for source in result])
        if alert and not is_complete:
            raise SettingsError(f"--alert needs {SUMMARY_STAGE}: omit --to")
        page = _report_path(report_file, settings.store, is_complete and not no_report)
    except SettingsError as error:  # of options, not of a file
        raise typer.BadParameter(str(error)) from error
    if conf is not None:
        options_of_conf = shlex.join(("--conf", str(Path(conf).absolute())))
        result = [replace(source, options=f"{source.options} {options_of_conf}".lstrip()) for source in result]
    common.print_warnings(result)
    small = sum(s.size_bytes for s in result) < settings.ingest.small_input_bytes
    if small:  # a wrong file is known before Spark starts; large ones are read once only, by Spark
        result, more = _select_readable(
            result, lambda one: check_source(one, format_name, settings.ingest.max_file_bytes)
        )
        unreachable += more
    context = make_context(result, settings, as_of or datetime.now(UTC), format_name)
    with _progress_bar(len(steps)) as progress:
        embedded = starts_embedded_spark()
        store = common.open_store(settings, small, writing=True, without_java=settings.run.engine == "auto")
        work = Run(store, context, progress)
        unfinished = steps if force or first else work.unfinished(steps)
        if unfinished and embedded:  # before Spark's workers do, each for itself and without a message
            plan_groups = map(plan_group, list_possible_goals(settings.plans.goals))
            compile_missing(list(dict.fromkeys((*SETUP, *plan_groups))), print_message)
            progress.began("starting Spark")
        work.go(unfinished, clock=lambda: datetime.now(UTC))
        if page is not None and (unfinished or work.has_trends or not page.is_file()):
            progress.began("report")
            report_began = monotonic()
            write_report(store, page, sources=context.sources, only_these=report_file is not None)
            work.seconds["report"] = monotonic() - report_began
        problems = [*_maintain(store, settings), *_create_views(store)] if is_complete else []
    if is_complete and unfinished:
        from pipelines.spark.replaced_clusters import find_replaced_clusters

        problems += find_replaced_clusters(store, context.snapshots)
    for problem in problems:
        print_warning(problem)
    verdicts = print_summary(store, context.sources, steps, page, settings)
    if as_of is not None and is_complete:
        for note in describe_older_snapshots(store, context.snapshots, as_of, settings.retention):
            print_line(note)
    if settings.operation.policies and is_complete:
        from pipelines.operation.nightly_proposals import propose_plans

        for line in propose_plans(store, context.sources, settings, format_name):
            print_line(line)
    if verbose:
        print_details(store, context.snapshots, steps, work)
    if len(unfinished) < len(steps):
        finished = len(steps) - len(unfinished)
        print_line(f"{finished} of {len(steps)} stages were finished already; --force runs them again.")
    print_line(f"Finished in {monotonic() - began:.0f} s.")
    if rules and is_complete:
        _raise_alerts(store, context.snapshots, rules, settings.alerts, verdicts)
    if unreachable:
        print_message(f"{count_of(unreachable, 'cluster')} could not be read, see above")
        raise typer.Exit(EXIT_INPUT)


def _select_readable(sources: Sequence[Source], check: Callable[[Source], object]) -> tuple[list[Source], int]:
    """Return the sources without a fault, and how many have one, which is printed.

    check: raises SourceError for a fault. Raises: KafkaPlacementError if no source is left.
    """
    readable, faults = list[Source](), list[str]()
    for source in sources:
        try:
            check(source)
            readable.append(source)
        except SourceError as fault:
            faults.append(str(fault))
    leave_out(readable, faults)
    return readable, len(faults)


def _add_custom_failures(settings: Settings, texts: Sequence[str]) -> Settings:
    """Add what --fail names to the settings' custom failures."""
    added = []
    for text in texts:
        cluster, _, ids = text.rpartition("=")
        brokers = common.parse_failed(ids, example="2,5 or prod=2,5")
        added.append(CustomFailure(brokers=tuple(sorted(brokers)), cluster=cluster.strip()))
    failures = settings.failures.model_copy(update={"custom": (*settings.failures.custom, *added)})
    return settings.model_copy(update={"failures": failures})


def _report_path(requested: Path | None, store: StoreSettings, enabled: bool) -> Path | None:
    """Return where the report goes: as requested, else beside a warehouse that is a folder; None = no report."""
    if not enabled:
        if requested is not None:
            raise SettingsError(f"--report {requested}: there is nothing to report without {SUMMARY_STAGE}")
        return None
    if requested == Path("-"):
        raise SettingsError("--report -: run prints its summary. Name a file, or print later: kafka-placement report -")
    if requested is not None or not store.in_folder:
        return requested
    folder = Path(store.warehouse)
    if folder.name in ("", ".."):  # such as `.`: the folder beside which the report goes has to be found
        folder = folder.resolve()
    return folder.parent / f"{folder.resolve().name or 'warehouse'}-report.html"


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


def _create_views(store: Store) -> Iterator[str]:
    """Publish the views; yield why that failed, if it did: the run's tables are complete all the same."""
    from pyspark.errors import PySparkException

    from pipelines.spark.view_tables import publish_views

    try:
        publish_views(store)
    except (PySparkException, StoreError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        yield f"the views of schema insights were not updated, and other programs see older rows: {lines[0]}"


def _maintain(store: Store, settings: Settings) -> Iterator[str]:
    """Maintain the tables if it is time to; yield why that failed, if it did: no row is lost by that."""
    from pipelines.maintenance import is_due, maintain_tables

    try:
        deleted = maintain_tables(store, settings, datetime.now(UTC)).deleted if is_due(store) else ()
        for cluster, count in Counter(one.cluster_id for one in deleted).items():
            print_message(f"{cluster}: {count_of(count, 'old snapshot')} deleted, as the settings [retention] say")
    except StoreError as error:
        yield f"the tables were not maintained: {error.args[0]}. To try again: kafka-placement maintain"


def _raise_alerts(
    store: Store,
    snapshots: Sequence[SnapshotKey],
    rules: AlertRules,
    settings: AlertSettings,
    verdicts: Mapping[str, Verdict],
) -> None:
    """Write, send and print the alerts of a run; raise typer.Exit with code 4 if there are any."""
    from pipelines.alerts.alert_outputs import check_run, deliver

    report, warnings = check_run(store, snapshots, rules, settings, verdicts)
    for line in warnings:
        print_warning(line)
    for line in deliver(store, snapshots, report, settings, print_warning):
        print_message(line)
    if report.is_firing:
        raise typer.Exit(EXIT_ALERT)
