"""The registry of stages, in order: which tables each reads, and with which parameters it is called."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame

from pipelines.config.plan_settings import build_metric_options, build_request, build_wave_limits
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
from pipelines.stages.cluster_inputs import collect_brokers, collect_clusters, match_capacities
from pipelines.stages.entities_stage import EntityParameters, entities
from pipelines.stages.failure_stage import compute_table
from pipelines.stages.scheme_aggregates_stage import AggregationParameters, scheme_aggregates
from pipelines.stages.successor_stage import add_successors
from pipelines.tables import failure_tables, placement_tables
from pipelines.tables.table_contract import Table
from udfs.durability.durability_rows import DurabilityPlan, durability_rows
from udfs.durability.kernels.loss_probability import SearchEffort
from udfs.failures.broker_loads import broker_load_rows
from udfs.failures.failure_rows import load_rows, summary_rows
from udfs.failures.random_failures import random_failure_rows
from udfs.failures.scenarios import RandomSets
from udfs.failures.scheme_distribution import distribution_rows
from udfs.failures.shards import AggregationPlan
from udfs.failures.table_functions import (
    Limits,
    TableFunction,
    headroom_function,
    hotspot_function,
    table_function,
    table_function_with_racks,
)
from udfs.hotspots.hotspot_distribution import TrialOptions
from udfs.placement.schemes import is_computed
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
        """Return the snapshots of the run, in order."""
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
    live = {
        key: LiveBrokers([row.broker_id for row in rows], [row.rack for row in rows])
        for key, rows in collect_brokers(t[BROKERS].where("live")).items()
    }
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
        "durability": settings.durability.model_dump(include={"max_exact_steps", "monte_carlo_samples"}),
        "plans": settings.plans.model_dump(),
    }
    return json.dumps(chosen, sort_keys=True)


def _partitions(t: Frames, context: Context) -> DataFrame:
    unclean = context.settings.topics.unclean_leader_election
    return add_successors(silver_stage.partitions(t[_ENTITIES], t[BROKERS]), t[BROKERS], t["silver.topics"], unclean)


def _scheme_aggregates(t: Frames, context: Context) -> DataFrame:
    run, topics, failures = context.settings.run, context.settings.topics, context.settings.failures
    plan = AggregationPlan(
        schemes=run.schemes,
        run_seed=run.seed,
        seeds=failures.seeds,
        max_placed_partitions=failures.max_placed_partitions,
        shard_counts=_shard_counts(context),
        hot_ratio=context.settings.hotspots.hot_ratio,
        random_sets=RandomSets(failures.random_failure_sizes, failures.random_sets, run.seed),
        max_pairs=failures.max_pairs,
        pair_loads=failures.pair_loads,
    )
    clusters = collect_clusters(t[BROKERS], t["silver.topics"], failures.custom)
    defaults = (topics.min_insync_replicas, topics.unclean_leader_election)
    parameters = AggregationParameters(*defaults, clusters, plan, sums_rest_on(context.settings))
    return scheme_aggregates(t["silver.topics"], t["silver.partitions"], t[BROKERS], parameters)


def _failure_stage(table: Table, function: Callable[[Context], TableFunction], topic_hotspots: bool = False) -> Stage:
    """Make a stage that computes `table` from internal.scheme_aggregates alone."""
    return Stage(table.name, (SUMS,), lambda t, c: compute_table(t[SUMS], function(c), table, topic_hotspots))


def _durability(context: Context) -> TableFunction:
    durability = context.settings.durability
    effort = SearchEffort(durability.max_exact_steps, durability.monte_carlo_samples, context.settings.run.seed)
    plan = DurabilityPlan(durability.failure_counts, effort)
    return table_function_with_racks(lambda aggregates, racks: durability_rows(aggregates, racks, plan))


def _headroom_stage(table: Table, over_capacity: bool) -> Stage:
    def make(t: Frames, context: Context) -> DataFrame:
        capacity = context.settings.capacity
        limits: Limits = {}
        if capacity.file:
            limits = match_capacities(capacity.file, collect_clusters(t[BROKERS], t["silver.topics"]))
        return compute_table(t[SUMS], headroom_function(limits, capacity.headroom, over_capacity), table)

    return Stage(table.name, (SUMS, BROKERS, "silver.topics"), make)


def _hotspot_distribution(t: Frames, context: Context) -> DataFrame:
    run, hotspots = context.settings.run, context.settings.hotspots
    schemes = [name for name in run.schemes if is_computed(name)]
    # Shard counts follow the sources' bytes: many shards mean many topics.
    chunks = min(hotspots.seeds, max(1, sum(_shard_counts(context).values()) - len(context.sources) + 1))
    options = TrialOptions(schemes, run.seed, hotspots.seeds, hotspots.max_placed_topics, hotspots.thresholds, chunks)
    return hotspot_stage.hotspot_distribution(t["silver.topics"], t[BROKERS], t["silver.partitions"], options)


def _pack_plans(t: Frames, context: Context) -> DataFrame:
    settings = context.settings
    goal = settings.plans.goal
    request = build_request(settings, goal) if goal else None
    limits, options = build_wave_limits(settings), build_metric_options(settings)
    min_isr = settings.topics.min_insync_replicas
    parameters = plan_stage.PlanParameters(request, limits, options, min_isr, plans_rest_on(settings))
    return plan_stage.pack_plans(t["silver.topics"], t["silver.partitions"], t[BROKERS], parameters)


RAW, _ENTITIES = "bronze.raw_metadata", "internal.entities"
BROKERS, SUMS = "silver.brokers", "internal.scheme_aggregates"
_PACKED_PLANS = "internal.packed_plans"
_COMPARED = ("gold.leader_hotspots", "gold.failure_summary", "gold.durability", "gold.scheme_distribution")

# In order: each stage's inputs are made by stages before it. bronze.raw_metadata comes first, from files.
STAGES: tuple[Stage, ...] = (
    Stage(_ENTITIES, (RAW,), lambda t, c: entities(t[RAW], EntityParameters(_shard_counts(c)))),
    Stage(BROKERS, (_ENTITIES,), lambda t, c: silver_stage.brokers(t[_ENTITIES])),
    Stage("silver.topics", (_ENTITIES,), lambda t, c: silver_stage.topics(t[_ENTITIES])),
    Stage("silver.partitions", (_ENTITIES, BROKERS, "silver.topics"), _partitions),
    Stage(
        "silver.replicas",
        (_ENTITIES, "silver.partitions"),
        lambda t, c: silver_stage.replicas(t[_ENTITIES], t["silver.partitions"]),
    ),
    Stage("silver.quarantine", (_ENTITIES, RAW), lambda t, c: silver_stage.quarantine(t[_ENTITIES], t[RAW])),
    Stage("silver.conflicts", (_ENTITIES, BROKERS), lambda t, c: silver_stage.conflicts(t[_ENTITIES], t[BROKERS])),
    Stage("silver.source_summary", (_ENTITIES, RAW), lambda t, c: silver_stage.source_summary(t[_ENTITIES], t[RAW])),
    Stage(SUMS, ("silver.topics", "silver.partitions", BROKERS), _scheme_aggregates),
    _failure_stage(failure_tables.FAILURE_SUMMARY, lambda c: table_function(summary_rows)),
    _failure_stage(failure_tables.FAILURE_LOAD, lambda c: table_function(load_rows)),
    _failure_stage(failure_tables.DURABILITY, _durability),
    _failure_stage(failure_tables.RANDOM_FAILURES, lambda c: table_function(random_failure_rows)),
    _headroom_stage(failure_tables.HEADROOM, over_capacity=False),
    _headroom_stage(failure_tables.OVER_CAPACITY, over_capacity=True),
    _failure_stage(failure_tables.SCHEME_DISTRIBUTION, lambda c: table_function(distribution_rows)),
    _failure_stage(placement_tables.BROKER_LOAD, lambda c: table_function_with_racks(broker_load_rows)),
    _failure_stage(
        placement_tables.LEADER_HOTSPOTS, lambda c: hotspot_function(c.settings.hotspots.hot_ratio), topic_hotspots=True
    ),
    Stage("gold.placements", ("silver.topics", BROKERS, "silver.partitions"), _placements),
    Stage("gold.hotspot_distribution", ("silver.topics", BROKERS, "silver.partitions"), _hotspot_distribution),
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
    Stage(_PACKED_PLANS, ("silver.topics", "silver.partitions", BROKERS), _pack_plans),
    Stage("gold.plans", (_PACKED_PLANS,), lambda t, c: plan_stage.unpack_plans(t[_PACKED_PLANS])),
    Stage("gold.plan_moves", (_PACKED_PLANS,), lambda t, c: plan_stage.unpack_plan_moves(t[_PACKED_PLANS])),
)

# Tables that others are made of, and the settings that they follow from.
RESTS_ON: dict[str, Callable[[Settings], str]] = {SUMS: sums_rest_on, _PACKED_PLANS: plans_rest_on}

# Every step by name, in order: the values of --from and --to. The quality gate comes between silver and gold.
_GATE = 1 + max(i for i, stage in enumerate(STAGES) if stage.table.startswith("silver."))
_SILVER, _GOLD = STAGES[:_GATE], STAGES[_GATE:]
STEPS: tuple[str, ...] = (RAW, *(stage.table for stage in _SILVER), QUALITY, *(stage.table for stage in _GOLD))
# Layers contain the internal tables that they are computed from.
_LAYERS = {
    "bronze": (RAW,),
    "silver": tuple(stage.table for stage in _SILVER),
    "gold": tuple(stage.table for stage in _GOLD),
}

# The gate waits for all silver tables, and gold waits for the gate.
NEEDS: dict[str, tuple[str, ...]] = {
    QUALITY: _LAYERS["silver"],
    **{stage.table: stage.inputs for stage in _SILVER},
    **{stage.table: (*stage.inputs, QUALITY) for stage in _GOLD},
}


def steps_between(first: str | None, last: str | None) -> list[str]:
    """List the steps from `first` to `last`, with the quality gate before any step of gold.

    Args:
        first: A name of STEPS, or its last part, or bronze, silver or gold; None = the first step.
        last: The same; None = the last step.

    Raises:
        SettingsError: If there is no such step, or `first` comes after `last`.
    """

    def find_steps(name: str) -> list[int]:
        layer = _LAYERS.get(name, ())
        indices = [i for i, step in enumerate(STEPS) if step in layer or name in (step, step.split(".")[-1])]
        if not indices:
            raise SettingsError(f"there is no stage {name!r}; there are bronze, silver, gold, {', '.join(STEPS)}")
        return indices

    begin = find_steps(first)[0] if first else 0
    end = find_steps(last)[-1] if last else len(STEPS) - 1
    if begin > end:
        raise SettingsError(f"--from {first} comes after --to {last}")
    steps = list(STEPS[begin : end + 1])
    needs_gate = QUALITY not in steps and steps[-1] in _LAYERS["gold"]
    return [QUALITY, *steps] if needs_gate else steps
