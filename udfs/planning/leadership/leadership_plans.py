"""Plans that copy nothing: preferred leaders, then their successors."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from udfs.planning.certificates import FailoverPrice, LeaderCertificate, LeadershipCertificate, TakeoverCertificate
from udfs.planning.cluster_model import ClusterModel, Flags, Ints, ProposedAssignment
from udfs.planning.leadership.preferred_leaders import (
    LeaderAssignment,
    LeaderChoices,
    LeaderLimits,
    assign_leaders,
    assign_leaders_evenly,
    certify_leaders,
    find_leader_choices,
    propose_leaders,
)
from udfs.planning.leadership.takeover_order import TakeoverObjective, find_crowded_failures, plan_takeover_order
from udfs.planning.leadership.topic_leaders import plan_topic_leaders
from udfs.planning.replica_order import MAX_REASONS

_ROUNDS = 10  # in which leaders are chosen again because of the failures of their brokers


def plan_leadership(
    model: ClusterModel,
    keep_leaders: bool = False,
    may_lead: Flags | None = None,
    by_topic: bool = False,
    target: float = 1.03,
    limits: TakeoverObjective = "each",
) -> ProposedAssignment:
    """Plan even leaders, then successors that burden the worst survivor of any single failure least.

    Where the leaders with the fewest changes miss the target, other leaders that are as even are tried; the
    certificate has the price.

    Args:
        model: The cluster.
        keep_leaders: Whether preferred leaders stay.
        may_lead: bool (n), see plan_takeover_order, as target and limits.
        by_topic: Whether each topic's leaders are spread as well.
        target: Leaders of the worst survivor over the survivors' mean.
        limits: What the worst survivors are limited to.
    """
    if keep_leaders:
        led = ProposedAssignment(model.offsets, model.replicas, np.full(model.partitions, -1, dtype=np.int16), ())
    elif by_topic:
        led = plan_topic_leaders(model, may_lead)
    else:
        led = _plan_leaders_for_failover(model, may_lead, target)
    placed = model.with_lists(led.offsets, led.replicas)
    settled = model.find_changed(led)
    ordered = plan_takeover_order(placed, may_lead, target, limits, settled)
    reason, reasons = _join_reasons(led, ordered)
    differs = model.find_changed(ordered)
    leaders = led.certificate if isinstance(led.certificate, LeaderCertificate) else None
    assert isinstance(ordered.certificate, TakeoverCertificate)
    certificate = LeadershipCertificate("failover", int(differs.sum()), leaders, ordered.certificate)
    return ProposedAssignment(ordered.offsets, ordered.replicas, reason, reasons, certificate)


def _plan_leaders_for_failover(model: ClusterModel, may_lead: Flags | None, target: float) -> ProposedAssignment:
    """Plan leaders as even as possible such that all failures meet the target, or come nearest of the choices tried.

    Where a failure misses it, some brokers alone can take over too many of the failed broker's partitions. It may
    lead only so many of these as they can take over, and the leaders are chosen again.
    """
    choices = find_leader_choices(model, may_lead)
    fewest = assignment = assign_leaders(choices)
    best, nearest = fewest, np.inf
    limits, aim = LeaderLimits.none(choices), target
    for _ in range(_ROUNDS):
        proposal = propose_leaders(model, choices, assignment)
        placed = model.with_lists(proposal.offsets, proposal.replicas)
        ratio, down, capacity, tight = find_crowded_failures(placed, may_lead, aim)
        if ratio < nearest - 1e-9:
            best, nearest = assignment, ratio
        if not len(down) or not fewest.even:
            break
        limits = _add_limits(choices, limits, assignment, down, capacity, tight)
        other = assign_leaders_evenly(choices, limits)
        if other is None:  # too much at once: from the best assignment, half the way
            other, limits, aim = best, LeaderLimits.none(choices), (aim + nearest) / 2
        assignment = other
    certificate = replace(
        certify_leaders(model, choices, best),
        changes_lower_bound=fewest.changes_bound,
        gap=best.changes - fewest.changes_bound,
        failover_price=FailoverPrice(best.changes - fewest.changes),
    )
    return propose_leaders(model, choices, best, certificate)


def _add_limits(
    choices: LeaderChoices, limits: LeaderLimits, assignment: LeaderAssignment, down: Ints, capacity: Ints, tight: Flags
) -> LeaderLimits:
    """Limit also what each broker `down` leads of what only its `tight` brokers can take over, to their capacity."""
    group, broker, capacities = limits.group.copy(), limits.broker.tolist(), limits.capacity.tolist()
    choice_count = np.bincount(choices.item, minlength=len(choices.partition))
    leads = np.zeros(len(choices.item), dtype=np.bool_)
    leads[assignment.chosen] = True
    for failure, (place, most) in enumerate(zip(down.tolist(), capacity.tolist(), strict=True)):
        inside = np.bincount(choices.item, tight[failure][choices.broker], len(choice_count)) == choice_count - 1
        concerned = (choices.broker == place) & (choice_count > 1)[choices.item] & inside[choices.item]
        # A choice with a limit keeps it: its group is a part of the new one.
        inner = np.unique(group[concerned & (group >= 0)]).tolist()
        unlimited = concerned & (group < 0)
        if not unlimited.any():
            for old in inner:  # the same set again: tighter by one
                capacities[old] = max(min(capacities[old], int(leads[group == old].sum())) - 1, 0)
            continue
        group[unlimited] = len(broker)
        broker.append(place)
        capacities.append(max(most - sum(capacities[old] for old in inner), 0))
    return LeaderLimits(group, np.array(broker, dtype=np.int64), np.array(capacities, dtype=np.int64))


def _join_reasons(
    first: ProposedAssignment, second: ProposedAssignment
) -> tuple[npt.NDArray[np.int16], tuple[str, ...]]:
    """Join the reasons of two plans: a list that both change has both, unless there are too many texts."""
    width = len(second.reasons) + 1
    codes = (first.reason.astype(np.int64) + 1) * width + second.reason + 1
    distinct, which = np.unique(codes, return_inverse=True)
    if len(distinct) > MAX_REASONS:
        codes = np.where(first.reason >= 0, codes - codes % width, codes)
        distinct, which = np.unique(codes, return_inverse=True)
    texts, others = ("", *first.reasons), ("", *second.reasons)
    joined = ["; ".join(filter(None, (texts[code // width], others[code % width]))) for code in distinct.tolist()]
    if len(distinct) and distinct[0] == 0:
        return (which - 1).astype(np.int16), tuple(joined[1:])
    return which.astype(np.int16), tuple(joined)
