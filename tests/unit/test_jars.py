"""Jars are fetched once, and checked; each appears whole or not at all. A folder stands for Maven Central."""

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
REQUIRED = Jar("org.example", "first", "1.0", hashlib.sha256(CONTENT).hexdigest())
POM = """<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId><artifactId>first</artifactId>
<version>1.0</version><dependencies><dependency><groupId>org.example</groupId><artifactId>absent</artifactId>
<version>9</version></dependency></dependencies></project>"""
SETTINGS = """<ivysettings><settings defaultResolver="folder"/><resolvers>
<ibiblio name="folder" m2compatible="true" root="{root}"/></resolvers></ivysettings>"""


@pytest.fixture
def central(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of REQUIRED in a repository that stands for Maven Central; REQUIRED is the only jar that is needed."""
    module = tmp_path / "repository" / "org" / "example" / "first" / "1.0"
    module.mkdir(parents=True)
    (module / "first-1.0.pom").write_text(POM)
    (module / "first-1.0.jar").write_bytes(CONTENT)
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(SETTINGS.format(root=(tmp_path / "repository").as_uri() + "/"))
    monkeypatch.setenv(jars.IVY_SETTINGS_VARIABLE, str(settings))
    monkeypatch.setenv(jars.JARS_VARIABLE, str(tmp_path / "jars"))
    monkeypatch.setattr(jars, "read_required_jars", lambda: (REQUIRED,))
    return module


def read_folder() -> dict[str, bytes]:
    """Content of the files in the folder of the jars, hidden ones too."""
    return {path.name: path.read_bytes() for path in jars.get_jars_folder().iterdir()}


def test_jars_are_fetched_once(central: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert jars.fetch_jars() == [jars.get_jars_folder() / "first-1.0.jar"]
    assert read_folder() == {"first-1.0.jar": CONTENT}
    monkeypatch.setattr(jars, "_run_ivy", reject_call)
    assert jars.fetch_jars() == jars.list_jar_files()


def reject_call(*_: object) -> str:
    raise AssertionError("a connection was opened")


def test_a_damaged_jar_is_fetched_again(central: Path) -> None:
    jars.fetch_jars()
    (jars.get_jars_folder() / "first-1.0.jar").write_bytes(CONTENT[:2])
    jars.fetch_jars()
    assert read_folder() == {"first-1.0.jar": CONTENT}


def test_a_jar_with_another_content_is_rejected(central: Path) -> None:
    (central / "first-1.0.jar").write_bytes(b"not that jar")
    with pytest.raises(
        EnvironmentFault, match=f"org.example:first:1.0 as fetched has sha256 .* says {REQUIRED.sha256}"
    ):
        jars.fetch_jars()
    assert read_folder() == {}


@pytest.mark.parametrize("lose", [lambda m: (m / "first-1.0.jar").unlink(), lambda m: m.rename(m.parent / "2.0")])
def test_a_jar_that_the_repository_lacks_is_named(central: Path, lose: Callable[[Path], object]) -> None:
    lose(central)
    with pytest.raises(
        EnvironmentFault, match=r"could not be fetched from Maven Central. Run `make setup`.*Output of Ivy"
    ):
        jars.fetch_jars()
    assert read_folder() == {}


def test_messages_name_the_list_and_the_remedy_of_a_folder(central: Path, tmp_path: Path) -> None:
    other = jars.JarFolder((REQUIRED,), tmp_path / "other", "other.toml", "Run other")
    with pytest.raises(EnvironmentFault, match=r"other/first-1.0.jar not found. Run other$"):
        other.list_files()
    assert other.fetch_missing() == [tmp_path / "other" / "first-1.0.jar"]
    (central / "first-1.0.jar").unlink()
    other.list_files()[0].unlink()
    with pytest.raises(EnvironmentFault, match=r"could not be fetched from Maven Central. Run other. Output of Ivy"):
        other.fetch_missing()


def test_only_maven_central_is_used() -> None:
    """A local Maven or Ivy repository may have a pom without its jar."""
    assert re.findall(r'<(\w+) name="(\w+)"', jars._IVY_SETTINGS) == [("ibiblio", "central")]


def test_a_missing_jar_is_named_with_the_command_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(jars.JARS_VARIABLE, str(tmp_path))
    with pytest.raises(EnvironmentFault, match=rf"{tmp_path}/delta-spark.* not found. Run `make setup`"):
        jars.list_jar_files()


def test_a_folder_that_cannot_be_written_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(jars.JARS_VARIABLE, str(tmp_path / "file" / "jars"))
    with pytest.raises(EnvironmentFault, match=jars.JARS_VARIABLE):
        jars.fetch_jars()


def test_required_jars_match_the_installed_delta_and_spark() -> None:
    required = jars.read_required_jars()
    of_delta = [jar for jar in required if jar.name.startswith("delta-")]
    assert [jar.version for jar in of_delta] == [version("delta-spark")] * 2
    assert all(re.fullmatch("[0-9a-f]{64}", jar.sha256) for jar in required)
    spark = ".".join(version("pyspark").split(".")[:2])
    assert required[0].name == f"delta-spark_{spark}_2.13"
