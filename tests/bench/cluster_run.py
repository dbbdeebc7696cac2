"""The pipeline over a fleet on a Spark standalone cluster with 1, 2 and 4 executors of one core: `make bench-cluster`.

Each turn starts a cluster on 127.0.0.1 and submits `run` to it with jobs/spark-submit.sh, as users do. The figures are
the seconds of each stage by number of executors, and the peak memory of the driver and of all executors together, by
proportional set size. All turns must write the same tables.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic

from deltalake import DeltaTable

from pipelines.setup.jars import list_jar_files
from tests.bench import compare_tables
from tests.bench.fleet import add_shape_options, make_fleet, shape_of
from tests.bench.memory import Watch
from tests.where_it_runs.cluster import SPARK_HOME, clean_environment, standalone_cluster
from tests.where_it_runs.conftest import ROOT

EXECUTORS = (1, 2, 4)
MEMORY = "2g"  # of the driver and of each executor's JVM
SETTINGS = {"spark.databricks.delta.snapshotPartitions": 2, "spark.ui.enabled": "false"}


def measure(fleet: Path, folder: Path, executors: int, wheel: Path, last: str | None) -> dict[str, float]:
    """Run the pipeline on a cluster, and return the seconds of each stage, of the whole, and the peaks in GB."""
    folder.mkdir()
    settings = SETTINGS | {"spark.sql.shuffle.partitions": 2 * executors}
    with standalone_cluster(folder, executors, MEMORY) as cluster:
        began = monotonic()
        process = subprocess.Popen(
            [
                str(ROOT / "jobs" / "spark-submit.sh"),
                *("run", *map(str, sorted(fleet.iterdir())), "--warehouse", str(folder / "warehouse")),
                *(("--to", last) if last else ()),
            ],
            env=clean_environment(
                folder,
                MASTER=cluster.master,
                WHEEL=str(wheel),
                JARS=str(list_jar_files()[0].parent),
                SPARK_HOME=str(SPARK_HOME),
                PYSPARK_PYTHON=sys.executable,
                DRIVER_MEMORY=MEMORY,
                EXECUTOR_MEMORY=MEMORY,
                SUBMIT_ARGS=" ".join(f"--conf {key}={value}" for key, value in settings.items()),
            ),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        driver, everything = Watch(process.pid), Watch(os.getpid())
        if process.wait() != 0:
            raise SystemExit("the run failed, see above")
        ended = monotonic()
        driver.stop()
        everything.stop()
    runs = DeltaTable(str(folder / "warehouse" / "ops" / "runs")).to_pyarrow_table().to_pylist()
    seconds: dict[str, float] = {row["stage"]: row["seconds"] for row in runs}
    return seconds | {
        "the whole command": ended - began,
        "peak GB of the driver": driver.peak_between(began, ended) / 1e9,
        "peak GB of the driver and executors": everything.peak_between(began, ended) / 1e9,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_shape_options(parser)
    parser.add_argument("--to", help="the last stage")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "wheel")]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True, stdin=subprocess.DEVNULL)
        (wheel,) = (folder / "wheel").glob("*.whl")
        make_fleet(shape_of(arguments), folder / "fleet")
        turns = {n: measure(folder / "fleet", folder / f"turn-{n}", n, wheel, arguments.to) for n in EXECUTORS}
        first = turns[EXECUTORS[0]]
        print(f"  {'executors of one core':36}" + "".join(f"{n:>9}" for n in EXECUTORS))
        for name in first:
            print(f"  {name:36}" + "".join(f"{turns[n].get(name, 0.0):9.1f}" for n in EXECUTORS))
        warehouses = [folder / f"turn-{n}" / "warehouse" for n in EXECUTORS]
        for warehouse in warehouses[1:]:
            # In internal.entities, facts of equal weight are packed in the order in which they arrive.
            if compare_tables.main([str(warehouses[0]), str(warehouse), "--skip", "internal.entities"]):
                raise SystemExit(1)


if __name__ == "__main__":
    main()
