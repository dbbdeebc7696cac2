"""The lowest limit under which every item of a group finds a broker: matchings by augmenting paths, group by group.

A group is a failed broker; its items are the partitions that it leads, their choices the followers. Or a group is a
topic; its items are its partitions, their choices the replicas that may lead.
"""

from typing import NamedTuple

import numpy as np

from udfs.failures.kernels.partition_arrays import Bools, Ints
from udfs.kernel_compiler import compiled


class Items(NamedTuple):
    """Items by group, and their choices.

    groups: int64 (groups + 1), each group's range of items. offsets: int64 (items + 1), each item's range of choices,
    at least one. broker: int64 (choices), broker indices.
    """

    groups: Ints
    offsets: Ints
    broker: Ints


class BaseLoads(NamedTuple):
    """Loads that brokers carry in a group anyway. offsets: int64 (groups + 1); broker, load: int64 (flat)."""

    offsets: Ints
    broker: Ints
    load: Ints


@compiled
def lift_limits(items: Items, base: BaseLoads, brokers: int, limit: Ints, tight: Bools) -> None:
    """Lift each group's limit to the lowest that all of its items can be assigned under.

    Args:
        items: The items and their choices.
        base: Loads that brokers carry anyway.
        brokers: Number of brokers, n.
        limit: int64 (groups), lower bounds of the limits, at least the base loads; receives the limits.
        tight: bool (groups, n), or (0, 0); receives the brokers that forbid a lower limit, as their items have no
            other choice and together with the base are more than they could take. None where the limit was not lifted.
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
                ahead, end, result = 0, 0, -1
                for c in range(offsets[new], offsets[new + 1]):
                    b = broker[c]
                    visited[b], via[b] = search, c
                    queue[end] = b
                    end += 1
                    if load[b] < limit[g]:
                        result = b
                        break
                while result < 0 and ahead < end:
                    item = first[queue[ahead]]
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
                        item = behind[item]
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
