"""`assign`: what Kafka would answer to these requests, as JSON lines, commands or a reassignment."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from pipelines.assignment import assign_requests, assign_results, kafka_commands
from pipelines.assignment.assign_results import Answer
from pipelines.errors import SettingsError
from pipelines.ingest.snapshot import load_snapshot
from pipelines.ingest.sources import Source, find_source
from pipelines.ingest.text import read_text
from udfs.placement.schemes import MANUAL

JSON, COMMANDS, REASSIGNMENT = "json", "commands", "reassignment"
FORMS = (JSON, COMMANDS, REASSIGNMENT)


@dataclass
class Outcome:
    """How many topics were placed, and why others were not."""

    placed: int = 0
    rejected: int = 0


@dataclass(frozen=True)
class Options:
    """scheme, seed, one_stream: for a source's topics (a request says so itself; seed: where it does not)."""

    form: str
    scheme: str
    seed: int
    one_stream: bool
    server: str


def assign(given: str, brokers: str | None, options: Options, out: TextIO, format_name: str | None = None) -> Outcome:
    """Writes the answers to `out`."""
    if options.form not in FORMS:
        raise SettingsError(f"--as {options.form}: take one of {', '.join(FORMS)}")
    source = find_source(given)
    if brokers is None and format_name is None and len(source.files) == 1:
        text = read_text(source.files[0])
        if source.files[0].suffix == ".jsonl" or assign_requests.looks_like_requests(text):
            return _requests(assign_requests.read_lines(text, str(source.files[0]), options.seed), options, out)
    algorithms = assign_requests.algorithms()
    if options.scheme not in algorithms or options.scheme == MANUAL:
        known = ", ".join(name for name in algorithms if name != MANUAL)
        raise SettingsError(f"--scheme {options.scheme}: take one of {known}")
    if brokers is not None:
        source = Source(source.cluster_id, (*source.files, *find_source(brokers).files))
    cluster = assign_requests.of_snapshot(load_snapshot(source, format_name))
    scheme = algorithms[options.scheme]
    made = assign_results.of_cluster(cluster, scheme, options.seed, options.one_stream)
    return _topics(made, scheme, options, out)


def _counted(made: Iterable[Answer], outcome: Outcome) -> Iterator[Answer]:
    for answer in made:
        if answer.error is None:
            outcome.placed += 1
        else:
            outcome.rejected += 1
        yield answer


def _write(lines: Iterable[str], out: TextIO) -> None:
    for line in lines:
        out.write(line + "\n")


def _texts(made: Iterator[Answer], options: Options) -> Iterator[str]:
    made = _once(made)
    return (
        kafka_commands.commands(made, options.server) if options.form == COMMANDS else kafka_commands.reassignment(made)
    )


def _once(made: Iterator[Answer]) -> Iterator[Answer]:
    """The answers, if no topic is placed twice: Kafka would take one of them, or none."""
    seen: set[str] = set()
    for answer in made:
        if answer.replicas is not None and answer.name in seen:
            raise SettingsError(f"topic {answer.name} is asked for twice. Give each topic one request")
        seen.add(answer.name)
        yield answer


def _requests(asked: Iterator[assign_requests.Request], options: Options, out: TextIO) -> Outcome:
    outcome = Outcome()
    answered = assign_results.answers(asked)
    if options.form == JSON:
        for request, made in answered:
            counted = list(_counted(made, outcome))
            _write([json.dumps(assign_results.as_json(request, counted), separators=(",", ":"))], out)
    else:
        _write(_texts(_counted((answer for _, made in answered for answer in made), outcome), options), out)
    return outcome


def _topics(made: Iterator[Answer], scheme: str, options: Options, out: TextIO) -> Outcome:
    outcome = Outcome()
    counted = _counted(made, outcome)
    if options.form == JSON:
        for answer in counted:
            row = {"topic": answer.name, "algorithm": scheme, "seed": answer.seed}
            said = {"replicas": answer.replicas} if answer.error is None else {"error": answer.error}
            _write([json.dumps(row | said, separators=(",", ":"))], out)
    else:
        _write(_texts(counted, options), out)
    return outcome


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """A file that appears, in place of one of its name, when all of it is written; a device or pipe is written to."""
    path = path.resolve()
    if path.exists() and not path.is_file():
        try:
            with path.open("w", encoding="utf-8") as device:
                yield device
        except OSError as error:
            raise SettingsError(f"--out {path}: cannot be written: {error.strerror}") from error
        return
    try:
        stream = tempfile.NamedTemporaryFile(  # noqa: SIM115
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
        )
    except OSError as error:
        raise SettingsError(f"--out {path}: cannot be written: {error.strerror}") from error
    try:
        with stream:
            yield stream  # type: ignore[misc]
        os.chmod(stream.name, 0o666 & ~_umask())  # noqa: PTH101
        Path(stream.name).replace(path)
    except OSError as error:
        raise SettingsError(f"--out {path}: cannot be written: {error.strerror}") from error
    finally:
        Path(stream.name).unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
