"""Planner of the goal zones: fewer bytes between zones (racks), while no other load becomes more uneven than it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations_with_replacement

import numpy as np
from scipy.optimize import minimize

from udfs.arrow.ragged import row_of
from udfs.network.traffic_rows import name_zones, share_clients
from udfs.planning.annealing import search_task
from udfs.planning.annealing.balance_plan import restore_list_order
from udfs.planning.annealing.kernels.search_moves import Schedule, seed_random
from udfs.planning.annealing.kernels.search_state import (
    BrokerLimits,
    CostWeights,
    SearchState,
    create_search,
    create_state,
)
from udfs.planning.annealing.search_task import NO_LIMIT
from udfs.planning.certificates import ZoneCertificate
from udfs.planning.cluster_model import ClusterModel, Flags, Floats, FreezeReason, Int32s, Ints, ProposedAssignment
from udfs.planning.constraints import InfeasibleRequest, Rules, build_rules, find_rack_violations
from udfs.planning.plan_request import PlanRequest
from udfs.planning.zones.kernels.zone_annealing import ZoneTraffic, anneal_zones, sum_partition_traffic
from udfs.wording import count_of

# A lower bound of the bytes between zones, by Lagrangian relaxation of what the brokers of each zone can take.
# What a partition carries between zones depends only on the zone of its leader, and on the zones of its followers. With
# a price for each leader, replica and byte in a zone, each partition chooses for itself; the prices of all that the
# zones have room for are subtracted. Any prices give a lower bound; good ones are looked for.
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


PAYBACK_DAYS = 30  # copied bytes count as if they crossed zones within this time
_SECONDS_PER_DAY = 86_400
_REASONS = ("to send fewer bytes between zones: another replica leads", "to send fewer bytes between zones")
# Cost of a unit beyond a limit, in units of what a partition carries: never worth it, but in some starts at first.
_EXCESS, _EXCESS_AT_FIRST = 1e6, 0.3
_CHANGE = 1e-4  # of what a partition carries: cost of another leader, or of a copy without bytes
_STARTED, _MOST_STARTS = 400, 16  # partitions of all starts together, and starts
_PROPOSALS, _LEAST, _MOST = 300, 20_000, 20_000_000  # per partition, and in all
_START, _END = 0.3, 1e-4  # temperatures, in units of what a partition carries
_HEAVY_SHARE = 0.1  # of the partitions


def plan_zones(model: ClusterModel, request: PlanRequest) -> ProposedAssignment:
    """Plan the goal zones. Raise InfeasibleRequest if racks or rates are not known."""
    if not model.rack_names:
        raise InfeasibleRequest(["it needs the rack of each live broker: add a list of brokers"])
    if len(np.unique(model.rack[model.live])) < 2:
        raise InfeasibleRequest(["all live brokers are in one rack, so that nothing crosses zones"])
    if not (model.known[1] or model.known[2]):
        raise InfeasibleRequest(["its sources show no bytes per second: add them with --metrics"])
    rules = build_rules(model, request)
    return _ZonePlanner(model, rules, request).plan()


def build_traffic(model: ClusterModel, request: PlanRequest) -> ZoneTraffic:
    """Return what partitions carry, and where clients are, with the zones of model.rack_names."""
    assumptions = request.network
    racks = tuple(model.rack_names[rack] for rack in model.rack[model.live].tolist())
    zones = name_zones(racks, assumptions)

    def share(own: Mapping[str, float]) -> Floats:
        of_zone = dict(zip(zones, share_clients(racks, zones, own).tolist(), strict=False))
        shares = np.zeros(model.racks)
        shares[: len(model.rack_names)] = [of_zone.get(name, 0.0) for name in model.rack_names]
        return shares

    fetches = np.zeros(model.brokers, dtype=np.bool_) if model.fetching is None else model.fetching.copy()
    if assumptions.follower_fetching is not None:
        fetches[:] = assumptions.follower_fetching
    shares = share(assumptions.consumer_zones), share(assumptions.producer_zones)
    return ZoneTraffic(*shares, fetches, model.live, model.rate_in, model.rate_out, model.rack, 0.0)


class _ZonePlanner:
    def __init__(self, model: ClusterModel, rules: Rules, request: PlanRequest) -> None:
        self.model, self.rules, self.request = model, rules, request
        self.traffic = build_traffic(model, request)
        self.units = units = search_task.compute_units(model, rules)
        cluster = search_task.build_cluster_arrays(model, rules, units, model.offsets, model.replicas)
        # Racks that hold too many replicas of a partition keep them: repairing them is another goal.
        stays = find_rack_violations(model, rules.rack_cap)
        if model.unrated is not None:
            stays = stays | model.unrated
        self.cluster = cluster._replace(can_change=cluster.can_change & ~stays)
        limits = search_task.compute_limits(model, rules, units, request, self.cluster)
        self.limits = relax_limits(limits, create_state(self.cluster, limits, model.replicas), model.live)

    def plan(self) -> ProposedAssignment:
        model = self.model
        now = self._sum_traffic(model.replicas)
        state = self._search(now)
        slots = state.slots if self._sum_traffic(state.slots).sum() < now.sum() else model.replicas
        lists = restore_list_order(model, model.offsets, slots)
        proposal = ProposedAssignment(model.offsets, lists, np.full(model.partitions, -1, dtype=np.int16), _REASONS)
        changed = model.find_changed(proposal)
        leads = model.with_lists(model.offsets, lists).preferred_leaders != model.preferred_leaders
        reason = np.where(changed, np.where(leads, 0, 1), -1).astype(np.int16)
        copied = model.find_copied(proposal)
        after = self._sum_traffic(lists)
        bound = self._bound(now)
        certificate = ZoneCertificate(
            goal="zones",
            value=round(float(after.sum()), 3),
            before=round(float(now.sum()), 3),
            lower_bound=round(min(bound, float(after.sum())), 3),
            gap=round(max(float(after.sum()) - bound, 0.0), 3),
            moves=int(copied.sum()),
            bytes=float(model.size[row_of(model.offsets)[copied]].sum()),
            changes=int((leads & changed).sum()),
            missed=self._list_missed(),
        )
        return replace(proposal, reason=reason, certificate=certificate)

    def _list_missed(self) -> list[str]:
        unrated = (
            0
            if self.model.unrated is None
            else int(self.model.unrated[self.model.frozen != FreezeReason.OTHER_TOPIC].sum())
        )
        return [f"{count_of(unrated, 'partition')} of unknown bytes per second stay as they are"] if unrated else []

    def _sum_traffic(self, slots: Int32s) -> Floats:
        """Return what each partition carries between zones: float64 (p), bytes per second."""
        traffic = np.zeros(self.model.partitions)
        sum_partition_traffic(self.cluster, self.traffic, slots, traffic)
        return traffic

    def _search(self, now: Floats) -> SearchState:
        """Return the cheapest state of several searches, as many as a small cluster allows."""
        starts = int(np.clip(_STARTED // max(self.model.partitions, 1), 1, _MOST_STARTS))
        states = [self._search_once(now, start) for start in range(starts)]
        price = self.units.disk / (PAYBACK_DAYS * _SECONDS_PER_DAY)

        def rank(state: SearchState) -> tuple[bool, float]:
            cost = float(self._sum_traffic(state.slots).sum() + price * state.copied_disk[0])
            return search_task.has_excess(self.limits, state), cost

        return min(states, key=rank)

    def _search_once(self, now: Floats, start: int) -> SearchState:
        """Search once; every other start may exceed limits at first."""
        model, cluster = self.model, self.cluster
        unit = float((model.rate_in + model.rate_out).mean()) or 1.0
        traffic = self.traffic._replace(rate_in=model.rate_in / unit, rate_out=model.rate_out / unit)
        copied = self.units.disk / (PAYBACK_DAYS * _SECONDS_PER_DAY) / unit
        state, random = create_state(cluster, self.limits, model.replicas), seed_random(self.request.seed + start)
        proposals = int(np.clip(_PROPOSALS * model.partitions, _LEAST, _MOST))
        heavy = np.argsort(-now, kind="stable")[: max(int(_HEAVY_SHARE * model.partitions), 1)]
        targets = np.flatnonzero(self.rules.receives).astype(np.int32)
        first = (True, _EXCESS_AT_FIRST) if start % 2 else (False, _EXCESS)
        for (copies, cost), share, temperature in ((first, 0.3, _START), ((True, _EXCESS), 0.7, _START / 3)):
            excess = np.full(model.brokers, cost)
            weights = CostWeights(copied, _CHANGE, _CHANGE, _CHANGE / 2, cost, cost, excess, excess, *[cost] * 3)
            search = create_search(cluster, self.limits, weights, state, random)
            anneal_zones(search, traffic, heavy, targets, Schedule(int(share * proposals), temperature, _END), copies)
        return state

    def _bound(self, now: Floats) -> float:
        """Return a lower bound of the bytes between zones, whatever plan is made within the limits."""
        model, cluster, limits = self.model, self.cluster, self.limits
        zones, free, row = model.racks, cluster.can_change, model.row
        by_broker = (limits.max_leaders, limits.bytes_out, limits.max_replicas, limits.disk, limits.bytes_in)
        room = np.column_stack(
            [np.bincount(model.rack, np.where(model.live, limit, 0.0), zones) for limit in by_broker]
        )
        # Less what stays where it is.
        first, fixed = model.replicas[model.offsets[:-1]], ~free
        zone_of_leader, zone_of_replica, stays = model.rack[first[fixed]], model.rack[model.replicas], fixed[row]
        loads = (None, cluster.bytes_out, None, cluster.disk, cluster.bytes_in)
        for column, load in enumerate(loads):
            if column < 2:
                used = np.bincount(zone_of_leader, None if load is None else load[fixed], zones)
            else:
                used = np.bincount(zone_of_replica[stays], None if load is None else load[row[stays]], zones)
            room[:, column] -= used
        units = np.array([1.0, self.units.bytes_out, 1.0, 1.0, self.units.bytes_in])
        left: Floats = np.where(room > NO_LIMIT / 2, np.inf, np.maximum(room, 0.0) * units).astype(np.float64)
        bound = ZoneBound(self.traffic, model.factor, self.rules.rack_cap, left, cluster.disk)
        return bound.compute(free, now)


def relax_limits(limits: BrokerLimits, state: SearchState, live: Flags) -> BrokerLimits:
    """Return limits that the cluster keeps to as it is: what exceeds a target already may stay, and not grow."""

    def raise_to(limit: Floats, load: Floats) -> Floats:
        return np.maximum(limit, np.where(live, load[live].max(initial=0.0), load))

    def lower_to(limit: Floats, load: Floats) -> Floats:
        return np.minimum(limit, np.where(live, load[live].min(initial=np.inf), load))

    worst, worst_out = state.takeovers.load.copy(), state.takeovers_bytes_out.load.copy()
    np.fill_diagonal(worst, 0)
    np.fill_diagonal(worst_out, 0.0)
    survivors = float((state.leaders[:, None] + worst)[live][:, live].max(initial=0))
    survivors_out = float((state.bytes_out[:, None] + worst_out)[live][:, live].max(initial=0.0))
    replicas, leaders = state.replicas.astype(np.float64), state.leaders.astype(np.float64)
    return limits._replace(
        min_replicas=lower_to(limits.min_replicas, replicas),
        max_replicas=raise_to(limits.max_replicas, replicas),
        min_leaders=lower_to(limits.min_leaders, leaders),
        max_leaders=raise_to(limits.max_leaders, leaders),
        disk=raise_to(limits.disk, state.disk),
        bytes_in=raise_to(limits.bytes_in, state.bytes_in),
        bytes_out=raise_to(limits.bytes_out, state.bytes_out),
        survivor_leaders=np.maximum(limits.survivor_leaders, survivors),
        survivor_bytes_out=np.maximum(limits.survivor_bytes_out, survivors_out),
    )
