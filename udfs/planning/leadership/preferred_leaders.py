"""Preferred leaders, evenly over brokers with the fewest changes: no replica moves, only who stands first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from udfs.planning.bounds.min_cost_flow import Flow, Network, cheapest
from udfs.planning.cluster_model import FREE, ClusterModel, Flags, Ints, ProposedAssignment
from udfs.planning.plan_text import brokers_text
from udfs.planning.replica_order import brought, leaders_of, may_lead_of, told


@dataclass(frozen=True)
class Choices:
    """Which partitions may choose their leader (q), among which replicas (m).

    partition: int64 (q), rows of the model.   item: int64 (m), into partition.   at: int64 (m), the replica.
    broker: int64 (m), its place.   cost: int64 (m), 1 = a change, 0 = it leads now.
    counted: bool (n), brokers that may lead.   fixed: int64 (n), leaders that stay, whatever is chosen.
    """

    partition: Ints
    item: Ints
    at: Ints
    broker: Ints
    cost: Ints
    counted: Flags
    fixed: Ints

    @property
    def mean(self) -> float:
        """Leaders per broker that may lead; 0 without any."""
        return self.total / max(int(self.counted.sum()), 1)

    @property
    def total(self) -> int:
        """Partitions that brokers that may lead will lead, whatever is chosen."""
        return int(self.fixed[self.counted].sum()) + len(self.partition)

    @property
    def floor(self) -> int:
        """The mean, rounded down."""
        return self.total // max(int(self.counted.sum()), 1)

    @property
    def ceiling(self) -> int:
        """The mean, rounded up."""
        return -(-self.total // max(int(self.counted.sum()), 1))


@dataclass(frozen=True)
class Gates:
    """Groups of choices of one broker that share a limit. of: int64 (m), a gate or -1.

    broker, capacity: int64 (gates); capacity = how many of its choices may be taken.
    """

    of: Ints
    broker: Ints
    capacity: Ints

    @staticmethod
    def none(choices: Choices) -> Gates:
        """No limits."""
        nothing = np.zeros(0, dtype=np.int64)
        return Gates(np.full(len(choices.item), -1, dtype=np.int64), nothing, nothing)


@dataclass(frozen=True)
class Spread:
    """Choices made. chosen: int64 (q), into the m choices.   loads: int64 (n), leaders, fixed ones too.

    changes, changes_bound: how many differ from now, and the fewest that could.   even: all at floor or ceiling.
    """

    chosen: Ints
    loads: Ints
    changes: int
    changes_bound: int
    even: bool


def leader_choices(model: ClusterModel, may_lead: Flags | None = None) -> Choices:
    """The choices of leaders: live replicas of partitions that are free, on brokers that may lead.

    A partition without such a replica keeps its leader.
    """
    counted, leader = may_lead_of(model, may_lead), leaders_of(model)
    row = model.row
    at = np.flatnonzero((model.frozen == FREE)[row] & counted[model.replicas])
    partition, item = np.unique(row[at], return_inverse=True)
    stays = leader >= 0
    stays[partition] = False
    return Choices(
        partition,
        item.astype(np.int64),
        at,
        model.replicas[at].astype(np.int64),
        (at != model.offsets[:-1][row[at]]).astype(np.int64),
        counted,
        np.bincount(leader[stays], minlength=model.brokers),
    )


def spread(choices: Choices, gates: Gates | None = None) -> Spread:
    """The choices that bring all brokers to floor or ceiling with the fewest changes.

    If they cannot be: those whose loads are least majorised - the largest as small and the smallest as large as can be,
    and so on inwards - and among these the fewest changes. Loads that a flow can reach have one such profile, and the
    sum of their squares finds it.
    """
    if not len(choices.partition):
        none = np.zeros(0, dtype=np.int64)
        loads = choices.fixed[choices.counted]
        even = bool(((loads >= choices.floor) & (loads <= choices.ceiling)).all())
        return Spread(none, choices.fixed, 0, 0, even)
    evenly = spread_evenly(choices, gates)
    if evenly is not None:
        return evenly
    found = _least_majorised(choices, gates or Gates.none(choices))
    if found is None:
        raise ArithmeticError("limits of topics leave no way to lead all partitions")
    return _spread_of(choices, found, even=False)


def spread_evenly(choices: Choices, gates: Gates | None = None) -> Spread | None:
    """The choices that bring all brokers to floor or ceiling with the fewest changes; None if there are none."""
    gates = gates or Gates.none(choices)
    brokers = np.flatnonzero(choices.counted)
    least = np.maximum(choices.floor, choices.fixed[brokers])
    room = choices.ceiling - least
    if (room < 0).any():
        return None
    wanted = np.zeros(len(choices.fixed), dtype=np.int64)
    wanted[brokers] = choices.fixed[brokers] - least
    first = len(choices.partition)
    sink = np.full(len(brokers), first + len(wanted) + len(gates.broker))
    found = _choose(choices, gates, [(first + brokers, sink, room, 0 * room)], wanted)
    return None if found is None else _spread_of(choices, found, even=True)


def _spread_of(choices: Choices, found: Flow, even: bool) -> Spread:
    chosen = np.flatnonzero(found.flow[: len(choices.item)])
    loads = choices.fixed + np.bincount(choices.broker[chosen], minlength=len(choices.fixed))
    changes = int(choices.cost[chosen].sum())
    return Spread(chosen, loads, changes, changes - (found.cost - found.bound), even)


def _choose(choices: Choices, gates: Gates, sink: list[tuple[Ints, Ints, Ints, Ints]], supply: Ints) -> Flow | None:
    # Nodes: partitions, brokers, gates, the sink. `sink` and `supply` of the brokers are the caller's.
    first = len(choices.partition)
    gate = first + len(choices.fixed)
    ends = np.where(gates.of >= 0, gate + gates.of, first + choices.broker)
    ones, through = np.ones(len(ends), dtype=np.int64), gate + np.arange(len(gates.broker))
    arcs = [(choices.item, ends, ones, choices.cost), (through, first + gates.broker, gates.capacity, 0 * through)]
    supply = np.concatenate((np.ones(first, dtype=np.int64), supply, np.zeros(len(through) + 1, dtype=np.int64)))
    supply[-1] = -supply.sum()
    return cheapest(Network.of([*arcs, *sink], supply))


def _least_majorised(choices: Choices, gates: Gates) -> Flow | None:
    # One arc for each further leader of a broker: the l-th costs the difference of squares, above all changes.
    n, first = len(choices.fixed), len(choices.partition)
    could = np.bincount(choices.broker, minlength=n)
    if not len(gates.broker):  # a first try bounds the largest load
        tried = np.unique(choices.item, return_index=True)[1]
        largest = (choices.fixed + np.bincount(choices.broker[tried], minlength=n)).max()
        could = np.minimum(could, np.maximum(largest - choices.fixed, 0))
    broker = np.repeat(np.arange(n), could)
    level = np.arange(len(broker)) - np.repeat(np.cumsum(could) - could, could) + choices.fixed[broker]
    sink = np.full(len(broker), first + n + len(gates.broker))
    cost = (2 * level + 1) * (first + 1)
    return _choose(choices, gates, [(first + broker, sink, np.ones_like(level), cost)], np.zeros(n, dtype=np.int64))


def leaders(model: ClusterModel, may_lead: Flags | None = None) -> ProposedAssignment:
    """The lists with preferred leaders at floor or ceiling of the mean, with the provably fewest changes.

    may_lead: bool (n), live and not draining where not given. The mean is over these.
    """
    choices = leader_choices(model, may_lead)
    found = spread(choices)
    return drafted(model, choices, found, {"goal": "leaders", **leader_certificate(model, choices, found)})


def drafted(model: ClusterModel, choices: Choices, found: Spread, certificate: Mapping[str, Any]) -> ProposedAssignment:
    """The lists in which each partition begins with the leader that was chosen."""
    at = choices.at[found.chosen][choices.cost[found.chosen] > 0]
    replicas = brought(model.offsets, model.replicas, at, 0)
    before, after = leaders_of(model), leaders_of(model.placed(model.offsets, replicas))
    led = np.bincount(before[before >= 0], minlength=model.brokers)
    differs = before != after
    codes = np.where(differs, before * model.brokers + after, -1)

    def text(code: int) -> str:
        old, new = divmod(code, model.brokers)
        said = f"preferred leader {model.broker_ids[old]} -> {model.broker_ids[new]}"
        if not choices.counted[old]:
            return f"{said}: broker {model.broker_ids[old]} should not lead"
        return f"{said}: they led {led[old]} and {led[new]}, mean {choices.mean:.1f}"

    general = f"preferred leader: {choices.mean:.1f} a broker is the mean"
    return ProposedAssignment(model.offsets, replicas, *told(codes, text, general), certificate)


def leader_certificate(
    model: ClusterModel, choices: Choices, found: Spread, by_sets: Spread | None = None
) -> dict[str, Any]:
    """What was found, against what must be. by_sets: as found without limits of topics, where there were any."""
    before = leaders_of(model)
    led = np.bincount(before[before >= 0], minlength=model.brokers)[choices.counted]
    loads = found.loads[choices.counted]
    away = ~choices.counted & (choices.fixed > 0)
    proof = by_sets or found
    sets = [] if proof.even else _forced(model, choices, proof)
    return {
        "objective": found.changes,
        "bound": found.changes_bound,
        "gap": found.changes - found.changes_bound,
        "brokers": len(loads),
        "mean": round(choices.mean, 6),
        "ceiling": choices.ceiling,
        "floor": choices.floor,
        "max": int(loads.max(initial=0)),
        "min": int(loads.min()) if len(loads) else 0,
        "max_before": int(led.max(initial=0)),
        "min_before": int(led.min()) if len(led) else 0,
        "even": found.even,
        "forced": sets,
        "relaxed": [entry["text"] for entry in sets],
        "led_by_brokers_that_should_not": {
            str(model.broker_ids[place]): int(choices.fixed[place]) for place in np.flatnonzero(away).tolist()
        },
    }


def _forced(model: ClusterModel, choices: Choices, found: Spread) -> list[dict[str, Any]]:
    """Sets of brokers that replica sets force above the ceiling or below the floor, each with its count as proof."""
    n = model.brokers
    passes = np.zeros((n, n), dtype=np.bool_)  # a leader could pass from one broker to the other
    passes[choices.broker[found.chosen][choices.item], choices.broker] = True
    loads = np.where(choices.counted, found.loads, -1)
    over = choices.counted & (loads > choices.ceiling)
    under = choices.counted & (loads < choices.floor)
    sets: list[dict[str, Any]] = []
    # First the set that forces the extreme, then, where larger, that of all who are beyond.
    for begin in (over & (loads == loads.max()), over):
        if not begin.any():
            continue
        inside = _closure(passes, begin)
        only = len(choices.partition) - len(np.unique(choices.item[~inside[choices.broker]]))
        count = int(only + choices.fixed[inside].sum())
        least = -(-count // int(inside.sum()))
        ids = model.ids(np.flatnonzero(inside))
        text = (
            f"only {brokers_text(model, np.flatnonzero(inside))} can lead {count} of them: one leads at least {least}"
        )
        sets.append({"text": text, "brokers": ids, "partitions": count, "max_at_least": least})
    for begin in (under & (loads == np.where(under, loads, choices.floor).min()), under):
        if not begin.any():
            continue
        inside = _closure(passes.T, begin)
        count = int(len(np.unique(choices.item[inside[choices.broker]])) + choices.fixed[inside].sum())
        most = count // int(inside.sum())
        ids = model.ids(np.flatnonzero(inside))
        who = brokers_text(model, np.flatnonzero(inside))
        text = f"{who} can lead at most {count} of them: one leads at most {most}"
        sets.append({"text": text, "brokers": ids, "partitions": count, "min_at_most": most})
    return [entry for i, entry in enumerate(sets) if entry not in sets[:i]]


def _closure(passes: Flags, begin: Flags) -> Flags:
    out, size = begin, 0
    while int(out.sum()) > size:
        size = int(out.sum())
        out = out | passes[out].any(axis=0)
    return out
