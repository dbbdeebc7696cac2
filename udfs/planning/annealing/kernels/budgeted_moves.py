"""Moves of replicas from the fullest brokers until none exceeds a level, with most relief per unit of a budget.

A replica moves at most once, and never back to a broker that holds it initially: so each move copies one replica.
"""

from typing import NamedTuple

import numpy as np

from udfs.kernel_compiler import compiled, part
from udfs.planning.annealing.kernels import search_state
from udfs.planning.annealing.kernels.search_moves import can_hold
from udfs.planning.annealing.kernels.search_state import BrokerLimits, ClusterArrays, SearchState
from udfs.planning.kernels.array_types import Floats, Int32s

DONE, OVER_BUDGET = -1, -2
_PREFERENCE = 1e-9  # of relief per unit, by which planned moves come before others
_NO_TARGET = 1e300


class ReliefTask(NamedTuple):
    """What is to be relieved. A load of a broker is the sum over its replicas."""

    load: Floats  # float64 (p), of one replica
    cost: Floats  # float64 (p), of copying one replica, in units of the budget
    leader: Int32s  # int32 (p), the broker that sends the copies
    planned: Int32s  # int32 (r), the lists of a plan without a budget, whose moves are preferred
    planned_only: bool  # whether no other moves are made
    first_place: int  # the first place in a list whose replica may move
    mean_replicas: float  # replicas of a broker
    caps: BrokerLimits  # what no move exceeds, and `copied_disk` and `copied_replicas`
    soft: BrokerLimits  # the targets, which moves rather do not exceed
    broker_disk: float  # disk that a broker may receive, and send as a leader, in all copies
    received: Floats  # float64 (n), disk that each broker receives; changed by every move
    sent: Floats  # float64 (n), disk that each broker sends; changed by every move


@part
def _excess(limits: BrokerLimits, replicas: float, disk: float, bytes_in: float, b: int) -> float:
    """Return by how much such loads exceed the limits of broker b, in units of the mean; of counts, in replicas."""
    excess: float = max(replicas - limits.max_replicas[b], 0.0)
    excess += max(disk - limits.disk[b], 0.0) + max(bytes_in - limits.bytes_in[b], 0.0)
    return excess


@part
def _is_planned(cluster: ClusterArrays, task: ReliefTask, p: int, broker: int) -> bool:
    """Tell whether the broker holds the partition in the plan without a budget."""
    for i in range(cluster.offsets[p], cluster.offsets[p + 1]):  # noqa: SIM110 (any() is slower here)
        if task.planned[i] == broker:
            return True
    return False


@part
def _find_target(cluster: ClusterArrays, state: SearchState, task: ReliefTask, slot: int, more: float) -> int:
    """Return the broker that takes a slot best: as planned, within its targets, and the emptiest; -1 = none.

    more: the replicas that it has more then; 0 = it gives another one back.
    """
    p, best, least = cluster.row[slot], -1, _NO_TARGET
    disk, bytes_in = cluster.disk[p], cluster.bytes_in[p]
    if task.sent[task.leader[p]] + disk > task.broker_disk:
        return -1
    for t in range(len(cluster.rack)):
        if not cluster.can_receive[t] or task.received[t] + disk > task.broker_disk:
            continue
        after = (state.replicas[t] + more, state.disk[t] + disk, state.bytes_in[t] + bytes_in)
        if _excess(task.caps, after[0], after[1], after[2], t) > 1e-9:
            continue
        price = 1e3 * _excess(task.soft, after[0], after[1], after[2], t)
        price += after[0] / task.mean_replicas + after[1] + after[2]
        if not _is_planned(cluster, task, p, t):
            if task.planned_only:
                continue
            price += 10.0
        if price < least and can_hold(cluster, state, slot, t) and not search_state.holds_initially(cluster, p, t):
            best, least = t, price
    return best


