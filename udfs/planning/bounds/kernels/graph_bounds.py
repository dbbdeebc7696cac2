"""Graph algorithms of lower bounds: matchings that give takeover limits, and node prices of min-cost flows."""

from typing import NamedTuple

import numpy as np

from udfs.kernel_compiler import compiled
from udfs.planning.kernels.array_types import Flags, Ints


class Items(NamedTuple):
    """Items by group, and their choices: partitions that a broker leads, or of a topic, and brokers that may lead."""

    groups: Ints  # int64 (groups + 1), each group's range of items
    offsets: Ints  # int64 (items + 1), each item's range of choices, at least one
    broker: Ints  # int64 (choices), broker indices


class BaseLoads(NamedTuple):
    """Loads that brokers carry in a group anyway. offsets: int64 (groups + 1); broker, load: int64 (flat)."""

    offsets: Ints
    broker: Ints
    load: Ints


@compiled
def lift_limits(items: Items, base: BaseLoads, brokers: int, limit: Ints, tight: Flags) -> None:
    """Lift each group's limit to the lowest that all of its items can be assigned under.

    limit: int64 (groups), lower bounds, at least the base loads; receives the limits. tight: bool (groups, n), or (0,
    0); receives the brokers that forbid a lower limit, as their items have no other choice and together with the base
    are more than they could take. None where the limit was not lifted.
    """
    offsets, broker = items.offsets, items.broker
    n, count = brokers, len(offsets) - 1
    load, visited, via = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    first = np.full(n, -1, dtype=np.int64)  # the items on each broker, as linked lists
    before, behind = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    queue, search = np.zeros(n, dtype=np.int64), 0
    chosen, owner = np.zeros(count, dtype=np.int64), np.empty(len(broker), dtype=np.int64)
    for item in range(count):
        owner[offsets[item] : offsets[item + 1]] = item
    for g in range(len(limit)):
        for k in range(base.offsets[g], base.offsets[g + 1]):
            load[base.broker[k]] += base.load[k]
        for new in range(items.groups[g], items.groups[g + 1]):
            while True:
                # Breadth first from the item over brokers that could pass one on, to one below the limit.
                search += 1
                item, ahead, end, result = new, 0, 0, -1
                while item >= 0 and result < 0:
                    for c in range(offsets[item], offsets[item + 1]):
                        b = broker[c]
                        if visited[b] == search:
                            continue
                        visited[b], via[b] = search, c
                        queue[end] = b
                        end += 1
                        if load[b] < limit[g]:
                            result = b
                            break
                    item = -1 if item == new else behind[item]
                    while item < 0 and ahead < end:
                        item = first[queue[ahead]]
                        ahead += 1
                if result >= 0:
                    break
                # No path: the visited brokers are full, and their items have no other choice.
                total = 1
                for k in range(end):
                    total += load[queue[k]]
                limit[g] = (total + end - 1) // end
                if len(tight) > 0:
                    tight[g, :] = False
                    for k in range(end):
                        tight[g, queue[k]] = True
            load[result] += 1
            b = result
            while True:  # back along the path: each item moves on, and the new one comes in
                c = via[b]
                item = owner[c]
                old = -1
                if item != new:
                    old = broker[chosen[item]]
                    if before[item] >= 0:
                        behind[before[item]] = behind[item]
                    else:
                        first[old] = behind[item]
                    if behind[item] >= 0:
                        before[behind[item]] = before[item]
                chosen[item] = c
                before[item], behind[item] = -1, first[b]
                if first[b] >= 0:
                    before[first[b]] = item
                first[b] = item
                if item == new:
                    break
                b = old
        for item in range(items.groups[g], items.groups[g + 1]):
            load[broker[chosen[item]]], first[broker[chosen[item]]] = 0, -1
        for k in range(base.offsets[g], base.offsets[g + 1]):
            load[base.broker[k]] = 0


@compiled
def lower_node_prices(tail: Ints, head: Ints, capacity: Ints, cost: Ints, flow: Ints, potential: Ints) -> bool:
    """Lower potentials (int64, nodes, zeros) to the shortest distances in the residual network of a flow.

    Bellman-Ford over all arcs: forward where there is spare capacity, backward where there is flow. Return whether the
    flow is cheapest: if the rounds do not converge, a cycle would lower the cost.
    """
    for _round in range(len(potential) + 1):
        lowered = False
        for a in range(len(tail)):
            t, h = tail[a], head[a]
            if flow[a] < capacity[a] and potential[t] + cost[a] < potential[h]:
                potential[h] = potential[t] + cost[a]
                lowered = True
            if flow[a] > 0 and potential[h] - cost[a] < potential[t]:
                potential[t] = potential[h] - cost[a]
                lowered = True
        if not lowered:
            return True
    return False
