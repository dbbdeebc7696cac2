"""What the workers of one test run share: folders that are made once, and the order of the files."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.commands import FEW, call

ROOT = Path(__file__).resolve().parent.parent
# What locks the one port that Spark Connect's server in a process listens on.
CONNECT_PORT = "port-15002"
COMMAND = [sys.executable, "-m", "pipelines.cli"]
# Of the first, broker 1's failure takes the partition offline; of the last, broker 98's does. Of the other, none does.
SMALL = {
    "prod.eu": "\tTopic: a\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1\n",
    "other": "\tTopic: b\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n"
    "\tTopic: b\tPartition: 1\tLeader: 2\tReplicas: 2,3\tIsr: 2,3\n",
    "mine": "\tTopic: gone\tPartition: 0\tLeader: 97\tReplicas: 97,98,99\tIsr: 97,98,99\n"
    "\tTopic: gone\tPartition: 1\tLeader: 98\tReplicas: 98,99,97\tIsr: 98\n",
}
NAMES = {"kraft": "kafka-4.1.1-kraft", "zk": "kafka-2.8.2-zookeeper"}


@dataclass(frozen=True)
class Shared:
    """folder: that all workers see."""

    folder: Path

    def once(self, name: str, make: Callable[[Path], None]) -> Path:
        """The folder of this name. The first worker that asks makes it, and the others wait."""
        made = self.folder / "shared" / name
        done = made.with_name(f"{name}.done")
        with self.locked(name):
            if not done.exists():
                made.mkdir(parents=True)  # fails where a worker has tried before, and failed
                make(made)
                done.touch()
        return made

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """One worker at a time."""
        self.folder.joinpath("shared").mkdir(exist_ok=True)
        with (self.folder / "shared" / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


@dataclass(frozen=True)
class Finished:
    """A whole run over both samples. folder: where the command was run.   sources: what it was given."""

    folder: Path
    sources: tuple[str, ...]

    @classmethod
    def of(cls, shared: Shared, samples: Path) -> Finished:
        """The run, by a process of its own."""
        sources = tuple(f"{name}={samples / folder}" for name, folder in NAMES.items())

        def run(folder: Path) -> None:
            (folder / "work").mkdir()
            done = subprocess.run(
                [*COMMAND, "run", *sources, "--warehouse", "warehouse", "--verbose"],
                cwd=folder / "work",
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            (folder / "stdout.txt").write_text(done.stdout)
            (folder / "stderr.txt").write_text(done.stderr)

        return cls(shared.once("finished", run) / "work", sources)

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
class Small:
    """A whole run over clusters of a few partitions. arguments: of `run`, but for the warehouse."""

    folder: Path
    arguments: tuple[str, ...]

    @classmethod
    def of(cls, shared: Shared) -> Small:
        """The run, in the Spark of this process. A threshold is crossed in it."""
        names = {name: shared.folder / "shared" / "small" / "sources" / f"{name}.txt" for name in SMALL}
        arguments = (*(f"{name}={file}" for name, file in names.items()), *FEW, "--no-report")

        def run(folder: Path) -> None:
            (folder / "sources").mkdir()
            for name, file in names.items():
                file.write_text(SMALL[name])
            asked = ("--warehouse", str(folder / "warehouse"), "--alert", "newly_offline > 0")
            done = call("run", *arguments, *asked, code=4)
            (folder / "stderr.txt").write_text(done.stderr)

        return cls(shared.once("small", run), arguments)

    @property
    def warehouse(self) -> Path:
        return self.folder / "warehouse"

    @property
    def stderr(self) -> str:
        return (self.folder / "stderr.txt").read_text()


# Tests of these folders share what is costly to make, so that one worker has all of them.
TOGETHER = ("tests/docs/",)
# These begin, in this order: what takes longest, and what makes things that others wait for. Many short files are left
# for the end, so that all workers are busy until then.
FIRST = (
    "tests/docs/",
    "tests/e2e/test_run.py",
    "tests/e2e/",
    "tests/where_it_runs/",
    "tests/spark/",
    "tests/jobs/",
    "tests/oracle/",
    "tests/unit/planning/test_plan_command.py",
    "tests/unit/planning/",
)


def scope_of(nodeid: str) -> str:
    """Which tests stay on one worker, in their order: those of a file, or of a folder."""
    file = nodeid.split("::", 1)[0]
    return next((folder for folder in TOGETHER if file.startswith(folder)), file)


def rank(scope: str) -> int:
    """The lower, the sooner it begins."""
    return next((i for i, prefix in enumerate(FIRST) if scope.startswith(prefix)), len(FIRST))


def scheduled(config: pytest.Config, log: Any) -> Any:
    """In place of --dist loadfile, its like: by scopes, the long ones first. None for any other --dist."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scopes(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

        def _assign_work_unit(self, node: Any) -> None:
            self.workqueue.move_to_end(min(self.workqueue, key=rank), last=False)
            super()._assign_work_unit(node)

    return Scopes(config, log)
