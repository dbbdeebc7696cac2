"""Plans that `check` judges one after another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.planning.plan_commands import CommandResult
from tests.unit.planning.test_check_command import write
from tests.unit.planning.test_sick_plans import describe


def test_plans_are_judged_one_after_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two nights and a file between them: the second night starts from what both before it have done."""
    source, nights = tmp_path / "topics.txt", [tmp_path / "n1", tmp_path / "n2"]
    lists = ["1,2 1,2", "1,3 1,3", "2,3 2,3", "4,3 4,3"]
    source.write_text("\n".join(describe("t", 2, *lists)) + "\n")
    between = write(tmp_path, ("t", 2, [3, 4]))
    for number, night in enumerate(nights):
        after = [one for earlier in nights[:number] for one in ("--after", earlier)]
        assert CommandResult(
            capsys, "plan", source, "--goal", "drain", "--brokers", f"{number + 1}", *after, "--out", night
        ).code in (0, 2), night
    planned = json.loads((nights[1] / "plan.json").read_text())["changes"]
    result = CommandResult(capsys, "check", *nights, source)
    assert result.code == 0
    assert f"{nights[0]}:\nfits" in result.out
    second = result.out.partition(f"{nights[1]}:\nfits")[2]
    assert f"  next, after {nights[0]}: kafka-reassign-partitions --execute with " in second
    assert "n1/wave-" in result.out
    answer = json.loads(CommandResult(capsys, "check", *nights, source, "--json", "-").out)
    assert [one["folder"] for one in answer["progress"]] == [*map(str, nights)]
    text, name = result.out, "than it is before its plan"
    assert name in text or "during or after it than before its plan" in text
    assert {finding["text"].partition(":")[0] for finding in answer["findings"]} <= {"n1", "n2"}
    # Each night is compared with the cluster that it starts from, however it is judged.
    own = json.loads((nights[1] / "plan.json").read_text())["judgement"]
    alone = CommandResult(capsys, "check", nights[1], source, "--after", nights[0], "--json", "-").out
    assert own["baseline"] == json.loads(alone)["baseline"] == f"after the plan in {nights[0]}"
    assert own["findings"] == json.loads(alone)["findings"]
    faults = {one["text"].removeprefix("n2: ") for one in answer["findings"] if one["text"].startswith("n2: ")}
    assert faults == {one["text"] for one in own["findings"]}
    # Without the first night, and after a file that changes what the second one plans, it does not fit.
    text = CommandResult(capsys, "check", nights[1], source).out
    assert text.startswith(f"changed: made after {nights[0]}, not done yet: execute that first\n")
    assert f"\n  to judge it after that: kafka-placement check {nights[1]} {source} --after {nights[0]}\n" in text
    moved = [change["partition"] for change in planned]
    assert 2 in moved
    answer = json.loads(CommandResult(capsys, "check", nights[0], between, nights[1], source, "--json", "-").out)
    assert [one["status"] for one in answer["progress"]] == ["fits", "changed"]
    assert [wave["file"] for wave in answer["waves"]].index("plan.json") > 0


def carry_out(source: Path, lists: list[str], *nights: Path) -> list[str]:
    """Write the source as plans leave it, all copies in sync; return its lists."""
    for night in nights:
        for change in json.loads((night / "plan.json").read_text())["changes"]:
            replicas = ",".join(map(str, change["steps"][-1]["replicas"]))
            lists = [f"{replicas} {replicas}" if i == change["partition"] else one for i, one in enumerate(lists)]
    source.write_text("\n".join(describe("t", 2, *lists)) + "\n")
    return lists


BEFORE = ["1,2 1,2", "1,3 1,3", "2,3 2,3", "4,3 4,3"]


@pytest.fixture
def nights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[Path, Path, Path]:
    """Return a source, and two nights: the second one moves on what the first one has moved."""
    source, n1, n2 = tmp_path / "topics.txt", tmp_path / "n1", tmp_path / "n2"
    carry_out(source, BEFORE)
    drain = ("plan", source, "--goal", "drain", "--brokers")
    assert CommandResult(capsys, *drain, "1", "--out", n1).code == 0
    assert CommandResult(capsys, *drain, "2", "--after", n1, "--out", n2).code == 0
    return source, n1, n2


