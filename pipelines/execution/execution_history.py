"""Records the journal of a plan: what each wave took, beside what the plan estimated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.execution import journal as journal_events
from pipelines.execution.journal import Journal
from pipelines.execution.planned_steps import Direction
from pipelines.ingest.sources import SnapshotKey
from pipelines.plan_files.plan_reader import StoredPlan
from pipelines.spark.arrow_frames import make_rows
from pipelines.tables.execution_tables import PLAN_EXECUTIONS
from pipelines.tables.growth_tables import COPY_TIME_TOLERANCE, FORECAST_OUTCOMES, ForecastKind
from pipelines.tables.table_contract import Table

if TYPE_CHECKING:
    from pipelines.spark.store import Store

_DIGITS = 16  # of the ids, as snapshot ids have


def get_snapshot(plan: StoredPlan) -> SnapshotKey:
    """Return the cluster and the digest of its assignment before the plan: where the rows of a plan are."""
    return SnapshotKey(plan.cluster, plan.sha256[:_DIGITS])


def get_plan_id(plan: StoredPlan) -> str:
    """Return what distinguishes the plans for one assignment."""
    return plan.plan_sha256[:_DIGITS]


def record_executions(store: Store, folder: Path, plan: StoredPlan) -> int:
    """Write what the waves of a plan took to gold.plan_executions, and to gold.forecast_outcomes; count the waves.

    Rows that the plan had are replaced.
    """
    rows = list_wave_executions(Journal.open(folder), plan)
    _replace(store, PLAN_EXECUTIONS, rows, plan)
    _replace(store, FORECAST_OUTCOMES, list_copy_outcomes(rows, plan), plan)
    return len(rows)


def _replace(store: Store, table: Table, rows: Sequence[tuple[Any, ...]], plan: StoredPlan) -> None:
    """Replace the rows of a plan; those of other plans for the same assignment stay."""
    key, names = get_snapshot(plan), table.column_names
    others = store.read_rows(table.name, [key], names) if store.exists(table.name) else []
    of_others = [tuple(row[name] for name in names) for row in others if row["plan_id"] != get_plan_id(plan)]
    store.replace(table, make_rows([*of_others, *rows], table.schema), [key])


def list_copy_outcomes(executions: Sequence[tuple[Any, ...]], plan: StoredPlan) -> list[tuple[Any, ...]]:
    """List the waves whose time can be compared with the plan's: rows of FORECAST_OUTCOMES.

    Those that copied the bytes of the plan in one call, without a pause, and with the throttle of the plan.

    executions: rows of PLAN_EXECUTIONS.
    """
    rows = []
    for one in (dict(zip(PLAN_EXECUTIONS.column_names, values, strict=True)) for values in executions):
        is_whole = one["outcome"] == "complete" and one["direction"] == Direction.APPLY and not one["pauses"]
        is_whole &= one["throttle_bytes_per_s"] == plan.throttle_bytes_per_s
        estimated, seconds = one["estimated_bytes"], one["estimated_s"]
        if not (is_whole and estimated and seconds and _is_near(one["copied_bytes"] or 0, estimated)):
            continue
        is_as_forecast = _is_near(one["actual_s"], seconds)
        values = {
            **one,
            "forecast_kind": ForecastKind.COPY_TIME.value,
            "forecast_at": one["started_at"],
            "outcome_at": one["ended_at"],
            "forecasts": 1,
            "as_forecast": int(is_as_forecast),
            "forecast_value": seconds,
            "actual_value": one["actual_s"],
        }
        rows.append(tuple(values.get(name) for name in FORECAST_OUTCOMES.column_names))
    return rows


def _is_near(actual: float, forecast: float) -> bool:
    return abs(actual - forecast) <= COPY_TIME_TOLERANCE * forecast


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
