"""The tree uses the words of docs/glossary.md, in names and texts; `python -m tests.contracts.language` lists hits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.contracts import language
from tests.contracts.language import check_text, find_hits, find_public_hits, is_banned, list_files
from udfs.planning.goal_registry import GOALS


def test_no_file_has_a_banned_word() -> None:
    assert [str(hit) for hit in find_hits(list_files())] == []


def test_no_table_column_view_setting_or_option_has_a_banned_word() -> None:
    assert find_public_hits() == []


@pytest.mark.parametrize(
    "name", ["told", "deaths", "heir_of", "_Wishes", "LiquidShare", "can_i_lose", "kill_run", "of"]
)
def test_banned_identifiers(name: str) -> None:
    assert is_banned(name)


@pytest.mark.parametrize("name", ["found_rows", "deadline", "DEAD", "skill", "offset", "is_alive", "studies", "killpg"])
def test_other_identifiers(name: str) -> None:
    assert not is_banned(name)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The death of a broker.\nWho dies?", [(1, "death"), (2, "dies")]),
        ("producers are refused", [(1, "refused")]),
        ("Kill a broker", [(1, "Kill")]),
        ("runs that are killed; the process was killed", []),
        ("the group is `Dead`; data_samples/captures/kafka-4.1.1-two-dead", []),
        ("--as-of 2026-01-01, --above 3", [(1, "--above")]),
        ("failures.lists and ask.changed", [(1, "failures.lists"), (1, "ask.changed")]),
    ],
)
def test_banned_texts(text: str, words: list[tuple[int, str]]) -> None:
    assert [(hit.line, hit.word) for hit in check_text("file", 1, text)] == words


def test_code_of_others_is_exempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language, "ROOT", tmp_path)
    file = tmp_path / "udfs" / "answers.py"
    file.parent.mkdir()
    file.write_text(
        '"""Answers."""\n\nfailed: int = 1  # a dead broker\nprocess.kill()\ntext = f"{failed}"\nheld = 1\n'
    )
    hits = [(hit.line, hit.kind, hit.word) for hit in find_hits([file])]
    assert hits == [(1, "module", "answers"), (3, "text", "dead"), (6, "identifier", "held")]


def test_glossary_names_every_goal() -> None:
    (goals,) = re.findall(
        r"^\| goal \| what a plan is for: (.+) \|$",
        (Path(__file__).parents[2] / "docs" / "glossary.md").read_text(),
        re.M,
    )
    assert set(goals.split(", ")) == set(GOALS)
