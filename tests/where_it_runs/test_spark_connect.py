"""The same command over Spark Connect: a client that has no JVM, as notebooks on shared clusters have none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.shared import CONNECT_PORT, Finished, Shared
from tests.where_it_runs.cluster import clean_environment
from tests.where_it_runs.tables import contents

# The command, then the proof that it ran over Connect.
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
def test_the_command_runs_over_connect(shared: Shared, finished: Finished, tmp_path: Path) -> None:
    command = ("run", finished.sources[1], "--warehouse", str(tmp_path / "warehouse"))
    with shared.locked(CONNECT_PORT):
        ran = subprocess.run(
            [sys.executable, "-c", OVER_CONNECT, *command],
            env=clean_environment(tmp_path, SPARK_REMOTE="local[2]"),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr[-5000:]
    assert "session: pyspark.sql.connect.session" in ran.stdout
    assert contents(tmp_path / "warehouse", "zk") == contents(finished.warehouse, "zk")
