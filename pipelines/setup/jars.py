"""Fetch the Delta jars from Maven Central once, with the Ivy that pyspark ships, and find them on this machine.

If every jar of conf/jars.toml exists with the right sha256, `python -m pipelines.setup.jars` opens no connection.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from pipelines.config.settings import read_conf_file
from pipelines.errors import EnvironmentFault, KafkaPlacementError
from pipelines.setup.java import check_java

JARS_VARIABLE = "KAFKA_PLACEMENT_JARS"  # another folder for the jars
IVY_SETTINGS_VARIABLE = "KAFKA_PLACEMENT_IVY_SETTINGS"  # an Ivy settings file, for a mirror of Maven Central
_REMEDY = "Run `make setup` (or `python -m pipelines.setup.jars`) with a connection to Maven Central"
_TIMEOUT_SECONDS = 600
_JARS_PER_IVY, _IVY_PROCESSES = 16, 3

# Ivy's defaults also search ~/.ivy2 and ~/.m2, where they fail on a pom without its jar.
_IVY_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir={cache}/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""


@dataclass(frozen=True)
class Jar:
    """A jar of a list such as conf/jars.toml, with its Maven coordinates."""

    organisation: str
    name: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        """Name of its file."""
        return f"{self.name}-{self.version}.jar"


@dataclass(frozen=True)
class JarFolder:
    """A folder of jars; messages name the file that lists them, and how to fetch them."""

    jars: tuple[Jar, ...]
    folder: Path
    list_file: str
    remedy: str

    def list_files(self) -> list[Path]:
        """List the files of the jars. Raises: EnvironmentFault if one is missing."""
        files = [self.folder / jar.file_name for jar in self.jars]
        missing = [file for file in files if not file.is_file()]
        if missing:
            raise EnvironmentFault(f"{', '.join(map(str, missing))} not found. {self.remedy}")
        return files

    def fetch_missing(self) -> list[Path]:
        """Fetch jars that are missing or damaged, and list all; each file appears whole or not at all."""
        missing = [jar for jar in self.jars if _hash_file(self.folder / jar.file_name) != jar.sha256]
        if missing:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".fetch-", dir=self.folder) as scratch:
                self._fetch(missing, Path(scratch))
        return self.list_files()

    def _fetch(self, jars: Sequence[Jar], scratch: Path) -> None:
        parts = [jars[begin : begin + _JARS_PER_IVY] for begin in range(0, len(jars), _JARS_PER_IVY)]
        folders = [scratch / str(number) for number in range(len(parts))]
        with ThreadPoolExecutor(_IVY_PROCESSES) as pool:  # Ivy fetches one jar after the other
            output = "\n".join(pool.map(lambda part, folder: _run_ivy(part, folder, self.remedy), parts, folders))
        fetched = {
            jar: folder / "out" / jar.file_name for part, folder in zip(parts, folders, strict=True) for jar in part
        }
        for jar, file in fetched.items():
            sha256 = _hash_file(file)
            module = f"{jar.organisation}:{jar.name}:{jar.version}"
            if sha256 is None:
                problem = f"{module} could not be fetched from Maven Central"
                raise EnvironmentFault(f"{problem}. {self.remedy}. Output of Ivy:", *output.splitlines())
            if sha256 != jar.sha256:
                raise EnvironmentFault(
                    f"{module} as fetched has sha256 {sha256}, but {self.list_file} says {jar.sha256}. "
                    f"Nothing was kept: fetch again from a source you trust, or correct {self.list_file}"
                )
        for jar, file in fetched.items():
            file.replace(self.folder / jar.file_name)


def parse_jars(entries: Sequence[dict[str, str]]) -> tuple[Jar, ...]:
    """Parse the entries of a list such as conf/jars.toml."""
    split = ((entry["module"].split(":"), entry["sha256"]) for entry in entries)
    return tuple(Jar(module[0], module[1], module[2], sha256) for module, sha256 in split)


def read_required_jars() -> tuple[Jar, ...]:
    """Read the jars that conf/jars.toml lists."""
    return parse_jars(tomllib.loads(read_conf_file("jars.toml"))["jar"])


def get_jars_folder() -> Path:
    """Return the folder of the jars: $KAFKA_PLACEMENT_JARS, or one within this Python installation."""
    configured = os.environ.get(JARS_VARIABLE)
    return Path(configured) if configured else Path(sys.prefix, "share", "kafka-placement", "jars")


def list_jar_files() -> list[Path]:
    """List the files of the jars that a Spark session needs. Raises: EnvironmentFault if one is missing."""
    return _get_delta_jars().list_files()


def fetch_jars() -> list[Path]:
    """Fetch the jars that are missing or damaged, and list all. Raises: EnvironmentFault if that fails."""
    try:
        return _get_delta_jars().fetch_missing()
    except OSError as error:
        problem = f"{get_jars_folder()} cannot be used: {error}"
        raise EnvironmentFault(f"{problem}. Name another folder with {JARS_VARIABLE}") from error


def _get_delta_jars() -> JarFolder:
    return JarFolder(read_required_jars(), get_jars_folder(), "conf/jars.toml", _REMEDY)


def _run_ivy(jars: Sequence[Jar], scratch: Path, remedy: str) -> str:
    """Fetch jars, without what they depend on, into the folder `out` of scratch; return Ivy's last lines of output."""
    import pyspark  # here, because only fetching needs its folder

    scratch.mkdir()
    module_file, settings_file = scratch / "ivy.xml", scratch / "ivysettings.xml"
    dependencies = "".join(
        f"<dependency org={quoteattr(jar.organisation)} name={quoteattr(jar.name)} rev={quoteattr(jar.version)}"
        ' conf="default->*" transitive="false"/>\n'
        for jar in jars
    )
    module_file.write_text(
        '<ivy-module version="2.0"><info organisation="kafka-placement" module="jars"/><dependencies>\n'
        f"{dependencies}</dependencies></ivy-module>\n",
        encoding="utf-8",
    )
    settings_file.write_text(_IVY_SETTINGS.format(cache=quoteattr(str(scratch / "cache"))), encoding="utf-8")
    command = [
        *(check_java().executable, "-Djava.net.useSystemProxies=true"),
        *("-cp", str(Path(pyspark.__file__).parent / "jars" / "*"), "org.apache.ivy.Main", "-warn"),
        *("-settings", os.environ.get(IVY_SETTINGS_VARIABLE) or str(settings_file)),
        *("-cache", str(scratch / "cache"), "-ivy", str(module_file)),
        *("-retrieve", str(scratch / "out" / "[artifact]-[revision].[ext]")),
    ]
    try:
        options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "check": False}
        process = subprocess.run(command, errors="replace", timeout=_TIMEOUT_SECONDS, **options)
    except subprocess.TimeoutExpired as error:
        problem = f"Maven Central did not answer within {_TIMEOUT_SECONDS} s"
        raise EnvironmentFault(f"{problem}. {remedy}") from error
    return "\n".join((process.stdout + process.stderr).strip().splitlines()[-15:])


def _hash_file(file: Path) -> str | None:
    """Return the sha256 of a file in hex; None if there is no such file."""
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except FileNotFoundError:
        return None


if __name__ == "__main__":
    try:
        fetch_jars()
    except KafkaPlacementError as error:
        print(f"kafka-placement: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
