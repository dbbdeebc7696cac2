"""`plan` as a person calls it, for tests: small sources, and what was result."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pipelines import cli
from tests.unit.planning import judge


def write_model(folder: Path, **more: Any) -> Path:
    path = folder / "model.json"
    path.write_text(json.dumps(judge.model(3, **more)))
    return path


def write_describe(folder: Path, *lines: str) -> Path:
    source = folder / "describe.txt"
    source.write_text("\n".join(lines) + "\n")
    return source


def describe_line(partition: int, replicas: str, more: str = "") -> str:
    leader = replicas.split(",")[0]
    return f"Topic: t\tPartition: {partition}\tLeader: {leader}\tReplicas: {replicas}\tIsr: {replicas}{more}"


class CommandResult:
    """Exit code and output of a command."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> None:
        capsys.readouterr()
        self.code = cli.main([str(argument) for argument in arguments])
        self.out, self.err = capsys.readouterr()


def assert_rejected(
    capsys: pytest.CaptureFixture[str], folder: Path, arguments: Sequence[str], code: int, text: str
) -> None:
    """Assert that `plan` of two partitions on brokers 1 to 3 exits with the code, prints why, and writes nothing."""
    source = write_describe(folder, describe_line(0, "1,2"), describe_line(1, "2,3"))
    result = CommandResult(capsys, "plan", source, *arguments, "--out", folder / "plan")
    assert result.code == code, result.err
    assert text in result.err, result.err
    assert not (folder / "plan").exists()
