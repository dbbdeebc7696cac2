"""No command replaces a file that it reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines import cli

LISTING = "Topic: t\tPartitionCount: 1\n\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\n"


@pytest.mark.parametrize(
    "words",
    [
        ["what-if", "{file}", "--json", "{file}"],
        ["inspect", "prod={file}", "--json={folder}/../s/a.txt"],
        ["inspect", "{folder}", "--json", "{file}"],
        ["assign", "{file}", "--out", "{file}", "--output-format", "commands"],
        ["run", "{file}", "--report", "{file}"],
    ],
    ids=lambda words: words[0],
)
def test_a_source_is_not_overwritten(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "s" / "a.txt"
    file.parent.mkdir()
    file.write_text(LISTING)
    assert cli.main([word.format(file=file, folder=file.parent) for word in words]) == 1
    assert "the command reads this file: name another one" in capsys.readouterr().err
    assert file.read_text() == LISTING


def test_other_files_are_overwritten(tmp_path: Path) -> None:
    file, other = tmp_path / "a.txt", tmp_path / "answer.json"
    file.write_text(LISTING)
    other.write_text("old")
    assert cli.main(["inspect", str(file), "--json", str(other)]) == 0
    assert other.read_text().startswith("{")
