"""Rows of gold.plan_executions from journals: complete and interrupted waves, with the plan's estimates."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pipelines.execution.execution_history import list_copy_outcomes, list_wave_executions
from pipelines.execution.journal import Journal
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
