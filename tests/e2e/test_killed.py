"""Killed runs: readers see all rows of a table or none, and the next run completes the tables."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from pipelines.stages.stage_registry import STEPS
from pipelines.tables import TABLES
from tests.commands import ENGINE, call_run
from tests.e2e.tables import REPEATABLE_TABLES, AtomicityCheck, read_sorted
from tests.shared_runs import COMMAND, ROOT, SampleRun, SmallRun

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

# A run is killed at each of these: bronze, the merge, the gate, and the end of gold.
SMALL_STEPS = ("bronze.raw_metadata", "internal.entities", "quality", "gold.loads_after_failure")


def test_a_run_after_killed_runs_fills_all_tables(small_run: SmallRun, tmp_path: Path) -> None:
    """Four runs are killed, each at another step. One run completes the tables of all of them."""
    combined = tmp_path / "combined"
    shutil.copytree(small_run.warehouse, combined)
    for step in SMALL_STEPS:
        killed = tmp_path / step
        kill_at(step, small_run.warehouse, small_run.arguments, killed)
        following = [later for later in SMALL_STEPS if STEPS.index(later) > STEPS.index(step)]
        end = STEPS.index(following[0]) if following else len(STEPS)
        for name in list_tables(STEPS[STEPS.index(step) : end]):
            shutil.rmtree(combined / get_folder(name))
            if (killed / get_folder(name)).exists():
                shutil.copytree(killed / get_folder(name), combined / get_folder(name))
    run_again(small_run.warehouse, small_run.arguments, combined)


def test_a_killed_run_of_both_captures(sample_run: SampleRun, tmp_path: Path) -> None:
    """In the middle of gold."""
    kill_at("internal.scheme_aggregates", sample_run.warehouse, sample_run.sources, tmp_path / "warehouse")
    run_again(sample_run.warehouse, sample_run.sources, tmp_path / "warehouse")


def get_folder(name: str) -> str:
    return name.replace(".", "/")


def list_tables(steps: Sequence[str]) -> list[str]:
    """List the tables that these steps write."""
    return ["ops.quality_results" if step == "quality" else step for step in steps]


def kill_at(step: str, complete: Path, arguments: Sequence[str], killed: Path) -> None:
    """Kill a run while it is at a step, and check that no reader sees a half-written table.

    Args:
        step: The step.
        complete: Tables of a complete run.
        arguments: Arguments of the run.
        killed: Folder for the tables of the run.
    """
    # The tables of earlier steps are copied, so that the run is killed in the step itself.
    for name in STEPS[: STEPS.index(step)]:
        if name in TABLES:
            shutil.copytree(complete / get_folder(name), killed / get_folder(name))
    check = AtomicityCheck(killed, {name: read_sorted(complete, name) for name in REPEATABLE_TABLES})
    (marker,) = list_tables([step])
    run = subprocess.Popen(
        [*COMMAND, "run", *arguments, "--from", step, "--warehouse", str(killed)],
        cwd=ROOT,
        env={**os.environ, ENGINE: "auto"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    # Kill the run once the step's table exists: between its creation and its commit, or right after it.
    while not (killed / get_folder(marker) / "_delta_log").exists() and run.poll() is None:
        assert time.monotonic() < deadline, step
        check.read_changed()
        time.sleep(0.05)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    check.read_changed()


def run_again(complete: Path, arguments: Sequence[str], killed: Path) -> None:
    """Run again, and check that the tables are those of a complete run."""
    call_run(*arguments, "--warehouse", str(killed))
    for name in REPEATABLE_TABLES:
        assert read_sorted(killed, name) == read_sorted(complete, name), name
