"""docs/extending.md works: its code is run as it stands there, registered, and the commands take it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipelines import runner
from pipelines.ingest.snapshot_reader import FORMATS
from pipelines.runner import Run
from pipelines.spark import store as stores
from pipelines.stages import stage_registry
from pipelines.stages.stage_registry import QUALITY
from pipelines.tables import TABLES
from tests.docs.machine import Machine
from tests.docs.pages import ROOT, Command, blocks, commands
from udfs.placement.schemes import SCHEMES
from udfs.planning.goal_registry import GOALS

PAGE = ROOT / "docs" / "extending.md"
GO = Run.go  # as it is: `machine` replaces it

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture(scope="module")
def code(spark_application: SparkSession) -> Iterator[dict[str, Any]]:
    """What the page defines; what it registers goes again."""
    held = [(registry, dict(registry)) for registry in (SCHEMES, FORMATS, GOALS)]
    names: dict[str, Any] = {}
    for block in blocks(PAGE, "python"):
        exec(compile(block.text, block.name, "exec"), names)
    yield names
    for registry, before in held:
        registry.clear()  # type: ignore[attr-defined]
        registry.update(before)  # type: ignore[attr-defined]


def section(title: str) -> list[Command]:
    """The commands below a heading of the page."""
    lines = PAGE.read_text().splitlines()
    begin = lines.index(f"## {title}")
    end = next((i for i in range(begin + 1, len(lines)) if lines[i].startswith("## ")), len(lines))
    found = [block for block in blocks(PAGE, "sh", "console") if begin < block.line <= end]
    return [command for block in found for command in commands(block)]


@pytest.mark.parametrize("title", ["A scheme", "A format", "A goal"])
def test_a_registered_one_is_taken(machine: Machine, code: dict[str, Any], title: str) -> None:
    (sample,) = blocks(PAGE, "text")
    (machine.folder / "inventory.txt").write_text(sample.text)
    for command in section(title):
        machine.run(command)
    if title == "A goal":
        made = json.loads((machine.folder / "as-led" / "reassignment.json").read_text())
        assert [one["replicas"] for one in made["partitions"]] == [[1, 3]]


def test_the_scheme_is_what_its_docstring_says(machine: Machine, code: dict[str, Any]) -> None:
    request = {"algorithm": "mirror", "topic": "t", "brokers": [{"id": i} for i in (5, 7, 9)]}
    lines = [json.dumps(request | {"partitions": 3, "replication_factor": 2})]
    (machine.folder / "mirror.jsonl").write_text("\n".join(lines) + "\n")
    machine.run(Command("kafka-placement assign mirror.jsonl --out mirrored.jsonl"))
    (answer,) = [json.loads(line) for line in (machine.folder / "mirrored.jsonl").read_text().splitlines()]
    assert answer["replicas"] == [[9, 7], [7, 5], [5, 9]]


def test_a_stage_runs_with_the_others(machine: Machine, code: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    table, stage = code["RACK_LOAD"], code["STAGE"]
    monkeypatch.setitem(TABLES, table.name, table)
    for module in (stage_registry, runner):
        monkeypatch.setattr(module, "STAGES", (*stage_registry.STAGES, stage))
        monkeypatch.setattr(module, "NEEDS", stage_registry.NEEDS | {table.name: (*stage.inputs, QUALITY)})
    monkeypatch.setattr(stage_registry, "STEPS", (*stage_registry.STEPS, table.name))
    monkeypatch.setattr(Run, "go", GO)
    assert stores.TABLES is TABLES
    printed = [machine.run(command) for command in section("A stage")]
    rows = [line.split() for line in printed[-1].splitlines() if "prod" in line]
    assert [(rack, int(brokers)) for _, _, rack, brokers, _ in rows] == [("r0", 2), ("r1", 2), ("r2", 2)]
    assert sum(int(row[4]) for row in rows) == 743
