"""Anneal replica lists to carry fewer bytes between zones, and to share fewer racks within them, within all limits.

A move exchanges the leader of a partition with one of its followers, or gives a replica to another broker. Either may
be paired with the reverse move of another partition, as brokers at their limits give only where they get.
"""

from typing import NamedTuple

from udfs.kernel_compiler import compiled, inlined_part, part
from udfs.planning.annealing.kernels import search_moves as moves
from udfs.planning.annealing.kernels import search_state
from udfs.planning.annealing.kernels.search_state import ClusterArrays, Search, SearchState
from udfs.planning.kernels.array_types import Flags, Floats, Int32s, Ints

_TRIES = 8  # to draw a partner for a paired move
_EXCHANGE, _RETURN, _PAIR = 0.5, 0.6, 0.5  # shares: of leader exchanges, up to that of returns; of moves in pairs


class ZoneTraffic(NamedTuple):
    """Where clients are, and what each partition carries. Zones are the racks of ClusterArrays."""

    consumers: Floats  # float64 (z), share of the consumers in each zone; the rest is in zones without brokers
    producers: Floats  # float64 (z), the same of producers
    fetches_nearby: Flags  # bool (n), whether consumers of what a broker leads fetch from followers in their own zone
    live: Flags  # bool (n); others carry nothing
    rate_in: Floats  # float64 (p), bytes per second, in any unit
    rate_out: Floats  # float64 (p), the same
    inner_rack: Int32s  # int32 (n), the rack of each broker within its zone; other numbers in other zones
    sharing: float  # cost of two replicas of a partition in one of these racks, in the unit of the rates


@part
def partition_traffic(cluster: ClusterArrays, traffic: ZoneTraffic, slots: Int32s, p: int) -> float:
    """Return what a partition carries between zones, in the unit of the rates."""
    begin, end = cluster.offsets[p], cluster.offsets[p + 1]
    if begin == end:
        return 0.0
    leader = slots[begin]  # live brokers are before others
    if not traffic.live[leader]:
        return 0.0
    home = cluster.rack[leader]
    rate_in, rate_out = traffic.rate_in[p], traffic.rate_out[p]
    total = rate_in * (1.0 - traffic.producers[home])
    for i in range(begin + 1, end):
        if cluster.rack[slots[i]] != home and traffic.live[slots[i]]:
            total += rate_in
    near = traffic.consumers[home]
    if traffic.fetches_nearby[leader]:
        for zone in range(len(traffic.consumers)):
            if zone == home or traffic.consumers[zone] == 0.0:
                continue
            for i in range(begin + 1, end):
                if cluster.rack[slots[i]] == zone and traffic.live[slots[i]]:
                    near += traffic.consumers[zone]
                    break
    return float(total + rate_out * (1.0 - near))


@part
def count_sharing(cluster: ClusterArrays, inner_rack: Int32s, slots: Int32s, p: int) -> int:
    """Return how many pairs of replicas of a partition share a rack."""
    begin, end, count = cluster.offsets[p], cluster.offsets[p + 1], 0
    for i in range(begin, end):
        for j in range(i + 1, end):
            count += inner_rack[slots[i]] == inner_rack[slots[j]]
    return count


@compiled
def sum_sharing(cluster: ClusterArrays, inner_rack: Int32s, slots: Int32s, out: Ints) -> None:
    """Fill `out` (int64, p) with how many pairs of replicas of each partition share a rack."""
    for p in range(len(out)):
        out[p] = count_sharing(cluster, inner_rack, slots, p)


@compiled
def sum_partition_traffic(cluster: ClusterArrays, traffic: ZoneTraffic, slots: Int32s, out: Floats) -> None:
    """Fill `out` (float64, p) with what each partition carries between zones."""
    for p in range(len(out)):
        out[p] = partition_traffic(cluster, traffic, slots, p)


@part
def _touch(search: Search, p: int, count: int) -> int:
    """Add the brokers to the first `count` touched ones whose leadership changes with the order of p."""
    return moves.add_leader_and_successor(search.cluster, search.state, p, search.touched, count)


