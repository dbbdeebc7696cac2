"""The options of `plan`: what they become, and which are wrong usage."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.cli import plan_options
from pipelines.cli.plan_options import Options
from pipelines.config.settings import load_settings
from pipelines.errors import SettingsError
from tests.unit.planning.plan_commands import Said, assert_rejected, described, line
from udfs.planning.goals import GOALS
from udfs.planning.plan_request import COPYSETS, Targets

SETTINGS = load_settings(environ={})


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--goal", "tidy"], "--goal tidy: there are leaders, failover, balance, drain, expand, replace, repair, rf."),
        (["--goal", "balance", "--objective", "beauty"], "--objective beauty: there are all, min-bytes, min-moves."),
        (
            ["--goal", "rf", "--rf", "2", "--objective", "all"],
            "--objective all is for --goal balance or drain or expand",
        ),
        (["--goal", "rf"], "name the replication factor"),
        (["--goal", "rf", "--rf", "0"], "name the replication factor"),
        (["--goal", "replace"], "who takes over"),
        (["--goal", "balance", "--max-bytes", "much"], "is no size. Write digits, then B, kB"),
        (["--goal", "balance", "--max-bytes", "1e3GB"], "is no size. Write digits, then B, kB"),
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
            "--keep-leaders and --per-topic are not for use togeth",
        ),
        (["--goal", "leaders", "--by-bytes", "--per-topic"], "--by-bytes and --per-topic are not for use together"),
    ],
)
def test_wrong_options_are_wrong_usage(
    arguments: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_rejected(capsys, tmp_path, arguments, 64, says)


ORDER, EVEN = {"leaders", "failover"}, {"balance", "drain", "expand"}
MOVING = set(GOALS) - ORDER
WRITTEN = {
    "--brokers": (["1"], {"drain", "expand"}),
    "--replace": (["1=2"], {"replace"}),
    "--rf": (["2"], {"rf"}),
    "--topics": (["t"], {"rf"}),
    "--exclude-topics": (["t"], set(GOALS)),
    "--exclude-brokers": (["3"], MOVING),
    "--max-bytes": (["1GB"], MOVING),
    "--max-moves": (["0"], MOVING),
    "--objective": (["min-moves"], MOVING),
    "--keep-leaders": ([], {"failover"}),
    "--per-topic": ([], ORDER),
    "--by-bytes": ([], ORDER),
    "--allow-fewer-racks": ([], {"drain", "replace"}),
    "--copysets": ([], EVEN),
    "--seed": (["0"], set(GOALS)),
}


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("option", WRITTEN)
def test_no_goal_is_silent_about_an_option_that_it_has_no_use_for(
    option: str, goal: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values, goals = WRITTEN[option]
    said = Said(capsys, "plan", tmp_path / "nowhere", "--goal", goal, option, *values, "--out", tmp_path / "plan")
    if goal not in goals:
        assert said.code == 64
        assert f"{option} is for --goal " in said.err
        assert f", not {goal}." in said.err
    else:
        assert f"{option} is for" not in said.err


def test_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = described(tmp_path, line(0, "1,2"))
    assert Said(capsys, "plan", source).code == 64
    assert Said(capsys, "plan", source, "--goal", "leaders").code == 64
    said = Said(capsys, "plan", source, "--check", tmp_path, "--goal", "leaders", "--max-moves", "0")
    assert (said.code, "not for use with --goal, --max-moves." in said.err) == (64, True)


def test_settings_become_request() -> None:
    made = plan_options.request(Options("balance", max_bytes="1.5TB", copysets=True, seed=7), SETTINGS)
    assert (made.max_bytes, made.seed, made.priorities[-1], made.targets) == (1_500_000_000_000, 7, COPYSETS, Targets())
    settings = load_settings(["plans.priorities=disk", "plans.target_disk=1.2", "plans.broker_bytes=9"], environ={})
    made = plan_options.request(Options("balance"), settings)
    assert (made.priorities, made.targets.disk, made.broker_bytes, made.broker_replicas) == (("disk",), 1.2, 9, None)


@pytest.mark.parametrize("name", Targets.__dataclass_fields__)
def test_every_target_is_a_setting(name: str) -> None:
    settings = load_settings([f"plans.target_{name}=1"], environ={})
    assert getattr(plan_options.request(Options("balance"), settings).targets, name) == 1


@pytest.mark.parametrize(
    ("text", "size"), [("1000", 1000), ("500GB", 5 * 10**11), ("1 KiB", 1024), ("0.5mb", 500_000), ("7b", 7)]
)
def test_sizes(text: str, size: int) -> None:
    assert plan_options.size(text, "--max-bytes") == size


@pytest.mark.parametrize("text", ["", "GB", "-1", "1e3", "5 G", "1,000", "nan"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(SettingsError, match="is no size"):
        plan_options.size(text, "--max-bytes")


@pytest.mark.parametrize("text", ["", "7", "7=", "7=7", "7=8,7=9", "a=b"])
def test_no_replacements(text: str) -> None:
    with pytest.raises(SettingsError, match="--replace"):
        plan_options.replacements(text)


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("plans.priorities=beauty", "there is no priority 'beauty'"),
        ("plans.priorities=disk,disk", "a priority is named twice"),
        ("plans.goal=tidy", "there is no goal 'tidy'"),
        ("plans.goal=rf", "rf needs to be told more than a goal"),
        ("plans.target_disk=0.5", "greater than or equal to 1"),
        ("plans.throttle_bytes_per_s=0", "greater than or equal to 1"),
    ],
)
def test_wrong_settings_are_named(option: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        load_settings([option], environ={})
