"""A run: it goes through the stages, each of which reads tables and writes one, and records what has finished."""

import json
import logging
import os
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from time import monotonic

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.config.capacity_file import read_capacity_rows
from pipelines.config.setting_sections import Settings
from pipelines.errors import StoreError
from pipelines.forecast_outcomes import record_outcomes
from pipelines.growth_measurement import measure_growth
from pipelines.ingest.snapshot_reader import check_source
from pipelines.ingest.sources import SnapshotKey, Source, compute_snapshot_id, get_name
from pipelines.maintenance import RETENTION, read_seen
from pipelines.quality import quality_gate
from pipelines.retention import SeenSnapshot
from pipelines.spark.arrow_frames import create_frame, make_rows
from pipelines.spark.delta_tables import EMBEDDED
from pipelines.spark.session import silence_spark
from pipelines.spark.store import Store
from pipelines.spark.table_migrations import migrate_tables
from pipelines.stages.cluster_inputs import check_settings
from pipelines.stages.finished_steps import find_finished_steps, get_program_version
from pipelines.stages.ingest_stages import FILES, count_parts, raw_metadata
from pipelines.stages.scheduler import run_steps
from pipelines.stages.stage_registry import BROKERS, NEEDS, QUALITY, RAW, SETTINGS_SELECTORS, STAGES, Context
from pipelines.tables import TABLES
from pipelines.tables.internal_tables import PACKED_PLANS
from pipelines.tables.ops_tables import QUALITY_RESULTS, RUNS, SUMMARY_STAGE
from pipelines.warehouse_urls import redact_urls

_log = logging.getLogger(__name__)


@dataclass
class Progress:
    """Called when a step begins and ends; a terminal shows it."""

    began: Callable[[str], None] = field(default=lambda step: None)
    ended: Callable[[str, float], None] = field(default=lambda step, seconds: None)


def make_context(
    sources: Sequence[Source], settings: Settings, as_of: datetime, format_name: str | None = None
) -> Context:
    """Make the context of a new run, as of a time (UTC); raise SettingsError if the capacity file is invalid."""
    read_capacity_rows(settings.capacity.file)  # checked now, not after an hour
    keyed = {SnapshotKey(s.cluster_id, compute_snapshot_id(s, format_name)): s for s in sources}
    return Context(uuid.uuid4().hex[:12], as_of, settings, keyed, format_name)