@part
def _sum_costs(search: Search, count: int) -> float:
    """Return what the touched brokers exceed, as a cost."""
    total = moves.sum_touched_costs(search, count)
    for j in range(count):
        total += search_state.replica_cost(search, search.touched[j], 0, 0.0, 0.0)
    return total


@part
def _partition_cost(search: Search, traffic: ZoneTraffic, p: int) -> float:
    """Return what a partition carries between zones, and what its changes and copies cost."""
    cluster, weights, slots = search.cluster, search.weights, search.state.slots
    cost = partition_traffic(cluster, traffic, slots, p) + search_state.order_cost(cluster, weights, search.state, p)
    if traffic.sharing > 0.0:
        cost += traffic.sharing * count_sharing(cluster, traffic.inner_rack, slots, p)
    for i in range(cluster.offsets[p], cluster.offsets[p + 1]):
        cost += moves.copy_cost(cluster, weights, p, slots[i])
    return float(cost)


@part
def _exchange(search: Search, one: int, two: int) -> None:
    """Exchange the brokers of two slots of a partition, in all sums."""
    cluster, limits, state = search.cluster, search.limits, search.state
    p = cluster.row[one]
    search_state.count_leadership(cluster, limits, state, p, -1)
    state.slots[one], state.slots[two] = state.slots[two], state.slots[one]
    search_state.count_leadership(cluster, limits, state, p, 1)
    moves.exchange_slots(state, one, two)


@part
def _find_reverse(search: Search, leader: int, follower: int, p: int) -> int:
    """Draw a slot of a partition that `follower` leads and `leader` follows; -1 = none was drawn."""
    cluster, state = search.cluster, search.state
    for _ in range(_TRIES):
        if state.replicas[follower] == 0:
            return -1
        slot = state.broker_slots[follower, moves.draw_below(search.random, state.replicas[follower])]
        q = cluster.row[slot]
        if slot != cluster.offsets[q] or q == p or not cluster.can_change[q]:
            continue
        for other in range(slot + 1, cluster.offsets[q + 1]):
            if state.slots[other] == leader:
                return int(other)
    return -1


@inlined_part
def _try_exchange(search: Search, traffic: ZoneTraffic, p: int, bound: float) -> None:
    """Exchange the leader of p with a follower, perhaps with the reverse exchange of another partition."""
    cluster, state = search.cluster, search.state
    begin, size = cluster.offsets[p], cluster.offsets[p + 1] - cluster.offsets[p]
    if size < 2:
        return
    two = begin + 1 + moves.draw_below(search.random, size - 1)
    b, t = state.slots[begin], state.slots[two]
    if not cluster.can_lead[t]:
        return
    back = -1
    if moves.draw_unit(search.random) < _PAIR and cluster.can_lead[b]:
        back = _find_reverse(search, b, t, p)
    q = cluster.row[back] if back >= 0 else p
    count = moves.add_distinct(search.touched, _touch(search, p, 0), t)
    before = _partition_cost(search, traffic, p)
    if back >= 0:
        count = moves.add_distinct(search.touched, _touch(search, q, count), b)
        before += _partition_cost(search, traffic, q)
    before += _sum_costs(search, count)
    _exchange(search, begin, two)
    after = _partition_cost(search, traffic, p)
    if back >= 0:
        _exchange(search, cluster.offsets[q], back)
        after += _partition_cost(search, traffic, q)
    if after + _sum_costs(search, count) - before <= bound:
        return
    if back >= 0:
        _exchange(search, cluster.offsets[q], back)
    _exchange(search, begin, two)


@part
def _can_take(search: Search, slot: int, target: int) -> bool:
    """Tell whether a broker may take a slot: its partition may change, and the broker may receive it."""
    cluster, state = search.cluster, search.state
    if not cluster.can_change[cluster.row[slot]] or not moves.can_hold(cluster, state, slot, target):
        return False
    may_get: bool = cluster.can_receive[target]
    if slot == cluster.offsets[cluster.row[slot]]:
        may_get = may_get and cluster.can_lead[target]
    return may_get and state.replicas[target] < state.broker_slots.shape[1]


