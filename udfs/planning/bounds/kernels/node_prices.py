"""Prices of the nodes of a flow: they prove that no flow costs less, whoever found it."""

from udfs.kernel_compiler import compiled
from udfs.placement.kernels.topic_arrays import Ints


@compiled
def lower_node_prices(tail: Ints, head: Ints, capacity: Ints, cost: Ints, flow: Ints, potential: Ints) -> bool:
    """Lower potentials to the shortest distances in the residual network; return whether the flow is cheapest.

    Bellman-Ford over all arcs: forward where there is spare capacity, backward where there is flow. If the rounds do
    not converge, a cycle would lower the cost.

    Args:
        tail: int64 (arcs), as head, capacity, cost and flow.
        head: See tail.
        capacity: See tail.
        cost: See tail.
        flow: See tail.
        potential: int64 (nodes), zeros; receives the distances.
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
