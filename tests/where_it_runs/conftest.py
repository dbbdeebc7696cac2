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

from tests.shared import Shared
from tests.where_it_runs.cluster import Cluster, clean_environment, standalone_cluster

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def wheel(shared: Shared) -> Path:
    """The wheel of this source tree."""

    def build(folder: Path) -> None:
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True, stdin=subprocess.DEVNULL)

    (built,) = shared.once("wheel", build).glob("*.whl")
    return built


@pytest.fixture(scope="session")
def bare_python(shared: Shared) -> Path:
    """A Python with every library of this one, but without this program: what it imports must come from the wheel."""
    return shared.once("bare-python", make_bare_python) / "bin" / "python"


def make_bare_python(folder: Path) -> None:
    """Make that Python in a folder, and see that this program is not there."""
    venv.create(folder, symlinks=True)
    libraries = sysconfig.get_path("purelib")
    site_packages = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    # A path in a .pth file: the .pth files within it (our editable install) are not read.
    Path(site_packages, "libraries.pth").write_text(libraries + os.linesep)
    probe = """
import pyspark
try:
    import pipelines.errors
except ImportError:
    print("absent")
"""
    done = subprocess.run(
        [folder / "bin" / "python", "-c", probe],
        cwd=folder,
        env=clean_environment(folder),
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "absent"


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A standalone cluster of two workers."""
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running
