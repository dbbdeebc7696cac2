"""The least limit under which every item of a group finds a broker: matchings by augmenting paths, group by group.

A group is a broker that fails and its items the partitions it leads, their choices the followers; or a group is a topic
and its items are its partitions, their choices the replicas that could lead.
"""

from __future__ import annotations

import numpy as np

from udfs.failures.kernels.failure_sums import Bools, Ints
from udfs.kernel_compiler import compiled


@compiled
def least_limits(
    items: Ints,
    offsets: Ints,
    broker: Ints,
    base_offsets: Ints,
    base_broker: Ints,
    base: Ints,
    brokers: int,
    limit: Ints,
    chosen: Ints,
    tight: Bools,
) -> None:
    """Lifts each group's limit to the least that all brokers can keep, and says by which choices.

    items: int64 (groups + 1), each group's range of items.   offsets: int64 (items + 1), broker: int64 (flat), their
    choices, at least one each.   base_offsets (groups + 1), base_broker, base: int64, what brokers carry in the group
    already.
    limit: int64 (groups), the least limits to think of, at most what the base takes.   chosen: int64 (items), flat.
    tight: bool (groups, n), or (0, 0): brokers that forbid a smaller limit, as their items have no other choice and
    with the base are more than they could take; none if the limit was not lifted.
    """
    n = brokers
    load, stamp, via = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    head = np.full(n, -1, dtype=np.int64)  # the items on each broker, as linked lists
    before, behind = np.zeros(len(chosen), dtype=np.int64), np.zeros(len(chosen), dtype=np.int64)
    queue, now = np.zeros(n, dtype=np.int64), 0
    owner = np.empty(len(broker), dtype=np.int64)
    for item in range(len(chosen)):
        owner[offsets[item] : offsets[item + 1]] = item
    for g in range(len(limit)):
        for k in range(base_offsets[g], base_offsets[g + 1]):
            load[base_broker[k]] += base[k]
        for new in range(items[g], items[g + 1]):
            while True:
                # Breadth first from the item over brokers that could pass one on, to one with room.
                now += 1
                ahead, end, found = 0, 0, -1
                for c in range(offsets[new], offsets[new + 1]):
                    b = broker[c]
                    stamp[b], via[b] = now, c
                    queue[end] = b
                    end += 1
                    if load[b] < limit[g]:
                        found = b
                        break
                while found < 0 and ahead < end:
                    item = head[queue[ahead]]
                    while item >= 0 and found < 0:
                        for c in range(offsets[item], offsets[item + 1]):
                            b = broker[c]
                            if stamp[b] == now:
                                continue
                            stamp[b], via[b] = now, c
                            queue[end] = b
                            end += 1
                            if load[b] < limit[g]:
                                found = b
                                break
                        item = behind[item]
                    ahead += 1
                if found >= 0:
                    break
                # No way: those reached are full, and what lies on them can lie nowhere else.
                total = 1
                for k in range(end):
                    total += load[queue[k]]
                limit[g] = (total + end - 1) // end
                if len(tight) > 0:
                    tight[g, :] = False
                    for k in range(end):
                        tight[g, queue[k]] = True
            load[found] += 1
            b = found
            while True:  # back along the path: each item moves on, the new one comes in
                c = via[b]
                item = owner[c]
                old = -1
                if item != new:
                    old = broker[chosen[item]]
                    if before[item] >= 0:
                        behind[before[item]] = behind[item]
                    else:
                        head[old] = behind[item]
                    if behind[item] >= 0:
                        before[behind[item]] = before[item]
                chosen[item] = c
                before[item], behind[item] = -1, head[b]
                if head[b] >= 0:
                    before[head[b]] = item
                head[b] = item
                if item == new:
                    break
                b = old
        for item in range(items[g], items[g + 1]):
            load[broker[chosen[item]]], head[broker[chosen[item]]] = 0, -1
        for k in range(base_offsets[g], base_offsets[g + 1]):
            load[base_broker[k]] = 0
