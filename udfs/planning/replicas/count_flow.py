"""Plans by counts: a min-cost flow, and the replica lists that it stands for.

Each partition sends one unit per replica that it should have. A unit stays on its broker at no cost, or goes to the hub
of a rack at the partition's price, at most `rack_cap` per rack; hubs send units on to their brokers, and brokers take
between their lowest and highest counts. Units in a hub are alike: which partition goes to which broker of the rack is
decided afterwards. Where a rack may hold one replica of a partition that is always possible, else nearly always. So the
cost of the flow is a lower bound. Where brokers cannot be chosen, units go to them directly, without hubs.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from udfs.arrow.ragged import count_true, offsets_of, take_segments
from udfs.planning.bounds.lower_bounds import FlowNetwork, solve_network
from udfs.planning.cluster_model import ClusterModel, Flags, Floats, Int32s, Ints
from udfs.planning.constraints import InfeasibleRequest, Rules
from udfs.planning.elections import find_in_sync_replicas
from udfs.planning.replicas.count_limits import CountTargets
from udfs.planning.replicas.kernels import replica_units

_MAX_COST = 1 << 60  # price x nodes, which the solver multiplies
_MAX_STEPS = 1 << 20  # steps of bytes that break ties between plans of equally many moves
BUDGET_KINDS = ("bytes", "moves")
BUDGET_SCALE = 64  # cost of one of these, as a replica outside the targets may cost less
# Soft extra costs of keeping a replica of a partition that loses some; all are far below a move.
_SAME_RACK, _FOLLOWER, _OUT_OF_SYNC = 4, 16, 64
_FARTHEST = 3  # extra cost of a replica far outside the targets over one just outside
_STAND_IN = 7  # discount of a move to the broker that is to take over

MAX_ARCS = 3_000_000  # of a network without hubs
_MAX_TOPIC_CELLS = 20_000_000  # topics x brokers that are counted to spread topics


@dataclass(frozen=True)
class CountNetwork:
    """Arcs in groups: partition -> racks of its replicas, -> their brokers, -> hubs (or brokers), hubs -> brokers."""

    rows: Ints  # int64 (a), partitions that are free
    replica: Ints  # int64, the replica of each keeping arc
    tail: Ints  # int64 (arcs), as head and capacity
    head: Ints  # See tail
    capacity: Ints  # See tail
    extra: Ints  # int64 (arcs), soft costs, as of keeping a follower
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

    model: ClusterModel
    rules: Rules
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
    # Only partitions that lose some replicas choose among them.
    row = model.row[replica]
    is_follower, is_out_of_sync = replica > model.offsets[row], ~model.is_in_sync[replica]
    lost = _OUT_OF_SYNC * (is_out_of_sync + 1 * model.in_failed_dir[replica])
    keeping_cost = (_FOLLOWER * is_follower + lost) * (rules.factor < model.factor)[row]
    groups: list[tuple[npt.NDArray[np.integer], ...]] = [
        (row_of_cell[tight], len(rows) + tight, first_room, np.zeros(len(tight), np.int64)),
        (row_of_cell[again], len(rows) + again, room[again] - 1, np.full(len(again), _SAME_RACK)),
        (keep_tail, first_broker + holder, np.ones(len(replica), np.int64), keeping_cost),
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
        at = np.flatnonzero(model.barred_brokers >= 0)
        barred = number[model.row[at]] * model.brokers + model.barred_brokers[at]
        own |= np.isin(go_row * model.brokers + go_place, barred)
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
    keep, go, out = slice(ends[1], ends[2]), slice(ends[2], ends[3]), slice(ends[3], ends[-1])
    arcs = (rows, replica, tail, head, capacity, extra, keep, ends[1] + stood_in, holder_row[stood_in])
    return CountNetwork(*arcs, go, go_row, go_place, out, first_broker, racks if hubs else model.brokers, hubs)


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
    """Compute prices that put one aim before the next: a step changes at most 2 x hops moves, two counts."""
    size = model.size[net.rows] if objective != "moves" else np.zeros(len(net.rows))
    scale = 1
    if moves_first:  # counts, and which replica is kept, cost less than any move
        softest = int(net.extra.max(initial=0)) + (_STAND_IN if len(net.stand_ins) else 0)
        scale = 2 * _FARTHEST + 1 + softest * 2 * (model.brokers + net.hops)
    # All sizes are multiples of a unit.
    whole = size.astype(np.int64)
    unit = float(np.gcd.reduce(whole)) if whole.any() and (whole == size).all() else 1.0
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
    units = (steps, unit) if objective in ("min-bytes", "bytes") else (np.ones_like(steps), 1.0)
    return CountPrices(cost, *units, outside, moves_first)


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
        # Soft targets: the farther a replica is outside, the more it costs.
        near = max(1, int(high.max(initial=0)) // 20)
        for width, factor in ((near, 1), (near, 2), (_MAX_COST, _FARTHEST)) if prices.soft else ((_MAX_COST, 1),):
            level_more, level_less = np.minimum(more, width), np.minimum(low, width)
            price, sinks = np.full(n, factor * prices.outside), np.full(n, sink)
            arcs += [(brokers, sinks, level_more, price), (sinks, brokers, level_less, price)]
            more, low = more - level_more, low - level_less
    flow = solve_network(FlowNetwork.build(arcs, supply))
    return None if flow is None else flow[: len(net.tail)]


@dataclass(frozen=True)
class SolvedLists:
    """Replica lists of a solved flow."""

    offsets: Ints  # int64 (p + 1)
    replicas: Int32s  # int32 (r)
    bound: float  # A lower bound of the objective for any lists
    unit: float  # Bytes in one step of the costs, or 1 move
    attained: bool  # Whether the lists reach the bound but for rounding


def build_count_task(model: ClusterModel, rules: Rules, targets: CountTargets, rows: Ints, hubs: bool) -> CountTask:
    """Build the flow of the partitions `rows`."""
    current = np.empty_like(model.replicas)
    lists = (model.offsets, model.replicas, rules.fixed[model.row], model.rack, model.barred_brokers)
    placed = replica_units.PlacedReplicas(*lists)
    partition_rules = replica_units.PartitionRules(rules.fixed, rules.factor, rules.rack_cap)
    replica_units.find_replacements(partition_rules, placed, rules.must_leave, rules.replacement, current)
    base = np.bincount(model.replicas[rules.fixed[model.row]], minlength=model.brokers).astype(np.int64)
    return CountTask(model, rules, targets, current, base, build_count_network(model, rules, current, hubs, rows))


def solve_replica_lists(task: CountTask, objective: str, moves_first: bool, price: int | None = None) -> SolvedLists:
    """Find the cheapest lists for min-bytes, min-moves or a budget's kind. price: of a replica outside the targets."""
    model, rules, net = task.model, task.rules, task.net
    prices = compute_prices(model, rules, net, objective, moves_first)
    if price is not None:
        prices = replace(prices, outside=min(price, prices.outside))
    flow = solve_flow(task, prices, strict=True) if price is None and not moves_first else None
    if flow is None:
        flow = solve_flow(task, prices, strict=False)
    if flow is None:
        raise InfeasibleRequest(["the constraints conflict with each other"])
    units = int(flow[net.go] @ prices.units[net.to_row]) + int(flow[net.stand_ins] @ prices.units[net.stand_in_rows])
    offsets, replicas, unplaced = _read_flow(task, flow)
    lists = SolvedLists(offsets, replicas, units * prices.unit, prices.unit, True)
    if not len(unplaced):
        return lists
    if len(net.rows) * model.brokers > MAX_ARCS:
        repaired = _place_unplaced(task, lists, unplaced, objective)
        if repaired is not None:
            return repaired
    without_hubs = build_count_task(model, rules, task.targets, net.rows, hubs=False)
    return solve_replica_lists(without_hubs, objective, moves_first, price)


