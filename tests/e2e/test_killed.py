"""Runs that are killed: readers see all rows of a table or none, and the next run ends as if nothing had happened."""

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
from tests.commands import call
from tests.e2e.tables import SAME, Watch, rows
from tests.shared import COMMAND, ROOT, Finished, Small

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

# Bronze, the merge, the gate, and gold's end: a kill at each.
SMALL_STEPS = ("bronze.raw_metadata", "internal.entities", "quality", "gold.failure_load")


@pytest.mark.usefixtures("spark")
def test_killed_runs_run_again_end_like_one_never_killed(small: Small, tmp_path: Path) -> None:
    """Four runs are killed, each at a step of its own. One run goes over what all of them have left."""
    left = tmp_path / "left"
    shutil.copytree(small.warehouse, left)
    for step in SMALL_STEPS:
        killed = tmp_path / step
        kill_at(step, small.warehouse, small.arguments, killed)
        following = [one for one in SMALL_STEPS if STEPS.index(one) > STEPS.index(step)]
        end = STEPS.index(following[0]) if following else len(STEPS)
        for name in tables_of(STEPS[STEPS.index(step) : end]):
            shutil.rmtree(left / folder_of(name))
            if (killed / folder_of(name)).exists():
                shutil.copytree(killed / folder_of(name), left / folder_of(name))
    run_again(small.warehouse, small.arguments, left)


@pytest.mark.usefixtures("spark")
def test_a_killed_run_of_both_captures(finished: Finished, tmp_path: Path) -> None:
    """In gold's middle."""
    kill_at("internal.scheme_aggregates", finished.warehouse, finished.sources, tmp_path / "warehouse")
    run_again(finished.warehouse, finished.sources, tmp_path / "warehouse")


def folder_of(name: str) -> str:
    return name.replace(".", "/")


def tables_of(steps: Sequence[str]) -> list[str]:
    """The tables that these steps write."""
    return ["ops.quality_results" if step == "quality" else step for step in steps]


def kill_at(step: str, whole: Path, arguments: Sequence[str], killed: Path) -> None:
    """Kill a run while it is at this step. Nobody sees a half-written table, before the kill and after it.

    whole: the tables of a run that nobody killed.   killed: the folder of those of the run.
    """
    # Everything before the step is as the whole run left it: the kill falls into the step itself.
    for name in STEPS[: STEPS.index(step)]:
        if name in TABLES:
            shutil.copytree(whole / folder_of(name), killed / folder_of(name))
    watch = Watch(killed, {name: rows(whole, name) for name in SAME})
    (marker,) = tables_of([step])
    run = subprocess.Popen(
        [*COMMAND, "run", *arguments, "--from", step, "--warehouse", str(killed)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    # Kill once the step's table has begun to exist: between its creation and its commit, or right behind it.
    while not (killed / folder_of(marker) / "_delta_log").exists() and run.poll() is None:
        assert time.monotonic() < deadline, step
        watch.look()
        time.sleep(0.05)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    watch.look()


def run_again(whole: Path, arguments: Sequence[str], killed: Path) -> None:
    """Run over what is there. The tables are those of the whole run then."""
    call("run", *arguments, "--warehouse", str(killed))
    for name in SAME:
        assert rows(killed, name) == rows(whole, name), name
