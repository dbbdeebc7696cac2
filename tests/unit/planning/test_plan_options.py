"""The options of `plan`: the requests that they become, and wrong usage."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.cli.common_options import PlanOptions
from pipelines.cli.plan_command import parse_replacements, parse_request, parse_size
from pipelines.config.settings import load_settings
from pipelines.errors import SettingsError
from tests.unit.planning.plan_commands import CommandResult, assert_rejected, describe_line, write_describe
from udfs.planning.goal_registry import GOALS
from udfs.planning.plan_request import COPYSETS, Targets

SETTINGS = load_settings(environ={})


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["--goal", "tidy"],
            "--goal tidy: must be one of leaders, failover, balance, drain, expand, replace, repair, relieve, "
            "log-dirs, empty-log-dir, rf, zones.",
        ),
        (
            ["--goal", "balance", "--objective", "beauty"],
            "--objective beauty: must be one of all, min-bytes, min-moves.",
        ),
        (
            ["--goal", "rf", "--rf", "2", "--objective", "all"],
            "--objective all is for --goal balance or drain or expand",
        ),
        (["--goal", "rf"], "set the replication factor"),
        (["--goal", "rf", "--rf", "0"], "--rf: '0' is not a whole number from 1 to 1,000"),
        (["--goal", "replace"], "its replacement"),
        (["--goal", "balance", "--max-bytes", "much"], "not a size of at most 1,000 PB. Write digits, then B, kB"),
        (["--goal", "balance", "--max-bytes", "1e3GB"], "not a size of at most 1,000 PB. Write digits, then B, kB"),
        (["--goal", "balance", "--throttle", "fast"], "--throttle fast: not a size of at most 1,000 PB. Write"),
        (["--goal", "balance", "--throttle", "0"], "--throttle 0: nothing would be copied. Write bytes per second"),
        (["--goal", "expand", "--brokers", "3", "--exclude-brokers", "2,3"], "3 is named in --exclude-brokers too"),
        (["--goal", "drain", "--brokers", "3", "--exclude-brokers", "3"], "3 is named in --exclude-brokers too"),
        (["--goal", "replace", "--replace", "1=2", "--exclude-brokers", "2"], "2 is to take over, but named in"),
        (["--goal", "replace", "--replace", "1=2,2=3"], "2 is to take over, and replaced itself"),
        (
            ["--goal", "rf", "--rf", "2", "--topics", "t,u", "--exclude-topics", "t"],
            "t is named in --exclude-topics too",
        ),
        (
            ["--goal", "failover", "--keep-leaders", "--per-topic"],
            "--keep-leaders and --per-topic cannot be used together",
        ),
        (["--goal", "rf", "--rf", "2", "--add-brokers", "9,x:a"], "--add-brokers 9,x:a: 'x' is not a broker id"),
        (["--goal", "rf", "--rf", "2", "--add-brokers", "9:a,9:b"], "names a broker again. Write each broker once"),
        (["--goal", "rf", "--rf", "2", "--add-brokers", "9:RACK"], "has no name of a rack"),
        (["--goal", "rf", "--rf", "2", "--add-brokers", "9:\udcff"], "has no name of a rack"),
        (["--goal", "leaders", "--by-bytes", "--per-topic"], "--by-bytes and --per-topic cannot be used together"),
    ],
)
def test_wrong_options_are_wrong_usage(
    arguments: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_rejected(capsys, tmp_path, arguments, 64, text)


ORDER, EVEN = {"leaders", "failover"}, {"balance", "drain", "expand"}
MOVING = set(GOALS) - ORDER - {"log-dirs", "empty-log-dir"}
WRITTEN = {
    "--brokers": (["1"], {"drain", "expand", "repair", "relieve"}),
    "--log-dirs": (["1:/d"], {"empty-log-dir"}),
    "--at-min-isr-partitions": ([], {"repair"}),
    "--under-min-isr-partitions": ([], {"repair"}),
    "--replace": (["1=2"], {"replace"}),
    "--rf": (["2"], {"rf"}),
    "--topics": (["t"], set(GOALS)),
    "--exclude-topics": (["t"], set(GOALS)),
    "--ignore-topics": (["tmp-*"], set(GOALS)),
    "--exclude-brokers": (["3"], MOVING),
    "--add-brokers": (["9"], MOVING),
    "--max-bytes": (["1GB"], MOVING),
    "--max-moves": (["0"], MOVING),
    "--max-time": (["6h"], {"balance"}),
    "--throttle": (["1MB"], MOVING | {"log-dirs", "empty-log-dir"}),
    "--objective": (["min-moves"], MOVING - {"zones", "relieve"}),
    "--keep-leaders": ([], {"failover"}),
    "--per-topic": ([], ORDER),
    "--by-bytes": ([], ORDER),
    "--allow-empty-racks": ([], {"drain", "replace"}),
    "--keep-rack-violations": ([], {"balance", "drain", "expand"}),
    "--prefer-fewer-copysets": ([], EVEN),
    "--seed": (["0"], set(GOALS)),
}


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("option", WRITTEN)
def test_every_goal_rejects_options_without_meaning(
    option: str, goal: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values, goals = WRITTEN[option]
    result = CommandResult(
        capsys, "plan", tmp_path / "nowhere", "--goal", goal, option, *values, "--out", tmp_path / "plan"
    )
    if goal not in goals:
        assert result.code == 64
        assert f"{option} is for --goal " in result.err
        assert f", not {goal}." in result.err
    else:
        assert f"{option} is for" not in result.err


def test_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_describe(tmp_path, describe_line(0, "1,2"))
    assert CommandResult(capsys, "plan", source).code == 64
    result = CommandResult(capsys, "check", tmp_path, source, "--add-brokers", "x")
    assert (result.code, "--add-brokers x: 'x' is not a broker id" in result.err) == (64, True)


def test_request_from_options_and_settings() -> None:
    made = parse_request(PlanOptions("balance", max_bytes="1.5TB", prefer_fewer_copysets=True, seed=7), SETTINGS)
    assert (made.max_bytes, made.seed, made.priorities[-1], made.targets) == (1_500_000_000_000, 7, COPYSETS, Targets())
    settings = load_settings(["plans.priorities=disk", "plans.target_disk=1.2", "plans.broker_bytes=9"], environ={})
    made = parse_request(PlanOptions("balance"), settings)
    assert (made.priorities, made.targets.disk, made.broker_bytes, made.broker_replicas) == (("disk",), 1.2, 9, None)


@pytest.mark.parametrize("name", Targets.__dataclass_fields__)
def test_every_target_is_a_setting(name: str) -> None:
    settings = load_settings([f"plans.target_{name}=1"], environ={})
    assert getattr(parse_request(PlanOptions("balance"), settings).targets, name) == 1


@pytest.mark.parametrize(
    ("text", "size"), [("1000", 1000), ("500GB", 5 * 10**11), ("1 KiB", 1024), ("0.5mb", 500_000), ("7b", 7)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1", "1e3", "5 G", "1,000", "nan"])
def test_wrong_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="not a size"):
        parse_size(text)


@pytest.mark.parametrize("text", ["", "7", "7=", "7=7", "7=8,7=9", "a=b"])
def test_wrong_replacements(text: str) -> None:
    with pytest.raises(ValueError, match="Write each once, as in 7=66,8=67"):
        parse_replacements(text)


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("plans.priorities=beauty", "there is no priority 'beauty'"),
        ("plans.priorities=disk,disk", "a value is listed twice"),
        ("plans.goals=tidy", "there is no goal 'tidy'"),
        ("plans.goals=rf", "rf needs --rf"),
        ("plans.goals=log-dirs", "log-dirs is only for the command plan"),
        ("plans.goals=leaders,leaders", "a value is listed twice"),
        ("plans.target_disk=0.5", "write 1 or more"),
        ("plans.throttle_bytes_per_s=0", "write 1 or more"),
    ],
)
def test_wrong_settings_are_named(option: str, text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        load_settings([option], environ={})
