"""`assign`: place topics as Kafka would; print JSON lines, kafka-topics commands or a reassignment."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from pipelines.cli.app import app
from pipelines.cli.common_options import ConfOption, FormatOption, SetOption, read_settings
from pipelines.cli.help_examples import examples
from pipelines.errors import SettingsError
from udfs.placement.schemes import MANUAL

if TYPE_CHECKING:
    from pipelines.assignment.assign_results import TopicAssignment

JSON, COMMANDS, REASSIGNMENT = "json", "commands", "reassignment"
OUTPUT_FORMATS = (JSON, COMMANDS, REASSIGNMENT)


@app.command(rich_help_panel="Placing and planning, without Spark", epilog=examples("assign"))
def assign(
    requests: Annotated[
        str,
        typer.Argument(help="Requests as JSON lines; or a list of topics (CSV, JSON); or any source.", metavar="FILE"),
    ],
    brokers: Annotated[
        str | None, typer.Option(help="The brokers on which a list of topics is placed.", metavar="FILE")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the output to this file.", metavar="FILE", show_default="printed")
    ] = None,
    output_format: Annotated[
        str,
        typer.Option(
            help="json (lines), commands (kafka-topics) or reassignment (kafka-reassign-partitions).", metavar="FORMAT"
        ),
    ] = "json",
    scheme: Annotated[
        str, typer.Option(help="For lists and sources: kafka, kafka_rack_unaware, kraft or naive.", metavar="SCHEME")
    ] = "kafka",
    seed: Annotated[int | None, typer.Option(help="Seed of java.util.Random.", show_default="run.seed")] = None,
    shared_random: Annotated[
        bool,
        typer.Option(
            "--shared-random",
            help="Use one random generator for all topics, as one Kafka process does, not one per topic.",
        ),
    ] = False,
    format_name: FormatOption = None,
    server: Annotated[
        str, typer.Option("--bootstrap-server", help="Broker named in the printed commands.", metavar="HOST:PORT")
    ] = "localhost:9092",
    conf: ConfOption = None,
    options: SetOption = None,
) -> None:
    """Place topics as Kafka would, bit for bit."""
    if output_format not in OUTPUT_FORMATS:
        raise SettingsError(f"--output-format {output_format}: choose from {', '.join(OUTPUT_FORMATS)}")
    run_seed = read_settings(conf, options).run.seed if seed is None else seed
    task = AssignTask(requests, brokers, format_name, scheme, run_seed, shared_random)
    if out is None:
        counts = task.write(sys.stdout, output_format, server)
    else:
        with open_replacing(out) as stream:
            counts = task.write(stream, output_format, server)
    rejected = f", {counts.rejected} rejected" if counts.rejected else ""
    placed = f"{counts.placed} topic{'' if counts.placed == 1 else 's'} placed"
    typer.echo(f"{placed}{rejected}" + (f": {out}" if out else ""), err=True)


@dataclass
class AssignCounts:
    """Topics placed and rejected so far."""

    placed: int = 0
    rejected: int = 0

    def count(self, assignments: Iterable[TopicAssignment]) -> Iterator[TopicAssignment]:
        """Yield assignments and count them."""
        for assignment in assignments:
            if assignment.error is None:
                self.placed += 1
            else:
                self.rejected += 1
            yield assignment


@dataclass(frozen=True)
class AssignTask:
    """What to assign: requests, or a list or source to place by `scheme` (seed: also for requests without one)."""

    path: str
    brokers: str | None
    format_name: str | None
    scheme: str
    seed: int
    shared_random: bool

    def write(self, out: TextIO, output_format: str, server: str) -> AssignCounts:
        """Write the assignments.

        Raises:
            SettingsError: If the scheme is unknown, or a topic is requested twice where Kafka's tools would clash.
        """
        from pipelines.assignment.assign_requests import has_requests, read_requests
        from pipelines.assignment.assign_results import assign_requests, to_json_outcome, to_json_request
        from pipelines.ingest.sources import find_source
        from pipelines.ingest.text import read_text

        source = find_source(self.path)
        counts = AssignCounts()
        if self.brokers is None and self.format_name is None and len(source.files) == 1:
            text = read_text(source.files[0])
            if source.files[0].suffix == ".jsonl" or has_requests(text):
                answers = assign_requests(read_requests(text, str(source.files[0]), self.seed))
                if output_format == JSON:
                    rows = (to_json_request(request, list(counts.count(result))) for request, result in answers)
                    _write_lines((json.dumps(row, separators=(",", ":")) for row in rows), out)
                else:
                    topics = counts.count(assignment for _, result in answers for assignment in result)
                    _write_lines(_format(topics, output_format, server), out)
                return counts
        scheme, assignments = self._assign_source()
        assignments = counts.count(assignments)
        if output_format == JSON:
            rows = ({"topic": a.name, "algorithm": scheme, "seed": a.seed} | to_json_outcome(a) for a in assignments)
            _write_lines((json.dumps(row, separators=(",", ":")) for row in rows), out)
        else:
            _write_lines(_format(assignments, output_format, server), out)
        return counts

    def _assign_source(self) -> tuple[str, Iterator[TopicAssignment]]:
        """Return the scheme and the assignments of a list of topics or a source."""
        from pipelines.assignment.assign_requests import list_algorithms, read_cluster_request
        from pipelines.assignment.assign_results import assign_cluster
        from pipelines.ingest.snapshot import load_snapshot
        from pipelines.ingest.sources import Source, find_source

        algorithms = {name: scheme for name, scheme in list_algorithms().items() if name != MANUAL}
        if self.scheme not in algorithms:
            raise SettingsError(f"--scheme {self.scheme}: choose from {', '.join(algorithms)}")
        source = find_source(self.path)
        if self.brokers is not None:
            source = Source(source.cluster_id, (*source.files, *find_source(self.brokers).files))
        request = read_cluster_request(load_snapshot(source, self.format_name))
        scheme = algorithms[self.scheme]
        return scheme, assign_cluster(request, scheme, self.seed, self.shared_random)


def _write_lines(lines: Iterable[str], out: TextIO) -> None:
    for line in lines:
        out.write(line + "\n")


def _format(assignments: Iterator[TopicAssignment], output_format: str, server: str) -> Iterator[str]:
    """Format assignments for Kafka's tools."""
    from pipelines.assignment.kafka_commands import format_commands, format_reassignment

    distinct = _reject_repeated(assignments)
    return format_commands(distinct, server) if output_format == COMMANDS else format_reassignment(distinct)


def _reject_repeated(assignments: Iterator[TopicAssignment]) -> Iterator[TopicAssignment]:
    """Yield the assignments; raise SettingsError if a topic is placed twice, as Kafka would use one of them or none."""
    seen: set[str] = set()
    for assignment in assignments:
        if assignment.replicas is not None and assignment.name in seen:
            raise SettingsError(f"topic {assignment.name} is requested twice. Use one request per topic")
        seen.add(assignment.name)
        yield assignment


@contextmanager
def open_replacing(path: Path) -> Iterator[TextIO]:
    """Open a file that replaces `path` once it is completely written; a device or pipe is written to directly.

    Raises:
        SettingsError: If it cannot be written.
    """
    path = path.resolve()
    try:
        if path.exists() and not path.is_file():
            with path.open("w", encoding="utf-8") as device:
                yield device
            return
        options = {"dir": path.parent, "prefix": f".{path.name}.", "delete": False}
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", **options) as stream:  # type: ignore[call-overload]
            temporary = Path(stream.name)
            try:
                yield stream
                stream.close()
                temporary.chmod(0o666 & ~_read_umask())
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)
    except OSError as error:
        raise SettingsError(f"--out {path}: cannot be written: {error.strerror}") from error


def _read_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
