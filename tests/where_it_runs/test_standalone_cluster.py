"""spark-submit of the built wheel to a cluster of two workers that know nothing of this program."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pipelines.setup.jars import jar_paths
from tests.shared import Finished
from tests.where_it_runs.cluster import SPARK_HOME, Cluster, clean_environment
from tests.where_it_runs.conftest import ROOT
from tests.where_it_runs.tables import contents

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

# What an operator would say of two cores and little work.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
DEFAULTS = f"""
spark.app.name placement-on-a-cluster
spark.driver.extraJavaOptions {JAVA_OPTIONS}
spark.executor.extraJavaOptions {JAVA_OPTIONS}
spark.sql.shuffle.partitions 2
spark.databricks.delta.snapshotPartitions 1
spark.ui.enabled false
"""


def submit(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What jobs/spark-submit.sh did with these arguments of the command."""
    return subprocess.run(
        [str(ROOT / "jobs" / "spark-submit.sh"), *arguments],
        env=clean_environment(folder, SPARK_HOME=str(SPARK_HOME), JARS=str(jar_paths()[0].parent), **environment),
        cwd=folder,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def test_the_wheel_runs_on_a_cluster(
    cluster: Cluster, wheel: Path, bare_python: Path, finished: Finished, tmp_path: Path
) -> None:
    (tmp_path / "defaults.conf").write_text(DEFAULTS)
    ran = submit(
        tmp_path,
        *("run", finished.sources[1], "--warehouse", str(tmp_path / "warehouse")),
        MASTER=cluster.master,
        WHEEL=str(wheel),
        PYSPARK_PYTHON=str(bare_python),
        DRIVER_MEMORY="1g",
        EXECUTOR_MEMORY="1g",
        SUBMIT_ARGS=f"--properties-file {tmp_path}/defaults.conf",
    )
    assert ran.returncode == 0, ran.stderr[-5000:]
    assert contents(tmp_path / "warehouse", "zk") == contents(finished.warehouse, "zk")
    applications = cluster.status()["completedapps"]
    assert [(one["name"], one["cores"], one["state"]) for one in applications] == [
        ("placement-on-a-cluster", 2, "FINISHED")
    ]


def test_an_exit_code_gets_through(cluster: Cluster, wheel: Path, bare_python: Path, tmp_path: Path) -> None:
    """And nothing is started for wrong usage, nor without what is needed."""
    given = {"MASTER": cluster.master, "WHEEL": str(wheel), "PYSPARK_PYTHON": str(bare_python)}
    assert submit(tmp_path, "run", **given).returncode == 64
    lacking = submit(tmp_path, "run", "x", **{**given, "MASTER": ""})
    assert (lacking.returncode, lacking.stderr.splitlines()[0][:30]) == (1, "spark-submit.sh: MASTER is not")
    lacking = submit(tmp_path, "run", "x", **{**given, "WHEEL": "/nowhere.whl"})
    assert (lacking.returncode, lacking.stderr) == (1, "spark-submit.sh: there is no /nowhere.whl. Run: make wheel\n")


@pytest.mark.parametrize(
    ("master", "said"),
    [
        ("yarn", "--archives env.tar.gz#env --conf spark.executorEnv.PYSPARK_PYTHON=./env/bin/python"),
        ("k8s://https://127.0.0.1:6443", "--conf spark.kubernetes.container.image=registry/kafka-placement:1"),
    ],
)
def test_what_other_masters_are_told(wheel: Path, tmp_path: Path, master: str, said: str) -> None:
    """As far as there is no such master here: the command, not its effect."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "spark-submit").write_text('#!/bin/bash\necho "$@"\n')
    (tmp_path / "bin" / "spark-submit").chmod(0o755)
    ran = subprocess.run(
        [str(ROOT / "jobs" / "spark-submit.sh"), "tables"],
        env=clean_environment(
            tmp_path,
            SPARK_HOME=str(tmp_path),
            JARS=str(jar_paths()[0].parent),
            WHEEL=str(wheel),
            MASTER=master,
            ENVIRONMENT="env.tar.gz",
            IMAGE="registry/kafka-placement:1",
        ),
        capture_output=True,
        text=True,
        check=True,
    )
    assert said in ran.stdout
    assert ran.stdout.startswith(f"--master {master} --deploy-mode client ")
    assert ran.stdout.endswith("jobs/kafka_placement_job.py tables\n")
