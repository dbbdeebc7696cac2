"""spark-submit of the wheel to a cluster of two workers without this program."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kafka_placement import read
from pipelines.setup.jars import list_jar_files
from pipelines.stages.stage_registry import STEPS
from pipelines.tables import TABLES
from tests.shared_runs import SMALL_CLUSTERS, SmallRun
from tests.where_it_runs.cluster import SPARK_HOME, Cluster, clean_environment
from tests.where_it_runs.conftest import ROOT
from tests.where_it_runs.tables import read_tables

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

# Settings for two cores and little work. Queries are planned as for large sources (spark.sql.adaptive.enabled), but
# Spark does not compile each of them, which takes longer than the work itself.
JAVA_OPTIONS = "-Xss4m -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
DEFAULTS = f"""
spark.app.name placement-on-a-cluster
spark.driver.extraJavaOptions {JAVA_OPTIONS}
spark.executor.extraJavaOptions {JAVA_OPTIONS}
spark.sql.shuffle.partitions 2
spark.sql.codegen.wholeStage false
spark.sql.codegen.factoryMode NO_CODEGEN
spark.databricks.delta.snapshotPartitions 1
spark.ui.enabled false
"""

_LAST = "gold.placements"  # by the pandas UDF


def submit(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run jobs/spark-submit.sh with these arguments of the command."""
    return subprocess.run(
        [str(ROOT / "jobs" / "spark-submit.sh"), *arguments],
        env=clean_environment(folder, SPARK_HOME=str(SPARK_HOME), JARS=str(list_jar_files()[0].parent), **environment),
        cwd=folder,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def test_the_wheel_runs_on_a_cluster(
    cluster: Cluster, wheel: Path, bare_python: Path, small_run: SmallRun, tmp_path: Path
) -> None:
    """Stages of every kind, over several clusters; those after the last one of them have nothing else to hand over."""
    (tmp_path / "defaults.conf").write_text(DEFAULTS)
    done = submit(
        tmp_path,
        *("run", *small_run.arguments, "--to", _LAST, "--warehouse", str(tmp_path / "warehouse")),
        MASTER=cluster.master,
        WHEEL=str(wheel),
        PYSPARK_PYTHON=str(bare_python),
        DRIVER_MEMORY="1g",
        EXECUTOR_MEMORY="1g",
        SUBMIT_ARGS=f"--properties-file {tmp_path}/defaults.conf",
    )
    assert done.returncode == 0, done.stderr[-5000:]
    for name in SMALL_CLUSTERS:
        tables, expected = read_tables(tmp_path / "warehouse", name), read_tables(small_run.warehouse, name)
        assert {*tables} == {step for step in STEPS[: STEPS.index(_LAST) + 1] if step in TABLES}
        assert tables == {table: expected[table] for table in tables}
    applications = cluster.status()["completedapps"]
    assert [(app["name"], app["cores"], app["state"]) for app in applications] == [
        ("placement-on-a-cluster", 2, "FINISHED")
    ]


READ = """
import sys
from pyspark.sql import SparkSession
from pipelines.spark.cluster_source import register_source
spark = SparkSession.builder.getOrCreate()
register_source(spark)
rows = spark.read.format("kafka_placement").load(sys.argv[1:]).groupBy("cluster_id").count().collect()
print("rows:", sorted((row.cluster_id, row["count"]) for row in rows), spark.sparkContext.master)
"""


def test_clusters_are_read_on_a_cluster(
    cluster: Cluster, wheel: Path, bare_python: Path, samples: Path, tmp_path: Path
) -> None:
    """Each source by a task; neither the driver nor the workers have more of this program than the wheel."""
    (tmp_path / "defaults.conf").write_text(DEFAULTS.replace("placement-on-a-cluster", "reads-clusters"))
    (tmp_path / "read.py").write_text(READ)
    package = shutil.copy(wheel, tmp_path / "kafka_placement.zip")  # Spark takes no packages that end with .whl
    sources = [f"a={samples / 'kafka-4.1.1-kraft'}", f"b={samples / 'kafka-2.8.2-zookeeper'}"]
    options = ["--properties-file", str(tmp_path / "defaults.conf"), "--driver-memory", "1g", "--executor-memory", "1g"]
    done = subprocess.run(
        [
            *(str(SPARK_HOME / "bin" / "spark-submit"), "--master", cluster.master, "--py-files", str(package)),
            *(*options, str(tmp_path / "read.py"), *sources),
        ],
        env=clean_environment(tmp_path, SPARK_HOME=str(SPARK_HOME), PYSPARK_PYTHON=str(bare_python)),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]  # where spark-submit writes errors of a script
    counts = [(name, read(source).snapshot.partitions.num_rows) for name, source in zip("ab", sources, strict=True)]
    assert f"rows: {counts} {cluster.master}" in done.stdout


def test_exit_codes_are_passed_on(cluster: Cluster, wheel: Path, bare_python: Path, tmp_path: Path) -> None:
    """Nothing is started for wrong usage, or if something is missing."""
    environment = {"MASTER": cluster.master, "WHEEL": str(wheel), "PYSPARK_PYTHON": str(bare_python)}
    assert submit(tmp_path, "run", **environment).returncode == 64
    failed = submit(tmp_path, "run", "x", **{**environment, "MASTER": ""})
    assert (failed.returncode, failed.stderr.splitlines()[0][:30]) == (1, "spark-submit.sh: MASTER is not")
    failed = submit(tmp_path, "run", "x", **{**environment, "WHEEL": "/nowhere.whl"})
    assert (failed.returncode, failed.stderr) == (1, "spark-submit.sh: there is no /nowhere.whl. Run: make wheel\n")


@pytest.mark.parametrize(
    ("master", "options"),
    [
        ("yarn", "--archives env.tar.gz#env --conf spark.executorEnv.PYSPARK_PYTHON=./env/bin/python"),
        ("k8s://https://127.0.0.1:6443", "--conf spark.kubernetes.container.image=registry/kafka-placement:1"),
    ],
)
def test_options_for_other_masters(wheel: Path, tmp_path: Path, master: str, options: str) -> None:
    """Only the command is tested, because there is no such master here."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "spark-submit").write_text('#!/bin/bash\necho "$@"\n')
    (tmp_path / "bin" / "spark-submit").chmod(0o755)
    done = subprocess.run(
        [str(ROOT / "jobs" / "spark-submit.sh"), "tables"],
        env=clean_environment(
            tmp_path,
            SPARK_HOME=str(tmp_path),
            JARS=str(list_jar_files()[0].parent),
            WHEEL=str(wheel),
            MASTER=master,
            ENVIRONMENT="env.tar.gz",
            IMAGE="registry/kafka-placement:1",
        ),
        capture_output=True,
        text=True,
        check=True,
    )
    assert options in done.stdout
    assert done.stdout.startswith(f"--master {master} --deploy-mode client ")
    assert done.stdout.endswith("jobs/kafka_placement_job.py tables\n")
