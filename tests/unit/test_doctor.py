"""What `doctor` finds on a machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.cli import main


def test_all_is_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--warehouse", str(tmp_path / "new")]) == 0
    said = capsys.readouterr().out
    assert said.endswith("Everything is there.\n")
    assert "a run makes it" in said
    assert list(tmp_path.iterdir()) == []  # nothing is left of the trial


def test_no_java(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert main(["doctor", "--warehouse", str(tmp_path), "--json", "-"]) == 1
    found = {one["what"]: one for one in json.loads(capsys.readouterr().out)["findings"]}
    assert not found["Java"]["fine"]
    assert "Set JAVA_HOME" in found["Java"]["remedy"]
    assert found["warehouse"]["fine"]


def test_jars_that_are_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_PLACEMENT_JARS", str(tmp_path))
    assert main(["doctor", "--warehouse", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "FAIL  Delta's jars" in said
    assert "make setup" in said


def test_a_warehouse_that_is_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "warehouse"
    file.write_text("")
    assert main(["doctor", "--warehouse", str(file)]) == 1
    assert "is a file, not a folder" in capsys.readouterr().out
