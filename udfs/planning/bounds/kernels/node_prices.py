"""Prices of the nodes of a flow: what proves, without asking who found it, that no flow costs less."""

from __future__ import annotations

from udfs.kernel_compiler import compiled
from udfs.placement.kernels.topic_arrays import Ints


@compiled
def settle_potentials(tail: Ints, head: Ints, capacity: Ints, cost: Ints, flow: Ints, potential: Ints) -> bool:
    """Whether `flow` costs least; `potential` then holds shortest distances to each node in what it leaves open.

    tail to flow: int64 (arcs).   potential: int64 (nodes), zeros.   Bellman and Ford's rounds over all arcs, forward
    where there is room and back where there is flow: if they do not end, a cycle would lower the costs.
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
