"""The command within this process: in the test's own Spark, without a JVM of its own."""

from __future__ import annotations

from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from pipelines.cli import main

# Few placements, for tests of something else.
FEW = ("--set", "failures.seeds=2", "--set", "hotspots.seeds=10", "--set", "failures.random_sets=10")
# Of a run whose other tables are there.
LAST_STAGE = ("--from", "gold.scheme_comparison", "--to", "gold.scheme_comparison")


@dataclass(frozen=True)
class Done:
    """What a command printed."""

    stdout: str
    stderr: str


def call(*arguments: str, code: int = 0, folder: Path | None = None) -> Done:
    """What `kafka-placement` prints with these arguments. folder: where it is run.

    It works in the session that this process has: a test that calls it asks for `spark` too, where Spark is needed.
    """
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err, chdir(folder or Path.cwd()):
        found = main(list(arguments))
    assert found == code, out.getvalue() + err.getvalue()
    return Done(out.getvalue(), err.getvalue())
