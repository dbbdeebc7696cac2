"""From a problem, rules and wishes to what a search needs: units, limits of every broker, where to begin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from udfs.arrow.ragged import any_true
from udfs.planning import plan_request as W
from udfs.planning.annealing.kernels.search_state import Limits, Work
from udfs.planning.cluster_model import (
    Flags,
    Floats,
    Ints,
    Places,
    Problem,
)
from udfs.planning.constraints import Rules, staying
from udfs.planning.plan_request import Targets, Wishes
from udfs.planning.replicas.count_targets import even_bounds

NO_LIMIT = 1e18


@dataclass(frozen=True)
class Units:
    """The means over the brokers that count: of replicas, leaders, disk bytes, bytes per second in and out.

    counted: bool (n), brokers that hold replicas afterwards: living, and not to be emptied.
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


def units_of(problem: Problem, rules: Rules) -> Units:
    """The means when the plan is done."""
    stays = staying(problem, rules)
    held = np.bincount(problem.replicas, minlength=problem.brokers)
    # Who may get nothing more and has less than the others is no part of what can be even; its share is its own.
    counted = stays & (rules.receives | (held * max(int(stays.sum()), 1) >= rules.factor.sum()))
    apart = ~counted & ~rules.must_leave
    row, first = problem.row, problem.replicas[problem.offsets[:-1]]
    n = max(int(counted.sum()), 1)

    def mean(load: Floats) -> float:
        return float((load * rules.factor).sum() - load[row[apart[problem.replicas]]].sum()) / n

    ones = np.ones(problem.partitions)
    disk, into = (mean(load) for load in (problem.size, problem.rate_in))
    leaders = float((~apart[first]).sum()) / n
    out = float(problem.rate_out[~apart[first]].sum()) / n
    return Units(counted, mean(ones), leaders, *(max(x, 0.0) or 1.0 for x in (disk, into, out)))


def work_of(problem: Problem, rules: Rules, units: Units, offsets: Ints, replicas: Places) -> Work:
    """The search's view of these lists. Partitions with a replica on a dead broker keep their list."""
    rows = np.repeat(np.arange(problem.partitions, dtype=np.int32), np.diff(offsets))
    whole = ~any_true(~problem.living[replicas], offsets)
    return Work(
        offsets,
        rows,
        problem.offsets,
        problem.replicas,
        problem.size / units.disk,
        problem.rate_in / units.into,
        problem.rate_out / units.out,
        problem.rack,
        rules.cap.astype(np.int32),
        rules.receives,
        staying(problem, rules),
        ~rules.fixed & whole,
    )


def limits_of(problem: Problem, rules: Rules, units: Units, wishes: Wishes, work: Work, loose: float) -> Limits:
    """What every broker should keep to; loose: expand's and drain's disk and bytes in, over the mean.

    What is not among the priorities has no limit.
    """
    n, of = problem.brokers, wishes.targets
    exact = wishes.goal in ("expand", "drain")
    low, high = _counts(problem, rules, units, of, exact)
    looks = set(wishes.priorities)
    disk = _bytes(problem, rules, units, work.disk, max(of.disk, loose) if exact else of.disk)
    into = _bytes(problem, rules, units, work.into, max(of.bytes_in, loose) if exact else of.bytes_in)
    out = np.full(n, max(of.bytes_out, of.loose) if exact else of.bytes_out)
    out = np.maximum(out, float(work.out.max(initial=0.0)))  # one partition has one leader
    if wishes.broker_bytes is not None:
        disk = np.minimum(disk, wishes.broker_bytes / units.disk)
    if wishes.broker_replicas is not None:
        high = np.minimum(high, wishes.broker_replicas)
    # Who gets nothing more and has less than the others is not to give either.
    apart = staying(problem, rules) & ~units.counted
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

    held = np.bincount(problem.replicas, minlength=n)
    first = problem.replicas[problem.offsets[:-1]]
    led, led_out = np.bincount(first, minlength=n), np.bincount(first, work.out, n)
    high_led = _high(of.leaders, units.leaders)
    fair = (problem.partitions - lost) / survivors
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
        np.inf if wishes.max_bytes is None else wishes.max_bytes / units.disk,
        np.inf if wishes.max_moves is None else float(wishes.max_moves),
    )


def _low(ratio: float, mean: float) -> float:
    return float(min(np.ceil(ratio * mean), np.floor(mean)))


def _high(ratio: float, mean: float) -> float:
    return float(max(np.floor(ratio * mean + 1e-9), np.ceil(mean)))


def _counts(problem: Problem, rules: Rules, units: Units, of: Targets, exact: bool) -> tuple[Floats, Floats]:
    even = even_bounds(problem, rules)
    low, high = even.lo.astype(np.float64), even.hi.astype(np.float64)
    if exact:
        return low, high
    return np.minimum(low, _low(of.least, units.replicas)), np.maximum(high, _high(of.replicas, units.replicas))


def _bytes(problem: Problem, rules: Rules, units: Units, load: Floats, ratio: float) -> Floats:
    """float64 (n): ratio times the mean, or times what racks, or one partition that stays, force."""
    counted, n = units.counted, problem.brokers
    in_rack = np.bincount(problem.rack[counted], minlength=int(problem.rack.max(initial=0)) + 1).astype(np.float64)
    racks = np.flatnonzero(in_rack)
    room = np.minimum(rules.cap[:, None], in_rack[None, racks])  # p x racks
    most = np.minimum(room, rules.factor[:, None])
    least = np.maximum(rules.factor[:, None] - (room.sum(axis=1)[:, None] - room), 0.0)
    total, each = float((load * rules.factor).sum()), np.ones(n)
    for i, rack in enumerate(racks.tolist()):
        here = counted & (problem.rack == rack)
        each[here] = np.maximum(each[here], load @ least[:, i] / in_rack[rack])
        elsewhere = counted & (problem.rack != rack)
        if elsewhere.any():
            each[elsewhere] = np.maximum(each[elsewhere], (total - load @ most[:, i]) / elsewhere.sum())
    limit = ratio * each
    # A partition too large for any broker stays where it is, and those brokers' limits are its size.
    big = np.flatnonzero(load > ratio)
    slots = np.flatnonzero(np.isin(problem.row, big))
    np.maximum.at(limit, problem.replicas[slots], ratio * load[problem.row[slots]])
    return limit
