"""The wheel: what is in it, and that it works where nothing but it and the libraries are."""

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


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as files:
        return Parser().parsestr(files.read(f"kafka_placement-{__version__}.dist-info/METADATA").decode())


def required(wheel: Path) -> set[str]:
    """Names of what the wheel requires."""
    lines = metadata(wheel).get_all("Requires-Dist") or []
    return {re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0] for line in lines}


def test_what_is_in_it(wheel: Path) -> None:
    """Every file of the package, conf's defaults and the licence; and no test, job or sample."""
    with zipfile.ZipFile(wheel) as files:
        found = set(files.namelist())
        licence = files.read(f"kafka_placement-{__version__}.dist-info/licenses/LICENSE")
    assert wheel.name == f"kafka_placement-{__version__}-py3-none-any.whl"
    about = {name for name in found if name.startswith(f"kafka_placement-{__version__}.dist-info/")}
    of_source = {
        str(file.relative_to(ROOT))
        for folder in ("pipelines", "udfs")
        for file in (ROOT / folder).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    of_conf = {f"pipelines/_conf/{file.name}" for file in (ROOT / "conf").iterdir()}
    assert found - about == of_source | of_conf
    assert {Path(name).name for name in found if "/assets/" in name} >= {"report.html", "report.js", "report.css"}
    assert licence == (ROOT / "LICENSE").read_bytes()


def test_what_it_says_of_itself(wheel: Path) -> None:
    said = metadata(wheel)
    assert (said["Name"], said["Version"]) == ("kafka-placement", __version__)
    assert said["License-Expression"] == "Apache-2.0"
    assert said["Requires-Python"] == ">=3.11"
    assert "Programming Language :: Python :: 3.11" in (said.get_all("Classifier") or [])
    assert {"pyspark", "delta-spark", "numpy", "typer"} <= required(wheel)


@pytest.mark.parametrize("kind", ["plain", "databricks"])
def test_it_works_once_installed(wheel: Path, bare_python: Path, tmp_path: Path, kind: str) -> None:
    """As pip installs it, with assets and conf read from there."""
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
from pipelines.config.conf_files import conf_text
from pipelines.report.report_data import Facts
from pipelines.report.html_page import write_page
write_page(Facts([], datetime(2026, 11, 22, tzinfo=UTC)), Path("page.html"))
print(Path(pipelines.__file__).parent, len(conf_text("jars.toml")))
"""
    place, size = call(str(bare_python), "-c", code).split()
    assert (Path(place), int(size)) == (target / "pipelines", (ROOT / "conf" / "jars.toml").stat().st_size)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert (ROOT / "pipelines" / "report" / "assets" / "d3.min.js").read_text(encoding="utf-8")[:2000] in page


def test_the_platforms_wheel_asks_for_no_spark(wheel: Path, tmp_path: Path) -> None:
    """The same files; pip would put another pyspark in front of the platform's."""
    made = platform_wheel(wheel, tmp_path)
    assert made.name == f"kafka_placement-{__version__}-{BUILD}-py3-none-any.whl"
    assert required(made) == required(wheel) - PLATFORM
    assert metadata(made)["Version"] == __version__
    with zipfile.ZipFile(wheel) as plain, zipfile.ZipFile(made) as files:
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
        platform_wheel(made, tmp_path / "again")
