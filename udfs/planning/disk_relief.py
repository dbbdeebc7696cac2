"""The goals relieve and empty-log-dir: move as few bytes as possible off disks that are too full, or out of a log dir.

relieve: what must leave a disk is what it holds above capacity.max_disk_ratio. The largest replicas that are needed
leave first, then the smallest one that suffices; those that are not needed after all stay. No plan that relieves these
disks as much copies fewer bytes than what leaves them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from udfs.arrow.ragged import any_true
from udfs.planning.broker_log_dirs import ANY, BrokerLogDirs
from udfs.planning.broker_sets import assign_sets
from udfs.planning.certificates import BYTES_BETWEEN_LOG_DIRS, BoundCertificate, Certificate, CopyCertificate
from udfs.planning.cluster_model import FREE, ClusterModel, Flags, Floats, Int32s, Ints, ProposedAssignment
from udfs.planning.constraints import InfeasibleRequest, build_rules
from udfs.planning.disk_room import DiskFitting
from udfs.planning.plan_request import EMPTY_LOG_DIR, MIN_BYTES, RELIEVE, PlanRequest
from udfs.wording import count_of, format_bytes, join_names

_ROUNDING = 1e-9  # of what must leave
_STEPS = 4096  # in which what must leave is measured
_FOLLOWERS = 1.02  # bytes of followers over what must leave up to which no leader does
_TRIES = 10  # choices of replicas to leave a disk, before all of them are tried
_HUGE = 1e18  # bytes: more than any disk
_REASONS = {
    EMPTY_LOG_DIR: "to empty a log dir; nothing is copied to another broker",
    RELIEVE: "its disk is fuller than capacity.max_disk_ratio",
}


@dataclass(frozen=True, eq=False)
class _Disk:
    """A volume, or all disks of a broker, with the replicas that may leave it: the largest first."""

    broker: int
    paths: tuple[str, ...]  # the log dirs on it; none = all disks of the broker
    excess: float  # bytes that must leave; infinite = all replicas
    slots: Ints  # int64 (k), indices of replicas
    size: Floats  # float64 (k), bytes that each has there
    leads: Flags  # bool (k), whether each is the preferred leader
    stay: int  # replicas that may not leave: of frozen partitions, or on their way

    def name(self, model: ClusterModel) -> str:
        """Return its name in words."""
        broker = f"broker {model.broker_ids[self.broker]}"
        return f"{join_names(self.paths)} of {broker}" if self.paths else f"the disks of {broker}"


class _Mover(Protocol):
    """Moves replicas (indices), if there is a place for them, and puts them back."""

    def move(self, slot: int) -> bool: ...

    def put_back(self, slot: int) -> None: ...


def relieve_disks(model: ClusterModel, request: PlanRequest) -> ProposedAssignment:
    """Plan for the goal relieve. Raise InfeasibleRequest if no source shows how full disks are.

    Log dirs are relieved within their brokers if that is possible of every disk that is too full; else replicas are
    copied from those of which it is not.
    """
    disks = _list_full_disks(model, request)
    mover, left = _move_between_log_dirs(model, request, disks)
    if mover is not None and not left:
        return _propose_log_dirs(model, request, mover, (), sum(disk.excess for disk in disks))
    rules = build_rules(model, request)
    if model.disk_excess is not None:  # what leaves a full disk makes no room there
        rules = replace(rules, broker_bytes=rules.broker_bytes - np.nan_to_num(model.disk_excess))
    fitting = DiskFitting(model, rules, model.offsets, model.replicas, _find_allowed(model, request))
    copier = _Copier(fitting, model.size[model.row], rules.byte_budget, rules.move_budget)
    missed, bound, moves_bound = list[str](), 0.0, 0
    for disk in left:
        excess = disk.excess - float(disk.size[fitting.replicas[disk.slots] != disk.broker].sum())
        rest = max(_move_excess(replace(disk, excess=excess), copier), 0.0) if excess > 0 else 0.0
        leaves = disk.excess - rest
        bound += leaves * _find_least_copy(model, disk)
        moves_bound += int(np.searchsorted(np.cumsum(disk.size), leaves * (1 - _ROUNDING))) + 1 if leaves > 0 else 0
        if rest > _ROUNDING * disk.excess:
            budget = "the budget is spent, or " if request.has_budget else ""
            obstacle = f"{budget}no other broker has room for more of its replicas: add disks or brokers"
            obstacle += f"; {count_of(disk.stay, 'replica')} may not move" if disk.stay else ""
            missed.append(f"{disk.name(model)}: {format_bytes(rest)} above capacity.max_disk_ratio stay: {obstacle}")
    for disk in (disk for disk in disks if disk not in left):
        remedy = "make this plan again once it is done"
        missed.append(f"{disk.name(model)}: other log dirs of its broker have room for what is too much: {remedy}")
    changed = fitting.replicas != model.replicas
    copied, moves = float(model.size[model.row[changed]].sum()), int(changed.sum())
    bound, moves_bound = min(bound, copied), min(moves_bound, moves)
    certificate = CopyCertificate(MIN_BYTES, copied, bound, copied - bound, moves, moves_bound, copied, missed=missed)
    return _propose(model, request, fitting.replicas, changed, certificate)


def empty_log_dirs(model: ClusterModel, request: PlanRequest) -> ProposedAssignment:
    """Plan for the goal empty-log-dir. Raise InfeasibleRequest if a log dir is unknown, or has failed."""
    log_dirs, faults, disks = model.log_dirs, list[str](), []
    for id_, path in request.log_dirs:
        broker = np.flatnonzero(model.broker_ids == id_)
        known = _list_dirs(log_dirs, int(broker[0])) if log_dirs is not None and len(broker) else np.empty(0, np.int64)
        at = [one for one in known.tolist() if log_dirs is not None and log_dirs.paths[one] == path]
        if log_dirs is None or not at:
            names = [log_dirs.paths[one] for one in known.tolist()] if log_dirs is not None else []
            remedy = f"its log dirs: {join_names(names)}" if names else "add kafka-log-dirs --describe"
            faults.append(f"no source shows a log dir {path} of broker {id_}; {remedy}")
        elif not log_dirs.online[at[0]] or not model.live[broker[0]]:
            faults.append(f"{path} of broker {id_} is offline, so nothing can be moved out of it: see --goal repair")
        else:
            slots = np.flatnonzero((model.replicas == broker[0]) & (log_dirs.of_replica == at[0]))
            disks.append(_select_disk(model, int(broker[0]), (path,), np.inf, slots, log_dirs.size))
    if faults:
        raise InfeasibleRequest(faults)
    mover, left = _move_between_log_dirs(model, request, disks)
    if mover is None:
        raise InfeasibleRequest(["the request names no log dir"])
    missed = []
    for disk in left:
        here = mover.planned[disk.slots] == mover.dirs.of_replica[disk.slots]
        lacking = f"{count_of(int(here.sum()), 'replica')} ({format_bytes(float(disk.size[here].sum()))})"
        missed.append(f"{disk.name(model)} keeps {lacking}: no other log dir of the broker has room for them")
    stay = [(disk.name(model), count_of(disk.stay, "replica")) for disk in disks if disk.stay]
    missed += [f"{name} keeps {replicas} that may not move" for name, replicas in stay]
    return _propose_log_dirs(model, request, mover, missed)


def _list_full_disks(model: ClusterModel, request: PlanRequest) -> Sequence[_Disk]:
    """List the disks of live brokers above capacity.max_disk_ratio: those with most of that for their bytes first."""
    log_dirs, excess = model.log_dirs, model.disk_excess
    of_broker = np.full(model.brokers, np.nan) if excess is None else excess
    of_dir = np.empty(0) if log_dirs is None else log_dirs.compute_excess(request.max_disk_ratio)
    if not model.known[0] or (np.isnan(of_broker).all() and np.isnan(of_dir).all()):
        remedy = "add disk_bytes to capacity.file, or read a running cluster, which shows bytes of volumes"
        raise InfeasibleRequest([f"no source shows how full disks are: {remedy}"])
    chosen = model.live & (np.isin(model.broker_ids, request.brokers) | (not request.brokers))
    disks = []
    if log_dirs is not None:
        is_first = log_dirs.volume == np.arange(len(log_dirs.paths))
        full = is_first & log_dirs.online & chosen[log_dirs.broker] & (np.nan_to_num(of_dir) > 0)
        for volume in np.flatnonzero(full).tolist():
            on_it = np.flatnonzero(log_dirs.volume == volume)
            paths = tuple(log_dirs.paths[one] for one in on_it.tolist())
            slots = np.flatnonzero(np.isin(log_dirs.of_replica, on_it))
            broker = int(log_dirs.broker[volume])
            disks.append(_select_disk(model, broker, paths, float(of_dir[volume]), slots, log_dirs.size))
    with_dirs = {disk.broker for disk in disks}
    sizes = model.size[model.row] if model.replica_size is None else model.replica_size
    for broker in np.flatnonzero(chosen & (np.nan_to_num(of_broker) > 0)).tolist():
        if broker not in with_dirs:
            slots = np.flatnonzero(model.replicas == broker)
            disks.append(_select_disk(model, broker, (), float(of_broker[broker]), slots, sizes))
    return sorted(disks, key=lambda disk: (-disk.excess / max(float(disk.size.sum()), 1.0), disk.broker, disk.paths))


def _select_disk(
    model: ClusterModel, broker: int, paths: tuple[str, ...], excess: float, slots: Ints, sizes: Floats
) -> _Disk:
    """Return a disk with those of its replicas (int64, indices) that may leave. sizes: float64 (r)."""
    may_leave = model.frozen[model.row[slots]] == FREE
    if model.log_dirs is not None:
        may_leave &= ~model.log_dirs.moving[slots]
    leaving = slots[may_leave]
    leaving = leaving[np.argsort(-sizes[leaving], kind="stable")]
    leads = leaving == model.offsets[model.row[leaving]]
    return _Disk(broker, paths, excess, leaving, sizes[leaving], leads, len(slots) - len(leaving))


def _move_excess(disk: _Disk, mover: _Mover) -> float:
    """Move replicas off a disk until no more must leave; return the bytes that still must, <= 0 = none."""
    rest, least = disk.excess, _ROUNDING * disk.excess
    left, gone = np.flatnonzero(disk.size > 0), list[int]()
    for tries in range(_TRIES + 1):
        if rest <= least or not len(left):
            break
        chosen = np.arange(len(left)) if tries == _TRIES else _choose_replicas(disk.size[left], disk.leads[left], rest)
        for at in left[chosen].tolist():
            if rest > least and mover.move(int(disk.slots[at])):
                rest -= float(disk.size[at])
                gone.append(at)
        left = np.delete(left, chosen)
    for at in sorted(gone):  # the largest first
        if rest + disk.size[at] <= least:
            mover.put_back(int(disk.slots[at]))
            rest += float(disk.size[at])
    return rest


def _choose_replicas(size: Floats, leads: Flags, need: float) -> Ints:
    """Choose as _choose_fewest_bytes does; only followers where their bytes are about as few: no leader moves then."""
    followers = np.flatnonzero(~leads)
    if len(followers):
        chosen = followers[_choose_fewest_bytes(size[followers], need)]
        if need <= size[chosen].sum() <= need * _FOLLOWERS:
            return chosen
    return _choose_fewest_bytes(size, need)


def _choose_fewest_bytes(size: Floats, need: float) -> Ints:
    """Choose replicas (int64, indices) that have together at least `need` bytes, and as few as possible; else all.

    In steps of need / _STEPS bytes. size: float64 (k), descending. Of equal sums, the one with the larger replicas.
    """
    enough = int(np.searchsorted(-size, -need, side="right"))  # these suffice alone
    small = np.floor(size[enough:] * (_STEPS / need)).astype(np.int64)
    reached = [1]  # after each replica, which sums are possible: bit i = i steps
    for steps in small.tolist():
        reached.append(reached[-1] | reached[-1] << steps)
    beyond = reached[-1] >> _STEPS
    total = _STEPS + (beyond & -beyond).bit_length() - 1  # the least possible sum
    if not beyond or (enough and size[enough - 1] * _STEPS / need <= total):
        return np.array([enough - 1]) if enough else np.arange(len(size))
    chosen = []
    for at in range(len(small) - 1, -1, -1):
        if not reached[at] >> total & 1:
            chosen.append(enough + at)
            total -= int(small[at])
    return np.array(chosen[::-1])


@dataclass
class _Copier:
    """Copies replicas to other brokers within a budget."""

    fitting: DiskFitting
    size: Floats  # float64 (r), bytes that a copy of each replica has
    bytes_left: float
    moves_left: float

    def move(self, slot: int) -> bool:
        """Copy a replica to another broker."""
        size = float(self.size[slot])
        if size > self.bytes_left or self.moves_left < 1 or not self.fitting.move(slot):
            return False
        self.bytes_left -= size
        self.moves_left -= 1
        return True

    def put_back(self, slot: int) -> None:
        """Leave a replica on its broker."""
        self.fitting.put_back(slot)
        self.bytes_left += float(self.size[slot])
        self.moves_left += 1


class _DirMover:
    """Moves replicas to those other log dirs of their brokers that have most room.

    planned: int32 (r), the log dir of each replica by now.
    """

    def __init__(self, dirs: BrokerLogDirs, max_disk_ratio: float, emptied: Flags) -> None:
        """Begin with the log dirs of now. emptied: bool (d), those that get nothing, as others on their volumes."""
        self.dirs, self.planned = dirs, dirs.of_replica.copy()
        room = dirs.compute_room(max_disk_ratio)
        room = np.where(np.isinf(room), _HUGE - dirs.sum_sizes(dirs.of_replica), room)  # the fewest bytes first
        self._room = np.where(dirs.receives & ~np.isin(dirs.volume, dirs.volume[emptied]), room, -1.0)

    def move(self, slot: int) -> bool:
        """Move a replica to another log dir."""
        dirs, size = self.dirs, float(self.dirs.size[slot])
        home = int(dirs.of_replica[slot])
        others = _list_dirs(dirs, int(dirs.broker[home]))
        others = others[dirs.volume[others] != dirs.volume[home]]
        if not len(others) or self._room[others].max() < size:
            return False
        to = int(others[self._room[others].argmax()])
        self.planned[slot] = to
        self._room[dirs.volume == dirs.volume[to]] -= size
        return True

    def put_back(self, slot: int) -> None:
        """Leave a replica in its log dir."""
        size = float(self.dirs.size[slot])
        self._room[self.dirs.volume == self.dirs.volume[self.planned[slot]]] += size
        self.planned[slot] = self.dirs.of_replica[slot]


def _move_between_log_dirs(
    model: ClusterModel, request: PlanRequest, disks: Sequence[_Disk]
) -> tuple[_DirMover | None, list[_Disk]]:
    """Move what must leave disks to other log dirs of the same brokers, as far as these have room.

    Returns: what moves, None without log dirs, and the disks that keep some of it, of which relieve moves none.
    """
    if (dirs := model.log_dirs) is None:
        return None, list(disks)
    emptied = np.zeros(len(dirs.paths), dtype=np.bool_)
    for disk in disks:
        here = _list_dirs(dirs, disk.broker)
        emptied[[one for one in here.tolist() if dirs.paths[one] in disk.paths]] = True
    mover, left = _DirMover(dirs, request.max_disk_ratio, emptied), []
    for disk in disks:
        if np.isinf(disk.excess):
            keeps = [slot for slot in disk.slots.tolist() if not mover.move(slot)]
        else:
            keeps = [1] if not disk.paths or _move_excess(disk, mover) > _ROUNDING * disk.excess else []
            for slot in disk.slots[mover.planned[disk.slots] != dirs.of_replica[disk.slots]].tolist() if keeps else ():
                mover.put_back(slot)
        left += [disk] if keeps else []
    return mover, left


def _list_dirs(dirs: BrokerLogDirs, broker: int) -> Ints:
    return np.arange(*dirs.offsets[broker : broker + 2].tolist())


def _find_allowed(model: ClusterModel, request: PlanRequest) -> Flags | None:
    """Find the brokers of the set of each partition: bool (p, n); None without sets."""
    if not request.broker_sets:
        return None
    members = assign_sets(model, request.broker_sets)
    allowed: Flags = members.of_partition[:, None] == members.of_broker[None, :]
    return allowed


def _find_least_copy(model: ClusterModel, disk: _Disk) -> float:
    """Return how many bytes are copied at least for each byte that leaves: copies are as large as the leader's log."""
    known = disk.size > 0
    return min(float((model.size[model.row[disk.slots]][known] / disk.size[known]).min(initial=1.0)), 1.0)


def _propose_log_dirs(
    model: ClusterModel, request: PlanRequest, mover: _DirMover, missed: Sequence[str], least: float = np.inf
) -> ProposedAssignment:
    """Return the plan that moves replicas between log dirs only. least: bytes that any plan must move."""
    changed = mover.planned != mover.dirs.of_replica
    moved = float(mover.dirs.size[changed].sum())
    bound = min(least, moved)
    proof = (request.goal, BYTES_BETWEEN_LOG_DIRS, moved, bound, moved - bound)
    log_dirs = np.where(changed, mover.planned, ANY).astype(np.int32)
    return _propose(model, request, model.replicas, changed, BoundCertificate(*proof, missed=list(missed)), log_dirs)


def _propose(
    model: ClusterModel,
    request: PlanRequest,
    replicas: Int32s,
    changed: Flags,
    certificate: Certificate,
    log_dirs: Int32s | None = None,
) -> ProposedAssignment:
    """Return a plan that changes the lists, or the log dirs, of these replicas: bool (r)."""
    reason = np.where(any_true(changed, model.offsets), 0, -1).astype(np.int16)
    return ProposedAssignment(model.offsets, replicas, reason, (_REASONS[request.goal],), certificate, log_dirs)
