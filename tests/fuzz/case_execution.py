"""Runs one case as the commands would, and collects what is wrong: exceptions, time, memory, text, account."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import resource
import shutil
import signal
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from pipelines.cli import main
from pipelines.cli.common_options import write_answer
from pipelines.cli.inspect_command import build_answer, render_snapshot
from pipelines.cli.text_format import print_error
from pipelines.cli.what_if_rendering import format_cluster, format_failure
from pipelines.errors import KafkaPlacementError
from pipelines.ingest.snapshot_reader import Snapshot, build_snapshot, parse_facts, read_files
from pipelines.ingest.sources import Source, find_source, get_name
from pipelines.what_if.what_if_answers import evaluate_brokers, evaluate_failure
from tests.fuzz.account_checks import Problem, check_account, check_partitions
from tests.fuzz.answer_checks import check_all_clear, check_comments, check_state
from tests.fuzz.cases import FuzzCase
from tests.fuzz.source_lines import SourceLines, decode_file
from udfs.failures.topic_defaults import TopicDefaults

# Of processor time, so that other work on the machine does not matter, where measure_slowness is 1.
MAX_SECONDS = 5
_REFERENCE_STEPS, _REFERENCE_SECONDS = 400_000, 0.015  # of a loop that measures how fast a processor is
MAX_MEMORY = 400_000  # KiB by which a case may raise the peak
_FAST_SECONDS = 0.05  # a faster case cannot have filled much memory
_MAX_MESSAGE = 2_000
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\ud800-\udfff]")
_EXHAUSTED = ("too slow", "memory", "MemoryError", "ArrowMemoryError")
_DEFAULTS = TopicDefaults()
# One for all cases: click remembers every stream that it has written to.
_OUT, _ERR = io.StringIO(), io.StringIO()
_OPTIONS = {"hotspots": ("--seeds", "3"), "plan": ("--goal", "leaders", "--json", "-", "--out")}


class CaseTimeout(BaseException):
    """The case has used up its time; no handler of the program catches it."""


@dataclass
class CaseResult:
    """What a case showed."""

    problems: list[Problem] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)  # by step
    outcome: str = "read"  # or "error": the source cannot be read

    @property
    def is_exhausted(self) -> bool:
        """Whether the case may have left this process without memory."""
        return any(problem.check.startswith(_EXHAUSTED) for problem in self.problems)

    @property
    def slowest(self) -> tuple[float, str]:
        """Time and name of the slowest step."""
        return max(((seconds, step) for step, seconds in self.seconds.items()), default=(0.0, ""))


def write_case(case: FuzzCase, folder: Path) -> str:
    """Write the files of a case into an empty folder; return the argument that names the source."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in case.files:
        (folder / file.name).write_bytes(file.data)
    path = folder if case.is_folder else folder / case.files[0].name
    return str(path) if case.cluster is None else f"{case.cluster}={path}"


def measure_slowness() -> float:
    """Measure how much slower a plain loop is than on the machine that MAX_SECONDS is for: 1 or more."""
    best = float("inf")
    for _ in range(3):
        begin = time.process_time()
        sum(number for number in range(_REFERENCE_STEPS))
        best = min(best, time.process_time() - begin)
    return max(1.0, best / _REFERENCE_SECONDS)


def run_case(case: FuzzCase, folder: Path, max_seconds: float | None = None) -> CaseResult:
    """Run a case with its files in this folder, for at most some seconds of processor time (default: MAX_SECONDS)."""
    limit = MAX_SECONDS * _get_slowness() if max_seconds is None else max_seconds
    result = CaseResult()
    run = _CaseRun(case, folder, result)
    begin = time.process_time()
    previous = signal.signal(signal.SIGPROF, _raise_timeout)
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        run.read_and_answer()
    except CaseTimeout as error:
        result.problems.append(Problem(f"too slow: {run.step}", _show_traceback(error)))
    except Exception as error:
        result.problems.append(Problem(f"{type(error).__name__} {_find_place(error)}", _show_traceback(error)))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
    if time.process_time() - begin > _FAST_SECONDS and (grown := _measure_growth()) > MAX_MEMORY:
        result.problems.append(Problem("memory", f"the peak rose by {grown // 1024} MiB, in {run.step} or before"))
    return result


@cache
def _get_slowness() -> float:
    return measure_slowness()


_peak = [0]  # KiB, of this process, when it was last measured


def _measure_growth() -> int:
    """Return by how many KiB the peak of this process rose since the last call."""
    before, _peak[0] = _peak[0], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return _peak[0] - before if before else 0


def _raise_timeout(_signal: int, _frame: FrameType | None) -> None:
    raise CaseTimeout


