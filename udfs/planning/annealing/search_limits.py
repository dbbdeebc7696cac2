"""From a model, rules and request to what a search needs: units, limits of every broker, where to begin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from udfs.arrow.ragged import any_true
from udfs.planning import plan_request as W
from udfs.planning.annealing.kernels.search_state import Limits, Work
from udfs.planning.cluster_model import ClusterModel, Flags, Floats, Ints, Places
from udfs.planning.constraints import Rules, staying
from udfs.planning.plan_request import PlanRequest, Targets
from udfs.planning.replicas.count_targets import even_bounds

NO_LIMIT = 1e18


@dataclass(frozen=True)
class Units:
    """The means over the brokers that count: of replicas, leaders, disk bytes, bytes per second in and out.

    counted: bool (n), brokers that hold replicas afterwards: live, and not to be emptied.
    """

    counted: Flags
    replicas: float
    leaders: float
    disk: float
    into: float
    out: float

    @property
    def brokers(self) -> int:
        """How many brokers count."""
        return int(self.counted.sum())


def units_of(model: ClusterModel, rules: Rules) -> Units:
    """The means when the plan is done."""
    stays = staying(model, rules)
    held = np.bincount(model.replicas, minlength=model.brokers)
    # Who may get nothing more and has less than the others is no part of what can be even; its share is its own.
    counted = stays & (rules.receives | (held * max(int(stays.sum()), 1) >= rules.factor.sum()))
    apart = ~counted & ~rules.must_leave
    row, first = model.row, model.replicas[model.offsets[:-1]]
    n = max(int(counted.sum()), 1)

    def mean(load: Floats) -> float:
        return float((load * rules.factor).sum() - load[row[apart[model.replicas]]].sum()) / n

    ones = np.ones(model.partitions)
    disk, into = (mean(load) for load in (model.size, model.rate_in))
    leaders = float((~apart[first]).sum()) / n
    out = float(model.rate_out[~apart[first]].sum()) / n
    return Units(counted, mean(ones), leaders, *(max(x, 0.0) or 1.0 for x in (disk, into, out)))


def work_of(model: ClusterModel, rules: Rules, units: Units, offsets: Ints, replicas: Places) -> Work:
    """The search's view of these lists. Partitions with a replica on a down broker keep their list."""
    rows = np.repeat(np.arange(model.partitions, dtype=np.int32), np.diff(offsets))
    whole = ~any_true(~model.live[replicas], offsets)
    return Work(
        offsets,
        rows,
        model.offsets,
        model.replicas,
        model.size / units.disk,
        model.rate_in / units.into,
        model.rate_out / units.out,
        model.rack,
        rules.cap.astype(np.int32),
        rules.receives,
        staying(model, rules),
        ~rules.fixed & whole,
    )


