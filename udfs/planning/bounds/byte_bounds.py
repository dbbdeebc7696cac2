"""What bytes must come to at least, whoever chooses: bounds by maximum flows, with the brokers that prove them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from ortools.graph.python import max_flow

from udfs.planning.cluster_model import ClusterModel, Flags, Floats, Ints
from udfs.planning.leadership.preferred_leaders import Choices, leader_choices
from udfs.planning.leadership.takeover_order import Successors, successor_choices
from udfs.planning.replica_order import leaders_of, some, successors_of

# Loads become integers that add up to about this much: finer than the rates are known, and far from overflow.
_WHOLE = float(1 << 52)


@dataclass(frozen=True)
class ByteBounds:
    """The least that the largest load can be, in each of g cases: one for leaders, one per down broker for successors.

    split: float64 (g), bytes per second if partitions could be split.   bound: float64 (g), as they are whole.
    mean: float64 (g), of the brokers that count.   tight: bool (g, n), brokers that force `split`: what they carry in
    any case and what has no choice outside of them, over how many they are.
    heaviest: int64 (g), the row of the partition that forces `bound` where that is above `split`, else -1.
    """

    split: Floats
    bound: Floats
    mean: Floats
    tight: Flags
    heaviest: Ints

    @property
    def ratio(self) -> Floats:
        """The bound over the mean: float64 (g); 0 where there is no load."""
        return np.divide(self.bound, self.mean, out=np.zeros(len(self.mean)), where=self.mean > 0)

    def reason(self, model: ClusterModel, case: int) -> dict[str, Any]:
        """What forces the bound of a case, to be read and to be checked."""
        row, ids = int(self.heaviest[case]), model.ids(np.flatnonzero(self.tight[case]))
        said = f"brokers {some(ids)} and what only these can lead"
        if row >= 0:
            said = f"{model.name(row)} with {model.rate_out[row]:.0f} bytes out per second"
        return {
            "text": f"{said}: at least {self.bound[case]:.0f} on a broker, mean {self.mean[case]:.0f}",
            "bound": float(self.bound[case]),
            "split": float(self.split[case]),
            "mean": float(self.mean[case]),
            "ratio": round(float(self.ratio[case]), 6),
            "partition": model.name(row) if row >= 0 else None,
            "brokers": ids,
        }


@dataclass(frozen=True)
class _Cases:
    """Items with weights that choose brokers, case by case. q items in order of their cases, m choices of theirs.

    case, weight, row: (q).   item, broker: int64 (m).   base: float64 (g, n), loads in any case.
    counted: bool (g, n), brokers that count.
    """

    case: Ints
    weight: Floats
    row: Ints
    item: Ints
    broker: Ints
    base: Floats
    counted: Flags


def leaders_by_bytes(model: ClusterModel, may_lead: Flags | None = None) -> ByteBounds:
    """The least that the broker whose leaders send most (rate_out) can send. One case."""
    choices: Choices = leader_choices(model, may_lead)
    leader = leaders_of(model)
    stays = leader >= 0
    stays[choices.partition] = False
    base: Floats = np.bincount(leader[stays], model.rate_out[stays], model.brokers).astype(np.float64)
    return _bounds(
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


def successors_by_bytes(model: ClusterModel, may_lead: Flags | None = None) -> ByteBounds:
    """The least that the worst survivor of each broker's failure can send then, leaders being as they are. n cases."""
    n = model.brokers
    successors: Successors = successor_choices(model, may_lead)
    leader, successor = leaders_of(model), successors_of(model)
    stays = (leader >= 0) & (successor >= 0)
    stays[successors.partition] = False
    taken = np.bincount(leader[stays] * n + successor[stays], weights=model.rate_out[stays], minlength=n * n)
    led = np.bincount(leader[leader >= 0], weights=model.rate_out[leader >= 0], minlength=n)
    base: Floats = (taken.reshape(n, n) + led).astype(np.float64)
    np.fill_diagonal(base, 0.0)
    return _bounds(
        _Cases(
            np.repeat(np.arange(n), np.diff(successors.items)),
            model.rate_out[successors.partition],
            successors.partition,
            np.repeat(np.arange(len(successors.partition)), np.diff(successors.offsets)),
            successors.broker,
            base,
            successors.counted & ~np.eye(n, dtype=np.bool_),
        )
    )


