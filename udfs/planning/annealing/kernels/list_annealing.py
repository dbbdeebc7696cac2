"""Annealing of replica lists: replicas alone, leaders and successors alone (nothing is copied), all at once."""

from typing import NamedTuple

import numpy as np

from udfs.kernel_compiler import compiled, copying_part, inlined_part, part
from udfs.planning.annealing.kernels import search_moves as moves
from udfs.planning.annealing.kernels import search_state
from udfs.planning.annealing.kernels.search_state import ClusterArrays, Search, SearchState, recompute_state
from udfs.planning.kernels.array_types import Flags, Floats, Int32s, RandomState

# Kinds of moves: a replica of a hot broker, or any replica, moves; a copied one returns to an initial broker; two
# copied ones exchange brokers; a copied one returns and another of that broker takes its place; a copied one moves;
# a replica of a hot broker and any other exchange brokers.
MOVE_HOT, MOVE_ANY, RETURN, EXCHANGE_COPIED, RETURN_AND_REPLACE, MOVE_COPIED, EXCHANGE_HOT, MOVE_KINDS = range(8)


class MoveChoices(NamedTuple):
    """What moves are drawn from."""

    targets: Int32s  # int32, brokers that may receive
    light: Int32s  # int32, slots of small replicas, for brokers whose bytes one large replica fills
    pinned: Flags  # bool (r), slots that stay
    mix: Floats  # float64 (MOVE_KINDS), cumulative shares of the kinds of moves; the last is 1


@copying_part
def match_initial_brokers(cluster: ClusterArrays, state: SearchState) -> Int32s:
    """Return for each slot the initial broker that it can return to, its own if possible: int32 (r), -1 = none."""
    out = np.full(len(state.slots), -1, np.int32)
    for p in range(len(cluster.disk)):
        begin, end = cluster.offsets[p], cluster.offsets[p + 1]
        for slot in range(begin, end):
            if search_state.holds_initially(cluster, p, state.slots[slot]):
                out[slot] = state.slots[slot]
        at = cluster.initial_offsets[p]
        for slot in range(begin, end):
            while out[slot] < 0 and at < cluster.initial_offsets[p + 1]:
                unused = True
                for other in range(begin, end):
                    if out[other] == cluster.initial[at]:
                        unused = False
                if unused:
                    out[slot] = cluster.initial[at]
                at += 1
    return out


@part
def _count_more_copies(initial: Int32s, slot: int, b: int, target: int) -> int:
    """Return by how much the copied replicas grow when the slot goes from b to `target`: 1, 0 or -1."""
    return (1 if initial[slot] != target else 0) - (1 if initial[slot] != b else 0)


@part
def _load(cluster: ClusterArrays, slot: int) -> float:
    p = cluster.row[slot]
    load: float = cluster.disk[p] + cluster.bytes_in[p]
    return load


@part
def _draw_light(cluster: ClusterArrays, random: RandomState, slots: Int32s, count: int) -> int:
    """Draw four slots, of the first `count` of a list or (0) of all slots. Return the lightest."""
    best = -1
    for _ in range(4):
        slot = slots[moves.draw_below(random, count)] if count > 0 else moves.draw_below(random, len(slots))
        if best < 0 or _load(cluster, slot) < _load(cluster, best):
            best = slot
    return best


@part
def _draw_slot(state: SearchState, random: RandomState, b: int) -> int:
    slot: int = state.broker_slots[b, moves.draw_below(random, state.replicas[b])]
    return slot


@part
def _move(search: Search, initial: Int32s, slot: int, target: int) -> None:
    search_state.move_slot(search.cluster, search.state, slot, target)
    search_state.mark_copied(search.cluster, search.state, slot, initial[slot] != target)


