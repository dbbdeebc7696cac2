"""The wheel: its content, and that it works with nothing but its libraries."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

from jobs.databricks.wheel import BUILD, PLATFORM, platform_wheel
from pipelines import __version__
from tests.where_it_runs.cluster import clean_environment
from tests.where_it_runs.conftest import ROOT

pytestmark = pytest.mark.slow


def read_metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as files:
        return Parser().parsestr(files.read(f"kafka_placement-{__version__}.dist-info/METADATA").decode())


def list_required(wheel: Path) -> set[str]:
    """List the names of the libraries that the wheel requires."""
    lines = read_metadata(wheel).get_all("Requires-Dist") or []
    return {re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0] for line in lines}


def test_files(wheel: Path) -> None:
    """Every file of both packages, the Python API, the defaults of conf/ and the licence; no test, job or sample."""
    with zipfile.ZipFile(wheel) as files:
        names = set(files.namelist())
        licence = files.read(f"kafka_placement-{__version__}.dist-info/licenses/LICENSE")
    assert wheel.name == f"kafka_placement-{__version__}-py3-none-any.whl"
    about = {name for name in names if name.startswith(f"kafka_placement-{__version__}.dist-info/")}
    source_files = {
        str(file.relative_to(ROOT))
        for folder in ("pipelines", "udfs")
        for file in (ROOT / folder).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    conf_files = {f"pipelines/_conf/{file.name}" for file in (ROOT / "conf").iterdir()}
    assert names - about == source_files | conf_files | {"kafka_placement.py"}
    assert {Path(name).name for name in names if "/assets/" in name} >= {"report.html", "report.js", "report.css"}
    assert licence == (ROOT / "LICENSE").read_bytes()


def test_metadata(wheel: Path) -> None:
    metadata = read_metadata(wheel)
    assert (metadata["Name"], metadata["Version"]) == ("kafka-placement", __version__)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert "Programming Language :: Python :: 3.11" in (metadata.get_all("Classifier") or [])
    assert {"pyspark", "delta-spark", "numpy", "typer"} <= list_required(wheel)


@pytest.mark.parametrize("kind", ["plain", "databricks"])
def test_it_works_once_installed(wheel: Path, bare_python: Path, tmp_path: Path, kind: str) -> None:
    """Installed by pip, it reads assets and conf/ from the installation."""
    if kind == "databricks":
        wheel = platform_wheel(wheel, tmp_path / "dist")
    target = tmp_path / "installed"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    subprocess.run([*install, "--no-deps", "--target", str(target), str(wheel)], check=True, capture_output=True)

    def call(*command: str) -> str:
        done = subprocess.run(
            command,
            env=clean_environment(tmp_path, PYTHONPATH=str(target)),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def command(*arguments: str) -> str:
        return call(str(bare_python), str(target / "bin" / "kafka-placement"), *arguments)

    assert command("--version") == f"{__version__}\n"
    assert "one HTML page" in command("report", "--help")
    code = """
from datetime import UTC, datetime
from pathlib import Path
import pipelines
from pipelines.config.settings import read_conf_file
from pipelines.report.report_data import ReportData
from pipelines.report.html_page import write_page
write_page(ReportData([], datetime(2026, 11, 22, tzinfo=UTC)), Path("page.html"))
print(Path(pipelines.__file__).parent, len(read_conf_file("jars.toml")))
"""
    place, size = call(str(bare_python), "-c", code).split()
    assert (Path(place), int(size)) == (target / "pipelines", (ROOT / "conf" / "jars.toml").stat().st_size)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert (ROOT / "pipelines" / "report" / "assets" / "d3.min.js").read_text(encoding="utf-8")[:2000] in page


def test_the_platforms_wheel_does_not_require_spark(wheel: Path, tmp_path: Path) -> None:
    """The same files; otherwise pip would install another pyspark over the platform's."""
    on_platform = platform_wheel(wheel, tmp_path)
    assert on_platform.name == f"kafka_placement-{__version__}-{BUILD}-py3-none-any.whl"
    assert list_required(on_platform) == list_required(wheel) - PLATFORM
    assert read_metadata(on_platform)["Version"] == __version__
    with zipfile.ZipFile(wheel) as plain, zipfile.ZipFile(on_platform) as files:
        assert files.namelist() == plain.namelist()
        changed = {name for name in plain.namelist() if plain.read(name) != files.read(name)}
        about = f"kafka_placement-{__version__}.dist-info"
        assert changed == {f"{about}/METADATA", f"{about}/WHEEL", f"{about}/RECORD"}
        for line in files.read(f"{about}/RECORD").decode().splitlines():
            name, digest, size = line.split(",")
            if name != f"{about}/RECORD":
                content = files.read(name)
                expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                assert (digest, int(size)) == (f"sha256={expected}", len(content))
    with pytest.raises(SystemExit, match="does not require delta-spark"):
        platform_wheel(on_platform, tmp_path / "again")
