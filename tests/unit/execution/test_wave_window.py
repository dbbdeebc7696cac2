"""The waves of one night: which are carried out, what is left, and which would end too late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.cli.apply_command import _Mode, _write_command
from pipelines.cli.apply_rendering import render_rollback
from pipelines.cli.option_values import parse_deadline, parse_waves
from pipelines.errors import EXIT_USAGE
from pipelines.execution.cluster_execution import ExecutionOptions
from pipelines.execution.cluster_view import ClusterView
from pipelines.execution.journal import Journal
from pipelines.execution.plan_application import RollbackPreview
from pipelines.execution.plan_executor import PlanExecutor
from pipelines.execution.planned_steps import Direction, PlannedSteps
from pipelines.execution.preflight import WaveWork, find_window_problem, list_work
from pipelines.execution.wave_window import ALL_WAVES, WaveRange, WaveWindow, describe_waves
from pipelines.live.cluster_records import ClusterDescription, LivePartition, OngoingReassignment
from pipelines.plan_files.plan_reader import PlannedChange
from tests.commands import call
from tests.unit.execution.test_apply_command import _make_plan
from tests.unit.execution.test_plan_executor import _KEY, _RATE, _Cluster, _make_executor
from tests.unit.execution.test_planned_steps import _STEPS

_SIZED = PlannedSteps(_STEPS.partitions, 3, (10 * _RATE, 0, 7_200 * _RATE))


def _make_night(
    cluster: _Cluster, folder: Path, window: WaveWindow, say: Callable[[str], None] = lambda _: None
) -> PlanExecutor:
    executor = _make_executor(cluster, folder, say)
    executor.steps, executor.options = _SIZED, replace(executor.options, window=window)
    return executor


def _in(hours: float) -> datetime:
    return datetime.now(UTC) + timedelta(hours=hours)


def test_nights_carry_out_their_waves_and_the_last_one_elects(tmp_path: Path) -> None:
    cluster = _Cluster()
    assert _make_night(cluster, tmp_path, WaveWindow(WaveRange(1, 2))).execute(Direction.APPLY) == [3]
    assert cluster.lists[_KEY] == (1, 3)
    assert not cluster.elected
    assert not cluster.throttled_brokers
    assert (Journal.open(tmp_path).last_end or {})["waves_left"] == [3]
    assert _make_night(cluster, tmp_path, WaveWindow(WaveRange(3))).execute(Direction.APPLY) == []
    assert cluster.lists[_KEY] == (4, 3)
    assert cluster.elected == [_KEY]
    assert "waves_left" not in (Journal.open(tmp_path).last_end or {})


def test_rollback_of_the_last_waves_leaves_those_before(tmp_path: Path) -> None:
    cluster = _Cluster()
    cluster.lists[_KEY] = (4, 3)
    assert _make_night(cluster, tmp_path, WaveWindow(WaveRange(3, 3))).execute(Direction.ROLLBACK) == [2, 1]
    assert cluster.lists[_KEY] == (1, 3)


def test_wave_that_would_end_too_late_is_not_begun(tmp_path: Path) -> None:
    cluster, lines = _Cluster(), list[str]()
    left = _make_night(cluster, tmp_path, WaveWindow(until=_in(1)), lines.append).execute(Direction.APPLY)
    assert left == [3]
    assert cluster.lists[_KEY] == (1, 3)
    assert not cluster.throttled_brokers
    assert not cluster.elected
    assert lines[-1].startswith("wave 3 is not begun: it takes about 2 h 0 min at 1 kB/s, and would end at ")
    assert _make_night(cluster, tmp_path, WaveWindow(until=_in(3))).execute(Direction.APPLY) == []


def test_only_what_is_left_of_a_wave_is_estimated() -> None:
    """Of three partitions that broker 3 gets, the largest is complete, and half of another one is copied."""
    keys = [("t", partition) for partition in range(3)]
    sizes = dict(zip(keys, (6_000, 3_000, 1_000), strict=True))
    changes = {key: PlannedChange([1, 2], ((1, [1, 3]),), bytes_to_copy=size) for key, size in sizes.items()}
    steps = PlannedSteps(changes, 1, (10_000.0,))
    lists = dict(zip(keys, ((1, 3), (1, 3, 2), (1, 2)), strict=True))
    partitions = {key: LivePartition(key[1], 1, ids, (1, 2), ()) for key, ids in lists.items()}
    moves = {keys[1]: OngoingReassignment((1, 3, 2), (3,), (2,))}
    view = ClusterView(ClusterDescription(None, ()), partitions, {"t": None}, moves)
    assert steps.estimate_seconds(1, 1_000) == steps.estimate_seconds(1, 1_000, dict.fromkeys(keys, 1.0)) == 10
    assert steps.estimate_seconds(1, 1_000, dict.fromkeys(keys[1:], 1.0)) == 4
    (work,) = list_work(steps, view, sizes, 1_000, present={(3, keys[1]): 1_500})
    assert (work.keys, work.copied_bytes, work.seconds) == (tuple(keys[1:]), 2_500, 2.5)


def test_wave_that_is_under_way_is_finished_late(tmp_path: Path) -> None:
    cluster = _Cluster()
    cluster.lists[_KEY], cluster.moves[_KEY] = (1, 3), ((4, 3), 2)
    assert _make_night(cluster, tmp_path, WaveWindow(until=_in(1))).execute(Direction.APPLY) == []
    assert cluster.lists[_KEY] == (4, 3)


def test_progress_counts_the_whole_wave(tmp_path: Path) -> None:
    """One of two partitions is done before: as check counts them."""
    cluster, lines, keys = _Cluster(steps=30), list[str](), [_KEY, ("t", 1)]
    cluster.lists |= {keys[1]: (1, 3)}
    executor = _make_executor(cluster, tmp_path, lines.append)
    executor.steps = PlannedSteps({key: PlannedChange([1, 2], ((1, [1, 3]),)) for key in keys}, 1)
    assert executor.execute(Direction.APPLY) == []
    assert lines[0] == "wave 1 of 1: 2 partitions, 1 of them done before"
    assert lines[1].startswith("  1 of 2 partitions done")


def test_pause_before_a_wave_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wave would have ended in time when it was looked at first, and no longer once the pause is over."""
    cluster, answers = _Cluster(), iter(["", "too late"])
    monkeypatch.setattr(WaveWindow, "explain_lateness", lambda *_: next(answers))
    assert _make_night(cluster, tmp_path, WaveWindow()).execute(Direction.APPLY) == [1, 2, 3]
    assert cluster.lists[_KEY] == (1, 2)
    assert not cluster.rates


