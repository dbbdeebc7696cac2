"""Run a command within this process, in the test's Spark session."""

from __future__ import annotations

from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from pipelines.cli import main

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