@part
def _find_partner(cluster: ClusterArrays, state: SearchState, task: ReliefTask, slot: int, target: int) -> int:
    """Return the cheapest slot of the target that goes back in exchange for a slot, where counts allow no move."""
    b, p = state.slots[slot], cluster.row[slot]
    best, least = -1, 0.5 * task.load[p]
    for i in range(state.replicas[target]):
        other = state.broker_slots[target, i]
        q = cluster.row[other]
        if q == p or not cluster.can_change[q] or state.copied_index[other] >= 0 or task.load[q] >= least:
            continue
        if other - cluster.offsets[q] < task.first_place or task.received[b] + cluster.disk[q] > task.broker_disk:
            continue
        if task.planned_only and (_is_planned(cluster, task, q, target) or not _is_planned(cluster, task, q, b)):
            continue
        if task.sent[task.leader[q]] + cluster.disk[p] + cluster.disk[q] > task.broker_disk:
            continue
        disk, bytes_in = cluster.disk[q] - cluster.disk[p], cluster.bytes_in[q] - cluster.bytes_in[p]
        fits = disk <= 0.0 or state.disk[b] + disk <= task.caps.disk[b]
        fits = fits and (bytes_in <= 0.0 or state.bytes_in[b] + bytes_in <= task.caps.bytes_in[b])
        if fits and can_hold(cluster, state, other, b) and not search_state.holds_initially(cluster, q, b):
            best, least = other, task.load[q]
    return best


@part
def _move(cluster: ClusterArrays, state: SearchState, task: ReliefTask, loads: Floats, slot: int, target: int) -> None:
    """Move a slot, in all sums but those of leadership."""
    p = cluster.row[slot]
    loads[state.slots[slot]] -= task.load[p]
    loads[target] += task.load[p]
    task.received[target] += cluster.disk[p]
    task.sent[task.leader[p]] += cluster.disk[p]
    search_state.move_replica(cluster, state, slot, target)


@part
def _choose_slot(
    cluster: ClusterArrays, state: SearchState, task: ReliefTask, blocked: Int32s, b: int, excess: float
) -> int:
    """Return the slot that relieves broker b best: -1 = none.

    This is the one with most relief per unit that relieves no more than needed, then the largest one; or a single one
    that is sufficient, if it costs no more.
    """
    part_slot, part_ratio, part_load = -1, 0.0, 0.0
    whole_slot, whole_cost = -1, 1e300
    for i in range(state.replicas[b]):
        slot = state.broker_slots[b, i]
        p = cluster.row[slot]
        load, cost = task.load[p], task.cost[p]
        usable = cluster.can_change[p] and load > 0.0 and state.copied_index[slot] < 0 and blocked[slot] != b
        if not usable or slot - cluster.offsets[p] < task.first_place:
            continue
        planned = not _is_planned(cluster, task, p, b)
        if task.planned_only and not planned:
            continue
        if load >= excess:
            if cost < whole_cost:
                whole_slot, whole_cost = slot, cost
            continue
        ratio = load / max(cost, 1e-300) * (1.0 + (_PREFERENCE if planned else 0.0))
        if ratio > part_ratio * (1.0 + 1e-12) or (ratio >= part_ratio * (1.0 - 1e-12) and load > part_load):
            part_slot, part_ratio, part_load = slot, ratio, load
    if part_slot < 0 or whole_cost <= task.cost[cluster.row[part_slot]]:
        return whole_slot
    return part_slot


@compiled
def relieve_brokers(cluster: ClusterArrays, state: SearchState, task: ReliefTask, loads: Floats, level: Floats) -> int:
    """Move replicas until no load (n, changed) exceeds its level (n). Return DONE, OVER_BUDGET, or a broker that does.

    The fullest brokers come first. `state` changes, but not its sums of leadership: the caller recomputes it.
    """
    blocked = np.full(len(state.slots), -1, np.int32)
    for b in np.argsort(level - loads):
        while loads[b] > level[b] + 1e-9:
            slot, other = _choose_slot(cluster, state, task, blocked, b, loads[b] - level[b]), -1
            if slot < 0:
                return int(b)
            target = -1
            if state.replicas[b] > task.caps.min_replicas[b]:
                target = _find_target(cluster, state, task, slot, 1.0)
            if target < 0 and cluster.can_receive[b]:
                target = _find_target(cluster, state, task, slot, 0.0)
                other = _find_partner(cluster, state, task, slot, target) if target >= 0 else -1
                target = target if other >= 0 else -1
            if target < 0:
                blocked[slot] = b
                continue
            disk = cluster.disk[cluster.row[slot]] + (cluster.disk[cluster.row[other]] if other >= 0 else 0.0)
            if not search_state.is_within_budget(task.caps, state, disk, 2 if other >= 0 else 1):
                return OVER_BUDGET
            _move(cluster, state, task, loads, slot, target)
            if other >= 0:
                _move(cluster, state, task, loads, other, b)
    return DONE
