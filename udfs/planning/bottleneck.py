"""The broker that determines how long a plan's copies take, if it copies far more than others, and why it does."""

from dataclasses import dataclass

import numpy as np

from udfs.arrow.ragged import any_true, row_of
from udfs.planning.cluster_model import ClusterModel, Flags, Floats, Ints, ProposedAssignment
from udfs.planning.constraints import EVEN_GOALS, Rules, build_rules, select_target_brokers
from udfs.planning.kernels.wave_steps import NOTHING_ADDED
from udfs.planning.plan_request import PlanRequest
from udfs.planning.planned_waves import PlannedWaves
from udfs.planning.waves import IN, OUT, measure_copy_loads
from udfs.wording import count_of, join_names

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
