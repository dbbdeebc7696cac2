"""Even preferred leaders with the fewest changes, each topic's as well if wished; nothing is copied."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from udfs.arrow.ragged import offsets_of, position_of, row_of
from udfs.planning.bounds.kernels.graph_bounds import BaseLoads, Items, lift_limits
from udfs.planning.bounds.lower_bounds import FlowNetwork, MinCostFlow, find_cheapest_flow
from udfs.planning.certificates import Certificate, ForcedLeaders, LeaderCertificate, TopicPrice, TopicSpread
from udfs.planning.cluster_model import FREE, ClusterModel, Flags, Int32s, Ints, ProposedAssignment
from udfs.wording import count_of

_MAX_COST = 1 << 62  # of OR-tools
_UNFIT = "preferred leader: the old one should not lead"


@dataclass(frozen=True)
class LeaderChoices:
    """The partitions (q) whose preferred leader can be chosen, and the replicas (m) among which."""

    partition: Ints  # int64 (q), rows of the model
    item: Ints  # int64 (m), index into `partition`
    replica: Ints  # int64 (m), index of the replica in the model
    broker: Ints  # int64 (m), its broker index
    cost: Ints  # int64 (m), 1 = a change, 0 = it is the preferred leader now
    out_of_sync: Flags  # bool (m), its election would fail now: of equally few changes, those without it are better
    counted: Flags  # bool (n), brokers that may lead
    fixed: Ints  # int64 (n), leaders of each broker whatever is chosen

    @cached_property
    def change_weight(self) -> int:
        """Return the cost of a change in a flow, where a replica out of sync costs 1: more than all of these."""
        return len(np.unique(self.item[self.out_of_sync])) + 1

    @cached_property
    def mean(self) -> float:
        """Return the leaders per broker that may lead, whatever is chosen; 0 without any."""
        return (int(self.fixed[self.counted].sum()) + len(self.partition)) / max(int(self.counted.sum()), 1)

    @property
    def floor(self) -> int:
        """Return the mean, rounded down."""
        return math.floor(self.mean)

    @property
    def ceiling(self) -> int:
        """Return the mean, rounded up."""
        return math.ceil(self.mean)


@dataclass(frozen=True)
class LeaderLimits:
    """Limits of groups of choices; each group belongs to one broker."""

    group: Ints  # int64 (m), the group of each choice, or -1
    broker: Ints  # int64 (groups), broker index
    capacity: Ints  # int64 (groups), how many choices of the group may be taken

    @staticmethod
    def none(choices: LeaderChoices) -> LeaderLimits:
        """Return no limits."""
        empty = np.zeros(0, dtype=np.int64)
        return LeaderLimits(np.full(len(choices.item), -1, dtype=np.int64), empty, empty)


@dataclass(frozen=True)
class LeaderAssignment:
    """The chosen leaders."""

    chosen: Ints  # int64 (q), indices of the m choices
    loads: Ints  # int64 (n), leaders of each broker
    changes: int  # Choices that differ from the preferred leader now
    changes_bound: int  # The fewest changes of any assignment with such loads
    even: bool  # Whether all brokers are at the floor or the ceiling of the mean


def find_leader_choices(model: ClusterModel, may_lead: Flags | None = None) -> LeaderChoices:
    """Find the live replicas of partitions that are not frozen, on brokers that may lead. Others keep their leader."""
    counted, leader = model.find_eligible_leaders(may_lead), model.preferred_leaders
    row = model.row
    replica = np.flatnonzero((model.frozen == FREE)[row] & counted[model.replicas])
    partition, item = np.unique(row[replica], return_inverse=True)
    stays = leader >= 0
    stays[partition] = False
    return LeaderChoices(
        partition,
        item.astype(np.int64),
        replica,
        model.replicas[replica].astype(np.int64),
        (replica != model.offsets[:-1][row[replica]]).astype(np.int64),
        np.zeros(len(replica), dtype=np.bool_) if model.in_sync is None else ~model.in_sync[replica],
        counted,
        np.bincount(leader[stays], minlength=model.brokers),
    )


def assign_leaders(choices: LeaderChoices, limits: LeaderLimits | None = None) -> LeaderAssignment:
    """Bring all brokers to the floor or the ceiling of the mean with the fewest changes.

    Where that is impossible, take the least majorised loads: the largest as small and the smallest as large as
    possible, and so on inwards. Loads that a flow can reach have one such profile, which the sum of their squares
    finds.
    """
    if not len(choices.partition):
        loads = choices.fixed[choices.counted]
        even = bool(((loads >= choices.floor) & (loads <= choices.ceiling)).all())
        return LeaderAssignment(np.zeros(0, dtype=np.int64), choices.fixed, 0, 0, even)
    evenly = assign_leaders_evenly(choices, limits)
    if evenly is not None:
        return evenly
    level = int((choices.fixed + np.bincount(choices.broker, minlength=len(choices.fixed))).max(initial=0))
    items = len(choices.partition) + 1
    # The solver multiplies the costs of least majorised loads by the nodes.
    if (2 * level + 1) * items * (choices.change_weight + 1) * 4 * (items + len(choices.fixed)) > _MAX_COST:
        choices = replace(choices, out_of_sync=np.zeros_like(choices.out_of_sync))
    flow = _least_majorised(choices, limits or LeaderLimits.none(choices))
    if flow is None:
        raise ArithmeticError("limits of topics leave no way to lead all partitions")
    return _read_flow(choices, flow, even=False)


def assign_leaders_evenly(choices: LeaderChoices, limits: LeaderLimits | None = None) -> LeaderAssignment | None:
    """Bring all brokers to the floor or the ceiling with the fewest changes; None if that is impossible."""
    limits = limits or LeaderLimits.none(choices)
    brokers = np.flatnonzero(choices.counted)
    least = np.maximum(choices.floor, choices.fixed[brokers])
    spare, possible = choices.ceiling - least, choices.fixed + np.bincount(choices.broker, minlength=len(choices.fixed))
    if (spare < 0).any() or (possible[brokers] < choices.floor).any():
        return None
    supply = np.zeros(len(choices.fixed), dtype=np.int64)
    supply[brokers] = choices.fixed[brokers] - least
    first = len(choices.partition)
    sink = np.full(len(brokers), first + len(supply) + len(limits.broker))
    flow = _solve(choices, limits, (first + brokers, sink, spare, 0 * spare), supply)
    return None if flow is None else _read_flow(choices, flow, even=True)


def _read_flow(choices: LeaderChoices, flow: MinCostFlow, even: bool) -> LeaderAssignment:
    chosen = np.flatnonzero(flow.flow[: len(choices.item)])
    loads = choices.fixed + np.bincount(choices.broker[chosen], minlength=len(choices.fixed))
    changes, out_of_sync = int(choices.cost[chosen].sum()), int(choices.out_of_sync[chosen].sum())
    # No leaders cost less than the bound, and at most change_weight - 1 of that is for replicas out of sync.
    weight = choices.change_weight
    fewer = (flow.cost - flow.bound + weight - 1 - out_of_sync) // weight
    return LeaderAssignment(chosen, loads, changes, changes - fewer, even)


def _solve(
    choices: LeaderChoices, limits: LeaderLimits, to_sink: tuple[Ints, Ints, Ints, Ints], supply: Ints
) -> MinCostFlow | None:
    """Solve a flow over partitions, brokers, groups and the sink. supply: of the brokers."""
    first = len(choices.partition)
    first_group = first + len(choices.fixed)
    ends = np.where(limits.group >= 0, first_group + limits.group, first + choices.broker)
    groups = first_group + np.arange(len(limits.broker))
    cost = choices.cost * choices.change_weight + choices.out_of_sync
    arcs = [
        (choices.item, ends, np.ones(len(ends), dtype=np.int64), cost),
        (groups, first + limits.broker, limits.capacity, 0 * groups),
        to_sink,
    ]
    supply = np.concatenate((np.ones(first, dtype=np.int64), supply, np.zeros(len(groups) + 1, dtype=np.int64)))
    supply[-1] = -supply.sum()
    return find_cheapest_flow(FlowNetwork.build(arcs, supply))


def _least_majorised(choices: LeaderChoices, limits: LeaderLimits) -> MinCostFlow | None:
    # One arc for each further leader of a broker: the l-th costs the difference of squares, above all changes.
    n, first = len(choices.fixed), len(choices.partition)
    arcs = np.bincount(choices.broker, minlength=n)
    if not len(limits.broker):  # any assignment bounds the largest load
        any_choice = np.unique(choices.item, return_index=True)[1]
        largest = (choices.fixed + np.bincount(choices.broker[any_choice], minlength=n)).max()
        arcs = np.minimum(arcs, np.maximum(largest - choices.fixed, 0))
    broker = np.repeat(np.arange(n), arcs)
    level = np.arange(len(broker)) - np.repeat(np.cumsum(arcs) - arcs, arcs) + choices.fixed[broker]
    sink = np.full(len(broker), first + n + len(limits.broker))
    cost = (2 * level + 1) * (first * choices.change_weight + first + 1)
    return _solve(choices, limits, (first + broker, sink, np.ones_like(level), cost), np.zeros(n, dtype=np.int64))


def plan_preferred_leaders(model: ClusterModel, may_lead: Flags | None = None) -> ProposedAssignment:
    """Plan leaders at the floor or the ceiling of the mean of brokers that may lead, with provably fewest changes."""
    choices = find_leader_choices(model, may_lead)
    assignment = assign_leaders(choices)
    return propose_leaders(model, choices, assignment, certify_leaders(model, choices, assignment))


def propose_leaders(
    model: ClusterModel, choices: LeaderChoices, assignment: LeaderAssignment, certificate: Certificate | None = None
) -> ProposedAssignment:
    """Propose the lists in which each partition begins with its chosen leader."""
    replica = choices.replica[assignment.chosen][choices.cost[assignment.chosen] > 0]
    replicas = promote_replicas(model.offsets, model.replicas, replica, 0)
    before, after = model.preferred_leaders, model.with_lists(model.offsets, replicas).preferred_leaders
    reason = np.where(before == after, -1, np.where(choices.counted[before], 0, 1)).astype(np.int16)
    reasons = (f"preferred leader: to even out leaders (mean: {choices.mean:.1f} per broker)", _UNFIT)
    return ProposedAssignment(model.offsets, replicas, reason, reasons, certificate or Certificate())


def promote_replicas(offsets: Ints, replicas: Int32s, chosen: Ints, position: int) -> Int32s:
    """Move chosen replicas (indices, at most one per list) forward to `position`, 0 for the leader: int32 (r)."""
    row, old = row_of(offsets), position_of(offsets)
    until = np.full(len(offsets) - 1, -1, dtype=np.int64)
    until[row[chosen]] = old[chosen]
    new = old + ((old >= position) & (old < until[row]))
    new[chosen] = position
    out = np.empty_like(replicas)
    out[offsets[:-1][row] + new] = replicas
    return out


def certify_leaders(
    model: ClusterModel,
    choices: LeaderChoices,
    assignment: LeaderAssignment,
    without_limits: LeaderAssignment | None = None,
) -> LeaderCertificate:
    """Compare chosen leaders with their lower bounds. without_limits: the assignment without limits of topics."""
    before = model.preferred_leaders
    leaders_before = np.bincount(before[before >= 0], minlength=model.brokers)[choices.counted]
    loads = assignment.loads[choices.counted]
    ineligible = np.flatnonzero(~choices.counted & (choices.fixed > 0)).tolist()
    unlimited = without_limits or assignment
    forced = [] if unlimited.even else _find_forced_brokers(model, choices, unlimited)
    mean, gap = round(choices.mean, 6), assignment.changes - assignment.changes_bound
    goal = ("leaders", assignment.changes, assignment.changes_bound, gap, len(loads), mean)
    return LeaderCertificate(
        *goal,
        ceiling=choices.ceiling,
        floor=choices.floor,
        max_leaders=int(loads.max(initial=0)),
        min_leaders=int(loads.min()) if len(loads) else 0,
        max_leaders_before=int(leaders_before.max(initial=0)),
        min_leaders_before=int(leaders_before.min()) if len(leaders_before) else 0,
        even=assignment.even,
        forced=forced,
        relaxed=[entry.text for entry in forced],
        ineligible_leaders={int(model.broker_ids[broker]): int(choices.fixed[broker]) for broker in ineligible},
    )


def _find_forced_brokers(
    model: ClusterModel, choices: LeaderChoices, assignment: LeaderAssignment
) -> list[ForcedLeaders]:
    """Find the brokers that replica sets force above the ceiling or below the floor, with counts that prove it."""
    n = model.brokers
    passes = np.zeros((n, n), dtype=np.bool_)  # whether a leader could pass from one broker to the other
    passes[choices.broker[assignment.chosen][choices.item], choices.broker] = True
    loads, forced = np.where(choices.counted, assignment.loads, -1), list[ForcedLeaders]()
    over, under = choices.counted & (loads > choices.ceiling), choices.counted & (loads < choices.floor)
    # First the set that forces the extreme, then, where larger, the set of all brokers beyond the limit.
    lowest = np.where(under, loads, choices.floor).min()
    starts = ((True, over & (loads == loads.max())), (True, over), (False, under & (loads == lowest)), (False, under))
    for too_many, start in starts:
        if not start.any():
            continue
        inside, size = start, 0
        while int(inside.sum()) > size:
            size = int(inside.sum())
            inside = inside | (passes if too_many else passes.T)[inside].any(axis=0)
        brokers, fixed = np.flatnonzero(inside), int(choices.fixed[inside].sum())
        who = model.describe_brokers(brokers)
        items = len(np.unique(choices.item[(inside ^ too_many)[choices.broker]]))
        if too_many:  # items without a choice outside
            count = len(choices.partition) - items + fixed
            least = -(-count // size)
            text = f"only {who} can lead {count_of(count, 'partition')}"
            text += f": one of them leads at least {least}" if size > 1 else ""
            forced.append(ForcedLeaders(text, model.ids(brokers), count, max_at_least=least))
        else:
            count = items + fixed
            text = f"{who} can lead at most {count_of(count, 'partition')}"
            text += f": one of them leads at most {count // size}" if size > 1 else ""
            text = text if count else f"{who} cannot lead any partition"
            forced.append(ForcedLeaders(text, model.ids(brokers), count, min_at_most=count // size))
    return [entry for i, entry in enumerate(forced) if entry not in forced[:i]]


def compute_topic_limits(model: ClusterModel, choices: LeaderChoices) -> Ints:
    """Compute the lowest limit for leaders of a topic on one broker that may lead: int64 (topics)."""
    topics = len(model.topic_names)
    topic, broker, base = _count_fixed(model, choices)
    limit = np.zeros(topics, dtype=np.int64)
    np.maximum.at(limit, topic, base)
    items = np.bincount(model.topic[choices.partition], minlength=topics)
    brokers = max(int(choices.counted.sum()), 1)
    total = items + np.bincount(topic, weights=base, minlength=topics).astype(np.int64)
    limit = np.maximum(limit, -(-total // brokers))
    choices_of_item = np.bincount(choices.item, minlength=len(choices.partition))
    loads = BaseLoads(offsets_of(np.bincount(topic, minlength=topics)), broker, base)
    choices_by_topic = Items(offsets_of(items), offsets_of(choices_of_item), choices.broker)
    lift_limits(choices_by_topic, loads, model.brokers, limit, np.zeros((0, 0), dtype=np.bool_))
    return limit


def plan_topic_leaders(model: ClusterModel, may_lead: Flags | None = None) -> ProposedAssignment:
    """Plan leaders so that no broker leads more of a topic than it must, and all are at floor or ceiling of the mean.

    A topic's limit is the lowest that its replica sets allow, whatever it costs: the certificate has the price. Where
    it leaves no way to the floor and the ceiling, loads are the least majorised ones, with the fewest changes.
    """
    choices = find_leader_choices(model, may_lead)
    limit = compute_topic_limits(model, choices)
    assignment = assign_leaders(choices, _limit_groups(model, choices, limit))
    without = assign_leaders(choices)
    before, after = model.preferred_leaders, model.preferred_leaders
    after[choices.partition] = choices.broker[assignment.chosen]
    unlimited = after.copy()
    unlimited[choices.partition] = choices.broker[without.chosen]
    loads, other_loads = assignment.loads[choices.counted], without.loads[choices.counted]

    def count_above(leader: Ints) -> int:
        """Count the topics with more leaders than the limit on a broker that may lead."""
        rows = np.flatnonzero((leader >= 0) & choices.counted[leader])
        topic, _, count, _ = _count_pairs(model, rows, leader[rows])
        return len(np.unique(topic[count > limit[topic]]))

    certificate = certify_leaders(model, choices, assignment, without)
    if without.even and not assignment.even:
        text = "spreading the leaders of each topic leaves no way to even out all leaders to the mean"
        certificate = replace(certificate, relaxed=[text])
    highest = int(loads.max(initial=0) - other_loads.max(initial=0))
    lowest = int(loads.min() - other_loads.min()) if len(loads) else 0
    price = TopicPrice(assignment.changes - without.changes, highest, lowest, count_above(unlimited))
    topics = TopicSpread(count_above(before), count_above(after), int(limit.max(initial=0)), price)
    certificate = replace(certificate, goal="leaders by topic", topics=topics)
    return propose_leaders(model, choices, assignment, certificate)


def _count_pairs(model: ClusterModel, rows: Ints, broker: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Count pairs of topic and broker, in this order: (topic, broker, count, the pair of each row)."""
    keys = model.topic[rows].astype(np.int64) * model.brokers + broker
    pair, which, count = np.unique(keys, return_inverse=True, return_counts=True)
    return pair // max(model.brokers, 1), pair % max(model.brokers, 1), count, which


