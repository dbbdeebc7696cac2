"""The session: its settings, reuse of a running one, and what a start prints."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pyspark.errors import ArithmeticException
from pyspark.sql import SparkSession

from pipelines.spark.session import open_session, starts_embedded_spark
from tests.shared_runs import CONNECT_PORT, SharedFolder
from tests.where_it_runs.cluster import clean_environment
from tests.where_it_runs.conftest import ROOT

WRONG_JAVA = "#!/bin/sh\necho 'openjdk version \"11.0.27\" 2025-04-15' >&2\n"


def test_settings_in_force(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ArithmeticException, match="DIVIDE_BY_ZERO"):
        spark.sql("SELECT 1 / 0").collect()
    assert spark.sql("SELECT CAST(TIMESTAMP '1970-01-01 00:00:00' AS BIGINT)").first() == (0,)
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/t` (id BIGINT) USING delta")
    features = spark.sql(f"DESCRIBE DETAIL delta.`{tmp_path}/t`").select("tableFeatures").first()
    assert features == (["appendOnly", "invariants"],)


def test_a_running_session_is_used(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.ansi.enabled", "false")
    found = open_session("another", warehouse=None, extra={"spark.master": "local[7]"})
    assert found.version == spark.version
    assert found.sparkContext is spark.sparkContext
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    assert spark.sparkContext.appName == "tests"


def test_a_running_session_is_found_from_another_thread(spark: SparkSession) -> None:
    found: list[SparkSession] = []
    thread = threading.Thread(target=lambda: found.append(open_session("another", warehouse=None)))
    thread.start()
    thread.join()
    assert found[0].sparkContext is spark.sparkContext


def run_python(code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a Python of its own."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env=clean_environment(folder, **environment),
        cwd=folder,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )


@pytest.mark.slow
def test_a_start_prints_nothing(tmp_path: Path) -> None:
    """Not even the usual warnings of Java and Spark; and settings of another Spark on this machine have no effect."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.master spark://127.0.0.1:1\n")
    code = "import pipelines.spark.session as s; print(s.open_session('t', warehouse=None).range(3).count())"
    done = run_python(code, tmp_path, SPARK_HOME="/opt/another-spark", SPARK_CONF_DIR=str(tmp_path / "conf"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


def test_a_wrong_java_is_rejected_before_anything_starts(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(WRONG_JAVA)
    java.chmod(0o755)
    code = "import pipelines.spark.session as s; s.open_session('t', warehouse=None)"
    done = run_python(code, tmp_path, JAVA_HOME=str(tmp_path))
    assert done.returncode == 1
    assert "EnvironmentFault" in done.stderr
    assert "is Java 11; Spark 4.1 needs Java 17 or 21" in done.stderr


@pytest.mark.slow
def test_a_spark_that_cannot_start_is_explained(tmp_path: Path) -> None:
    code = (
        "import pipelines.spark.session as s; s.open_session('t', warehouse=None, extra={'spark.driver.memory': '1k'})"
    )
    done = run_python(code, tmp_path)
    assert done.returncode == 1
    assert "Too small maximum heap" in done.stderr
    assert "EnvironmentFault: Spark could not start" in done.stderr


@pytest.mark.parametrize("jars", ["present", "absent"])
def test_databricks_own_session_is_used(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, jars: str) -> None:
    """No jar is fetched or searched for, and no static setting changes."""
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "18.2")
    if jars == "absent":
        monkeypatch.setenv("KAFKA_PLACEMENT_JARS", "/nowhere")
    extensions = spark.conf.get("spark.sql.extensions")
    assert not starts_embedded_spark()
    found = open_session("a job", warehouse=None)
    assert found.sparkContext is spark.sparkContext
    assert (found.sparkContext.appName, found.conf.get("spark.sql.extensions")) == ("tests", extensions)
    assert found.conf.get("spark.sql.session.timeZone") == "UTC"


@pytest.mark.slow
def test_a_databricks_session_of_spark_connect(shared_folder: SharedFolder, tmp_path: Path) -> None:
    """If the builder returns a Connect session, which has no Spark context, none is requested."""
    code = """
import threading
import pyspark
from pyspark.sql import SparkSession
from pipelines.spark.session import open_session

def reject_call(*arguments, **keywords):
    raise AssertionError("a Spark context was requested")

SparkSession.builder.remote("local[1]").getOrCreate().range(1).count()  # as the platform does before a job starts
pyspark.SparkContext._active_spark_context = None
pyspark.SparkContext._ensure_initialized = pyspark.SparkContext.__init__ = reject_call

def open_and_count():
    spark = open_session("t", warehouse=None)
    print(type(spark).__module__, spark.range(3).count(), flush=True)

worker = threading.Thread(target=open_and_count)  # a thread that has no active session
worker.start()
worker.join()
"""
    on_databricks = {"DATABRICKS_RUNTIME_VERSION": "client.4.9", "KAFKA_PLACEMENT_JARS": "/nowhere"}
    with shared_folder.lock(CONNECT_PORT):
        done = run_python(code, tmp_path, **on_databricks, SPARK_REMOTE="local[1]", PYTHONPATH=str(ROOT))
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["pyspark.sql.connect.session 3"]), done.stderr[
        -3000:
    ]
