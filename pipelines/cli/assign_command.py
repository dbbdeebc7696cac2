"""`assign`: place topics as Kafka would; print JSON lines, kafka-topics commands or a reassignment."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from pipelines.cli.app import app, examples
from pipelines.cli.common_options import (
    ConfOption,
    FormatOption,
    ServerOption,
    SetOption,
    print_findings,
    read_settings,
    read_snapshot,
)
from pipelines.cli.option_values import flag, option, parse_path, parse_place, whole_number
from pipelines.cli.text_format import print_line
from pipelines.errors import SettingsError
from udfs.placement.schemes import MANUAL
from udfs.wording import count_of, escape_text

if TYPE_CHECKING:
    from pipelines.assignment.topic_assigner import TopicAssignment

JSON, COMMANDS, REASSIGNMENT = "json", "commands", "reassignment"
OUTPUT_FORMATS = (JSON, COMMANDS, REASSIGNMENT)


@app.command(rich_help_panel="Placing and planning, without Spark", epilog=examples("assign"))
def assign(
    requests: Annotated[
        str,
        typer.Argument(
            help="Requests as JSON lines; or a list of topics (CSV, JSON); or any source.",
            metavar="FILE",
            parser=parse_place,
        ),
    ],
    brokers: Annotated[
        str | None, option("Brokers on which to place a list of topics.", "FILE", parser=parse_place)
    ] = None,
    out: Annotated[
        Path | None, option("Write the output to this file.", "FILE", parser=parse_path, default="printed")
    ] = None,
    output_format: Annotated[
        str, option("json (lines), commands (kafka-topics) or reassignment (kafka-reassign-partitions).", "FORMAT")
    ] = "json",
    scheme: Annotated[
        str, option("For lists and sources: kafka, kafka_rack_unaware, kraft or naive.", "SCHEME")
    ] = "kafka",
    seed: Annotated[
        int | None, option("Seed of java.util.Random.", "N", parser=whole_number(), default="run.seed")
    ] = None,
    shared_random: Annotated[
        bool,
        flag("shared-random", "Use one random generator for all topics, as one Kafka process does, not one per topic."),
    ] = False,
    format_name: FormatOption = None,
    server: ServerOption = "localhost:9092",
    conf: ConfOption = None,
    options: SetOption = None,
) -> None:
    """Place topics as Kafka would, bit for bit."""
    if output_format not in OUTPUT_FORMATS:
        raise SettingsError(f"--output-format {output_format}: choose from {', '.join(OUTPUT_FORMATS)}")
    run_seed = read_settings(conf, options).run.seed if seed is None else seed
    counts: Counter[str] = Counter()

    def count_answers() -> Iterator[tuple[dict[str, Any], list[TopicAssignment]]]:
        for fields, result in _assign(requests, brokers, format_name, scheme, run_seed, shared_random):
            counts.update("placed" if assignment.error is None else "rejected" for assignment in result)
            yield fields, result

    as_json = (json.dumps(fields, separators=(",", ":")) for fields, _ in count_answers())
    topics = (assignment for _, result in count_answers() for assignment in result)
    lines = as_json if output_format == JSON else map(escape_text, _format(topics, output_format, server))
    out = None if out == Path("-") else out
    with _print_all() if out is None else _open_replacing(out) as stream:
        for line in lines:
            stream.write(line + "\n")
    rejected = f", {counts['rejected']} rejected" if counts["rejected"] else ""
    print_line(f"{count_of(counts['placed'], 'topic')} placed{rejected}" + (f": {out}" if out else ""), stderr=True)


def _assign(
    path: str, brokers: str | None, format_name: str | None, scheme: str, seed: int, shared_random: bool
) -> Iterator[tuple[dict[str, Any], list[TopicAssignment]]]:
    """Place requests, or a list or source by `scheme`; yield the JSON and the assignments of each request or topic."""
    from pipelines.assignment.assign_requests import has_requests, list_algorithms, read_requests
    from pipelines.assignment.topic_assigner import assign_cluster, place_requests, to_json_outcome, to_json_request
    from pipelines.ingest.sources import Source, find_source
    from pipelines.ingest.text import read_text

    source = find_source(path)
    if brokers is None and format_name is None and len(source.files) == 1:
        text = read_text(source.files[0])
        if source.files[0].suffix == ".jsonl" or has_requests(text):
            for request, result in place_requests(read_requests(text, str(source.files[0]), seed)):
                yield to_json_request(request, result), result
            return
    algorithms = {name: algorithm for name, algorithm in list_algorithms().items() if name != MANUAL}
    if scheme not in algorithms:
        raise SettingsError(f"--scheme {scheme}: choose from {', '.join(algorithms)}")
    if brokers is not None:
        source = Source(source.cluster_id, (*source.files, *find_source(brokers).files))
    snapshot, algorithm = read_snapshot(source, format_name), algorithms[scheme]
    print_findings(snapshot, to_be_placed=True)
    for topic in assign_cluster(snapshot, algorithm, seed, shared_random):
        yield {"topic": topic.name, "algorithm": algorithm, "seed": topic.seed} | to_json_outcome(topic), [topic]


def _format(assignments: Iterator[TopicAssignment], output_format: str, server: str) -> Iterator[str]:
    """Format assignments for Kafka's tools, which would use only one of two assignments of one topic, or none."""
    from pipelines.assignment.topic_assigner import format_commands, format_reassignment

    def reject_repeated() -> Iterator[TopicAssignment]:
        seen: set[str] = set()
        for assignment in assignments:
            if assignment.replicas is not None and assignment.name in seen:
                raise SettingsError(f"topic {assignment.name} is requested twice. Use one request per topic")
            seen.add(assignment.name)
            yield assignment

    distinct = reject_repeated()
    return format_commands(distinct, server) if output_format == COMMANDS else format_reassignment(distinct)


@contextmanager
def _print_all() -> Iterator[TextIO]:
    """Open a file that is printed once it is completely written."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as stream:
        yield stream
        stream.seek(0)
        shutil.copyfileobj(stream, sys.stdout)


@contextmanager
def _open_replacing(path: Path) -> Iterator[TextIO]:
    """Open a file that replaces `path` once it is completely written; a device or pipe is written to directly."""
    path = path.resolve()
    is_file = path.is_file() or not path.exists()
    written = path.with_name(f".{path.name}.new") if is_file else path
    try:
        with written.open("w", encoding="utf-8") as stream:
            yield stream
        if is_file:
            written.replace(path)
    except OSError as error:
        raise SettingsError(f"--out {path}: cannot be written: {error.strerror}") from error
    finally:
        if is_file:
            written.unlink(missing_ok=True)
