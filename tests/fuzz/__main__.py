"""Fuzz the reading of sources: `make soak`, or `python -m tests.fuzz N --seed S`. Exit code 1 = a check failed."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.cases import FuzzCase, build_case
from tests.fuzz.failure_files import store_case
from tests.fuzz.minimisation import minimise_case
from tests.fuzz.workers import Failure, RunSummary, list_failures, prepare, run_cases

_SHOWN = 5  # failures of each check that are printed as they happen
_PROGRESS = 10_000  # cases between two lines of progress


class _Reporter:
    """Prints failures and progress while cases run."""

    def __init__(self, seed: int, cases: int) -> None:
        self._seed = seed
        self._cases = cases
        self._counts: Counter[str] = Counter()
        self._next = _PROGRESS

    def show(self, summary: RunSummary, failures: Sequence[Failure]) -> None:
        for failure in failures:
            self._counts[failure.check] += 1
            if self._counts[failure.check] <= _SHOWN:
                print(format_failure(self._seed, failure), flush=True)
        if summary.cases >= self._next:
            self._next += _PROGRESS
            failed = f", {len(summary.failures):,} failures" if summary.failures else ""
            print(f"{summary.cases:,} of {self._cases:,} cases, {summary.rate:.0f} per second{failed}", flush=True)


def format_failure(seed: int, failure: Failure) -> str:
    """Format a failure as one line."""
    detail = failure.detail.strip().splitlines()
    last = detail[-1] if failure.detail.startswith("Traceback") else detail[0]
    step = f" (slowest step: {failure.step}, {failure.seconds:.1f} s)" if failure.seconds > 1 else ""
    return f"{seed}:{failure.case}  {failure.check}: {last[:200]!r}{step}"


def fuzz(cases: int, seed: int, jobs: int, folder: Path) -> int:
    """Run cases, minimise one of each kind of failure, and return the exit code."""
    print(f"{cases:,} cases, seed {seed}, {jobs} jobs", flush=True)
    summary = run_cases(seed, range(cases), jobs, _Reporter(seed, cases).show)
    slowest, index, step = summary.slowest
    print(
        f"Seed {seed}: {summary.cases:,} cases in {summary.seconds:.0f} s ({summary.rate:.0f} per second), "
        f"{summary.errors:,} of them with nothing to read. Slowest step: {step}, {slowest:.1f} s ({seed}:{index})."
    )
    print(
        f"Memory of a process: {_to_mib(summary.first_memory)} MiB after its first cases, "
        f"{_to_mib(summary.last_memory)} MiB at the end, at most {_to_mib(summary.max_memory)} MiB."
    )
    if not summary.failures:
        print("No failures.")
        return 0
    for check, failures in list_failures(summary):
        print(f"{len(failures):,} x {check}, first in {seed}:{failures[0].case}")
    folder.mkdir(parents=True, exist_ok=True)
    for check, failures in list_failures(summary):
        print(f"{check}: {minimise_and_store(seed, failures[0], folder)}", flush=True)
    return 1


def _to_mib(size: int) -> int:
    return size >> 20


def minimise_and_store(seed: int, failure: Failure, folder: Path) -> Path:
    """Minimise a failing case, and store its recipe and its files; return their folder."""
    from tests.fuzz.case_execution import run_case

    case = build_case(seed, failure.case)
    if failure.check != "the process ended":
        with tempfile.TemporaryDirectory() as scratch:

            def fails(candidate: FuzzCase) -> bool:
                result = run_case(candidate, Path(scratch) / "case")
                return any(problem.check == failure.check for problem in result.problems)

            case = minimise_case(case, fails)
    return store_case(seed, failure, case, folder)


def replay(recipe: str, folder: Path) -> int:
    """Run one case and print what it shows; return the exit code."""
    from tests.fuzz.case_execution import run_case

    seed, _, index = recipe.partition(":")
    case = build_case(int(seed), int(index))
    with tempfile.TemporaryDirectory() as scratch:
        prepare(Path(scratch))
        result = run_case(case, Path(scratch) / "case")
    failure = Failure(int(index), "replay", "\n".join(f"{check}\n{text}" for check, text in result.problems), 0.0, "")
    print(f"mutations: {', '.join(case.mutations)}")
    print(f"files: {store_case(int(seed), failure, case, folder)}")
    print("\n".join(f"{step}: {seconds:.3f} s" for step, seconds in result.seconds.items()))
    print(failure.detail or "No failures.")
    return 1 if result.problems else 0


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("cases", type=int, metavar="N", nargs="?", default=2_000)
    parser.add_argument("--seed", type=int, help="default: another one in every run")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of failing cases (default: in /tmp)")
    parser.add_argument("--replay", metavar="SEED:INDEX", help="run this case alone")
    arguments = parser.parse_args()
    folder = arguments.out or Path(tempfile.gettempdir()) / "kafka-placement-fuzz"
    if arguments.replay:
        return replay(arguments.replay, folder)
    seed = random.randrange(1, 1_000_000) if arguments.seed is None else arguments.seed
    return fuzz(arguments.cases, seed, arguments.jobs, folder)


if __name__ == "__main__":
    sys.exit(main())
