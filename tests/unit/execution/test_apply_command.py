"""The texts of `apply` that need no cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.cli.apply_command import EXIT_INTERRUPTED
from pipelines.execution.plan_application import PlanApplication
from tests.commands import call
from tests.unit.execution.test_execution_history import DESCRIBE


def test_interrupted_command_says_that_throttles_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They stay until the command is repeated, not only until the reassignments are done."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(PlanApplication, "execute", interrupt)
    (tmp_path / "prod.txt").write_text(DESCRIBE)
    call("plan", "prod.txt", "--goal", "leaders", "--out", "plan", folder=tmp_path)
    arguments = ("apply", "plan", "--bootstrap-server", "127.0.0.1:1", "--execute")
    text = call(*arguments, code=EXIT_INTERRUPTED, folder=tmp_path).stdout
    assert "throttles stay set after them" in text
    assert "Repeat the command to continue and to remove the throttles" in text


def test_tables_are_only_written_if_named() -> None:
    text = " ".join(call("apply", "--help").stdout.split())
    assert "--warehouse DIR Also write the journal to the tables in this folder. [default: (not written)]" in text