@part
def _propose_exchange(search: Search, choices: MoveChoices, hot_count: int) -> tuple[int, int, int]:
    """Draw the worse of two hot brokers, the larger of two of its replicas, and a light replica elsewhere."""
    state, random = search.state, search.random
    b, other = search.hot[moves.draw_below(random, hot_count)], search.hot[moves.draw_below(random, hot_count)]
    if search.cost[other] > search.cost[b]:
        b = other
    if state.replicas[b] == 0 or not search.cluster.can_receive[b]:
        return moves.NO_MOVE
    slot, other = _draw_slot(state, random, b), _draw_slot(state, random, b)
    if _load(search.cluster, other) > _load(search.cluster, slot):
        slot = other
    # A replica that is copied anyway goes elsewhere at no further cost.
    kind = moves.draw_unit(random)
    if kind < 0.4 and state.copied_count[0] > 0:
        partner = _draw_light(search.cluster, random, state.copied_slots, state.copied_count[0])
    elif kind < 0.7 and len(choices.light) > 0:
        partner = choices.light[moves.draw_below(random, len(choices.light))]
    else:
        partner = _draw_light(search.cluster, random, state.slot_index, 0)
    return slot, partner, state.slots[partner]


@inlined_part
def _propose(search: Search, choices: MoveChoices, initial: Int32s, hot_count: int) -> tuple[int, int, int]:
    """Draw a move: (slot, slot of `target` that goes back in exchange or -1, target), or moves.NO_MOVE."""
    state, random, mix, targets = search.state, search.random, choices.mix, choices.targets
    kind = moves.draw_unit(random)
    if kind < mix[MOVE_HOT]:
        if hot_count == 0:
            return moves.NO_MOVE
        b = search.hot[moves.draw_below(random, hot_count)]
        target = targets[moves.draw_below(random, len(targets))]
        if state.replicas[b] < search.limits.min_replicas[b] and search.cluster.can_receive[b]:
            b, target = target, b
        if state.replicas[b] == 0:
            return moves.NO_MOVE
        return _draw_slot(state, random, b), -1, target
    if kind < mix[MOVE_ANY]:
        slot = moves.draw_below(random, len(state.slots))
        return slot, -1, targets[moves.draw_below(random, len(targets))]
    if kind >= mix[MOVE_COPIED]:
        return _propose_exchange(search, choices, hot_count) if hot_count > 0 else moves.NO_MOVE
    if state.copied_count[0] == 0:
        return moves.NO_MOVE
    slot = state.copied_slots[moves.draw_below(random, state.copied_count[0])]
    if mix[RETURN] <= kind < mix[EXCHANGE_COPIED]:
        partner = state.copied_slots[moves.draw_below(random, state.copied_count[0])]
        return slot, partner, state.slots[partner]
    if kind >= mix[RETURN_AND_REPLACE]:
        return slot, -1, targets[moves.draw_below(random, len(targets))]
    target = initial[slot]
    if target < 0 or not search.cluster.can_receive[target]:
        return moves.NO_MOVE
    if kind < mix[EXCHANGE_COPIED]:
        return slot, -1, target
    if state.replicas[target] == 0:
        return moves.NO_MOVE
    return slot, _draw_slot(state, random, target), target


@inlined_part
def _try_move(search: Search, initial: Int32s, slot: int, partner: int, target: int, bound: float) -> None:
    """Move the slot to `target`, and `partner` (if not -1) back, if legal and if the cost rises by at most `bound`."""
    cluster, limits, weights, state = search.cluster, search.limits, search.weights, search.state
    b, p = state.slots[slot], cluster.row[slot]
    disk, bytes_in, count = cluster.disk[p], cluster.bytes_in[p], 1
    copies = _count_more_copies(initial, slot, b, target)
    copied_disk = copies * disk
    if partner >= 0:
        q = cluster.row[partner]
        disk, bytes_in, count = disk - cluster.disk[q], bytes_in - cluster.bytes_in[q], 0
        more = _count_more_copies(initial, partner, target, b)
        copies += more
        copied_disk += more * cluster.disk[q]
    cost_b = search_state.replica_cost(search, b, -count, -disk, -bytes_in)
    cost_target = search_state.replica_cost(search, target, count, disk, bytes_in)
    copy_rise = weights.copied_disk * copied_disk + weights.copied_replica * copies
    if copy_rise + cost_b + cost_target - search.cost[b] - search.cost[target] > bound:
        return
    if not search_state.is_within_budget(limits, state, copied_disk, copies):
        return
    if not moves.can_hold(cluster, state, slot, target) or state.replicas[target] >= state.broker_slots.shape[1]:
        return
    if partner >= 0 and not moves.can_hold(cluster, state, partner, b):
        return
    _move(search, initial, slot, target)
    if partner >= 0:
        _move(search, initial, partner, b)
    search.cost[b], search.cost[target] = cost_b, cost_target


