"""`kafka-placement replay-stream` as a person runs it, where what arrives is no event."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipelines.cli import main
from tests.shared import COMMAND, ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

DANCES = '{"cluster_id": "c", "snapshot_id": "s", "event": 0, "at_ms": 1, "kind": "dances"}'


def arguments(folder: Path, line: str) -> list[str]:
    """Of the command, over a folder with this line."""
    arriving = folder / "arriving"
    arriving.mkdir()
    (arriving / "bad.jsonl").write_text(line + "\n")
    return ["replay-stream", str(arriving), "--warehouse", str(folder / "w"), "--once"]


def check(stdout: str, stderr: str) -> None:
    """Fail unless it said one line: the file, what is wrong, the remedy; no trace of Spark's."""
    (said,) = stderr.splitlines()
    assert said.startswith("kafka-placement: file:/")
    assert "arriving/bad.jsonl: is not all events: " in said
    assert said.endswith(
        "Write one JSON object a line with the columns of silver.cluster_events; kinds: docs/replay.md."
    )
    assert stdout == ""


def test_a_bad_line_is_told_in_one_line(tmp_path: Path) -> None:
    """By a process of its own."""
    done = subprocess.run(
        [*COMMAND, *arguments(tmp_path, DANCES)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    check(done.stdout, done.stderr)


def test_half_a_line_is_told_in_one_line(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """In the Spark of the tests, whose output is looked at too."""
    assert main(arguments(tmp_path, "{")) == 1
    check(*capfd.readouterr())
