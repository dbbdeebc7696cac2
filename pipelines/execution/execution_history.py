"""Rows of gold.plan_executions, from the journal of a plan: what each wave took, beside what the plan estimated."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pipelines.execution import journal as journal_events
from pipelines.execution.journal import Journal
from pipelines.execution.planned_steps import Direction
from pipelines.ingest.sources import SnapshotKey
from pipelines.plan_files.plan_reader import StoredPlan

_DIGITS = 16  # of the ids, as snapshot ids have


def get_snapshot(plan: StoredPlan) -> SnapshotKey:
    """Return the cluster and the digest of its assignment before the plan: where the rows of a plan are."""
    return SnapshotKey(plan.cluster, plan.sha256[:_DIGITS])


def get_plan_id(plan: StoredPlan) -> str:
    """Return what distinguishes the plans for one assignment."""
    return plan.plan_sha256[:_DIGITS]


def list_wave_executions(journal: Journal, plan: StoredPlan) -> list[tuple[Any, ...]]:
    """List the waves that were carried out or rolled back: rows of PLAN_EXECUTIONS, in its order of columns."""
    rows: list[dict[str, Any]] = []
    execution, rate = 0, None
    for entry in journal.entries:
        match entry["event"]:
            case journal_events.BEGIN:
                execution, rate = execution + 1, entry["throttle_bytes_per_s"]
            case journal_events.WAVE:
                rows.append(_start_row(entry, execution, rate, plan))
            case journal_events.RATE:  # of the waves that begin after it
                rate = entry["throttle_bytes_per_s"]
            case journal_events.PAUSE if rows:
                rows[-1]["pauses"] += 1
            case journal_events.WAVE_DONE if rows:
                rows[-1] |= _end_row(entry, rows[-1]["started_at"])
    key = get_snapshot(plan)
    return [(key.cluster_id, key.snapshot_id, get_plan_id(plan), *row.values()) for row in rows]


def _start_row(entry: Mapping[str, Any], execution: int, rate: int | None, plan: StoredPlan) -> dict[str, Any]:
    """Return a row of a wave that has not ended; its keys are in the order of the table's columns."""
    wave = plan.waves[entry["wave"] - 1] if entry["direction"] == Direction.APPLY else None
    size, seconds = (None, None) if wave is None else (wave.bytes_to_copy, wave.seconds)
    return {
        "execution": execution,
        "wave": entry["wave"],
        "direction": entry["direction"],
        "started_at": datetime.fromisoformat(entry["at"]),
        "ended_at": None,
        "outcome": "interrupted",
        "partitions": entry["partitions"],
        "pauses": 0,
        "throttle_bytes_per_s": rate,
        "estimated_bytes": None if size is None else round(size),
        "estimated_s": None if seconds is None else float(seconds),
        "copied_bytes": None,
        "actual_s": None,
    }


def _end_row(entry: Mapping[str, Any], started_at: datetime) -> dict[str, Any]:
    ended_at = datetime.fromisoformat(entry["at"])
    return {
        "ended_at": ended_at,
        "outcome": "complete",
        "copied_bytes": entry["copied_bytes"],
        "actual_s": (ended_at - started_at).total_seconds(),
    }