def test_plans_that_were_carried_out(
    nights: tuple[Path, Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After the two nights, a third plan moves on what both have."""
    source, night1, night2 = nights
    lists = carry_out(source, BEFORE, night1, night2)
    text = CommandResult(capsys, "check", night1, night2, source).out
    assert f"{night1}:\ndone: the plan is done, and the plan in {night2} followed it\n" in text
    assert f"{night2}:\ndone" in text
    assert "SAFE: " in text
    third = next(change["partition"] for change in json.loads((night2 / "plan.json").read_text())["changes"])
    lists[third] = "4,1 4,1" if "3" in lists[third] else "3,1 3,1"
    carry_out(source, lists)
    result = CommandResult(capsys, "check", night2, source)
    assert "not done yet" not in result.out
    assert ": the plan is over, or another followed it\n" in result.out
    words = f"kafka-placement check {night2} LATER... {source}"
    assert result.out.endswith(f"  not judged. With the plans that followed it: {words}\n")
    assert (result.code, "REJECTED" in result.out) == (1, False)
    result = CommandResult(capsys, "check", night2, source, "--json", "-", "--scenario", tmp_path / "worst.yaml")
    assert json.loads(result.out)["level"] is None
    assert "is not written" in result.err
    # With a journal that says so, it was carried out.
    begun = {"event": "begin", "direction": "apply", "kafka_cluster_id": None, "throttle_bytes_per_s": None}
    ended = {"event": "end", "outcome": "applied", "partitions_left_out": 0, "throttled_brokers": []}
    for left, code in (({"waves_left": [2]}, 1), ({"partitions_left_out": 1}, 1), ({}, 0)):
        lines = ({"at": "2026-07-01T01:00:00.000+00:00", **one} for one in (begun, ended | left))
        (night2 / "execution.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
        result = CommandResult(capsys, "check", night2, source)
        assert result.code == code
    assert result.out.startswith("done: the plan was carried out until 2026-07-01T01:00:00.000+00:00; since then, 1 ")
    assert result.out.count("\n") == 1


def test_plans_that_later_ones_followed(
    nights: tuple[Path, Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four plans, each after the one before it, all carried out; the last one returns what the first one has moved."""
    source, n1, n2 = nights
    n3, n4 = tmp_path / "n3", tmp_path / "n4"
    folders = [n1, n2]
    for broker, night in ((3, n3), (4, n4)):
        after = [one for earlier in folders for one in ("--after", earlier)]
        drain = ("plan", source, "--goal", "drain", "--brokers", broker, *after, "--out", night)
        assert CommandResult(capsys, *drain).code in (0, 2)
        folders.append(night)
    carry_out(source, BEFORE, *folders[:2])
    result = CommandResult(capsys, "check", n1, n2, source)
    assert (
        result.code,
        f"{n1}:\ndone: the plan is done, and the plan in {n2} followed it\n{n2}:\ndone" in result.out,
    ) == (0, True)
    assert "changed" not in result.out
    third = ("plan", source, "--goal", "drain", "--brokers", "3", "--after", n1, "--after", n2)
    assert CommandResult(capsys, *third, "--out", tmp_path / "n5").code in (0, 2)
    carry_out(source, BEFORE, *folders)
    for row in (folders, folders[2:]):
        result = CommandResult(capsys, "check", *row, source)
        assert result.code == 0, result.out
        assert f"{n3}:\ndone: the plan is done, and the plan in {n4} followed it\n{n4}:\ndone" in result.out
    text = CommandResult(capsys, "check", n3, source).out
    assert "not done yet" not in text


def test_a_plan_after_one_that_is_being_executed(
    nights: tuple[Path, Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first copy of the second night is under way."""
    source, n1, n2 = nights
    lists = carry_out(source, BEFORE, n1)
    first, second = (
        {
            one["partition"]: one["steps"][-1]["replicas"]
            for one in json.loads((night / "plan.json").read_text())["changes"]
        }
        for night in (n1, n2)
    )
    moved = next(iter(first.keys() & second.keys()))
    added, removed = (
        [str(b) for b in one if b not in other]
        for one, other in ((second[moved], first[moved]), (first[moved], second[moved]))
    )
    listed, isr = ",".join(map(str, [*second[moved], *removed])), ",".join(map(str, first[moved]))
    lists[moved] = f"{listed} {isr} {','.join(added)} {','.join(removed)}"
    carry_out(source, lists)
    result = CommandResult(capsys, "check", n1, n2, source)
    assert f"{n1}:\ndone: the plan is done, and the plan in {n2} followed it\n{n2}:\nbeing executed" in result.out
    assert result.code == 0
    drain = ("plan", source, "--goal", "drain", "--brokers", "3", "--after", n1, "--after", n2)
    result = CommandResult(capsys, *drain, "--out", tmp_path / "n3")
    assert result.code in (0, 2)
    assert f"the plan in {n2} is being executed: wait for it before you execute another plan\n" in result.err
    assert f"the plan in {n1} is being executed" not in result.err


def test_a_colleague_moves_partitions_between_two_nights(
    nights: tuple[Path, Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first night was carried out; since then, one of its partitions is being moved, and then was moved."""
    source, n1, n2 = nights
    begun = {"event": "begin", "direction": "apply", "kafka_cluster_id": None, "throttle_bytes_per_s": None}
    ended = {"event": "end", "outcome": "complete", "partitions_left_out": 0, "throttled_brokers": []}
    at = "2026-07-01T01:00:00.000+00:00"
    (n1 / "execution.jsonl").write_text("".join(json.dumps({"at": at, **one}) + "\n" for one in (begun, ended)))
    lists = carry_out(source, BEFORE, n1)
    first, second = (
        {one["partition"] for one in json.loads((night / "plan.json").read_text())["changes"]} for night in (n1, n2)
    )
    moved = min(first & second)
    now = lists[moved].partition(" ")[0].split(",")
    new = "1" if now[1] != "1" else "4"  # where neither night takes it
    target = [now[0], new]
    again = ("plan", source, "--goal", "leaders", "--after", n1)
    for text in (f"{now[0]},{new},{now[1]} {','.join(now)} {new} {now[1]}", f"{','.join(target)} {','.join(target)}"):
        lists[moved] = text
        carry_out(source, lists)
        result = CommandResult(capsys, "check", n2, source)
        assert result.code == 1
        assert "not done yet" not in result.out
        result = CommandResult(capsys, *again)
        assert result.code == 0, result.err
        assert "is being executed" not in result.err
        since = f"the plan in {n1} was carried out until {at}; since then, 1 partition was changed by another tool"
        assert since in result.err


def test_a_scenario_begins_with_what_plans_before_have_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan leaves t-0 on brokers 3 and 4, of which the file then drops one."""
    source, night, scenario = tmp_path / "topics.txt", tmp_path / "n1", tmp_path / "worst.yaml"
    carry_out(source, ["1,2 1,2", "3,4 3,4"])
    assert CommandResult(capsys, "plan", source, "--goal", "drain", "--brokers", "1,2", "--out", night).code == 0
    changes = json.loads((night / "plan.json").read_text())["changes"]
    (left,) = (one["steps"][-1]["replicas"] for one in changes if one["partition"] == 0)
    harm = write(tmp_path, ("t", 0, left[:1]))
    for plans in ((harm, source, "--after", night), (night, harm, source)):
        CommandResult(capsys, "check", *plans, "--scenario", scenario)
        lines = scenario.read_text().splitlines()
        assert lines[1] == f"  - t=0 reassign t-0 to {left[0]},{left[1]}"
        assert lines[2] == "  - t=1 isr t-0 " + ",".join(map(str, [1, 2, *left]))
        assert f"  - t=10 reassign t-0 to {left[0]}" in lines
        assert CommandResult(capsys, "replay", source, scenario).code == 0
    # A plan after the night has the same scenario as its check.
    second = tmp_path / "n2"
    fewer = ("plan", source, "--goal", "rf", "--rf", "1", "--after", night, "--out", second)
    assert CommandResult(capsys, *fewer).code == 0
    own = json.loads((second / "plan.json").read_text())["judgement"]["findings"]
    checked = CommandResult(capsys, "check", second, source, "--after", night, "--json", "-").out
    assert own == json.loads(checked)["findings"]
    assert f"  - t=0 reassign t-0 to {left[0]},{left[1]}" in own[0]["scenario"]
