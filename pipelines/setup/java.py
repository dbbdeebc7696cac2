"""Which Java this machine would run Spark with, and whether Spark can run on it.

Standard library only, and the syntax of any python3: `make` runs this file by itself, before the virtual
environment exists and before anything is downloaded. JAVA_HOME wins over PATH, as it does in Spark.
"""

import os
import re
import shutil
import subprocess
import sys
from typing import Mapping, NamedTuple, Optional

try:
    if __package__ != "pipelines.setup":  # run as a file, or imported from elsewhere: there is no package
        raise ImportError("not imported as a part of the package")
    from pipelines.errors import EnvironmentFault
except ImportError:

    class EnvironmentFault(Exception):  # type: ignore[no-redef]
        """What pipelines.errors calls by the same name."""


SUPPORTED = (17, 21)  # what Spark 4.1 is tested with; it starts on no older one and fails on some newer ones
REMEDY = (
    "Install a Java 17 or 21 JDK (Debian, Ubuntu: apt-get install openjdk-17-jdk-headless; "
    "Fedora: dnf install java-21-openjdk-devel; macOS: brew install openjdk@17) "
    "and put its `java` on PATH, or set JAVA_HOME to its folder"
)


class JavaInfo(NamedTuple):
    """A Java that Spark runs on: its path, major version, and the line it prints about itself."""

    executable: str
    major: int
    version: str


def parse_major(printed: str) -> Optional[int]:
    """The major version that `java -version` printed (8 for "1.8.0_452"), None where there is none."""
    found = re.search(r'^\S+ version "([^"]+)"', printed, flags=re.MULTILINE)
    if found is None:
        return None
    numbers = re.match(r"(\d+)(?:\.(\d+))?", found.group(1))
    if numbers is None:
        return None
    major = int(numbers.group(1))
    return int(numbers.group(2)) if major == 1 and numbers.group(2) else major


def java_executable(environ: Mapping[str, str]) -> str:
    """The path of the `java` that Spark will start; an EnvironmentFault where there is none."""
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
    """The Java that Spark will run on; an EnvironmentFault that says what to install where it will not."""
    environ = os.environ if environ is None else environ
    executable = java_executable(environ)
    try:
        ran = subprocess.run(
            [executable, "-version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,  # `-version` prints to stderr
            env=dict(environ),
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise EnvironmentFault("{} could not be run: {}. {}".format(executable, problem, REMEDY)) from problem
    printed = ran.stdout.decode("utf-8", "replace")
    major = parse_major(printed)
    if ran.returncode != 0 or major is None:
        # macOS has a /usr/bin/java that only says that there is no Java.
        said = " ".join(printed.split())[:300] or "nothing"
        raise EnvironmentFault("{} -version said: {}. {}".format(executable, said, REMEDY))
    if major not in SUPPORTED:
        came_from = "JAVA_HOME" if environ.get("JAVA_HOME") else "PATH"
        raise EnvironmentFault(
            "{} (from {}) is Java {}; Spark 4.1 needs Java 17 or 21. {}".format(executable, came_from, major, REMEDY)
        )
    version = next(line for line in printed.splitlines() if ' version "' in line)
    return JavaInfo(executable, major, version)


def main() -> int:
    """0 where Spark can run; else 1, with one message on stderr."""
    try:
        check_java()
    except EnvironmentFault as fault:
        sys.stderr.write("kafka-placement: {}.\n".format(fault))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