@inlined_part
def _try_relocation(search: Search, traffic: ZoneTraffic, slot: int, target: int, partner: int, bound: float) -> None:
    """Give a slot to `target`, and `partner` (if not -1), a slot of `target`, back."""
    cluster, limits, state = search.cluster, search.limits, search.state
    p, b = cluster.row[slot], state.slots[slot]
    if b == target or not _can_take(search, slot, target):
        return
    q = cluster.row[partner] if partner >= 0 else p
    if partner >= 0 and (q == p or not _can_take(search, partner, b)):
        return
    copies = moves.count_more_copies(cluster, p, b, target)
    copied_disk = copies * cluster.disk[p]
    count = moves.add_distinct(search.touched, moves.add_distinct(search.touched, _touch(search, p, 0), b), target)
    before = _partition_cost(search, traffic, p)
    if partner >= 0:
        more = moves.count_more_copies(cluster, q, target, b)
        copies += more
        copied_disk += more * cluster.disk[q]
        count = _touch(search, q, count)
        before += _partition_cost(search, traffic, q)
    if not search_state.is_within_budget(limits, state, copied_disk, copies):
        return
    before += _sum_costs(search, count)
    search_state.relocate_replica(cluster, limits, state, slot, target)
    after = _partition_cost(search, traffic, p)
    if partner >= 0:
        search_state.relocate_replica(cluster, limits, state, partner, b)
        after += _partition_cost(search, traffic, q)
    if after + _sum_costs(search, count) - before <= bound:
        return
    if partner >= 0:
        search_state.relocate_replica(cluster, limits, state, partner, target)
    search_state.relocate_replica(cluster, limits, state, slot, b)


@part
def _draw_return(search: Search) -> tuple[int, int]:
    """Draw a copied slot, and a broker that holds its partition initially; (-1, -1) if there is none."""
    cluster, state, random = search.cluster, search.state, search.random
    if state.copied_count[0] == 0:
        return -1, -1
    slot = state.copied_slots[moves.draw_below(random, state.copied_count[0])]
    p = cluster.row[slot]
    begin, initial = cluster.initial_offsets[p], cluster.initial_offsets[p + 1] - cluster.initial_offsets[p]
    if initial == 0:
        return -1, -1
    return int(slot), int(cluster.initial[begin + moves.draw_below(random, initial)])


@part
def _draw_partner(state: SearchState, search: Search, target: int) -> int:
    if moves.draw_unit(search.random) >= _PAIR or state.replicas[target] == 0:
        return -1
    return int(state.broker_slots[target, moves.draw_below(search.random, state.replicas[target])])


@compiled
def anneal_zones(
    search: Search, traffic: ZoneTraffic, heavy: Ints, targets: Int32s, schedule: moves.Schedule, copies: bool
) -> None:
    """Anneal leaders, and which brokers hold replicas if `copies`.

    heavy: int64, partitions that half of the proposals are about; targets: int32, brokers that may receive.
    """
    cluster, state, random = search.cluster, search.state, search.random
    temperature, factor = schedule.start, moves.cooling_factor(schedule, moves.COOLING_STEPS)
    search_state.recompute_state(cluster, search.limits, state)
    for step in range(schedule.proposals):
        if step % moves.COOLING_STEPS == 0 and step:
            temperature *= factor
        bound = moves.draw_bound(random, temperature)
        kind = moves.draw_unit(random) if copies else 0.0
        if _EXCHANGE <= kind < _RETURN:
            slot, target = _draw_return(search)
            if slot >= 0:
                _try_relocation(search, traffic, slot, target, _draw_partner(state, search, target), bound)
            continue
        if len(heavy) and moves.draw_unit(random) < 0.5:
            p = heavy[moves.draw_below(random, len(heavy))]
        else:
            p = moves.draw_below(random, len(cluster.disk))
        if not cluster.can_change[p] or cluster.offsets[p] == cluster.offsets[p + 1]:
            continue
        if kind < _EXCHANGE:
            _try_exchange(search, traffic, p, bound)
        elif len(targets):
            slot = cluster.offsets[p] + moves.draw_below(random, cluster.offsets[p + 1] - cluster.offsets[p])
            target = targets[moves.draw_below(random, len(targets))]
            _try_relocation(search, traffic, slot, target, _draw_partner(state, search, target), bound)
    search_state.recompute_state(cluster, search.limits, state)
