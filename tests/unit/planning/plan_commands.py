"""`plan` as a person calls it, for tests: small sources, and what was said."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pipelines import cli
from tests.unit.planning import judge


def model_file(folder: Path, **more: Any) -> Path:
    path = folder / "model.json"
    path.write_text(json.dumps(judge.model(3, **more)))
    return path


def described(folder: Path, *lines: str) -> Path:
    source = folder / "describe.txt"
    source.write_text("\n".join(lines) + "\n")
    return source


def line(partition: int, replicas: str, more: str = "") -> str:
    leader = replicas.split(",")[0]
    return f"Topic: t\tPartition: {partition}\tLeader: {leader}\tReplicas: {replicas}\tIsr: {replicas}{more}"


class Said:
    """What a command printed, and its exit code."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> None:
        capsys.readouterr()
        self.code = cli.main([str(argument) for argument in arguments])
        self.out, self.err = capsys.readouterr()


def assert_rejected(
    capsys: pytest.CaptureFixture[str], folder: Path, arguments: Sequence[str], code: int, says: str
) -> None:
    """`plan` of two partitions on brokers 1 to 3 ends with the code, says why, and writes nothing."""
    source = described(folder, line(0, "1,2"), line(1, "2,3"))
    said = Said(capsys, "plan", source, *arguments, "--out", folder / "plan")
    assert said.code == code, said.err
    assert says in said.err, said.err
    assert not (folder / "plan").exists()
