"""`replay`: what the controller did, or would do, over time."""

from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.app import app, examples
from pipelines.cli.common_options import (
    SMALL_REPLAY,
    ConfOption,
    FormatOption,
    JsonOption,
    SetOption,
    WarehouseOption,
    open_store,
    parse_failed,
    read_settings,
    write_answer,
)
from pipelines.cli.option_values import option, parse_output, parse_place
from pipelines.cli.source_arguments import CommandConfigOption, save_live_sources
from pipelines.cli.text_format import print_line, print_message, print_warning
from pipelines.errors import SettingsError


@app.command(rich_help_panel="Over time", epilog=examples("replay"))
def replay(
    sources: Annotated[
        list[str],
        typer.Argument(
            help="A KRaft metadata log; or snapshots of one cluster in their order, or kafka://HOST:PORT; or a "
            "scenario (YAML), with or without a source.",
            metavar="SCENARIO|SOURCE...",
            parser=parse_place,
        ),
    ],
    fail: Annotated[str | None, option("Ids of brokers that fail one after another, as in 2,5.", "IDS")] = None,
    until: Annotated[
        str | None,
        option(
            "Replay a log until this offset, or until this time: 2026-11-22T10:00:00Z, or t=90s in a scenario.",
            "OFFSET|TIME",
        ),
    ] = None,
    json_file: JsonOption = None,
    events_file: Annotated[
        Path | None,
        option(
            "Write the event log to this file as JSON lines; - prints them.", "FILE", "--events", parser=parse_output
        ),
    ] = None,
    warehouse: WarehouseOption = None,
    format_name: FormatOption = None,
    command_config: CommandConfigOption = None,
    conf: ConfOption = None,
    options: SetOption = None,
) -> None:
    """Replay what the controller did, or would do: leaders, ISRs, epochs, logs and requests over time.

    --warehouse, or --set store.catalog=NAME, writes the replay's tables with Spark; otherwise no Spark is started.
    """
    from pipelines.cli.replay_rendering import render_replay
    from pipelines.setup.compile_on_demand import announce_compilation
    from pipelines.simulation import cluster_replay

    settings = read_settings(conf, options, warehouse)
    failures, end = parse_failed(fail) if fail is not None else (), cluster_replay.parse_until(until)
    saved = save_live_sources(sources, command_config, format_name)
    request = cluster_replay.ReplayRequest(saved, failures, end, settings.topics.defaults, format_name)
    with announce_compilation(print_message):
        finished = cluster_replay.run_replay(request)
    for warning in finished.warnings:
        print_warning(warning)
    lines = () if events_file == Path("-") else render_replay(finished)
    write_answer(json_file, cluster_replay.build_answer(finished) if json_file is not None else None, lines)
    if events_file is not None:
        try:
            cluster_replay.write_event_log(finished.log, events_file)
        except OSError as error:
            raise SettingsError(f"--events {events_file}: cannot be written: {error.strerror}") from error
    if warehouse is not None or any(option.startswith("store.") for option in options or ()):
        from pipelines.simulation.simulation_writer import build_tables_of_groups, write_events, write_simulation

        store = open_store(settings, small=finished.log.num_rows < SMALL_REPLAY, writing=True)
        key = finished.snapshot_key
        write_events(store, finished.log, [key])
        print_line()
        seconds = write_simulation(store, [key], group_tables=build_tables_of_groups(finished.groups, key))
        for name, duration in seconds.items():
            print_line(f"{name}: {duration:.1f} s")
