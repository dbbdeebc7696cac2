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
import pyarrow as pa
import pyarrow.compute as pc
from scipy.optimize import Bounds, LinearConstraint
from scipy.sparse import csr_array, hstack

from udfs.arrow.columns import is_valid, to_array, to_flags, to_lists, to_numpy
from udfs.arrow.ragged import offsets_of, row_of
from udfs.failures.disk_limits import number_volumes
from udfs.failures.replica_logs import take_logs
from udfs.planning.broker_log_dirs import ANY, BrokerLogDirs
from udfs.planning.certificates import BrokerLogDirBalance, LogDirCertificate
from udfs.planning.cluster_model import FREE, ClusterModel, Flags, Floats, Int32s, Ints, ProposedAssignment
from udfs.planning.constraints import InfeasibleRequest
from udfs.planning.integer_programs import solve_program
from udfs.planning.kernels.log_dir_search import balance_log_dirs, fill_log_dirs
from udfs.planning.plan_request import PlanRequest


def add_log_dirs(model: ClusterModel, log_dirs: pa.Table, partitions: pa.Table, stray_logs: pa.Table) -> ClusterModel:
    """Add the log dirs that sources show to a model; the same model if they show none.

    log_dirs, partitions, stray_logs: as in pipelines.ingest.merge.entities, of the model's cluster.
    """
    known = log_dirs.filter(pc.is_in(log_dirs["broker_id"], pa.array(model.broker_ids, pa.int32())))
    known = known.sort_by([("broker_id", "ascending"), ("log_dir", "ascending")]).combine_chunks()
    if not known.num_rows:
        return model
    broker = np.searchsorted(model.broker_ids, to_numpy(known["broker_id"]))
    offsets = offsets_of(np.bincount(broker, minlength=model.brokers))
    names = pc.binary_join_element_wise(
        pc.cast(known["broker_id"], pa.string()), known["log_dir"], "\0"
    )  # one key of broker and path
    of_replica, size = _find_logs(model, partitions, to_array(names))
    stray = _sum_stray_logs(stray_logs, to_array(names))
    online = ~is_valid(known["log_dir_error"])
    log_dirs_of_model = BrokerLogDirs(
        offsets,
        tuple(known["log_dir"].to_pylist()),
        online,
        online & ~to_flags(known["cordoned"]),
        _to_floats(known["total_bytes"]),
        _to_floats(known["usable_bytes"]),
        of_replica,
        size,
        _find_moving(model, stray_logs),
        stray,
        number_volumes(broker, *(known[name].to_pylist() for name in ("total_bytes", "usable_bytes"))),
    )
    total, usable = log_dirs_of_model.total, log_dirs_of_model.usable
    unused = total - log_dirs_of_model.sum_sizes(of_replica)  # of volumes whose bytes a file has
    usable = np.where(np.isnan(usable), np.maximum(unused, 0.0), usable)
    return replace(model, log_dirs=replace(log_dirs_of_model, usable=usable))


def _to_floats(column: pa.ChunkedArray) -> Floats:
    values = pc.fill_null(pc.cast(column, pa.float64()), float("nan"))
    return np.asarray(to_array(values).to_numpy(zero_copy_only=False), dtype=np.float64)


def _find_logs(model: ClusterModel, partitions: pa.Table, names: pa.Array) -> tuple[Int32s, Floats]:
    """Find the log dir and the size of each replica of the model. names: broker id and path of each log dir."""
    placed = partitions.filter(pc.is_valid(partitions["replicas"]))
    placed = placed.sort_by([("topic", "ascending"), ("partition", "ascending")]).combine_chunks()
    replicas, log = to_lists(placed["replicas"]), take_logs(placed)
    row = row_of(replicas.offsets)
    path, size = pc.struct_field(log, "log_dir"), pc.struct_field(log, "size_bytes")
    key = pc.binary_join_element_wise(pc.cast(pa.array(replicas.values), pa.string()), path, "\0")
    is_known = pc.and_(pc.is_valid(key), pc.is_valid(size))
    index = to_numpy(pc.if_else(is_known, pc.index_in(key, value_set=names), None), ANY).astype(np.int32)
    bytes_ = np.where(index != ANY, to_numpy(size, 0).astype(np.float64), 0.0)
    # The model has live replicas first: both orders have the same brokers of each partition.
    broker = np.searchsorted(model.broker_ids, replicas.values)
    in_source, in_model = np.lexsort((broker, row)), np.lexsort((model.replicas, model.row))
    of_replica, sizes = np.empty(len(index), dtype=np.int32), np.empty(len(index), dtype=np.float64)
    of_replica[in_model], sizes[in_model] = index[in_source], bytes_[in_source]
    return of_replica, sizes


