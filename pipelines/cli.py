"""`kafka-placement`: the command, and what spark-submit, wheel jobs and notebooks start. Heavy imports stay inside."""

from __future__ import annotations

import json
import os
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.exceptions import Abort, TyperException

from pipelines import __version__
from pipelines.errors import EXIT_INPUT, EXIT_USAGE, KafkaPlacementError, SettingsError
from pipelines.ingest.sources import Source, find_source, find_sources
from pipelines.settings import Settings, load_settings

if TYPE_CHECKING:
    from pipelines.store import Store

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Placement and rebalancing analytics of Kafka clusters, from their metadata alone.",
)

SourceArgument = Annotated[
    str,
    typer.Argument(help="One cluster: a file or a folder of its files; NAME=PATH names the cluster.", metavar="SOURCE"),
]
SourcesArgument = Annotated[
    list[str], typer.Argument(help="Clusters, each a file or a folder; NAME=PATH names one.", metavar="SOURCE...")
]
FormatOption = Annotated[str | None, typer.Option("--format", help="Read every file as this format; else recognised.")]
JsonOption = Annotated[Path | None, typer.Option("--json", help="Write the whole answer to this file.", metavar="FILE")]
_SMALL_REPLAY = 100_000  # events; fewer are not worth what a large Spark compiles
WarehouseOption = Annotated[
    str | None, typer.Option(help="Folder of the tables.", metavar="DIR", show_default="warehouse")
]
ConfOption = Annotated[str | None, typer.Option(help="Settings file over the defaults.", metavar="FILE")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="One setting, as in run.seed=7.", metavar="KEY=VALUE")
]


def _settings(conf: str | None, options: list[str] | None, warehouse: str | None = None) -> Settings:
    given = list(options or [])
    if warehouse is not None:
        given.append(f"store.warehouse={warehouse}")
    return load_settings(given, conf)


def _store(settings: Settings, small: bool, writing: bool = False) -> Store:
    from pipelines.session import open_session, starts_here
    from pipelines.store import Store, check_folder

    place = settings.store
    if not place.catalog and "://" not in place.warehouse and starts_here():
        check_folder(place.warehouse, writing)
    spark = open_session("kafka-placement", warehouse=None, small=small)
    return Store(spark, place.warehouse, place.catalog)


def _warn(sources: list[Source]) -> None:
    for source in sources:
        for warning in source.warnings:
            typer.echo(f"kafka-placement: warning: {warning}", err=True)


def _write_json(path: Path, answer: dict[str, Any]) -> None:
    try:
        path.write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"--json {path}: cannot be written: {error.strerror}") from error


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Show the version and stop.")] = False) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


@app.command()
def run(
    sources: SourcesArgument,
    warehouse: WarehouseOption = None,
    first: Annotated[str | None, typer.Option("--from", help="Begin here: a stage, or bronze, silver, gold.")] = None,
    last: Annotated[str | None, typer.Option("--to", help="Stop after this one.")] = None,
    fail: Annotated[
        list[str] | None,
        typer.Option(help="Brokers to see die together, as in 2,5 or prod=2,5; again for more.", metavar="IDS"),
    ] = None,
    format_name: FormatOption = None,
    conf: ConfOption = None,
    options: SetOption = None,
    as_of: Annotated[
        datetime | None,
        typer.Option("--as-of", help="Time to note for sources that are new (UTC).", show_default="now"),
    ] = None,
) -> None:
    """Run all stages over one or more clusters, and show where they stand."""
    settings = _settings(conf, options, warehouse)
    if fail:
        lists = "; ".join(filter(None, [settings.failures.lists, *fail]))
        settings = _settings(conf, [*(options or ()), f"failures.lists={lists}"], warehouse)
    from pipelines.commands import closing
    from pipelines.runner import Run, make_context
    from pipelines.stage_list import steps_between

    steps = steps_between(first, last)
    found = find_sources(sources)
    _warn(found)
    when = as_of.replace(tzinfo=UTC) if as_of else datetime.now(UTC)
    context = make_context(found, settings, when, format_name)
    with closing.progress(len(steps)) as progress:
        progress.began("starting Spark")
        small = sum(s.size_bytes for s in found) < settings.ingest.small_bytes
        store = _store(settings, small, writing=True)
        work = Run(store.spark, store, context, progress)
        work.go(steps, clock=lambda: datetime.now(UTC))
    closing.show(store, context.snapshots, steps, work.docs_folder, settings.failures.most_pairs)


