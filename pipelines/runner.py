"""How a run goes through the stages: each reads tables and writes one, and what has finished is noted."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from time import monotonic

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines import quality
from pipelines.config.settings import Settings
from pipelines.errors import StoreError
from pipelines.ingest.detect import read_files
from pipelines.ingest.sources import SnapshotKey, Source, snapshot_id_of
from pipelines.spark.local_frames import frame_of_rows
from pipelines.spark.store import Store
from pipelines.stages.cluster_inputs import check_named, read_limits
from pipelines.stages.finished_stages import finished_steps, program_version
from pipelines.stages.raw_metadata_stage import FILES, raw_metadata
from pipelines.stages.scheduler import run_steps
from pipelines.stages.stage_registry import BROKERS, NEEDS, QUALITY, RAW, RESTS_ON, STAGES, Context
from pipelines.tables import TABLES
from pipelines.tables.ops_tables import QUALITY_RESULTS, RUNS


@dataclass
class Progress:
    """Told of every step; a terminal shows it."""

    began: Callable[[str], None] = field(default=lambda step: None)
    ended: Callable[[str, float], None] = field(default=lambda step, seconds: None)


def make_context(
    sources: Sequence[Source], settings: Settings, as_of: datetime, format_name: str | None = None
) -> Context:
    """The context of a new run over these sources."""
    read_limits(settings.capacity.file)  # for its errors: now, not after an hour
    keyed = {SnapshotKey(s.cluster_id, snapshot_id_of(s, format_name)): s for s in sources}
    return Context(uuid.uuid4().hex[:12], as_of, settings, keyed, format_name)


class Run:
    """One run over some steps. seconds: that each finished step took."""

    def __init__(self, spark: SparkSession, store: Store, context: Context, progress: Progress) -> None:
        self._spark = spark
        self._store = store
        self._context = context
        self._progress = progress
        self._finished: list[tuple[str, float, datetime]] = []
        self.seconds: dict[str, float] = {}
        self._written: set[str] = set()
        self._kept: dict[str, dict[SnapshotKey, int]] = {}

    def go(self, steps: Sequence[str], clock: Callable[[], datetime]) -> None:
        """Run the steps in order. What has finished is in ops.runs, also when a later step fails."""
        self._check_inputs(steps)
        # Great Expectations takes seconds to import: let that pass while the first stages run.
        ready = Thread(target=quality.warm_up, daemon=True)
        if QUALITY in steps:
            ready.start()

        def work(step: str) -> None:
            began = monotonic()
            self._progress.began(step)
            if step == RAW:
                self._ingest()
            elif step == QUALITY:
                ready.join()
                self._gate()
            else:
                self._make(step)
            if step == BROKERS:
                self._check_named()
            self.seconds[step] = monotonic() - began
            self._finished.append((step, self.seconds[step], clock()))
            self._progress.ended(step, self.seconds[step])

        try:
            run_steps(steps, NEEDS, work, self._context.settings.run.parallel_stages)
        finally:
            self._log(clock())

    def unfinished(self, steps: Sequence[str]) -> list[str]:
        """Return the steps that are not finished yet. The others are noted in ops.runs, as seen again by this run."""
        context = self._context
        self._kept = finished_steps(self._store, steps, NEEDS, context.settings, context.snapshots)
        return [step for step in steps if step not in self._kept]

    def _check_inputs(self, steps: Sequence[str]) -> None:
        made = set(steps)
        for stage in STAGES:
            for name in stage.inputs if stage.table in made else ():
                if name not in made and not self._store.exists(name):
                    problem = f"{stage.table} needs {name}, which does not exist at {self._store.place(name)}"
                    raise StoreError(f"{problem}. Begin with an earlier stage: --from {name}")
                if name not in made and self._store.read(name, self._context.snapshots).isEmpty():
                    held = ", ".join(k.cluster_id for k in self._context.snapshots)
                    if name in (RAW, "internal.entities"):
                        problem = f"{name} has no row of these snapshots of {held}"
                        raise StoreError(f"{problem}. Begin with an earlier stage: --from bronze")

        if BROKERS not in made and any(BROKERS in stage.inputs for stage in STAGES if stage.table in made):
            self._check_named()
        self._check_settings(made)

    def _check_named(self) -> None:
        """Nothing; SettingsError as soon as can be if settings name brokers that are not there."""
        settings = self._context.settings
        check_named(self._store.read(BROKERS, self._context.snapshots), settings.failures.lists, settings.capacity.file)

    def _check_settings(self, made: set[str]) -> None:
        """Nothing; StoreError if sums or plans that are there already follow from other settings than this run's."""
        for name, rest_on in RESTS_ON.items():
            if name in made or not any(name in stage.inputs for stage in STAGES if stage.table in made):
                continue
            wanted = rest_on(self._context.settings)
            held = self._store.read(name, self._context.snapshots).select("settings").distinct().collect()
            for row in held:
                if row.settings != wanted:
                    mine, theirs = json.loads(wanted), json.loads(row.settings)
                    other = [f"{a}.{b}" for a in mine for b in mine[a] if mine[a][b] != theirs.get(a, {}).get(b)]
                    problem = f"{name} was made with other settings of {', '.join(other)}"
                    raise StoreError(f"{problem}. Use the same, or begin there: --from {name}")

    def _ingest(self) -> None:
        context = self._context
        rows = []
        seen = self._first_ingested()
        for key, source in context.sources.items():
            at = seen.get(key, context.as_of)
            for file, chosen, _ in read_files(source, context.format_name):
                rows.append((key.cluster_id, key.snapshot_id, file.name, chosen.name, str(file.resolve()), at))
        files = frame_of_rows(self._spark, rows, FILES).repartition(len(rows))
        self._write(RAW, raw_metadata(files))

    def _first_ingested(self) -> dict[SnapshotKey, datetime]:
        """When those of the run's snapshots were first read that have been read before."""
        if not self._store.exists(RAW):
            return {}
        held = self._store.read(RAW, self._context.snapshots).groupBy("cluster_id", "snapshot_id")
        rows = held.agg(F.min("ingested_at").alias("at")).collect()
        return {SnapshotKey(row.cluster_id, row.snapshot_id): row.at.astimezone(UTC) for row in rows}

    def _make(self, table: str) -> None:
        stage = next(stage for stage in STAGES if stage.table == table)
        frames = {name: self._store.read(name, self._context.snapshots) for name in stage.inputs}
        self._write(stage.table, stage.make(frames, self._context))

    def _write(self, name: str, rows: DataFrame) -> None:
        self._store.replace(TABLES[name], rows, self._context.snapshots)
        self._written.add(name)

    def _gate(self) -> None:
        names = [t.name for t in TABLES.values() if t.gated]
        frames = {name: self._store.read(name, self._context.snapshots) for name in names}
        findings = quality.check(frames, self.docs_folder)
        snapshots = self._context.snapshots
        rows = quality.results_frame_rows(findings, quality.checked_rows(findings, frames, snapshots), snapshots)
        frame = frame_of_rows(self._spark, rows, QUALITY_RESULTS.schema)
        self._store.replace(QUALITY_RESULTS, frame, snapshots)
        quality.gate(findings)

    @property
    def docs_folder(self) -> str | None:
        """Where the quality pages are written: beside the tables, if these are in a local folder."""
        store = self._context.settings.store
        return str(Path(store.warehouse) / "data_docs") if store.in_folder else None

    def _log(self, now: datetime) -> None:
        """Append to ops.runs what has finished, and what was finished before: rows of each cluster by stage."""
        names = [name for name, _, _ in self._finished if name in self._written]
        context = self._context
        counts = self._store.rows_by_cluster(names, context.snapshots)
        settings = context.settings.model_dump_json()
        done = [
            (key, name, counts.get((name, key.cluster_id), 0), seconds, at)
            for name, seconds, at in self._finished
            for key in context.snapshots
        ]
        kept = [(key, name, count, 0.0, now) for name, rows in self._kept.items() for key, count in rows.items()]
        same = (context.as_of, program_version(), settings)
        log = [
            (key.cluster_id, key.snapshot_id, context.run_id, name, name, count, seconds, at, *same)
            for key, name, count, seconds, at in (*done, *kept)
        ]
        if log:
            self._store.append(RUNS, frame_of_rows(self._spark, log, RUNS.schema))
