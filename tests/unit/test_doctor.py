"""`doctor`: a machine that has everything, and what is reported as missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.cli import main


def test_a_complete_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--warehouse", str(tmp_path / "new")]) == 0
    output = capsys.readouterr().out
    assert output.endswith("All checks passed.\n")
    assert "a run creates it" in output
    assert list(tmp_path.iterdir()) == []  # the check leaves no file


def test_a_missing_java(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert main(["doctor", "--warehouse", str(tmp_path), "--json", "-"]) == 1
    checks = {check["subject"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert not checks["Java"]["ok"]
    assert "Set JAVA_HOME" in checks["Java"]["remedy"]
    assert checks["warehouse"]["ok"]


def test_missing_jars(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PLACEMENT_JARS", str(tmp_path))
    assert main(["doctor", "--warehouse", str(tmp_path)]) == 1
    output = capsys.readouterr().out
    assert "FAIL  Delta's jars" in output
    assert "make setup" in output


def test_a_warehouse_that_is_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "warehouse"
    file.write_text("")
    assert main(["doctor", "--warehouse", str(file)]) == 1
    assert "is a file, not a folder" in capsys.readouterr().out
