"""Commands of replays."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.app import app
from pipelines.cli.common_options import (
    SMALL_REPLAY,
    ConfOption,
    FormatOption,
    JsonOption,
    SetOption,
    WarehouseOption,
    broker_ids,
    settings_of,
    store_of,
    tell,
)
from pipelines.cli.help_examples import examples
from pipelines.errors import SettingsError


@app.command(rich_help_panel="Over time", epilog=examples("replay"))
def replay(
    sources: Annotated[
        list[str],
        typer.Argument(
            help="A KRaft metadata log; or snapshots of one cluster in their order; or one and a scenario (YAML).",
            metavar="SCENARIO|SOURCE...",
        ),
    ],
    fail: Annotated[
        str | None, typer.Option(help="Ids of brokers that fail, one after another, as in 2,5.", metavar="IDS")
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            help="The last offset of a log that counts; or the last time: 2026-11-22T10:00:00Z, t=90s of a scenario.",
            metavar="OFFSET|TIME",
        ),
    ] = None,
    json_file: JsonOption = None,
    events_file: Annotated[
        Path | None,
        typer.Option("--events", help="Write the event log there, as JSON lines; - prints it.", metavar="FILE"),
    ] = None,
    warehouse: WarehouseOption = None,
    format_name: FormatOption = None,
    conf: ConfOption = None,
    options: SetOption = None,
) -> None:
    """Replay what the controller did, or would do: leaders, ISRs, epochs, logs and requests over time.

    With --warehouse, or --set store.catalog=NAME, the tables of the replay are written, by Spark; else none is started.
    """
    from pipelines.cli import replay_output as body
    from pipelines.setup.first_use_compilation import announced

    settings = settings_of(conf, options, warehouse)
    topics = settings.topics
    asked = body.Asked(
        sources,
        broker_ids(fail) if fail else (),
        body.until_of(until),
        topics.min_insync_replicas,
        topics.unclean_leader_election,
        format_name,
    )
    with announced(lambda text: typer.echo(f"kafka-placement: {text}", err=True)):
        timeline = body.timeline(asked)
    for warning in timeline.warnings:
        typer.echo(f"kafka-placement: warning: {warning}", err=True)
    printed = () if events_file == Path("-") else body.lines(timeline)
    tell(json_file, body.answer(timeline) if json_file is not None else {}, printed)
    if events_file is not None:
        try:
            body.write_rows(timeline.log, events_file)
        except OSError as error:
            raise SettingsError(f"--events {events_file}: cannot be written: {error.strerror}") from error
    if warehouse is not None or any(option.startswith("store.") for option in options or ()):
        from pipelines.simulation.simulation_run import rows_of_groups, write_events, write_replay

        store = store_of(settings, small=timeline.log.num_rows < SMALL_REPLAY, writing=True)
        snapshot = body.snapshot_of_log(timeline)
        write_events(store.spark, store, timeline.log, [snapshot])
        typer.echo("")
        of_groups = rows_of_groups(timeline.groups, snapshot)
        for name, seconds in write_replay(store, [snapshot], of_groups=of_groups).items():
            typer.echo(f"{name}: {seconds:.1f} s")
