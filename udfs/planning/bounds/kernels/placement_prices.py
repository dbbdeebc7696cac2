"""The cheapest placement of every partition, at given prices of each broker's loads."""

from typing import NamedTuple

import numpy as np

from udfs.kernel_compiler import compiled
from udfs.planning.kernels.array_types import Flags, Floats, Int32s, Ints


class Placements(NamedTuple):
    """Where the replicas of partitions are, and may be."""

    offsets: Ints  # int64 (p + 1), the replicas of each partition
    brokers: Int32s  # int32 (r), their brokers
    stays: Flags  # bool (r), whether each may stay there
    factor: Ints  # int64 (p), replicas afterwards
    rack_cap: Ints  # int64 (p), the most of these in one rack
    rack: Int32s  # int32 (n)
    receives: Flags  # bool (n), brokers that may receive replicas


@compiled
def sum_cheapest_placements(placements: Placements, disk: Floats, bytes_in: Floats, prices: Floats) -> float:
    """Sum what the cheapest placements cost: copied disk, and the prices of what each broker then has.

    Racks limit how many brokers of each are taken, so that the cheapest brokers, one after the other, are the optimum.

    disk, bytes_in: float64 (p), of one replica. prices: float64 (3, n), of a unit of disk, of bytes in, of a replica.
    """
    n, total = len(placements.rack), 0.0
    cost, count = np.empty(n), np.zeros(n, dtype=np.int64)  # count: replicas in each rack
    for p in range(len(disk)):
        for b in range(n):
            cost[b] = np.inf
            count[placements.rack[b]] = 0
            if placements.receives[b]:
                cost[b] = (1.0 + prices[0, b]) * disk[p] + prices[1, b] * bytes_in[p] + prices[2, b]
        for slot in range(placements.offsets[p], placements.offsets[p + 1]):
            if placements.stays[slot]:
                b = placements.brokers[slot]
                cost[b] = prices[0, b] * disk[p] + prices[1, b] * bytes_in[p] + prices[2, b]
        for _ in range(placements.factor[p]):
            cheapest, least = -1, np.inf
            for b in range(n):
                if cost[b] < least and count[placements.rack[b]] < placements.rack_cap[p]:
                    cheapest, least = b, cost[b]
            if cheapest < 0:
                break
            total += least
            cost[cheapest] = np.inf
            count[placements.rack[cheapest]] += 1
    return total