@pytest.mark.parametrize(
    ("now", "direction", "window", "rate", "problem"),
    [
        ((1, 2), Direction.APPLY, WaveWindow(WaveRange(1, 2)), _RATE, None),
        ((1, 2), Direction.APPLY, WaveWindow(WaveRange(3)), _RATE, "wave 1 is not done (1 partition left: t-0)"),
        ((1, 3), Direction.APPLY, WaveWindow(WaveRange(3)), _RATE, None),
        ((4, 3), Direction.ROLLBACK, WaveWindow(WaveRange(1, 2)), _RATE, "wave 3 is not rolled back (1 partition left"),
        ((1, 3), Direction.ROLLBACK, WaveWindow(WaveRange(1, 2)), _RATE, None),
        ((1, 2), Direction.APPLY, WaveWindow(until=_in(1)), _RATE, None),
        ((1, 2), Direction.APPLY, WaveWindow(until=_in(1)), None, "how long wave 1 takes is not known"),
    ],
)
def test_window_that_cannot_be(
    tmp_path: Path,
    now: tuple[int, ...],
    direction: Direction,
    window: WaveWindow,
    rate: int | None,
    problem: str | None,
) -> None:
    cluster = _Cluster()
    cluster.lists[_KEY] = now
    view = _make_executor(cluster, tmp_path)._look()
    answer = find_window_problem(_SIZED, view, direction, window, rate)
    assert answer is None if problem is None else (answer or "").startswith(problem)