def _sum_stray_logs(stray_logs: pa.Table, names: pa.Array) -> Floats:
    """Sum the bytes of logs that are no assigned replica, by log dir: float64 (d)."""
    log = to_array(stray_logs["log"])
    path, size = pc.struct_field(log, "log_dir"), pc.struct_field(log, "size_bytes")
    key = pc.binary_join_element_wise(pc.cast(to_array(stray_logs["broker_id"]), pa.string()), path, "\0")
    index = to_numpy(pc.if_else(pc.is_valid(key), pc.index_in(key, value_set=names), None), ANY).astype(np.int64)
    known = index != ANY
    return np.bincount(index[known], to_numpy(size, 0).astype(np.float64)[known], len(names)).astype(np.float64)


def _find_moving(model: ClusterModel, stray_logs: pa.Table) -> Flags:
    """Find the replicas (bool, r) whose log is being moved to another log dir of their broker."""
    future = stray_logs.filter(stray_logs["is_future"])
    topics = pa.array(model.topic_names, pa.string())
    keys = np.stack([model.topic[model.row], model.partition[model.row], model.broker_ids[model.replicas]])
    topic = to_numpy(pc.index_in(to_array(future["topic"]), value_set=topics), -1)
    moved = np.stack([topic, to_numpy(future["partition"]), to_numpy(future["broker_id"])])
    both, index = np.unique(np.concatenate([moved, keys], axis=1), axis=1, return_inverse=True)
    is_moved = np.zeros(both.shape[1], dtype=np.bool_)
    index = index.reshape(-1)
    is_moved[index[: moved.shape[1]]] = True
    flags: Flags = is_moved[index[moved.shape[1] :]]
    return flags


def find_dir_moves(model: ClusterModel, proposal: ProposedAssignment) -> Ints:
    """Find the replicas (int64, indices) that stay on their broker and are moved to another of its log dirs.

    Only for a proposal that leaves all replica lists as they are; for others, none moves between log dirs.
    """
    # One list may be longer and another one shorter by as much.
    if model.log_dirs is None or proposal.log_dirs is None or not np.array_equal(proposal.offsets, model.offsets):
        return np.empty(0, dtype=np.int64)
    now, planned = model.log_dirs.of_replica, proposal.log_dirs
    same_broker = proposal.replicas == model.replicas
    return np.flatnonzero(same_broker & (planned != ANY) & (now != ANY) & (planned != now))


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


def choose_log_dirs(model: ClusterModel, proposal: ProposedAssignment, max_disk_ratio: float) -> ProposedAssignment:
    """Choose the log dirs of the replicas that a plan copies to brokers with several: each time the one with most room.

    The largest replicas are first. Room is what volumes have until max_disk_ratio of them is used; where one of a
    broker is unknown, its log dir that holds the fewest bytes has most room. Replicas that stay have any.
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
    room = log_dirs.compute_room(max_disk_ratio) - log_dirs.compute_excess(max_disk_ratio)
    free = np.where(is_unknown[log_dirs.broker], -log_dirs.sum_sizes(log_dirs.of_replica), room)
    chosen = np.full(len(added), ANY, dtype=np.int64)
    size = size if size.any() else np.ones(len(size))
    fill_log_dirs(proposal.replicas[added].astype(np.int64), size, log_dirs.offsets, log_dirs.receives, free, chosen)
    planned = np.full(len(proposal.replicas), ANY, dtype=np.int32)
    planned[added] = chosen
    return replace(proposal, log_dirs=planned)
