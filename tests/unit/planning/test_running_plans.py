"""`check` of a plan while it is executed or rolled back, also with a broker that failed meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from pipelines.execution.journal import BEGIN, END, Journal
from pipelines.plan_files.plan_reader import PlannedChange, read_plan
from tests.commands import call
from tests.unit.planning.test_sick_plans import describe

BROKERS = (1, 2, 3, 4)
LISTS = ([1, 2, 3], [2, 3, 1], [3, 1, 2], [2, 1, 3])


def _join(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids)) or " "


def _write(folder: Path, partitions: Sequence[str], down: Sequence[int] = ()) -> None:
    text = "\n".join(describe("t", 3, *partitions, min_isr=2))
    folder.mkdir(exist_ok=True)
    (folder / "topics.txt").write_text(text.replace("Replicas: \n", "Replicas:\n") + "\n")
    rows = [f"{b}  h{b}  9092  null  {'fenced' if b in down else 'unfenced'}  broker" for b in BROKERS]
    (folder / "brokers.txt").write_text("\n".join(["ID  HOST  PORT  RACK  STATE  ENDPOINT_TYPE", *rows]) + "\n")


@pytest.fixture
def running(tmp_path: Path) -> Callable[..., Any]:
    """A plan of several waves that drains broker 1, and a function that shows its first wave under way."""
    _write(tmp_path / "prod", [f"{_join(one)} {_join(one)}" for one in LISTS])
    options = ("--goal", "drain", "--brokers", "1", "--out", "plan", "--set", "plans.wave_moves_per_broker=1")
    call("plan", "prod", *options, folder=tmp_path)
    changes = {partition: change for (_, partition), change in read_plan(tmp_path / "plan").changes.items()}
    first = next(partition for partition, change in changes.items() if change.waves[0] == 1)

    def show(move: Mapping[int, tuple[Sequence[int], Sequence[int]]], down: Sequence[int] = (), code: int = 0) -> Any:
        """Check the plan while partitions go from a list to another. Return JSON, and the text."""
        partitions = []
        for partition, now in enumerate(LISTS):
            before, after = move.get(partition, (now, now))
            added, removed = ([b for b in one if b not in other] for one, other in ((after, before), (before, after)))
            listed, isr = [*after, *removed], [b for b in before if b not in down]
            partitions.append(f"{_join(listed)} {_join(isr)}" + (f" {_join(added)} {_join(removed)}" if added else ""))
        _write(tmp_path / "prod", partitions, down)
        text = call("check", "plan", "prod", "--json", "out.json", code=code, folder=tmp_path).stdout
        return json.loads((tmp_path / "out.json").read_text()), text, tmp_path / "plan"

    return lambda way, **more: show(way(first, changes[first]), **more)


def _go(partition: int, change: PlannedChange) -> dict[int, tuple[Sequence[int], Sequence[int]]]:
    return {partition: (change.lists[0], change.lists[1])}


def _return(partition: int, change: PlannedChange) -> dict[int, tuple[Sequence[int], Sequence[int]]]:
    return {partition: (change.lists[1], change.lists[0])}


def test_running_plan_is_no_fault(running: Callable[..., Any]) -> None:
    answer, text, folder = running(_go)
    assert answer["progress"][0]["status"] == "being executed"
    assert {one["fault"] for one in answer["findings"]} <= {"uneven_leaders"}
    lines = text.splitlines()
    assert lines[0] == "being executed: wave 1, with 1 partition being reassigned as planned"
    assert "  next: wait for it; if it was interrupted, continue with apply --execute, --cancel or --rollback" in lines
    assert "  4 waves of 4 left" in lines
    assert [wave["replicas_added"] for wave in answer["waves"]] == [1, 1, 1, 1]  # with what is being copied
    assert [wave["rollback_replicas"] for wave in answer["waves"]] == [1, 2, 3, 4]
    Journal.open(folder).write(BEGIN, direction="apply", kafka_cluster_id=None, throttle_bytes_per_s=1)
    answer, text, _ = running(_go)
    assert "  journal: apply began at 20" in text
    assert answer["throttle_bytes_per_s"] == 1  # of the execution


def test_plan_whose_partition_another_tool_has_moved_is_not_judged(running: Callable[..., Any]) -> None:
    def move_on(partition: int, change: PlannedChange) -> dict[int, Any]:
        now = next(one for one in permutations(change.before) if one not in change.lists)
        return {partition: (now, now)}

    _, text, _ = running(move_on, code=1)
    assert text.startswith("changed: 1 partition was changed by another tool or a later plan (t-")
    assert "): nothing of the plan is done. Make a new plan\n" in text
    assert "LATER" not in text
    assert " left" not in text
    assert "RISKY" not in text
    assert "SAFE" not in text


def test_broker_that_fails_during_the_run_is_waited_for(running: Callable[..., Any]) -> None:
    answer, text, _ = running(_go, down=[4], code=1)
    assert answer["progress"][0]["status"] == "being executed"
    assert "  apply pauses while broker 4 is down, and continues once it is back.\n" in text
    assert "    Start what is down; or end it with apply --cancel or --rollback\n" in text
    assert "ake a new plan" not in text


def test_rollback_under_way_is_recognized(running: Callable[..., Any]) -> None:
    answer, text, folder = running(_return, code=1)
    assert answer["progress"][0]["status"] == "being rolled back"
    assert "its rollback is under way, or was interrupted. End it with apply --rollback or --cancel" in text
    assert "which rolls back wave 1)" in text
    assert "not in this plan" not in text
    journal = Journal.open(folder)
    journal.write(BEGIN, direction="rollback", kafka_cluster_id=None, throttle_bytes_per_s=1)
    _, text, _ = running(lambda *_: {})
    assert "  journal: rollback began at 20" in text
    journal.write(END, outcome="rolled back")
    assert "journal" not in running(lambda *_: {})[1]


def test_rollback_counts_from_the_lists_before_the_plan(running: Callable[..., Any]) -> None:
    def go_to(step: int) -> Callable[[int, PlannedChange], dict[int, Any]]:
        return lambda partition, change: {partition: (change.lists[step], change.lists[step])}

    answer, text, folder = running(go_to(-1))
    assert "  3 waves of 4 left\n" in text
    assert [wave["rollback_replicas"] for wave in answer["waves"]] == [1, 2, 3, 4]
    every = {key[1]: (change.after, change.after) for key, change in read_plan(folder).changes.items()}
    answer, _, _ = running(lambda *_: every)
    assert answer["progress"][0]["status"] == "done"
    assert [wave["rollback_replicas"] for wave in answer["waves"]] == [4, 4, 4, 4]
