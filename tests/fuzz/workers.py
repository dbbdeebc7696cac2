"""Runs cases in processes of their own, so that a crash or a case without end costs one case and not the run."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import resource
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

_CHUNK = 50  # cases that a worker gets at once
_MAX_WALL_SECONDS = 120  # of a case; compiled code does not react to the limit of processor time
_MAX_ADDRESS_SPACE = 4 << 30  # bytes above what a worker has at its start
_CONTEXT = multiprocessing.get_context("spawn")


class Failure(NamedTuple):
    """A case that failed a check."""

    case: int  # its index
    check: str
    detail: str
    seconds: float  # of its slowest step
    step: str


@dataclass
class RunSummary:
    """What a run of many cases showed."""

    cases: int = 0
    errors: int = 0  # cases whose source could not be read, with a clean message
    seconds: float = 0.0  # wall time
    slowest: tuple[float, int, str] = (0.0, -1, "")  # processor time of the slowest step, its case and name
    failures: list[Failure] = field(default_factory=list)
    first_memory: int = 0  # resident bytes of a worker after its first chunk
    last_memory: int = 0  # of a worker after the last chunk so far
    max_memory: int = 0

    def add(self, result: _ChunkResult) -> None:
        """Add the result of a chunk."""
        self.cases += result.cases
        self.errors += result.errors
        self.slowest = max(self.slowest, result.slowest)
        self.failures += result.failures
        if result.memory:
            self.first_memory = self.first_memory or result.memory
            self.last_memory = result.memory
            self.max_memory = max(self.max_memory, result.memory)

    @property
    def rate(self) -> float:
        """Cases per second."""
        return self.cases / max(self.seconds, 1e-9)


class _ChunkResult(NamedTuple):
    cases: int
    errors: int
    slowest: tuple[float, int, str]
    failures: list[Failure]
    rest: range | None = None  # cases that were not run, because one before them used up time or memory
    memory: int = 0  # resident bytes of the worker


class _Worker:
    """A process that runs chunks of cases."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.current = _CONTEXT.Value("q", -1)  # the case that it runs now
        self.log = Path(tempfile.mkstemp(prefix="fuzz-worker-", suffix=".log")[1])
        self.connection, end = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=_work, args=(seed, end, self.current, str(self.log)), daemon=True)
        self.process.start()
        end.close()
        self.chunk: range | None = None

    def send(self, chunk: range) -> None:
        self.chunk = chunk
        self.connection.send(chunk)

    def stop(self) -> None:
        self.connection.close()
        self.process.join(5)
        if self.process.is_alive():
            self.process.kill()
        self.log.unlink(missing_ok=True)


def run_cases(
    seed: int, indices: range, jobs: int, on_progress: Callable[[RunSummary, Sequence[Failure]], None] | None = None
) -> RunSummary:
    """Run the cases of these indices in `jobs` processes. on_progress: gets the sums so far, and new failures."""
    summary = RunSummary()
    begin = time.monotonic()
    waiting = [indices[at : at + _CHUNK] for at in range(0, len(indices), _CHUNK)][::-1]
    workers = [_Worker(seed) for _ in range(min(jobs, max(len(waiting), 1)))]
    try:
        while True:
            for worker in workers:
                if worker.chunk is None and waiting:
                    worker.send(waiting.pop())
            busy = [worker for worker in workers if worker.chunk is not None]
            if not busy:
                break
            ready = wait([worker.connection for worker in busy])
            for number, worker in enumerate(workers):
                if worker.connection not in ready:
                    continue
                try:
                    result = worker.connection.recv()
                except (EOFError, OSError):
                    result, rest = _bury(worker)
                    waiting.extend(rest)
                    workers[number] = _Worker(seed)
                worker.chunk = None
                if result.rest is not None:
                    waiting.extend([result.rest] if result.rest else [])
                    worker.stop()
                    workers[number] = _Worker(seed)
                summary.add(result)
                summary.seconds = time.monotonic() - begin
                if on_progress is not None:
                    on_progress(summary, result.failures)
    finally:
        for worker in workers:
            worker.stop()
    summary.failures.sort()
    summary.seconds = time.monotonic() - begin
    return summary


def _bury(worker: _Worker) -> tuple[_ChunkResult, list[range]]:
    """Return (the failure of the case that ended a worker, the other cases of its chunk, whose results are lost)."""
    worker.process.join()
    at = int(worker.current.value)
    assert worker.chunk is not None
    if at not in worker.chunk:
        raise RuntimeError(f"a worker ended before its first case:\n{worker.log.read_text()}")
    detail = f"exit code {worker.process.exitcode}\n{worker.log.read_text()[-4_000:]}"
    failure = Failure(at, "the process ended", detail, 0.0, "")
    place = worker.chunk.index(at)
    others = [part for part in (worker.chunk[:place], worker.chunk[place + 1 :]) if part]
    worker.stop()
    return _ChunkResult(1, 0, (0.0, -1, ""), [failure]), others


def _work(seed: int, connection: Connection, current: Any, log: str) -> None:
    """Run chunks of cases until the connection closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops its workers
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
    stream = os.fdopen(descriptor, "w")
    faulthandler.enable(stream)
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=_find_memory_folder()) as folder:
        prepare(Path(folder))
        while True:
            try:
                chunk = connection.recv()
            except EOFError:
                return
            connection.send(_run_chunk(seed, chunk, Path(folder), current, stream))


def _find_memory_folder() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def prepare(folder: Path) -> None:
    """Load and compile all that cases use, then bound the memory of this process."""
    import pyarrow as pa

    from tests.fuzz.case_execution import run_case
    from tests.fuzz.cases import COMMANDS, FuzzCase, InputFile

    pa.set_cpu_count(1)
    line = b"\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n"
    for command in COMMANDS:
        case = FuzzCase((InputFile("warm-up.txt", line),), is_folder=False, command=command)
        run_case(case, folder / "case", _MAX_WALL_SECONDS)
    size = _read_memory(0)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + _MAX_ADDRESS_SPACE, hard))


def _read_memory(field: int) -> int:
    """Return a number of /proc/self/statm in bytes: 0 = address space, 1 = resident memory."""
    return int(Path("/proc/self/statm").read_text().split()[field]) * resource.getpagesize()


def _run_chunk(seed: int, chunk: range, folder: Path, current: Any, stream: Any) -> _ChunkResult:
    from tests.fuzz.case_execution import run_case
    from tests.fuzz.cases import build_case

    errors, slowest, failures = 0, (0.0, -1, ""), []
    for place, index in enumerate(chunk, 1):
        current.value = index
        faulthandler.dump_traceback_later(_MAX_WALL_SECONDS, exit=True, file=stream)
        result = run_case(build_case(seed, index), folder / "case")
        seconds, step = result.slowest
        slowest = max(slowest, (seconds, index, step))
        errors += result.outcome == "error"
        failures += [Failure(index, *problem, seconds, step) for problem in result.problems]
        if result.is_exhausted:
            return _ChunkResult(place, errors, slowest, failures, chunk[place:])
    faulthandler.cancel_dump_traceback_later()
    return _ChunkResult(len(chunk), errors, slowest, failures, memory=_read_memory(1))


def list_failures(summary: RunSummary) -> Iterator[tuple[str, list[Failure]]]:
    """Yield (check, its failures by index), those of most cases first."""
    by_check: dict[str, list[Failure]] = {}
    for failure in summary.failures:
        by_check.setdefault(failure.check, []).append(failure)
    yield from sorted(by_check.items(), key=lambda entry: (-len(entry[1]), entry[0]))
