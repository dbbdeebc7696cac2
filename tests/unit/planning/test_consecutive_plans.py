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
    assert f"{nights[1]}:\nfits" in result.out
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
    judged = [own, json.loads(alone), answer]
    faults = [{one["text"].removeprefix("n2: ") for one in each["findings"]} for each in judged[:2]]
    faults.append({one["text"].removeprefix("n2: ") for one in answer["findings"] if one["text"].startswith("n2: ")})
    assert faults[0] == faults[1] == faults[2]
    # Without the first night, and after a file that changes what the second one plans, it does not fit.
    text = CommandResult(capsys, "check", nights[1], source).out
    assert text.startswith(f"changed: made after {nights[0]}, not done yet: pass --after {nights[0]} to judge it, or ")
    assert f"\n  kafka-placement check {nights[1]} {source} --after {nights[0]}\n" in text
    moved = [change["partition"] for change in planned]
    assert 2 in moved
    answer = json.loads(CommandResult(capsys, "check", nights[0], between, nights[1], source, "--json", "-").out)
    assert [one["status"] for one in answer["progress"]] == ["fits", "changed"]
    assert [wave["file"] for wave in answer["waves"]].index("plan.json") > 0
