"""Maintain the tables of a warehouse: delete snapshots that no longer stay, write few files, remove unused ones."""

import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from pipelines.config.setting_sections import Settings
from pipelines.errors import StoreError
from pipelines.ingest.sources import SnapshotKey
from pipelines.retention import SeenSnapshot, choose_expired
from pipelines.spark.arrow_frames import make_rows
from pipelines.spark.store import Store
from pipelines.spark.table_migrations import migrate_tables
from pipelines.spark.view_tables import publish_views
from pipelines.spark.views import VIEWS
from pipelines.stages.finished_steps import get_program_version
from pipelines.tables import TABLES
from pipelines.tables.ops_tables import RUNS, SUMMARY_STAGE
from pipelines.warehouse_urls import redact_urls

RETENTION = "retention"  # the stage of ops.runs that records a deletion
# Rows that stay: what growth needs, and what people have done. ops.runs loses those of stages.
_LASTING = ("gold.load_history", "ops.alerts", "gold.plan_executions", "gold.forecast_outcomes", RUNS.name)
_RUNS_BETWEEN = 8
_LAST_DELETED = "silver.source_summary"  # every snapshot has rows of it: while it has, a deletion is not finished


@dataclass(frozen=True)
class DeletedSnapshot:
    """A snapshot that no longer stays."""

    cluster_id: str
    snapshot_id: str
    rows: int  # of all tables


@dataclass(frozen=True)
class CompactedTable:
    """A table whose rows were written to fewer files."""

    name: str
    files_before: int
    files_after: int


@dataclass(frozen=True)
class MaintenanceResult:
    """What was done."""

    upgraded: Sequence[str]  # tables of an earlier version
    deleted: Sequence[DeletedSnapshot]
    compacted: Sequence[CompactedTable]
    removed_files: int  # that tables no longer had


def read_seen(
    store: Store, clusters: Sequence[str] = (), stages: Sequence[str] = (SUMMARY_STAGE,)
) -> list[SeenSnapshot]:
    """Read when runs saw clusters (none = all) whose snapshots are there, or with RETENTION, which were deleted."""
    rows = _read_runs(store)
    return _find_last(row for stage, row in rows if stage in stages and (not clusters or row.cluster_id in clusters))


def _read_runs(store: Store) -> list[tuple[str, SeenSnapshot]]:
    """Read the finished stages of all snapshots."""
    if not store.exists(RUNS.name):
        return []
    columns = ("stage", *SeenSnapshot._fields)
    rows = store.read_columns(RUNS.name, columns)
    return [(stage, SeenSnapshot(*row)) for stage, *row in zip(*(rows[n].to_pylist() for n in columns), strict=True)]


def _find_last(rows: Iterable[SeenSnapshot]) -> list[SeenSnapshot]:
    """Find when runs saw clusters, each time with the last stage that finished then."""
    last: dict[tuple[str, str, datetime], datetime] = {}
    for cluster, snapshot, as_of, finished_at in rows:
        key = cluster, snapshot, as_of.astimezone(UTC)
        last[key] = max(last.get(key, finished_at), finished_at)
    return [SeenSnapshot(*key, at.astimezone(UTC)) for key, at in last.items()]


def is_due(store: Store) -> bool:
    """Tell whether a run that has ended should maintain the tables: every few runs, in a folder of this machine.

    Elsewhere other programs may write at the same time, and the platform may do it.
    """
    return store.has_local_files and store.last_version(RUNS.name) % _RUNS_BETWEEN == 0


def maintain_tables(store: Store, settings: Settings, now: datetime) -> MaintenanceResult:
    """Delete what no longer stays, and write tables of many files to few; each step may be repeated after a crash.

    Before, tables of an earlier version are upgraded, and the views of their rows written anew.
    """
    if upgraded := migrate_tables(store):
        publish_views(store)
    views = () if settings.store.catalog else (view.name for view in VIEWS)  # in a folder, they are tables too
    names = [name for name in (*TABLES, *views) if store.exists(name)]
    if not names:
        problem = f"there are no tables at {redact_urls(settings.store.catalog or store.warehouse)}"
        raise StoreError(f"{problem}. Create them: kafka-placement run SOURCE...")
    # First, as the disk may be full.
    removed = sum(store.vacuum(name, settings.retention.unused_file_days) for name in names)
    if deleted := _delete_expired(store, settings, now):
        publish_views(store)
    compacted = []
    for name in names:
        before = store.count_files(name)
        if before > settings.retention.max_files:
            store.compact(name)
            compacted.append(CompactedTable(name, before, store.count_files(name)))
    for name in names if deleted else [table.name for table in compacted]:  # those that may have new unused files
        removed += store.vacuum(name, settings.retention.unused_file_days)
    return MaintenanceResult(upgraded, deleted, compacted, removed)


def _delete_expired(store: Store, settings: Settings, now: datetime) -> list[DeletedSnapshot]:
    rows = _read_runs(store)
    seen = _find_last(row for stage, row in rows if stage == SUMMARY_STAGE)
    begun = _find_last(row for stage, row in rows if stage != RETENTION)
    recorded = _find_last(row for stage, row in rows if stage == RETENTION)
    expired = choose_expired(seen, settings.retention, now, begun)
    present = {one.key for one in begun} - expired
    unfinished = {one.key for one in recorded} - present
    keys = sorted(expired | (unfinished & _list_snapshots(store)))
    if not keys:
        return []
    names = [
        name for name, table in TABLES.items() if not (name in _LASTING or table.only_newest or not store.exists(name))
    ]
    counts: Counter[SnapshotKey] = Counter()
    for name in names:
        counts.update(_count_rows(store.read_columns(name, ("cluster_id", "snapshot_id"), keys)))
    recorded_at = {one[:3]: one.finished_at for one in recorded}  # by an attempt that was interrupted
    new = [one for one in begun if one.key in expired and recorded_at.get(one[:3], one.finished_at) <= one.finished_at]
    _record(store, settings, new, counts, now)
    # First the snapshots disappear, then their rows, so that no reader sees half a snapshot.
    store.delete(RUNS.name, keys, f"stage <> '{RETENTION}'")
    for name in sorted(names, key=lambda name: name == _LAST_DELETED):
        store.delete(name, keys)
    return [DeletedSnapshot(key.cluster_id, key.snapshot_id, counts[key]) for key in keys]


def _list_snapshots(store: Store) -> set[SnapshotKey]:
    if not store.exists(_LAST_DELETED):
        return set()
    return set(_count_rows(store.read_columns(_LAST_DELETED, ("cluster_id", "snapshot_id"))))


def _count_rows(rows: pa.Table) -> dict[SnapshotKey, int]:
    counts = rows.group_by(["cluster_id", "snapshot_id"]).aggregate([([], "count_all")]).to_pylist()
    return {SnapshotKey(row["cluster_id"], row["snapshot_id"]): row["count_all"] for row in counts}


def _record(
    store: Store, settings: Settings, seen: Iterable[SeenSnapshot], counts: Counter[SnapshotKey], now: datetime
) -> None:
    """Record in ops.runs that snapshots are deleted: their rows, and when they were seen."""
    run_id, text = uuid.uuid4().hex[:12], redact_urls(settings.retention.model_dump_json())
    rows = [
        (
            one.cluster_id,
            one.snapshot_id,
            run_id,
            RETENTION,
            counts[one.key],
            0.0,
            now,
            one.as_of,
            get_program_version(),
            text,
        )
        for one in seen
    ]
    if rows:
        store.append(RUNS, make_rows(rows, RUNS.schema))
