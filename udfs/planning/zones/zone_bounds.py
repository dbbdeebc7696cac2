"""A lower bound of the bytes between zones, by Lagrangian relaxation of what the brokers of each zone can take.

What a partition carries between zones depends only on the zone of its leader, and on the zones of its followers. With a
price for each leader, replica and byte in a zone, each partition chooses for itself; the prices of all that the zones
have room for are subtracted. Any prices give a lower bound; good ones are looked for.
"""

from itertools import combinations_with_replacement

import numpy as np
from scipy.optimize import minimize

from udfs.planning.cluster_model import Flags, Floats, Ints
from udfs.planning.zones.kernels.zone_annealing import ZoneTraffic

_MAX_PATTERNS = 200  # of one replication factor; with more, the prices stay 0
_STEPS = 60  # of the search for prices


class ZonePatterns:
    """The ways to place the replicas of partitions of one replication factor in zones.

    leader: int64 (k), zone of the leader; counts: int64 (k, z), replicas in each zone, the leader's included.
    """

    def __init__(self, factor: int, zones: int) -> None:
        pairs = [
            (leader, np.bincount((leader, *followers), minlength=zones))
            for leader in range(zones)
            for followers in combinations_with_replacement(range(zones), factor - 1)
        ]
        self.leader = np.array([leader for leader, _ in pairs], dtype=np.int64)
        self.counts = np.array([counts for _, counts in pairs], dtype=np.int64).reshape(-1, zones)

    def cross(self, traffic: ZoneTraffic, fetches_nearby: bool) -> tuple[Floats, Floats]:
        """Return what crosses zones of one byte written, and of one byte read: float64 (k) each."""
        at, near = np.arange(len(self.leader)), traffic.consumers[self.leader]
        in_ = self.counts.sum(axis=1) - self.counts[at, self.leader] + 1.0 - traffic.producers[self.leader]
        if fetches_nearby:
            near = (self.counts > 0) @ traffic.consumers
        return in_, 1.0 - near


class ZoneBound:
    """Bounds of partitions that may change; others count as they are.

    Args:
        traffic: Rates and shares; consumers fetch nearby if they do so from any broker.
        factor: Replicas of each partition afterwards: int64 (p).
        most: Most replicas of each partition in one zone: int64 (p).
        room: float64 (z, 5), the most leaders, bytes out, replicas, disk and bytes in of the brokers of each zone;
            infinite = no limit.
        disk: Disk of one replica of each partition: float64 (p).
    """

    def __init__(self, traffic: ZoneTraffic, factor: Ints, most: Ints, room: Floats, disk: Floats) -> None:
        self.traffic, self.factor, self.most, self.disk = traffic, factor, most, disk
        self.limited = np.isfinite(room) & (room < 1e17)
        self.room = np.where(self.limited, room, 0.0)
        # Units in which prices are about as large as bytes between zones.
        total = max(float(traffic.rate_in.sum() + traffic.rate_out.sum()), 1e-300)
        rooms = np.where(self.limited, room, 1.0).sum(axis=0)
        self.unit = np.where(rooms > 0.0, total / np.where(rooms > 0.0, rooms, 1.0), 0.0)  # without any room, no price
        self.nearby = bool(traffic.fetches_nearby.any())
        self.groups = [
            (np.flatnonzero((factor == size) & (most == cap)), self._select(int(size), int(cap)))
            for size, cap in np.unique(np.stack([factor, most], axis=1), axis=0).tolist()
            if size > 0
        ]

    def _select(self, size: int, cap: int) -> ZonePatterns | None:
        zones = len(self.traffic.consumers)
        patterns = ZonePatterns(size, zones) if zones**size <= 100 * _MAX_PATTERNS else None
        if patterns is None or len(patterns.leader) > _MAX_PATTERNS:
            return None
        allowed = (patterns.counts <= max(cap, 1)).all(axis=1)
        if allowed.any():
            patterns.leader, patterns.counts = patterns.leader[allowed], patterns.counts[allowed]
        return patterns

    def compute(self, free: Flags, now: Floats) -> float:
        """Return a lower bound of all bytes between zones. free: bool (p); now: what each carries, float64 (p)."""
        fixed = float(now[~free].sum())
        start = np.zeros(self.room.size)

        def evaluate(prices: Floats) -> tuple[float, Floats]:
            bound, slope = self._relax(prices.reshape(self.room.shape), free)
            return -bound, -slope.ravel()

        scale = max(float(now.sum()), 1e-300)
        best = -evaluate(start)[0]
        if self.limited.any():
            result = minimize(
                lambda prices: tuple(part / scale for part in evaluate(prices)),
                start,
                jac=True,
                method="L-BFGS-B",
                bounds=[(0.0, None)] * start.size,
                options={"maxiter": _STEPS},
            )
            best = max(best, -evaluate(np.maximum(result.x, 0.0))[0])
        return min(fixed + best, float(now.sum()))

    def _relax(self, prices: Floats, free: Flags) -> tuple[float, Floats]:
        """Return the bound of the free partitions with these prices (float64, z x 5), and its slope."""
        price = prices * self.unit * self.limited
        total, used = 0.0, np.zeros(self.room.shape)
        for rows, patterns in self.groups:
            rows = rows[free[rows]]
            if patterns is None or not len(rows):
                continue
            rate_in, rate_out, disk = self.traffic.rate_in[rows], self.traffic.rate_out[rows], self.disk[rows]
            per_in, per_out = patterns.cross(self.traffic, self.nearby)
            of_leader, of_replicas = price[patterns.leader], patterns.counts @ price
            cost = np.outer(rate_in, per_in + of_replicas[:, 4]) + np.outer(rate_out, per_out + of_leader[:, 1])
            cost += np.outer(disk, of_replicas[:, 3]) + of_leader[:, 0] + of_replicas[:, 2]
            chosen = cost.argmin(axis=1)
            total += float(cost[np.arange(len(rows)), chosen].sum())
            for column, weight in ((0, None), (1, rate_out)):
                used[:, column] += np.bincount(patterns.leader[chosen], weight, len(used))
            for column, weights in ((2, np.ones(len(rows))), (3, disk), (4, rate_in)):
                used[:, column] += weights @ patterns.counts[chosen]
        slope = np.where(self.limited, (used - self.room) * self.unit, 0.0)
        return total - float((price * self.room).sum()), slope