@app.command()
def tables(warehouse: WarehouseOption = None, conf: ConfOption = None, options: SetOption = None) -> None:
    """Show what tables there are: rows, version, comment."""
    from pipelines.commands import closing

    closing.show_tables(_store(_settings(conf, options, warehouse), small=True))


@app.command()
def query(
    sql: Annotated[str, typer.Argument(help="SQL over the tables, as in SELECT * FROM gold.leader_hotspots.")],
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="One JSON object a row. Binary values are base64, keys of maps are text, and numbers that JSON lacks "
            'are "NaN", "Infinity" and "-Infinity".',
        ),
    ] = False,
    warehouse: WarehouseOption = None,
    conf: ConfOption = None,
    options: SetOption = None,
) -> None:
    """Ask the tables a question in SQL."""
    from pipelines.commands import closing

    settings = _settings(conf, options, warehouse)
    from pipelines.store import holds_less

    small = holds_less(settings.store.warehouse, settings.ingest.small_bytes)
    closing.show_query(_store(settings, small), sql, as_json)


@app.command()
def inspect(source: SourceArgument, json_file: JsonOption = None, format_name: FormatOption = None) -> None:
    """Show what is understood of a source. Starts no Spark."""
    from pipelines.commands import inspect as body
    from pipelines.ingest.snapshot import load_snapshot

    found = find_source(source)
    _warn([found])
    answer = body.report(load_snapshot(found, format_name))
    if json_file is not None:
        _write_json(json_file, answer)
    for line in body.lines(answer):
        typer.echo(line)


@app.command("what-if")
def what_if(
    source: SourceArgument,
    fail: Annotated[str, typer.Option(help="Ids of the brokers that die, as in 2,5.", metavar="IDS")],
    json_file: JsonOption = None,
    format_name: FormatOption = None,
    conf: ConfOption = None,
    options: SetOption = None,
) -> None:
    """Show what dies with some brokers, and who takes over. Starts no Spark."""
    from pipelines.commands import what_if as body
    from pipelines.ingest.snapshot import load_snapshot

    failed = _broker_ids(fail)
    topics = _settings(conf, options).topics
    defaults = body.TopicDefaults(topics.min_insync_replicas, topics.unclean_leader_election)
    found = find_source(source)
    _warn([found])
    answer = body.what_if(load_snapshot(found, format_name), failed, defaults)
    if json_file is not None:
        _write_json(json_file, answer)
    for line in body.lines(answer):
        typer.echo(line)


@app.command()
def replay(
    sources: Annotated[
        list[str],
        typer.Argument(
            help="A KRaft metadata log; or snapshots of one cluster in their order; or one and a scenario (YAML).",
            metavar="SCENARIO|SOURCE...",
        ),
    ],
    fail: Annotated[
        str | None, typer.Option(help="Ids of brokers that die, one after another, as in 2,5.", metavar="IDS")
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
        Path | None, typer.Option("--events", help="Write the event log there, as JSON lines.", metavar="FILE")
    ] = None,
    warehouse: WarehouseOption = None,
    format_name: FormatOption = None,
    conf: ConfOption = None,
    options: SetOption = None,
) -> None:
    """Replay what the controller did, or would do: leaders, ISRs, epochs, logs and requests over time.

    With --warehouse the tables of the replay are written, by Spark; without, none is started.
    """
    from pipelines.commands import replay as body

    settings = _settings(conf, options, warehouse)
    topics = settings.topics
    asked = body.Asked(
        sources,
        _broker_ids(fail) if fail else (),
        body.until_of(until),
        topics.min_insync_replicas,
        topics.unclean_leader_election,
        format_name,
    )
    timeline = body.timeline(asked)
    for warning in timeline.warnings:
        typer.echo(f"kafka-placement: warning: {warning}", err=True)
    if json_file is not None:
        _write_json(json_file, body.answer(timeline))
    for line in body.lines(timeline):
        typer.echo(line)
    if events_file is not None:
        try:
            body.write_rows(timeline.log, events_file)
        except OSError as error:
            raise SettingsError(f"--events {events_file}: cannot be written: {error.strerror}") from error
    if warehouse is not None:
        from pipelines.replay_run import rows_of_groups, write_events, write_replay

        store = _store(settings, small=timeline.log.num_rows < _SMALL_REPLAY, writing=True)
        snapshot = body.snapshot_of_log(timeline)
        write_events(store.spark, store, timeline.log, [snapshot])
        typer.echo("")
        of_groups = rows_of_groups(timeline.groups, snapshot)
        for name, seconds in write_replay(store, [snapshot], of_groups=of_groups).items():
            typer.echo(f"{name}: {seconds:.1f} s")


