"""A Spark standalone cluster on 127.0.0.1, from pyspark's own jars: one master, two workers of one core."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyspark

from udfs.kernel_compiler import SOURCES_DIGEST, cache_folder

SPARK_HOME = Path(pyspark.__file__).parent
WORKERS = 2
START_TIMEOUT_S = 60
DAEMON_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass(frozen=True)
class Cluster:
    """A running cluster."""

    master: str
    status_page: str

    def status(self) -> dict[str, object]:
        """What the master says about its workers and applications."""
        with urllib.request.urlopen(self.status_page, timeout=5) as answer:
            said: dict[str, object] = json.load(answer)
            return said


def clean_environment(home: Path, **more: str) -> dict[str, str]:
    """An environment with nothing of Spark, Python or this program in it but `more`, and compiled kernels.

    As on a machine where the program has run before: compiling takes a minute and is tested on its own.
    """
    cache = home / ".cache" / "kafka-placement"
    compiled = cache_folder()
    if compiled is not None and compiled.exists() and not cache.exists():
        cache.mkdir(parents=True)
        (cache / f"compiled-{SOURCES_DIGEST}").symlink_to(compiled)
    kept = {key: os.environ[key] for key in ("PATH", "JAVA_HOME", "LANG", "TMPDIR") if key in os.environ}
    return {**kept, "HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", **more}


@contextlib.contextmanager
def standalone_cluster(folder: Path) -> Iterator[Cluster]:
    """A cluster while the block runs; its logs and work files are in `folder`."""
    port, page, *worker_pages = free_ports(2 + WORKERS)
    cluster = Cluster(f"spark://127.0.0.1:{port}", f"http://127.0.0.1:{page}/json/")
    here = ("--host", "127.0.0.1")
    with contextlib.ExitStack() as stack:
        start(stack, folder, "master.Master", *here, "--port", str(port), "--webui-port", str(page))
        for number, worker_page in enumerate(worker_pages):
            size = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"worker-{number}"))
            start(stack, folder, "worker.Worker", *here, "--webui-port", str(worker_page), *size, cluster.master)
        wait_for_workers(cluster, folder)
        yield cluster


def start(stack: contextlib.ExitStack, folder: Path, name: str, *arguments: str) -> None:
    """Nothing; starts a daemon class of Spark's, to be stopped by its process id when `stack` closes."""
    log = stack.enter_context((folder / f"{name}-{len(list(folder.glob('*.log')))}.log").open("wb"))
    process = subprocess.Popen(
        [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments],
        env=clean_environment(folder, SPARK_HOME=str(SPARK_HOME), SPARK_DAEMON_JAVA_OPTS=DAEMON_JAVA_OPTIONS),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    stack.callback(stop, process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Nothing; ends the process (spark-class became the JVM, so there is no other)."""
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_for_workers(cluster: Cluster, folder: Path) -> None:
    """Nothing, once every worker is registered; an AssertionError with the logs where that does not happen."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError):
            if cluster.status()["aliveworkers"] == WORKERS:
                return
        time.sleep(0.2)
    logs = "\n".join(log.read_text(errors="replace")[-3000:] for log in sorted(folder.glob("*.log")))
    raise AssertionError(f"the cluster did not start within {START_TIMEOUT_S} s:\n{logs}")


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listened on a moment ago."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
