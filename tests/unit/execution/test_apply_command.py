"""The texts of `apply` that need no cluster."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli.apply_rendering import _render_drained, render_preview
from pipelines.errors import EXIT_USAGE
from pipelines.execution.cluster_execution import ExecutionOptions
from pipelines.execution.journal import NO_THROTTLE, EarlierConfigs, Journal, take_throttle
from pipelines.execution.plan_application import PlanApplication, PlanPreview, lock_cluster
from pipelines.execution.preflight import WaveWork
from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.sources import Source
from pipelines.plan_files.kafka_json import LEADER_RATE
from pipelines.plan_files.plan_check import PlanStatus, check_plan
from pipelines.plan_files.plan_creation import build_snapshot_model
from pipelines.plan_files.plan_reader import read_plan
from tests.commands import call
from tests.unit.execution.test_execution_history import DESCRIBE
from udfs.failures.topic_defaults import KAFKA_DEFAULTS


def _make_plan(folder: Path) -> tuple[str, ...]:
    (folder / "prod.txt").write_text(DESCRIBE)
    call("plan", "prod.txt", "--goal", "leaders", "--out", "plan", folder=folder)
    return ("apply", "plan", "--bootstrap-server", "127.0.0.1:1")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("has_begun", [False, True])
def test_interrupted_command_says_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, has_begun: bool
) -> None:
    class Running:
        def describe_rest(self) -> list[str]:
            return ["2 reassignments of the plan are under way: t-0, t-1.", "Repeat the command to continue."]

    def interrupt(application: PlanApplication, *_: object) -> None:
        running: Any = Running()
        application._running = running if has_begun else None
        os.kill(os.getpid(), number)

    monkeypatch.setattr(PlanApplication, "execute", interrupt)
    arguments = _make_plan(tmp_path)
    if signal.getsignal(number) is signal.SIG_IGN:  # as nohup has it
        signal.signal(number, signal.SIG_DFL)
    handler = signal.getsignal(number)
    text = call(*arguments, "--execute", code=128 + number, folder=tmp_path).stdout
    if has_begun:
        assert text == (
            "interrupted: 2 reassignments of the plan are under way: t-0, t-1.\nRepeat the command to continue.\n"
        )
    else:
        assert text == "interrupted: This command has changed nothing.\n"
    assert signal.getsignal(number) is handler


def test_ignored_signal_stays_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As nohup has it: the terminal may end while the command goes on."""

    def hang_up(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGHUP)

    monkeypatch.setattr(PlanApplication, "execute", hang_up)
    arguments = _make_plan(tmp_path)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert "nothing to do" in call(*arguments, "--execute", folder=tmp_path).stdout
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    ("rate", "problem"),
    [
        ("0", "--throttle 0: nothing would be copied"),
        ("0.0MB", "--throttle 0.0MB: nothing would be copied"),
        ("-5", "--throttle -5: not a size"),
        ("50MB/s", "--throttle 50MB/s: not a size"),
        ("", "not a size"),
    ],
)
def test_throttle_that_is_no_rate_is_rejected(tmp_path: Path, rate: str, problem: str) -> None:
    error = call(*_make_plan(tmp_path), "--throttle", rate, code=EXIT_USAGE, folder=tmp_path).stderr
    assert problem in error
    assert "no connection" not in error


@pytest.mark.parametrize("rate", ["none", "1", "1.5 MiB"])
def test_throttle_that_is_a_rate_or_none_is_accepted(tmp_path: Path, rate: str) -> None:
    assert "no connection" in call(*_make_plan(tmp_path), "--throttle", rate, code=1, folder=tmp_path).stderr


def test_pause_of_no_length_is_wrong_usage(tmp_path: Path) -> None:
    assert "--max-pause" in call(*_make_plan(tmp_path), "--max-pause", "0", code=64, folder=tmp_path).stderr


@pytest.mark.parametrize("is_open", [False, True])
def test_preview_after_a_deleted_topic_gives_one_advice(tmp_path: Path, is_open: bool) -> None:
    """An execution that has begun goes on without the topic; one that has not needs another plan."""
    path = tmp_path / "prod.txt"
    path.write_text(DESCRIBE + DESCRIBE.replace("Topic: t", "Topic: u"))
    call("plan", "prod.txt", "--goal", "leaders", "--out", "plan", folder=tmp_path)
    plan = read_plan(tmp_path / "plan")
    deleted, _ = min(plan.changes)
    path.write_text(DESCRIBE.replace("Topic: t", "Topic: u" if deleted == "t" else "Topic: t"))
    snapshot = load_snapshot(Source("prod", (path,)))
    progress = check_plan(plan, build_snapshot_model(snapshot, KAFKA_DEFAULTS), snapshot.partitions)
    assert progress.status is PlanStatus.CHANGED
    problems = [] if is_open else ["the cluster has changed"]
    preview = PlanPreview(progress, [], problems, EarlierConfigs(), EarlierConfigs(), is_open, [])
    text = "\n".join(render_preview(preview, ExecutionOptions()))
    assert ("Make a new plan" in text) is not is_open
    assert ("Add --execute to carry out the rest." in text) is is_open
    assert f"missing topics: {deleted}" in text


