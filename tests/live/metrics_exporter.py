"""Brokers that export their metrics, and Debian's Prometheus that scrapes them; both end with this process."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from tests.live.kafka_cluster import CONTROLLER_ID, find_class_path, find_free_ports, wait_until

_RULES = Path(__file__).with_name("jmx_rules.yml")
SCRAPE_S = 2


def export_metrics(ports: Sequence[int]) -> Callable[[int], Sequence[str]]:
    """Return the Java options of each broker 1 to n, by its id; its metrics are at the port with its number."""
    agent = find_class_path("jmx_prometheus_javaagent")

    def list_options(broker: int) -> Sequence[str]:
        return () if broker == CONTROLLER_ID else (f"-javaagent:{agent}=127.0.0.1:{ports[broker - 1]}:{_RULES}",)

    return list_options


def find_prometheus() -> str:
    """Return Prometheus; without it, the test is skipped, or fails with PROMETHEUS_REQUIRED=1."""
    executable = shutil.which("prometheus")
    if executable is None:
        problem = "no Prometheus: loads are not tested with it (Debian, Ubuntu: apt-get install prometheus)"
        if os.environ.get("PROMETHEUS_REQUIRED"):
            pytest.fail(problem)
        pytest.skip(problem)
    return executable


@contextmanager
def run_prometheus(executable: str, folder: Path, ports: Sequence[int]) -> Iterator[str]:
    """Run a server that scrapes brokers 1 to n at these ports, if any; yield its URL once it has scraped all."""
    targets = (
        f"  - targets: ['127.0.0.1:{port}']\n    labels: {{broker_id: '{broker}', kafka_cluster: prod}}\n"
        for broker, port in enumerate(ports, start=1)
    )
    scraping = f"global: {{scrape_interval: {SCRAPE_S}s, scrape_timeout: {SCRAPE_S}s}}\n"
    jobs = "scrape_configs:\n- job_name: kafka\n  static_configs:\n"
    (folder / "prometheus.yml").write_text(scraping + jobs + "".join(targets))
    (port,) = find_free_ports(1)
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen(
            [
                executable,
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: ctypes.CDLL("libc.so.6").prctl(1, signal.SIGKILL),  # it ends with this process
        )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: _scrapes_all(url, len(ports)), "Prometheus does not scrape all brokers")
        yield url
    finally:
        process.terminate()
        process.wait(30)


def _scrapes_all(url: str, brokers: int) -> bool:
    try:
        answer = requests.get(f"{url}/api/v1/query", {"query": "sum(up)"}, timeout=5).json()
    except requests.RequestException:
        return False
    result = answer.get("data", {}).get("result", [])
    return (float(result[0]["value"][1]) if result else 0) == brokers
