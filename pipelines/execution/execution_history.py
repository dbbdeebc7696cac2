"""Records the journal of a plan: what each wave took, beside what the plan estimated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.execution.copy_pace import can_compare_time, is_near, list_waves
from pipelines.execution.journal import Journal
from pipelines.ingest.sources import SnapshotKey
from pipelines.plan_files.plan_reader import StoredPlan
from pipelines.spark.arrow_frames import make_rows
from pipelines.tables.execution_tables import PLAN_EXECUTIONS
from pipelines.tables.growth_tables import FORECAST_OUTCOMES, ForecastKind
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
        if not can_compare_time(one, plan):
            continue
        seconds = one["estimated_s"]
        is_as_forecast = is_near(one["actual_s"], seconds)
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


def list_wave_executions(journal: Journal, plan: StoredPlan) -> list[tuple[Any, ...]]:
    """List the waves that were carried out or rolled back: rows of PLAN_EXECUTIONS, in its order of columns."""
    key = get_snapshot(plan)
    return [(key.cluster_id, key.snapshot_id, get_plan_id(plan), *row.values()) for row in list_waves(journal, plan)]