def test_preview_of_an_applied_plan_proposes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "prod.txt"
    path.write_text(DESCRIBE)
    call("plan", "prod.txt", "--goal", "leaders", "--out", "plan", folder=tmp_path)
    plan = read_plan(tmp_path / "plan")
    for (_, partition), change in plan.changes.items():
        before, after = (",".join(map(str, ids)) for ids in (change.before, change.after))
        old = f"Partition: {partition}\tLeader: 1\tReplicas: {before}"
        assert old in path.read_text()
        new = f"Partition: {partition}\tLeader: {change.after[0]}\tReplicas: {after}"
        path.write_text(path.read_text().replace(old, new))
    snapshot = load_snapshot(Source("prod", (path,)))
    progress = check_plan(plan, build_snapshot_model(snapshot, KAFKA_DEFAULTS), snapshot.partitions)
    preview = PlanPreview(progress, [], [], EarlierConfigs(), EarlierConfigs(), False, [])
    assert list(render_preview(preview, ExecutionOptions()))[-1] == "Nothing was changed: nothing is left to do."
    preview = preview._replace(foreign=EarlierConfigs({2: {LEADER_RATE: "1"}}, {"t00": {}}))
    lines = list(render_preview(preview, ExecutionOptions()))
    both = "broker 2 and topic t00 have a throttle of another tool (rate 1 B/s)"
    stays = f"  warning: {both}, which stays: --throttle none sets none"
    assert lines[lines.index(stays) + 1].startswith("    copies through it may be slow; give a rate")
    lines = list(render_preview(preview, ExecutionOptions(5)))
    assert "    it is replaced while a wave runs, and then set again" in "\n".join(lines)
    preview = preview._replace(left=EarlierConfigs({1: {}, 2: {}}))
    lines = list(render_preview(preview, ExecutionOptions()))
    assert "  throttles of this plan are left on brokers 1, 2: they are removed" in lines
    assert lines[-1] == "Nothing was changed. Add --execute to carry out the rest."
    # Of a plan that another must precede, the waves that would fit now are not what it does.
    work = [WaveWork(1, (("t", 0),), 1, 1_000, 1.0)]
    for folders in ((), ("n1",)):
        preview = preview._replace(progress=replace(progress, undone_plans=folders), work=work)
        assert any("  wave 1: " in line for line in render_preview(preview, ExecutionOptions())) is not bool(folders)


def test_tables_are_only_written_if_named() -> None:
    text = " ".join(call("apply", "--help").stdout.split())
    assert "--warehouse DIR Also write the journal to the tables in this folder. [default: (not written)]" in text


def test_throttle_of_what_does_not_run_is_not_changed(tmp_path: Path) -> None:
    arguments = _make_plan(tmp_path)
    error = call(*arguments, "--change-throttle", code=EXIT_USAGE, folder=tmp_path).stderr
    assert "--change-throttle needs a rate" in error
    change = ("--throttle", "80MB", "--change-throttle")
    assert "plan: no execution of it runs on this machine" in call(*arguments, *change, code=1, folder=tmp_path).stderr
    journal = Journal.open(tmp_path / "plan")
    journal.write("begin", direction="apply", kafka_cluster_id="c-1", throttle_bytes_per_s=1, process=os.getpid())
    with lock_cluster("c-1"):
        assert f"process {os.getpid()} copies 80 MB/s" in call(*arguments, *change, folder=tmp_path).stdout
    assert take_throttle(tmp_path / "plan") == 80_000_000
    assert take_throttle(tmp_path / "plan") is None
    with lock_cluster("c-1"):
        none = call(*arguments, "--throttle", "none", "--change-throttle", folder=tmp_path).stdout
    assert f"process {os.getpid()} copies without a throttle" in none
    assert take_throttle(tmp_path / "plan") == NO_THROTTLE
    assert "no execution of it runs" in call(*arguments, *change, code=1, folder=tmp_path).stderr


def test_emptied_broker_may_be_unregistered_once_it_has_no_replica() -> None:
    assert list(_render_drained({3: [("t", 0)], 4: []}, "b1:9092")) == [
        "  broker 3 still has 1 replica: t-0",
        "  broker 4 is empty: it has no replica. To remove it, stop it, and then unregister it (KRaft):",
        "    kafka-cluster unregister --bootstrap-server b1:9092 --id 4",
    ]
