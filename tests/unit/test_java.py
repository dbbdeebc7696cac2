"""Which Java is accepted; the check also runs alone, on any python3."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.errors import EnvironmentFault
from pipelines.setup import java

OPENJDK_17 = 'openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment (build 17.0.15+6)\n'
OUTPUTS = {
    'java version "1.8.0_452"\nJava(TM) SE Runtime Environment\n': 8,
    'openjdk version "11.0.27" 2025-04-15 LTS\n': 11,
    OPENJDK_17: 17,
    'openjdk version "21-ea" 2023-09-19\n': 21,
    'openjdk version "21" 2023-09-19\n': 21,
    'openjdk version "25" 2025-09-16\n': 25,
    'openjdk version "25.0.1-beta" 2025-10-21\n': 25,
    "Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nPicked up _JAVA_OPTIONS: -Dx=1\r\n" + OPENJDK_17: 17,
    "The operation couldn't be completed. Unable to locate a Java Runtime.\n": None,
    "": None,
}


@pytest.mark.parametrize(("output", "major"), OUTPUTS.items())
def test_parse_major(output: str, major: int | None) -> None:
    assert java.parse_major(output) == major


def make_java(folder: Path, output: str, exit_code: int = 0) -> Path:
    """Make a JAVA_HOME with a `java` that prints `output` on stderr."""
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{output}END\nexit {exit_code}\n")
    executable.chmod(0o755)
    return folder


def test_java_home_wins_over_path(tmp_path: Path) -> None:
    home = make_java(tmp_path / "home", OPENJDK_17)
    other = make_java(tmp_path / "other", 'openjdk version "25"\n')
    path = f"{other / 'bin'}:/usr/bin:/bin"
    found = java.check_java({"JAVA_HOME": str(home), "PATH": path})
    assert (found.executable, found.major) == (str(home / "bin" / "java"), 17)
    with pytest.raises(EnvironmentFault, match=r"is Java 25; Spark 4\.1 needs Java 17 or 21"):
        java.check_java({"PATH": path})
    with pytest.raises(EnvironmentFault, match=r"from PATH.*Install a Java 17 or 21 JDK.*JAVA_HOME"):
        java.check_java({"JAVA_HOME": "", "PATH": path})


@pytest.mark.parametrize("version", ["1.8.0_452", "11.0.27", "25"])
def test_an_unsupported_java_is_named(tmp_path: Path, version: str) -> None:
    home = make_java(tmp_path, f'openjdk version "{version}"\n')
    with pytest.raises(EnvironmentFault, match=rf"{home}/bin/java \(from JAVA_HOME\) is Java (8|11|25);"):
        java.check_java({"JAVA_HOME": str(home), "PATH": "/usr/bin:/bin"})


def test_a_missing_java_is_explained(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match=r"not found.*apt-get install openjdk-17"):
        java.check_java({"PATH": str(tmp_path)})
    with pytest.raises(EnvironmentFault, match=rf"JAVA_HOME is {tmp_path}, and there is no"):
        java.check_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})


def test_a_java_without_a_version_is_explained(tmp_path: Path) -> None:
    home = make_java(tmp_path, "Unable to locate a Java Runtime.\n", exit_code=1)
    with pytest.raises(EnvironmentFault, match=r"printed: Unable to locate a Java Runtime\.. Install"):
        java.check_java({"JAVA_HOME": str(home), "PATH": "/usr/bin:/bin"})


@pytest.mark.parametrize(("output", "exit_code"), [(OPENJDK_17, 0), ('openjdk version "25"\n', 1)])
def test_it_runs_as_a_file_without_the_package(tmp_path: Path, output: str, exit_code: int) -> None:
    home = make_java(tmp_path / "java", output)
    alone = tmp_path / "elsewhere" / "java.py"
    alone.parent.mkdir()
    alone.write_bytes(Path(java.__file__).read_bytes())
    done = subprocess.run(
        [sys.executable, "-S", "-E", str(alone)],
        env={"JAVA_HOME": str(home), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (exit_code, "")
    assert ("Install a Java 17 or 21 JDK" in done.stderr) == bool(exit_code)
    assert "Traceback" not in done.stderr
