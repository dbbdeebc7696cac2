"""Which stages of a run are finished already: over the same snapshots, with the same settings, by the same code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from pipelines import __version__
from pipelines.config.settings import Settings
from pipelines.ingest.sources import SnapshotKey
from pipelines.spark.store import Store
from pipelines.tables.ops_tables import QUALITY_RESULTS, RUNS

# Where tables are and how fast they are made changes nothing in them.
_WITHOUT_EFFECT = ("store", "ingest")
_CODE = ("pipelines", "udfs")
_NOTED = ("cluster_id", "snapshot_id", "stage", "finished_at", "rows", "version", "settings")
TABLE_OF = {"quality": QUALITY_RESULTS.name}


@cache
def program_version() -> str:
    """Return the version of the program with a digest of its code: changed code makes other tables."""
    digest = hashlib.sha256()
    root = Path(__file__).parents[2]
    for source in sorted(file for folder in _CODE for file in (root / folder).rglob("*.py")):
        digest.update(source.read_bytes())
    return f"{__version__}+{digest.hexdigest()[:12]}"


def finished_steps(
    store: Store,
    steps: Sequence[str],
    needs: Mapping[str, Sequence[str]],
    settings: Settings,
    keys: Sequence[SnapshotKey],
) -> dict[str, dict[SnapshotKey, int]]:
    """Find the steps whose tables are as this run would make them again.

    Args:
        store: of the tables.
        steps: of the run, in order.
        needs: by step, the steps that it reads from.
        settings: of the run.
        keys: the snapshots of the run.

    Returns:
        By finished step, how many rows each snapshot has in its table. A step counts only if it is the last that was
        done to its table for all snapshots, what it needs was finished before it, and the table is still there. A file
        with capacities may have changed, so that nothing counts where there is one.
    """
    if settings.capacity.file or not store.exists(RUNS.name):
        return {}
    last: dict[tuple[str, SnapshotKey], dict[str, Any]] = {}
    for row in store.rows(RUNS.name, keys, _NOTED):
        at = row["stage"], SnapshotKey(row["cluster_id"], row["snapshot_id"])
        if at not in last or last[at]["finished_at"] < row["finished_at"]:
            last[at] = row
    wanted = _relevant(settings.model_dump(mode="json"))
    same: dict[str, bool] = {}
    found: dict[str, dict[SnapshotKey, tuple[datetime, int]]] = {}
    for (stage, key), row in last.items():
        text = row["settings"]
        if text not in same:
            same[text] = _relevant(json.loads(text)) == wanted
        if same[text] and row["version"] == program_version():
            found.setdefault(stage, {})[key] = (row["finished_at"], row["rows"])
    out: dict[str, dict[SnapshotKey, int]] = {}
    for step in steps:
        mine = found.get(step, {})
        before = [need for need in needs.get(step, ()) if need in steps]
        in_order = all(need in out and all(found[need][key][0] <= mine[key][0] for key in mine) for need in before)
        counts = {key: count for key, (_, count) in mine.items()}
        if set(mine) == set(keys) and in_order and store.may_hold(TABLE_OF.get(step, step), sum(counts.values())):
            out[step] = counts
    return out


def _relevant(settings: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: values for name, values in settings.items() if name not in _WITHOUT_EFFECT}
    return {**kept, "run": {name: value for name, value in kept["run"].items() if name != "parallel_stages"}}
