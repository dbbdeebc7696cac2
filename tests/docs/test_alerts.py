"""The example of docs/alerts.md, from the first run to the quiet one, in a folder and a warehouse of its own."""

from __future__ import annotations

import doctest
import subprocess
from contextlib import chdir, redirect_stderr, redirect_stdout
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import pytest

from pipelines.cli import main
from tests.commands import FINDINGS_ONLY, in_sail
from tests.docs.pages import ROOT, Command, blocks, commands

PAGE = ROOT / "docs" / "alerts.md"
END = "2026-12-31"  # of the acknowledgement, on the page

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def run(command: Command) -> str:
    """Run a command, and return all that a terminal shows."""
    text, is_followed, _ = command.text.partition("; echo $?")
    if not text.startswith("kafka-placement "):
        return subprocess.run(text, shell=True, capture_output=True, text=True, check=True).stdout
    words = Command(text).words
    assert is_followed
    code, printed = in_sail(run_command, [*words[1:], *FINDINGS_ONLY], Path.cwd())
    return f"{printed}{code}\n"


def run_command(arguments: list[str], folder: Path) -> tuple[int, str]:
    """Run a command in a folder; return its exit code, and what it prints."""
    with StringIO() as out, redirect_stdout(out), redirect_stderr(out), chdir(folder):
        return main(arguments), out.getvalue()


def test_the_example_from_the_first_alert_to_the_quiet_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    begin = PAGE.read_text().split("\n## Example\n")[0].count("\n")
    end = (datetime.now(UTC) + timedelta(days=1)).date().isoformat()  # the page's end may have passed
    found = [block for block in blocks(PAGE) if block.line > begin]
    assert [block.language for block in found] == ["text", "toml", "console", "toml", "console"]
    assert sum(END in block.text for block in found) == 2
    files = {"text": "prod.txt", "toml": "alerts.toml"}
    for block in found:
        text = block.text.replace(END, end)
        if block.language in files:
            with Path(files[block.language]).open("a") as file:
                file.write(text)
            continue
        for command in commands(block):
            printed = run(command)
            expected = (command.expected or "").replace(END, end)
            same = doctest.OutputChecker().check_output(expected, printed, doctest.ELLIPSIS)
            assert same, f"{command.text}: the page says\n{expected}and it prints\n{printed}"
