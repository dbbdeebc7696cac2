"""Annealing toward fewer distinct copysets: copied replicas go to other brokers while the balance is kept.

A replica keeps its place in the list, but successor and third replica may be exchanged where limits require that.
"""

from typing import NamedTuple

import numpy as np

from udfs.kernel_compiler import compiled, part
from udfs.planning.annealing.kernels import search_moves as moves
from udfs.planning.annealing.kernels import search_state
from udfs.planning.annealing.kernels.search_state import BrokerLimits, ClusterArrays, SearchState, is_within_budget
from udfs.planning.kernels.array_types import Floats, Int32s, Ints, RandomState
from udfs.planning.replicas.kernels import copyset_counts
from udfs.planning.replicas.kernels.copyset_counts import CopysetTable, change_copyset

_ROUNDING = 1e-9  # by how much a sum may exceed its limit: the last bits of sums depend on their order
_PARTNERS = 48  # replicas considered for an exchange
_KNOWN_SHARE = 0.95  # share of proposals that consider copysets already in use only


class LoadFloors(NamedTuple):
    """The least that each broker keeps: float64 (n), in units of disk, bytes in and bytes out."""

    disk: Floats
    bytes_in: Floats
    bytes_out: Floats


class CopiedSlots(NamedTuple):
    """Copied slots by broker."""

    slots: Int32s  # int32 (n, room)
    counts: Ints  # int64 (n)
    slot_index: Int32s  # int32 (r), where a slot is in `slots`; -1 = not copied


class CopysetSearch(NamedTuple):
    """A search for fewer copysets. targets: int32, brokers that may receive."""

    cluster: ClusterArrays
    limits: BrokerLimits
    floors: LoadFloors
    state: SearchState
    table: CopysetTable
    copied: CopiedSlots
    targets: Int32s
    random: RandomState


def list_copied_slots(state: SearchState) -> CopiedSlots:
    """List the copied slots of this state by broker."""
    copied = CopiedSlots(
        np.zeros_like(state.broker_slots),
        np.zeros(len(state.broker_slots), np.int64),
        np.full(len(state.slots), -1, np.int32),
    )
    for slot in np.sort(state.copied_slots[: state.copied_count[0]]).tolist():
        _list_slot(copied, slot, int(state.slots[slot]))
    return copied


@compiled
def _list_slot(copied: CopiedSlots, slot: int, b: int) -> None:
    copied.slots[b, copied.counts[b]] = slot
    copied.slot_index[slot] = copied.counts[b]
    copied.counts[b] += 1


@part
def _unlist_partition(search: CopysetSearch, p: int) -> None:
    """Remove the partition's slots from the copied ones."""
    copied = search.copied
    for slot in range(search.cluster.offsets[p], search.cluster.offsets[p + 1]):
        if copied.slot_index[slot] >= 0:
            b = search.state.slots[slot]
            copied.counts[b] -= 1
            last = copied.slots[b, copied.counts[b]]
            copied.slots[b, copied.slot_index[slot]] = last
            copied.slot_index[last] = copied.slot_index[slot]
            copied.slot_index[slot] = -1


@part
def _list_partition(search: CopysetSearch, p: int) -> None:
    """Add those of the partition's slots that are copied."""
    for slot in range(search.cluster.offsets[p], search.cluster.offsets[p + 1]):
        if search.state.copied_index[slot] >= 0:
            _list_slot(search.copied, slot, search.state.slots[slot])


@part
def _can_hold_load(search: CopysetSearch, b: int, replicas: int, disk: float, bytes_in: float) -> bool:
    """Tell whether broker b keeps to its limits with this much more."""
    limits, floors, state = search.limits, search.floors, search.state
    total_disk, total_in = state.disk[b] + disk, state.bytes_in[b] + bytes_in
    possible: bool = limits.min_replicas[b] <= state.replicas[b] + replicas <= limits.max_replicas[b]
    possible = possible and floors.disk[b] - _ROUNDING <= total_disk <= limits.disk[b] + _ROUNDING
    return possible and floors.bytes_in[b] - _ROUNDING <= total_in <= limits.bytes_in[b] + _ROUNDING


@part
def _can_lead_load(search: CopysetSearch, b: int) -> bool:
    """Tell whether what broker b leads and would take over keeps to its limits."""
    limits, floors, state = search.limits, search.floors, search.state
    leaders, bytes_out = state.leaders[b], state.bytes_out[b]
    possible: bool = limits.min_leaders[b] <= leaders <= limits.max_leaders[b]
    possible = possible and leaders + state.takeovers.worst[b] <= _ROUNDING
    possible = possible and floors.bytes_out[b] - _ROUNDING <= bytes_out <= limits.bytes_out[b] + _ROUNDING
    return possible and bytes_out + state.takeovers_bytes_out.worst[b] <= _ROUNDING