@app.command()
def replay_stream(
    folder: Annotated[
        str, typer.Argument(help="Where files of events arrive (JSON lines, as replay --events writes them).")
    ],
    warehouse: WarehouseOption = None,
    once: Annotated[bool, typer.Option("--once", help="End when all files that are there are replayed.")] = False,
    conf: ConfOption = None,
    options: SetOption = None,
) -> None:
    """Replay event logs as their files arrive: the same tables as a replay of all files at once."""
    from pipelines.replay_stream import follow

    store = _store(_settings(conf, options, warehouse), small=False, writing=True)
    query = follow(store.spark, store, folder, once)
    query.awaitTermination()


@app.command()
def assign(
    requests: Annotated[
        str,
        typer.Argument(
            help="JSON lines, one request each; or a list of topics (CSV, JSON), or any source.", metavar="FILE"
        ),
    ],
    brokers: Annotated[str | None, typer.Option(help="List of brokers for a list of topics.", metavar="FILE")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the answers here.", show_default="printed")] = None,
    form: Annotated[
        str,
        typer.Option("--as", help="json (lines), commands (kafka-topics) or reassignment (kafka-reassign-partitions)."),
    ] = "json",
    scheme: Annotated[
        str, typer.Option(help="For lists and sources: kafka, kafka_rack_unaware, kraft or naive.")
    ] = "kafka",
    seed: Annotated[int | None, typer.Option(help="Of java.util.Random.", show_default="run.seed")] = None,
    one_stream: Annotated[
        bool, typer.Option("--one-stream", help="All topics from one Random, as one Kafka process; else one a topic.")
    ] = False,
    format_name: FormatOption = None,
    server: Annotated[str, typer.Option("--bootstrap-server", help="For --as commands.")] = "localhost:9092",
    conf: ConfOption = None,
    options: SetOption = None,
) -> None:
    """Place topics as Kafka would, bit for bit. Starts no Spark."""
    from pipelines.commands import assign as body

    chosen = _settings(conf, options).run.seed if seed is None else seed
    wanted = body.Options(form, scheme, chosen, one_stream, server)
    if out is None:
        outcome = body.assign(requests, brokers, wanted, sys.stdout, format_name)
    else:
        with body.whole_file(out) as stream:
            outcome = body.assign(requests, brokers, wanted, stream, format_name)
    refused = f", {outcome.refused} refused" if outcome.refused else ""
    typer.echo(f"{outcome.placed} topics placed{refused}" + (f": {out}" if out else ""), err=True)


@app.command()
def hotspots(
    source: SourceArgument,
    seeds: Annotated[int | None, typer.Option(min=1, help="Placements to try.", show_default="hotspots.seeds")] = None,
    scheme: Annotated[str, typer.Option(help="Schemes to try, with commas.", metavar="NAMES")] = "kafka,kraft,naive",
    above: Annotated[float, typer.Option(min=0.0, max=1e6, help="Show the chance of a max/mean above this.")] = 1.25,
    json_file: JsonOption = None,
    format_name: FormatOption = None,
    conf: ConfOption = None,
    options: SetOption = None,
) -> None:
    """Show how hot the hottest broker is, and how hot chance alone makes it. Starts no Spark."""
    from pipelines.commands import hotspots as body
    from pipelines.ingest.snapshot import load_snapshot

    settings = _settings(conf, options)
    limits = settings.hotspots
    thresholds = tuple(sorted({*limits.thresholds, above}))
    chances = body.Chances(
        body.known_schemes(scheme), settings.run.seed, seeds or limits.seeds, limits.work, thresholds
    )
    found = find_source(source)
    _warn([found])
    answer = body.hotspots(load_snapshot(found, format_name), chances)
    if json_file is not None:
        _write_json(json_file, answer)
    for line in body.lines(answer, above):
        typer.echo(line)


@app.command()
def compare(
    brokers: Annotated[str, typer.Option(help="Brokers, with commas.", metavar="NUMBERS")] = "6,12,60,200",
    racks: Annotated[str, typer.Option(help="Racks, with commas; 0 = none.", metavar="NUMBERS")] = "0,3,6",
    partitions: Annotated[str, typer.Option(help="Partitions a topic.", metavar="NUMBERS")] = "1,6,24,100",
    factors: Annotated[str, typer.Option("--rf", help="Replication factors.", metavar="NUMBERS")] = "2,3",
    led: Annotated[int, typer.Option(min=1, max=100_000, help="Partitions a broker leads on average.")] = 100,
    seeds: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Placements of each mix.", show_default="failures.seeds")
    ] = None,
    json_file: JsonOption = None,
    conf: ConfOption = None,
    options: SetOption = None,
) -> None:
    """Compare Kafka's schemes over made-up clusters: worst survivor, copysets, loss. Starts no Spark."""
    from pipelines.commands import compare as body

    settings = _settings(conf, options)
    grid = body.Grid(
        body.numbers(brokers, "--brokers", 1, 5_000),
        body.numbers(racks, "--racks", 0, 5_000),
        body.numbers(partitions, "--partitions", 1, 1_000_000),
        body.numbers(factors, "--rf", 1, 20),
        led,
        settings.run.seed,
        seeds or settings.failures.seeds,
    )
    answer = body.compare(grid)
    if json_file is not None:
        _write_json(json_file, answer)
    for line in body.lines(answer):
        typer.echo(line)


