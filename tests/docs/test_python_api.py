"""The examples of docs/python-api.md run as they are printed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks


@pytest.mark.slow
def test_the_examples_run(tmp_path: Path) -> None:
    code = "\n".join(block.text for block in blocks(ROOT / "docs" / "python-api.md", "python"))
    (tmp_path / "data_samples").symlink_to(ROOT / "data_samples")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "my-plan" / "plan.json").is_file()
    first, verdict, *_ = done.stdout.splitlines()
    assert (first.isdecimal(), verdict.split()[0] in ("at_risk", "warning", "unknown", "ok")) == (True, True)
