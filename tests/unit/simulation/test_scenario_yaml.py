"""The YAML of scenarios: what it reads, and that nothing in it can crash, grow or hide."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.errors import SourceError
from pipelines.simulation.scenario.scenario_file import YamlFault, YamlList, YamlMapping, read_scenario_file, read_yaml

BOMB = "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9) if i else 'x'}]\n" for i in range(9))
FAULTS = [
    (BOMB, "has the anchor or alias 'a0'", 1),
    ("a: 1\nb: !!int abc\n", "has the tag 'tag:yaml.org,2002:int'", 2),
    ("!!python/object/apply:os.system [x]", "has the tag", 1),
    ("<<: 5", "merges mappings with <<", 1),
    ("a: 1\nb: 2\na: 3\n", "has the key 'a' twice", 3),
    ("[1, 2]: 3", "has a list or a mapping as a key", 1),
    ("a:\n\tb: 1\n", "is not YAML: found character", 2),
    ("a: \0", r"has a character that YAML does not allow: '\x00'", 1),
    ("a: 1\nb: \x1b[2J", r"has a character that YAML does not allow: '\x1b'", 2),
    ("[" * 50_000, "is nested more than 20 deep", 1),
    ("- " * 50_000, "is nested more than 20 deep", 1),
    ("a: " + "9" * 5_000, "is too large a number", 1),
    ("a\n---\nb", "has more than one document", None),
    ("a: [1", "is not YAML: expected ',' or ']'", 1),
]


@pytest.mark.parametrize(("text", "problem", "line"), FAULTS, ids=[problem for _, problem, _ in FAULTS])
def test_a_fault_is_short_and_has_its_line(text: str, problem: str, line: int | None) -> None:
    with pytest.raises(YamlFault) as error:
        read_yaml(text)
    said, _, at = error.value.args
    assert problem in said
    assert len(said) < 200
    assert at == line


def test_values_are_those_of_yaml() -> None:
    text = (
        "a: [1, -2, +3, 0.5, 1e3]\nb: [true, FALSE, null, ~, '1', \"x\"]\nc: 2001-13-45\nd: t=0..60 every 500ms x\ne:\n"
    )
    assert read_yaml(text) == {
        "a": [1, -2, 3, 0.5, 1000.0],
        "b": [True, False, None, None, "1", "x"],
        "c": "2001-13-45",
        "d": "t=0..60 every 500ms x",
        "e": None,
    }
    assert read_yaml("") is None
    assert read_yaml("# nothing\n") is None


def test_lists_and_mappings_know_the_lines_of_their_parts() -> None:
    content = read_yaml("a: 1\n\nevents:\n  - x\n  # comment\n  - y\n")
    assert isinstance(content, YamlMapping)
    assert content.lines == {"a": 1, "events": 3}
    assert isinstance(content["events"], YamlList)
    assert content["events"].lines == [4, 6]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"a: \xff\n", "line 1: byte 3 is not UTF-8"),
        (b"#" * 2_000_001, "has more than 2 MB"),
        (b"brokers: [1]\n1: 2\n", "line 2: 1 is not a key of a scenario"),
        (b"x" * 900 + b": 1\n", "xx\\.\\.\\.xx.* is not a key of a scenario"),
        (b"- 1\n", "has no mapping"),
    ],
)
def test_a_file_that_is_no_scenario(tmp_path: Path, content: bytes, problem: str) -> None:
    file = tmp_path / "night.yaml"
    file.write_bytes(content)
    with pytest.raises(SourceError, match=problem) as error:
        read_scenario_file(str(file))
    assert len(str(error.value)) < 500


def test_an_endless_file_is_not_read_to_its_end() -> None:
    with pytest.raises(SourceError, match="has more than 2 MB"):
        read_scenario_file("/dev/zero")
