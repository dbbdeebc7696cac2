"""The log dirs of brokers (JBOD: a broker has several) as flat arrays: their volumes, and where each replica is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from udfs.arrow.ragged import row_of
from udfs.failures.disk_limits import compute_excess, compute_room
from udfs.planning.kernels.array_types import Flags, Floats, Int32s, Ints

ANY = -1  # the broker chooses the log dir, or it is unknown
ANY_LOG_DIR = "any"  # the same in files for Kafka's tools


@dataclass(frozen=True)
class BrokerLogDirs:
    """The d log dirs of n brokers, by broker and path; and the log of each of the model's r replicas."""

    offsets: Ints  # int64 (n + 1), range of each broker's log dirs
    paths: tuple[str, ...]  # (d)
    online: Flags  # bool (d)
    receives: Flags  # bool (d), whether it gets new replicas: those that are online and not cordoned
    total: Floats  # float64 (d), bytes of the volume; NaN = unknown
    usable: Floats  # float64 (d), free bytes of the volume; NaN = unknown
    of_replica: Int32s  # int32 (r), the log dir of each replica; ANY = unknown
    size: Floats  # float64 (r), bytes of each replica's own log; 0 where the log dir is unknown
    moving: Flags  # bool (r), whether a replica is being moved between log dirs of its broker
    unassigned: Floats  # float64 (d), bytes of logs that are no replica of the model, such as stray ones
    volume: Ints  # int64 (d), the first log dir on the same volume

    @property
    def broker(self) -> Ints:
        """Return the broker of each log dir: int64 (d)."""
        return row_of(self.offsets)

    @property
    def several(self) -> Flags:
        """Return which brokers have several log dirs that are online: bool (n)."""
        counts = np.bincount(self.broker[self.online], minlength=len(self.offsets) - 1)
        several: Flags = counts > 1
        return several

    @property
    def only_dir(self) -> Int32s:
        """Return a log dir of each broker whose receiving ones share one volume: int32 (n); ANY = there are several."""
        at, brokers = np.flatnonzero(self.receives), len(self.offsets) - 1
        broker, first = np.unique(self.broker[at], return_index=True)
        only = np.full(brokers, ANY, dtype=np.int32)
        only[broker] = at[first]
        only[self.broker[at][self.volume[at] != self.volume[only[self.broker[at]]]]] = ANY
        return only

    def sum_sizes(self, log_dirs: Int32s) -> Floats:
        """Sum the bytes of all logs in each log dir: float64 (d). log_dirs: int32 (r), of each replica."""
        known = log_dirs != ANY
        used = np.bincount(log_dirs[known], self.size[known], len(self.paths))
        return np.asarray(used + self.unassigned, dtype=np.float64)

    def compute_room(self, max_disk_ratio: float) -> Floats:
        """Compute the bytes that each log dir may gain: float64 (d), infinite where its volume is unknown.

        max_disk_ratio: share of a volume that may be used.
        """
        room = compute_room(self.total, self.usable, max_disk_ratio)
        return np.where(np.isnan(room), np.inf, room)

    def compute_excess(self, max_disk_ratio: float) -> Floats:
        """Compute the bytes of the volume of each log dir above what may be used: float64 (d), NaN = unknown."""
        return compute_excess(self.total, self.usable, max_disk_ratio)

    def sum_room(self, max_disk_ratio: float) -> Floats:
        """Sum the bytes that the volumes of each broker may gain: float64 (n), infinite where one, or all, are unknown.

        Only volumes with a log dir that gets new replicas count.
        """
        at = np.flatnonzero(self.receives)
        at = at[np.unique(self.volume[at], return_index=True)[1]]
        brokers = len(self.offsets) - 1
        room = np.bincount(self.broker[at], self.compute_room(max_disk_ratio)[at], brokers)
        return np.where(np.diff(self.offsets) > 0, room, np.inf)
