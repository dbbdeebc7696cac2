"""A run over Spark Connect, with a client that has no JVM, as notebooks on shared clusters."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kafka_placement import read
from tests.shared_runs import CONNECT_PORT, SMALL_CLUSTERS, SharedFolder, SmallRun
from tests.where_it_runs.cluster import clean_environment
from tests.where_it_runs.conftest import ROOT
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


READ = """
import sys
from pipelines.spark.cluster_source import register_source
from pipelines.spark.session import open_session
spark = open_session("read", warehouse=None, remote="local[2]")
register_source(spark)
rows = spark.read.format("kafka_placement").load(sys.argv[1:]).groupBy("cluster_id").count().collect()
print("rows:", sorted((row.cluster_id, row["count"]) for row in rows), type(spark).__module__)
"""


@pytest.mark.slow
@pytest.mark.e2e
def test_clusters_are_read_over_connect(shared_folder: SharedFolder, samples: Path, tmp_path: Path) -> None:
    sources = [f"a={samples / 'kafka-4.1.1-kraft'}", f"b={samples / 'kafka-2.8.2-zookeeper'}"]
    with shared_folder.lock(CONNECT_PORT):
        done = subprocess.run(
            [sys.executable, "-c", READ, *sources],
            env=clean_environment(tmp_path, PYTHONPATH=str(ROOT)),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-5000:]
    counts = [(name, read(source).snapshot.partitions.num_rows) for name, source in zip("ab", sources, strict=True)]
    assert f"rows: {counts} pyspark.sql.connect.session" in done.stdout


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
