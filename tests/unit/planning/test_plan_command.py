"""`plan`: a goal in, files and a table out; what cannot be is rejected before anything is written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.planning import judge
from tests.unit.planning.plan_commands import Said, assert_rejected, described, line, model_file

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("goal", "more"),
    [
        ("leaders", []),
        ("leaders", ["--per-topic"]),
        ("failover", []),
        ("failover", ["--keep-leaders"]),
        ("balance", ["--objective", "min-bytes"]),
        ("drain", ["--brokers", "3,7"]),
        ("expand", []),
        ("replace", ["--replace", "3=16,7=17"]),
        ("repair", []),
        ("rf", ["--rf", "3"]),
    ],
)
def test_every_goal(goal: str, more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out, answer = model_file(tmp_path), tmp_path / "plan", tmp_path / "answer.json"
    said = Said(capsys, "plan", source, "--goal", goal, *more, "--out", out, "--json", answer)
    assert said.code == 0, said.err
    for text in (
        "max/mean",
        "leaders (preferred)",
        "worst survivor",
        "rack violations",
        "copysets",
        "P(loss if",
        "took:",
    ):
        assert text in said.out
    found, written = json.loads(answer.read_text()), json.loads((out / "plan.json").read_text())
    assert sorted(path.name for path in out.iterdir()) == sorted(found["files"])
    for name in ("cluster", "goal", "request", "certificate", "moves", "before", "after"):
        assert found[name] == written[name], name
    judged = judge.judge(judge.model(3), json.loads((out / "reassignment.json").read_text()))
    assert (judged["moves"], judged["leader_changes"]) == (found["moves"], found["leader_changes"])
    assert judged["bad"] == 0
    if goal in ("leaders", "failover"):
        assert found["moves"] == 0
        assert "nothing is copied" in said.out
        assert "--throttle" not in said.out
    elif found["moves"]:
        assert "--throttle 50000000" in said.out
    assert Said(capsys, "plan", "--check", out, source).code == 0


def test_a_budget_is_kept_and_what_was_missed_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = model_file(tmp_path, removed=[3]), tmp_path / "plan"
    said = Said(capsys, "plan", source, "--goal", "drain", "--max-moves", "5", "--out", out)
    assert said.code == 0
    assert "missed: " in said.out
    assert json.loads((out / "plan.json").read_text())["moves"] <= 5


def test_the_same_again_is_the_same_to_the_byte(tmp_path: Path) -> None:
    source, texts = model_file(tmp_path, removed=[3]), []
    for seed in ("1", "2"):  # of Python's hashes
        out = tmp_path / f"plan{seed}"
        command = [sys.executable, "-m", "pipelines.cli", "plan", str(source), "--goal", "drain", "--out", str(out)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
        texts.append({path.name: path.read_bytes() for path in sorted(out.iterdir())})
    assert texts[0] == texts[1]


def test_what_is_balanced_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = described(tmp_path, line(0, "1,2"), line(1, "2,3"), line(2, "3,1"))
    out = tmp_path / "plan"
    said = Said(capsys, "plan", source, "--goal", "leaders", "--out", out)
    assert said.code == 0
    assert "nothing is to be reassigned" in said.out
    assert "kafka-reassign-partitions" not in said.out
    assert json.loads((out / "plan.json").read_text())["changes"] == []
    assert Said(capsys, "plan", "--check", out, source).out.startswith("done")


def test_only_an_election_is_needed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line(0, "1,2").replace("Leader: 1", "Leader: 2"), line(1, "2,1")]
    said = Said(capsys, "plan", described(tmp_path, *lines), "--goal", "leaders", "--out", tmp_path / "plan")
    assert "nothing is to be reassigned" in said.out
    assert "kafka-leader-election" in said.out
    assert "1 partition is not led by its preferred leader now" in said.out


def test_infeasible_is_3_with_the_reason_and_without_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out, answer = model_file(tmp_path), tmp_path / "plan", tmp_path / "answer.json"
    said = Said(capsys, "plan", source, "--goal", "rf", "--rf", "19", "--out", out, "--json", answer)
    assert said.code == 3
    assert "only 18 may hold one" in said.err
    assert not out.exists()
    assert not answer.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["model.json"]


def test_moves_in_flight_are_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    moving = line(1, "1,2,3", "\tAdding Replicas: 3\tRemoving Replicas: 2")
    source = described(tmp_path, line(0, "1,2"), moving, line(2, "1,3"), line(3, "1,3"))
    said = Said(capsys, "plan", source, "--goal", "leaders", "--out", tmp_path / "plan")
    assert said.code == 0
    assert "1 partition stays as it is, because it is being reassigned" in said.err
    wanted = json.loads((tmp_path / "plan" / "reassignment.json").read_text())["partitions"]
    assert 1 not in [entry["partition"] for entry in wanted]
    assert Said(capsys, "plan", "--check", tmp_path / "plan", source).code == 1


def test_a_plan_that_no_longer_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = described(tmp_path, line(0, "1,2"), line(1, "1,2")), tmp_path / "plan"
    assert Said(capsys, "plan", source, "--goal", "leaders", "--out", out).code == 0
    described(tmp_path, line(0, "1,2"), line(1, "1,3"))
    answer = tmp_path / "answer.json"
    said = Said(capsys, "plan", "--check", out, source, "--json", answer)
    assert said.code == 1
    assert said.out.startswith("changed")
    assert json.loads(answer.read_text())["status"] == "changed"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--goal", "drain"], "there is no broker to drain"),
        (["--goal", "drain", "--brokers", "99"], "there is no broker 99"),
        (["--goal", "expand"], "there is no live broker that holds nothing"),
        (["--goal", "replace", "--replace", "1=99"], "there is no broker 99"),
        (["--goal", "rf", "--rf", "2", "--topics", "nix"], "there is no topic nix"),
        (["--goal", "leaders", "--exclude-topics", "nix"], "has no topic nix"),
        (["--goal", "repair", "--exclude-brokers", "99"], "there is no broker 99"),
        (
            ["--goal", "balance", "--max-bytes", "1GB"],
            "show no sizes, so --max-bytes cannot be kept to. Use --max-moves",
        ),
        (["--goal", "leaders", "--by-bytes"], "show no bytes out, which --by-bytes is about. Leave"),
    ],
)
def test_what_makes_no_sense_is_said(
    arguments: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_rejected(capsys, tmp_path, arguments, 1, says)


def test_a_plan_of_another_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = described(tmp_path, line(0, "1,2"), line(1, "1,2")), tmp_path / "plan"
    assert Said(capsys, "plan", source, "--goal", "leaders", "--out", out).code == 0
    later = source.rename(tmp_path / "later.txt")
    said = Said(capsys, "plan", "--check", out, later)
    assert (said.code, "name it so: describe=PATH" in said.err) == (1, True)
    assert Said(capsys, "plan", "--check", out, f"describe={later}").code == 0


def test_a_source_without_replicas_and_a_folder_of_something_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "brokers.csv").write_text("broker,rack\n1,a\n2,b\n")
    said = Said(capsys, "plan", tmp_path / "brokers.csv", "--goal", "leaders", "--out", tmp_path / "plan")
    assert (said.code, "show no replicas" in said.err) == (1, True)
    source = described(tmp_path, line(0, "1,2"))
    said = Said(capsys, "plan", source, "--goal", "leaders", "--out", tmp_path)
    assert (said.code, "which is no file of a plan" in said.err) == (1, True)
