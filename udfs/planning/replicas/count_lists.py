"""From the flow of plans by counts to replica lists.

Units in a hub are alike, so which partition goes to which broker of the rack is decided here. Where a rack may hold one
replica of a partition that is always possible, and else nearly so: what is cheapest here is never dearer than any plan,
and so the bound. Where it is not possible, brokers take units directly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from udfs.arrow.ragged import count_true, offsets_of, take_segments
from udfs.planning.cluster_model import ClusterModel, Flags, Floats, Ints, Places, moved
from udfs.planning.constraints import Infeasible, Rules
from udfs.planning.replicas.count_network import Task, network, prices_of, solve
from udfs.planning.replicas.count_targets import Bounds
from udfs.planning.replicas.kernels.replica_units import settle, stand_ins, write_lists

ARCS = 3_000_000  # of a network without hubs
_TOPIC_CELLS = 20_000_000  # topics x brokers that are counted to spread topics


@dataclass(frozen=True)
class Lists:
    """Replica lists, what no others can undercut by the flow's proof, and whether they reach it but for rounding."""

    offsets: Ints
    replicas: Places
    bound: float
    unit: float
    attained: bool


def task_of(model: ClusterModel, rules: Rules, bounds: Bounds, rows: Ints, hubs: bool) -> Task:
    """The flow of the partitions `rows`."""
    now = np.empty_like(model.replicas)
    lists = (model.offsets, model.replicas, model.rack)
    stand_ins(rules.fixed, rules.cap, *lists, rules.must_leave, rules.instead, now)
    base = np.bincount(model.replicas[rules.fixed[model.row]], minlength=model.brokers).astype(np.int64)
    return Task(model, rules, bounds, now, base, network(model, rules, now, hubs, rows))


def lists_of(task: Task, objective: str, moves_first: bool, price: int | None = None) -> Lists:
    """The cheapest lists: counts within the bounds or as near as can be, or moves first, or counts at a price each."""
    model, rules = task.model, task.rules
    prices = prices_of(model, rules, task.net, objective, moves_first)
    if price is not None:
        prices = replace(prices, astray=min(price, prices.astray))
    flow = solve(task, prices, hard=True) if price is None and not moves_first else None
    if flow is None:
        flow = solve(task, prices, hard=False)
    if flow is None:
        raise Infeasible(["the rules conflict one another"])
    net = task.net
    units = int(flow[net.go] @ prices.units[net.to_row]) + int(flow[net.stand_ins] @ prices.units[net.stand_in_rows])
    bound = units * prices.unit
    offsets, replicas, lost = _decode(task, flow)
    found = Lists(offsets, replicas, bound, prices.unit, True)
    if not len(lost):
        return found
    if len(task.net.rows) * model.brokers > ARCS:
        some_left = _given_places(task, found, lost, objective)
        if some_left is not None:
            return some_left
    full = task_of(model, rules, task.bounds, task.net.rows, hubs=False)
    return lists_of(full, objective, moves_first, price)


def _given_places(task: Task, found: Lists, lost: Ints, objective: str) -> Lists | None:
    """`found`, where the lost partitions go from broker to broker while all others stay; None if they cannot."""
    model = task.model
    again = np.zeros(model.partitions, dtype=np.bool_)
    again[lost] = True
    rest = model.placed(*merged(model, found, model, again))
    few = task_of(rest, replace(task.rules, fixed=~again), task.bounds, lost, hubs=False)
    try:
        last = lists_of(few, objective, True)
    except Infeasible:
        return None
    return Lists(last.offsets, last.replicas, found.bound, found.unit, False)


def _decode(task: Task, flow: Ints) -> tuple[Ints, Places, Ints]:
    """(offsets, replicas, partitions that found no place for a unit), of a flow."""
    model, net = task.model, task.net
    free = np.zeros(model.partitions, dtype=np.bool_)
    free[net.rows] = True
    kept = ~free[model.row]
    kept[net.at] = flow[net.keep] > 0
    used = flow[net.go]
    row, place = np.repeat(net.rows[net.to_row], used), np.repeat(net.to_place, used)
    if net.hubs:
        row, place = _brokers_of_units(task, kept, row, place, flow)
    lost = np.unique(row[place < 0])
    order = np.lexsort((place, row))
    order = order[place[order] >= 0]
    row, place = row[order], place[order]
    new_offsets = offsets_of(np.bincount(row, minlength=model.partitions))
    out_offsets = new_offsets + offsets_of(np.bincount(model.row[kept], minlength=model.partitions))
    out = np.empty(int(out_offsets[-1]), dtype=np.int32)
    write_lists(model.offsets, task.now, kept, new_offsets, place, model.live, out_offsets, out)
    return out_offsets, out, lost


def _brokers_of_units(task: Task, kept: Flags, row: Ints, rack: Ints, flow: Ints) -> tuple[Ints, Ints]:
    """(row, broker) of each unit that went to a hub, large ones settled first."""
    model, rules, net, now = task.model, task.rules, task.net, task.now
    racks = int(model.rack.max(initial=0)) + 1
    order = np.lexsort((row, -model.size[row], rack))
    row, rack = row[order], rack[order]
    first = np.searchsorted(rack, np.arange(racks + 1)).astype(np.int64)
    quota = np.zeros(model.brokers, dtype=np.int64)
    quota[net.head[net.out] - net.first_broker] = flow[net.out]
    weight = model.size if model.size.any() else np.ones(model.partitions)
    stays, of = now[kept], model.row[kept]
    load = np.bincount(stays, weight[of], model.brokers).astype(np.float64)
    cells = len(model.topic_names) * model.brokers
    of_topic = np.zeros((0, 0), dtype=np.float32)
    if cells <= _TOPIC_CELLS:
        cell = model.topic[of] * np.int64(model.brokers) + stays
        of_topic = np.bincount(cell, weight[of], cells).astype(np.float32).reshape(-1, model.brokers)
    most = rules.max_bytes if model.size.any() else np.full(model.brokers, np.inf)
    broker = np.full(len(row), -1, dtype=np.int64)
    lists = (model.offsets, now, kept, model.rack, model.topic)
    settle(row, rack, first, *lists, weight, quota, load, most, of_topic, broker)
    return row, broker


def merged(
    model: ClusterModel, of: Lists | ClusterModel, other: Lists | ClusterModel, use: Flags
) -> tuple[Ints, Places]:
    """(offsets, replicas): the lists of `other` where `use` (bool, p) says so, else of `of`."""
    flat = np.concatenate([of.replicas, other.replicas])
    offsets = np.concatenate([of.offsets, of.offsets[-1] + other.offsets[1:]])
    out, out_offsets = take_segments(flat, offsets, np.arange(model.partitions) + np.where(use, model.partitions, 0))
    return out_offsets, out.astype(np.int32)


def spent(model: ClusterModel, lists: Lists) -> tuple[Ints, Floats]:
    """(moves: int64 (p), bytes: float64 (p)) of each partition."""
    new = count_true(moved(model, lists.offsets, lists.replicas), lists.offsets)
    return new, new * model.size
