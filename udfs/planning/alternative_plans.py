"""Plans beside one: faster ones, one that copies less, and the part of a repair that producers wait for."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from udfs.arrow.ragged import row_of
from udfs.planning.bottleneck import Bottleneck, count_forced_copies
from udfs.planning.certificates import BalanceCertificate
from udfs.planning.cluster_model import ClusterModel, Flags, ProposedAssignment
from udfs.planning.constraints import COPYING_GOALS, InfeasibleRequest, build_rules, find_receiving_brokers
from udfs.planning.plan_making import make_plan, split_failed_dirs
from udfs.planning.plan_metrics import mark_drained_brokers
from udfs.planning.plan_request import ALL, MIN_BYTES, PlanRequest
from udfs.planning.planned_waves import PlannedWaves, plan_waves
from udfs.planning.waves import IN, WaveLimits, measure_copy_loads
from udfs.wording import count_of

_FASTER = 0.9  # of the plan's duration: what takes longer is not worth another plan
_CHEAPER, _MUCH_MORE = 0.95, 1.1  # of the plan's bytes; bytes over what must be copied anyway
_LOOSER_FAILOVER = 1.3  # target of bytes out after failures that copies less
_THROTTLE_FACTORS = (2, 4)  # tried for the throttle of the busiest brokers
_MORE_GAIN = 0.75  # of the duration at the lower factor: a higher one must be worth it
# Replicas up to which another plan is made: by counts with flows, and by all loads with a search. A count and not a
# clock, so that plans are reproducible.
_MAX_COUNTED, _MAX_SEARCHED = 1_000_000, 150_000

PlanChanges = Mapping[str, tuple[str, ...]]  # Values of options of `plan` that differ; none = leave the option out


@dataclass(frozen=True)
class BrokerThrottle:
    """A throttle for some brokers only."""

    brokers: tuple[int, ...]
    config: str  # Dynamic config of these brokers
    bytes_per_s: int


@dataclass(frozen=True)
class FasterPlan:
    """An alternative: a throttle to set while the plan runs, or options for another plan."""

    description: str
    seconds: float  # Estimated duration of copying
    bytes_to_copy: int
    options: PlanChanges
    throttle: BrokerThrottle | None = None
    disk_max_over_mean: float | None = None  # Disk of the fullest broker over the mean after another plan
    missed_targets: int | None = None  # Targets that another plan misses


@dataclass(frozen=True)
class _Variant:
    description: str
    options: PlanChanges
    model: ClusterModel
    request: PlanRequest


def find_faster_plans(execution: PlannedWaves, request: PlanRequest, bottleneck: Bottleneck) -> tuple[FasterPlan, ...]:
    """Find what is faster than a plan with this bottleneck, the fastest first."""
    alternatives = [*_try_throttle(execution, bottleneck), *_try_one_wave(execution)]
    for variant in _list_variants(execution.model, request, bottleneck):
        if len(execution.model.replicas) <= (_MAX_SEARCHED if variant.request.objective == ALL else _MAX_COUNTED):
            other = _try_variant(execution, variant)
            if other is not None and other.seconds <= _FASTER * execution.seconds:
                alternatives.append(other)
    return tuple(sorted(alternatives, key=lambda plan: plan.seconds))


def find_cheaper_plan(execution: PlannedWaves, request: PlanRequest) -> FasterPlan | None:
    """Find a plan that copies less, as it evens out bytes out after failures less; None if that saves little."""
    certificate, model = execution.proposal.certificate, execution.model
    if not isinstance(certificate, BalanceCertificate) or request.has_budget or len(model.replicas) > _MAX_SEARCHED:
        return None
    looser = replace(request.targets, failover_out=_LOOSER_FAILOVER)
    if (
        certificate.bytes <= _MUCH_MORE * certificate.bytes_lower_bound
        or looser.failover_out <= request.targets.failover_out
    ):
        return None
    options: PlanChanges = {"--set": (f"plans.target_failover_out={_LOOSER_FAILOVER}",)}
    description = f"a target of {_LOOSER_FAILOVER} for bytes out after failures"
    variant = _Variant(description, options, model, replace(request, targets=looser))
    cheaper = _try_variant(execution, variant)
    is_cheaper = cheaper is not None and cheaper.bytes_to_copy <= _CHEAPER * execution.bytes_to_copy
    return cheaper if is_cheaper else None


def measure_disk(model: ClusterModel, request: PlanRequest, proposal: ProposedAssignment) -> float | None:
    """Measure the disk of the fullest broker over the mean after a proposal, of the brokers that stay."""
    stays: Flags = model.live & ~mark_drained_brokers(model, request).draining
    load = model.sum_bytes(proposal)[stays]
    return round(float(load.max() / load.mean()), 3) if load.any() else None


def _try_throttle(execution: PlannedWaves, bottleneck: Bottleneck) -> Iterator[FasterPlan]:
    """Try a higher throttle for the busiest brokers in their direction, while all others keep theirs."""
    model, rate = execution.model, execution.waves.limits.throttle_bytes_per_s
    loads, busy = measure_copy_loads(model, execution.waves), np.isin(model.broker_ids, bottleneck.busy_brokers)
    normal, best, seconds = np.full(model.brokers, rate), None, execution.seconds
    for factor in _THROTTLE_FACTORS:
        raised = np.where(busy, factor * rate, rate)
        rates = (raised, normal) if bottleneck.direction == IN else (normal, raised)
        estimate = loads.estimate_seconds(*rates)
        if estimate > (_FASTER if best is None else _MORE_GAIN) * seconds:
            break
        best, seconds = factor, estimate
    if best is None:
        return
    side = "follower" if bottleneck.direction == IN else "leader"
    config = f"{side}.replication.throttled.rate"
    throttle = BrokerThrottle(bottleneck.busy_brokers, config, int(best * rate))
    busiest = model.describe_brokers(np.flatnonzero(busy))
    description = f"{best} times the throttle for {busiest} only, if network and disks allow it"
    yield FasterPlan(description, round(seconds, 1), execution.bytes_to_copy, {}, throttle)


def _try_one_wave(execution: PlannedWaves) -> Iterator[FasterPlan]:
    """Try the same plan without limits of waves, in which brokers do not wait for the busiest of each wave."""
    unlimited = WaveLimits(throttle_bytes_per_s=execution.waves.limits.throttle_bytes_per_s)
    other = plan_waves(execution.model, execution.proposal, unlimited)
    if other.seconds <= _FASTER * execution.seconds:
        settings = ("plans.wave_bytes_per_broker=0", "plans.wave_moves_per_broker=0")
        waves = f"{count_of(other.waves.waves, 'wave')} instead of {execution.waves.waves}"
        description = f"{waves}, in which brokers do not wait for each other"
        yield FasterPlan(description, other.seconds, other.bytes_to_copy, {"--set": settings})


def _try_variant(execution: PlannedWaves, variant: _Variant) -> FasterPlan | None:
    try:
        proposal = make_plan(variant.model, variant.request)
    except InfeasibleRequest:
        return None
    other = plan_waves(variant.model, proposal, execution.waves.limits)
    disk = measure_disk(variant.model, variant.request, proposal)
    copies, missed = (other.seconds, other.bytes_to_copy), len(proposal.certificate.missed)
    return FasterPlan(variant.description, *copies, variant.options, None, disk, missed)


def _list_variants(model: ClusterModel, request: PlanRequest, bottleneck: Bottleneck) -> Iterator[_Variant]:
    """List other requests that may be faster: fewer bytes, more brokers that receive, or another goal.

    A plan with a budget copies less only because it does less, so there are none.
    """
    if request.has_budget:
        return
    if request.objective == ALL and request.goal in ("balance", "expand", "drain"):
        fewer = replace(request, objective=MIN_BYTES)
        yield _Variant(
            "even replica counts only, with as few bytes as possible", {"--objective": (MIN_BYTES,)}, model, fewer
        )
    if bottleneck.direction != IN or request.goal not in COPYING_GOALS:
        return
    yield from _list_repairs(model, request)
    if request.goal == "replace":
        old = tuple(sorted({id_ for id_, _ in request.replacements}))
        drain = replace(request, goal="drain", brokers=old, replacements=(), objective=MIN_BYTES)
        ids = ",".join(map(str, old))
        options = {"--goal": ("drain",), "--replace": (), "--brokers": (ids,), "--objective": (MIN_BYTES,)}
        one = "broker" if len(old) == 1 else "brokers"
        yield _Variant(f"drain {one} {ids} onto all other brokers", options, model, drain)
        return
    broker = int(np.searchsorted(model.broker_ids, bottleneck.broker))
    rack = int(model.rack[broker])
    if model.rack_names and count_forced_copies(model, build_rules(model, request), rack).any():
        id_ = int(model.broker_ids[-1]) + 1
        larger = model.with_broker(id_, rack)
        name = model.rack_names[rack]
        options = {"--add-brokers": (f"{id_}:{name}",)}
        changed = request
        if request.goal == "expand" and request.brokers:
            changed = replace(request, brokers=(*request.brokers, id_))
            options["--brokers"] = (",".join(map(str, changed.brokers)),)
        yield _Variant(
            f"one more broker in rack {name}, to start first, here with the id {id_}", options, larger, changed
        )


def _list_repairs(model: ClusterModel, request: PlanRequest) -> Iterator[_Variant]:
    """List the repair onto the brokers that hold replicas already, where new ones take those of down brokers."""
    holds = np.bincount(model.replicas, minlength=model.brokers) > 0
    new = np.flatnonzero(find_receiving_brokers(model, request.exclude_brokers) & ~holds)
    old = np.isin(model.broker_ids, [old for old, _ in request.replacements])
    if request.goal not in ("repair", "replace") or not len(new) or (old & model.live).any():
        return
    excluded = tuple(sorted((*request.exclude_brokers, *model.ids(new))))
    repair = replace(request, goal="repair", replacements=(), exclude_brokers=excluded, allow_empty_racks=False)
    options: PlanChanges = {
        "--goal": ("repair",),
        "--replace": (),
        "--allow-empty-racks": (),
        "--exclude-brokers": (",".join(map(str, excluded)),),
    }
    yield _Variant(f"repair onto the other brokers, without {model.describe_brokers(new)}", options, model, repair)


_LISTED = 3  # partitions by name


@dataclass(frozen=True)
class UrgentRepair:
    """A repair of only the partitions below min.insync.replicas."""

    partitions: int
    first_partitions: list[str]
    bytes_to_copy: int | None  # None = of unknown size
    seconds: float  # Estimated duration of copying


def find_urgent_repair(
    model: ClusterModel, request: PlanRequest, proposal: ProposedAssignment, limits: WaveLimits
) -> UrgentRepair | None:
    """Find the repair of only the partitions below min.insync.replicas; None if a plan repairs none, or no others."""
    if request.goal != "repair" or request.at_min_isr_partitions or request.under_min_isr_partitions:
        return None
    urgent = replace(request, under_min_isr_partitions=True)
    if build_rules(split_failed_dirs(model)[0], urgent).fixed.all():
        return None
    try:
        first = make_plan(model, urgent)
    except InfeasibleRequest:
        return None
    copied_rows = row_of(first.offsets)[model.find_copied(first)]
    rows = np.unique(copied_rows)
    if not len(rows) or len(rows) >= int(model.find_changed(proposal).sum()):
        return None
    size = round(float(model.size[copied_rows].sum())) if model.known[0] else None
    names = [model.name(row) for row in rows[:_LISTED].tolist()]
    return UrgentRepair(len(rows), names, size, plan_waves(model, first, limits).seconds)
