"""Even preferred leaders with the fewest changes: replica lists are reordered, and nothing is copied."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from udfs.planning.bounds.min_cost_flow import FlowNetwork, MinCostFlow, find_cheapest_flow
from udfs.planning.certificates import Certificate, ForcedLeaders, LeaderCertificate
from udfs.planning.cluster_model import FREE, ClusterModel, Flags, Ints, ProposedAssignment
from udfs.planning.plan_text import count_of, describe_brokers
from udfs.planning.replica_order import encode_reasons, find_eligible_leaders, promote_replicas


@dataclass(frozen=True)
class LeaderChoices:
    """The partitions (q) whose preferred leader can be chosen, and the replicas (m) among which."""

    partition: Ints  # int64 (q), rows of the model
    item: Ints  # int64 (m), index into `partition`
    replica: Ints  # int64 (m), index of the replica in the model
    broker: Ints  # int64 (m), its broker index
    cost: Ints  # int64 (m), 1 = a change, 0 = it is the preferred leader now
    counted: Flags  # bool (n), brokers that may lead
    fixed: Ints  # int64 (n), leaders of each broker whatever is chosen

    @property
    def mean(self) -> float:
        """Return the leaders per broker that may lead; 0 without any."""
        return self.total / max(int(self.counted.sum()), 1)

    @property
    def total(self) -> int:
        """Return the number of partitions that brokers that may lead will lead, whatever is chosen."""
        return int(self.fixed[self.counted].sum()) + len(self.partition)

    @property
    def floor(self) -> int:
        """Return the mean, rounded down."""
        return self.total // max(int(self.counted.sum()), 1)

    @property
    def ceiling(self) -> int:
        """Return the mean, rounded up."""
        return -(-self.total // max(int(self.counted.sum()), 1))


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
    """Find the choices of leaders: live replicas of partitions that are not frozen, on brokers that may lead.

    A partition without such a replica keeps its leader.
    """
    counted, leader = find_eligible_leaders(model, may_lead), model.preferred_leaders
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
        counted,
        np.bincount(leader[stays], minlength=model.brokers),
    )


def assign_leaders(choices: LeaderChoices, limits: LeaderLimits | None = None) -> LeaderAssignment:
    """Bring all brokers to the floor or the ceiling of the mean with the fewest changes.

    Where that is impossible, take the least majorised loads - the largest as small and the smallest as large as
    possible, and so on inwards - with the fewest changes. Loads that a flow can reach have one such profile, and the
    sum of their squares finds it.
    """
    if not len(choices.partition):
        loads = choices.fixed[choices.counted]
        even = bool(((loads >= choices.floor) & (loads <= choices.ceiling)).all())
        return LeaderAssignment(np.zeros(0, dtype=np.int64), choices.fixed, 0, 0, even)
    evenly = assign_leaders_evenly(choices, limits)
    if evenly is not None:
        return evenly
    flow = _least_majorised(choices, limits or LeaderLimits.none(choices))
    if flow is None:
        raise ArithmeticError("limits of topics leave no way to lead all partitions")
    return _read_flow(choices, flow, even=False)


def assign_leaders_evenly(choices: LeaderChoices, limits: LeaderLimits | None = None) -> LeaderAssignment | None:
    """Bring all brokers to the floor or the ceiling with the fewest changes; None if that is impossible."""
    limits = limits or LeaderLimits.none(choices)
    brokers = np.flatnonzero(choices.counted)
    least = np.maximum(choices.floor, choices.fixed[brokers])
    spare = choices.ceiling - least
    if (spare < 0).any():
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
    changes = int(choices.cost[chosen].sum())
    return LeaderAssignment(chosen, loads, changes, changes - (flow.cost - flow.bound), even)


def _solve(
    choices: LeaderChoices, limits: LeaderLimits, to_sink: tuple[Ints, Ints, Ints, Ints], supply: Ints
) -> MinCostFlow | None:
    """Solve a flow over partitions, brokers, groups and the sink. supply: of the brokers."""
    first = len(choices.partition)
    first_group = first + len(choices.fixed)
    ends = np.where(limits.group >= 0, first_group + limits.group, first + choices.broker)
    groups = first_group + np.arange(len(limits.broker))
    arcs = [
        (choices.item, ends, np.ones(len(ends), dtype=np.int64), choices.cost),
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
    cost = (2 * level + 1) * (first + 1)
    return _solve(choices, limits, (first + broker, sink, np.ones_like(level), cost), np.zeros(n, dtype=np.int64))


def plan_preferred_leaders(model: ClusterModel, may_lead: Flags | None = None) -> ProposedAssignment:
    """Plan preferred leaders at the floor or the ceiling of the mean, with the provably fewest changes.

    Args:
        model: The cluster.
        may_lead: bool (n), brokers that may lead and that the mean is over; by default all that are live and not
            draining.
    """
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
    leaders = np.bincount(before[before >= 0], minlength=model.brokers)
    codes = np.where(before != after, before * model.brokers + after, -1)

    def describe(code: int) -> str:
        old, new = divmod(code, model.brokers)
        change = f"preferred leader {model.broker_ids[old]} -> {model.broker_ids[new]}"
        if not choices.counted[old]:
            return f"{change}: broker {model.broker_ids[old]} should not lead"
        return f"{change}: they lead {leaders[old]} and {leaders[new]} partitions, the mean is {choices.mean:.1f}"

    general = f"preferred leader: the mean is {choices.mean:.1f} per broker"
    reason, reasons = encode_reasons(codes, describe, general)
    return ProposedAssignment(model.offsets, replicas, reason, reasons, certificate or Certificate())


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
    return LeaderCertificate(
        goal="leaders",
        changes=assignment.changes,
        changes_lower_bound=assignment.changes_bound,
        gap=assignment.changes - assignment.changes_bound,
        brokers=len(loads),
        mean=round(choices.mean, 6),
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
    loads = np.where(choices.counted, assignment.loads, -1)
    over = choices.counted & (loads > choices.ceiling)
    under = choices.counted & (loads < choices.floor)
    forced: list[ForcedLeaders] = []
    # First the set that forces the extreme, then, where larger, the set of all brokers beyond the limit.
    for start in (over & (loads == loads.max()), over):
        if start.any():
            inside = _closure(passes, start)
            only = len(choices.partition) - len(np.unique(choices.item[~inside[choices.broker]]))
            count = int(only + choices.fixed[inside].sum())
            least = -(-count // int(inside.sum()))
            brokers = np.flatnonzero(inside)
            who = describe_brokers(model, brokers)
            text = f"only {who} can lead {count_of(count, 'partition')}: one of them leads at least {least}"
            forced.append(ForcedLeaders(text, model.ids(brokers), count, max_at_least=least))
    for start in (under & (loads == np.where(under, loads, choices.floor).min()), under):
        if start.any():
            inside = _closure(passes.T, start)
            count = int(len(np.unique(choices.item[inside[choices.broker]])) + choices.fixed[inside].sum())
            most = count // int(inside.sum())
            brokers = np.flatnonzero(inside)
            who = describe_brokers(model, brokers)
            text = f"{who} can lead at most {count_of(count, 'partition')}: one of them leads at most {most}"
            text = text if count else f"{who} cannot lead any partition"
            forced.append(ForcedLeaders(text, model.ids(brokers), count, min_at_most=most))
    return [entry for i, entry in enumerate(forced) if entry not in forced[:i]]


def _closure(passes: Flags, start: Flags) -> Flags:
    inside, size = start, 0
    while int(inside.sum()) > size:
        size = int(inside.sum())
        inside = inside | passes[inside].any(axis=0)
    return inside