def test_unknown_sizes_have_no_end(tmp_path: Path) -> None:
    view = _make_executor(_Cluster(), tmp_path)._look()
    problem = find_window_problem(_STEPS, view, Direction.APPLY, WaveWindow(until=_in(1)), _RATE)
    assert problem == (
        "how long wave 1 takes is not known, so --until cannot end before it. Leave out --until, or make a plan with "
        "sizes"
    )


@pytest.mark.parametrize(
    ("text", "waves"),
    [("3", WaveRange(3, 3)), ("1-2", WaveRange(1, 2)), ("2-", WaveRange(2)), ("1-1", WaveRange(1, 1))],
)
def test_waves_of_the_option(text: str, waves: WaveRange) -> None:
    assert parse_waves(text) == waves


@pytest.mark.parametrize("text", ["0", "3-1", "", "-2", "a", "1-2-3", "1,2"])
def test_texts_that_are_no_waves(text: str) -> None:
    with pytest.raises(ValueError, match=r"are no waves\. Write them as in 3, 1-2 or 2-, from 1"):
        parse_waves(text)


def test_deadline_is_the_next_such_time() -> None:
    now = datetime.now().astimezone()
    for hours in (1, 23):
        when = now + timedelta(hours=hours)
        assert parse_deadline(f"{when:%H:%M}") == when.replace(second=0, microsecond=0)
    assert now < parse_deadline("6:05") <= now + timedelta(hours=25)
    assert parse_deadline("2999-01-01T06:00Z") == datetime(2999, 1, 1, 6, tzinfo=UTC)
    for text in ("25:00", "now", "", "2020-01-01"):
        with pytest.raises(ValueError, match=r"is not a time|is over"):
            parse_deadline(text)


def test_deadline_may_have_seconds() -> None:
    when = datetime.now().astimezone().replace(microsecond=0) + timedelta(hours=1)
    assert parse_deadline(f"{when:%H:%M:%S}") == when
    assert parse_deadline("6:05:30").second == 30
    with pytest.raises(ValueError, match="is not a time"):
        parse_deadline("6:05:61")


def _preview(until: datetime | None, window: WaveRange = ALL_WAVES) -> list[str]:
    one, two, three = (("t", 0),), (("t", 0), ("t", 1)), (("t", 2),)
    work = [WaveWork(1, two, 2, 10**9, 3600.0), WaveWork(2, one, 0, 0, 0.0), WaveWork(3, three, 1, 10**9, 7200.0)]
    options = ExecutionOptions(1_000, window=WaveWindow(window, until))
    return list(render_rollback(RollbackPreview(work, [], [], {}), options))


def test_times_have_seconds_where_they_matter() -> None:
    until = _in(2).replace(second=0, microsecond=0)
    local = f"{until.astimezone():%Y-%m-%d %H:%M}"
    assert WaveWindow(until=until).format(until) == local
    assert WaveWindow(until=until).format(until + timedelta(seconds=20)) == f"{local}:20"
    assert WaveWindow(until=until + timedelta(seconds=30)).format(until) == f"{local}:00"
    lines = _preview(until + timedelta(seconds=30))
    assert lines[5] == f"  until {local}:30: waves 1-2 fit"


