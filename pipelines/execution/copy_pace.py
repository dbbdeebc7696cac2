"""What the waves of plans took, by their journals, and how long copies of a cluster take beside their estimates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from pipelines.errors import KafkaPlacementError
from pipelines.execution import journal as journal_events
from pipelines.execution.journal import Journal
from pipelines.execution.planned_steps import CopyPace, Direction, PlannedSteps
from pipelines.plan_files.plan_reader import StoredPlan, read_plan
from udfs.planning.plan_request import COPY_TIME_TOLERANCE

_LEAST_WAVES = 3


def make_steps(plan: StoredPlan, folders: Iterable[Path]) -> PlannedSteps:
    """Return the steps of a plan, with the pace that these folders, and those of plans before it, show."""
    return replace(PlannedSteps.of_plan(plan), pace=learn_pace([*folders, *map(Path, plan.preceding_plans)]))


def learn_pace(folders: Iterable[Path]) -> CopyPace:
    """Learn the pace of copies from the journals of plans (folders) that can be read; each folder counts once."""
    ratios = list[float]()
    for folder in dict.fromkeys(folder.resolve() for folder in folders):
        with suppress(KafkaPlacementError, OSError):
            if not (journal := Journal.open(folder)).entries:  # most plans, which are large
                continue
            plan = read_plan(folder)
            waves = list_waves(journal, plan)
            ratios += [wave["actual_s"] / wave["estimated_s"] for wave in waves if can_compare_time(wave, plan)]
    return CopyPace(median(ratios), len(ratios)) if len(ratios) >= _LEAST_WAVES else CopyPace(waves=len(ratios))


def can_compare_time(wave: Mapping[str, Any], plan: StoredPlan) -> bool:
    """Return whether a wave (as of list_waves) took the time of what the plan estimated.

    It copied the bytes of the plan in one call, without a pause, and with the throttle of the plan.
    """
    is_whole = wave["outcome"] == "complete" and wave["direction"] == Direction.APPLY and not wave["pauses"]
    is_whole &= wave["throttle_bytes_per_s"] == plan.throttle_bytes_per_s
    estimated = wave["estimated_bytes"]
    return bool(is_whole and estimated and wave["estimated_s"] and is_near(wave["copied_bytes"] or 0, estimated))


def is_near(actual: float, forecast: float) -> bool:
    """Return whether a value is as forecast."""
    return abs(actual - forecast) <= COPY_TIME_TOLERANCE * forecast


def list_waves(journal: Journal, plan: StoredPlan) -> list[dict[str, Any]]:
    """List the waves that were carried out or rolled back: what gold.plan_executions has of each, in its order."""
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
    return rows


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
