"""The min-cost flow of plans by counts: its network, its prices and its solution.

Each partition sends one unit per replica that it should have. A unit stays on its broker at no cost, or goes to the hub
of a rack at the partition's price, at most `rack_cap` per rack; hubs send units on to their brokers, and brokers take
between their lowest and highest counts.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from udfs.planning.bounds.min_cost_flow import FlowNetwork, solve_network
from udfs.planning.cluster_model import ClusterModel, Floats, Int32s, Ints
from udfs.planning.constraints import Rules
from udfs.planning.replicas.count_targets import CountTargets

_MAX_COST = 1 << 60  # price x nodes, which the solver multiplies
_MAX_STEPS = 1 << 20  # steps of bytes that break ties between plans of equally many moves
BUDGET_KINDS = ("bytes", "moves")
BUDGET_SCALE = 64  # cost of one of these, as a replica outside the targets may cost less
# Soft extra costs of keeping a replica of a partition that loses some; all are far below a move.
_SAME_RACK, _FOLLOWER, _DOWN = 4, 16, 64
_FARTHEST = 3  # extra cost of a replica far outside the targets over one just outside
_STAND_IN = 7  # discount of a move to the broker that is to take over


@dataclass(frozen=True)
class CountNetwork:
    """Arcs in groups: partition -> racks of its replicas, -> their brokers, -> hubs (or brokers), hubs -> brokers."""

    rows: Ints  # int64 (a), partitions that are free
    replica: Ints  # int64, the replica of each keeping arc
    tail: Ints  # int64 (arcs), as head and capacity
    head: Ints  # See tail
    capacity: Ints  # See tail
    extra: Ints  # int64 (arcs), soft costs
    keep: slice  # Arcs of replicas that stay
    stand_ins: Ints  # int64, keeping arcs that are moves nevertheless
    stand_in_rows: Ints  # int64, their partitions, as indices into `rows`
    go: slice  # Arcs of replicas that move
    to_row: Ints  # int64, the partition of each arc of `go`
    to_place: Ints  # int64, the rack (with hubs) or broker of each arc of `go`
    out: slice  # Arcs from hubs to brokers
    first_broker: int  # Node of the first broker
    hops: int  # Brokers or hubs at which one step of the flow can change moves
    hubs: bool  # Whether there are hubs


@dataclass(frozen=True)
class CountTask:
    """What stays the same while prices change."""

    model: ClusterModel  # The cluster
    rules: Rules  # The rules
    targets: CountTargets  # Lowest and highest counts
    current: Int32s  # int32 (r), the broker of each replica, or its stand-in; -1 = it must leave
    base: Ints  # int64 (n), replicas of fixed partitions
    net: CountNetwork  # The network


def has_no_replica_limits(rules: Rules) -> bool:
    """Return whether no broker has a limit of replicas that it could reach."""
    return bool((rules.broker_replicas > int(rules.factor.sum())).all())


def build_count_network(model: ClusterModel, rules: Rules, current: Int32s, hubs: bool, rows: Ints) -> CountNetwork:
    """Build the network of some partitions, with hubs, or from each partition to each broker."""
    racks = int(model.rack.max(initial=0)) + 1
    takers = np.flatnonzero(rules.receives)
    in_rack = np.bincount(model.rack[takers], minlength=racks)
    number = np.full(model.partitions, -1, dtype=np.int64)
    number[rows] = np.arange(len(rows))
    replica = np.flatnonzero((current >= 0) & (number[model.row] >= 0))
    holder, holder_row = current[replica].astype(np.int64), number[model.row[replica]]
    holder_cell = holder_row * racks + model.rack[holder]
    # A cell is a partition in a rack.
    holds = np.bincount(holder_cell, minlength=len(rows) * racks)
    takes = np.tile(in_rack > 0, len(rows))
    cells = np.flatnonzero(holds > 0 if hubs else (holds > 0) | takes)
    node = np.full(len(rows) * racks, -1, dtype=np.int64)
    node[cells] = len(rows) + np.arange(len(cells))
    first_hub = len(rows) + len(cells)
    first_broker = first_hub + (racks if hubs else 0)

    cap, factor = rules.rack_cap[rows], rules.factor[rows]
    row_of_cell = cells // racks
    # A partition that can keep its replicas moves none, if moves come first and no broker exceeds its capacity.
    needs = np.minimum(holds.reshape(-1, racks), cap[:, None]).sum(axis=1) < factor
    needs |= rules.even or not has_no_replica_limits(rules)
    room = np.minimum(np.minimum(cap, factor)[row_of_cell], (holds + np.tile(in_rack, len(rows)))[cells])
    # Partitions whose factor changes prefer another rack to the same rack again.
    prefers_racks = (rules.factor != model.factor)[rows][row_of_cell] & (room > 1) & (not rules.even)
    again = np.flatnonzero(prefers_racks)
    # Where all replicas may stay and none is added, a rack is no limit: straight to the brokers.
    slack = ~needs[row_of_cell] & (room >= holds[cells]) & ~prefers_racks
    keep_tail = np.where(slack[node[holder_cell] - len(rows)], holder_row, node[holder_cell])
    tight = np.flatnonzero(~slack)
    first_room = np.where(prefers_racks, 1, room)[tight]
    groups: list[tuple[npt.NDArray[np.integer], ...]] = [
        (row_of_cell[tight], len(rows) + tight, first_room, np.zeros(len(tight), np.int64)),
        (row_of_cell[again], len(rows) + again, room[again] - 1, np.full(len(again), _SAME_RACK)),
        (keep_tail, first_broker + holder, np.ones(len(replica), np.int64), _keeping_costs(model, rules, replica)),
    ]
    if hubs:
        inside = np.flatnonzero(needs[row_of_cell] & (in_rack[cells % racks] > 0))
        direct = np.flatnonzero((holds == 0) & takes & np.repeat(needs, racks))
        go_row, go_place = np.divmod(np.concatenate([cells[inside], direct]), racks)
        go_tail = np.concatenate([len(rows) + inside, direct // racks])
        go_head = first_hub + go_place
        go_room = np.minimum(np.minimum(cap, factor)[go_row], in_rack[go_place])
    else:
        go_row, go_place = np.repeat(np.arange(len(rows)), len(takers)), np.tile(takers, len(rows))
        own = np.isin(go_row * model.brokers + go_place, holder_row * model.brokers + holder)
        go_row, go_place = go_row[~own & needs[go_row]], go_place[~own & needs[go_row]]
        go_tail = node[go_row * racks + model.rack[go_place]]
        go_head = first_broker + go_place
        go_room = np.ones(len(go_row), np.int64)
    groups.append((go_tail, go_head, go_room, np.zeros(len(go_tail), np.int64)))
    if hubs:
        many = np.full(len(takers), int(factor.sum()))
        groups.append((first_hub + model.rack[takers], first_broker + takers, many, np.zeros(len(takers), np.int64)))
    tail, head, capacity, extra = (np.concatenate(part).astype(np.int64) for part in zip(*groups, strict=True))
    ends = np.cumsum([len(group[0]) for group in groups])
    stood_in = np.flatnonzero(current[replica] != model.replicas[replica])
    return CountNetwork(
        rows,
        replica,
        tail,
        head,
        capacity,
        extra,
        keep=slice(ends[1], ends[2]),
        stand_ins=ends[1] + stood_in,
        stand_in_rows=holder_row[stood_in],
        go=slice(ends[2], ends[3]),
        to_row=go_row,
        to_place=go_place,
        out=slice(ends[3], len(tail)),
        first_broker=first_broker,
        hops=racks if hubs else model.brokers,
        hubs=hubs,
    )


def _keeping_costs(model: ClusterModel, rules: Rules, replica: Ints) -> Ints:
    """Soft costs of keeping replicas: only partitions that lose some choose among them."""
    row = model.row[replica]
    is_follower, is_down = replica > model.offsets[row], ~model.live[model.replicas[replica]]
    cost = np.where(is_follower, _FOLLOWER, 0) + np.where(is_down, _DOWN, 0)
    return np.where(rules.factor[row] < model.factor[row], cost, 0)


@dataclass(frozen=True)
class CountPrices:
    """Prices of a flow."""

    cost: Ints  # int64 (a), of a moved replica of each partition
    units: Ints  # int64 (a), what a move adds to the objective, in units
    unit: float  # Bytes of a unit, or 1 move
    outside: int  # Price of a replica outside the targets
    soft: bool  # Whether it matters which replica is kept where several could be


def compute_prices(
    model: ClusterModel, rules: Rules, net: CountNetwork, objective: str, moves_first: bool
) -> CountPrices:
    """Compute prices that put one aim before the next: a step of the flow changes at most 2 x hops moves, two counts.

    Where moves come first and brokers have no limits, each partition moves what it must, and size decides nothing.
    """
    size = model.size[net.rows] if objective != "moves" else np.zeros(len(net.rows))
    scale = 1
    if moves_first:  # counts, and which replica is kept, cost less than any move
        softest = int(net.extra.max(initial=0)) + (_STAND_IN if len(net.stand_ins) else 0)
        scale = 2 * _FARTHEST + 1 + softest * 2 * (model.brokers + net.hops)
    unit = _find_byte_step(size)
    if objective == "min-moves":
        unit *= max(1.0, 2.0 ** np.ceil(np.log2(max(float(size.max(initial=0)) / unit, 1.0) / _MAX_STEPS)))
    while True:
        steps = np.floor(size / unit).astype(np.int64)
        if moves_first and has_no_replica_limits(rules):
            cost = np.ones_like(steps)
        elif objective in BUDGET_KINDS:
            cost = (np.ones_like(steps) if objective == "moves" else steps) * BUDGET_SCALE
        elif objective == "min-bytes":
            cost = steps * (2 * net.hops + 1) + 1
        else:
            cost = steps + net.hops * int(steps.max(initial=0)) + 1
        cost = cost * scale
        outside = 1 if moves_first else 2 * net.hops * int(cost.max(initial=1)) + 1
        if max(outside, int(cost.max(initial=1))) * (net.first_broker + model.brokers + 2) < _MAX_COST:
            break
        unit *= 2
    if objective in ("min-bytes", "bytes"):
        return CountPrices(cost, steps, unit, outside, moves_first)
    return CountPrices(cost, np.ones_like(steps), 1.0, outside, moves_first)


def _price_levels(prices: CountPrices, high: Ints) -> list[tuple[int, int]]:
    """Replicas outside the targets and their price, rising with the distance where targets are soft."""
    endless = int(_MAX_COST)
    if not prices.soft:
        return [(endless, prices.outside)]
    width = max(1, int(high.max(initial=0)) // 20)
    return [(width, prices.outside), (width, 2 * prices.outside), (endless, _FARTHEST * prices.outside)]


def _find_byte_step(size: Floats) -> float:
    """The bytes that all sizes are multiples of; 1 if there are none."""
    whole = size.astype(np.int64)
    return float(np.gcd.reduce(whole)) if len(whole) and whole.any() and (whole == size).all() else 1.0


def solve_flow(task: CountTask, prices: CountPrices, strict: bool) -> Ints | None:
    """Find the cheapest flow (int64, arcs of the network); None if targets are strict and cannot be met."""
    net, rules, targets, n = task.net, task.rules, task.targets, task.model.brokers
    sink = net.first_broker + n
    low, high = np.maximum(targets.low - task.base, 0), np.maximum(targets.high - task.base, 0)
    high = np.maximum(np.where(rules.must_leave, 0, high), low)
    brokers = net.first_broker + np.arange(n)
    cost = net.extra.copy() if prices.soft else np.zeros_like(net.extra)
    cost[net.go] += prices.cost[net.to_row]
    cost[net.stand_ins] += prices.cost[net.stand_in_rows] - _STAND_IN
    supply = np.zeros(sink + 1, dtype=np.int64)
    part = np.zeros(n, dtype=np.int64)
    if strict and targets.part is not None and len(targets.totals) > 1:
        # A sink for each part of the brokers; brokers that receive nothing send what they keep to the last sink.
        parts = len(targets.totals)
        part = np.where(rules.receives, targets.part, parts - 1)
        supply = np.zeros(sink + parts, dtype=np.int64)
        filled = (task.base + low)[rules.receives]
        supply[sink:] = np.bincount(part[rules.receives], filled, parts).astype(np.int64) - np.asarray(targets.totals)
        supply[-1] = 0
    supply[: len(net.rows)] = rules.factor[net.rows]
    supply[brokers] = -low
    supply[-1] = -int(supply.sum())
    arcs = [(net.tail, net.head, net.capacity, cost), (brokers, sink + part, high - low, np.zeros(n, np.int64))]
    if not strict:
        present = 0 if rules.even else np.bincount(task.model.replicas, minlength=n)
        most = np.maximum(rules.broker_replicas, present)
        more = np.where(rules.receives, np.maximum(most - task.base - high, 0), 0)
        sinks = np.full(n, sink)
        for width, price in _price_levels(prices, high):
            level_more, level_less = np.minimum(more, width), np.minimum(low, width)
            arcs += [(brokers, sinks, level_more, np.full(n, price)), (sinks, brokers, level_less, np.full(n, price))]
            more, low = more - level_more, low - level_less
    flow = solve_network(FlowNetwork.build(arcs, supply))
    return None if flow is None else flow[: len(net.tail)]
