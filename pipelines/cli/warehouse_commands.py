"""Commands of the tables: run, report, tables, query."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Annotated

import typer

from pipelines.cli.app import app
from pipelines.cli.common_options import (
    ConfOption,
    FormatOption,
    JsonOption,
    SetOption,
    SourcesArgument,
    WarehouseOption,
    settings_of,
    store_of,
    store_to_read,
    tell,
    warn,
    write_json,
    write_text,
)
from pipelines.cli.help_examples import examples
from pipelines.errors import EXIT_ALERT, EXIT_INPUT, SettingsError
from pipelines.ingest.sources import find_sources


@app.command(rich_help_panel="Tables, by Spark", epilog=examples("run"))
def run(
    sources: SourcesArgument,
    warehouse: WarehouseOption = None,
    first: Annotated[str | None, typer.Option("--from", help="Begin here: a stage, or bronze, silver, gold.")] = None,
    last: Annotated[str | None, typer.Option("--to", help="Stop after this one.")] = None,
    fail: Annotated[
        list[str] | None,
        typer.Option(help="Brokers to see fail together, as in 2,5 or prod=2,5; again for more.", metavar="IDS"),
    ] = None,
    format_name: FormatOption = None,
    conf: ConfOption = None,
    options: SetOption = None,
    as_of: Annotated[
        datetime | None,
        typer.Option("--as-of", help="Time that the sources show (UTC), if not now.", show_default="now"),
    ] = None,
    report_file: Annotated[
        Path | None,
        typer.Option(
            "--report",
            help="Write the report of these clusters there.",
            metavar="FILE",
            show_default="WAREHOUSE-report.html, of all clusters of the tables",
        ),
    ] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.")] = False,
    alert: Annotated[
        list[str] | None,
        typer.Option(
            help='A threshold, as in "worst_survivor > 1.3" or "prod: newly_offline > 0"; if crossed, exit code 4.',
            metavar="METRIC",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Run every stage, also those that are finished for these sources.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Also list what was read, every table, and the seconds of every stage.")
    ] = False,
) -> None:
    """Run all stages over one or more clusters, and show where they stand."""
    began = monotonic()
    settings = settings_of(conf, options, warehouse)
    if fail:
        lists = "; ".join(filter(None, [settings.failures.lists, *fail]))
        settings = settings_of(conf, [*(options or ()), f"failures.lists={lists}"], warehouse)
    from pipelines.cli import run_output
    from pipelines.cli import run_report as body
    from pipelines.runner import Run, make_context
    from pipelines.setup.first_use_compilation import SETUP, compile_missing, plan_group
    from pipelines.spark.session import starts_here
    from pipelines.stages.stage_registry import steps_between

    steps = steps_between(first, last)
    whole = "gold.scheme_comparison" in steps
    found = find_sources(sources)
    try:
        alerts = body.alerts(alert or (), whole, found)
        page = body.page(report_file, settings.store, whole and not no_report)
    except SettingsError as error:  # of options, not of a file
        raise typer.BadParameter(f"{error}.") from error
    warn(found)
    when = as_of.replace(tzinfo=UTC) if as_of else datetime.now(UTC)
    context = make_context(found, settings, when, format_name)
    with run_output.progress(len(steps)) as progress:
        progress.began("starting Spark")
        small = sum(s.size_bytes for s in found) < settings.ingest.small_input_bytes
        here = starts_here()
        store = store_of(settings, small, writing=True)
        work = Run(store.spark, store, context, progress)
        verdicts = None
        left = steps if force or first else work.unfinished(steps)
        if left and here:  # before Spark's workers compile them, each for itself and without a word
            groups = (*SETUP, *([plan_group(settings.plans.goal)] if settings.plans.goal else []))
            compile_missing(groups, lambda message: typer.echo(f"kafka-placement: {message}", err=True))
        work.go(left, clock=lambda: datetime.now(UTC))
        if page is not None and (left or not page.is_file()):
            progress.began("report")
            verdicts = body.write_report(store, page, context.snapshots, work, alone=report_file is not None)
        unmade = body.keep_views(store) if whole else ""
    if unmade:
        typer.echo(f"kafka-placement: warning: {unmade}", err=True)
    run_output.show(store, context.snapshots, steps, page, settings.failures.max_pairs, verdicts)
    if verbose:
        run_output.show_details(store, context.snapshots, steps, work)
    if len(left) < len(steps):
        kept = len(steps) - len(left)
        typer.echo(f"{kept} of {len(steps)} stages were finished for these sources; --force runs them again.")
    typer.echo(f"Finished in {monotonic() - began:.0f} s.")
    crossed, blind = body.crossed(store, context.snapshots, alerts)
    for line in blind:
        typer.echo(f"kafka-placement: warning: --alert {line}", err=True)
    for line in crossed:
        typer.echo(f"kafka-placement: alert: {line}", err=True)
    if crossed:
        raise typer.Exit(EXIT_ALERT)


@app.command(rich_help_panel="Tables, by Spark", epilog=examples("report"))
def report(
    file: Annotated[Path, typer.Argument(help="Where the page is written.", metavar="FILE")],
    clusters: Annotated[
        list[str] | None, typer.Option("--cluster", help="Only this cluster; again for more.", metavar="NAME")
    ] = None,
    warehouse: WarehouseOption = None,
    conf: ConfOption = None,
    options: SetOption = None,
) -> None:
    """Write the report, one HTML page, of what the tables hold: the newest snapshot of each cluster."""
    from pipelines.cli import report_output as body

    settings = settings_of(conf, options, warehouse)
    facts = body.report(store_to_read(settings), file, clusters or ())
    typer.echo(f"{len(facts.clusters)} clusters: {file}")


@app.command(rich_help_panel="Tables, by Spark", epilog=examples("tables"))
def tables(
    warehouse: WarehouseOption = None, json_file: JsonOption = None, conf: ConfOption = None, options: SetOption = None
) -> None:
    """Show what tables there are: rows, version, comment."""
    from pipelines.cli import run_output

    settings = settings_of(conf, options, warehouse)
    listing = run_output.tables_of(settings.store, lambda: store_of(settings, small=True))
    if json_file is not None:
        write_json(json_file, {"tables": listing})
    if str(json_file) != "-":
        run_output.show_tables(listing)


@app.command(rich_help_panel="This machine", epilog=examples("doctor"))
def doctor(
    warehouse: WarehouseOption = None, json_file: JsonOption = None, conf: ConfOption = None, options: SetOption = None
) -> None:
    """Check Java, jars, libraries, memory and warehouse, and say what to do about what is missing."""
    from pipelines.cli import doctor_output as body

    place = settings_of(conf, options, warehouse).store
    found = body.findings(place.warehouse, place.catalog)
    tell(json_file, body.answer(found), body.lines(found))
    if not all(one.fine for one in found):
        raise typer.Exit(EXIT_INPUT)


@app.command(rich_help_panel="Tables, by Spark", epilog=examples("query"))
def query(
    sql: Annotated[str, typer.Argument(help="SQL over the tables, as in SELECT * FROM gold.leader_hotspots.")],
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json",
            help="Write one JSON object a row to this file; - prints them, alone. Binary values are base64, keys of "
            'maps are text, and numbers that JSON lacks are "NaN", "Infinity" and "-Infinity".',
            metavar="FILE",
        ),
    ] = None,
    warehouse: WarehouseOption = None,
    conf: ConfOption = None,
    options: SetOption = None,
) -> None:
    """Ask the tables a question in SQL."""
    from pipelines.cli import run_output
    from pipelines.cli.json_rows import json_line

    settings = settings_of(conf, options, warehouse)
    columns, rows = run_output.asked(store_to_read(settings), sql, as_json=json_file is not None)
    if json_file is not None:
        write_text(json_file, "".join(f"{json_line(row)}\n" for row in rows))
    if str(json_file) != "-":
        run_output.show_rows(columns, rows)