def _count_fixed(model: ClusterModel, choices: LeaderChoices) -> tuple[Ints, Ints, Ints]:
    """Count the leaders that stay whatever is chosen, on brokers that may lead: (topic, broker, leaders)."""
    leader = model.preferred_leaders
    stays = (leader >= 0) & choices.counted[leader]
    stays[choices.partition] = False
    rows = np.flatnonzero(stays)
    return _count_pairs(model, rows, leader[rows])[:3]


def _limit_groups(model: ClusterModel, choices: LeaderChoices, limit: Ints) -> LeaderLimits:
    topic, broker, count, which = _count_pairs(model, choices.partition[choices.item], choices.broker)
    capacity = limit[topic]
    fixed_topic, fixed_broker, base = _count_fixed(model, choices)
    keys, fixed_keys = topic * model.brokers + broker, fixed_topic * model.brokers + fixed_broker
    position = np.searchsorted(keys, fixed_keys)
    hit = position < len(keys)
    hit[hit] = keys[position[hit]] == fixed_keys[hit]
    capacity[position[hit]] -= base[hit]
    binds = count > capacity  # elsewhere a limit changes nothing
    group = np.where(binds, np.cumsum(binds) - 1, -1)
    return LeaderLimits(group[which], broker[binds], capacity[binds])
