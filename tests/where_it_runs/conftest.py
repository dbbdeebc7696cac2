"""The wheel, a Python that has the libraries but not this program, and a cluster: each made once, when asked for."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.where_it_runs.cluster import Cluster, clean_environment, standalone_cluster

ROOT = Path(__file__).resolve().parents[2]
CLUSTER = "kafka-2.8.2-zookeeper"  # the smaller capture


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this source tree."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with every library of this one, but without this program: what it imports must come from the wheel."""
    folder = tmp_path_factory.mktemp("bare-python")
    venv.create(folder, symlinks=True)
    libraries = sysconfig.get_path("purelib")
    site_packages = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    # A path in a .pth file: the .pth files within it (our editable install) are not read.
    Path(site_packages, "libraries.pth").write_text(libraries + os.linesep)
    python = folder / "bin" / "python"
    probe = """
import pyspark
try:
    import pipelines.errors
except ImportError:
    print("absent")
"""
    environment = clean_environment(folder)
    done = subprocess.run(
        [python, "-c", probe], cwd=folder, env=environment, check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "absent"
    return python


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A standalone cluster of two workers."""
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="session")
def embedded_run(tmp_path_factory: pytest.TempPathFactory, samples: Path) -> Path:
    """The folder in which `kafka-placement run` was run embedded, over one cluster: what other places must equal."""
    folder = tmp_path_factory.mktemp("embedded")
    command = [sys.executable, "-m", "pipelines.cli", "run", str(samples / CLUSTER), "--warehouse", "warehouse"]
    environment = clean_environment(folder)
    ran = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return folder
