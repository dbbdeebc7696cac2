"""The broker that determines how long a plan's copies take, why it does, and plans that are faster or copy less."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from udfs.arrow.ragged import any_true, row_of
from udfs.planning.certificates import BalanceCertificate
from udfs.planning.cluster_model import ClusterModel, Flags, Floats, Ints, ProposedAssignment
from udfs.planning.constraints import (
    COPYING_GOALS,
    EVEN_GOALS,
    InfeasibleRequest,
    Rules,
    build_rules,
    find_receiving_brokers,
    select_target_brokers,
)
from udfs.planning.kernels.wave_steps import NOTHING_ADDED
from udfs.planning.plan_making import make_plan
from udfs.planning.plan_metrics import mark_drained_brokers
from udfs.planning.plan_request import ALL, MIN_BYTES, PlanRequest
from udfs.planning.planned_waves import PlannedWaves, plan_waves
from udfs.planning.waves import IN, OUT, WaveLimits, measure_copy_loads
from udfs.plurals import count_of, join_names

MIN_RATIO = 2.0  # of the busiest broker's bytes over an even distribution; below it, movement is not concentrated
MIN_SECONDS = 60.0  # shorter copies need no explanation
_MAIN_SHARE = 0.5  # of the busiest broker's bytes that a reason must account for


@dataclass(frozen=True)
class EvenSpread:
    """A lower bound of the duration: brokers that only each other can relieve share their copies evenly."""

    even_brokers: int  # Those that may receive replicas, or live ones that send, of the rack if there is one
    even_seconds: float  # What their bytes take
    even_rack: str | None = None  # The rack that these copies cannot leave; None = any
    fills_brokers: bool = False  # Whether they are brokers that the plan is to fill


@dataclass(frozen=True)
class Bottleneck:
    """The broker whose copies in one direction take longest: at least twice as long as if all were spread evenly."""

    broker: int
    direction: str  # IN = it receives, OUT = it sends
    bytes_to_copy: int
    total_bytes: int  # That all brokers copy
    share: float  # Of the broker
    seconds: float  # At the throttle
    even_spread: EvenSpread
    reason: str | None  # Why this broker; None = the model does not show it
    # Brokers, by id, that copy at least half as much in this direction, with this one
    busy_brokers: tuple[int, ...]


def find_bottleneck(execution: PlannedWaves, request: PlanRequest) -> Bottleneck | None:
    """Find the broker that copies at least twice its even part; None if copies are spread, short or of unknown size."""
    model, throttle = execution.model, execution.waves.limits.throttle_bytes_per_s
    if not model.known[0] or not execution.waves.waves:
        return None
    loads = measure_copy_loads(model, execution.waves)
    by_broker = {direction: loads.get(direction).sum(axis=0) for direction in (IN, OUT)}
    direction = IN if by_broker[IN].max() >= by_broker[OUT].max() else OUT
    load = by_broker[direction]
    broker, total = int(load.argmax()), float(load.sum())
    if load[broker] < MIN_SECONDS * throttle:
        return None
    rules = build_rules(model, request)
    shares = rules.receives if direction == IN else model.live & (np.bincount(model.replicas, minlength=len(load)) > 0)
    shares = shares | (load > 0)
    even = total / int(shares.sum())
    if load[broker] < MIN_RATIO * even:
        return None
    spread = EvenSpread(int(shares.sum()), round(even / throttle, 1))
    if direction == IN:
        spread = _bound_received(execution, request, rules, broker)
        reason = _explain_received(execution, request, rules, broker)
    else:
        reason = _explain_sent(execution, rules, broker)
    return Bottleneck(
        int(model.broker_ids[broker]),
        direction,
        round(float(load[broker])),
        round(total),
        round(float(load[broker]) / total, 4),
        round(float(load[broker]) / throttle, 1),
        spread,
        reason,
        tuple(model.ids(np.flatnonzero(load >= 0.5 * load[broker]))),
    )


def _bound_received(execution: PlannedWaves, request: PlanRequest, rules: Rules, broker: int) -> EvenSpread:
    """Bound the duration by the brokers that can share copies: all, those of a rack, and for expand those to fill."""
    model, proposal, throttle = execution.model, execution.proposal, execution.waves.limits.throttle_bytes_per_s
    copied = model.find_copied(proposal)
    row = row_of(proposal.offsets)
    size = model.size[row] * copied
    shares = rules.receives | (np.bincount(proposal.replicas, size, model.brokers) > 0)
    groups: list[tuple[Flags, str | None, bool]] = [(shares, None, False)]
    filled = np.isin(model.broker_ids, select_target_brokers(model, request))
    if request.goal == "expand" and filled[broker]:
        groups.append((shares & filled, None, True))
    bounds = [_share_evenly(group, size, proposal, throttle) for group in groups]
    for rack, name in enumerate(model.rack_names):
        in_rack = model.rack == rack
        in_rack_count = np.bincount(row[in_rack[proposal.replicas]], minlength=model.partitions)
        # A rack that holds no more of a partition than the others leave to it can give none of that to them.
        confined = size * (in_rack_count <= _count_needed_replicas(model, rules, rack))[row]
        for brokers, _, fills in groups:
            if (brokers & in_rack).any():
                bounds.append(_share_evenly((brokers & in_rack, name, fills), confined, proposal, throttle))
    return max(bounds, key=lambda bound: bound.even_seconds)


def _share_evenly(
    group: tuple[Flags, str | None, bool], size: Floats, proposal: ProposedAssignment, throttle: float
) -> EvenSpread:
    brokers, rack, fills = group
    count = int(brokers.sum())
    seconds = float(size[brokers[proposal.replicas]].sum()) / count / throttle
    return EvenSpread(count, round(seconds, 1), rack, fills)


def _explain_received(execution: PlannedWaves, request: PlanRequest, rules: Rules, broker: int) -> str | None:
    model, proposal = execution.model, execution.proposal
    new = model.find_copied(proposal) & (proposal.replicas == broker)
    rows = np.flatnonzero(any_true(new, proposal.offsets))
    received, id_ = float(model.size[rows].sum()), int(model.broker_ids[broker])
    replaced = np.flatnonzero(rules.replacement == broker)
    if len(replaced):
        return f"it takes over the replicas of {model.describe_brokers(replaced)}, and no other broker does"
    rack = model.rack[broker]
    forced = count_forced_copies(model, rules, int(rack))
    members = np.flatnonzero(find_possible_holders(model, rules) & (model.rack == rack))
    if model.rack_names and float((forced * model.size).sum()) >= _MAIN_SHARE * received:
        only = f"only {model.describe_brokers(members)} may hold replicas in rack {model.rack_names[rack]}"
        partitions, most = int((forced > 0).sum()), int(rules.rack_cap[forced > 0].max(initial=1))
        need = f"{count_of(partitions, 'partition')} must have one there"
        return f"{only}, and {need}: a rack may hold at most {most} of a partition's replicas"
    if request.goal in EVEN_GOALS and not (model.replicas == broker).any():
        filled = set(select_target_brokers(model, request)) if request.goal == "expand" else set()
        empty = np.flatnonzero(rules.receives & (np.bincount(model.replicas, minlength=model.brokers) == 0))
        others = sorted((filled or set(model.ids(empty))) - {id_})
        also = f", as {join_names(others)} will" if others else ""
        return f"it has no replicas yet, and will hold {len(rows):,} of {len(proposal.replicas):,} after the plan{also}"
    return None


def _explain_sent(execution: PlannedWaves, rules: Rules, broker: int) -> str:
    copies = execution.waves.added != NOTHING_ADDED
    rows = len(np.unique(execution.waves.row[copies]))
    led = len(np.unique(execution.waves.row[copies & (execution.waves.source == broker)]))
    drained = "it is to be emptied, and " if rules.must_leave[broker] else ""
    return f"{drained}it leads {led:,} of {count_of(rows, 'partition')} to copy, and Kafka copies from leaders"


def find_possible_holders(model: ClusterModel, rules: Rules) -> Flags:
    """Find the brokers (bool, n) that may hold replicas after the plan."""
    holds = np.bincount(model.replicas, minlength=model.brokers) > 0
    return rules.receives | (model.live & holds & ~rules.must_leave)


def count_forced_copies(model: ClusterModel, rules: Rules, rack: int) -> Ints:
    """Count the replicas of each partition, int64 (p), that any legal plan copies into a rack for lack of other room.

    A partition of f replicas, of which a rack holds at most c, has at least f minus the sum of min(c, brokers) over the
    other racks in this one. What is there already need not be copied.
    """
    stays = (model.rack[model.replicas] == rack) & ~rules.must_leave[model.replicas]
    present = np.bincount(model.row[stays], minlength=model.partitions)
    missing: Ints = np.maximum(_count_needed_replicas(model, rules, rack) - present, 0) * ~rules.fixed
    return missing


def _count_needed_replicas(model: ClusterModel, rules: Rules, rack: int) -> Ints:
    """Count the replicas of each partition, int64 (p), that the other racks have no room for; at least 0."""
    holders = np.bincount(model.rack[find_possible_holders(model, rules)], minlength=int(model.rack.max(initial=0)) + 1)
    others = np.delete(holders, rack)
    caps, which = np.unique(rules.rack_cap, return_inverse=True)
    room = np.minimum(caps[:, None], others[None, :]).sum(axis=1)[which]
    needed: Ints = np.maximum(rules.factor - room, 0)
    return needed


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
