"""Reassignment files of other tools as plan folders: judged, divided into waves, and found again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli import foreign_plans
from pipelines.cli.foreign_plans import choose_folder
from pipelines.config.settings import load_settings
from pipelines.errors import EXIT_USAGE, SettingsError, SourceError
from pipelines.execution.journal import Journal
from pipelines.execution.planned_steps import PlannedSteps
from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.sources import Source
from pipelines.plan_files.plan_reader import read_plan
from tests.commands import call
from tests.unit.planning.test_check_command import write

_LINES = "Topic: t\tPartitionCount: 4\tReplicationFactor: 2\tConfigs: \n" + "".join(
    f"\tTopic: t\tPartition: {p}\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n" for p in range(4)
)
_OTHERS = "Topic: u\tPartitionCount: 2\tReplicationFactor: 2\tConfigs: \n" + "".join(
    f"\tTopic: u\tPartition: {p}\tLeader: 3\tReplicas: 3,4\tIsr: 3,4\n" for p in range(2)
)


def _choose(
    folder: Path, files: Sequence[Path], monkeypatch: pytest.MonkeyPatch, may_write: bool = True, **options: Any
) -> Path:
    (folder / "prod.txt").write_text(_LINES + _OTHERS)
    snapshot = load_snapshot(Source("prod", (folder / "prod.txt",)))
    monkeypatch.setattr(foreign_plans, "read_snapshot", lambda _: (snapshot, None))
    connection: Any = None
    settings = load_settings(["plans.wave_moves_per_broker=2"], environ={})
    return choose_folder(files, connection, settings, 7_000_000, may_write, **options)


def test_files_become_a_plan_in_waves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of several files, the last list of a partition counts; the order of replicas is the files'."""
    first = write(tmp_path, *(("t", p, [1, 3]) for p in range(4)), name="one.json")
    second = write(tmp_path, ("t", 0, [4, 3]), ("u", 0, [3, 4]), name="two.json")
    folder = _choose(tmp_path, [first, second], monkeypatch)
    assert folder == tmp_path / "one.json.plan"
    plan = read_plan(folder)
    assert {key: change.after for key, change in plan.changes.items()} == {
        ("t", 0): [4, 3],
        **{("t", p): [1, 3] for p in range(1, 4)},
    }
    assert len(plan.waves) == 2
    assert plan.throttle_bytes_per_s == 7_000_000
    assert PlannedSteps.of_plan(plan).waves == 2
    assert plan.source_files.keys() == {"one.json", "two.json"}
    assert f"{folder}: the plan that stands for {first}, {second} from now on" in capsys.readouterr().out
    assert call("check", str(folder), f"prod={tmp_path / 'prod.txt'}", code=0).stdout.startswith("fits: ")


def test_plan_that_was_begun_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path, ("t", 0, [1, 3]), name="one.json")
    with pytest.raises(SettingsError, match=r"nothing of it was begun"):
        _choose(tmp_path, [file], monkeypatch, may_write=False)
    folder = _choose(tmp_path, [file], monkeypatch)
    text = (folder / "plan.json").read_text()
    write(tmp_path, ("t", 0, [1, 4]), name="one.json")
    assert _choose(tmp_path, [file], monkeypatch) == folder  # not begun: it is another plan now
    assert (folder / "plan.json").read_text() != text
    Journal.open(folder).write("begin", direction="apply", kafka_cluster_id=None, throttle_bytes_per_s=None)
    text = (folder / "plan.json").read_text()
    assert _choose(tmp_path, [file], monkeypatch, may_write=False) == folder
    assert _choose(tmp_path, [file], monkeypatch) == folder
    assert (folder / "plan.json").read_text() == text
    write(tmp_path, ("t", 0, [1, 3]), name="one.json")
    with pytest.raises(SettingsError, match=r"was begun with other files.*Name that folder to go on with it"):
        _choose(tmp_path, [file], monkeypatch)
    file.unlink()
    with pytest.raises(SourceError, match="cannot be read"):
        _choose(tmp_path, [file], monkeypatch)


def test_harm_has_to_be_accepted_and_what_kafka_rejects_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harmful = write(tmp_path, ("t", 0, [1]), name="harmful.json")
    with pytest.raises(SettingsError, match=r"HARMFUL(.|\n)*add --accept-harm"):
        _choose(tmp_path, [harmful], monkeypatch)
    assert not (tmp_path / "harmful.json.plan").exists()
    folder = _choose(tmp_path, [harmful], monkeypatch, accepts_harm=True)
    assert read_plan(folder).changes["t", 0].after == [1]
    rejected = write(tmp_path, ("t", 0, [1, 9]), name="rejected.json")
    with pytest.raises(SettingsError, match=r"REJECTED BY KAFKA(.|\n)*Correct it first") as error:
        _choose(tmp_path, [rejected], monkeypatch, accepts_harm=True)
    assert "--accept-harm" not in str(error.value)


def test_replication_factor_that_files_are_to_give_is_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path, *(("t", p, [1, 2, 3]) for p in range(4)), name="one.json")
    with pytest.raises(SettingsError, match="HARMFUL"):
        _choose(tmp_path, [file], monkeypatch)
    assert len(read_plan(_choose(tmp_path, [file], monkeypatch, factor=3)).changes) == 4


def test_log_dirs_of_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path, ("t", 0, [1, 3]), name="one.json", log_dirs=["any", "/data/1"])
    with pytest.raises(SettingsError, match=r"one.json chooses log dirs.*Write any for each"):
        _choose(tmp_path, [file], monkeypatch)
    write(tmp_path, ("t", 0, [1, 3]), name="one.json", log_dirs=["any", "any"])
    assert _choose(tmp_path, [file], monkeypatch).exists()


def test_what_changes_nothing_is_a_plan_without_waves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = read_plan(_choose(tmp_path, [write(tmp_path, ("t", 0, [1, 2]), name="one.json")], monkeypatch))
    assert (plan.waves, plan.changes) == ((), {})


@pytest.mark.parametrize("options", [("--verify",), ("--rollback",), ("--cancel",)])
def test_harm_is_accepted_before_anything_is_carried_out_only(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "one.json").write_text(json.dumps({"partitions": []}))
    arguments = ("apply", "one.json", "--bootstrap-server", "127.0.0.1:1", "--accept-harm", *options)
    error = call(*arguments, code=EXIT_USAGE, folder=tmp_path).stderr
    assert "--accept-harm is for files of other tools that are carried out" in " ".join(error.split())