@compiled
def anneal_replicas(search: Search, choices: MoveChoices, schedule: moves.Schedule) -> None:
    """Anneal which brokers hold which replicas. Sums of leadership are not kept: call `recompute_state` afterwards."""
    cluster, state = search.cluster, search.state
    initial = match_initial_brokers(cluster, state)
    hot_count = 0
    temperature, factor = schedule.start, moves.cooling_factor(schedule, moves.COOLING_STEPS)
    for step in range(schedule.proposals):
        if step % moves.COOLING_STEPS == 0:
            hot_count = moves.find_hot_holders(search, search.cost, search.hot)
            if step:
                temperature *= factor
        bound = moves.draw_bound(search.random, temperature)
        slot, partner, target = _propose(search, choices, initial, hot_count)
        if slot < 0:
            continue
        b = state.slots[slot]
        if b == target or choices.pinned[slot] or not cluster.can_change[cluster.row[slot]]:
            continue
        if partner >= 0:
            q = cluster.row[partner]
            if q == cluster.row[slot] or choices.pinned[partner] or not cluster.can_change[q]:
                continue
            if not cluster.can_receive[b] or not cluster.can_receive[target]:
                continue
        _try_move(search, initial, slot, partner, target, bound)


@compiled
def anneal_leadership(search: Search, schedule: moves.Schedule, hot_share: float) -> None:
    """Anneal the order of replica lists. hot_share: of proposals about partitions on a broker beyond a limit."""
    cluster, state, random = search.cluster, search.state, search.random
    hot_count = 0
    temperature, factor = schedule.start, moves.cooling_factor(schedule, moves.COOLING_STEPS)
    recompute_state(cluster, search.limits, state)
    for step in range(schedule.proposals):
        if step % moves.COOLING_STEPS == 0:
            hot_count = moves.find_hot_leaders(search)
            if step:
                temperature *= factor
        bound = moves.draw_bound(random, temperature)
        if hot_count and moves.draw_unit(random) < hot_share:
            b = search.hot[moves.draw_below(random, hot_count)]
            if state.replicas[b] == 0:
                continue
            p = cluster.row[state.broker_slots[b, moves.draw_below(random, state.replicas[b])]]
        else:
            p = moves.draw_below(random, len(cluster.disk))
        if cluster.offsets[p + 1] - cluster.offsets[p] > 1 and cluster.can_change[p]:
            moves.try_exchange(search, p, bound)
    recompute_state(cluster, search.limits, state)


@part
def _try_relocation(search: Search, slot: int, partner: int, target: int, bound: float) -> None:
    """Move the slot to `target`, and `partner` (if not -1) back, if the cost rises by no more than `bound`."""
    cluster, limits, weights, state = search.cluster, search.limits, search.weights, search.state
    p, b = cluster.row[slot], state.slots[slot]
    rise = moves.copy_cost(cluster, weights, p, target) - moves.copy_cost(cluster, weights, p, b)
    rise -= search_state.replica_cost(search, b, 0, 0.0, 0.0) + search_state.replica_cost(search, target, 0, 0.0, 0.0)
    disk, bytes_in, count = cluster.disk[p], cluster.bytes_in[p], 1
    q = cluster.row[partner] if partner >= 0 else p
    if partner >= 0:
        rise += moves.copy_cost(cluster, weights, q, b) - moves.copy_cost(cluster, weights, q, target)
        disk, bytes_in, count = disk - cluster.disk[q], bytes_in - cluster.bytes_in[q], 0
    rise += search_state.replica_cost(search, b, -count, -disk, -bytes_in)
    rise += search_state.replica_cost(search, target, count, disk, bytes_in)
    touched = moves.add_leader_and_successor(cluster, state, p, search.touched, 0)
    touched = moves.add_distinct(search.touched, moves.add_distinct(search.touched, touched, b), target)
    rise -= search_state.order_cost(cluster, weights, state, p)
    if partner >= 0:
        touched = moves.add_leader_and_successor(cluster, state, q, search.touched, touched)
        rise -= search_state.order_cost(cluster, weights, state, q)
    for j in range(touched):
        rise -= search.cost[search.touched[j]]
    if rise > bound:
        return
    search_state.relocate_replica(cluster, limits, state, slot, target)
    if partner >= 0:
        search_state.relocate_replica(cluster, limits, state, partner, b)
        rise += search_state.order_cost(cluster, weights, state, q)
    rise += search_state.order_cost(cluster, weights, state, p) + moves.sum_touched_costs(search, touched)
    if rise <= bound:
        moves.update_touched_costs(search, touched)
        return
    if partner >= 0:
        search_state.relocate_replica(cluster, limits, state, partner, target)
    search_state.relocate_replica(cluster, limits, state, slot, b)


