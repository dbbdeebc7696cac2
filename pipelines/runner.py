"""The ordered list of stages, and how a run goes through it."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from threading import Thread
from time import monotonic

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines import __version__, quality
from pipelines.errors import SettingsError, StoreError
from pipelines.ingest.detect import read_files
from pipelines.ingest.sources import SnapshotKey, Source, snapshot_id_of
from pipelines.schedule import run_steps
from pipelines.settings import Settings
from pipelines.stages import (
    broker_load,
    failures,
    hotspot_odds,
    leader_hotspots,
    placements,
    scheme_comparison,
    silver,
    takeovers,
    topic_origin,
)
from pipelines.stages.entities import EntityParameters, entities
from pipelines.stages.raw_metadata import FILES_DDL, raw_metadata
from pipelines.store import Store
from pipelines.tables import TABLES
from pipelines.tables.ops import QUALITY_RESULTS, RUNS
from udfs.hotspot_batches import Plan
from udfs.placement import LivingBrokers
from udfs.schemes import computed

Frames = Mapping[str, DataFrame]
QUALITY = "quality"


@dataclass(frozen=True)
class Context:
    """What a run knows beside its tables."""

    run_id: str
    as_of: datetime
    settings: Settings
    sources: Mapping[SnapshotKey, Source]
    format_name: str | None = None

    @property
    def snapshots(self) -> list[SnapshotKey]:
        return sorted(self.sources)


@dataclass(frozen=True)
class Stage:
    """Reads tables (`inputs`), makes the rows of one (`table`)."""

    table: str
    inputs: tuple[str, ...]
    make: Callable[[Frames, Context], DataFrame]


def _shares(context: Context) -> dict[str, int]:
    limit = context.settings.ingest.share_bytes
    sizes = {key.cluster_id: source.size_bytes for key, source in context.sources.items()}
    return {cluster: max(1, math.ceil(size / limit)) for cluster, size in sizes.items()}


def _placements(t: Frames, context: Context) -> DataFrame:
    run = context.settings.run
    # Brokers, unlike partitions, are few: their lists go to the workers with the function.
    rows = t["silver.brokers"].where("alive").select("cluster_id", "snapshot_id", "broker_id", "rack").collect()
    found: dict[tuple[str, str], list[tuple[int, str | None]]] = {}
    for row in rows:
        found.setdefault((row.cluster_id, row.snapshot_id), []).append((row.broker_id, row.rack))
    living = {}
    for key, brokers in found.items():
        ids, racks = zip(*sorted(brokers, key=lambda broker: broker[0]), strict=True)
        living[key] = LivingBrokers(ids, racks)
    parameters = placements.PlacementParameters(run.schemes, run.seed, living)
    return placements.placements(t["silver.topics"], t["silver.partitions"], parameters)


def _takeovers(t: Frames, context: Context) -> DataFrame:
    topics = context.settings.topics
    parameters = takeovers.ElectionParameters(topics.min_insync_replicas, topics.unclean_leader_election)
    return takeovers.takeovers(t["gold.placements"], t["silver.topics"], t["silver.brokers"], parameters)


def _hotspots(t: Frames, context: Context) -> DataFrame:
    parameters = leader_hotspots.HotspotParameters(context.settings.hotspots.hot_ratio)
    return leader_hotspots.leader_hotspots(t["gold.placements"], t["silver.brokers"], parameters)


def _hotspot_odds(t: Frames, context: Context) -> DataFrame:
    run, hotspots = context.settings.run, context.settings.hotspots
    schemes = [name for name in run.schemes if computed(name)]
    # Shares are by the sources' bytes: where there are many topics, there are many.
    chunks = min(hotspots.seeds, max(1, sum(_shares(context).values()) - len(context.sources) + 1))
    plan = Plan(schemes, run.seed, hotspots.seeds, hotspots.work, chunks)
    tables = (t["silver.topics"], t[_BROKERS], t["silver.partitions"])
    return hotspot_odds.hotspot_odds(*tables, plan, hotspots.thresholds)


_RAW, _ENTITIES = "bronze.raw_metadata", "silver.entities"
_BROKERS, _LOAD = "silver.brokers", "gold.broker_load"

# In order: each stage's inputs are made by stages before it. bronze.raw_metadata comes first, from files.
STAGES: tuple[Stage, ...] = (
    Stage(_ENTITIES, (_RAW,), lambda t, c: entities(t[_RAW], EntityParameters(_shares(c)))),
    Stage(_BROKERS, (_ENTITIES,), lambda t, c: silver.brokers(t[_ENTITIES])),
    Stage("silver.topics", (_ENTITIES,), lambda t, c: silver.topics(t[_ENTITIES])),
    Stage("silver.partitions", (_ENTITIES, _BROKERS), lambda t, c: silver.partitions(t[_ENTITIES], t[_BROKERS])),
    Stage(
        "silver.replicas",
        (_ENTITIES, "silver.partitions"),
        lambda t, c: silver.replicas(t[_ENTITIES], t["silver.partitions"]),
    ),
    Stage("silver.quarantine", (_ENTITIES, _RAW), lambda t, c: silver.quarantine(t[_ENTITIES], t[_RAW])),
    Stage(
        "silver.contradictions", (_ENTITIES, _BROKERS), lambda t, c: silver.contradictions(t[_ENTITIES], t[_BROKERS])
    ),
    Stage("silver.source_accounts", (_ENTITIES, _RAW), lambda t, c: silver.source_accounts(t[_ENTITIES], t[_RAW])),
    Stage("gold.placements", ("silver.topics", _BROKERS, "silver.partitions"), _placements),
    Stage(
        _LOAD,
        ("gold.placements", _BROKERS),
        lambda t, c: broker_load.broker_load(t["gold.placements"], t[_BROKERS], c.settings.run.schemes),
    ),
    Stage("gold.leader_hotspots", ("gold.placements", _BROKERS), _hotspots),
    Stage("gold.hotspot_odds", ("silver.topics", _BROKERS, "silver.partitions"), _hotspot_odds),
    Stage("gold.takeovers", ("gold.placements", "silver.topics", _BROKERS), _takeovers),
    Stage(
        "gold.failure_load",
        (_LOAD, "gold.takeovers"),
        lambda t, c: failures.failure_load(t[_LOAD], t["gold.takeovers"]),
    ),
    Stage(
        "gold.failure_summary",
        ("gold.failure_load", _LOAD, "gold.takeovers"),
        lambda t, c: failures.failure_summary(t["gold.failure_load"], t[_LOAD], t["gold.takeovers"]),
    ),
    Stage(
        "gold.scheme_comparison",
        ("gold.leader_hotspots", "gold.failure_summary"),
        lambda t, c: scheme_comparison.scheme_comparison(t["gold.leader_hotspots"], t["gold.failure_summary"]),
    ),
    Stage(
        "gold.topic_origin",
        ("silver.topics", "silver.partitions", _BROKERS),
        lambda t, c: topic_origin.topic_origin(t["silver.topics"], t["silver.partitions"], t[_BROKERS]),
    ),
    Stage(
        "gold.cluster_origin",
        ("gold.topic_origin",),
        lambda t, c: topic_origin.cluster_origin(t["gold.topic_origin"]),
    ),
)

# Every step by name, in order: what --from and --to take. The gate stands before gold.
_FIRST_GOLD = next(i for i, stage in enumerate(STAGES) if stage.table.startswith("gold."))
STEPS: tuple[str, ...] = (
    _RAW,
    *(stage.table for stage in STAGES[:_FIRST_GOLD]),
    QUALITY,
    *(stage.table for stage in STAGES[_FIRST_GOLD:]),
)

# The gate waits for all that it checks, and gold for the gate.
_NEEDS: dict[str, tuple[str, ...]] = {
    QUALITY: tuple(stage.table for stage in STAGES[:_FIRST_GOLD]),
    **{stage.table: stage.inputs for stage in STAGES[:_FIRST_GOLD]},
    **{stage.table: (*stage.inputs, QUALITY) for stage in STAGES[_FIRST_GOLD:]},
}


def steps_between(first: str | None, last: str | None) -> list[str]:
    """The steps from `first` to `last`, both included: names of STEPS, their last parts, or bronze, silver, gold.

    The gate is among them wherever a gold table is.
    """

    def matching(name: str) -> list[int]:
        found = [i for i, step in enumerate(STEPS) if name in (step, step.split(".")[-1], step.split(".")[0])]
        if not found:
            raise SettingsError(f"there is no stage {name!r}; there are bronze, silver, gold, {', '.join(STEPS)}")
        return found

    begin = matching(first)[0] if first else 0
    end = matching(last)[-1] if last else len(STEPS) - 1
    if begin > end:
        raise SettingsError(f"--from {first} comes after --to {last}")
    steps = list(STEPS[begin : end + 1])
    behind_the_gate = QUALITY not in steps and steps[-1].startswith("gold.")
    return [QUALITY, *steps] if behind_the_gate else steps


@dataclass
class Progress:
    """Told of every step; a terminal shows it."""

    began: Callable[[str], None] = field(default=lambda step: None)
    ended: Callable[[str, float], None] = field(default=lambda step, seconds: None)


def make_context(
    sources: Sequence[Source], settings: Settings, as_of: datetime, format_name: str | None = None
) -> Context:
    """The context of a new run over these sources."""
    keyed = {SnapshotKey(s.cluster_id, snapshot_id_of(s, format_name)): s for s in sources}
    return Context(uuid.uuid4().hex[:12], as_of, settings, keyed, format_name)


class Run:
    """One run over some steps."""

    def __init__(self, spark: SparkSession, store: Store, context: Context, progress: Progress) -> None:
        self._spark = spark
        self._store = store
        self._context = context
        self._progress = progress
        self._finished: list[tuple[str, float, datetime]] = []
        self._written: set[str] = set()

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
            if step == _RAW:
                self._ingest()
            elif step == QUALITY:
                ready.join()
                self._gate()
            else:
                self._make(step)
            self._finished.append((step, monotonic() - began, clock()))
            self._progress.ended(step, monotonic() - began)

        try:
            run_steps(steps, _NEEDS, work, self._context.settings.run.stages_at_once)
        finally:
            self._log()

    def _check_inputs(self, steps: Sequence[str]) -> None:
        made = set(steps)
        for stage in STAGES:
            for name in stage.inputs if stage.table in made else ():
                if name not in made and not self._store.exists(name):
                    problem = f"{stage.table} needs {name}, which does not exist at {self._store.place(name)}"
                    raise StoreError(f"{problem}. Begin with an earlier stage: --from {name}")
                if name not in made and self._store.read(name, self._context.snapshots).isEmpty():
                    held = ", ".join(k.cluster_id for k in self._context.snapshots)
                    if name in (_RAW, _ENTITIES):
                        problem = f"{name} has no row of these snapshots of {held}"
                        raise StoreError(f"{problem}. Begin with an earlier stage: --from bronze")

    def _ingest(self) -> None:
        context = self._context
        rows = []
        seen = self._first_ingested()
        for key, source in context.sources.items():
            at = seen.get(key, context.as_of)
            for file, chosen, _ in read_files(source, context.format_name):
                rows.append((key.cluster_id, key.snapshot_id, file.name, chosen.name, str(file.resolve()), at))
        files = self._spark.createDataFrame(rows, FILES_DDL).repartition(len(rows))
        self._write(_RAW, raw_metadata(files))

    def _first_ingested(self) -> dict[SnapshotKey, datetime]:
        """When those of the run's snapshots were first read that have been read before."""
        if not self._store.exists(_RAW):
            return {}
        held = self._store.read(_RAW, self._context.snapshots).groupBy("cluster_id", "snapshot_id")
        rows = held.agg(F.min("ingested_at").alias("at")).collect()
        return {SnapshotKey(row.cluster_id, row.snapshot_id): row.at for row in rows}

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
        frame = self._spark.createDataFrame(rows, QUALITY_RESULTS.schema)
        self._store.replace(QUALITY_RESULTS, frame, snapshots)
        quality.gate(findings)

    @property
    def docs_folder(self) -> str | None:
        """Where the quality pages are written: beside the tables, if these are in a local folder."""
        store = self._context.settings.store
        return None if store.catalog or "://" in store.warehouse else str(Path(store.warehouse) / "data_docs")

    def _log(self) -> None:
        """Append what has finished to ops.runs, with the rows that each stage wrote of each cluster."""
        names = [name for name, _, _ in self._finished if name in self._written]
        counts: dict[tuple[str, str], int] = {}
        union: DataFrame | None = None
        for name in names:
            rows = self._store.read(name, self._context.snapshots).groupBy("cluster_id").count()
            part = rows.select(F.lit(name).alias("name"), "cluster_id", "count")
            union = part if union is None else union.unionByName(part)
        for row in union.collect() if union is not None else []:
            counts[row["name"], row["cluster_id"]] = row["count"]
        settings = self._context.settings.model_dump_json()
        log = []
        for name, seconds, at in self._finished:
            for key in self._context.snapshots:
                rows_written = counts.get((name, key.cluster_id), 0)
                ids = (key.cluster_id, key.snapshot_id, self._context.run_id)
                log.append((*ids, name, name, rows_written, seconds, at, __version__, settings))
        if log:
            self._store.append(RUNS, self._spark.createDataFrame(log, RUNS.schema))
