"""How few bytes must be copied at least: what each broker has too much of must go, in whatever parts are cheapest.

For a broker b that exceeds limits by D (disk), I (bytes in) and C (replicas), any plan takes replicas x from it with
sum(size x) >= D, sum(rate x) >= I and sum(x) >= C, whatever comes in. With 0 <= x <= 1 this is a linear program; the
sum over brokers is a bound for all plans. Its duals say what a unit of each excess costs to get rid of.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from udfs.planning.cluster_model import Flags, Floats, Ints, Places


@dataclass(frozen=True)
class Covering:
    """bound: units of disk.   disk, into, replicas: float64 (n), what a unit, or one, of excess costs each broker."""

    bound: float
    disk: Floats
    into: Floats
    replicas: Floats

    def where_reached(self, disk: Floats, into: Floats, replicas: Floats) -> float:
        """The bound for all plans that leave no more excess (float64, n, each) than this: the same duals prove it."""
        left = self.disk @ disk + self.into @ into + self.replicas @ replicas
        return max(0.0, self.bound - float(left))


def covering(
    slots: Places, row: Ints, weights: tuple[Floats, Floats], excess: tuple[Floats, Floats, Floats], may_go: Flags
) -> Covering:
    """The bound for replicas on `slots` (int32, r) of partitions `row` (r).

    weights: float64 (p) each, disk and bytes in.   excess: float64 (n) each, disk, bytes in, replicas; <= 0 = none.
    may_go: bool (r), replicas that may leave where they are.
    """
    disk, into = weights
    n = len(excess[0])
    prices = np.zeros((3, n))
    total = 0.0
    need = np.maximum(np.stack(excess), 0.0)
    order = np.argsort(slots, kind="stable")
    ends = np.searchsorted(slots[order], np.arange(n + 1))
    for b in np.flatnonzero(need.max(axis=0) > 1e-12).tolist():
        mine = order[ends[b] : ends[b + 1]]
        mine = mine[may_go[mine]]
        parts = np.stack([disk[row[mine]], into[row[mine]], np.ones(len(mine))])
        # What is fixed cannot go; then all that may does.
        wanted = np.minimum(need[:, b], parts.sum(axis=1) * (1 - 1e-12))
        scale = np.maximum(wanted, 1e-9)
        found = linprog(parts[0], A_ub=-parts / scale[:, None], b_ub=-wanted / scale, bounds=(0, 1), method="highs")
        if found.status != 0:
            continue
        total += float(found.fun)
        prices[:, b] = -found.ineqlin.marginals / scale
    return Covering(total, *prices)
