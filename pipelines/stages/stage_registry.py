"""The registry of stages, in order: which tables each reads, and with which parameters it is called."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from pyspark.sql import DataFrame

from pipelines.config.capacity_file import read_disk_capacities
from pipelines.config.plan_parameters import build_assumptions, build_metric_options, build_prices, build_wave_limits
from pipelines.config.setting_sections import RECOMMENDED, Settings
from pipelines.errors import SettingsError
from pipelines.ingest.merge.live_brokers import COUNTS_AS_LIVE
from pipelines.ingest.sources import SnapshotKey, Source
from pipelines.stages import (
    failure_stages,
    finding_stage,
    growth_stage,
    placement_stages,
    plan_stage,
    scheme_comparison_stage,
    silver_stages,
)
from pipelines.stages.cluster_inputs import collect_brokers, collect_clusters, match_capacities
from pipelines.stages.failure_stages import AggregationParameters, compute_table, scheme_aggregates
from pipelines.stages.ingest_stages import entities
from pipelines.stages.plan_requests import build_run_requests
from pipelines.tables import gold_tables
from pipelines.tables.ops_tables import SUMMARY_STAGE
from pipelines.tables.table_contract import SNAPSHOT_KEY, Table
from pipelines.verdict.finding_rows import read_verdicts
from udfs.durability.durability_rows import DurabilityPlan, durability_rows
from udfs.durability.kernels.loss_probability import SearchEffort
from udfs.failures import arrow_functions
from udfs.failures.arrow_functions import AggregationPlan, Limits, TableFunction
from udfs.failures.failure_outcomes import current_load_rows
from udfs.failures.failure_rows import load_after_failure_rows, random_failure_rows, summary_rows
from udfs.failures.scenarios import RandomSets
from udfs.failures.scheme_distribution import distribution_rows
from udfs.hotspots.hotspot_distribution import TrialOptions
from udfs.network.traffic_rows import network_load_rows, zone_traffic_rows
from udfs.placement.schemes import is_computed
from udfs.placement.topic_placement import LiveBrokers
from udfs.wording import quote_value

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


class Stage(NamedTuple):
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
        key: LiveBrokers(*([getattr(row, name) for row in rows] for name in ("broker_id", "rack", "cordoned")))
        for key, rows in collect_brokers(t[BROKERS].where(COUNTS_AS_LIVE)).items()
    }
    parameters = placement_stages.PlacementParameters(run.schemes, run.seed, live)
    return placement_stages.placements(t[_TOPICS], t[_PARTITIONS], parameters)


def _to_json(settings: Settings, run: Mapping[str, object], **others: Mapping[str, object]) -> str:
    return json.dumps({"run": {"seed": settings.run.seed, **run}, **others}, sort_keys=True)


def select_aggregate_settings(settings: Settings) -> str:
    """Return the settings that determine internal.scheme_aggregates, as JSON."""
    hotspots, topics = {"hot_ratio": settings.hotspots.hot_ratio}, settings.topics.model_dump()
    schemes, failures = {"schemes": settings.run.schemes}, settings.failures.model_dump()
    network = {**settings.network.model_dump(), "rack_separator": settings.plans.rack_separator}
    return _to_json(settings, schemes, topics=topics, hotspots=hotspots, failures=failures, network=network)


def select_plan_settings(settings: Settings) -> str:
    """Return the settings that determine internal.packed_plans, as JSON."""
    topics = settings.topics.model_dump()
    failures, plans = {"max_pairs": settings.failures.max_pairs}, settings.plans.model_dump()
    durability = settings.durability.model_dump(include={"max_exact_steps", "monte_carlo_samples"})
    network = {"network": settings.network.model_dump(), "prices": settings.prices.model_dump()}
    return _to_json(settings, {}, topics=topics, failures=failures, durability=durability, plans=plans, **network)


def _partitions(t: Frames, c: Context) -> DataFrame:
    return silver_stages.partitions(t[_ENTITIES], t[BROKERS], c.settings.topics.defaults)


def _scheme_aggregates(t: Frames, context: Context) -> DataFrame:
    run, topics, failures = context.settings.run, context.settings.topics, context.settings.failures
    plan = AggregationPlan(
        schemes=run.schemes,
        run_seed=run.seed,
        seeds=failures.seeds,
        max_placed_partitions=failures.max_placed_partitions,
        hot_ratio=context.settings.hotspots.hot_ratio,
        random_sets=RandomSets(failures.random_failure_sizes, failures.random_sets, run.seed),
        max_pairs=failures.max_pairs,
        pair_loads=failures.pair_loads,
        network=build_assumptions(context.settings),
    )
    clusters = collect_clusters(t[BROKERS], t[_TOPICS], t[_ENTITIES], failures.custom, topics.defaults)
    parameters = AggregationParameters(topics.defaults, clusters, plan, select_aggregate_settings(context.settings))
    return scheme_aggregates(t[_ENTITIES], t[BROKERS], parameters)


def _plain_stage(table: str, inputs: tuple[str, ...], make: Callable[..., DataFrame]) -> Stage:
    return Stage(table, inputs, lambda t, c: make(*(t[name] for name in inputs)))


def _failure_stage(table: Table, function: Callable[[Context], TableFunction], topic_hotspots: bool = False) -> Stage:
    return Stage(table.name, (SUMS,), lambda t, c: compute_table(t[SUMS], function(c), table, topic_hotspots))


def _durability(context: Context) -> TableFunction:
    durability = context.settings.durability
    effort = SearchEffort(durability.max_exact_steps, durability.monte_carlo_samples, context.settings.run.seed)
    plan = DurabilityPlan(durability.failure_counts, effort)
    return arrow_functions.table_function_with_racks(lambda aggregates, racks: durability_rows(aggregates, racks, plan))


def _zone_traffic(context: Context) -> TableFunction:
    assumptions, prices = build_assumptions(context.settings), build_prices(context.settings)
    return arrow_functions.table_function_with_racks(
        lambda aggregates, racks: zone_traffic_rows(aggregates, racks, assumptions, prices)
    )


def _headroom_stage(table: Table, over_capacity: bool) -> Stage:
    def make(t: Frames, context: Context) -> DataFrame:
        capacity = context.settings.capacity
        limits: Limits = {}
        if capacity.file:
            limits = match_capacities(capacity.file, collect_clusters(t[BROKERS], t[_TOPICS]))
        function = arrow_functions.headroom_function(limits, capacity.headroom, over_capacity)
        return compute_table(t[SUMS], function, table)

    return Stage(table.name, (SUMS, BROKERS, _TOPICS), make)


def _disk_after_failure(t: Frames, context: Context) -> DataFrame:
    capacity = context.settings.capacity
    disks, broker_bytes = read_disk_capacities(capacity.file), context.settings.plans.broker_bytes
    tables = (t[_ENTITIES], t[BROKERS], t[LOG_DIRS])
    return failure_stages.disk_after_failure(*tables, capacity.max_disk_ratio, disks, broker_bytes)


def _findings(t: Frames, context: Context) -> DataFrame:
    over = None
    if context.settings.capacity.file:  # which may have capacities of some clusters only
        over, headroom = (t[name] for name in _CAPACITIES)
        over = over.join(headroom.where("capacity_source = 'file'"), on=list(SNAPSHOT_KEY), how="left_semi")
    return finding_stage.findings(*(t[name] for name in _JUDGED), over_capacity=over)


def _hotspot_distribution(t: Frames, context: Context) -> DataFrame:
    run, hotspots = context.settings.run, context.settings.hotspots
    schemes = [name for name in run.schemes if is_computed(name)]
    # Shard counts follow the sources' bytes: many shards mean many topics.
    chunks = min(hotspots.seeds, max(1, sum(_shard_counts(context).values()) - len(context.sources) + 1))
    options = TrialOptions(schemes, run.seed, hotspots.seeds, hotspots.max_placed_topics, hotspots.thresholds, chunks)
    return placement_stages.hotspot_distribution(t[_TOPICS], t[BROKERS], t[_PARTITIONS], options)


def _pack_plans(t: Frames, context: Context) -> DataFrame:
    settings = context.settings
    clusters = [key.cluster_id for key in context.snapshots]
    is_judged = RECOMMENDED in settings.plans.goals
    verdicts = read_verdicts(t[_FINDINGS].toArrow().to_pylist(), clusters) if is_judged else {}
    requests = {cluster: build_run_requests(settings, verdicts.get(cluster)) for cluster in clusters}
    limits, options = build_wave_limits(settings), build_metric_options(settings)
    defaults = settings.topics.defaults
    parameters = plan_stage.PlanParameters(requests, limits, options, defaults, select_plan_settings(settings))
    return plan_stage.pack_plans(t[_TOPICS], t[_PARTITIONS], t[BROKERS], parameters)


RAW, _ENTITIES = "bronze.raw_metadata", "internal.entities"
BROKERS, SUMS = "silver.brokers", "internal.scheme_aggregates"
_REPLICAS, LOG_DIRS, _SOURCE_SUMMARY = "silver.replicas", "silver.log_dirs", "silver.source_summary"
_TOPICS, _PARTITIONS, _PACKED_PLANS = "silver.topics", "silver.partitions", "internal.packed_plans"
_SILVER_INPUTS = (_TOPICS, _PARTITIONS, BROKERS)
_FINDINGS = "gold.findings"
_JUDGED = ("gold.cluster_findings", "gold.leader_hotspots", "gold.failure_summary", "gold.disk_after_failure")
_CAPACITIES = ("gold.over_capacity", "gold.headroom")
_COMPARED = ("gold.leader_hotspots", "gold.failure_summary", "gold.durability", "gold.scheme_distribution")

# In order: each stage's inputs are made by stages before it. bronze.raw_metadata comes first, from files.
STAGES: tuple[Stage, ...] = (
    Stage(_ENTITIES, (RAW,), lambda t, c: entities(t[RAW], _shard_counts(c))),
    _plain_stage(BROKERS, (_ENTITIES,), silver_stages.brokers),
    Stage(_TOPICS, (_ENTITIES,), lambda t, c: silver_stages.topics(t[_ENTITIES], c.settings.topics.defaults)),
    Stage(_PARTITIONS, (_ENTITIES, BROKERS), _partitions),
    _plain_stage(_REPLICAS, (_ENTITIES, BROKERS), silver_stages.replicas),
    _plain_stage("silver.measured_loads", (_ENTITIES,), silver_stages.measured_loads),
    _plain_stage(LOG_DIRS, (_ENTITIES, BROKERS), silver_stages.log_dirs),
    _plain_stage("silver.quarantine", (_ENTITIES, RAW), silver_stages.quarantine),
    _plain_stage("silver.warnings", (_ENTITIES,), silver_stages.warnings),
    _plain_stage("silver.conflicts", (_ENTITIES, BROKERS), silver_stages.conflicts),
    _plain_stage(_SOURCE_SUMMARY, (_ENTITIES, RAW), silver_stages.source_summary),
    Stage(SUMS, (_ENTITIES, BROKERS, _TOPICS), _scheme_aggregates),
    _plain_stage("gold.quorum", (_ENTITIES, BROKERS), silver_stages.quorum),
    Stage(
        *("gold.cluster_findings", (_ENTITIES, _SOURCE_SUMMARY)),
        lambda t, c: finding_stage.cluster_findings(t[_ENTITIES], t[_SOURCE_SUMMARY], c.settings.topics.defaults),
    ),
    _failure_stage(gold_tables.FAILURE_SUMMARY, lambda c: arrow_functions.table_function(summary_rows)),
    _failure_stage(gold_tables.LOADS_AFTER_FAILURE, lambda c: arrow_functions.table_function(load_after_failure_rows)),
    _failure_stage(gold_tables.DURABILITY, _durability),
    _failure_stage(gold_tables.RANDOM_FAILURES, lambda c: arrow_functions.table_function(random_failure_rows)),
    _headroom_stage(gold_tables.HEADROOM, over_capacity=False),
    _headroom_stage(gold_tables.OVER_CAPACITY, over_capacity=True),
    Stage("gold.disk_after_failure", (_ENTITIES, BROKERS, LOG_DIRS), _disk_after_failure),
    _failure_stage(gold_tables.SCHEME_DISTRIBUTION, lambda c: arrow_functions.table_function(distribution_rows)),
    _failure_stage(gold_tables.CURRENT_LOADS, lambda c: arrow_functions.table_function_with_racks(current_load_rows)),
    _failure_stage(gold_tables.NETWORK_LOAD, lambda c: arrow_functions.table_function_with_racks(network_load_rows)),
    _failure_stage(gold_tables.ZONE_TRAFFIC, _zone_traffic),
    _failure_stage(
        gold_tables.LEADER_HOTSPOTS,
        lambda c: arrow_functions.hotspot_function(c.settings.hotspots.hot_ratio),
        topic_hotspots=True,
    ),
    Stage(_FINDINGS, (*_JUDGED, *_CAPACITIES), _findings),
    _plain_stage("gold.load_history", (_ENTITIES, *_SILVER_INPUTS, LOG_DIRS), growth_stage.load_history),
    Stage("gold.placements", _SILVER_INPUTS, _placements),
    Stage("gold.hotspot_distribution", _SILVER_INPUTS, _hotspot_distribution),
    _plain_stage(SUMMARY_STAGE, _COMPARED, scheme_comparison_stage.scheme_comparison),
    _plain_stage("gold.topic_origin", _SILVER_INPUTS, placement_stages.topic_origin),
    _plain_stage("gold.cluster_origin", ("gold.topic_origin",), placement_stages.cluster_origin),
    Stage(_PACKED_PLANS, (*_SILVER_INPUTS, _FINDINGS), _pack_plans),
    _plain_stage("gold.plans", (_PACKED_PLANS,), plan_stage.unpack_plans),
    _plain_stage("gold.plan_metrics", (_PACKED_PLANS,), plan_stage.unpack_plan_metrics),
    _plain_stage("gold.plan_moves", (_PACKED_PLANS,), plan_stage.unpack_plan_moves),
)

# For tables that others are computed from: functions that select the settings that determine them.
SETTINGS_SELECTORS: dict[str, Callable[[Settings], str]] = {
    SUMS: select_aggregate_settings,
    _PACKED_PLANS: select_plan_settings,
}

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

# The gate waits for all silver tables, and gold waits for the gate. The sums do not: only stages read them.
NEEDS: dict[str, tuple[str, ...]] = {
    QUALITY: _LAYERS["silver"],
    **{stage.table: stage.inputs for stage in STAGES},
    **{stage.table: (*stage.inputs, QUALITY) for stage in _GOLD if stage.table != SUMS},
}


def steps_between(first: str | None, last: str | None) -> list[str]:
    """List the steps from `first` to `last`, with the quality gate before any step of gold.

    first, last: names of STEPS, or their last parts, or layers; None = all. Raises SettingsError if they are wrong.
    """

    def find_steps(name: str) -> list[int]:
        layer = _LAYERS.get(name, ())
        indices = [i for i, step in enumerate(STEPS) if step in layer or name in (step, step.split(".")[-1])]
        if not indices:
            known = ", ".join(("bronze", "silver", "gold", *STEPS))
            raise SettingsError(f"--from or --to: there is no stage {quote_value(name)}. Choose from {known}")
        return indices

    begin = find_steps(first)[0] if first is not None else 0
    end = find_steps(last)[-1] if last is not None else len(STEPS) - 1
    if begin > end:
        raise SettingsError(f"--from {first} comes after --to {last}. Exchange them, or leave one out")
    steps = list(STEPS[begin : end + 1])
    needs_gate = QUALITY not in steps and steps[-1] in _LAYERS["gold"]
    return [QUALITY, *steps] if needs_gate else steps
