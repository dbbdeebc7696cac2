"""The command of plans."""

from __future__ import annotations

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
    settings_of,
    tell,
    warn,
)
from pipelines.cli.help_examples import examples
from pipelines.errors import EXIT_INPUT, SettingsError
from pipelines.ingest.sources import find_source


@app.command(rich_help_panel="Placing and planning, without Spark", epilog=examples("plan"))
def plan(
    source: SourceArgument,
    goal: Annotated[
        str | None,
        typer.Option(help="leaders, failover, balance, drain, expand, replace, repair or rf.", metavar="GOAL"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the plan to this folder: new, empty, or a plan.", metavar="DIR")
    ] = None,
    check: Annotated[
        Path | None, typer.Option(help="Say what has become of the plan in this folder, and make none.", metavar="DIR")
    ] = None,
    brokers: Annotated[
        str | None,
        typer.Option(
            help="Brokers to drain, or to fill.",
            metavar="IDS",
            show_default="those that the source wants empty; those that hold nothing",
        ),
    ] = None,
    replace: Annotated[
        str | None, typer.Option(help="Who takes over from whom, as in 7=66,8=67.", metavar="PAIRS")
    ] = None,
    factor: Annotated[int | None, typer.Option("--rf", help="Replication factor for --goal rf.", metavar="N")] = None,
    topics: Annotated[
        str | None, typer.Option(help="Topics for --goal rf.", metavar="NAMES", show_default="all")
    ] = None,
    exclude_topics: Annotated[
        str | None, typer.Option("--exclude-topics", help="Topics to leave as they are.", metavar="NAMES")
    ] = None,
    exclude_brokers: Annotated[
        str | None, typer.Option("--exclude-brokers", help="Brokers that get nothing more.", metavar="IDS")
    ] = None,
    max_bytes: Annotated[
        str | None, typer.Option("--max-bytes", help="Copy no more than this, as in 500GB.", metavar="SIZE")
    ] = None,
    max_moves: Annotated[
        int | None, typer.Option("--max-moves", min=0, help="Copy no more replicas than this.", metavar="N")
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            help="all priorities of conf, or counts alone: min-bytes, min-moves.",
            show_default="all for balance, drain and expand, else min-bytes",
        ),
    ] = None,
    keep_leaders: Annotated[
        bool, typer.Option("--keep-leaders", help="For failover: change only the followers' order.")
    ] = False,
    per_topic: Annotated[bool, typer.Option("--per-topic", help="Spread the leaders of each topic too.")] = False,
    by_bytes: Annotated[
        bool, typer.Option("--by-bytes", help="Leaders and failover: even out bytes out, not counts alone.")
    ] = False,
    allow_fewer_racks: Annotated[
        bool, typer.Option("--allow-fewer-racks", help="A rack may be left without any broker.")
    ] = False,
    copysets: Annotated[
        bool, typer.Option("--copysets", help="Of plans as good, one with fewer distinct replica sets.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="Of what is tried at random.", show_default="run.seed")] = None,
    server: Annotated[str, typer.Option("--bootstrap-server", help="For the commands shown.")] = "localhost:9092",
    json_file: JsonOption = None,
    format_name: FormatOption = None,
    conf: ConfOption = None,
    options: SetOption = None,
) -> None:
    """Plan what to change, with a proof, as files for Kafka's own tools; or check such a plan. Starts no Spark."""
    from pipelines.cli import plan_lines, plan_options
    from pipelines.cli import plan_output as body
    from pipelines.ingest.snapshot import load_snapshot
    from pipelines.setup.first_use_compilation import announced

    settings = settings_of(conf, options)
    written = plan_options.Options(
        goal=goal or "",
        brokers=brokers,
        replacements=replace,
        factor=factor,
        topics=topics,
        exclude_topics=exclude_topics,
        exclude_brokers=exclude_brokers,
        max_bytes=max_bytes,
        max_moves=max_moves,
        objective=objective,
        keep_leaders=keep_leaders,
        per_topic=per_topic,
        by_bytes=by_bytes,
        allow_fewer_racks=allow_fewer_racks,
        copysets=copysets,
        seed=seed,
    )
    if check is not None:
        beside = [*["--goal"] * (goal is not None), *["--out"] * (out is not None), *plan_options.given(written)]
        if beside:
            raise typer.BadParameter(f"--check makes no plan: it is not for use with {', '.join(beside)}.")
        found = find_source(source)
        warn([found])
        state = body.check(load_snapshot(found, format_name), check, settings)
        tell(json_file, state.as_dict(), state.lines())
        raise typer.Exit(EXIT_INPUT if state.status in body.REJECTED else 0)
    if goal is None or out is None:
        raise typer.BadParameter("--goal and --out are needed, or --check.")
    try:
        wanted = plan_options.request(written, settings)
    except SettingsError as error:  # of options that do not go together, not of a file
        raise typer.BadParameter(f"{error}.") from error
    found = find_source(source)
    warn([found])
    with announced(lambda text: typer.echo(f"kafka-placement: {text}", err=True)):
        made = body.plan(load_snapshot(found, format_name), wanted, settings, out)
    for warning in body.warnings(made):
        typer.echo(f"kafka-placement: warning: {warning}", err=True)
    tell(json_file, body.answer(made), plan_lines.lines(made, out, server))
