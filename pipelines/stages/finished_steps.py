"""Find the steps that are finished for these sources, settings and code, so that a run can skip them."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from pipelines import __version__
from pipelines.config.setting_sections import Settings
from pipelines.ingest.sources import SnapshotKey
from pipelines.spark.store import Store
from pipelines.tables.ops_tables import QUALITY_RESULTS, RUNS

# Where tables are, and how fast they are computed, changes no row; growth is measured in every run.
_IRRELEVANT_SECTIONS = ("store", "ingest", "alerts", "growth", "retention")
_IRRELEVANT_OF_RUN = ("parallel_stages", "engine")


_COLUMNS = ("cluster_id", "snapshot_id", "stage", "finished_at", "rows", "version", "settings")


@cache
def get_program_version() -> str:
    """Return the version of the program with a digest of its code, because other code may write other rows."""
    digest = hashlib.sha256()
    root = Path(__file__).parents[2]
    for file in sorted(file for package in ("pipelines", "udfs") for file in (root / package).rglob("*.py")):
        digest.update(file.read_bytes())
    return f"{__version__}+{digest.hexdigest()[:12]}"


def find_finished_steps(
    store: Store,
    steps: Sequence[str],
    needs: Mapping[str, Sequence[str]],
    settings: Settings,
    snapshots: Sequence[SnapshotKey],
) -> dict[str, dict[SnapshotKey, int]]:
    """Find the steps whose tables have the rows that this run would write, by snapshot; none with a capacity file.

    Their last run had the same settings and code, came after the steps that they need, and their table still exists.
    """
    if settings.capacity.file or not store.exists(RUNS.name):
        return {}
    current = _read_current_runs(store, settings, snapshots)
    finished: dict[str, dict[SnapshotKey, int]] = {}
    for step in steps:
        runs = current.get(step, {})
        if set(runs) != set(snapshots):
            continue
        in_order = all(
            need in finished and all(current[need][key][0] <= runs[key][0] for key in runs)
            for need in needs.get(step, ())
            if need in steps
        )
        rows = {key: count for key, (_, count) in runs.items()}
        if in_order and store.can_have_rows(QUALITY_RESULTS.name if step == "quality" else step, sum(rows.values())):
            finished[step] = rows
    return finished


def _read_current_runs(
    store: Store, settings: Settings, snapshots: Sequence[SnapshotKey]
) -> dict[str, dict[SnapshotKey, tuple[datetime, int]]]:
    """Read time and rows of the last run of each step and snapshot, if it had these settings and this code."""
    last: dict[tuple[str, SnapshotKey], dict[str, Any]] = {}
    for row in store.read_rows(RUNS.name, snapshots, _COLUMNS):
        key = row["stage"], SnapshotKey(row["cluster_id"], row["snapshot_id"])
        if key not in last or last[key]["finished_at"] < row["finished_at"]:
            last[key] = row
    relevant = _select_relevant(settings.model_dump(mode="json"))
    is_same = cache(lambda text: _select_relevant(json.loads(text)) == relevant)
    current: dict[str, dict[SnapshotKey, tuple[datetime, int]]] = {}
    for (step, snapshot), row in last.items():
        if is_same(row["settings"]) and row["version"] == get_program_version():
            current.setdefault(step, {})[snapshot] = (row["finished_at"], row["rows"])
    return current


def _select_relevant(settings: Mapping[str, Any]) -> dict[str, Any]:
    relevant = {name: values for name, values in settings.items() if name not in _IRRELEVANT_SECTIONS}
    return {
        **relevant,
        "run": {name: value for name, value in relevant["run"].items() if name not in _IRRELEVANT_OF_RUN},
    }
