"""The Delta jars on this machine: fetched from Maven Central once, at set-up, by the Ivy that pyspark ships.

`python -m pipelines.setup.jars` fetches what is missing; it opens no connection when every jar of conf/jars.toml is
there with the right sha256. A start of Spark only names the files.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from pipelines.config.conf_files import conf_text
from pipelines.errors import EnvironmentFault, KafkaPlacementError
from pipelines.setup.java import check_java

JARS_VARIABLE = "KAFKA_PLACEMENT_JARS"  # another folder for the jars
IVY_SETTINGS_VARIABLE = "KAFKA_PLACEMENT_IVY_SETTINGS"  # an Ivy settings file, for a mirror of Maven Central
REMEDY = "Run `make setup` (or `python -m pipelines.setup.jars`) with a connection to Maven Central"
FETCH_TIMEOUT_S = 600

# Ivy's own defaults also look into ~/.ivy2 and ~/.m2, where a pom without its jar makes them fail.
_IVY_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir={cache}/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""


@dataclass(frozen=True)
class Jar:
    """One jar of a list like conf/jars.toml."""

    organisation: str
    name: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.name}-{self.version}.jar"

    @property
    def module(self) -> str:
        return f"{self.organisation}:{self.name}:{self.version}"


@dataclass(frozen=True)
class JarFolder:
    """Jars that are used together, the folder they are in, the file that lists them, and how they get there."""

    jars: tuple[Jar, ...]
    folder: Path
    listed_in: str
    remedy: str

    def paths(self) -> list[Path]:
        """The jars as files; an EnvironmentFault where one has not been fetched."""
        paths = [self.folder / jar.file_name for jar in self.jars]
        missing = [path for path in paths if not path.is_file()]
        if missing:
            raise EnvironmentFault(f"{', '.join(map(str, missing))} not found. {self.remedy}")
        return paths

    def ensure(self) -> list[Path]:
        """As `paths`, after what is missing or damaged has been fetched; each appears whole or not at all."""
        wanted = [jar for jar in self.jars if _sha256(self.folder / jar.file_name) != jar.sha256]
        if wanted:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".fetch-", dir=self.folder) as scratch:
                self._fetch(wanted, Path(scratch))
        return self.paths()

    def _fetch(self, jars: list[Jar], scratch: Path) -> None:
        """Nothing; downloads `jars` into `scratch`, checks them, and renames them into the folder."""
        said = _run_ivy(jars, scratch, self.remedy)
        for jar in jars:
            found = _sha256(scratch / "out" / jar.file_name)
            if found is None:
                raise EnvironmentFault(
                    f"{jar.module} could not be fetched from Maven Central. {self.remedy}. Ivy said:\n{said}"
                )
            if found != jar.sha256:
                raise EnvironmentFault(
                    f"{jar.module} as fetched has sha256 {found}, but {self.listed_in} says {jar.sha256}. "
                    f"Nothing was kept: fetch again from a source you trust, or correct {self.listed_in}"
                )
        for jar in jars:
            (scratch / "out" / jar.file_name).replace(self.folder / jar.file_name)


def jars_of(entries: list[dict[str, str]]) -> tuple[Jar, ...]:
    """The jars of a list as conf/jars.toml has it."""
    return tuple(Jar(*_coordinates(entry["module"]), entry["sha256"]) for entry in entries)


def required_jars() -> tuple[Jar, ...]:
    """The jars that conf/jars.toml lists."""
    return jars_of(tomllib.loads(conf_text("jars.toml"))["jar"])


def _coordinates(module: str) -> tuple[str, str, str]:
    """Organisation, name and version of an "organisation:name:version"."""
    organisation, name, version = module.split(":")
    return organisation, name, version


def jars_dir() -> Path:
    """The folder of the jars: $KAFKA_PLACEMENT_JARS, else within the Python installation that runs."""
    named = os.environ.get(JARS_VARIABLE)
    return Path(named) if named else Path(sys.prefix, "share", "kafka-placement", "jars")


def _delta() -> JarFolder:
    return JarFolder(required_jars(), jars_dir(), "conf/jars.toml", REMEDY)


def jar_paths() -> list[Path]:
    """The jars that a Spark session needs; an EnvironmentFault where set-up has not fetched them."""
    return _delta().paths()


def ensure_jars() -> list[Path]:
    """The jars, after those that are missing or damaged have been fetched."""
    try:
        return _delta().ensure()
    except OSError as problem:
        raise EnvironmentFault(
            f"{jars_dir()} cannot be used: {problem}. Name another folder with {JARS_VARIABLE}"
        ) from problem


def _run_ivy(jars: list[Jar], scratch: Path, remedy: str) -> str:
    """What Ivy printed while it fetched `jars` (nothing else: intransitive) into `scratch`/out."""
    import pyspark  # late: only a fetch needs its folder

    module = scratch / "ivy.xml"
    module.write_text(
        '<ivy-module version="2.0"><info organisation="kafka-placement" module="jars"/><dependencies>\n'
        + "".join(
            f"<dependency org={quoteattr(jar.organisation)} name={quoteattr(jar.name)} rev={quoteattr(jar.version)}"
            ' conf="default->master" transitive="false"/>\n'
            for jar in jars
        )
        + "</dependencies></ivy-module>\n",
        encoding="utf-8",
    )
    settings = scratch / "ivysettings.xml"
    settings.write_text(_IVY_SETTINGS.format(cache=quoteattr(str(scratch / "cache"))), encoding="utf-8")
    command = [
        check_java().executable,
        "-Djava.net.useSystemProxies=true",
        "-cp",
        str(Path(pyspark.__file__).parent / "jars" / "*"),
        "org.apache.ivy.Main",
        *("-settings", os.environ.get(IVY_SETTINGS_VARIABLE) or str(settings)),
        *("-cache", str(scratch / "cache")),
        *("-ivy", str(module)),
        *("-retrieve", str(scratch / "out" / "[artifact]-[revision].[ext]")),
        "-warn",
    ]
    try:
        ran = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=FETCH_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as problem:
        raise EnvironmentFault(f"Maven Central did not answer within {FETCH_TIMEOUT_S} s. {remedy}") from problem
    lines = (ran.stdout + ran.stderr).strip().splitlines()
    return "\n".join(lines[-15:])


def _sha256(path: Path) -> str | None:
    """The sha256 of a file in hex, None where there is no such file."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except FileNotFoundError:
        return None


def main() -> int:
    """0 once every jar is in place; else 1, with one message on stderr."""
    try:
        ensure_jars()
    except KafkaPlacementError as fault:
        print(f"kafka-placement: {fault}", file=sys.stderr)
        return fault.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
