"""Lower bounds for the bytes out of the fullest broker, by maximum flows, with the brokers that prove them."""

from dataclasses import dataclass

import numpy as np
from ortools.graph.python import max_flow

from udfs.planning.cluster_model import ClusterModel, Flags, Floats, Ints
from udfs.planning.leadership.preferred_leaders import find_leader_choices
from udfs.planning.leadership.takeover_order import find_successor_choices
from udfs.planning.replica_order import compute_leader_loads

# Loads become integers that add up to about this: finer than the rates are known, and far from overflow.
_INTEGER_TOTAL = float(1 << 52)


@dataclass(frozen=True)
class ByteBounds:
    """The lowest possible largest load in each of g cases: leaders, or the successors of one failed broker each."""

    split: Floats  # float64 (g), bytes per second if partitions could be split
    bound: Floats  # float64 (g), bytes per second with whole partitions
    mean: Floats  # float64 (g), of the brokers that count
    # bool (g, n), brokers that force `split`: their base loads and what has no choice outside of them, over their
    # number
    tight: Flags
    heaviest: Ints  # int64 (g), row of the partition that forces `bound` where that is above `split`, else -1

    @property
    def ratio(self) -> Floats:
        """Return the bound over the mean: float64 (g); 0 where there is no load."""
        return np.divide(self.bound, self.mean, out=np.zeros(len(self.mean)), where=self.mean > 0)


@dataclass(frozen=True)
class _Cases:
    """Items (q, by case) with weights, and the brokers (m) among which they choose.

    case: int64 (q). weight: float64 (q). row: int64 (q), row of the model. item, broker: int64 (m).
    base: float64 (g, n), loads whatever is chosen. counted: bool (g, n), brokers that count.
    """

    case: Ints
    weight: Floats
    row: Ints
    item: Ints
    broker: Ints
    base: Floats
    counted: Flags


def bound_leader_bytes(model: ClusterModel, may_lead: Flags | None = None) -> ByteBounds:
    """Bound the bytes out of the leaders on the fullest broker from below. One case."""
    choices = find_leader_choices(model, may_lead)
    leader = model.preferred_leaders
    stays = leader >= 0
    stays[choices.partition] = False
    base: Floats = np.bincount(leader[stays], model.rate_out[stays], model.brokers).astype(np.float64)
    return _compute_bounds(
        _Cases(
            np.zeros(len(choices.partition), dtype=np.int64),
            model.rate_out[choices.partition],
            choices.partition,
            choices.item,
            choices.broker,
            base[None],
            choices.counted[None],
        )
    )


def bound_successor_bytes(model: ClusterModel, may_lead: Flags | None = None) -> ByteBounds:
    """Bound the bytes out of the worst survivor of each broker's failure from below, with leaders as they are."""
    n = model.brokers
    choices = find_successor_choices(model, may_lead)
    stays = np.ones(model.partitions, dtype=np.bool_)
    stays[choices.partition] = False
    base = compute_leader_loads(model, model.rate_out, stays)
    return _compute_bounds(
        _Cases(
            np.repeat(np.arange(n), np.diff(choices.items)),
            model.rate_out[choices.partition],
            choices.partition,
            np.repeat(np.arange(len(choices.partition)), np.diff(choices.offsets)),
            choices.broker,
            base,
            choices.counted & ~np.eye(n, dtype=np.bool_),
        )
    )


def _compute_bounds(cases: _Cases) -> ByteBounds:
    count = len(cases.base)
    base = np.where(cases.counted, cases.base, 0.0)
    total = base.sum(axis=1) + np.bincount(cases.case, weights=cases.weight, minlength=count)
    mean = total / np.maximum(cases.counted.sum(axis=1), 1)
    # From simple bounds - the mean, or one broker's base load - up to a bound that no set of brokers raises.
    split, tight = mean.copy(), cases.counted.copy()
    largest = base.max(axis=1, initial=0.0)
    alone = np.flatnonzero(largest > mean)
    if len(alone):
        tight[alone] = False
        tight[alone, base[alone].argmax(axis=1)] = True
        split[alone] = largest[alone]
    active = total > base.sum(axis=1)
    while active.any():
        crowded = _find_crowded(cases, base, split, active)
        confined = np.ones(len(cases.case), dtype=np.bool_)
        confined[cases.item[~crowded[cases.case[cases.item], cases.broker]]] = False
        weight = np.bincount(cases.case[confined], weights=cases.weight[confined], minlength=count)
        existing = weight + np.where(crowded, base, 0.0).sum(axis=1)
        forced = existing / np.maximum(crowded.sum(axis=1), 1)
        active = forced > split * (1 + 1e-12)
        split[active], tight[active] = forced[active], crowded[active]
    bound, heaviest = _bound_whole_partitions(cases, split)
    return ByteBounds(split, bound, mean, tight, heaviest)


def _find_crowded(cases: _Cases, base: Floats, limit: Floats, active: Flags) -> Flags:
    """Find, for the active cases, the brokers (bool, g, n) without capacity for items that have no other choice."""
    crowded, n = np.zeros_like(cases.counted), base.shape[1]
    items, choices = np.flatnonzero(active[cases.case]), np.flatnonzero(active[cases.case[cases.item]])
    number = np.cumsum(active[cases.case]) - 1
    keys = cases.case[cases.item[choices]] * n + cases.broker[choices]
    pair, group = np.unique(keys, return_inverse=True)
    # Weights rounded down and capacities up: what is crowded in integers is crowded. Each case has its own scale.
    total = base.sum(axis=1) + np.bincount(cases.case, cases.weight, len(base))
    scale = _INTEGER_TOTAL / np.maximum(total, np.where(active, limit, 1.0)) / int(active.sum())
    case = pair // n
    weight = np.floor(cases.weight[items] * scale[cases.case[items]]).astype(np.int64)
    capacity = np.ceil(np.maximum(limit[case] - base.ravel()[pair], 0.0) * scale[case]).astype(np.int64)
    first, source, sink = len(items), len(items) + len(pair), len(items) + len(pair) + 1
    item = number[cases.item[choices]]
    solver = max_flow.SimpleMaxFlow()
    solver.add_arcs_with_capacity(np.full(first, source), np.arange(first), weight)
    solver.add_arcs_with_capacity(item, first + group, weight[item])
    solver.add_arcs_with_capacity(first + np.arange(len(pair)), np.full(len(pair), sink), capacity)
    status = solver.solve(source, sink)
    if status != solver.OPTIMAL:
        raise ArithmeticError(f"the solver failed on a flow over {len(item)} choices: {status}")
    cut = np.asarray(solver.get_source_side_min_cut(), dtype=np.int64)
    crowded.ravel()[pair[cut[(cut >= first) & (cut < source)] - first]] = True
    return crowded


def _bound_whole_partitions(cases: _Cases, split: Floats) -> tuple[Floats, Ints]:
    # A partition goes to one broker as a whole, on top of that broker's base load.
    bound, heaviest = split.copy(), np.full(len(split), -1, dtype=np.int64)
    if not len(cases.case):
        return bound, heaviest
    starts = np.flatnonzero(np.diff(cases.item, prepend=-1))
    least = cases.weight + np.minimum.reduceat(cases.base[cases.case[cases.item], cases.broker], starts)
    order = np.lexsort((-least, cases.case))
    first = order[np.flatnonzero(np.diff(cases.case[order], prepend=-1))]
    case = cases.case[first]
    above = least[first] > bound[case]
    bound[case[above]], heaviest[case[above]] = least[first[above]], cases.row[first[above]]
    return bound, heaviest
