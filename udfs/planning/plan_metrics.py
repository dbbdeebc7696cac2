"""A cluster before a plan, by its leaders now, and after the plan and its elections; live replicas count as in sync."""

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.ragged import offsets_of, row_of
from udfs.durability.durability_rows import BROKERS, DurabilityPlan, durability_rows
from udfs.durability.kernels.loss_probability import SearchEffort
from udfs.failures.failure_outcomes import SchemeAggregates
from udfs.failures.failure_rows import LOAD_QUANTITIES, headroom_rows, summary_rows
from udfs.failures.kernels.election import NO_BROKER, UNKNOWN, PartitionGroup
from udfs.failures.partition_arrays import Placement
from udfs.failures.partition_sums import aggregate_placement, finish_pairs
from udfs.failures.scenarios import Cluster, RandomSets, ScenarioKind, build_scenarios
from udfs.network.traffic_rows import (
    NO_ASSUMPTIONS,
    NO_PRICES,
    CrossZonePrices,
    CrossZoneTraffic,
    NetworkAssumptions,
    measure_cross_zone_traffic,
)
from udfs.placement.topic_placement import find_counted_brokers
from udfs.planning.cluster_model import ClusterModel, Flags, Floats, FreezeReason, Ints, ProposedAssignment
from udfs.planning.constraints import find_rack_violations, list_emptied_brokers
from udfs.planning.elections import PreferredElections, find_current_leaders, lead_lists
from udfs.planning.plan_request import PlanRequest
from udfs.planning.planned_waves import PlannedWaves, plan_waves
from udfs.planning.waves import WaveLimits
from udfs.wording import count_of, is_or_are, join_names

MAX_FAILURES = 5  # at once, of the loss probability
Replacements = tuple[tuple[int, int], ...]  # of broker ids, as in PlanRequest
_DIGITS = 6  # of a ratio: sums of rates may differ in the last bits from one machine to the next
_NO_CAPACITY = 1e18  # headroom that no load exceeds: required headroom is computed, exceeded capacity is not


@dataclass(frozen=True)
class MetricOptions:
    """How much work metrics may take."""

    max_pairs: int = 1_000_000  # Above this number of broker pairs, failures of two brokers are left out
    effort: SearchEffort = field(default_factory=lambda: SearchEffort(1_000_000, 20_000, 0))  # For loss probabilities
    network: NetworkAssumptions = NO_ASSUMPTIONS
    prices: CrossZonePrices = NO_PRICES


@dataclass(frozen=True)
class LoadSpread:
    """A load over brokers: largest, smallest and standard deviation over the mean; None where it is not known."""

    max_over_mean: float | None = None
    min_over_mean: float | None = None
    cv: float | None = None


@dataclass(frozen=True)
class Balance:
    """How even the live brokers are that are not to be emptied."""

    brokers: int
    left_out: tuple[int, ...]  # Ids of live brokers with replicas that are to be emptied
    replicas: LoadSpread
    leaders: LoadSpread
    preferred_leaders: LoadSpread
    size_bytes: LoadSpread
    bytes_in_per_s: LoadSpread
    bytes_out_per_s: LoadSpread
    rack_violations: int
    # Leaders of the worst survivor of any single failure over the survivors' mean
    worst_survivor_ratio: float | None
    # The same by bytes per second out
    worst_survivor_bytes_out_ratio: float | None


@dataclass(frozen=True)
class WorstFailure:
    """The worst of all failures of a kind, each column by itself, as in gold.failure_summary."""

    # The failure with the most loaded survivor; None if no broker has leaders after any of them
    scenario: str | None
    worst_survivor_ratio: float | None
    worst_survivor_bytes_in_ratio: float | None
    worst_survivor_bytes_out_ratio: float | None
    worst_survivor_fetch_ratio: float | None
    offline_partitions: int
    newly_offline_partitions: int
    under_min_isr_partitions: int
    single_isr_partitions: int
    newly_under_min_isr_partitions: int


@dataclass(frozen=True)
class FailureMetrics:
    """The worst failure of a broker, of a pair of brokers and of a rack; None where there is no such failure."""

    live_brokers: int
    broker: WorstFailure | None
    pair: WorstFailure | None
    rack: WorstFailure | None


@dataclass(frozen=True)
class LossRisk:
    """What simultaneous failures lose, as in gold.durability; mappings are by number of failed brokers."""

    copysets: int | None
    scatter_width_mean: float | None
    already_lost_partitions: int | None
    loss_probability: dict[int, float | None]
    lost_partitions_mean: dict[int, float | None]


