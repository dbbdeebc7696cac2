"""A run over Spark Connect, with a client that has no JVM, as notebooks on shared clusters."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.shared_runs import CONNECT_PORT, SMALL_CLUSTERS, SharedFolder, SmallRun
from tests.where_it_runs.cluster import clean_environment
from tests.where_it_runs.tables import read_tables

# Runs the command, then prints which session it used.
OVER_CONNECT = """
import sys
from pipelines.cli import main
code = main(sys.argv[1:])
from pyspark.sql import SparkSession
print("session:", type(SparkSession.getActiveSession()).__module__)
sys.exit(code)
"""


@pytest.mark.slow
@pytest.mark.e2e
def test_the_command_runs_over_connect(shared_folder: SharedFolder, small_run: SmallRun, tmp_path: Path) -> None:
    command = ("run", *small_run.arguments, "--warehouse", str(tmp_path / "warehouse"))
    with shared_folder.lock(CONNECT_PORT):
        done = subprocess.run(
            [sys.executable, "-c", OVER_CONNECT, *command],
            env=clean_environment(tmp_path, SPARK_REMOTE="local[2]"),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-5000:]
    assert "session: pyspark.sql.connect.session" in done.stdout
    for name in SMALL_CLUSTERS:
        assert read_tables(tmp_path / "warehouse", name) == read_tables(small_run.warehouse, name)
