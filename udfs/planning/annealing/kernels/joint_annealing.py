"""Annealing of replicas and leadership at once, for the excess that remains when both were settled one by one."""

import numpy as np

from udfs.kernel_compiler import compiled, part
from udfs.planning.annealing.kernels.search_moves import (
    COOLING_STEPS,
    Schedule,
    add_distinct,
    add_leader_and_successor,
    can_hold,
    cooling_factor,
    copy_cost,
    count_more_copies,
    draw_below,
    draw_bound,
    draw_unit,
    find_hot_leaders,
    sum_touched_costs,
    try_exchange,
    update_touched_costs,
)
from udfs.planning.annealing.kernels.search_state import (
    Search,
    is_within_budget,
    order_cost,
    recompute_state,
    relocate_replica,
    replica_cost,
)
from udfs.planning.kernels.array_types import Int32s


@part
def _try_relocation(search: Search, slot: int, partner: int, target: int, bound: float) -> None:
    """Move the slot to `target`, and `partner` (if not -1) back, if the cost rises by no more than `bound`."""
    cluster, limits, weights, state = search.cluster, search.limits, search.weights, search.state
    p, b = cluster.row[slot], state.slots[slot]
    rise = copy_cost(cluster, weights, p, target) - copy_cost(cluster, weights, p, b)
    rise -= replica_cost(search, b, 0, 0.0, 0.0) + replica_cost(search, target, 0, 0.0, 0.0)
    disk, bytes_in, count = cluster.disk[p], cluster.bytes_in[p], 1
    q = cluster.row[partner] if partner >= 0 else p
    if partner >= 0:
        rise += copy_cost(cluster, weights, q, b) - copy_cost(cluster, weights, q, target)
        disk, bytes_in, count = disk - cluster.disk[q], bytes_in - cluster.bytes_in[q], 0
    rise += replica_cost(search, b, -count, -disk, -bytes_in)
    rise += replica_cost(search, target, count, disk, bytes_in)
    touched = add_leader_and_successor(cluster, state, p, search.touched, 0)
    touched = add_distinct(search.touched, add_distinct(search.touched, touched, b), target)
    rise -= order_cost(cluster, weights, state, p)
    if partner >= 0:
        touched = add_leader_and_successor(cluster, state, q, search.touched, touched)
        rise -= order_cost(cluster, weights, state, q)
    for j in range(touched):
        rise -= search.cost[search.touched[j]]
    if rise > bound:
        return
    relocate_replica(cluster, limits, state, slot, target)
    if partner >= 0:
        relocate_replica(cluster, limits, state, partner, b)
        rise += order_cost(cluster, weights, state, q)
    rise += order_cost(cluster, weights, state, p) + sum_touched_costs(search, touched)
    if rise <= bound:
        update_touched_costs(search, touched)
        return
    if partner >= 0:
        relocate_replica(cluster, limits, state, partner, target)
    relocate_replica(cluster, limits, state, slot, b)


@part
def _find_hot_holders(search: Search, hot: Int32s) -> int:
    """Fill `hot` with the brokers that hold too much or too little. Return how many."""
    count = 0
    for b in range(len(hot)):
        if replica_cost(search, b, 0, 0.0, 0.0) > 1e-12:
            hot[count] = b
            count += 1
    return count


@part
def _is_legal(search: Search, slot: int, partner: int, target: int) -> bool:
    """Tell whether a relocation keeps to racks, frozen partitions and budget."""
    cluster, state = search.cluster, search.state
    p, b = cluster.row[slot], state.slots[slot]
    if target == b or not can_hold(cluster, state, slot, target):
        return False
    if state.replicas[target] >= state.broker_slots.shape[1]:
        return False
    copies = count_more_copies(cluster, p, b, target)
    copied_disk = copies * cluster.disk[p]
    if partner >= 0:
        q = cluster.row[partner]
        if q == p or not cluster.can_change[q] or not cluster.can_receive[b]:
            return False
        if not can_hold(cluster, state, partner, b):
            return False
        more = count_more_copies(cluster, q, target, b)
        copies += more
        copied_disk += more * cluster.disk[q]
    return is_within_budget(search.limits, state, copied_disk, copies)


@compiled
def anneal_jointly(search: Search, targets: Int32s, schedule: Schedule, return_share: float) -> None:
    """Anneal replicas and leadership at once.

    Args:
        search: Its state changes.
        targets: int32, brokers that may receive.
        schedule: How many moves are proposed, and the temperatures.
        return_share: Share of proposals that return a copied replica to an initial broker; in half of them another
            replica of that broker takes its place.
    """
    cluster, state, random = search.cluster, search.state, search.random
    holders = np.empty(len(cluster.rack), np.int32)
    leader_count = hot_count = 0
    temperature, factor = schedule.start, cooling_factor(schedule, COOLING_STEPS)
    recompute_state(cluster, search.limits, state)
    for step in range(schedule.proposals):
        if step % COOLING_STEPS == 0:
            leader_count = find_hot_leaders(search)
            hot_count = leader_count + _find_hot_holders(search, holders)
            if step:
                temperature *= factor
        bound = draw_bound(random, temperature)
        partner = -1
        if draw_unit(random) < return_share:
            if state.copied_count[0] == 0:
                continue
            slot = state.copied_slots[draw_below(random, state.copied_count[0])]
            p = cluster.row[slot]
            initial = cluster.initial_offsets[p + 1] - cluster.initial_offsets[p]
            if initial == 0 or not cluster.can_change[p]:
                continue
            target = cluster.initial[cluster.initial_offsets[p] + draw_below(random, initial)]
            if not cluster.can_receive[target]:
                continue
            if draw_unit(random) < 0.5 and state.replicas[target]:
                partner = state.broker_slots[target, draw_below(random, state.replicas[target])]
        else:
            if hot_count == 0:
                continue
            pick = draw_below(random, hot_count)
            b = search.hot[pick] if pick < leader_count else holders[pick - leader_count]
            if state.replicas[b] == 0:
                continue
            slot = state.broker_slots[b, draw_below(random, state.replicas[b])]
            p = cluster.row[slot]
            begin, end = cluster.offsets[p], cluster.offsets[p + 1]
            if not cluster.can_change[p]:
                continue
            kind = draw_unit(random)
            if kind < 0.4 and end - begin > 1:
                i = draw_below(random, 2) if end - begin > 2 else 0
                j = i + 1 + draw_below(random, end - begin - i - 1)
                try_exchange(search, begin + i, begin + j, bound)
                continue
            if kind < 0.5:  # the broker may lose leadership when another replica of the partition moves
                slot = begin + draw_below(random, end - begin)
            target = targets[draw_below(random, len(targets))]
            if kind > 0.8 and state.replicas[target]:
                partner = state.broker_slots[target, draw_below(random, state.replicas[target])]
        if _is_legal(search, slot, partner, target):
            _try_relocation(search, slot, partner, target, bound)
    recompute_state(cluster, search.limits, state)
