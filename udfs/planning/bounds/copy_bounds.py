"""A lower bound for copied bytes: what exceeds a broker's limits must leave it, whichever replicas are cheapest.

From a broker whose excess is D (disk), I (bytes in) and C (replicas), any plan takes replicas x with sum(size x) >= D,
sum(rate x) >= I and sum(x) >= C, whatever comes in. With 0 <= x <= 1 this is a linear program; the sum over brokers
bounds all plans. Its duals are what a unit of each excess costs at least.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from udfs.planning.cluster_model import Flags, Floats, Int32s, Ints


@dataclass(frozen=True)
class CopyBound:
    """A lower bound for copied bytes, with its duals."""

    bound: float  # In units of disk
    disk: Floats  # float64 (n), cost of a unit of excess disk at each broker
    into: Floats  # float64 (n), cost of a unit of excess bytes in at each broker
    replicas: Floats  # float64 (n), cost of an excess replica at each broker

    def allow_excess(self, disk: Floats, into: Floats, replicas: Floats) -> float:
        """Bound the plans that leave no more excess (float64, n, each) than this: the same duals prove it."""
        left = self.disk @ disk + self.into @ into + self.replicas @ replicas
        return max(0.0, self.bound - float(left))


def bound_copied_bytes(
    brokers: Int32s, row: Ints, weights: tuple[Floats, Floats], excess: tuple[Floats, Floats, Floats], may_leave: Flags
) -> CopyBound:
    """Bound what any plan copies.

    Args:
        brokers: int32 (r), broker of each replica.
        row: int64 (r), partition of each replica.
        weights: Disk and bytes in of a replica, float64 (p) each.
        excess: Disk, bytes in and replicas above the limits, float64 (n) each; <= 0 = none.
        may_leave: bool (r), replicas that may leave their broker.
    """
    disk, into = weights
    n = len(excess[0])
    prices = np.zeros((3, n))
    total = 0.0
    need = np.maximum(np.stack(excess), 0.0)
    order = np.argsort(brokers, kind="stable")
    ends = np.searchsorted(brokers[order], np.arange(n + 1))
    for b in np.flatnonzero(need.max(axis=0) > 1e-12).tolist():
        current = order[ends[b] : ends[b + 1]]
        current = current[may_leave[current]]
        parts = np.stack([disk[row[current]], into[row[current]], np.ones(len(current))])
        # Fixed replicas cannot leave: then all others do.
        required = np.minimum(need[:, b], parts.sum(axis=1) * (1 - 1e-12))
        scale = np.maximum(required, 1e-9)
        result = linprog(parts[0], A_ub=-parts / scale[:, None], b_ub=-required / scale, bounds=(0, 1), method="highs")
        if result.status != 0:
            continue
        total += float(result.fun)
        prices[:, b] = -result.ineqlin.marginals / scale
    return CopyBound(total, *prices)