@dataclass(frozen=True)
class ClusterState:
    """One state of a cluster; None = not known. Brokers to be emptied that hold nothing count as switched off."""

    balance: Balance
    failures: FailureMetrics
    durability: LossRisk
    # Required headroom ratio by kind of failure (broker, rack) and quantity
    headroom: dict[str, dict[str, float | None]]
    cross_zone: CrossZoneTraffic


_EFFECTS = {"newly_offline_partitions": "offline", "newly_under_min_isr_partitions": "acks=all blocked"}


@dataclass(frozen=True)
class PlanMetrics:
    """What a plan changes, and the cluster before and after it."""

    moves: int  # Replicas to copy
    bytes_to_copy: int | None  # Their bytes; None if no size is known
    lists_changed: int  # Partitions whose replica list changes, in order at least
    # Partitions whose preferred leader, the first broker of the source's list, changes other than to its replacement
    leader_changes: int
    leader_replacements: int  # Partitions whose preferred leader is replaced by the broker that takes over
    before: ClusterState
    after: ClusterState

    def list_worst_failures(self) -> Iterator[tuple[str, str, int, int]]:
        """Yield what the worst failure does before and after the plan, once all replicas are in sync.

        Only what there is: broker or rack, offline or acks=all blocked, and the numbers of partitions.
        """
        for kind in ("broker", "rack"):
            before, after = (getattr(state.failures, kind) for state in (self.before, self.after))
            if before is None or after is None:
                continue
            for name, effect in _EFFECTS.items():
                counts = getattr(before, name), getattr(after, name)
                if any(counts):
                    yield kind, effect, *counts

    def explain_weaker_failures(self) -> Iterator[str]:
        """Say which failures do more harm after the plan: partitions that were apart before may then be together."""
        for kind, effect, before, after in self.list_worst_failures():
            if after > before:
                counts = f"{count_of(after, 'partition')} {effect} after this plan, and {before:,} before it"
                yield f"the worst failure of a {kind} leaves {counts}, once all replicas are in sync"

    def explain_brokers(self) -> Iterator[str]:
        """Explain which brokers the means leave out."""
        before, after = self.before.balance.brokers, self.after.balance.brokers
        if before != after:
            old = f"before: {count_of(before, 'broker')}, without those that --add-brokers adds"
            yield f"{old}; after: {after:,}"
        if left_out := self.before.balance.left_out:
            which = f"broker{'s' if len(left_out) > 1 else ''} {join_names(left_out)}"
            emptied = f"which {is_or_are(len(left_out))} to be emptied"
            yield f"both columns leave out {which}, {emptied}, down to the row of the worst survivor"


def measure_plan(
    model: ClusterModel,
    proposal: ProposedAssignment,
    elections: PreferredElections,
    options: MetricOptions,
    replacements: Replacements = (),
    added_brokers: Collection[int] = (),
) -> PlanMetrics:
    """Compute what a proposal moves, and the cluster's state before and after it.

    added_brokers: ids of brokers that join for the plan, so that the state before it is without those that are empty.
    """
    new = model.find_copied(proposal)
    after = model.with_lists(proposal.offsets, proposal.replicas)
    copied = model.size[row_of(proposal.offsets)[new]].sum()
    lists = model.find_changed(proposal)
    leaders = _count_leader_changes(model, elections, replacements)
    changes = (int(new.sum()), round(float(copied)) if model.known[0] else None, int(lists.sum()), *leaders)
    # Brokers to be emptied that hold nothing count as switched off.
    is_empty = np.bincount(model.replicas, minlength=model.brokers) == 0
    added = is_empty & np.isin(model.broker_ids, list(added_brokers))
    before = replace(model, draining=model.draining | added) if added.any() else model
    return PlanMetrics(*changes, measure_state(before, options), measure_state(after, options, elections.leader))


def _count_leader_changes(
    model: ClusterModel, elections: PreferredElections, replacements: Replacements
) -> tuple[int, int]:
    """Count the partitions whose first replica in the source's list changes: to any other, and to its replacement."""
    before = model.broker_ids[model.source_order[model.offsets[:-1]]]
    after = model.broker_ids[elections.preferred]
    replaced = np.zeros(model.partitions, dtype=np.bool_)
    for old, new in replacements:
        replaced |= (before == old) & (after == new)
    return int(((before != after) & ~replaced).sum()), int(replaced.sum())


