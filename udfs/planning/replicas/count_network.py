"""The min-cost flow of plans by counts: its network, its prices, and its solution.

A partition sends as many units as it wants replicas. A unit stays where a replica is, for nothing, or goes at the
partition's price to the hub of a rack, at most `cap` a rack; hubs send on to their brokers, and brokers take between
lo and hi.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from ortools.graph.python import min_cost_flow

from udfs.planning.cluster_model import ClusterModel, Floats, Ints, Places
from udfs.planning.constraints import Rules
from udfs.planning.replicas.count_targets import Bounds

_LARGEST = 1 << 60  # price x nodes, which the solver multiplies
_COARSEST = 1 << 20  # steps of bytes that break ties between plans of equally many moves
PURE = ("bytes", "moves")  # what a budget is of
FINE = 64  # what one of it costs, as a replica outside the bounds may cost less
# Of a partition that loses replicas, what it costs more to keep than another: soft, and all far below a move.
_TOGETHER, _FOLLOWER, _DOWN = 4, 16, 64
_FARTHEST = 3  # what a replica far outside the bounds costs more than one just outside
_STAND_IN = 7  # what a move to the broker that is to take over costs less than another


@dataclass(frozen=True)
class Network:
    """Arcs, in groups: partition -> its replicas' racks, -> replicas there, -> hubs (or brokers), hubs -> brokers.

    rows: int64 (a), partitions that are free.   at: int64, the replica of each keeping arc.
    keep, go, out: arcs of a group.   to_row, to_place: int64, of each arc of `go`, a rack or a broker.
    stand_ins, stand_in_rows: int64, keeping arcs that are moves all the same, and whose.   extra: int64, soft costs.
    hops: brokers or hubs that one step of the flow can change moves at.
    """

    rows: Ints
    at: Ints
    tail: Ints
    head: Ints
    capacity: Ints
    extra: Ints
    keep: slice
    stand_ins: Ints
    stand_in_rows: Ints
    go: slice
    to_row: Ints
    to_place: Ints
    out: slice
    first_broker: int
    hops: int
    hubs: bool


@dataclass(frozen=True)
class Task:
    """What stays the same while prices change. now: int32 (r), see stand_ins; base: int64 (n), fixed replicas."""

    model: ClusterModel
    rules: Rules
    bounds: Bounds
    now: Places
    base: Ints
    net: Network


def unlimited(rules: Rules) -> bool:
    """Whether no broker has a limit of replicas that it could reach."""
    return bool((rules.max_replicas > int(rules.factor.sum())).all())


def network(model: ClusterModel, rules: Rules, now: Places, hubs: bool, rows: Ints) -> Network:
    """The network of some partitions, with hubs, or from each partition to each broker."""
    racks = int(model.rack.max(initial=0)) + 1
    takers = np.flatnonzero(rules.receives)
    in_rack = np.bincount(model.rack[takers], minlength=racks)
    place = np.full(model.partitions, -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    at = np.flatnonzero((now >= 0) & (place[model.row] >= 0))
    held = now[at].astype(np.int64)
    held_cell = place[model.row[at]] * racks + model.rack[held]
    holds = np.bincount(held_cell, minlength=len(rows) * racks)
    wanted = np.ones(len(rows) * racks, dtype=np.bool_) if not hubs else holds > 0
    cells = np.flatnonzero(wanted & ((holds > 0) | np.tile(in_rack > 0, len(rows))))
    number = np.full(len(rows) * racks, -1, dtype=np.int64)
    number[cells] = np.arange(len(cells))
    first_hub = len(rows) + len(cells)
    first_broker = first_hub + (racks if hubs else 0)

    cap = rules.cap[rows]
    # Who can keep as many as wanted moves none, if counts come second and nobody is too full.
    needs = np.minimum(holds.reshape(-1, racks), cap[:, None]).sum(axis=1) < rules.factor[rows]
    needs |= rules.even or not unlimited(rules)
    room = np.minimum(np.minimum(cap, rules.factor[rows])[cells // racks], (holds + np.tile(in_rack, len(rows)))[cells])
    # Partitions whose factor changes rather use another rack than the same again.
    spread = (rules.factor != model.factor)[rows][cells // racks] & (room > 1) & (not rules.even)
    again = np.flatnonzero(spread)
    # Where all may stay and nothing goes, a rack is no limit: straight to the brokers.
    slack = ~needs[cells // racks] & (room >= holds[cells]) & ~spread
    keep_tail = np.where(slack[number[held_cell]], place[model.row[at]], len(rows) + number[held_cell])
    tight = np.flatnonzero(~slack)
    groups: list[tuple[npt.NDArray[np.integer], ...]] = [
        (cells[tight] // racks, len(rows) + tight, np.where(spread, 1, room)[tight], np.zeros(len(tight), np.int64)),
        (cells[again] // racks, len(rows) + again, room[again] - 1, np.full(len(again), _TOGETHER)),
        (keep_tail, first_broker + held, np.ones(len(at), np.int64), _dear(model, rules, at)),
    ]
    if hubs:
        inside = np.flatnonzero(needs[cells // racks] & (in_rack[cells % racks] > 0))
        go_row, go_place = cells[inside] // racks, cells[inside] % racks
        direct = np.flatnonzero((holds == 0) & np.tile(in_rack > 0, len(rows)) & np.repeat(needs, racks))
        go_tail = np.concatenate([len(rows) + inside, direct // racks])
        go_row = np.concatenate([go_row, direct // racks])
        go_place = np.concatenate([go_place, direct % racks])
        go_head = first_hub + go_place
        go_room = np.minimum(np.minimum(cap, rules.factor[rows])[go_row], in_rack[go_place])
    else:
        go_row, go_place = np.repeat(np.arange(len(rows)), len(takers)), np.tile(takers, len(rows))
        own = np.isin(go_row * model.brokers + go_place, place[model.row[at]] * model.brokers + held)
        go_row, go_place = go_row[~own & needs[go_row]], go_place[~own & needs[go_row]]
        go_tail = len(rows) + number[go_row * racks + model.rack[go_place]]
        go_head = first_broker + go_place
        go_room = np.ones(len(go_row), np.int64)
    groups.append((go_tail, go_head, go_room, np.zeros(len(go_tail), np.int64)))
    many = np.full(len(takers), int(rules.factor[rows].sum()))
    if hubs:
        groups.append((first_hub + model.rack[takers], first_broker + takers, many, np.zeros(len(takers), np.int64)))
    tail, head, capacity, extra = (np.concatenate([g[i] for g in groups]).astype(np.int64) for i in range(4))
    ends = np.cumsum([len(g[0]) for g in groups])
    keep, go, out = slice(ends[1], ends[2]), slice(ends[2], ends[3]), slice(ends[3], len(tail))
    stood = np.flatnonzero(now[at] != model.replicas[at])
    stand_ins = (ends[1] + stood, place[model.row[at[stood]]])
    hops = racks if hubs else model.brokers
    return Network(
        rows, at, tail, head, capacity, extra, keep, *stand_ins, go, go_row, go_place, out, first_broker, hops, hubs
    )


def _dear(model: ClusterModel, rules: Rules, at: Ints) -> Ints:
    """What it costs to keep each of these replicas, softly: only partitions that lose some choose among them."""
    row = model.row[at]
    dear = np.where(at > model.offsets[row], _FOLLOWER, 0) + np.where(model.live[model.replicas[at]], 0, _DOWN)
    return np.where(rules.factor[row] < model.factor[row], dear, 0)


@dataclass(frozen=True)
class Prices:
    """cost: int64 (a), of a moved replica of each partition; astray: of a replica outside the bounds.

    units: int64 (a), what a move adds to what is minimised, each `unit` bytes, or a move.
    soft: whether it matters which replica is kept, where several could be.
    """

    cost: Ints
    units: Ints
    unit: float
    astray: int
    soft: bool


def prices_of(model: ClusterModel, rules: Rules, net: Network, objective: str, moves_first: bool) -> Prices:
    """Prices that put one aim before the next: a step of the flow changes at most 2 x hops moves, and two counts.

    Where moves come first and brokers have no limits, each partition moves what it must, and size decides nothing.
    """
    size = model.size[net.rows] if objective != "moves" else np.zeros(len(net.rows))
    below = 1
    if moves_first:  # counts, and which replica is kept, are worth less than any move
        softest = int(net.extra.max(initial=0)) + (_STAND_IN if len(net.stand_ins) else 0)
        below = 2 * _FARTHEST + 1 + softest * 2 * (model.brokers + net.hops)
    unit = _step(size)
    if objective == "min-moves":
        unit *= max(1.0, 2.0 ** np.ceil(np.log2(max(float(size.max(initial=0)) / unit, 1.0) / _COARSEST)))
    while True:
        steps = np.floor(size / unit).astype(np.int64)
        if moves_first and unlimited(rules):
            cost = np.ones_like(steps)
        elif objective in PURE:
            cost = (np.ones_like(steps) if objective == "moves" else steps) * FINE
        elif objective == "min-bytes":
            cost = steps * (2 * net.hops + 1) + 1
        else:
            cost = steps + net.hops * int(steps.max(initial=0)) + 1
        cost = cost * below
        astray = 1 if moves_first else 2 * net.hops * int(cost.max(initial=1)) + 1
        if max(astray, int(cost.max(initial=1))) * (net.first_broker + model.brokers + 2) < _LARGEST:
            break
        unit *= 2
    if objective in ("min-bytes", "bytes"):
        return Prices(cost, steps, unit, astray, moves_first)
    return Prices(cost, np.ones_like(steps), 1.0, astray, moves_first)


def _outside(prices: Prices, hi: Ints) -> list[tuple[int, int]]:
    """(how many replicas, price of each) outside the bounds, dearer the farther where that is only a request."""
    endless = int(_LARGEST)
    if not prices.soft:
        return [(endless, prices.astray)]
    width = max(1, int(hi.max(initial=0)) // 20)
    return [(width, prices.astray), (width, 2 * prices.astray), (endless, _FARTHEST * prices.astray)]


def _step(size: Floats) -> float:
    """The bytes that all sizes are multiples of; 1 if there are none."""
    whole = size.astype(np.int64)
    return float(np.gcd.reduce(whole)) if len(whole) and whole.any() and (whole == size).all() else 1.0


def solve(task: Task, prices: Prices, hard: bool) -> Ints | None:
    """The cheapest flow (int64, arcs of the network), or None if the bounds are hard and cannot be kept."""
    net, rules, n = task.net, task.rules, task.model.brokers
    sink = net.first_broker + n
    lo, hi = np.maximum(task.bounds.lo - task.base, 0), np.maximum(task.bounds.hi - task.base, 0)
    hi = np.maximum(np.where(rules.must_leave, 0, hi), lo)
    brokers = net.first_broker + np.arange(n)
    cost = net.extra.copy() if prices.soft else np.zeros_like(net.extra)
    cost[net.go] += prices.cost[net.to_row]
    cost[net.stand_ins] += prices.cost[net.stand_in_rows] - _STAND_IN
    supply = np.zeros(sink + 1, dtype=np.int64)
    part = np.zeros(n, dtype=np.int64)
    if hard and task.bounds.part is not None and len(task.bounds.totals) > 1:
        # A sink for each part of the brokers; those that get nothing send what they keep to the last.
        parts_of = len(task.bounds.totals)
        part = np.where(rules.receives, task.bounds.part, parts_of - 1)
        supply = np.zeros(sink + parts_of, dtype=np.int64)
        mine = rules.receives
        taken = np.bincount(part[mine], (task.base + lo)[mine], parts_of).astype(np.int64)
        supply[sink:] = taken - np.asarray(task.bounds.totals)
        supply[-1] = 0
    supply[: len(net.rows)] = rules.factor[net.rows]
    supply[brokers] = -lo
    supply[-1] = -int(supply.sum())
    parts = [(net.tail, net.head, net.capacity, cost), (brokers, sink + part, hi - lo, np.zeros(n, np.int64))]
    if not hard:
        held = 0 if rules.even else np.bincount(task.model.replicas, minlength=n)
        most = np.maximum(rules.max_replicas, held)
        more = np.where(rules.receives, np.maximum(most - task.base - hi, 0), 0)
        for width, price in _outside(prices, hi):
            some_more, some_less = np.minimum(more, width), np.minimum(lo, width)
            price_of = np.full(n, price)
            parts += [
                (brokers, np.full(n, sink), some_more, price_of),
                (np.full(n, sink), brokers, some_less, price_of),
            ]
            more, lo = more - some_more, lo - some_less
    solver = min_cost_flow.SimpleMinCostFlow()
    arcs = solver.add_arcs_with_capacity_and_unit_cost(
        *(np.concatenate([part[i] for part in parts]).astype(np.int64) for i in range(4))
    )
    solver.set_nodes_supplies(np.arange(len(supply)), supply)
    status = solver.solve()
    if status == solver.INFEASIBLE:
        return None
    if status != solver.OPTIMAL:
        raise ArithmeticError(f"a flow over {len(arcs)} arcs was not solved: {status}")
    return np.asarray(solver.flows(arcs[: len(net.tail)]), dtype=np.int64)
