"""spark-submit of the built wheel to a cluster of two workers that know nothing of this program."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pipelines.jars import jar_paths
from tests.where_it_runs.cluster import SPARK_HOME, Cluster, clean_environment
from tests.where_it_runs.conftest import CLUSTER, ROOT
from tests.where_it_runs.tables import contents

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

# The cluster's own settings: what an operator would say of two cores.
SUBMIT_CONF = {
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
}


def test_the_wheel_runs_on_a_cluster(
    cluster: Cluster, wheel: Path, bare_python: Path, embedded_run: Path, samples: Path, tmp_path: Path
) -> None:
    command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", cluster.master, "--name", "placement-on-a-cluster"]
    command += [part for key, value in SUBMIT_CONF.items() for part in ("--conf", f"{key}={value}")]
    command += ["--jars", ",".join(map(str, jar_paths())), "--py-files", str(wheel)]
    command += [str(ROOT / "jobs" / "kafka_placement_job.py")]
    command += ["run", str(samples / CLUSTER), "--warehouse", str(tmp_path / "warehouse")]
    ran = subprocess.run(
        command,
        env=clean_environment(tmp_path, PYSPARK_PYTHON=str(bare_python)),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-5000:]
    assert contents(tmp_path / "warehouse") == contents(embedded_run / "warehouse")
    applications = cluster.status()["completedapps"]
    assert [(one["name"], one["cores"], one["state"]) for one in applications] == [
        ("placement-on-a-cluster", 2, "FINISHED")
    ]
