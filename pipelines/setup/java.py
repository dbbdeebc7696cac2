"""Find the Java that Spark would run with, and check that Spark supports it.

This file needs only the standard library and the syntax of any python3: `make` runs it alone, before the virtual
environment exists. JAVA_HOME wins over PATH, as in Spark.
"""

import os
import re
import shutil
import subprocess
import sys
from typing import Mapping, NamedTuple, Optional

try:
    if __package__ != "pipelines.setup":  # run as a file, or imported from elsewhere
        raise ImportError("not imported as a part of the package")
    from pipelines.errors import EnvironmentFault
except ImportError:
    EnvironmentFault = RuntimeError  # type: ignore[misc,assignment]

_SUPPORTED = (17, 21)  # tested by Spark 4.1, which starts on no older version and fails on some newer ones
REMEDY = (
    "Install a Java 17 or 21 JDK (Debian, Ubuntu: apt-get install openjdk-17-jdk-headless; "
    "Fedora: dnf install java-21-openjdk-devel; macOS: brew install openjdk@17) "
    "and put its `java` on PATH, or set JAVA_HOME to its folder"
)


class JavaInfo(NamedTuple):
    """A Java that Spark runs on: its path, major version, and the version line that it prints."""

    executable: str
    major: int
    version: str


def parse_major(output: str) -> Optional[int]:
    """Parse the major version from the output of `java -version` (8 for "1.8.0_452"); None if it has none."""
    match = re.search(r'^\S+ version "(\d+)(?:\.(\d+))?', output, flags=re.MULTILINE)
    if match is None:
        return None
    major, minor = match.groups()
    return int(minor) if major == "1" and minor else int(major)


def find_java(environ: Mapping[str, str]) -> str:
    """Find the `java` that Spark starts. Raises: EnvironmentFault if there is none."""
    home = environ.get("JAVA_HOME", "")
    if home:
        executable = os.path.join(home, "bin", "java")
        if not os.access(executable, os.X_OK):
            raise EnvironmentFault(
                "JAVA_HOME is {}, and there is no {}. Set JAVA_HOME to the folder of a Java 17 or 21 JDK, "
                "or unset it to use the `java` on PATH".format(home, executable)
            )
        return executable
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if on_path is None:
        raise EnvironmentFault("Java was not found: no `java` on PATH, and JAVA_HOME is not set. {}".format(REMEDY))
    return on_path


def check_java(environ: Optional[Mapping[str, str]] = None) -> JavaInfo:
    """Find the Java that Spark starts. Raises: EnvironmentFault if there is none, or Spark does not support it."""
    environ = os.environ if environ is None else environ
    executable = find_java(environ)
    try:
        process = subprocess.run(
            [executable, "-version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,  # `-version` prints to stderr
            env=dict(environ),
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentFault("{} could not be run: {}. {}".format(executable, error, REMEDY)) from error
    output = process.stdout.decode("utf-8", "replace")
    major = parse_major(output)
    if process.returncode != 0 or major is None:
        # macOS has a /usr/bin/java that only prints that there is no Java.
        text = " ".join(output.split())[:300] or "nothing"
        raise EnvironmentFault("{} -version printed: {}. {}".format(executable, text, REMEDY))
    if major not in _SUPPORTED:
        origin = "JAVA_HOME" if environ.get("JAVA_HOME") else "PATH"
        raise EnvironmentFault(
            "{} (from {}) is Java {}; Spark 4.1 needs Java 17 or 21. {}".format(executable, origin, major, REMEDY)
        )
    version = next(line for line in output.splitlines() if ' version "' in line)
    return JavaInfo(executable, major, version)


if __name__ == "__main__":
    try:
        check_java()
    except EnvironmentFault as error:
        sys.stderr.write("kafka-placement: {}.\n".format(error))
        sys.exit(1)
