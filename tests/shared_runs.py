"""Folders that the workers of one test run share, runs that are made once, and the order of test files."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.commands import ENGINE, FEW_SEEDS, call_run

ROOT = Path(__file__).resolve().parent.parent
# Name of the lock on the only port of a Spark Connect server within a process.
CONNECT_PORT = "port-15002"
COMMAND = [sys.executable, "-m", "pipelines.cli"]
SMALL_RUN_OPTIONS = (*FEW_SEEDS, "--set", "plans.goals=leaders")
# In the first cluster, the failure of broker 1 takes a partition offline; in the last one, that of broker 98 does.
SMALL_CLUSTERS = {
    "prod.eu": "\tTopic: a\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1\n",
    "other": "\tTopic: b\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n"
    "\tTopic: b\tPartition: 1\tLeader: 2\tReplicas: 2,3\tIsr: 2,3\n",
    "mine": "\tTopic: gone\tPartition: 0\tLeader: 97\tReplicas: 97,98,99\tIsr: 97,98,99\n"
    "\tTopic: gone\tPartition: 1\tLeader: 98\tReplicas: 98,99,97\tIsr: 98\n",
}
SAMPLE_CLUSTERS = {"kraft": "kafka-4.1.1-kraft", "zk": "kafka-2.8.2-zookeeper"}


@dataclass(frozen=True)
class SharedFolder:
    """A folder that all workers see."""

    folder: Path

    def once(self, name: str, make: Callable[[Path], None]) -> Path:
        """Return the folder of this name; the first worker that asks fills it, and the others wait."""
        folder = self.folder / "shared" / name
        marker = folder.with_name(f"{name}.done")
        with self.lock(name):
            if not marker.exists():
                folder.mkdir(parents=True)  # fails if another worker has failed to fill it
                make(folder)
                marker.touch()
        return folder

    @contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Let one worker at a time enter the block."""
        self.folder.joinpath("shared").mkdir(exist_ok=True)
        with (self.folder / "shared" / f"{name}.lock").open("w") as lock_file:
            fcntl.flock(lock_file, fcntl.LOCK_EX)
            yield