def _find_place(error: BaseException) -> str:
    """Return the innermost function of this program in a traceback."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/site-packages/" not in frame.filename]
    own = [frame for frame in frames if "/pipelines/" in frame.filename or "/udfs/" in frame.filename]
    frame = (own or frames)[-1]
    return f"in {Path(frame.filename).name} {frame.name}"


def _show_traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error, limit=-12))[-4_000:]


class _CaseRun:
    """One run of a case; `step` is what it does now."""

    def __init__(self, case: FuzzCase, folder: Path, result: CaseResult) -> None:
        self._case = case
        self._folder = folder
        self._result = result
        self._source: Source | None = None
        self._facts: Any = None
        self._decoded: dict[str, SourceLines | None] = {}
        self.step = ""

    @contextlib.contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        self.step = step
        begin = time.process_time()
        try:
            yield
        finally:
            self._result.seconds[step] = self._result.seconds.get(step, 0) + time.process_time() - begin

    def _report(self, check: str, detail: str) -> None:
        if all(problem.check != check for problem in self._result.problems):  # one of a kind is enough
            self._result.problems.append(Problem(check, detail))

    def read_and_answer(self) -> None:
        """Read the source, check the account, ask the questions."""
        argument = write_case(self._case, self._folder)
        snapshot = None
        try:
            with self._timed("find"):
                self._source = find_source(argument)
            with self._timed("read"):
                files = list(read_files(self._source))
            with self._timed("parse"):
                facts = parse_facts(files)
            with self._timed("merge"):
                snapshot = build_snapshot(self._source, files, facts)
        except KafkaPlacementError as error:
            self._result.outcome = "error"
            self._check_error(error)
        if snapshot is not None:
            with self._timed("check"):
                decoded = {get_name(Path(file.name)): decode_file(file.data) for file in self._case.files}
                self._facts, self._decoded = facts, decoded
                for problem in (
                    *check_account(snapshot, facts, decoded),
                    *check_partitions(snapshot, facts, decoded),
                    *check_comments(facts, decoded),
                    *check_state(snapshot),
                ):
                    self._report(*problem)
            self._inspect(snapshot)
            self._ask_what_if(snapshot)
        if self._case.command is not None:
            self._run_command(self._case.command, argument)

    def _inspect(self, snapshot: Snapshot) -> None:
        with self._timed("inspect"):
            self._check_output(build_answer(snapshot), render_snapshot(snapshot))

    def _ask_what_if(self, snapshot: Snapshot) -> None:
        brokers = snapshot.brokers["broker_id"].to_pylist()
        questions = [self._ask_about_brokers, *([self._ask_about_failure] if brokers else [])]
        with self._timed("what-if"):
            for ask in questions:
                try:
                    ask(snapshot)
                except KafkaPlacementError as error:
                    self._check_error(error)

    def _ask_about_failure(self, snapshot: Snapshot) -> None:
        brokers = snapshot.brokers["broker_id"].to_pylist()
        failure = evaluate_failure(snapshot, [brokers[len(brokers) // 2]], _DEFAULTS)
        self._check_output(failure, format_failure(failure))

    def _ask_about_brokers(self, snapshot: Snapshot) -> None:
        cluster = evaluate_brokers(snapshot, _DEFAULTS)
        lines = format_cluster(cluster)
        for problem in check_all_clear(snapshot, self._facts, lines, self._decoded):
            self._report(*problem)
        self._check_output(cluster, lines)

    def _run_command(self, command: str, argument: str) -> None:
        """Run a whole command in this process."""
        options = list(_OPTIONS.get(command, ()))
        plan = self._folder.with_name(self._folder.name + "-plan")
        shutil.rmtree(plan, ignore_errors=True)
        if command == "plan":
            options.append(str(plan))
        with self._timed(command), _capture() as (out, err):
            code = main([command, *options, "--", argument])
        self._check_text(f"{command} prints", out.getvalue() + err.getvalue())
        if code and not err.getvalue().strip():
            self._report(f"{command}: no message", f"exit code {code}")

    def _check_output(self, answer: Any, lines: Iterator[str] | list[str]) -> None:
        with _capture() as (out, _):
            write_answer(None, None, lines)
        self._check_text("text", out.getvalue())
        with _capture() as (out, _):
            write_answer(Path("-"), answer, ())
        try:
            json.loads(out.getvalue(), parse_constant=_reject_constant)
        except ValueError as error:
            self._report("JSON output", f"{error}: {out.getvalue()[:300]}")

    def _check_text(self, check: str, text: str) -> None:
        if match := _CONTROL.search(text):
            self._report(f"{check} a control character", repr(text[max(0, match.start() - 100) : match.end() + 100]))
        if "Traceback (most recent" in text:
            self._report(f"{check} a traceback", text[-1_000:])

    def _check_error(self, error: KafkaPlacementError) -> None:
        with _capture() as (_, err):
            print_error(list(map(str, error.args)))
        text = err.getvalue()
        self._check_text("message has", text)
        if len(text) > _MAX_MESSAGE or len(text.strip()) < len("kafka-placement: x"):
            self._report("length of a message", f"{len(text)} characters: {text[:300]!r}")
        names = [file.name for file in self._case.files] + [self._folder.name]
        names += [self._source.cluster_id] if self._source is not None else []
        if not any(_escape(name) in text for name in names):
            self._report("message without file", text[:500])


@contextlib.contextmanager
def _capture() -> Iterator[tuple[io.StringIO, io.StringIO]]:
    """Capture what is printed on stdout and stderr."""
    for stream in (_OUT, _ERR):
        stream.seek(0)
        stream.truncate()
    with contextlib.redirect_stdout(_OUT), contextlib.redirect_stderr(_ERR):
        yield _OUT, _ERR


def _escape(name: str) -> str:
    """Return a name as messages show it."""
    from udfs.wording import escape_text

    return escape_text(os.fsdecode(os.fsencode(name)))


def _reject_constant(name: str) -> None:
    raise ValueError(f"JSON has {name}")
