"""Rows of gold.plan_executions from journals: complete and interrupted waves, with the plan's estimates."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pipelines.execution.copy_pace import learn_pace
from pipelines.execution.execution_history import list_copy_outcomes, list_wave_executions
from pipelines.execution.journal import JOURNAL, Journal
from pipelines.execution.plan_application import PlanApplication
from pipelines.execution.planned_steps import PlannedSteps
from pipelines.plan_files.plan_reader import read_plan
from pipelines.tables.execution_tables import PLAN_EXECUTIONS
from pipelines.tables.growth_tables import FORECAST_OUTCOMES
from tests.commands import call

DESCRIBE = "Topic: t\tPartitionCount: 4\tReplicationFactor: 2\tConfigs: \n" + "".join(
    f"\tTopic: t\tPartition: {p}\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n" for p in range(4)
)


def test_waves_of_a_journal(tmp_path: Path) -> None:
    (tmp_path / "prod.txt").write_text(DESCRIBE)
    call("plan", "prod.txt", "--goal", "leaders", "--out", "plan", folder=tmp_path)
    plan, journal = read_plan(tmp_path / "plan"), Journal.open(tmp_path / "plan")
    for rate in (1_000, None):
        journal.write("begin", direction="apply", kafka_cluster_id=None, throttle_bytes_per_s=rate)
        journal.write("wave", wave=1, direction="apply", partitions=2)
    journal.write("pause", wave=1, reason="broker 1 failed")
    journal.write("wave-done", wave=1, direction="apply", copied_bytes=70)
    journal.write("end", outcome="complete")
    names = PLAN_EXECUTIONS.column_names
    first, second = (dict(zip(names, row, strict=True)) for row in list_wave_executions(journal, plan))
    assert {key: first[key] for key in ("cluster_id", "execution", "wave", "outcome", "ended_at", "actual_s")} == {
        "cluster_id": "prod",
        "execution": 1,
        "wave": 1,
        "outcome": "interrupted",
        "ended_at": None,
        "actual_s": None,
    }
    assert (first["throttle_bytes_per_s"], second["throttle_bytes_per_s"]) == (1_000, None)
    assert (second["execution"], second["outcome"], second["pauses"], second["copied_bytes"]) == (2, "complete", 1, 70)
    assert second["actual_s"] == (second["ended_at"] - second["started_at"]).total_seconds() >= 0
    assert second["snapshot_id"] == plan.sha256[:16]
    assert second["plan_id"] == plan.plan_sha256[:16] != second["snapshot_id"]
    assert second["estimated_bytes"] == plan.waves[0].bytes_to_copy


def test_times_of_whole_waves_are_compared_with_the_plan(tmp_path: Path) -> None:
    (tmp_path / "prod.txt").write_text(DESCRIBE)
    call("plan", "prod.txt", "--goal", "leaders", "--out", "plan", folder=tmp_path)
    plan = read_plan(tmp_path / "plan")
    plan = replace(plan, throttle_bytes_per_s=10)
    begin = datetime(2026, 11, 1, tzinfo=UTC)
    whole = {
        "cluster_id": "prod",
        "snapshot_id": "s",
        "plan_id": "p",
        "execution": 1,
        "wave": 1,
        "direction": "apply",
        "started_at": begin,
        "ended_at": begin + timedelta(seconds=108),
        "outcome": "complete",
        "partitions": 2,
        "pauses": 0,
        "throttle_bytes_per_s": 10,
        "estimated_bytes": 1000,
        "estimated_s": 100.0,
        "copied_bytes": 950,
        "actual_s": 108.0,
    }
    others = (
        {"pauses": 1},
        {"outcome": "interrupted", "actual_s": None},
        {"direction": "rollback"},
        {"copied_bytes": 400},
        {"copied_bytes": None},
        {"throttle_bytes_per_s": 20},
        {"estimated_s": None},
    )
    rows = [whole, whole | {"wave": 2, "actual_s": 120.0}, *(whole | other for other in others)]
    outcomes = list_copy_outcomes([tuple(row[name] for name in PLAN_EXECUTIONS.column_names) for row in rows], plan)
    as_rows = [dict(zip(FORECAST_OUTCOMES.column_names, row, strict=True)) for row in outcomes]
    assert [(row["wave"], row["as_forecast"], row["forecast_value"], row["actual_value"]) for row in as_rows] == [
        (1, 1, 100.0, 108.0),
        (2, 0, 100.0, 120.0),
    ]
    assert {(row["forecast_kind"], row["forecasts"], row["forecast_at"]) for row in as_rows} == {
        ("copy_time", 1, begin)
    }


def test_rollback_has_no_estimate(tmp_path: Path) -> None:
    (tmp_path / "prod.txt").write_text(DESCRIBE)
    call("plan", "prod.txt", "--goal", "leaders", "--out", "plan", folder=tmp_path)
    plan, journal = read_plan(tmp_path / "plan"), Journal.open(tmp_path / "plan")
    journal.write("begin", direction="rollback", kafka_cluster_id=None, throttle_bytes_per_s=None)
    journal.write("wave", wave=1, direction="rollback", partitions=2)
    (row,) = (dict(zip(PLAN_EXECUTIONS.column_names, row, strict=True)) for row in list_wave_executions(journal, plan))
    assert (row["direction"], row["estimated_bytes"], row["estimated_s"]) == ("rollback", None, None)


def test_the_pace_of_a_cluster_is_learned_from_its_journals(tmp_path: Path) -> None:
    """Three waves take 1.2, 1.5 and 3 times their estimates; fewer prove nothing, and a damaged journal is left out."""
    loads = {"size_mb": 1000, "in_kbps": 1, "out_kbps": 1}
    lists = [{"topic": "t", "partition": p, "replicas": [1, 2], **loads} for p in range(8)]
    brokers = [{"id": id_} for id_ in (1, 2, 3)]
    (tmp_path / "prod.json").write_text(json.dumps({"name": "prod", "brokers": brokers, "partitions": lists}))
    call("plan", "prod.json", "--goal", "expand", "--throttle", "10MB", "--out", "0", folder=tmp_path)
    for name in "123":
        shutil.copytree(tmp_path / "0", tmp_path / name)
    plan = read_plan(tmp_path / "0")
    wave = plan.waves[0]
    for name, ratio in (("0", 1.2), ("1", 3.0), ("2", 1.5)):
        ended = datetime(2026, 11, 1, tzinfo=UTC) + timedelta(seconds=wave.seconds * ratio)
        entries = (
            {"event": "begin", "direction": "apply", "kafka_cluster_id": None, "throttle_bytes_per_s": 10**7},
            {"event": "wave", "wave": 1, "direction": "apply", "partitions": 1},
            {"event": "wave-done", "wave": 1, "direction": "apply", "copied_bytes": wave.bytes_to_copy},
        )
        times = ("2026-11-01T00:00:00+00:00",) * 2 + (ended.isoformat(),)
        lines = (json.dumps({"at": at, **entry}) for at, entry in zip(times, entries, strict=True))
        (tmp_path / name / JOURNAL).write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "3" / JOURNAL).write_text("x\ny\n")
    assert learn_pace([tmp_path / "0", tmp_path / "1", tmp_path / "0"]) == (1.0, 2)
    pace = learn_pace([tmp_path / name for name in ("0", "1", "2", "3", "missing")])
    assert (round(pace.ratio, 6), pace.waves) == (1.5, 3)
    assert str(pace) == "1.50 times the estimate of the plan, as of 3 waves before"
    steps = PlannedSteps.of_plan(plan)
    seconds = steps.estimate_seconds(1, 10**7)
    assert replace(steps, pace=pace).estimate_seconds(1, 10**7) == pytest.approx(1.5 * (seconds or 0))
    others = [tmp_path / "1", tmp_path / "2"]
    application = PlanApplication(tmp_path / "0", None, print, other_plans=others)  # type: ignore[arg-type]
    assert application.steps.pace == pace