def measure_state(model: ClusterModel, options: MetricOptions, leader: Ints | None = None) -> ClusterState:
    """Compute the metrics of one state of a cluster. leader: int64 (p), the leaders, -1 = none; None = those of now."""
    leader = find_current_leaders(model) if leader is None else leader
    holds = np.bincount(model.replicas, minlength=model.brokers) > 0
    counted = find_counted_brokers(holds, holds & False if model.cordoned is None else model.cordoned)
    model = replace(model, draining=model.draining | ~counted)
    led = lead_lists(model, leader)
    balance, model = measure_balance(model, led, leader), led
    brokers = np.flatnonzero(model.live & (holds | ~model.draining))
    racks = tuple(model.rack_names[rack] if model.rack_names else None for rack in model.rack[brokers].tolist())
    fetching = () if model.fetching is None else tuple(model.fetching[brokers].tolist())
    ids, n = tuple(model.ids(brokers)), len(brokers)
    cluster = Cluster(ids, racks, partitions=model.partitions, follower_fetching=fetching)
    scenarios = build_scenarios(model.cluster_id, cluster, RandomSets())
    pairs = n * (n - 1) // 2 <= options.max_pairs
    placement = _placement(model, brokers)
    sums = finish_pairs(aggregate_placement(placement, n, scenarios, pairs), scenarios.pair_stops)
    aggregates = SchemeAggregates(model.broker_ids[brokers], scenarios, sums)
    failure_counts = tuple(range(1, min(int(model.factor.max(initial=1)), MAX_FAILURES, n) + 1))
    plan = DurabilityPlan(failure_counts, options.effort)
    losses = [row for row in durability_rows(aggregates, racks, plan).to_pylist() if row["failure_unit"] == BROKERS]
    failures = summary_rows(aggregates)
    required = {
        (row["scenario_kind"], row["quantity"]): _rounded(row["required_headroom_ratio"])
        for row in reversed(headroom_rows(aggregates, None, _NO_CAPACITY)[0].to_pylist())
    }
    worst = (_worst_failure(failures, kind) for kind in (ScenarioKind.BROKER, ScenarioKind.PAIR, ScenarioKind.RACK))
    first: dict[str, Any] = losses[0] if losses else {}
    risk = LossRisk(
        first.get("copysets"),
        _rounded(first.get("scatter_width_mean")),
        first.get("already_lost_partitions"),
        {row["failures"]: _rounded(row["loss_probability"]) for row in losses},
        {row["failures"]: _rounded(row["lost_partitions_mean"]) for row in losses},
    )
    kinds: tuple[str, ...] = (ScenarioKind.BROKER, ScenarioKind.RACK)
    headroom = {kind: {quantity: required.get((kind, quantity)) for quantity in LOAD_QUANTITIES} for kind in kinds}
    rates_known = model.known[1:]
    traffic = measure_cross_zone_traffic(placement.group, cluster, rates_known, options.network, options.prices)
    return ClusterState(balance, FailureMetrics(n, *worst), risk, headroom, traffic)


