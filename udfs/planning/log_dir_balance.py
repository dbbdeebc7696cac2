"""The goal log-dirs: even out the log dirs within each broker. No replica changes its broker, and no list its order.

Of one broker with log dirs of capacities c (bytes of their volumes; all 1 unless every one is known) and loads l:

fullness: l_i / c_i of log dir i.
mean: sum(l) / sum(c).
lower bound: no plan leaves the fullest log dir below the largest of: the mean; l_i / c_i of what cannot be moved from a
log dir; the least fullness of any log dir that takes the largest replica; and, as two of the d + 1 largest replicas
share one of d log dirs, the sum of the last two of these over the largest c; and the mean of the log dirs that are not
cordoned, which may gain replicas of the others but cannot lose to them.
bytes to move: at least sum(max(0, l_i - reached * c_i)), as what is above the reached fullness has to leave.

Of brokers with few replicas, an integer program finds the best log dirs: they are the least full that can be, and the
fewest bytes are moved for that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint
from scipy.sparse import csr_array, hstack

from udfs.arrow.ragged import row_of
from udfs.planning.broker_log_dirs import ANY, BrokerLogDirs
from udfs.planning.certificates import BrokerLogDirBalance, LogDirCertificate
from udfs.planning.cluster_model import FREE, ClusterModel, Flags, Floats, Ints, ProposedAssignment
from udfs.planning.constraints import InfeasibleRequest
from udfs.planning.integer_programs import solve_program
from udfs.planning.kernels.log_dir_search import balance_log_dirs, fill_log_dirs
from udfs.planning.plan_request import PlanRequest

_EPSILON = 1e-9
_MAX_CHOICES = 60  # replicas times log dirs up to which the best log dirs are found
_NODES = 2_000  # of branch and bound: a count and not a clock, so that plans are reproducible
REASON = "to even out the log dirs of its brokers; nothing is copied to another broker"


class BrokerTask(NamedTuple):
    """What may be moved on one broker with several log dirs: m replicas, d online log dirs, which are local indices."""

    dirs: Ints  # int64 (d), indices in BrokerLogDirs
    replicas: Ints  # int64 (m), indices in the model, the largest first
    home: Ints  # int64 (m)
    weight: Floats  # float64 (m), bytes, or 1 where all logs are empty
    load: Floats  # float64 (d)
    capacity: Floats  # float64 (d)
    room: Floats  # float64 (d); < 0 = cordoned: it gets nothing
    by_bytes: bool

    @property
    def mean(self) -> float:
        """Return the fullness of all log dirs together."""
        return float(self.load.sum() / self.capacity.sum())

    @property
    def fullness(self) -> float:
        """Return that of the fullest log dir."""
        return float((self.load / self.capacity).max())

    def sum_fixed(self) -> Floats:
        """Sum what is in each log dir and stays there: float64 (d)."""
        return self.load - np.bincount(self.home, self.weight, len(self.load))

    def sum_loads(self, log_dirs: Ints) -> Floats:
        """Sum the load of each log dir, float64 (d), with the replicas in these ones: int64 (m)."""
        return self.sum_fixed() + np.bincount(log_dirs, self.weight, len(self.load))

    def bound_fullness(self) -> float:
        """Return a fullness that no plan leaves the fullest log dir below."""
        d, fixed = len(self.load), self.sum_fixed()
        bounds, open_ = [self.mean, float((fixed / self.capacity).max())], self.room >= 0
        bounds.append(float(self.load[open_].sum() / self.capacity[open_].sum()))
        if len(self.weight):
            bounds.append(float(((fixed + self.weight[0]) / self.capacity).min()))
        if len(self.weight) > d:
            bounds.append(float((self.weight[d] + self.weight[d - 1]) / self.capacity.max()))
        return max(bounds)


def even_out_log_dirs(model: ClusterModel, request: PlanRequest) -> ProposedAssignment:
    """Plan for the goal log-dirs. Raise InfeasibleRequest if no source shows a broker with several log dirs."""
    log_dirs = model.log_dirs
    if log_dirs is None:
        raise InfeasibleRequest(["no source shows the log dirs of brokers: add kafka-log-dirs --describe"])
    receives = np.bincount(log_dirs.broker[log_dirs.receives], minlength=model.brokers) > 0
    if not (balanced := log_dirs.several & model.live & receives).any():
        raise InfeasibleRequest(["no live broker has several online log dirs to even out, not all of them cordoned"])
    planned = log_dirs.of_replica.copy()
    brokers = []
    for broker in np.flatnonzero(balanced).tolist():
        task = _select_task(model, log_dirs, broker, request.max_disk_ratio)
        if task.load.any():
            planned[task.replicas], balance = balance_broker(task, int(model.broker_ids[broker]), request)
            brokers.append(balance)
    moved = planned != log_dirs.of_replica
    reason = np.full(model.partitions, -1, dtype=np.int16)
    reason[model.row[moved]] = 0
    target = request.targets.disk
    relaxed = [
        f"broker {one.broker}: no plan leaves its fullest log dir below {one.max_over_mean_lower_bound:.4f} times "
        f"the mean of its log dirs; the target is {target:g}"
        for one in brokers
        if one.max_over_mean_lower_bound > target + _EPSILON
    ]
    missed = [
        f"broker {one.broker}: its fullest log dir has {one.max_over_mean:.4f} times the mean of its log dirs; the "
        f"target is {max(target, one.max_over_mean_lower_bound):.4f}"
        for one in brokers
        if one.max_over_mean > max(target, one.max_over_mean_lower_bound) + _EPSILON
    ]
    certificate = LogDirCertificate(request.goal, target, brokers, relaxed=relaxed, missed=missed)
    chosen = np.where(moved, planned, ANY).astype(np.int32)
    return ProposedAssignment(model.offsets, model.replicas, reason, (REASON,), certificate, chosen)


def _select_task(model: ClusterModel, log_dirs: BrokerLogDirs, broker: int, max_disk_ratio: float) -> BrokerTask:
    """Select the replicas of a broker that may be moved: of free partitions, in an online log dir, not on their way."""
    begin, end = log_dirs.offsets[broker : broker + 2].tolist()
    dirs = begin + np.flatnonzero(log_dirs.online[begin:end])
    local = np.full(len(log_dirs.paths) + 1, ANY, dtype=np.int64)
    local[dirs] = np.arange(len(dirs))
    here = np.flatnonzero((model.replicas == broker) & (log_dirs.of_replica != ANY))
    here = here[local[log_dirs.of_replica[here]] != ANY]
    size, home = log_dirs.size[here], local[log_dirs.of_replica[here]]
    unassigned = log_dirs.unassigned[dirs]
    by_bytes = bool(size.any() or unassigned.any())
    weight = size if by_bytes else np.ones(len(here))
    load = np.bincount(home, weight, len(dirs)) + (unassigned if by_bytes else 0.0)
    capacity = log_dirs.total[dirs]
    if not by_bytes or np.isnan(capacity).any() or (capacity <= 0).any():
        capacity = np.ones(len(dirs))
    room = log_dirs.compute_room(max_disk_ratio)[dirs] if by_bytes else np.full(len(dirs), np.inf)
    room[~log_dirs.receives[dirs]] = -1.0
    movable: Flags = (model.frozen[model.row[here]] == FREE) & ~log_dirs.moving[here]
    order = np.flatnonzero(movable)[np.argsort(-weight[movable], kind="stable")]
    loads = (load.astype(np.float64), capacity, room, by_bytes)
    return BrokerTask(dirs, here[order], home[order], weight[order].astype(np.float64), *loads)


def balance_broker(task: BrokerTask, broker_id: int, request: PlanRequest) -> tuple[Ints, BrokerLogDirBalance]:
    """Even out the log dirs of one broker. Returns: the log dir of each replica, int64 (m), and the certificate."""
    mean, bound = task.mean, task.bound_fullness()
    target = max(request.targets.disk * mean, bound)
    best = _find_best_log_dirs(task, target)
    if best is None:
        load, chosen = task.load.copy(), task.home.copy()
        balance_log_dirs(task.weight, task.home, load, task.capacity, task.room, target, chosen)
    else:
        load, chosen = task.sum_loads(best), best
    after = task._replace(load=load)
    if after.fullness >= task.fullness:  # rounding, or nothing helps
        chosen, after = task.home, task
    moved = chosen != task.home
    moved_bytes = float(task.weight[moved].sum()) if task.by_bytes else 0.0
    excess = np.maximum(task.load - after.fullness * (1 + _EPSILON) * task.capacity, 0.0).sum()
    if best is not None:
        excess = moved_bytes
        bound = max(bound, after.fullness) if after.fullness > target * (1 + _EPSILON) else bound
    balance = BrokerLogDirBalance(
        broker_id,
        len(task.dirs),
        task.by_bytes,
        task.fullness / mean,
        after.fullness / mean,
        bound / mean,
        int(moved.sum()),
        moved_bytes,
        min(float(excess), moved_bytes),
    )
    return task.dirs[chosen], balance


def _find_best_log_dirs(task: BrokerTask, target: float) -> Ints | None:
    """Find the log dirs, int64 (m), that are at most `target` full, or the least full, for the fewest moved bytes.

    None if there are too many, or it is not proven that these are the best.
    """
    m, d = len(task.weight), len(task.load)
    if not 0 < m * d <= _MAX_CHOICES:
        return None
    if task.fullness <= target:
        return task.home
    unit = float(task.load.sum())
    replica, log_dir = np.divmod(np.arange(m * d), d)
    weight, is_home = task.weight[replica] / unit, log_dir == task.home[replica]
    one = csr_array((np.ones(m * d), (replica, np.arange(m * d))), (m, m * d))
    loaded, gained = (
        csr_array((part, (log_dir, np.arange(m * d))), (d, m * d)) for part in (weight, np.where(is_home, 0.0, weight))
    )
    fixed, capacity = task.sum_fixed() / unit, task.capacity[:, None] / task.capacity.sum()
    none = csr_array((d, 1))
    rules = (
        LinearConstraint(hstack([one, csr_array((m, 1))]), 1.0, 1.0),
        LinearConstraint(hstack([loaded, -capacity]), ub=-fixed),
        LinearConstraint(hstack([gained, none]), ub=np.maximum(task.room, 0.0) / unit),
    )
    open_ = (is_home | (task.room[log_dir] >= 0)).astype(np.float64)
    least, whole = target / task.mean, np.append(np.ones(m * d), 0)
    fullest = solve_program(
        np.append(np.zeros(m * d), 1.0),
        rules,
        Bounds(np.append(np.zeros(m * d), least), np.append(open_, np.inf)),
        whole,
        (_NODES, 0.0),
    )
    if fullest.status:
        return None
    most = np.append(open_, fullest.x[-1] * (1 + _EPSILON))
    cost = np.append(np.where(is_home, 0.0, weight), 0.0)
    fewest = solve_program(cost, rules, Bounds(np.zeros(m * d + 1), most), whole, (_NODES, 0.0))
    if fewest.status:
        return None
    chosen: Ints = np.argmax(fewest.x[:-1].reshape(m, d), axis=1)
    reached = task._replace(load=task.sum_loads(chosen)).fullness / task.mean
    return chosen if reached <= fullest.x[-1] * (1 + 1e-7) else None


def choose_log_dirs(model: ClusterModel, proposal: ProposedAssignment) -> ProposedAssignment:
    """Choose the log dirs of the replicas that a plan copies to brokers with several: each time the one with most room.

    The largest replicas are first. Free bytes are those of the volumes; where one of a broker is unknown, its log dir
    that holds the fewest bytes has most room. Replicas that stay have any.
    """
    log_dirs = model.log_dirs
    if log_dirs is None or proposal.log_dirs is not None:
        return proposal
    added = np.flatnonzero(model.find_copied(proposal) & log_dirs.several[proposal.replicas])
    if not len(added):
        return proposal
    size = model.size[row_of(proposal.offsets)[added]]
    order = np.argsort(-size, kind="stable")
    added, size = added[order], size[order]
    is_unknown = np.bincount(log_dirs.broker, np.isnan(log_dirs.usable)) > 0
    free = np.where(is_unknown[log_dirs.broker], -log_dirs.sum_sizes(log_dirs.of_replica), log_dirs.usable)
    chosen = np.full(len(added), ANY, dtype=np.int64)
    size = size if size.any() else np.ones(len(size))
    fill_log_dirs(proposal.replicas[added].astype(np.int64), size, log_dirs.offsets, log_dirs.receives, free, chosen)
    planned = np.full(len(proposal.replicas), ANY, dtype=np.int32)
    planned[added] = chosen
    return replace(proposal, log_dirs=planned)