def _place_unplaced(task: CountTask, lists: SolvedLists, unplaced: Ints, objective: str) -> SolvedLists | None:
    """Place partitions without hubs while all others stay; None if that is impossible."""
    model = task.model
    again = np.zeros(model.partitions, dtype=np.bool_)
    again[unplaced] = True
    rest = model.with_lists(*merge_lists(model, lists, model, again))
    rest = replace(rest, in_sync=find_in_sync_replicas(model, rest))
    few = build_count_task(rest, replace(task.rules, fixed=~again), task.targets, unplaced, hubs=False)
    try:
        solved = solve_replica_lists(few, objective, True)
    except InfeasibleRequest:
        return None
    return SolvedLists(solved.offsets, solved.replicas, lists.bound, lists.unit, False)


def _read_flow(task: CountTask, flow: Ints) -> tuple[Ints, Int32s, Ints]:
    """Read the lists of a flow: (offsets, replicas, partitions with a unit that found no broker)."""
    model, net = task.model, task.net
    free = np.zeros(model.partitions, dtype=np.bool_)
    free[net.rows] = True
    remaining = ~free[model.row]
    remaining[net.replica] = flow[net.keep] > 0
    used = flow[net.go]
    row, broker = np.repeat(net.rows[net.to_row], used), np.repeat(net.to_place, used)
    if net.hubs:
        row, broker = _choose_brokers(task, remaining, row, broker, flow)
    unplaced = np.unique(row[broker < 0])
    order = np.lexsort((broker, row))
    order = order[broker[order] >= 0]
    row, broker = row[order], broker[order]
    new_offsets = offsets_of(np.bincount(row, minlength=model.partitions))
    offsets = new_offsets + offsets_of(np.bincount(model.row[remaining], minlength=model.partitions))
    replicas = np.empty(int(offsets[-1]), dtype=np.int32)
    placed = replica_units.PlacedReplicas(model.offsets, task.current, remaining, model.rack, model.barred_brokers)
    replica_units.write_lists(placed, model.live, new_offsets, broker, offsets, replicas)
    return offsets, replicas, unplaced