def measure_balance(model: ClusterModel, led: ClusterModel, leader: Ints) -> Balance:
    """Compute how even the brokers are, and the worst survivor of any single failure.

    led: the model with the leader (int64, p) first in each list.
    """
    counted, preferred, has_leader = model.live & ~model.draining, model.preferred_leaders, leader >= 0
    n, row = model.brokers, model.row
    loads = zip((model.measure_bytes(row, model.replicas), model.rate_in, model.rate_out), model.known, strict=True)
    size, rate_in, rate_out = (load * is_known for load, is_known in loads)  # all 0 has no spread
    of_replicas = [np.bincount(model.replicas, weight, n) for weight in (None, size, rate_in[row])]
    of_leaders = (np.bincount(leader[has_leader], weight, n) for weight in (None, rate_out[has_leader]))
    replicas, disk, bytes_in, leaders, bytes_out = (_spread(load[counted]) for load in (*of_replicas, *of_leaders))
    preferred_leaders = _spread(np.bincount(preferred[preferred >= 0], minlength=n)[counted])
    racks = max(1, len(np.unique(model.rack[counted])))
    violations = int(find_rack_violations(model, -(-model.factor // racks)).sum())
    worst, worst_out = (_worst_survivor(led, weight, counted) for weight in (None, rate_out))
    spreads = (replicas, leaders, preferred_leaders, disk, bytes_in, bytes_out)
    left_out = tuple(model.ids(np.flatnonzero(model.live & model.draining & (of_replicas[0] > 0))))
    return Balance(int(counted.sum()), left_out, *spreads, violations, worst, worst_out)


def _spread(load: npt.NDArray[Any]) -> LoadSpread:
    if not len(load) or not load.any():
        return LoadSpread()
    mean = load.mean()
    return LoadSpread(_rounded(load.max() / mean), _rounded(load.min() / mean), _rounded(load.std() / mean))


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(float(value), _DIGITS)


def _worst_survivor(model: ClusterModel, weight: Floats | None, counted: Flags) -> float | None:
    """Return the worst survivor's leaders after any failure over the survivors' mean. weight: of a leader (p), or 1."""
    loads = model.compute_leader_loads(weight)[np.ix_(counted, counted)]
    total, survivors = loads.sum(axis=1), len(loads) - 1
    if survivors < 1 or not total.any():
        return None
    worst = loads.max(axis=1)[total > 0] * survivors / total[total > 0]
    return _rounded(worst.max())


def _worst_failure(failures: pa.Table, kind: str) -> WorstFailure | None:
    rows = failures.filter(pc.field("scenario_kind") == kind)
    if not rows.num_rows:
        return None
    ratios = rows["worst_survivor_ratio"]
    scenario = None
    if ratios.null_count < len(ratios):
        scenario = rows["scenario"][int(np.nanargmax(np.round(ratios.to_numpy(), _DIGITS)))].as_py()

    def largest(column: str) -> Any:
        value = pc.max(rows[column]).as_py()
        return _rounded(value) if isinstance(value, float) else value

    return WorstFailure(scenario, *(largest(f.name) for f in fields(WorstFailure)[1:]))


def _placement(model: ClusterModel, brokers: npt.NDArray[np.int64]) -> Placement:
    """The model's lists over the brokers at `brokers`, live replicas in sync, led by the first if it is live."""
    index = np.full(model.brokers + 1, NO_BROKER, dtype=np.int32)
    index[brokers] = np.arange(len(brokers))
    broker = np.where(model.in_failed_dir, NO_BROKER, index[model.replicas]).astype(np.int32)
    r, p = len(broker), model.partitions
    has_size, has_bytes_in, has_bytes_out = model.known
    group = PartitionGroup(
        model.offsets,
        broker,
        broker != NO_BROKER,
        np.zeros(r, dtype=np.bool_),
        np.full(r, UNKNOWN, dtype=np.int64),
        index[model.preferred_leaders],  # -1 finds NO_BROKER at the last place
        model.min_isr,
        np.zeros(p, dtype=np.bool_),
        np.round(model.size).astype(np.int64) if has_size else np.full(p, UNKNOWN, dtype=np.int64),
        np.ascontiguousarray(np.column_stack([model.rate_in, model.rate_out])),
        model.counted,
    )
    rows = offsets_of(np.bincount(model.topic, minlength=len(model.topic_names)))
    known = np.array([p * has_size, p * has_bytes_in, p * has_bytes_out], dtype=np.int64)
    sizes = np.round(model.measure_bytes(model.row, model.replicas)).astype(np.int64)
    return Placement(group, rows, np.full(p, np.nan), known, sizes)


@dataclass(frozen=True)
class PlanSummary(PlannedWaves):
    """A proposed assignment for a cluster model, how it is executed, and its metrics."""

    metrics: PlanMetrics


def summarize_plan(
    model: ClusterModel,
    request: PlanRequest,
    proposal: ProposedAssignment,
    limits: WaveLimits,
    options: MetricOptions,
    added_brokers: Collection[int] = (),
) -> PlanSummary:
    """Split a proposal into waves, find its elections, and compute its metrics. added_brokers: as in measure_plan."""
    # Plans that only order leaders are for all that do not lead where they should.
    execution = plan_waves(model, proposal, limits, elects_all=request.goal in ("leaders", "failover"))
    marked = mark_drained_brokers(model, request)
    metrics = measure_plan(marked, proposal, execution.elections, options, request.replacements, added_brokers)
    return PlanSummary(**vars(execution), metrics=metrics)


def mark_drained_brokers(model: ClusterModel, request: PlanRequest) -> ClusterModel:
    """Mark the brokers that the request empties as draining, so that means are over the brokers that stay."""
    drained = np.isin(model.broker_ids, list_emptied_brokers(model, request))
    return replace(model, draining=model.draining | drained) if drained.any() else model


def count_frozen_partitions(model: ClusterModel) -> dict[str, int]:
    """Count the partitions that must stay as they are, by the reason for it."""
    counts = np.bincount(model.frozen, minlength=len(FreezeReason)).tolist()
    return {reason.explanation: counts[reason] for reason in FreezeReason if counts[reason] and reason.explanation}
