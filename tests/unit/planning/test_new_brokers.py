"""Brokers that no source shows yet: the command that adds them, and plans and checks with them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from pipelines.cli.plan_command import parse_new_brokers
from pipelines.cli.plan_remedies import PlanCommandLine
from pipelines.plan_files.planned_cluster import NewBroker
from tests.unit.planning.plan_commands import CommandResult, describe_line, write_describe


def write_cluster(folder: Path, racks: str = "abc") -> Path:
    """Write partitions on brokers 1 to 3, each in a rack if there are racks."""
    source = folder / "my cluster"
    source.mkdir()
    lines = [describe_line(0, "1,2"), describe_line(1, "2,3"), describe_line(2, "3,1")]
    write_describe(source, *lines)
    if racks:
        rows = [f"{broker},rack-{rack}" for broker, rack in enumerate(racks, 1)]
        (source / "brokers.csv").write_text("\n".join(["broker,rack", *rows]) + "\n")
    return source


@pytest.mark.parametrize(
    ("racks", "added", "remedy"),
    [("abc", "13:rack-b", "If live, add with the right rack (racks now: "), ("", "13", "If live, add: ")],
)
def test_unknown_replacement_comes_with_the_command(
    racks: str, added: str, remedy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = write_cluster(tmp_path, racks), tmp_path / "the plan"
    options = ["--replace", "2=13", "--set", "run.seed=7", "--out", out]
    result = CommandResult(capsys, "plan", source, "--goal", "replace", *options)
    assert result.code == 1
    assert "my cluster: no source shows broker 13: a broker without replicas is in no source but a list" in result.err
    assert remedy in result.err
    command = shlex.split(result.err[result.err.index("kafka-placement plan ") :])
    assert command[-2:] == ["--add-brokers", added]
    again = CommandResult(capsys, *command[1:])
    assert again.code == 0, again.err
    lists = [entry["replicas"] for entry in json.loads((out / "reassignment.json").read_text())["partitions"]]
    assert lists == [[1, 13], [13, 3]]
    assumption = "no source shows broker 13, added with --add-brokers when the plan was made: counted as live"
    for more in ([], ["--add-brokers", added]):
        checked = CommandResult(capsys, "check", out, source, *more)
        assert (checked.code, checked.out.startswith("fits: the plan fits: the assignment is un")) == (0, True)
        assert (assumption in checked.err) == (not more)
    if not racks:  # no list of brokers, which would leave out broker 13
        write_describe(source, describe_line(0, "1,2"), describe_line(1, "13,3"), describe_line(2, "3,1"))
        assert assumption not in CommandResult(capsys, "check", out, source).err


def test_unknown_broker_to_fill_needs_a_rack(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_cluster(tmp_path)
    result = CommandResult(capsys, "plan", source, "--goal", "expand", "--brokers", "3,13,14")
    assert result.code == 1
    assert "no source shows brokers 13, 14: " in result.err
    assert "add with the right rack (racks now: rack-a, rack-b, rack-c): " in result.err
    assert result.err.rstrip().endswith("--goal expand --brokers 3,13,14 --add-brokers 13:RACK,14:RACK")


def test_unknown_broker_to_replace_is_no_new_broker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = CommandResult(capsys, "plan", write_cluster(tmp_path), "--goal", "replace", "--replace", "9=13")
    assert (result.code, "there is no broker 9, 13. Brokers: 1, 2, 3" in result.err) == (1, True)


@pytest.mark.parametrize(
    ("added", "text"),
    [
        ("13", "--add-brokers 13: all other brokers have a rack, and Kafka ignores all racks if one broker has none."),
        ("2:rack-c", "--add-brokers 2:rack-c: the sources show broker 2 in rack rack-b. Leave it out"),
    ],
)
def test_wrong_racks(added: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = CommandResult(capsys, "plan", write_cluster(tmp_path), "--goal", "balance", "--add-brokers", added)
    assert result.code == 1
    assert text in result.err


def test_known_broker_stays_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, answers = write_cluster(tmp_path), []
    for more in ([], ["--add-brokers", "2:rack-b"]):
        result = CommandResult(capsys, "plan", source, "--goal", "rf", "--rf", "3", "--json", "-", *more)
        answers.append(json.loads(result.out))
    assert answers[0] == answers[1]
    assert answers[0]["metrics"]["moves"] == 3


def test_brokers_and_racks() -> None:
    assert parse_new_brokers("14:a:b, 13") == (NewBroker(13), NewBroker(14, "a:b"))
    assert [str(broker) for broker in parse_new_brokers("14:a:b, 13")] == ["13", "14:a:b"]


def test_command_with_other_options() -> None:
    options = {"--goal": ("rf",), "--rf": ("3",), "--per-topic": (), "--add-brokers": ("9:a",), "--set": ("x=1",)}
    command = PlanCommandLine("my source", options)
    written = "kafka-placement plan 'my source' --goal rf --rf 3 --per-topic --add-brokers 9:a --set x=1"
    assert command.change({}) == written
    assert command.change({"--goal": ("drain",), "--rf": ()}) == written.replace("--goal rf --rf 3", "--goal drain")
    changed = command.change({"--set": ("y=2",), "--add-brokers": ("10:b",)})
    assert changed == written.replace("9:a", "9:a,10:b") + " --set y=2"
