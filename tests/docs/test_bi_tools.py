"""The Python steps of docs/bi-tools.md run over the tables of a run."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks
from tests.shared_runs import SmallRun

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.mark.usefixtures("spark_application")
def test_steps_in_python(small_run: SmallRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "warehouse").symlink_to(small_run.warehouse)
    steps = blocks(ROOT / "docs" / "bi-tools.md", "python")
    assert len(steps) == 2
    with chdir(tmp_path):
        for step in steps:
            exec(compile(step.text, step.name, "exec"), {})
            assert "prod.eu" in capsys.readouterr().out
