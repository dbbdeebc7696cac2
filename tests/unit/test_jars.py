"""The jars at set-up: fetched once, checked, whole or not at all. A folder stands for Maven Central."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from pipelines.errors import EnvironmentFault
from pipelines.setup import jars
from pipelines.setup.jars import Jar

pytestmark = pytest.mark.slow

CONTENT = b"a jar"
WANTED = Jar("org.example", "first", "1.0", hashlib.sha256(CONTENT).hexdigest())
POM = """<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId><artifactId>first</artifactId>
<version>1.0</version><dependencies><dependency><groupId>org.example</groupId><artifactId>absent</artifactId>
<version>9</version></dependency></dependencies></project>"""
SETTINGS = """<ivysettings><settings defaultResolver="folder"/><resolvers>
<ibiblio name="folder" m2compatible="true" root="{root}"/></resolvers></ivysettings>"""


@pytest.fixture
def central(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of `WANTED` in a repository that stands for Maven Central; `WANTED` is all that the program needs."""
    module = tmp_path / "repository" / "org" / "example" / "first" / "1.0"
    module.mkdir(parents=True)
    (module / "first-1.0.pom").write_text(POM)
    (module / "first-1.0.jar").write_bytes(CONTENT)
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(SETTINGS.format(root=(tmp_path / "repository").as_uri() + "/"))
    monkeypatch.setenv(jars.IVY_SETTINGS_VARIABLE, str(settings))
    monkeypatch.setenv(jars.JARS_VARIABLE, str(tmp_path / "jars"))
    monkeypatch.setattr(jars, "required_jars", lambda: (WANTED,))
    return module


def in_folder() -> dict[str, bytes]:
    """What is in the folder of the jars, hidden files too."""
    return {path.name: path.read_bytes() for path in jars.jars_dir().iterdir()}


def test_fetched_once(central: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert jars.ensure_jars() == [jars.jars_dir() / "first-1.0.jar"]
    assert in_folder() == {"first-1.0.jar": CONTENT}
    monkeypatch.setattr(jars, "_run_ivy", reject)
    assert jars.ensure_jars() == jars.jar_paths()


def reject(*_: object) -> str:
    """Nothing: there was no reason to call it."""
    raise AssertionError("a connection was opened")


def test_a_damaged_jar_is_fetched_again(central: Path) -> None:
    jars.ensure_jars()
    (jars.jars_dir() / "first-1.0.jar").write_bytes(CONTENT[:2])
    jars.ensure_jars()
    assert in_folder() == {"first-1.0.jar": CONTENT}


def test_another_content_is_rejected(central: Path) -> None:
    (central / "first-1.0.jar").write_bytes(b"not that jar")
    with pytest.raises(EnvironmentFault, match=f"org.example:first:1.0 as fetched has sha256 .* says {WANTED.sha256}"):
        jars.ensure_jars()
    assert in_folder() == {}


@pytest.mark.parametrize("lose", [lambda m: (m / "first-1.0.jar").unlink(), lambda m: m.rename(m.parent / "2.0")])
def test_a_repository_without_it(central: Path, lose: Callable[[Path], object]) -> None:
    lose(central)
    with pytest.raises(EnvironmentFault, match=r"could not be fetched from Maven Central. Run `make setup`.*Ivy said"):
        jars.ensure_jars()
    assert in_folder() == {}


def test_a_list_of_its_own_names_itself(central: Path, tmp_path: Path) -> None:
    mine = jars.JarFolder((WANTED,), tmp_path / "mine", "mine.toml", "Run mine")
    with pytest.raises(EnvironmentFault, match=r"mine/first-1.0.jar not found. Run mine$"):
        mine.paths()
    assert mine.ensure() == [tmp_path / "mine" / "first-1.0.jar"]
    (central / "first-1.0.jar").unlink()
    mine.paths()[0].unlink()
    with pytest.raises(EnvironmentFault, match=r"could not be fetched from Maven Central. Run mine. Ivy said"):
        mine.ensure()


def test_only_maven_central_is_asked() -> None:
    """A local Maven or Ivy repository that has a pom without its jar must not be looked at."""
    assert re.findall(r'<(\w+) name="(\w+)"', jars._IVY_SETTINGS) == [("ibiblio", "central")]


def test_missing_jars_say_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(jars.JARS_VARIABLE, str(tmp_path))
    with pytest.raises(EnvironmentFault, match=rf"{tmp_path}/delta-spark.* not found. Run `make setup`"):
        jars.jar_paths()


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(jars.JARS_VARIABLE, str(tmp_path / "file" / "jars"))
    with pytest.raises(EnvironmentFault, match=jars.JARS_VARIABLE):
        jars.ensure_jars()


def test_the_list_is_of_the_installed_delta() -> None:
    required = jars.required_jars()
    of_delta = [jar for jar in required if jar.name.startswith("delta-")]
    assert [jar.version for jar in of_delta] == [version("delta-spark")] * 2
    assert all(re.fullmatch("[0-9a-f]{64}", jar.sha256) for jar in required)
    spark = ".".join(version("pyspark").split(".")[:2])
    assert required[0].name == f"delta-spark_{spark}_2.13"