@part
def _can_move_load(search: CopysetSearch, slot: int, partner: int, target: int) -> bool:
    """Tell whether loads allow that the slot goes to `target`, and `partner` (if not -1) to the slot's broker."""
    cluster = search.cluster
    p, b = cluster.row[slot], search.state.slots[slot]
    disk, bytes_in, count = cluster.disk[p], cluster.bytes_in[p], 1
    if partner >= 0:
        q = cluster.row[partner]
        disk, bytes_in, count = disk - cluster.disk[q], bytes_in - cluster.bytes_in[q], 0
    possible: bool = _can_hold_load(search, b, -count, -disk, -bytes_in)
    return possible and _can_hold_load(search, target, count, disk, bytes_in)


@part
def _exchange_successor(search: CopysetSearch, p: int) -> bool:
    """Exchange p's successor and third replica. Return whether p has a third replica."""
    cluster, limits, state = search.cluster, search.limits, search.state
    second = cluster.offsets[p] + 1
    if second + 1 >= cluster.offsets[p + 1]:
        return False
    search_state.count_leadership(cluster, limits, state, p, -1)
    state.slots[second], state.slots[second + 1] = state.slots[second + 1], state.slots[second]
    moves.exchange_slots(state, second, second + 1)
    search_state.count_leadership(cluster, limits, state, p, 1)
    return True


@part
def _can_lead_list(search: CopysetSearch, p: int) -> bool:
    """Tell whether leadership keeps to the limits on p's first three brokers."""
    possible = True
    for slot in range(search.cluster.offsets[p], min(search.cluster.offsets[p] + 3, search.cluster.offsets[p + 1])):
        possible = possible and _can_lead_load(search, search.state.slots[slot])
    return possible


@part
def _keeps_leadership_limits(search: CopysetSearch, p: int, q: int, b: int, target: int) -> bool:
    """Tell whether all brokers that an exchange of p and q between b and `target` affects keep to their limits."""
    possible: bool = _can_lead_load(search, b) and _can_lead_load(search, target) and _can_lead_list(search, p)
    return possible and _can_lead_list(search, q)


@part
def _try_move(search: CopysetSearch, slot: int, partner: int, target: int) -> bool:
    """Move the slot to `target`, and `partner` (if not -1) back, if limits allow it, perhaps with other successors."""
    cluster, limits, state = search.cluster, search.limits, search.state
    p, b = cluster.row[slot], state.slots[slot]
    q = cluster.row[partner] if partner >= 0 else p
    if not _can_move_load(search, slot, partner, target):
        return False
    _unlist_partition(search, p)
    _unlist_partition(search, q)
    search_state.relocate_replica(cluster, limits, state, slot, target)
    if partner >= 0:
        search_state.relocate_replica(cluster, limits, state, partner, b)
    possible = _keeps_leadership_limits(search, p, q, b, target)
    turn = 0
    while not possible and turn < 4:  # p's other successor; q's too; q's alone; the original ones
        turn += 1
        if _exchange_successor(search, p if turn % 2 == 1 else q) and turn < 4:
            possible = _keeps_leadership_limits(search, p, q, b, target)
    if not possible:
        if partner >= 0:
            search_state.relocate_replica(cluster, limits, state, partner, target)
        search_state.relocate_replica(cluster, limits, state, slot, b)
    _list_partition(search, p)
    if q != p:
        _list_partition(search, q)
    return possible


@part
def _draw_slot(search: CopysetSearch) -> int:
    """Draw a slot that may move, preferring rare copysets; -1 = none found."""
    cluster, state, random = search.cluster, search.state, search.random
    best, rarest = -1, 0
    for _ in range(3):
        slot = int(state.copied_slots[moves.draw_below(random, state.copied_count[0])])
        p = cluster.row[slot]
        if not cluster.can_change[p]:
            continue
        count = copyset_counts.count_partitions(search.table, search.table.copyset[p])
        if best < 0 or count < rarest:
            best, rarest = slot, count
    if best >= 0 and moves.draw_unit(random) < 0.3:  # another replica of the partition may be copied instead
        begin, end = cluster.offsets[cluster.row[best]], cluster.offsets[cluster.row[best] + 1]
        best = int(begin + moves.draw_below(random, end - begin))
    return best


@part
def _can_move_alone(search: CopysetSearch, b: int, target: int) -> bool:
    """Tell whether broker b may hold one replica less and `target` one more."""
    limits, replicas = search.limits, search.state.replicas
    gives: bool = replicas[b] - 1 >= limits.min_replicas[b]
    return gives and replicas[target] + 1 <= limits.max_replicas[target]


