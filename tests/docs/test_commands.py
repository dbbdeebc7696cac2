"""Every command of the pages and of `--help` runs as it is printed, and prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipelines.cli.app import EXAMPLES, app
from tests.docs.machine import Machine
from tests.docs.pages import LANGUAGES, PAGES, ROOT, Block, Command, blocks, commands, in_tables, needs_cluster

README, COMMANDS = ROOT / "README.md", ROOT / "docs" / "commands.md"
# Their commands need what else the page has: test_extending.py and test_alerts.py run them.
WITH_OWN_TEST = ("extending.md", "alerts.md")
BLOCKS = [
    block
    for page in PAGES
    if page.name not in WITH_OWN_TEST
    for block in blocks(page, "sh", "console")
    if not needs_cluster(block.text)
]
NAMES = {one.name or one.callback.__name__.replace("_", "-") for one in app.registered_commands if one.callback}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_fences_say_what_they_hold(page: Path) -> None:
    assert page.read_text().count("\n```") == 2 * len(blocks(page)), "a fence is left open"
    for block in blocks(page):
        assert block.language in LANGUAGES, block.name
        if block.language in ("text", ""):
            stray = [
                line for line in block.text.splitlines() if re.match(r"\$ |kafka-placement |make |spark-submit ", line)
            ]
            assert not stray, f"{block.name}: commands stand in sh or console blocks: {stray}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_that_are_named_exist(page: Path) -> None:
    named = set(re.findall(r"`kafka-placement ([a-z][a-z-]*)", page.read_text()))
    assert named <= NAMES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_targets_that_are_named_exist(page: Path) -> None:
    named = set(re.findall(r"`make ([a-z][a-z-]*)", page.read_text()))
    assert named <= set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.M))


def test_the_readme_begins_with_its_two_commands() -> None:
    start = README.read_text().split("## Start\n")[1].split("\n## ")[0]
    (block,) = re.findall(r"^```sh\n(.*?)^```", start, flags=re.M | re.S)
    assert [line.split("#")[0].strip() for line in block.splitlines()] == ["make run", "make test"]


@pytest.mark.e2e
@pytest.mark.slow
def test_what_make_run_prints(first_run: str) -> None:
    (block,) = [one for one in blocks(COMMANDS, "text") if "Leaders now" in one.text]
    findings, _ = block.text.split("\n\n", 1)
    printed = re.sub(r"\S*(?=data_samples/)", "", first_run)  # paths are absolute
    assert findings in printed
    (excerpt,) = blocks(README, "text")
    assert set(excerpt.text.splitlines()) <= set(printed.splitlines())
    rows = [line.split() for line in block.text.splitlines() if line.startswith("kafka-")]
    lines = [line.split() for line in first_run.splitlines()]
    assert len(rows) == 2 + 8  # a verdict for each cluster, and each cluster under each scheme
    for row in rows:
        assert row in lines


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_a_block_of_commands(machine: Machine, block: Block) -> None:
    found = list(commands(block))
    assert found
    for command in found:
        machine.run(command)


@pytest.mark.e2e
@pytest.mark.slow
def test_commands_in_tables(machine: Machine) -> None:
    found = in_tables(COMMANDS)
    assert {command.words[1] for command in found} > {"what-if", "run", "query", "plan"}
    for command in found:
        machine.run(command)


@pytest.mark.spark
def test_the_readmes_python(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = blocks(README, "python")
    exec(compile(block.text, block.name, "exec"), {})
    assert "|  5|[2, 1, 3]|" in capsys.readouterr().out


def test_the_readme_is_short() -> None:
    assert len(README.read_bytes()) <= 9000


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.parametrize(  # mcp serves streams: test_mcp_server.py
    "name", [name for name in EXAMPLES if name != "mcp" and not needs_cluster(EXAMPLES[name][0])]
)
def test_examples_of_help(machine: Machine, name: str) -> None:
    for text in EXAMPLES[name]:
        machine.run(Command(text))


def test_every_command_has_examples() -> None:
    assert set(EXAMPLES) == NAMES