def limits_of(
    model: ClusterModel, rules: Rules, units: Units, request: PlanRequest, work: Work, loose: float
) -> Limits:
    """What every broker should keep to; loose: expand's and drain's disk and bytes in, over the mean.

    What is not among the priorities has no limit.
    """
    n, of = model.brokers, request.targets
    exact = request.goal in ("expand", "drain")
    low, high = _counts(model, rules, units, of, exact)
    looks = set(request.priorities)
    disk = _bytes(model, rules, units, work.disk, max(of.disk, loose) if exact else of.disk)
    into = _bytes(model, rules, units, work.into, max(of.bytes_in, loose) if exact else of.bytes_in)
    out = np.full(n, max(of.bytes_out, of.loose) if exact else of.bytes_out)
    out = np.maximum(out, float(work.out.max(initial=0.0)))  # one partition has one leader
    if request.broker_bytes is not None:
        disk = np.minimum(disk, request.broker_bytes / units.disk)
    if request.broker_replicas is not None:
        high = np.minimum(high, request.broker_replicas)
    # Who gets nothing more and has less than the others is not to give either.
    apart = staying(model, rules) & ~units.counted
    there = int((units.counted | apart).sum())
    survivors = max(there - 1, 1)
    # What has one replica is lost with its broker, wherever it is then: evenly, as all else.
    alone = np.diff(work.offsets) == 1
    lost = int(alone.sum()) / max(there, 1)
    lost_out = float(work.out[alone].sum()) / max(there, 1)
    total_out = float(work.out.sum())

    def wanted(name: str, limit: Floats) -> Floats:
        return np.where(units.counted & (name in looks), limit, NO_LIMIT)

    def failover(limit: float) -> Floats:
        if there < 2:  # nobody survives
            return np.full(n, NO_LIMIT)
        return np.where((units.counted | apart) & (W.FAILOVER in looks), limit, NO_LIMIT)

    held = np.bincount(model.replicas, minlength=n)
    first = model.replicas[model.offsets[:-1]]
    led, led_out = np.bincount(first, minlength=n), np.bincount(first, work.out, n)
    high_led = _high(of.leaders, units.leaders)
    fair = (model.partitions - lost) / survivors
    return Limits(
        np.where(apart, held, np.where(units.counted & (W.REPLICAS in looks), low, 0.0)),
        wanted(W.REPLICAS, high),
        np.where(apart, led, np.where(units.counted & (W.LEADERS in looks), _low(of.least, units.leaders), 0.0)),
        np.where(apart, led, wanted(W.LEADERS, np.full(n, high_led))),
        wanted(W.DISK, disk),
        wanted(W.BYTES_IN, into),
        np.where(apart, led_out, wanted(W.BYTES_OUT, out)),
        failover(max(np.floor(of.failover * fair + 1e-9), np.ceil(fair), high_led)),
        failover(of.failover_out * (total_out - lost_out) / survivors),
        np.inf if request.max_bytes is None else request.max_bytes / units.disk,
        np.inf if request.max_moves is None else float(request.max_moves),
    )


def _low(ratio: float, mean: float) -> float:
    return float(min(np.ceil(ratio * mean), np.floor(mean)))


def _high(ratio: float, mean: float) -> float:
    return float(max(np.floor(ratio * mean + 1e-9), np.ceil(mean)))


def _counts(model: ClusterModel, rules: Rules, units: Units, of: Targets, exact: bool) -> tuple[Floats, Floats]:
    even = even_bounds(model, rules)
    low, high = even.lo.astype(np.float64), even.hi.astype(np.float64)
    if exact:
        return low, high
    return np.minimum(low, _low(of.least, units.replicas)), np.maximum(high, _high(of.replicas, units.replicas))


def _bytes(model: ClusterModel, rules: Rules, units: Units, load: Floats, ratio: float) -> Floats:
    """float64 (n): ratio times the mean, or times what racks, or one partition that stays, force."""
    counted, n = units.counted, model.brokers
    in_rack = np.bincount(model.rack[counted], minlength=int(model.rack.max(initial=0)) + 1).astype(np.float64)
    racks = np.flatnonzero(in_rack)
    room = np.minimum(rules.cap[:, None], in_rack[None, racks])  # p x racks
    most = np.minimum(room, rules.factor[:, None])
    least = np.maximum(rules.factor[:, None] - (room.sum(axis=1)[:, None] - room), 0.0)
    total, each = float((load * rules.factor).sum()), np.ones(n)
    for i, rack in enumerate(racks.tolist()):
        here = counted & (model.rack == rack)
        each[here] = np.maximum(each[here], load @ least[:, i] / in_rack[rack])
        elsewhere = counted & (model.rack != rack)
        if elsewhere.any():
            each[elsewhere] = np.maximum(each[elsewhere], (total - load @ most[:, i]) / elsewhere.sum())
    limit = ratio * each
    # A partition too large for any broker stays where it is, and those brokers' limits are its size.
    big = np.flatnonzero(load > ratio)
    slots = np.flatnonzero(np.isin(model.row, big))
    np.maximum.at(limit, model.replicas[slots], ratio * load[model.row[slots]])
    return limit
