"""From the flow of plans by counts to replica lists.

Units in a hub are alike: which partition goes to which broker of the rack is decided here. Where a rack may hold one
replica of a partition that is always possible, else nearly always. What the flow costs is therefore a lower bound.
Where brokers cannot be chosen, they take units directly, in a network without hubs.
"""

from dataclasses import dataclass, replace

import numpy as np

from udfs.arrow.ragged import count_true, offsets_of, take_segments
from udfs.planning.cluster_model import ClusterModel, Flags, Floats, Int32s, Ints
from udfs.planning.constraints import InfeasibleRequest, Rules
from udfs.planning.replicas.count_network import CountTask, build_count_network, compute_prices, solve_flow
from udfs.planning.replicas.count_targets import CountTargets
from udfs.planning.replicas.kernels.replica_units import (
    BrokerLoads,
    FlowUnits,
    PartitionRules,
    PlacedReplicas,
    assign_units,
    find_replacements,
    write_lists,
)

MAX_ARCS = 3_000_000  # of a network without hubs
_MAX_TOPIC_CELLS = 20_000_000  # topics x brokers that are counted to spread topics


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
    placed = PlacedReplicas(model.offsets, model.replicas, rules.fixed[model.row], model.rack)
    partition_rules = PartitionRules(rules.fixed, rules.factor, rules.rack_cap)
    find_replacements(partition_rules, placed, rules.must_leave, rules.replacement, current)
    base = np.bincount(model.replicas[rules.fixed[model.row]], minlength=model.brokers).astype(np.int64)
    return CountTask(model, rules, targets, current, base, build_count_network(model, rules, current, hubs, rows))


def solve_replica_lists(task: CountTask, objective: str, moves_first: bool, price: int | None = None) -> SolvedLists:
    """Find the cheapest lists.

    Args:
        task: What to solve.
        objective: min-bytes or min-moves, or the kind of a budget: bytes or moves.
        moves_first: Whether moves come before counts.
        price: Price of a replica outside the targets; None = as near to the targets as possible.
    """
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
    placed = PlacedReplicas(model.offsets, task.current, remaining, model.rack)
    write_lists(placed, model.live, new_offsets, broker, offsets, replicas)
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
    placed = PlacedReplicas(model.offsets, current, remaining, model.rack)
    loads = BrokerLoads(quota, load, capacity, of_topic, model.topic, weight)
    assign_units(FlowUnits(row, rack, first, broker), placed, loads)
    return row, broker


def merge_lists(
    model: ClusterModel, lists: SolvedLists | ClusterModel, others: SolvedLists | ClusterModel, use_others: Flags
) -> tuple[Ints, Int32s]:
    """Merge lists: (offsets, replicas) of `others` where `use_others` (bool, p) says so, else of `lists`."""
    flat = np.concatenate([lists.replicas, others.replicas])
    offsets = np.concatenate([lists.offsets, lists.offsets[-1] + others.offsets[1:]])
    rows = np.arange(model.partitions) + np.where(use_others, model.partitions, 0)
    merged, merged_offsets = take_segments(flat, offsets, rows)
    return merged_offsets, merged.astype(np.int32)


def measure_copies(model: ClusterModel, lists: SolvedLists) -> tuple[Ints, Floats]:
    """Measure what lists copy of each partition: (moves, int64 (p); bytes, float64 (p))."""
    moves = count_true(model.find_copied(lists), lists.offsets)
    return moves, moves * model.size