@part
def _draw_target(search: CopysetSearch, slot: int) -> int:
    """Draw a broker that the slot could go to, most often one that completes a copyset in use; -1 = none."""
    cluster, state, table, random = search.cluster, search.state, search.table, search.random
    p, b = cluster.row[slot], state.slots[slot]
    rest = table.copyset[p] - table.broker_key[b]
    any_target = not search_state.holds_initially(cluster, p, b)
    known_only = moves.draw_unit(random) < _KNOWN_SHARE
    best, seen = -1, 0
    count = len(search.targets) if any_target else cluster.initial_offsets[p + 1] - cluster.initial_offsets[p]
    for k in range(count):
        t = search.targets[k] if any_target else cluster.initial[cluster.initial_offsets[p] + k]
        if t == b or not cluster.can_receive[t] or not moves.can_hold(cluster, state, slot, t):
            continue
        may_go = search.copied.counts[t] > 0 or _can_move_alone(search, b, t)
        if not (may_go or search_state.holds_initially(cluster, p, t)):
            continue
        if known_only and copyset_counts.count_partitions(table, rest + table.broker_key[t]) == 0:
            continue
        seen += 1
        if moves.draw_below(random, seen) == 0:
            best = t
    return best


@part
def _find_partner(search: CopysetSearch, slot: int, target: int, copies: int) -> tuple[int, float]:
    """Find the slot of `target` that goes to the slot's broker at least cost: (it or -1, the rise in cost)."""
    cluster, state, table, random = search.cluster, search.state, search.table, search.random
    p, b, copied = cluster.row[slot], state.slots[slot], search.copied
    best, lowest = -1, 0.0
    for _ in range(_PARTNERS):
        if copied.counts[target] > 0 and (copies == 0 or moves.draw_unit(random) < 0.5):
            other = int(copied.slots[target, moves.draw_below(random, copied.counts[target])])
        else:
            other = int(state.broker_slots[target, moves.draw_below(random, state.replicas[target])])
        q = cluster.row[other]
        if q == p or not cluster.can_change[q] or not moves.can_hold(cluster, state, other, b):
            continue
        more = moves.count_more_copies(cluster, q, target, b)
        disk = copies * cluster.disk[p] + more * cluster.disk[q]
        affordable = is_within_budget(search.limits, state, disk, copies + more)
        if not affordable or not _can_move_load(search, slot, other, target):
            continue
        copyset = table.copyset[q] - table.broker_key[target] + table.broker_key[b]
        saved = copyset_counts.marginal_cost(copyset_counts.count_partitions(table, table.copyset[q]) - 1)
        rise = table.weight[q] * (copyset_counts.marginal_cost(copyset_counts.count_partitions(table, copyset)) - saved)
        if best < 0 or rise < lowest:
            best, lowest = other, rise
    return best, lowest


@compiled
def anneal_copysets(search: CopysetSearch, schedule: moves.Schedule) -> None:
    """Anneal which brokers hold the copied replicas, within the limits.

    A copyset of one partition costs 1; the last fifth of the proposals may not raise the cost.
    """
    cluster, state, table, random = search.cluster, search.state, search.table, search.random
    temperature, factor = schedule.start, moves.cooling_factor(schedule, 1)
    for step in range(schedule.proposals):
        if state.copied_count[0] == 0:
            break
        if table.used[0] * 2 > len(table.entry):
            copyset_counts.recount_copysets(table)
        temperature *= factor
        bound = moves.draw_bound(random, temperature) if step * 5 < schedule.proposals * 4 else 1e-12
        slot = _draw_slot(search)
        if slot < 0:
            continue
        target = _draw_target(search, slot)
        if target < 0:
            continue
        p, b = cluster.row[slot], state.slots[slot]
        copies = moves.count_more_copies(cluster, p, b, target)
        before = table.copyset[p]
        alone = _can_move_alone(search, b, target)
        rise = change_copyset(table, p, before - table.broker_key[b] + table.broker_key[target])
        partner = -1
        if not alone or moves.draw_unit(random) < 0.5:
            if not cluster.can_receive[b] or state.replicas[target] == 0:
                change_copyset(table, p, before)
                continue
            partner, rise_of_partner = _find_partner(search, slot, target, copies)
            rise += rise_of_partner
        possible = partner >= 0 or (alone and is_within_budget(search.limits, state, copies * cluster.disk[p], copies))
        if possible and rise <= bound and _try_move(search, slot, partner, target):
            if partner >= 0:
                q = cluster.row[partner]
                change_copyset(table, q, table.copyset[q] - table.broker_key[target] + table.broker_key[b])
        else:
            change_copyset(table, p, before)
    search_state.recompute_state(cluster, search.limits, state)