def test_preview_shows_which_waves_fit() -> None:
    until = _in(2).replace(second=0, microsecond=0)
    lines = _preview(until)
    assert lines[1].startswith("  wave 1: 2 partitions, 2 replicas to copy, 1 GB, about 60 min, ends at ")
    assert lines[2].startswith("  wave 2: 1 partition, no copies, ends at ")
    assert lines[3].startswith("  wave 3: 1 partition, 1 replica to copy, 1 GB, about 2 h 0 min, would end at ")
    assert lines[3].endswith(": not begun")
    assert lines[4] == "  in all: 3 partitions, 3 replicas to copy, 2 GB, about 3 h 0 min"
    assert lines[5] == f"  until {until.astimezone():%Y-%m-%d %H:%M}: waves 1-2 fit"
    assert _preview(_in(0.5))[5].endswith(": no wave fits")
    assert _preview(_in(9), WaveRange(1, 1))[2].endswith(": wave 1 fits")
    assert not any("until" in line for line in _preview(None))


def test_rollback_is_previewed(tmp_path: Path) -> None:
    """Broker 2, which the first wave leaves, gets the partition back from its leader."""
    cluster = _Cluster()
    cluster.lists[_KEY] = (4, 3)
    view = _make_executor(cluster, tmp_path)._look()
    work = list_work(_STEPS, view, {_KEY: 7 * _RATE}, _RATE, Direction.ROLLBACK)
    key = (_KEY,)
    assert work == [WaveWork(3, key, 1, 7_000, 7.0), WaveWork(2, (), 0, 0, 0.0), WaveWork(1, key, 1, 7_000, 7.0)]
    assert list_work(_STEPS, view, {}, _RATE, Direction.ROLLBACK)[0] == WaveWork(3, (_KEY,), 1, None)
    lines = list(render_rollback(RollbackPreview(work, [], [], {}), ExecutionOptions(_RATE)))
    assert lines == [
        "with --rollback --execute, throttled to 1 kB/s per broker, each way:",
        "  wave 3: 1 partition, 1 replica to copy, 7 kB, about 7 s",
        "  wave 1: 1 partition, 1 replica to copy, 7 kB, about 7 s",
        "  in all: 1 partition, 2 replicas to copy, 14 kB, about 14 s",
        "Nothing was changed. Add --execute to roll it back.",
    ]
    cluster.lists[_KEY] = (1, 2)
    view = _make_executor(cluster, tmp_path)._look()
    work = list_work(_STEPS, view, {}, None, Direction.ROLLBACK)
    lines = list(render_rollback(RollbackPreview(work, [], [], {}), ExecutionOptions()))
    assert lines[1:] == ["  no partition has to be reassigned", "Nothing was changed. Nothing is left to roll back."]


@pytest.mark.parametrize(("hours", "end"), [(1, True), (-1, False), (None, False)])
def test_command_for_another_night_repeats_no_time_that_is_over(hours: float | None, end: bool) -> None:
    until = None if hours is None else _in(hours)
    application: Any = SimpleNamespace(
        connection=SimpleNamespace(servers="b1:9092"), plan=SimpleNamespace(throttle_bytes_per_s=5)
    )
    options = ExecutionOptions(None, window=WaveWindow(until=until))
    text = _write_command(application, _Mode.ROLLBACK, Path("plan"), WaveRange(2, 2), options)
    begin = "kafka-placement apply plan --bootstrap-server b1:9092 --rollback --execute --waves 2 --throttle none"
    assert text.startswith(begin)
    assert ("--until" in text) is end


def test_waves_are_named_as_the_option_takes_them() -> None:
    assert (describe_waves([3]), describe_waves([2, 1])) == ("wave 3", "waves 1-2")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--verify", "--waves", "1"), "--verify is about the whole plan"),
        (("--cancel", "--until", "06:00"), "--cancel is about the whole plan"),
        (("--rollback", "--until", "06:00"), "--until is not for --rollback"),
        (("--execute", "--waves", "1-9"), "--waves 1-9: the plan has 1 wave. Name waves from 1 to 1"),
        (("--execute", "--waves", "0"), "are no waves"),
    ],
)
def test_windows_of_wrong_usage(tmp_path: Path, options: tuple[str, ...], problem: str) -> None:
    error = call(*_make_plan(tmp_path), *options, code=EXIT_USAGE, folder=tmp_path).stderr
    assert problem in " ".join(error.split())
