"""Moves the new replicas of a plan from brokers whose disks have no room for them to others that have it."""

import numpy as np
import numpy.typing as npt

from udfs.arrow.ragged import row_of
from udfs.planning.cluster_model import ClusterModel
from udfs.planning.constraints import Rules
from udfs.planning.kernels.log_dir_search import fill_log_dirs
from udfs.wording import format_bytes

Int32s = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_ROUNDING = 1e-9  # of a capacity
_NO_DIR = -1


class DiskFitting:
    """Replica lists, and what the disks of brokers have room for while single replicas go elsewhere.

    replicas: int32 (r), the lists as they are by now.
    used: float64 (n), bytes on each broker.
    """

    def __init__(
        self, model: ClusterModel, rules: Rules, offsets: Ints, replicas: Int32s, allowed: Bools | None = None
    ) -> None:
        """Begin with lists, as in fit_disks. allowed: bool (p, n), the brokers for each partition; None = any."""
        self._model, self._rules, self._offsets, self._allowed = model, rules, offsets, allowed
        self._row, self.replicas = row_of(offsets), replicas.copy()
        self.is_new = _find_new(model, self._row, replicas)
        # Of strict rules, what leaves a disk makes no room there, as both copies exist for a while.
        brokers, row = (model.replicas, model.row) if rules.strict_disks else (replicas, self._row)
        self.used = np.bincount(brokers, model.size[row], model.brokers).astype(np.float64)
        self.capacity, new = rules.broker_bytes * (1 + _ROUNDING), self.is_new
        self._received = np.bincount(replicas[new], model.size[self._row[new]], model.brokers).astype(np.float64)
        self.used += self._received if rules.strict_disks else 0.0
        self._dir = np.full(len(replicas), _NO_DIR, dtype=np.int64)  # the log dir of each new replica
        self._dir_room = self._fill_log_dirs(rules.max_disk_ratio)

    def _fill_log_dirs(self, max_disk_ratio: float) -> Floats:
        """Put the new replicas into log dirs as choose_log_dirs does; return the room left: float64 (d)."""
        if (dirs := self._model.log_dirs) is None:
            return np.empty(0)
        is_first = dirs.volume == np.arange(len(dirs.paths))
        room = np.where(dirs.receives & is_first, dirs.compute_room(max_disk_ratio), -np.inf)
        slots = np.flatnonzero(self.is_new & (np.diff(dirs.offsets) > 0)[self.replicas])
        slots = slots[np.argsort(-self._model.size[self._row[slots]], kind="stable")]
        chosen = np.full(len(slots), _NO_DIR, dtype=np.int64)
        sizes = self._model.size[self._row[slots]]
        fill_log_dirs(self.replicas[slots].astype(np.int64), sizes, dirs.offsets, dirs.receives, room, chosen)
        self._dir[slots] = chosen
        return room

    def find_overfull(self) -> Ints:
        """Find the brokers that hold more than they may, or one of whose volumes gets more than it may: int64."""
        over = self.used > self.capacity
        full = self._dir[self.is_new]
        full = full[(full != _NO_DIR) & (np.append(self._dir_room, 0.0)[full] < 0)]
        if (dirs := self._model.log_dirs) is not None:
            over[dirs.broker[full]] = True
        return np.flatnonzero(over)

    def burdens(self, slot: int) -> bool:
        """Return whether a new replica is on a broker, or in a log dir, that holds more than it may."""
        broker, log_dir = int(self.replicas[slot]), int(self._dir[slot])
        return bool(self.used[broker] > self.capacity[broker] or (log_dir != _NO_DIR and self._dir_room[log_dir] < 0))

    def move(self, slot: int) -> bool:
        """Put a replica elsewhere, and return whether there is a place: a broker of the list before, or another."""
        model, rules, partition = self._model, self._rules, int(self._row[slot])
        broker, size = int(self.replicas[slot]), float(model.size[partition])
        own = self.replicas[self._offsets[partition] : self._offsets[partition + 1]]
        before = model.replicas[model.offsets[partition] : model.offsets[partition + 1]]
        has_room = (self.used + size <= self.capacity) & (size <= self._find_largest_rooms())
        if self._allowed is not None:
            has_room &= self._allowed[partition]
        has_room[own] = False
        has_room &= _has_place(model, rules, partition, own[own != broker], before)
        stays = before[has_room[before] & ~rules.must_leave[before] & model.live[before]]
        receives = np.flatnonzero(has_room & rules.receives & (self._received + size <= rules.broker_budget))
        candidates = stays if len(stays) else receives
        if not len(candidates) and self.is_new[slot]:  # what has no place stays where it is, even on a broker to drain
            candidates = before[~np.isin(before, own) & model.live[before]]
            candidates = candidates[_has_place(model, rules, partition, own[own != broker], before)[candidates]]
        if not len(candidates):
            return False
        # Brokers of which no disk is known have room without end: then that with the fewest bytes.
        order = np.lexsort((self.used[candidates], (self.used - self.capacity)[candidates]))
        self._place(slot, int(candidates[order[0]]))
        return True

    def put_back(self, slot: int) -> None:
        """Put a replica that was moved where it was: lists must be as long as those of the model."""
        self._place(slot, int(self._model.replicas[slot]))

    def _place(self, slot: int, to: int) -> None:
        partition = int(self._row[slot])
        size, broker = float(self._model.size[partition]), int(self.replicas[slot])
        if self._dir[slot] != _NO_DIR:
            self._dir_room[self._dir[slot]] += size
        before = self._model.replicas[self._model.offsets[partition] : self._model.offsets[partition + 1]]
        is_new = to not in before
        self.used[broker] -= size if self.is_new[slot] or not self._rules.strict_disks else 0.0
        self.used[to] += size if is_new or not self._rules.strict_disks else 0.0
        self._received[broker] -= size if self.is_new[slot] else 0.0
        self._received[to] += size if is_new else 0.0
        self.replicas[slot], self.is_new[slot], self._dir[slot] = to, is_new, _NO_DIR
        if is_new and (dirs := self._model.log_dirs) is not None and dirs.offsets[to] < dirs.offsets[to + 1]:
            first, last = dirs.offsets[to : to + 2].tolist()
            self._dir[slot] = first + int(self._dir_room[first:last].argmax())
            self._dir_room[self._dir[slot]] -= size

    def _find_largest_rooms(self) -> Floats:
        """Return the room of the volume of each broker that has most: float64 (n), infinite where none is known."""
        largest = np.full(self._model.brokers, np.inf)
        if (dirs := self._model.log_dirs) is not None and len(dirs.paths):
            known = np.flatnonzero(np.diff(dirs.offsets) > 0)
            largest[known] = np.maximum.reduceat(self._dir_room, dirs.offsets[known])
        return largest


