"""Successors: followers in the order that burdens the worst survivor of a failure least; nothing is copied."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from udfs.arrow.ragged import offsets_of
from udfs.planning.bounds.min_cost_flow import FlowNetwork, find_cheapest_flow
from udfs.planning.certificates import FailureTakeover, ForcedTakeover, TakeoverCertificate
from udfs.planning.cluster_model import FREE, ClusterModel, Flags, Floats, Ints, ProposedAssignment
from udfs.planning.leadership.kernels.takeover_limits import BaseLoads, Items, lift_limits
from udfs.planning.plan_text import count_of, describe_brokers
from udfs.planning.replica_order import compute_leader_loads, encode_reasons, find_eligible_leaders, promote_replicas

TakeoverObjective = Literal["each", "worst", "target"]

_EXPLAINED_FAILURES = 10  # in a certificate, the worst first


@dataclass(frozen=True)
class SuccessorChoices:
    """The partitions (q, by leader) whose successor can be chosen, and the followers (m) among which."""

    items: Ints  # int64 (n + 1), the range of partitions that each broker leads
    partition: Ints  # int64 (q), rows of the model
    offsets: Ints  # int64 (q + 1), the range of choices of each partition
    replica: Ints  # int64 (m), index of the replica in the model
    broker: Ints  # int64 (m), its broker index
    current: Flags  # bool (m), whether it is the successor now
    counted: Flags  # bool (n), brokers that may lead
    base: Ints  # int64 (n, n), for each failed broker the leaders of each survivor whatever is chosen


@dataclass(frozen=True)
class TakeoverLimits:
    """The lowest limit for leaders of a survivor after each failure."""

    limit: Ints  # int64 (n), the fewest leaders that the worst survivor can have, of those that may lead
    bound: Ints  # int64 (n), a lower bound of it; where it equals the limit, this is proven
    tight: Flags  # bool (n, n), the brokers that force it; none where one of them leads that many anyway


def find_successor_choices(model: ClusterModel, may_lead: Flags | None = None) -> SuccessorChoices:
    """Find the choices of successors: live followers of partitions that are not frozen, on brokers that may lead.

    A partition without such a follower keeps its order.
    """
    n = model.brokers
    counted, leader = find_eligible_leaders(model, may_lead), model.preferred_leaders
    row = model.row
    follows = np.arange(len(row)) > model.offsets[:-1][row]
    flat = np.flatnonzero(follows & (model.frozen == FREE)[row] & counted[model.replicas] & (leader >= 0)[row])
    replica = flat[np.argsort(leader[row[flat]], kind="stable")]
    starts = np.flatnonzero(np.diff(row[replica], prepend=-1))
    partition = row[replica][starts]
    stays = np.ones(model.partitions, dtype=np.bool_)
    stays[partition] = False
    return SuccessorChoices(
        offsets_of(np.bincount(leader[partition], minlength=n)),
        partition,
        np.append(starts, len(replica)),
        replica,
        model.replicas[replica].astype(np.int64),
        replica == model.offsets[:-1][row[replica]] + 1,
        counted,
        compute_leader_loads(model, taken_over=stays),
    )


def compute_takeover_limits(choices: SuccessorChoices) -> TakeoverLimits:
    """Compute the lowest limit after each failure, with the sets of brokers that prove it."""
    n = len(choices.counted)
    base = np.where(choices.counted, choices.base, 0)
    limit = base.max(axis=1, initial=0)
    bound, tight = limit.copy(), np.zeros((n, n), dtype=np.bool_)
    down, survivor = (np.ascontiguousarray(index) for index in np.nonzero(base))
    loads = BaseLoads(offsets_of(np.bincount(down, minlength=n)), survivor, base[down, survivor])
    lift_limits(Items(choices.items, choices.offsets, choices.broker), loads, n, limit, tight)
    # The proof, counted independently: what the set carries anyway, and what has no choice outside of it.
    forced = np.flatnonzero(tight.any(axis=1))
    existing = (np.where(tight, base, 0).sum(axis=1) + _count_confined(choices, tight))[forced]
    bound[forced] = np.maximum(bound[forced], -(-existing // tight[forced].sum(axis=1)))
    return TakeoverLimits(limit, bound, tight)


def _count_confined(choices: SuccessorChoices, tight: Flags) -> Ints:
    """Count, for each failed broker, its partitions that have no choice outside of its tight set."""
    if not len(choices.partition):
        return np.zeros(len(choices.counted), dtype=np.int64)
    leader = np.repeat(np.arange(len(choices.counted)), np.diff(choices.items))
    within = tight[np.repeat(leader, np.diff(choices.offsets)), choices.broker]
    confined = np.logical_and.reduceat(within, choices.offsets[:-1])
    return np.bincount(leader[confined], minlength=len(choices.counted))


def plan_takeover_order(
    model: ClusterModel,
    may_lead: Flags | None = None,
    target: float = 1.03,
    limits: TakeoverObjective = "each",
    settled: Flags | None = None,
) -> ProposedAssignment:
    """Plan successors, with leaders as they are, so that the worst survivor of any single failure leads the fewest.

    Args:
        model: The cluster.
        may_lead: bool (n), by default brokers that are live and not draining; others succeed only where no other can.
        target: Leaders of the worst survivor over the survivors' mean.
        limits: "each" = every failure as good as possible; "worst" = none worse than the worst must be; "target" =
            none above `target` unless it must be.
        settled: bool (p), lists that differ from the cluster's anyway: they count only among themselves.

    Returns:
        The lists with the fewest changes under these limits.
    """
    choices = find_successor_choices(model, may_lead)
    lowest = compute_takeover_limits(choices)
    survives = model.live & ~model.draining
    mean = _compute_means(choices, survives)
    lowest_ratio = _divide(lowest.limit, mean, survives)
    allowed = lowest.limit
    if limits != "each":
        ratio = target if limits == "target" else float(lowest_ratio.max(initial=0))
        # A ratio that a limit gave allows this limit again in spite of rounding.
        allowed = np.maximum(lowest.limit, np.floor(ratio * mean + 1e-9).astype(np.int64))
    chosen, cost, cost_bound = _choose_fewest_changes(choices, allowed, settled)
    change = chosen[~choices.current[chosen]]
    replicas = promote_replicas(model.offsets, model.replicas, choices.replica[change], 1)
    before, before_mean = measure_takeovers(model)
    after, _ = measure_takeovers(model.with_lists(model.offsets, replicas))
    row = model.row[choices.replica[change]]
    codes = np.full(model.partitions, -1, dtype=np.int64)
    codes[row] = model.preferred_leaders[row]

    def describe(down: int) -> str:
        return (
            f"next leader if broker {model.broker_ids[down]} fails: the worst survivor would lead {before[down]} "
            f"partitions, with this order {after[down]}, the mean is {mean[down]:.1f}"
        )

    # Brokers that should not lead may lead more than the limits of the others.
    forced_anyway = np.maximum(lowest.bound, np.where(survives, choices.base, 0).max(axis=1, initial=0))
    missed = np.flatnonzero(lowest_ratio > target)
    worst_first = missed[np.argsort(-lowest_ratio[missed], kind="stable")]
    forced = _find_forced_takeovers(model, choices, lowest, mean, worst_first[:_EXPLAINED_FAILURES])
    certificate = TakeoverCertificate(
        goal="failover",
        changes=len(change),
        cost=cost,
        cost_lower_bound=cost_bound,
        gap=cost - cost_bound,
        limits=limits,
        target=target,
        worst_ratio=_largest(_divide(after, mean, survives)),
        worst_ratio_before=_largest(_divide(before, before_mean, survives)),
        worst_ratio_lower_bound=_largest(_divide(forced_anyway, mean, survives)),
        failures={
            int(model.broker_ids[down]): FailureTakeover(
                int(lowest.limit[down]), int(lowest.bound[down]), int(after[down]), round(float(mean[down]), 6)
            )
            for down in np.flatnonzero(survives | (np.diff(choices.items) > 0)).tolist()
        },
        failures_above_target=len(missed),
        forced=forced,
        relaxed=[entry.text for entry in forced],
    )
    reason, reasons = encode_reasons(codes, describe, "next leader: the worst survivor of a failure leads fewer")
    return ProposedAssignment(model.offsets, replicas, reason, reasons, certificate)


def find_crowded_failures(
    model: ClusterModel, may_lead: Flags | None, target: float
) -> tuple[float, Ints, Ints, Flags]:
    """Find the failures that must miss the target because some brokers alone can take over too much.

    Failures that a broker's own leaders make miss the target are left out.

    Returns:
        The lowest worst ratio of all failures; the failed brokers, int64 (d); the partitions that their sets could
        take over at the target, int64 (d); the sets, bool (d, n).
    """
    choices = find_successor_choices(model, may_lead)
    lowest, survives = compute_takeover_limits(choices), model.live & ~model.draining
    mean = _compute_means(choices, survives)
    ratio = _divide(lowest.limit, mean, survives)
    down = np.flatnonzero((ratio > target) & lowest.tight.any(axis=1))
    tight = lowest.tight[down]
    capacity = np.floor(target * mean[down] + 1e-9).astype(np.int64) * tight.sum(axis=1)
    return _largest(ratio), down, capacity - np.where(tight, choices.base[down], 0).sum(axis=1), tight


def measure_takeovers(model: ClusterModel) -> tuple[Ints, Floats]:
    """Measure each failure: leaders of the worst survivor, int64 (n), and their mean per survivor, float64 (n).

    Survivors are live and not draining. A partition without a successor is lost.
    """
    survives = model.live & ~model.draining
    loads = compute_leader_loads(model)
    loads = np.where(survives, loads, 0)
    return loads.max(axis=1, initial=0), loads.sum(axis=1) / np.maximum(survives.sum() - survives, 1)


def _compute_means(choices: SuccessorChoices, survives: Flags) -> Floats:
    # As in measure_takeovers, whatever is chosen: all chosen successors are survivors.
    total = np.where(survives, choices.base, 0).sum(axis=1) + np.diff(choices.items)
    return np.asarray(total / np.maximum(survives.sum() - survives, 1))


def _divide(worst: Ints, mean: Floats, fails: Flags) -> Floats:
    ratios: Floats = np.divide(worst, mean, out=np.zeros(len(mean)), where=fails & (mean > 0))
    return ratios


def _largest(ratios: Floats) -> float:
    return round(float(ratios.max(initial=0)), 6)


def _choose_fewest_changes(choices: SuccessorChoices, allowed: Ints, settled: Flags | None) -> tuple[Ints, int, int]:
    """Choose successors: (choices taken, int64 (q); their cost; a lower bound of it under these limits)."""
    n, items = len(choices.counted), len(choices.partition)
    if not items:
        return np.zeros(0, dtype=np.int64), 0, 0
    item = np.repeat(np.arange(items), np.diff(choices.offsets))
    leader = np.repeat(np.arange(n), np.diff(choices.items))
    pair, group = np.unique(leader[item] * n + choices.broker, return_inverse=True)
    capacity = np.minimum(allowed[pair // n] - choices.base.ravel()[pair], np.bincount(group))
    # All lists that change anyway together cost less than one that does not.
    cheap = np.zeros(items, dtype=np.bool_) if settled is None else settled[choices.partition]
    cost = np.where(cheap, 1, 1 + int(cheap.sum()))[item] * ~choices.current
    groups = items + np.arange(len(pair))
    supply = np.concatenate((np.ones(items, dtype=np.int64), np.zeros(len(pair), dtype=np.int64), [-items]))
    arcs = [
        (item, items + group, np.ones_like(item), cost),
        (groups, np.full(len(pair), items + len(pair)), capacity, 0 * groups),
    ]
    flow = find_cheapest_flow(FlowNetwork.build(arcs, supply))
    assert flow is not None, "the matching reached these limits, so a flow does"
    return np.flatnonzero(flow.flow[: len(item)]), flow.cost, flow.bound


def _find_forced_takeovers(
    model: ClusterModel, choices: SuccessorChoices, lowest: TakeoverLimits, mean: Floats, failures: Ints
) -> list[ForcedTakeover]:
    """Explain for some failures which brokers keep the worst survivor from leading less."""
    confined, forced = _count_confined(choices, lowest.tight), []
    base = np.where(choices.counted, choices.base, 0)
    for down in failures.tolist():
        members, only_these = np.flatnonzero(lowest.tight[down]), int(confined[down])
        if not len(members):  # one broker leads that many anyway
            members, only_these = np.array([base[down].argmax()]), 0
        ids, leaders, bound = model.ids(members), int(base[down, members].sum()), int(lowest.bound[down])
        lead, they, one = ("leads", "it", "it") if len(ids) == 1 else ("lead", "they", "one")
        text = f"if broker {model.broker_ids[down]} fails, {describe_brokers(model, members)} {lead} "
        text += f"{count_of(leaders, 'partition')} anyway"
        if only_these:
            text += f", and only {they} can take over {only_these} more: {one} leads at least {bound}"
        text += f"; the mean is {mean[down]:.1f}"
        forced.append(ForcedTakeover(text, int(model.broker_ids[down]), ids, leaders, only_these, bound))
    return forced
