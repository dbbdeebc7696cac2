"""Run a command: within this process, in the test's Spark session, or in a process that has Sail."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from io import StringIO
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from pipelines.cli import main

T = TypeVar("T")
# "spark" in a test process: commands that tests call use the Spark of the tests.
ENGINE = "KAFKA_PLACEMENT_RUN__ENGINE"

# Few placements, for tests of something else.
FEW_SEEDS = ("--set", "failures.seeds=2", "--set", "hotspots.seeds=10", "--set", "failures.random_sets=10")
# And neither other schemes nor plans, for tests of findings.
FINDINGS_ONLY = (*FEW_SEEDS, "--set", "run.schemes=observed", "--set", "plans.goals=leaders")
# Options of a run that only fills its last table.
LAST_STAGE = ("--from", "gold.scheme_comparison", "--to", "gold.scheme_comparison")


@dataclass(frozen=True)
class Output:
    """What a command printed."""

    stdout: str
    stderr: str


def call(*arguments: str, code: int = 0, folder: Path | None = None) -> Output:
    """Run `kafka-placement` with these arguments.

    A command that needs Spark uses the session of this process, so its test must use the fixture `spark`.

    Args:
        arguments: Its arguments.
        code: The exit code that it must have.
        folder: Folder to run it in.
    """
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err, chdir(folder or Path.cwd()):
        exit_code = main(list(arguments))
    assert exit_code == code, out.getvalue() + err.getvalue()
    return Output(out.getvalue(), err.getvalue())


def call_run(*arguments: str, code: int = 0, folder: Path | None = None) -> Output:
    """Run `kafka-placement run` as a user does, without Java: in the process of in_sail. Arguments as for call."""
    return in_sail(call, "run", *arguments, code=code, folder=folder or Path.cwd())


def in_sail(function: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """Call a function of a module in a process that has Sail; this one may have Spark, and cannot have both."""
    return _start_process().submit(function, *arguments, **options).result()


@cache
def _start_process() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, get_context("spawn"), _choose_sail)


def _choose_sail() -> None:
    os.environ[ENGINE] = "auto"
