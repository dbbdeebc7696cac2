"""The ordered list of stages: what each reads, and what it is told beside its tables."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from pipelines.config.plan_settings import effort_of, limits_of, request_of
from pipelines.config.settings import Settings
from pipelines.errors import SettingsError
from pipelines.ingest.sources import SnapshotKey, Source
from pipelines.stages import (
    hotspot_stage,
    origin_stage,
    placement_stage,
    plan_stage,
    scheme_comparison_stage,
    silver_stage,
)
from pipelines.stages.cluster_inputs import capacities, clusters_of
from pipelines.stages.entities_stage import EntityParameters, entities
from pipelines.stages.failure_stage import rows_of
from pipelines.stages.scheme_aggregates_stage import SumParameters, scheme_aggregates
from pipelines.tables import failure_tables, placement_tables
from pipelines.tables.table_contract import Table
from udfs.durability import durability_rows
from udfs.durability.durability_rows import DurabilityPlan
from udfs.failures import failure_rows as failed
from udfs.failures import headroom, load_rows, random_failures, seed_rows
from udfs.failures import table_rows as tables
from udfs.failures.scenarios import RandomPlan
from udfs.failures.shards import SumPlan
from udfs.failures.table_rows import Body
from udfs.hotspots.hotspot_batches import Plan
from udfs.placement.schemes import computed
from udfs.placement.topic_batches import LiveBrokers

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


def _shard_counts(context: Context) -> dict[str, int]:
    limit = context.settings.ingest.shard_bytes
    sizes = {key.cluster_id: source.size_bytes for key, source in context.sources.items()}
    return {cluster: max(1, math.ceil(size / limit)) for cluster, size in sizes.items()}


def _placements(t: Frames, context: Context) -> DataFrame:
    run = context.settings.run
    # Brokers, unlike partitions, are few: their lists go to the workers with the function.
    rows = t["silver.brokers"].where("live").select("cluster_id", "snapshot_id", "broker_id", "rack").collect()
    found: dict[tuple[str, str], list[tuple[int, str | None]]] = {}
    for row in rows:
        found.setdefault((row.cluster_id, row.snapshot_id), []).append((row.broker_id, row.rack))
    live = {}
    for key, brokers in found.items():
        ids, racks = zip(*sorted(brokers, key=lambda broker: broker[0]), strict=True)
        live[key] = LiveBrokers(ids, racks)
    parameters = placement_stage.PlacementParameters(run.schemes, run.seed, live)
    return placement_stage.placements(t["silver.topics"], t["silver.partitions"], parameters)


def sums_rest_on(settings: Settings) -> str:
    """The settings that internal.scheme_aggregates follows from, as JSON: other ones need other sums."""
    chosen = {
        "run": {"schemes": settings.run.schemes, "seed": settings.run.seed},
        "topics": settings.topics.model_dump(),
        "hotspots": {"hot_ratio": settings.hotspots.hot_ratio},
        "failures": settings.failures.model_dump(),
    }
    return json.dumps(chosen, sort_keys=True)


def plans_rest_on(settings: Settings) -> str:
    """The settings that internal.packed_plans follows from, as JSON: other ones need other plans."""
    chosen = {
        "run": {"seed": settings.run.seed},
        "topics": {"min_insync_replicas": settings.topics.min_insync_replicas},
        "failures": {"max_pairs": settings.failures.max_pairs},
        "durability": settings.durability.model_dump(include={"steps", "trials"}),
        "plans": settings.plans.model_dump(),
    }
    return json.dumps(chosen, sort_keys=True)


def _scheme_sums(t: Frames, context: Context) -> DataFrame:
    run, topics, fails = context.settings.run, context.settings.topics, context.settings.failures
    plan = SumPlan(
        schemes=run.schemes,
        seed=run.seed,
        seeds=fails.seeds,
        work=fails.work,
        shard_counts=_shard_counts(context),
        hot_ratio=context.settings.hotspots.hot_ratio,
        random=RandomPlan(fails.random_failures, fails.random_sets, run.seed),
        max_pairs=fails.max_pairs,
        pair_loads=fails.pair_loads,
    )
    clusters = clusters_of(t[BROKERS], t["silver.topics"], fails.lists)
    defaults = (topics.min_insync_replicas, topics.unclean_leader_election)
    parameters = SumParameters(*defaults, clusters, plan, sums_rest_on(context.settings))
    return scheme_aggregates(t["silver.topics"], t["silver.partitions"], t[BROKERS], parameters)


def _outcome(table: Table, schema: pa.Schema, body: Callable[[Context], Body], hotspots: bool = False) -> Stage:
    """A stage that makes `table` of internal.scheme_aggregates alone."""
    return Stage(table.name, (SUMS,), lambda t, c: rows_of(t[SUMS], body(c), schema, table, hotspots))


def _durability(context: Context) -> Body:
    chosen, seed = context.settings.durability, context.settings.run.seed
    return tables.durability_rows(DurabilityPlan(chosen.failures, chosen.steps, chosen.trials, seed))


def _capacity(table: Table, schema: pa.Schema, rows: Callable[[tables.Limits, float], Body]) -> Stage:
    def make(t: Frames, context: Context) -> DataFrame:
        chosen = context.settings.capacity
        limits: dict[tuple[str, str], np.ndarray] = {}
        if chosen.file:
            limits = capacities(chosen.file, clusters_of(t[BROKERS], t["silver.topics"], ""))
        return rows_of(t[SUMS], rows(limits, chosen.headroom), schema, table)

    return Stage(table.name, (SUMS, BROKERS, "silver.topics"), make)


def _hotspot_odds(t: Frames, context: Context) -> DataFrame:
    run, hotspots = context.settings.run, context.settings.hotspots
    schemes = [name for name in run.schemes if computed(name)]
    # Shards are by the sources' bytes: where there are many topics, there are many.
    chunks = min(hotspots.seeds, max(1, sum(_shard_counts(context).values()) - len(context.sources) + 1))
    plan = Plan(schemes, run.seed, hotspots.seeds, hotspots.work, chunks)
    tables = (t["silver.topics"], t[BROKERS], t["silver.partitions"])
    return hotspot_stage.hotspot_distribution_rows(*tables, plan, hotspots.thresholds)


def _planned(t: Frames, context: Context) -> DataFrame:
    settings = context.settings
    goal = settings.plans.goal
    request = request_of(settings, goal) if goal else None
    limits, effort = limits_of(settings), effort_of(settings)
    min_isr = settings.topics.min_insync_replicas
    parameters = plan_stage.PlanParameters(request, limits, effort, min_isr, plans_rest_on(settings))
    return plan_stage.planned(t["silver.topics"], t["silver.partitions"], t[BROKERS], parameters)


RAW, _ENTITIES = "bronze.raw_metadata", "internal.entities"
BROKERS, SUMS = "silver.brokers", "internal.scheme_aggregates"
_PLANNED = "internal.packed_plans"
_COMPARED = ("gold.leader_hotspots", "gold.failure_summary", "gold.durability", "gold.scheme_distribution")

# In order: each stage's inputs are made by stages before it. bronze.raw_metadata comes first, from files.
STAGES: tuple[Stage, ...] = (
    Stage(_ENTITIES, (RAW,), lambda t, c: entities(t[RAW], EntityParameters(_shard_counts(c)))),
    Stage(BROKERS, (_ENTITIES,), lambda t, c: silver_stage.brokers(t[_ENTITIES])),
    Stage("silver.topics", (_ENTITIES,), lambda t, c: silver_stage.topics(t[_ENTITIES])),
    Stage("silver.partitions", (_ENTITIES, BROKERS), lambda t, c: silver_stage.partitions(t[_ENTITIES], t[BROKERS])),
    Stage(
        "silver.replicas",
        (_ENTITIES, "silver.partitions"),
        lambda t, c: silver_stage.replicas(t[_ENTITIES], t["silver.partitions"]),
    ),
    Stage("silver.quarantine", (_ENTITIES, RAW), lambda t, c: silver_stage.quarantine(t[_ENTITIES], t[RAW])),
    Stage("silver.conflicts", (_ENTITIES, BROKERS), lambda t, c: silver_stage.conflicts(t[_ENTITIES], t[BROKERS])),
    Stage("silver.source_summary", (_ENTITIES, RAW), lambda t, c: silver_stage.source_summary(t[_ENTITIES], t[RAW])),
    Stage(SUMS, ("silver.topics", "silver.partitions", BROKERS), _scheme_sums),
    _outcome(failure_tables.FAILURE_SUMMARY, failed.SUMMARY, lambda c: tables.summary_rows()),
    _outcome(failure_tables.FAILURE_LOAD, failed.LOAD, lambda c: tables.load_rows()),
    _outcome(failure_tables.DURABILITY, durability_rows.DURABILITY, _durability),
    _outcome(failure_tables.RANDOM_FAILURES, random_failures.RANDOM_FAILURES, lambda c: tables.random_rows()),
    _capacity(failure_tables.HEADROOM, headroom.HEADROOM, tables.headroom_rows),
    _capacity(failure_tables.OVER_CAPACITY, headroom.OVER, tables.over_rows),
    _outcome(failure_tables.SCHEME_DISTRIBUTION, seed_rows.SEEDS, lambda c: tables.seed_rows()),
    _outcome(placement_tables.BROKER_LOAD, load_rows.BROKER_LOAD, lambda c: tables.broker_load_rows()),
    _outcome(
        placement_tables.LEADER_HOTSPOTS,
        load_rows.MEASURES,
        lambda c: tables.hotspot_rows(c.settings.hotspots.hot_ratio),
        True,
    ),
    Stage("gold.placements", ("silver.topics", BROKERS, "silver.partitions"), _placements),
    Stage("gold.hotspot_distribution", ("silver.topics", BROKERS, "silver.partitions"), _hotspot_odds),
    Stage(
        "gold.scheme_comparison",
        _COMPARED,
        lambda t, c: scheme_comparison_stage.scheme_comparison(*(t[n] for n in _COMPARED)),
    ),
    Stage(
        "gold.topic_origin",
        ("silver.topics", "silver.partitions", BROKERS),
        lambda t, c: origin_stage.topic_origin(t["silver.topics"], t["silver.partitions"], t[BROKERS]),
    ),
    Stage(
        "gold.cluster_origin", ("gold.topic_origin",), lambda t, c: origin_stage.cluster_origin(t["gold.topic_origin"])
    ),
    Stage(_PLANNED, ("silver.topics", "silver.partitions", BROKERS), _planned),
    Stage("gold.plans", (_PLANNED,), lambda t, c: plan_stage.plans(t[_PLANNED])),
    Stage("gold.plan_moves", (_PLANNED,), lambda t, c: plan_stage.plan_moves(t[_PLANNED])),
)

# Tables that others are made of, and the settings that they follow from.
RESTS_ON: dict[str, Callable[[Settings], str]] = {SUMS: sums_rest_on, _PLANNED: plans_rest_on}

# Every step by name, in order: what --from and --to take. The gate stands before gold.
_FIRST_GOLD = next(i for i, stage in enumerate(STAGES) if stage.table.startswith("gold."))
STEPS: tuple[str, ...] = (
    RAW,
    *(stage.table for stage in STAGES[:_FIRST_GOLD]),
    QUALITY,
    *(stage.table for stage in STAGES[_FIRST_GOLD:]),
)

# The gate waits for all that it checks, and gold for the gate.
NEEDS: dict[str, tuple[str, ...]] = {
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