@app.command()
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
        Path | None,
        typer.Option(help="Say what has become of the plan in this folder, and make none.", metavar="DIR"),
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
    from pipelines.commands import plan as body
    from pipelines.commands import plan_compiling, plan_lines, plan_options
    from pipelines.ingest.snapshot import load_snapshot

    settings = _settings(conf, options)
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
        _warn([found])
        state = body.check(load_snapshot(found, format_name), check, settings)
        if json_file is not None:
            _write_json(json_file, state.as_dict())
        for line in state.lines():
            typer.echo(line)
        raise typer.Exit(EXIT_INPUT if state.status in body.REFUSED else 0)
    if goal is None or out is None:
        raise typer.BadParameter("--goal and --out are needed, or --check.")
    try:
        wanted = plan_options.wish(written, settings)
    except SettingsError as error:  # of options that do not go together, not of a file
        raise typer.BadParameter(f"{error}.") from error
    found = find_source(source)
    _warn([found])
    with plan_compiling.told(lambda text: typer.echo(f"kafka-placement: {text}", err=True)):
        made = body.plan(load_snapshot(found, format_name), wanted, settings, out)
    for warning in body.warnings(made):
        typer.echo(f"kafka-placement: warning: {warning}", err=True)
    if json_file is not None:
        _write_json(json_file, body.answer(made))
    for line in plan_lines.lines(made, out, server):
        typer.echo(line)


def _broker_ids(text: str) -> list[int]:
    ids = []
    for part in text.split(","):
        if not re.fullmatch(r"\s*\d+\s*", part):
            raise SettingsError(f"--fail {text}: {part.strip()!r} is no broker id. Write ids with commas, as in 2,5")
        ids.append(int(part))
    return list(dict.fromkeys(ids))


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command with these arguments (default: the process's own)."""
    try:
        code = app(args=argv, prog_name="kafka-placement", standalone_mode=False)
    except TyperException as error:  # all that typer refuses is wrong usage
        print(f"kafka-placement: {error.format_message()} See: kafka-placement --help", file=sys.stderr)
        return EXIT_USAGE
    except Abort:
        return 130
    except KafkaPlacementError as error:
        print(f"kafka-placement: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # who reads has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"kafka-placement: {error}", file=sys.stderr)
        return 1
    except Exception as error:
        said = _from_worker(error)
        if said is None:
            raise
        print(f"kafka-placement: {said}", file=sys.stderr)
        return 1
    return code if isinstance(code, int) else 0


def _from_worker(error: Exception) -> str | None:
    """What an error of ours said in a Spark worker, or None: Spark hands it on as a traceback's text."""
    found = re.findall(r"^pipelines\.errors\.\w+: (.*)$", str(error), flags=re.MULTILINE)
    return found[-1] if found else None


def entry() -> None:
    """The installed command."""
    sys.exit(main())


if __name__ == "__main__":
    entry()
