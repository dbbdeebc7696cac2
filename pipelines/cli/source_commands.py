"""Commands that answer from a source alone: inspect, what-if, hotspots, compare, assign."""

from __future__ import annotations

import sys
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
    broker_ids,
    settings_of,
    tell,
    warn,
)
from pipelines.cli.help_examples import examples
from pipelines.ingest.sources import find_source


@app.command(rich_help_panel="Questions, without Spark", epilog=examples("inspect"))
def inspect(source: SourceArgument, json_file: JsonOption = None, format_name: FormatOption = None) -> None:
    """Show what is understood of a source. Starts no Spark."""
    from pipelines.cli import inspect_output as body
    from pipelines.ingest.snapshot import load_snapshot

    found = find_source(source)
    warn([found])
    answer = body.report(load_snapshot(found, format_name))
    tell(json_file, answer, body.lines(answer))


@app.command("what-if", rich_help_panel="Questions, without Spark", epilog=examples("what-if"))
def what_if(
    source: SourceArgument,
    fail: Annotated[
        str | None,
        typer.Option(
            help="Ids of the brokers that fail together, as in 2,5.", metavar="IDS", show_default="each alone, in turn"
        ),
    ] = None,
    json_file: JsonOption = None,
    format_name: FormatOption = None,
    conf: ConfOption = None,
    options: SetOption = None,
) -> None:
    """Say which brokers can be lost now; with --fail, what fails with these, and who takes over. Starts no Spark."""
    from pipelines.cli import broker_failure_output
    from pipelines.cli import what_if_output as body
    from pipelines.ingest.snapshot import load_snapshot

    failed = broker_ids(fail) if fail is not None else None
    topics = settings_of(conf, options).topics
    defaults = body.TopicDefaults(topics.min_insync_replicas, topics.unclean_leader_election)
    found = find_source(source)
    warn([found])
    snapshot = load_snapshot(found, format_name)
    if failed is None:
        answer = broker_failure_output.broker_failures(snapshot, defaults)
        tell(json_file, answer, broker_failure_output.lines(answer))
    else:
        answer = body.what_if(snapshot, failed, defaults)
        tell(json_file, answer, body.lines(answer))


@app.command(rich_help_panel="Questions, without Spark", epilog=examples("hotspots"))
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
    from pipelines.cli import hotspots_output as body
    from pipelines.ingest.snapshot import load_snapshot

    settings = settings_of(conf, options)
    limits = settings.hotspots
    thresholds = tuple(sorted({*limits.thresholds, above}))
    chances = body.Chances(
        body.known_schemes(scheme), settings.run.seed, seeds or limits.seeds, limits.work, thresholds
    )
    found = find_source(source)
    warn([found])
    answer = body.hotspots(load_snapshot(found, format_name), chances)
    tell(json_file, answer, body.lines(answer, above))


@app.command(rich_help_panel="Questions, without Spark", epilog=examples("compare"))
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
    from pipelines.cli import compare_output as body

    settings = settings_of(conf, options)
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
    tell(json_file, answer, body.lines(answer))


@app.command(rich_help_panel="Placing and planning, without Spark", epilog=examples("assign"))
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
    from pipelines.cli import assign_output as body

    chosen = settings_of(conf, options).run.seed if seed is None else seed
    wanted = body.Options(form, scheme, chosen, one_stream, server)
    if out is None:
        outcome = body.assign(requests, brokers, wanted, sys.stdout, format_name)
    else:
        with body.whole_file(out) as stream:
            outcome = body.assign(requests, brokers, wanted, stream, format_name)
    rejected = f", {outcome.rejected} rejected" if outcome.rejected else ""
    typer.echo(f"{outcome.placed} topics placed{rejected}" + (f": {out}" if out else ""), err=True)