class Run:
    """A run over some steps. seconds: duration of each finished step."""

    def __init__(self, store: Store, context: Context, progress: Progress) -> None:
        self._store = store
        self._context = context
        self._progress = progress
        self._finished: list[tuple[str, float, datetime]] = []
        self.seconds: dict[str, float] = {}
        self.has_trends = False  # whether growth was measured over enough samples: it differs in every run
        self._written: set[str] = set()
        self._finished_before: dict[str, dict[SnapshotKey, int]] = {}

    @property
    def snapshots(self) -> list[SnapshotKey]:
        """The snapshots of the run."""
        return self._context.snapshots

    def go(self, steps: Sequence[str], clock: Callable[[], datetime]) -> None:
        """Run steps in order, recording those that finish; raise StoreError, SettingsError or TableFault."""
        migrate_tables(self._store)
        self._store.check_versions([*steps, QUALITY_RESULTS.name, RUNS.name])
        self._check_inputs(steps)
        # Great Expectations takes seconds to import: it does so while the first stages run.
        import_thread = Thread(target=quality_gate.import_great_expectations, daemon=True)
        if QUALITY in steps:
            import_thread.start()

        def run_step(step: str) -> None:
            began = monotonic()
            self._progress.began(step)
            if step == RAW:
                self._ingest()
            elif step == QUALITY:
                import_thread.join()
                self._check_quality()
            else:
                stage = next(stage for stage in STAGES if stage.table == step)
                frames = {name: self._store.read(name, self._context.snapshots) for name in stage.inputs}
                self._write(step, stage.make(frames, self._context))
            if step == BROKERS:
                self._check_brokers()
            self.seconds[step] = monotonic() - began
            self._finished.append((step, self.seconds[step], clock()))
            self._progress.ended(step, self.seconds[step])

        try:
            with self._store.explain_faults():
                if steps:
                    self._silence_spark()
                run_steps(steps, NEEDS, run_step, self._context.settings.run.parallel_stages)
        except BaseException:
            with suppress(Exception):  # the first error is the cause
                self._record(clock())
            raise
        now = clock()
        with self._store.explain_faults():
            clusters = [key.cluster_id for key in self.snapshots]
            seen = [*read_seen(self._store, clusters, (SUMMARY_STAGE, RETENTION)), *self._list_seen(now)]
            with ThreadPoolExecutor(1) as pool:
                recorded = pool.submit(self._record, now)
                record_outcomes(self._store, seen)
                self.has_trends = measure_growth(self._store, seen, self._context.settings)
                recorded.result()

    def _silence_spark(self) -> None:
        spark = self._store.spark
        if spark.conf.get(EMBEDDED, "false") == "true" and not _log.isEnabledFor(logging.INFO):
            silence_spark(spark)

    def _list_seen(self, now: datetime) -> list[SeenSnapshot]:
        """List the snapshots of the run, if it finished them or found them finished."""
        if not any(name == SUMMARY_STAGE for name in (*self._finished_before, *(name for name, *_ in self._finished))):
            return []
        as_of = self._context.as_of.astimezone(UTC)
        return [SeenSnapshot(key.cluster_id, key.snapshot_id, as_of, now) for key in self.snapshots]

    def unfinished(self, steps: Sequence[str]) -> list[str]:
        """Return the steps that are not finished yet; the others are recorded in ops.runs as seen again."""
        context = self._context
        self._finished_before = find_finished_steps(self._store, steps, NEEDS, context.settings, context.snapshots)
        return [step for step in steps if step not in self._finished_before]

    def _check_inputs(self, steps: Sequence[str]) -> None:
        tables = set(steps)
        stages = [stage for stage in STAGES if stage.table in tables]
        for table, name in ((stage.table, name) for stage in stages for name in stage.inputs if name not in tables):
            if not self._store.exists(name):
                problem = f"{table} needs {name}, which does not exist at {self._store.describe_location(name)}"
                raise StoreError(f"{problem}. Start with an earlier stage: --from {name}")
            if self._lacks_packed_rows(name, table):
                clusters = ", ".join(key.cluster_id for key in self._context.snapshots)
                problem = f"{name} has no rows for these snapshots of {clusters}"
                raise StoreError(f"{problem}. Start with an earlier stage: --from bronze")
        if BROKERS not in tables and any(BROKERS in stage.inputs for stage in stages):
            self._check_brokers()
        for name, select_settings in SETTINGS_SELECTORS.items():
            if name not in tables and any(name in stage.inputs for stage in stages):
                self._check_same_settings(name, select_settings(self._context.settings))

    def _lacks_packed_rows(self, name: str, table: str) -> bool:
        """Tell whether a table has no rows for these snapshots, from which the rows of another are unpacked."""

        def is_empty(name: str) -> bool:
            return self._store.read(name, self._context.snapshots).isEmpty()

        if name == PACKED_PLANS.name:  # a cluster may have no plans
            return is_empty(name) and self._store.exists(table) and not is_empty(table)
        return (name == RAW or name.startswith("internal.")) and is_empty(name)

    def _check_brokers(self) -> None:
        """Raise SettingsError as early as possible if settings name unknown brokers."""
        settings = self._context.settings
        brokers = self._store.read(BROKERS, self._context.snapshots)
        check_settings(brokers, settings.failures.custom, settings.capacity.file)

    def _check_same_settings(self, name: str, expected: str) -> None:
        """Raise StoreError if a table was made with other settings (JSON) than this run's."""
        rows = self._store.read(name, self._context.snapshots).select("settings").distinct().collect()
        for row in rows:
            if row.settings != expected:
                now, then = json.loads(expected), json.loads(row.settings)
                changed = [f"{a}.{b}" for a in now for b in now[a] if now[a][b] != then.get(a, {}).get(b)]
                problem = f"{name} was made with other settings: {', '.join(changed)}"
                raise StoreError(f"{problem}. Use the same settings, or start there: --from {name}")

    def _ingest(self) -> None:
        context = self._context
        first_read = self._read_ingestion_times()
        rows = []
        for key, source in context.sources.items():
            at = first_read.get(key, context.as_of)
            check_source(source, context.format_name, context.settings.ingest.max_file_bytes)
            for file in source.files:
                form = source.choose_format(file, context.format_name)
                place = get_name(file), form, os.fsencode(file.resolve()), at
                parts = count_parts(file.stat().st_size)
                rows += [(key.cluster_id, key.snapshot_id, *place, part, parts) for part in range(parts)]
        files = create_frame(self._store.spark, rows, FILES).repartition(len(rows))
        self._write(RAW, raw_metadata(files, context.settings.ingest.max_file_bytes))

    def _read_ingestion_times(self) -> dict[SnapshotKey, datetime]:
        """Return when those of the run's snapshots that have been read before were first read."""
        if not self._store.exists(RAW):
            return {}
        grouped = self._store.read(RAW, self._context.snapshots).groupBy("cluster_id", "snapshot_id")
        rows = grouped.agg(F.min("ingested_at").alias("at")).collect()
        return {SnapshotKey(row.cluster_id, row.snapshot_id): row.at.astimezone(UTC) for row in rows}

    def _write(self, name: str, rows: DataFrame) -> None:
        self._store.replace(TABLES[name], rows, self._context.snapshots)
        self._written.add(name)

    def _check_quality(self) -> None:
        frames = {t.name: self._store.read(t.name, self._context.snapshots) for t in TABLES.values() if t.gated}
        written = None if self.docs_folder is None else f"the quality pages at {self.docs_folder}"
        with self._store.explain_faults(written):
            findings = quality_gate.check_tables(frames, self.docs_folder)
        snapshots = self._context.snapshots
        checked = quality_gate.count_checked_rows(findings, frames, snapshots)
        rows = quality_gate.make_result_rows(findings, checked, snapshots)
        self._store.replace(QUALITY_RESULTS, make_rows(rows, QUALITY_RESULTS.schema), snapshots)
        quality_gate.require_success(findings)

    @property
    def docs_folder(self) -> str | None:
        """The folder of the quality pages: beside the tables, if these are in a local folder."""
        store = self._context.settings.store
        return str(Path(store.warehouse) / "data_docs") if store.in_folder else None

    def _record(self, now: datetime) -> None:
        context = self._context
        written = [name for name, _, _ in self._finished if name in self._written]
        counts = self._store.count_by_cluster(written, context.snapshots)
        finished = [
            (key, name, counts.get((name, key.cluster_id), 0), seconds, at)
            for name, seconds, at in self._finished
            for key in context.snapshots
        ]
        before = self._finished_before.items()
        finished += [(key, name, count, 0.0, now) for name, rows in before for key, count in rows.items()]
        settings = context.settings.model_dump_json(exclude={"alerts"})  # the address of a webhook is a secret
        common = (context.as_of, get_program_version(), redact_urls(settings))
        rows = [
            (key.cluster_id, key.snapshot_id, context.run_id, name, count, seconds, at, *common)
            for key, name, count, seconds, at in finished
        ]
        if rows:
            self._store.append(RUNS, make_rows(rows, RUNS.schema))
