"""Preferred leaders, then their successors in the order that burdens the worst survivor of a failure least."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from udfs.arrow.ragged import any_true, offsets_of, row_of
from udfs.planning import certificates
from udfs.planning.bounds.kernels.graph_bounds import BaseLoads, Items, lift_limits
from udfs.planning.bounds.lower_bounds import FlowNetwork, find_cheapest_flow
from udfs.planning.cluster_model import FREE, ClusterModel, Flags, Floats, Ints, ProposedAssignment
from udfs.planning.leadership import preferred_leaders
from udfs.planning.leadership.preferred_leaders import LeaderAssignment, LeaderChoices, LeaderLimits
from udfs.wording import count_of

_EXPLAINED_FAILURES = 10  # in a certificate, the worst first

_REASON = "next leader: the worst survivor of a failure leads fewer"
_ROUNDS = 10  # in which leaders are chosen again because of the failures of their brokers


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
    """Find the live followers of partitions that are not frozen, on brokers that may lead. Others keep their order."""
    n = model.brokers
    counted, leader = model.find_eligible_leaders(may_lead), model.preferred_leaders
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
        model.compute_leader_loads(taken_over=stays),
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
    leader = row_of(choices.items)
    confined = ~any_true(~tight[leader[row_of(choices.offsets)], choices.broker], choices.offsets)
    return np.bincount(leader[confined], minlength=len(choices.counted))


def plan_takeover_order(
    model: ClusterModel, may_lead: Flags | None = None, target: float = 1.03, settled: Flags | None = None
) -> ProposedAssignment:
    """Plan successors, with leaders as they are, so that the worst survivor of any failure leads the fewest.

    may_lead: bool (n), by default brokers that are live and not draining; others succeed only where no other can.
    target: leaders of the worst survivor over the survivors' mean; failures above it are explained. settled: bool (p),
    lists that differ from the cluster's anyway: they count only among themselves.
    """
    choices = find_successor_choices(model, may_lead)
    lowest = compute_takeover_limits(choices)
    survives = model.live & ~model.draining
    mean = _compute_means(choices, survives)
    lowest_ratio = _divide(lowest.limit, mean, survives)
    chosen, cost, cost_bound = _choose_fewest_changes(choices, lowest.limit, settled)
    change = chosen[~choices.current[chosen]]
    replicas = preferred_leaders.promote_replicas(model.offsets, model.replicas, choices.replica[change], 1)
    before, before_mean = measure_takeovers(model)
    after, _ = measure_takeovers(model.with_lists(model.offsets, replicas))
    reason = np.full(model.partitions, -1, dtype=np.int16)
    reason[model.row[choices.replica[change]]] = 0
    # Brokers that should not lead may lead more than the limits of the others.
    forced_anyway = np.maximum(lowest.bound, np.where(survives, choices.base, 0).max(axis=1, initial=0))
    missed = np.flatnonzero(lowest_ratio > target)
    worst_first = missed[np.argsort(-lowest_ratio[missed], kind="stable")]
    forced = _find_forced_takeovers(model, choices, lowest, mean, worst_first[:_EXPLAINED_FAILURES])
    failed = np.flatnonzero(survives | (np.diff(choices.items) > 0)).tolist()
    rows = zip(*(column[failed].tolist() for column in (lowest.limit, lowest.bound, after, mean)), strict=True)
    failures = {
        id_: certificates.FailureTakeover(limit, bound, worst, round(average, 6))
        for id_, (limit, bound, worst, average) in zip(model.ids(failed), rows, strict=True)
    }
    order = ("failover", len(change), cost, cost_bound, cost - cost_bound, target)
    certificate = certificates.TakeoverCertificate(
        *order,
        worst_ratio=_largest(_divide(after, mean, survives)),
        worst_ratio_before=_largest(_divide(before, before_mean, survives)),
        worst_ratio_lower_bound=_largest(_divide(forced_anyway, mean, survives)),
        failures=failures,
        failures_above_target=len(missed),
        forced=forced,
        relaxed=[entry.text for entry in forced],
    )
    return ProposedAssignment(model.offsets, replicas, reason, (_REASON,), certificate)


def find_crowded_failures(
    model: ClusterModel, may_lead: Flags | None, target: float
) -> tuple[float, Ints, Ints, Flags]:
    """Find the failures that must miss the target because some brokers alone can take over too much.

    Return the lowest worst ratio of all failures; the failed brokers (int64, d); what their sets could take over at the
    target (int64, d); the sets (bool, d, n). Failures that a broker's own leaders make miss it are left out.
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
    """Measure each failure: leaders of the worst survivor, int64 (n), and their mean per survivor, float64 (n)."""
    survives = model.live & ~model.draining
    loads = model.compute_leader_loads()
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
    item, leader = row_of(choices.offsets), row_of(choices.items)
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
) -> list[certificates.ForcedTakeover]:
    """Explain for some failures which brokers keep the worst survivor from leading less."""
    confined, forced = _count_confined(choices, lowest.tight), []
    base = np.where(choices.counted, choices.base, 0)
    for down in failures.tolist():
        members, only_these = np.flatnonzero(lowest.tight[down]), int(confined[down])
        if not len(members):  # one broker leads that many anyway
            members, only_these = np.array([base[down].argmax()]), 0
        ids, leaders, bound = model.ids(members), int(base[down, members].sum()), int(lowest.bound[down])
        anyway = f"{model.describe_brokers(members)} must lead {count_of(leaders + only_these, 'partition')}"
        most = f"at least {bound} on the worst survivor (mean: {mean[down]:.1f})"
        text = f"if broker {model.broker_ids[down]} fails, {anyway}: {most}"
        forced.append(certificates.ForcedTakeover(text, int(model.broker_ids[down]), ids, leaders, only_these, bound))
    return forced


