"""Options and arguments that several commands take, and the functions that interpret them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.cli.option_values import (
    flag,
    option,
    parse_broker_ids,
    parse_format,
    parse_level,
    parse_output,
    parse_pattern,
    parse_place,
    parse_server,
    whole_number,
)
from pipelines.cli.text_format import print_line, print_warning
from pipelines.config.setting_sections import Settings
from pipelines.config.settings import load_settings
from pipelines.errors import SettingsError, SourceError
from pipelines.ingest.sources import Source
from pipelines.logging_setup import LogLevel, configure_logging
from udfs.json_answers import to_json
from udfs.wording import count_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from pipelines.ingest.snapshot_reader import Snapshot
    from pipelines.spark.store import Store


FormatOption = Annotated[
    str | None,
    option(
        "Read every file of a source in this format, as in describe or kcat; a wrong name lists all.",
        "NAME",
        "--format",
        parser=parse_format,
        default="detected",
    ),
]
JsonOption = Annotated[
    Path | None,
    option("Write the answer as JSON to this file; - prints only the JSON.", "FILE", "--json", parser=parse_output),
]
_SERVER = ("Broker named in the printed commands.", "HOST:PORT", "--bootstrap-server")
_LIVE_SERVER = "the first live broker whose host and port the source shows, else localhost:9092"
ServerOption = Annotated[str, option(*_SERVER, parser=parse_server)]
LiveServersOption = Annotated[str | None, option(*_SERVER, parser=parse_server, default=_LIVE_SERVER)]
_SLOW_PATH = "paths with other characters than letters, digits, spaces and . - _ take ten times as long"
_READ_FACTOR = 4  # see open_existing_store
_MAX_PROBLEMS = 6  # files that are not used and explained
SMALL_REPLAY = 100_000  # events; fewer are not worth Spark's code generation
WarehouseOption = Annotated[str | None, option("Folder of the tables.", "DIR", parser=parse_place, default="warehouse")]
ConfOption = Annotated[
    str | None, option("A TOML file with settings that replace the defaults.", "FILE", parser=parse_place)
]
SetOption = Annotated[
    list[str] | None, option("Change a setting, as in run.seed=7; repeat for more.", "KEY=VALUE", "--set")
]


def ignore_topics_option(effect: str) -> Any:
    """Return the option --ignore-topics. effect: what happens to these topics, as the end of its help."""
    text = f"Topics whose problems do not count, as in 'tmp-*'; repeat for more. {effect}"
    return option(text, "PATTERN", "--ignore-topics", parser=parse_pattern)


IgnoreTopicsOption = Annotated[list[str] | None, ignore_topics_option("They are counted apart.")]
AfterOption = Annotated[
    list[Path] | None,
    option(
        "Answer for the cluster as it will be after the plan of this folder; repeat it for plans in their order.",
        "DIR",
        default="the cluster as it is",
    ),
]
DownOption = Annotated[
    str | None,
    option(
        "Brokers that the source shows as live: answer as if they were down, and Kafka had elected other leaders.",
        "IDS",
        "--down",
        default="none",
    ),
]
ReturnOption = Annotated[
    str | None,
    option(
        "Brokers that are down or lag: answer as if they were back, with all their replicas in sync.",
        "IDS",
        "--return",
        default="none",
    ),
]
LogLevelOption = Annotated[
    LogLevel | None,
    typer.Option(
        help="Print a log of at least this level on stderr: debug, info, warning or error.",
        metavar="LEVEL",
        parser=parse_level,
        envvar="KAFKA_PLACEMENT_LOG_LEVEL",
        callback=configure_logging,
        show_default="no log",
    ),
]


def read_settings(
    conf: str | None, options: list[str] | None, warehouse: str | None = None, ignored: list[str] | None = None
) -> Settings:
    """Load the settings that --conf, --set, --warehouse and --ignore-topics ask for."""
    settings = load_settings(options or (), conf, warehouse=warehouse)
    topics = settings.topics.model_copy(update={"ignored": (*settings.topics.ignored, *(ignored or ()))})
    return settings.model_copy(update={"topics": topics})


def warn_of_unmatched_patterns(ignored: Sequence[str] | None, topics: pa.Table) -> None:
    """Print a warning for each pattern of --ignore-topics that matches no topic."""
    from udfs.failures.topic_defaults import TopicDefaults

    for pattern in ignored or ():
        if not any(TopicDefaults(ignored=(pattern,)).find_ignored(topics["topic"]).to_pylist()):
            print_warning(f"--ignore-topics {pattern}: no topic has such a name")


def open_store(settings: Settings, small: bool, writing: bool = False, without_java: bool = False) -> Store:
    """Open the tables.

    small: a Spark that starts in this process is configured for little work. without_java: where this process can read
    the files of tables, Sail will do for Spark.
    """
    from pipelines.spark.delta_rs import is_plain, reads_every_table
    from pipelines.spark.session import open_session, starts_embedded_spark
    from pipelines.spark.store import Store
    from pipelines.spark.warehouse_folder import check_folder
    from pipelines.tables import TABLES

    place = settings.store

    def start_spark() -> SparkSession:
        # Sail reads no tables: delta-rs must be able to read all of them.
        can_do_without = without_java and small and place.in_folder and reads_every_table(place.warehouse, TABLES)
        return open_session("kafka-placement", warehouse=None, small=small, without_java=can_do_without)

    if place.in_folder and starts_embedded_spark():
        check_folder(place.warehouse, writing)
        if not is_plain(str(Path(place.warehouse).resolve())):
            print_warning(f"--warehouse {place.warehouse}: {_SLOW_PATH}")
        if not writing:
            warn_of_lost_rows(place.warehouse)
        return Store(start_spark, place.warehouse, small=small)
    return Store(start_spark(), place.warehouse, place.catalog)


def warn_of_lost_rows(warehouse: str) -> None:
    """Print a warning for each table of a folder that is empty, although data was written for it."""
    from pipelines.spark.warehouse_folder import find_lost_rows

    for sentence in find_lost_rows(warehouse):
        print_warning(sentence)


def open_store_to_read(settings: Settings) -> Store:
    """Open the tables for a command that only reads; raise StoreError if an earlier version has written them."""
    from pipelines.spark.table_migrations import check_migrated

    store = open_existing_store(settings)
    check_migrated(store)
    return store


def open_existing_store(settings: Settings) -> Store:
    """Open the tables for a command that adds no rows; small tables need little of Spark."""
    from pipelines.spark.warehouse_folder import is_smaller_than

    # Measured: compiled queries pay off for larger tables than sources, as most queries read little of them.
    limit = _READ_FACTOR * settings.ingest.small_input_bytes
    return open_store(settings, is_smaller_than(settings.store.warehouse, limit))


def read_snapshot(source: Source, format_name: str | None, settings: Settings | None = None) -> Snapshot:
    """Read a source, and print a warning for each of its entries and files that is not used."""
    from pipelines.ingest.snapshot_reader import list_problems, load_snapshot

    print_warnings([source])
    snapshot = load_snapshot(source, format_name, (settings or load_settings([])).ingest.max_file_bytes)
    problems = list_problems(snapshot.files)
    if format_name is not None:  # other files of a folder
        outcomes = snapshot.outcomes.to_pylist()
        used = {row["source"] for row in outcomes if row["outcome"] != "ignored"}
        others = {row["source"] for row in outcomes} - used
        lack = f"has nothing in the format {format_name} of --format"
        remedy = "Leave out --format, or put files of one format into a folder"
        problems += [SourceError(str(file.path), lack, remedy) for file in snapshot.files if file.name in others]
    for problem in problems[:_MAX_PROBLEMS]:
        print_warning(f"nothing of this file is used: {problem}")
    if len(problems) > _MAX_PROBLEMS:
        print_warning(f"nothing of {count_of(len(problems) - _MAX_PROBLEMS, 'more file')} is used")
    return snapshot


def select_files(plans: Sequence[Path]) -> list[Path]:
    """Return the files of reassignments among plans; none if they are one folder of a plan.

    Raises: typer.BadParameter for a folder beside others.
    """
    from pipelines.plan_files.reassignment_reader import is_plan_folder

    folders = [path for path in plans if is_plan_folder(path)]
    if folders and len(plans) > 1:
        raise typer.BadParameter("Name one folder of a plan, or files of reassignments.")
    return [] if folders else list(plans)


def print_findings(snapshot: Snapshot, *, to_be_placed: bool = False) -> None:
    """Print as warnings what the sources of a snapshot lack, but for unused files: reading it has named them.

    to_be_placed: its topics, on all its brokers, so that neither where they are nor which brokers are live matters.
    """
    from pipelines.verdict.judgement import describe_source_findings
    from pipelines.verdict.snapshot_findings import find_findings

    findings = replace(find_findings(snapshot), unused_files=())
    if to_be_placed:
        findings = replace(findings, unknown_brokers=(), unplaced_partitions=0, inferred_partitions=0)
    for sentence in (*(finding.text for finding in describe_source_findings(findings)), *snapshot.conflicting_listings):
        print_warning(sentence)


def print_warnings(sources: list[Source]) -> None:
    """Print the warnings about sources on stderr."""
    for source in sources:
        for warning in source.warnings:
            print_warning(warning)


# Raised when a key of an answer goes, gets another name or another meaning: docs/commands.md, JSON.
JSON_VERSION = 1


def write_json(path: Path, answer: Any) -> None:
    """Write an answer as JSON to a file; `-` prints it."""
    value = to_json(answer)
    if isinstance(value, dict):
        value = {"json_version": JSON_VERSION, **value}
    write_text(path, json.dumps(value, indent=1) + "\n")


def write_text(path: Path, text: str, option_name: str = "--json") -> None:
    """Write what an option asks for to its file; `-` prints it. Raises: SettingsError if it cannot be written."""
    if str(path) == "-":
        typer.echo(text, nl=False)
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"{option_name} {path}: cannot be written: {error.strerror}") from error


def write_answer(json_file: Path | None, answer: Any, lines: Iterable[str]) -> None:
    """Print an answer line by line, and write it as JSON if --json asks for it."""
    if json_file is not None:
        write_json(json_file, answer)
    if str(json_file) != "-":
        for line in lines:
            print_line(line)


def parse_failed(text: str, example: str = "2,5") -> list[int]:
    """Parse the ids of --fail, without repetitions."""
    try:
        return parse_broker_ids(text, example)
    except ValueError as error:
        raise typer.BadParameter(f"--fail: {error}") from error


_GOALS = "leaders, failover, balance, drain, expand, replace, repair, rf, relieve, log-dirs, empty-log-dir or zones."
_DEFAULT_BROKERS = "drain: those that the source marks for draining; expand: empty ones; repair, relieve: all"
_MAX_FACTOR = 1000  # replicas of one partition
_OBJECTIVE = "Balance all of plans.priorities (all), or replica counts only (min-bytes, min-moves)."
_DEFAULT_OBJECTIVE = "all for balance, drain and expand, else min-bytes"
AddBrokersOption = Annotated[
    str | None, option("Live brokers that no source shows, with their racks, as in 13:rack-b.", "BROKERS")
]
ThrottleOption = Annotated[
    str | None,
    option("Bytes per second that a broker copies, as in 50MB.", "SIZE", default="plans.throttle_bytes_per_s"),
]


@dataclass(frozen=True)
class PlanOptions:
    """The options as they were written; each field is named like its option."""

    goal: Annotated[str | None, option(_GOALS, "GOAL")] = None
    brokers: Annotated[
        str | None,
        option("Brokers to drain, to expand onto, to relieve, or to repair.", "IDS", default=_DEFAULT_BROKERS),
    ] = None
    replace: Annotated[str | None, option("Brokers and their replacements, as in 7=66,8=67.", "PAIRS")] = None
    rf: Annotated[int | None, option("Replication factor for --goal rf.", "N", parser=whole_number(1, _MAX_FACTOR))] = (
        None
    )
    log_dirs: Annotated[str | None, option("Log dirs to empty, as in 3:/data1,3:/data2.", "DIRS")] = None
    topics: Annotated[str | None, option("Change only these topics.", "NAMES", default="all")] = None
    at_min_isr_partitions: Annotated[
        bool, flag("at-min-isr-partitions", "For repair: only partitions with just min.insync.replicas in sync.")
    ] = False
    under_min_isr_partitions: Annotated[
        bool, flag("under-min-isr-partitions", "For repair: only partitions below min.insync.replicas.")
    ] = False
    exclude_topics: Annotated[str | None, option("Topics to leave unchanged.", "NAMES")] = None
    exclude_brokers: Annotated[str | None, option("Brokers that receive no replicas.", "IDS")] = None
    add_brokers: AddBrokersOption = None
    max_bytes: Annotated[str | None, option("Copy at most this much, as in 500GB.", "SIZE")] = None
    max_moves: Annotated[
        int | None, option("Copy at most this many replicas.", "N", parser=whole_number(0, 10**12))
    ] = None
    max_time: Annotated[
        str | None, option("For balance: no broker copies for longer than this at the throttle, as in 6h.", "TIME")
    ] = None
    throttle: ThrottleOption = None
    objective: Annotated[str | None, option(_OBJECTIVE, "NAME", default=_DEFAULT_OBJECTIVE)] = None
    keep_leaders: Annotated[bool, flag("keep-leaders", "For failover: only reorder followers.")] = False
    per_topic: Annotated[bool, flag("per-topic", "Spread the leaders of each topic as well.")] = False
    by_bytes: Annotated[bool, flag("by-bytes", "For leaders and failover: also balance bytes out.")] = False
    allow_empty_racks: Annotated[bool, flag("allow-empty-racks", "Allow racks to lose their last broker.")] = False
    keep_rack_violations: Annotated[
        bool, flag("keep-rack-violations", "Leave racks that hold too many replicas of a partition as they are.")
    ] = False
    prefer_fewer_copysets: Annotated[
        bool, flag("prefer-fewer-copysets", "Among equally good plans, prefer fewer copysets.")
    ] = False
    seed: Annotated[
        int | None, option("Seed of randomized searches.", "N", default="run.seed", parser=whole_number())
    ] = None

    @property
    def values(self) -> dict[str, tuple[str, ...]]:
        """Return the options that were written with their values; a flag has none."""
        values = {f"--{field.name.replace('_', '-')}": getattr(self, field.name) for field in fields(self)}
        written = {option: value for option, value in values.items() if value is not None and value is not False}
        return {option: () if value is True else (str(value),) for option, value in written.items()}