def fit_disks(model: ClusterModel, rules: Rules, offsets: Ints, replicas: Int32s) -> Int32s:
    """Return lists in which no broker gets more bytes than its disks have room for, as far as possible: int32 (r).

    The largest new replicas of a full broker, or volume, move first: back to a broker of the list before, or to that
    with the most room, in the same place of the list. Racks hold no more replicas than rules.rack_cap, or than they do
    in the cluster.

    Args:
        model: The cluster before the plan.
        rules: Which brokers receive replicas, and how many bytes each may hold.
        offsets: int64 (p + 1), of the lists.
        replicas: int32 (r), indices of brokers.
    """
    if model.log_dirs is None and np.isinf(rules.broker_bytes).all():
        return replicas
    fitting = DiskFitting(model, rules, offsets, replicas)
    over, size = fitting.find_overfull(), model.size[row_of(offsets)]
    for broker in over[np.argsort((fitting.capacity - fitting.used)[over])].tolist():
        slots = np.flatnonzero((fitting.replicas == broker) & fitting.is_new & (size > 0))
        for slot in slots[np.argsort(-size[slots], kind="stable")].tolist():
            if fitting.burdens(slot):
                fitting.move(slot)
    return fitting.replicas


def describe_overfull(model: ClusterModel, rules: Rules, broker: int, load: float) -> str:
    """Say that a broker would hold more bytes than it may."""
    excess = format_bytes(load - rules.broker_bytes[broker])
    return f"broker {model.broker_ids[broker]} would hold {format_bytes(load)}, {excess} more than its disks may"


def _find_new(model: ClusterModel, row: Ints, replicas: Int32s) -> Bools:
    """Find the replicas that the plan copies: bool (r)."""
    of_cluster = np.unique(model.row * model.brokers + model.replicas)
    is_new: Bools = ~np.isin(row * model.brokers + replicas, of_cluster)
    return is_new


def _has_place(model: ClusterModel, rules: Rules, partition: int, others: Int32s, before: Int32s) -> Bools:
    """Find the brokers in whose rack a partition may have one more replica beside these others: bool (n)."""
    racks = int(model.rack.max(initial=0)) + 1
    here, earlier = (np.bincount(model.rack[brokers], minlength=racks) for brokers in (others, before))
    has_place: Bools = (here < np.maximum(rules.rack_cap[partition], earlier))[model.rack]
    return has_place
