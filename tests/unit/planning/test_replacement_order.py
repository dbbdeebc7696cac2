"""A new broker has the position of the broker that it replaces, and so leads what that one led."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.seed_sampler import count_cases
from tests.unit.planning.plan_commands import CommandResult, describe_line, write_describe
from tests.unit.planning.plan_models import measure, model_with
from udfs.planning.cluster_model import ClusterModel, ProposedAssignment
from udfs.planning.plan_making import make_plan
from udfs.planning.plan_request import PlanRequest

NEW = (13, 14)


def read_lists(model: ClusterModel, proposal: ProposedAssignment) -> list[list[int]]:
    ends = zip(proposal.offsets[:-1].tolist(), proposal.offsets[1:].tolist(), strict=True)
    return [model.ids(proposal.replicas[begin:end]) for begin, end in ends]


@pytest.mark.slow
@given(
    st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True), min_size=1, max_size=12),
    st.sets(st.sampled_from([1, 2]), max_size=2),
)
@settings(max_examples=count_cases(150))
def test_new_brokers_stand_where_the_old_ones_did(lists: list[list[int]], down: set[int]) -> None:
    rows = {("t", row): replicas for row, replicas in enumerate(lists)}
    model = model_with(rows, [1, 2, 3, 4, 5, 6, *NEW], down=sorted(down))
    request = PlanRequest("replace", replacements=tuple(zip((1, 2), NEW, strict=True)))
    proposal = make_plan(model, request)
    swap = {1: 13, 2: 14}
    expected = [[swap.get(broker, broker) for broker in replicas] for replicas in lists]
    assert read_lists(model, proposal) == expected
    found = measure(model, proposal)  # without the replacements, each counts as a change
    assert found.leader_changes == sum(replicas[0] in swap for replicas in lists)


def test_broker_that_holds_the_partition_keeps_its_position() -> None:
    model = model_with({("t", 0): [1, 2, 3], ("t", 1): [2, 1, 4], ("t", 2): [1, 3]}, [1, 2, 3, 4])
    proposal = make_plan(model, PlanRequest("replace", replacements=((1, 3),)))
    assert read_lists(model, proposal)[:2] == [[2, 3, 4], [2, 3, 4]]
    assert read_lists(model, proposal)[2][0] == 3


def test_failed_broker_is_replaced_in_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Broker 9 is down, so that its partitions are led by others now, and the new broker leads after an election."""
    lines = [describe_line(0, "9,1,2"), describe_line(1, "1,9,2"), describe_line(2, "2,1,9"), describe_line(3, "1,2")]
    lines[0] = lines[0].replace("Leader: 9", "Leader: 2")
    lines = [line.replace("Isr: 9,1,2", "Isr: 1,2").replace("Isr: 1,9,2", "Isr: 1,2") for line in lines]
    source = write_describe(tmp_path, *(line.replace("Isr: 2,1,9", "Isr: 2,1") for line in lines))
    out, answer = tmp_path / "plan", tmp_path / "answer.json"
    options = ["--goal", "replace", "--replace", "9=13", "--add-brokers", "13", "--out", out, "--json", answer]
    result = CommandResult(capsys, "plan", source, *options)
    assert result.code == 0, result.err
    lists = [entry["replicas"] for entry in json.loads((out / "reassignment.json").read_text())["partitions"]]
    assert lists == [[13, 1, 2], [1, 13, 2], [2, 1, 13]]
    assert json.loads((out / "election.json").read_text()) == {"partitions": [{"topic": "t", "partition": 0}]}
    found = json.loads(answer.read_text())["metrics"]
    assert (found["leader_changes"], found["leader_replacements"]) == (0, 1)
    elected = "the election at the end moves 1 leader"
    assert f"changed: 3 replica lists, 0 preferred leaders; {elected}\n" in result.out
    assert "replaced: preferred leader 9 -> 13 of 1 partition: a new broker takes the position" in result.out


def test_changes_are_counted_in_the_lists_of_the_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A repair changes the first replica of the list, although its broker does not lead now."""
    header = "Topic: t\tPartitionCount: 5\tReplicationFactor: 2\tConfigs: "  # else the listing may be filtered
    failed = [
        describe_line(0, "9,1").replace("Leader: 9", "Leader: 1"),
        describe_line(1, "2,9"),
        describe_line(2, "3,9"),
    ]
    failed = [line.replace("Isr: 9,", "Isr: ").replace("Isr: 2,9", "Isr: 2") for line in failed]
    failed[2] = failed[2].replace("Isr: 3,9", "Isr: 3")
    source = write_describe(tmp_path, header, *failed, describe_line(3, "1,2"), describe_line(4, "2,3"))
    answer = tmp_path / "answer.json"
    result = CommandResult(capsys, "plan", source, "--goal", "repair", "--json", answer)
    assert result.code == 0, result.err
    found = json.loads(answer.read_text())["metrics"]
    assert (found["moves"], found["leader_changes"], found["leader_replacements"]) == (3, 1, 0)
    assert "replaced: " not in result.out