@dataclass(frozen=True)
class SampleRun:
    """A whole run over both sample clusters.

    Attributes:
        folder: Where the command was run.
        sources: Its sources.
    """

    folder: Path
    sources: tuple[str, ...]

    @classmethod
    def create(cls, shared_folder: SharedFolder, samples: Path) -> SampleRun:
        """Run the command in a process of its own, once."""
        sources = tuple(f"{name}={samples / folder}" for name, folder in SAMPLE_CLUSTERS.items())

        def run(folder: Path) -> None:
            (folder / "work").mkdir()
            done = subprocess.run(
                [*COMMAND, "run", *sources, "--warehouse", "warehouse", "--verbose"],
                cwd=folder / "work",
                env={**os.environ, "PYTHONPATH": str(ROOT), ENGINE: "auto"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            (folder / "stdout.txt").write_text(done.stdout)
            (folder / "stderr.txt").write_text(done.stderr)

        return cls(shared_folder.once("sample-run", run) / "work", sources)

    @property
    def warehouse(self) -> Path:
        return self.folder / "warehouse"

    @property
    def stdout(self) -> str:
        return (self.folder.parent / "stdout.txt").read_text()

    @property
    def stderr(self) -> str:
        return (self.folder.parent / "stderr.txt").read_text()


@dataclass(frozen=True)
class SmallRun:
    """A whole run over clusters of a few partitions.

    Attributes:
        folder: Its sources and tables.
        arguments: Arguments of `run` without the warehouse.
    """

    folder: Path
    arguments: tuple[str, ...]

    @classmethod
    def create(cls, shared_folder: SharedFolder) -> SmallRun:
        """Run the command once; a threshold of --alert is crossed."""
        files = {
            name: shared_folder.folder / "shared" / "small-run" / "sources" / f"{name}.txt" for name in SMALL_CLUSTERS
        }
        arguments = (*(f"{name}={file}" for name, file in files.items()), *SMALL_RUN_OPTIONS, "--no-report")

        def run(folder: Path) -> None:
            (folder / "sources").mkdir()
            for name, file in files.items():
                file.write_text(SMALL_CLUSTERS[name])
            options = ("--warehouse", str(folder / "warehouse"), "--alert", "most_newly_offline_partitions > 0")
            output = call_run(*arguments, *options, code=4)
            (folder / "stderr.txt").write_text(output.stderr)

        return cls(shared_folder.once("small-run", run), arguments)

    @property
    def warehouse(self) -> Path:
        return self.folder / "warehouse"

    @property
    def stderr(self) -> str:
        return (self.folder / "stderr.txt").read_text()


# Tests of these folders share expensive fixtures, so that one worker runs all of them.
TOGETHER = ("tests/docs/", "tests/live/six_brokers/")
# These start first, in this order: the longest, and those that fill folders for others. Many short files come last, so
# that all workers stay busy.
FIRST = (
    "tests/docs/",
    "tests/e2e/test_run.py",
    "tests/where_it_runs/test_standalone_cluster.py",
    "tests/e2e/",
    "tests/where_it_runs/",
    "tests/live/",
    "tests/spark/",
    "tests/jobs/",
    "tests/oracle/",
    "tests/report/",
    "tests/fuzz/",
    "tests/properties/",
    "tests/unit/test_hostile_options.py",
    "tests/unit/planning/test_plan_command.py",
    "tests/unit/planning/",
)
# These use Spark with Java in their own process, for SQL, Delta tables and errors that Sail has not. The second of
# several workers, which has Sail, runs none of them.
SAIL_WORKER = "gw1"
WITH_JAVA = (
    "tests/docs/",
    "tests/e2e/test_run.py",
    "tests/where_it_runs/test_other_readers.py",
    "tests/where_it_runs/test_session.py",
    "tests/spark/stages/",
    *(
        f"tests/spark/test_{name}.py"
        for name in (
            *(
                "cluster_source",
                "concurrent_writes",
                "damaged_tables",
                "load_figures",
                "maintenance",
                "placements",
                "quality",
                "query",
            ),
            *(
                "query_errors",
                "same_answers",
                "silver_tables",
                "simulation_model",
                "simulation_tables",
                "sql_command",
                "upgrades",
            ),
            *("view_tables", "views", "views_agree"),
        )
    ),
)
# Tests of Kafka clusters mostly wait: the last of three or more workers runs them beside the others, these first. It
# starts no Spark, and afterwards takes tests of the folders WITHOUT_SPARK.
LIVE = ("tests/live/six_brokers/", "tests/live/test_loads.py", "tests/live/", "tests/fuzz/", "tests/properties/")
WITHOUT_SPARK = ("tests/unit/", "tests/fuzz/", "tests/properties/")


def runs_sail() -> bool:
    """Tell whether this process has Sail as its Spark: the second of several workers."""
    return os.environ.get("PYTEST_XDIST_WORKER") == SAIL_WORKER


def find_scope(nodeid: str) -> str:
    """Find the file or folder whose tests stay together on one worker."""
    file = nodeid.split("::", 1)[0]
    return next((folder for folder in TOGETHER if file.startswith(folder)), file)


def rank_scope(scope: str, first: Sequence[str] = FIRST) -> int:
    """Return the place of a scope in the order of starts."""
    return next((i for i, prefix in enumerate(first) if scope.startswith(prefix)), len(first))


def choose_scope(scopes: Iterable[str], worker: str, workers: int) -> str | None:
    """Choose the scope that a worker runs next.

    Args:
        scopes: Those that no worker has begun.
        worker: Its name.
        workers: Their number.

    Returns:
        The scope, or None if there is none for this worker.
    """
    has_live_worker = workers > 2
    if has_live_worker and worker == f"gw{workers - 1}":
        own = [scope for scope in scopes if scope.startswith(("tests/live/", *WITHOUT_SPARK))]
        return min(own, key=lambda scope: rank_scope(scope, LIVE), default=None)
    if worker == SAIL_WORKER:
        scopes = [scope for scope in scopes if not scope.startswith(WITH_JAVA)]

    def rank(scope: str) -> tuple[bool, bool, int]:
        # The other workers help with tests of Kafka clusters once nothing else is left.
        is_live = has_live_worker and scope.startswith("tests/live/")
        return is_live, workers > 1 and not scope.startswith(WITH_JAVA) and worker == "gw0", rank_scope(scope)

    return min(scopes, key=rank, default=None)


def make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Replace --dist loadfile by a scheduler of scopes, the long ones first; None for any other --dist."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ScopeScheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return find_scope(nodeid)

        def _assign_work_unit(self, node: Any) -> None:
            scope = choose_scope(self.workqueue, node.gateway.id, len(config.option.tx))
            if scope is None:
                node.shutdown()
                return
            self.workqueue.move_to_end(scope, last=False)
            super()._assign_work_unit(node)

    return ScopeScheduling(config, log)
