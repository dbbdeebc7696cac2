"""A Spark standalone cluster on 127.0.0.1, from pyspark's own jars: a master, and workers with one core each."""

from __future__ import annotations

import contextlib
import http.client
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
START_TIMEOUT_S = 60
DAEMON_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass(frozen=True)
class Cluster:
    """A running cluster."""

    master: str
    status_page: str

    def status(self) -> dict[str, object]:
        """Get the master's report on its workers and applications."""
        with urllib.request.urlopen(self.status_page, timeout=5) as response:
            status: dict[str, object] = json.load(response)
            return status


def clean_environment(home: Path, **more: str) -> dict[str, str]:
    """Make an environment without variables of Spark, Python or this program but `more`, and with compiled kernels.

    Compiling takes a minute, and is tested on its own.
    """
    cache = home / ".cache" / "kafka-placement"
    compiled = cache_folder()
    if compiled is not None and compiled.exists() and not cache.exists():
        cache.mkdir(parents=True)
        (cache / f"compiled-{SOURCES_DIGEST}").symlink_to(compiled)
    common = {key: os.environ[key] for key in ("PATH", "JAVA_HOME", "LANG", "TMPDIR") if key in os.environ}
    return {**common, "HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", **more}


@contextlib.contextmanager
def standalone_cluster(folder: Path, workers: int = 2, memory: str = "1g") -> Iterator[Cluster]:
    """Run a cluster during the block; its logs and work files are in `folder`. memory: of each worker's executors."""
    port, page, *worker_pages = find_free_ports(2 + workers)
    cluster = Cluster(f"spark://127.0.0.1:{port}", f"http://127.0.0.1:{page}/json/")
    here = ("--host", "127.0.0.1")
    with contextlib.ExitStack() as stack:
        start_daemon(stack, folder, "master.Master", *here, "--port", str(port), "--webui-port", str(page))
        for number, worker_page in enumerate(worker_pages):
            size = ("--cores", "1", "--memory", memory, "--work-dir", str(folder / f"worker-{number}"))
            start_daemon(stack, folder, "worker.Worker", *here, "--webui-port", str(worker_page), *size, cluster.master)
        wait_for_workers(cluster, folder, workers)
        yield cluster


def start_daemon(stack: contextlib.ExitStack, folder: Path, name: str, *arguments: str) -> None:
    """Start a daemon class of Spark, which is stopped when `stack` closes."""
    log = stack.enter_context((folder / f"{name}-{len(list(folder.glob('*.log')))}.log").open("wb"))
    process = subprocess.Popen(
        [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments],
        env=clean_environment(folder, SPARK_HOME=str(SPARK_HOME), SPARK_DAEMON_JAVA_OPTS=DAEMON_JAVA_OPTIONS),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    stack.callback(stop_process, process)


def stop_process(process: subprocess.Popen[bytes]) -> None:
    """Stop the process; spark-class has become the JVM, so there is no other."""
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_for_workers(cluster: Cluster, folder: Path, workers: int) -> None:
    """Wait until every worker is registered; fail with the logs if that does not happen."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException):  # until the server answers
            if cluster.status()["aliveworkers"] == workers:
                return
        time.sleep(0.2)
    logs = "\n".join(log.read_text(errors="replace")[-3000:] for log in sorted(folder.glob("*.log")))
    raise AssertionError(f"the cluster did not start within {START_TIMEOUT_S} s:\n{logs}")


def find_free_ports(count: int) -> list[int]:
    """Find ports of 127.0.0.1 that are free at this moment."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in sockets:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in sockets]