@part
def _is_legal(search: Search, slot: int, partner: int, target: int) -> bool:
    """Tell whether a relocation keeps to racks, frozen partitions and budget."""
    cluster, state = search.cluster, search.state
    p, b, room = cluster.row[slot], state.slots[slot], state.broker_slots.shape[1]
    if target == b or not moves.can_hold(cluster, state, slot, target) or state.replicas[target] >= room:
        return False
    copies = moves.count_more_copies(cluster, p, b, target)
    copied_disk = copies * cluster.disk[p]
    if partner >= 0:
        q = cluster.row[partner]
        free = cluster.can_change[q] and cluster.can_receive[b]
        if q == p or not free or not moves.can_hold(cluster, state, partner, b):
            return False
        more = moves.count_more_copies(cluster, q, target, b)
        copies += more
        copied_disk += more * cluster.disk[q]
    return search_state.is_within_budget(search.limits, state, copied_disk, copies)


@compiled
def anneal_jointly(search: Search, targets: Int32s, schedule: moves.Schedule, return_share: float) -> None:
    """Anneal replicas and leadership at once. targets: int32, brokers that may receive.

    return_share: of proposals that return a copied replica to an initial broker; in half of them another replica of
    that broker takes its place.
    """
    cluster, state, random = search.cluster, search.state, search.random
    holders, holder_costs = np.empty(len(cluster.rack), np.int32), np.empty(len(cluster.rack))
    leader_count = hot_count = 0
    temperature, factor = schedule.start, moves.cooling_factor(schedule, moves.COOLING_STEPS)
    recompute_state(cluster, search.limits, state)
    for step in range(schedule.proposals):
        if step % moves.COOLING_STEPS == 0:
            leader_count = moves.find_hot_leaders(search)
            hot_count = leader_count + moves.find_hot_holders(search, holder_costs, holders)
            if step:
                temperature *= factor
        bound = moves.draw_bound(random, temperature)
        partner = -1
        if moves.draw_unit(random) < return_share:
            if state.copied_count[0] == 0:
                continue
            slot = state.copied_slots[moves.draw_below(random, state.copied_count[0])]
            p = cluster.row[slot]
            initial = cluster.initial_offsets[p + 1] - cluster.initial_offsets[p]
            if initial == 0 or not cluster.can_change[p]:
                continue
            target = cluster.initial[cluster.initial_offsets[p] + moves.draw_below(random, initial)]
            if not cluster.can_receive[target]:
                continue
            if moves.draw_unit(random) < 0.5 and state.replicas[target]:
                partner = state.broker_slots[target, moves.draw_below(random, state.replicas[target])]
        else:
            if hot_count == 0:
                continue
            pick = moves.draw_below(random, hot_count)
            b = search.hot[pick] if pick < leader_count else holders[pick - leader_count]
            if state.replicas[b] == 0:
                continue
            slot = state.broker_slots[b, moves.draw_below(random, state.replicas[b])]
            p = cluster.row[slot]
            begin, end = cluster.offsets[p], cluster.offsets[p + 1]
            if not cluster.can_change[p]:
                continue
            kind = moves.draw_unit(random)
            if kind < 0.4 and end - begin > 1:
                moves.try_exchange(search, p, bound)
                continue
            if kind < 0.5:  # the broker may lose leadership when another replica of the partition moves
                slot = begin + moves.draw_below(random, end - begin)
            target = targets[moves.draw_below(random, len(targets))]
            if kind > 0.8 and state.replicas[target]:
                partner = state.broker_slots[target, moves.draw_below(random, state.replicas[target])]
        if _is_legal(search, slot, partner, target):
            _try_relocation(search, slot, partner, target, bound)
    recompute_state(cluster, search.limits, state)