def plan_leadership(
    model: ClusterModel,
    keep_leaders: bool = False,
    may_lead: Flags | None = None,
    by_topic: bool = False,
    target: float = 1.03,
) -> ProposedAssignment:
    """Plan even leaders, then successors that burden the worst survivor of any single failure least.

    Where the leaders with the fewest changes miss the target, other leaders that are as even are tried; the certificate
    has the price. may_lead, target: as in plan_takeover_order.
    """
    if keep_leaders:
        led = ProposedAssignment(model.offsets, model.replicas, np.full(model.partitions, -1, dtype=np.int16), ())
    elif by_topic:
        led = preferred_leaders.plan_topic_leaders(model, may_lead)
    else:
        led = _plan_leaders_for_failover(model, may_lead, target)
    placed = model.with_lists(led.offsets, led.replicas)
    ordered = plan_takeover_order(placed, may_lead, target, settled=model.find_changed(led))
    reason, reasons = _join_reasons(led, ordered)
    leaders = led.certificate if isinstance(led.certificate, certificates.LeaderCertificate) else None
    assert isinstance(ordered.certificate, certificates.TakeoverCertificate)
    changed = int(model.find_changed(ordered).sum())
    relaxed = list(dict.fromkeys([*led.certificate.relaxed, *ordered.certificate.relaxed]))
    certificate = certificates.LeadershipCertificate("failover", changed, leaders, ordered.certificate, relaxed=relaxed)
    return ProposedAssignment(ordered.offsets, ordered.replicas, reason, reasons, certificate)


def _plan_leaders_for_failover(model: ClusterModel, may_lead: Flags | None, target: float) -> ProposedAssignment:
    """Plan leaders as even as possible such that all failures meet the target, or come nearest of those tried."""
    choices = preferred_leaders.find_leader_choices(model, may_lead)
    fewest = assignment = preferred_leaders.assign_leaders(choices)
    best, nearest = fewest, np.inf
    limits, aim = LeaderLimits.none(choices), target
    for _ in range(_ROUNDS):
        proposal = preferred_leaders.propose_leaders(model, choices, assignment)
        placed = model.with_lists(proposal.offsets, proposal.replicas)
        ratio, down, capacity, tight = find_crowded_failures(placed, may_lead, aim)
        if ratio < nearest - 1e-9:
            best, nearest = assignment, ratio
        if not len(down) or not fewest.even:
            break
        # A broker may lead only so many of the partitions that only its tight brokers can take over as these can take.
        limits = _add_limits(choices, limits, assignment, down, capacity, tight)
        other = preferred_leaders.assign_leaders_evenly(choices, limits)
        if other is None:  # too much at once: from the best assignment, half the way
            other, limits, aim = best, LeaderLimits.none(choices), (aim + nearest) / 2
        assignment = other
    certificate = replace(
        preferred_leaders.certify_leaders(model, choices, best),
        changes_lower_bound=fewest.changes_bound,
        gap=best.changes - fewest.changes_bound,
        failover_price=certificates.FailoverPrice(best.changes - fewest.changes),
    )
    return preferred_leaders.propose_leaders(model, choices, best, certificate)


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
    """Join the reasons of two plans: a list that both change has both."""
    width = len(second.reasons) + 1
    codes = (first.reason.astype(np.int64) + 1) * width + second.reason + 1
    distinct, which = np.unique(codes, return_inverse=True)
    texts, others = ("", *first.reasons), ("", *second.reasons)
    joined = ["; ".join(filter(None, (texts[code // width], others[code % width]))) for code in distinct.tolist()]
    if len(distinct) and distinct[0] == 0:
        return (which - 1).astype(np.int16), tuple(joined[1:])
    return which.astype(np.int16), tuple(joined)