def _choose_brokers(task: CountTask, remaining: Flags, row: Ints, rack: Ints, flow: Ints) -> tuple[Ints, Ints]:
    """Choose a broker for each unit that went to the hub of a rack, large ones first: (row, broker or -1)."""
    model, rules, net, current = task.model, task.rules, task.net, task.current
    racks = int(model.rack.max(initial=0)) + 1
    order = np.lexsort((row, -model.size[row], rack))
    row, rack = row[order], rack[order]
    first = np.searchsorted(rack, np.arange(racks + 1)).astype(np.int64)
    quota = np.zeros(model.brokers, dtype=np.int64)
    quota[net.head[net.out] - net.first_broker] = flow[net.out]
    has_size = bool(model.size.any())
    weight = model.size if has_size else np.ones(model.partitions)
    stays, kept_row = current[remaining], model.row[remaining]
    load = np.bincount(stays, weight[kept_row], model.brokers).astype(np.float64)
    cells = len(model.topic_names) * model.brokers
    of_topic = np.zeros((0, 0), dtype=np.float32)
    if cells <= _MAX_TOPIC_CELLS:
        cell = model.topic[kept_row] * np.int64(model.brokers) + stays
        of_topic = np.bincount(cell, weight[kept_row], cells).astype(np.float32).reshape(-1, model.brokers)
    capacity = rules.broker_bytes if has_size else np.full(model.brokers, np.inf)
    broker = np.full(len(row), -1, dtype=np.int64)
    placed = replica_units.PlacedReplicas(model.offsets, current, remaining, model.rack, model.barred_brokers)
    loads = replica_units.BrokerLoads(quota, load, capacity, of_topic, model.topic, weight)
    replica_units.assign_units(replica_units.FlowUnits(row, rack, first, broker), placed, loads)
    return row, broker


def merge_lists(
    model: ClusterModel, lists: SolvedLists | ClusterModel, others: SolvedLists | ClusterModel, use_others: Flags
) -> tuple[Ints, Int32s]:
    """Merge lists: (offsets, replicas) of `others` where `use_others` (bool, p) says so, else of `lists`."""
    flat = np.concatenate([lists.replicas, others.replicas])
    offsets = np.concatenate([lists.offsets, lists.offsets[-1] + others.offsets[1:]])
    rows = np.arange(model.partitions) + np.where(use_others, model.partitions, 0)
    merged, merged_offsets = take_segments(flat, offsets, rows)
    return merged_offsets, merged


def measure_copies(model: ClusterModel, lists: SolvedLists) -> tuple[Ints, Floats]:
    """Measure what lists copy of each partition: (moves, int64 (p); bytes, float64 (p))."""
    moves = count_true(model.find_copied(lists), lists.offsets)
    return moves, moves * model.size