def _bounds(cases: _Cases) -> ByteBounds:
    number = len(cases.base)
    base = np.where(cases.counted, cases.base, 0.0)
    total = base.sum(axis=1) + np.bincount(cases.case, weights=cases.weight, minlength=number)
    mean = total / np.maximum(cases.counted.sum(axis=1), 1)
    # From what is plain - the mean, or what one carries anyway - up to what no set of brokers denies.
    split, tight = mean.copy(), cases.counted.copy()
    largest = base.max(axis=1, initial=0.0)
    alone = np.flatnonzero(largest > mean)
    if len(alone):
        tight[alone] = False
        tight[alone, base[alone].argmax(axis=1)] = True
        split[alone] = largest[alone]
    active = total > base.sum(axis=1)
    while active.any():
        crowded = _crowded(cases, base, split, active)
        inside = np.ones(len(cases.case), dtype=np.bool_)
        inside[cases.item[~crowded[cases.case[cases.item], cases.broker]]] = False
        weight = np.bincount(cases.case[inside], weights=cases.weight[inside], minlength=number)
        carried = weight + np.where(crowded, base, 0.0).sum(axis=1)
        forced = carried / np.maximum(crowded.sum(axis=1), 1)
        active = forced > split * (1 + 1e-12)
        split[active], tight[active] = forced[active], crowded[active]
    bound, heaviest = _whole(cases, split)
    return ByteBounds(split, bound, mean, tight, heaviest)


def _crowded(cases: _Cases, base: Floats, limit: Floats, active: Flags) -> Flags:
    """For the active cases, the brokers (bool, g, n) that have no room for what can go nowhere else."""
    out, n = np.zeros_like(cases.counted), base.shape[1]
    items, choices = np.flatnonzero(active[cases.case]), np.flatnonzero(active[cases.case[cases.item]])
    number = np.cumsum(active[cases.case]) - 1
    keys = cases.case[cases.item[choices]] * n + cases.broker[choices]
    pair, gate = np.unique(keys, return_inverse=True)
    # Weights rounded down and room up: what is crowded in integers is crowded in fact. Each case has its own scale.
    total = base.sum(axis=1) + np.bincount(cases.case, cases.weight, len(base))
    scale = _WHOLE / np.maximum(total, np.where(active, limit, 1.0)) / int(active.sum())
    case = pair // n
    weight = np.floor(cases.weight[items] * scale[cases.case[items]]).astype(np.int64)
    room = np.ceil(np.maximum(limit[case] - base.ravel()[pair], 0.0) * scale[case]).astype(np.int64)
    first, source, sink = len(items), len(items) + len(pair), len(items) + len(pair) + 1
    item = number[cases.item[choices]]
    solver = max_flow.SimpleMaxFlow()
    solver.add_arcs_with_capacity(np.full(first, source), np.arange(first), weight)
    solver.add_arcs_with_capacity(item, first + gate, weight[item])
    solver.add_arcs_with_capacity(first + np.arange(len(pair)), np.full(len(pair), sink), room)
    status = solver.solve(source, sink)
    if status != solver.OPTIMAL:
        raise ArithmeticError(f"a flow over {len(item)} choices was not solved: {status}")
    cut = np.asarray(solver.get_source_side_min_cut(), dtype=np.int64)
    out.ravel()[pair[cut[(cut >= first) & (cut < source)] - first]] = True
    return out


def _whole(cases: _Cases, split: Floats) -> tuple[Floats, Ints]:
    # A partition goes to one broker as a whole, beside what that one carries anyway.
    bound, heaviest = split.copy(), np.full(len(split), -1, dtype=np.int64)
    if not len(cases.case):
        return bound, heaviest
    begins = np.flatnonzero(np.diff(cases.item, prepend=-1))
    least = cases.weight + np.minimum.reduceat(cases.base[cases.case[cases.item], cases.broker], begins)
    order = np.lexsort((-least, cases.case))
    first = order[np.flatnonzero(np.diff(cases.case[order], prepend=-1))]
    case = cases.case[first]
    above = least[first] > bound[case]
    bound[case[above]], heaviest[case[above]] = least[first[above]], cases.row[first[above]]
    return bound, heaviest
