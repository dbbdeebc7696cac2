"""The wheel, a Python with the libraries but without this program, and a cluster; each is made once."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shared_runs import SharedFolder
from tests.where_it_runs.cluster import Cluster, clean_environment, standalone_cluster

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def wheel(shared_folder: SharedFolder) -> Path:
    """The wheel of this source tree."""

    def build(folder: Path) -> None:
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True, stdin=subprocess.DEVNULL)

    (built,) = shared_folder.once("wheel", build).glob("*.whl")
    return built


@pytest.fixture(scope="session")
def bare_python(shared_folder: SharedFolder) -> Path:
    """A Python with every library of this one but without this program, which it can only import from the wheel."""
    return shared_folder.once("bare-python", make_bare_python) / "bin" / "python"


def make_bare_python(folder: Path) -> None:
    """Make that Python in a folder, and check that it lacks this program."""
    venv.create(folder, symlinks=True)
    libraries = sysconfig.get_path("purelib")
    site_packages = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    # The .pth files below a path in a .pth file, such as our editable install, are not read.
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
