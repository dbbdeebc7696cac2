"""The command `plan`."""

from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.app import app
from pipelines.cli.common_options import (
    ConfOption,
    FormatOption,
    JsonOption,
    SetOption,
    SourceArgument,
    print_warnings,
    read_settings,
    write_answer,
)
from pipelines.cli.help_examples import examples
from pipelines.errors import EXIT_INPUT, SettingsError
from pipelines.ingest.sources import find_source


@app.command(rich_help_panel="Placing and planning, without Spark", epilog=examples("plan"))
def plan(
    context: typer.Context,
    source: SourceArgument,
    goal: Annotated[
        str | None,
        typer.Option(help="leaders, failover, balance, drain, expand, replace, repair or rf.", metavar="GOAL"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the plan: a new or empty one, or one that holds a plan.", metavar="DIR"),
    ] = None,
    check: Annotated[
        Path | None, typer.Option(help="Check the plan in this folder instead of making one.", metavar="DIR")
    ] = None,
    brokers: Annotated[
        str | None,
        typer.Option(
            help="Brokers to drain, or to expand to.",
            metavar="IDS",
            show_default="drain: those that the source marks; expand: empty ones",
        ),
    ] = None,
    replace: Annotated[
        str | None, typer.Option(help="Brokers and their replacements, as in 7=66,8=67.", metavar="PAIRS")
    ] = None,
    rf: Annotated[int | None, typer.Option(help="Replication factor for --goal rf.", metavar="N")] = None,
    topics: Annotated[
        str | None, typer.Option(help="Topics for --goal rf.", metavar="NAMES", show_default="all")
    ] = None,
    exclude_topics: Annotated[str | None, typer.Option(help="Topics to leave unchanged.", metavar="NAMES")] = None,
    exclude_brokers: Annotated[
        str | None, typer.Option(help="Brokers that receive no replicas.", metavar="IDS")
    ] = None,
    max_bytes: Annotated[str | None, typer.Option(help="Copy at most this much, as in 500GB.", metavar="SIZE")] = None,
    max_moves: Annotated[int | None, typer.Option(min=0, help="Copy at most this many replicas.", metavar="N")] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            help="Balance all of plans.priorities (all), or replica counts only (min-bytes, min-moves).",
            metavar="NAME",
            show_default="all for balance, drain and expand, else min-bytes",
        ),
    ] = None,
    keep_leaders: Annotated[bool, typer.Option("--keep-leaders", help="For failover: only reorder followers.")] = False,
    per_topic: Annotated[bool, typer.Option("--per-topic", help="Spread the leaders of each topic as well.")] = False,
    by_bytes: Annotated[
        bool, typer.Option("--by-bytes", help="For leaders and failover: balance bytes out, not counts.")
    ] = False,
    allow_fewer_racks: Annotated[
        bool, typer.Option("--allow-fewer-racks", help="Allow racks to lose their last broker.")
    ] = False,
    copysets: Annotated[
        bool, typer.Option("--copysets", help="Among equally good plans, prefer fewer copysets.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(help="Seed of randomized searches.", metavar="N", show_default="run.seed")
    ] = None,
    server: Annotated[
        str, typer.Option("--bootstrap-server", help="Broker named in the printed commands.", metavar="HOST:PORT")
    ] = "localhost:9092",
    json_file: JsonOption = None,
    format_name: FormatOption = None,
    conf: ConfOption = None,
    options: SetOption = None,
) -> None:
    """Plan a reassignment, with proofs, as files for Kafka's own tools; or check such a plan. Does not start Spark."""
    from pipelines.cli.plan_check_rendering import render_progress
    from pipelines.cli.plan_options import PlanOptions, parse_request
    from pipelines.cli.plan_rendering import list_warnings, render_plan
    from pipelines.config.plan_settings import build_metric_options, build_wave_limits
    from pipelines.ingest.snapshot import load_snapshot
    from pipelines.plan_files.plan_check import check_plan
    from pipelines.plan_files.plan_creation import build_answer, build_snapshot_model, create_plan
    from pipelines.setup.kernel_groups import announce_compilation

    settings = read_settings(conf, options)
    min_isr = settings.topics.min_insync_replicas
    written = PlanOptions(**{name: context.params[name] for name in PlanOptions.__dataclass_fields__})
    if check is not None:
        others = [*written.written, *["--out"] * (out is not None)]
        if others:
            raise typer.BadParameter(f"--check makes no plan, so it takes no {', '.join(others)}.")
        cluster = find_source(source)
        print_warnings([cluster])
        snapshot = load_snapshot(cluster, format_name)
        progress = check_plan(check, build_snapshot_model(snapshot, min_isr), snapshot.partitions)
        write_answer(json_file, progress, render_progress(progress))
        raise typer.Exit(0 if progress.may_execute else EXIT_INPUT)
    if goal is None or out is None:
        raise typer.BadParameter("--goal and --out are required, or --check.")
    try:
        request = parse_request(written, settings)
    except SettingsError as error:  # wrong usage, not a wrong file
        raise typer.BadParameter(f"{error}.") from error
    cluster = find_source(source)
    print_warnings([cluster])
    limits, metric_options = build_wave_limits(settings), build_metric_options(settings)
    with announce_compilation(lambda text: typer.echo(f"kafka-placement: {text}", err=True)):
        created = create_plan(load_snapshot(cluster, format_name), request, out, limits, metric_options, min_isr)
    for warning in list_warnings(created):
        typer.echo(f"kafka-placement: warning: {warning}", err=True)
    write_answer(json_file, build_answer(created), render_plan(created, out, server))
