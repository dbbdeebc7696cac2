"""How many bytes the disks of brokers, and of their log dirs, can hold. Log dirs that share a volume count once."""

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.failures.replica_logs import sum_column

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

FILE, LOG_DIRS = "capacity.file", "silver.log_dirs"  # where bytes of disks are from
# A broker asks for the free bytes of one log dir after the other, while others write to the volume.
_WRITTEN_BETWEEN = 1e-5  # of a volume


def number_volumes(broker: Sequence[int] | Ints, total: Sequence[object], usable: Sequence[object]) -> Ints:
    """Number the volumes of d log dirs: int64 (d), the index of the first log dir on the same volume.

    Log dirs of a broker are on one volume if its bytes are the same, and the free ones but for what may have been
    written in between. A log dir of an unknown volume counts as alone.

    Args:
        broker: The broker of each log dir.
        total: Bytes of the volume of each; None or NaN = unknown.
        usable: Free bytes of these, in the same way.
    """
    ids, size, free = np.asarray(broker, dtype=np.int64), _to_floats(total), _to_floats(usable)
    order = np.lexsort((free, size, ids))
    before, after = order[:-1], order[1:]
    is_same = (ids[after] == ids[before]) & (size[after] == size[before])
    is_same &= free[after] - free[before] <= _WRITTEN_BETWEEN * size[before]  # false where unknown
    volume = np.empty(len(ids), dtype=np.int64)
    group = np.cumsum(np.r_[False, ~is_same][: len(ids)])
    first = np.full(len(ids), len(ids), dtype=np.int64)
    np.minimum.at(first, group, order)
    volume[order] = first[group]
    return volume


def number_row_volumes(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """Number the volumes of log dirs as rows: broker_id, total_bytes, usable_bytes."""
    columns = ([row[name] for row in rows] for name in ("broker_id", "total_bytes", "usable_bytes"))
    numbers: list[int] = number_volumes(*columns).tolist()
    return numbers


class Volume(NamedTuple):
    """A volume with log dirs of one broker, or a log dir whose bytes a file has, or all disks of a broker together."""

    log_dirs: tuple[str, ...]  # their paths; empty = all of the broker
    total_bytes: float | None  # None = unknown
    free_bytes: float | None  # by which the logs on it can grow: other files stay
    source: str  # where this is from

    @property
    def is_known(self) -> bool:
        """Whether its bytes and its free bytes are known."""
        return self.total_bytes is not None and self.free_bytes is not None


def list_volumes(rows: Sequence[Mapping[str, Any]], in_file: Mapping[str, float]) -> list[Volume]:
    """List the volumes of the log dirs of one broker that are online, in their order, each once.

    Args:
        rows: log_dir, total_bytes and usable_bytes (None = unknown); of log dirs in the file also used_bytes.
        in_file: The bytes that a file has for log dirs, which have these for themselves.
    """
    numbers = number_row_volumes([{"broker_id": 0, **row} for row in rows])
    together: dict[int, list[Mapping[str, Any]]] = {}
    for index, (row, number) in enumerate(zip(rows, numbers, strict=True)):
        together.setdefault(-1 - index if row["log_dir"] in in_file else number, []).append(row)
    volumes = []
    for number, here in together.items():
        paths, total, source = tuple(row["log_dir"] for row in here), here[0]["total_bytes"], LOG_DIRS
        free = min((row["usable_bytes"] for row in here if row["usable_bytes"] is not None), default=None)
        if number < 0:
            total, used, source = in_file[paths[0]], here[0]["used_bytes"], FILE
            free = None if used is None else total - used
        volumes.append(Volume(paths, total, free, source))
    return volumes


def choose_emptiest(replicas: Sequence[int], added: int) -> list[int]:
    """Return the log dirs (indices) that Kafka chooses for replicas one by one: each time that with the fewest.

    replicas: how many each log dir has now; of equal ones, the first.
    """
    heap = [(count, log_dir) for log_dir, count in enumerate(replicas)]
    heapq.heapify(heap)
    chosen = []
    for _ in range(added):
        count, log_dir = heap[0]
        chosen.append(log_dir)
        heapq.heapreplace(heap, (count + 1, log_dir))
    return chosen


def _to_floats(values: Sequence[object]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


DiskCapacities = Mapping[tuple[int, str], float]  # bytes by broker and log dir; "" = all log dirs of the broker
NO_CAPACITIES: DiskCapacities = {}
UNKNOWN_DISK = "add disk_bytes to capacity.file, or set plans.broker_bytes"
UNKNOWN_LOG_DIR = "add a row with its log_dir and disk_bytes to capacity.file"
SHARED_VOLUME = "another log dir is on the same volume: see the broker"

FULL_RATIO = 0.95  # used share of a volume from which it counts as full; the default of capacity.max_disk_ratio


def is_full(total_bytes: float, usable_bytes: float) -> bool:
    """Return whether a volume counts as full."""
    return total_bytes - usable_bytes > FULL_RATIO * total_bytes


def compute_room(total_bytes: Floats | float, free_bytes: Floats | float, max_disk_ratio: float) -> Floats:
    """Compute the bytes that disks may gain until max_disk_ratio of them is used: float64, NaN where unknown."""
    return np.maximum(max_disk_ratio * total_bytes - (total_bytes - free_bytes), 0.0)


def compute_excess(total_bytes: Floats | float, free_bytes: Floats | float, max_disk_ratio: float) -> Floats:
    """Compute the bytes that disks hold above max_disk_ratio of them: float64, NaN where unknown."""
    return np.maximum(total_bytes - free_bytes - max_disk_ratio * total_bytes, 0.0)


def list_disks(
    log_dirs: Sequence[Mapping[str, Any]], own: Mapping[str, float], broker_bytes: float, size_bytes: float | None
) -> list[Volume]:
    """List the disks of a broker: its volumes, or all of them together where only that is known.

    All together have the bytes of the broker's own row in a file of capacities; where no source shows log dirs, those
    of its log dirs in the file; and broker_bytes where a volume, or any log dir, is unknown.

    Args:
        log_dirs: Its online log dirs, as in find_disk_limits.
        own: The bytes that the file has for its log dirs, and, as "", for the broker.
        broker_bytes: What the disks of a broker hold of which nothing else is known; 0 = unknown.
        size_bytes: The bytes of its logs; None = unknown.
    """
    volumes, total, source = list_volumes(log_dirs, own), own.get(""), FILE
    if total is None and not volumes and own:
        total = sum(own.values())
    is_unknown = not volumes or any(one.free_bytes is None and one.source != FILE for one in volumes)
    if total is None and broker_bytes and is_unknown:
        total, source = broker_bytes, "plans.broker_bytes"
    if total is None:
        return volumes
    return [Volume((), total, None if size_bytes is None else total - size_bytes, source)]


class DiskLimit(NamedTuple):
    """What is known of the disks of a broker or a log dir: their bytes, or those that are free."""

    limit_bytes: float | None
    free_bytes: float | None  # by which its logs can still grow: other files on a volume stay
    source: str  # where this is from; if it is unknown, how to add it

    def compute(self, size_bytes: float) -> float | None:
        """Return how many bytes the logs can have, if they have size_bytes now; None = unknown."""
        if self.limit_bytes is not None:
            return self.limit_bytes
        return None if self.free_bytes is None else size_bytes + self.free_bytes


def list_broker_disks(
    sums: pa.Table,
    log_dirs: pa.Table,
    brokers: Iterable[int],
    capacities: DiskCapacities = NO_CAPACITIES,
    broker_bytes: float = 0,
) -> dict[int, list[Volume]]:
    """List the disks of brokers that may get new replicas, see list_disks: not those that are cordoned, unless all are.

    sums: LOG_SUMS. log_dirs: broker_id, log_dir, total_bytes, usable_bytes, log_dir_error, and perhaps cordoned.
    capacities: of a file.
    """
    by_broker, sizes, unknown = group_log_dirs(log_dirs), sum_column(sums), sum_column(sums, "unknown_logs")
    disks = {}
    for broker in brokers:
        rows = [row for row in by_broker.get(broker, ()) if row["log_dir_error"] is None]
        rows = [row for row in rows if not row.get("cordoned")] or rows
        places = [(broker, row["log_dir"]) for row in rows]
        used = ({"used_bytes": None if unknown[place] else sizes[place]} for place in places)
        online = [row | one for row, one in zip(rows, used, strict=True)]
        disks[broker] = list_disks(online, select_broker(capacities, broker), broker_bytes, sizes[broker, None])
    return disks


def find_disk_limits(
    brokers: Iterable[int], log_dirs: pa.Table, capacities: DiskCapacities, broker_bytes: float = 0
) -> dict[tuple[int, str | None], DiskLimit]:
    """Return the limits of brokers (log dir None), and of the online log dirs of those that have several.

    Those of a broker are of its disks (list_disks) together. Of a volume that several log dirs share, each has the part
    by which its logs can grow if all on it grow alike. Where all of a broker's are on one volume, the broker has it.

    Args:
        brokers: Ids of brokers.
        log_dirs: broker_id, log_dir, total_bytes, usable_bytes, log_dir_error, used_bytes; of one cluster.
        capacities: Of a file, for this cluster.
        broker_bytes: What the disks of a broker hold of which nothing else is known; 0 = unknown.
    """
    by_broker = group_log_dirs(log_dirs)
    limits: dict[tuple[int, str | None], DiskLimit] = {}
    for broker in sorted(brokers):
        rows, own = by_broker.get(broker, []), select_broker(capacities, broker)
        online = [row for row in rows if row["log_dir_error"] is None]
        limits[broker, None] = _find_broker_limit(list_disks(online, own, broker_bytes, None))
        for row in online if len(rows) > 1 else ():
            limits[broker, row["log_dir"]] = _find_log_dir_limit(row, online, own)
    return limits


def are_all_cordoned(flags: Collection[bool | None]) -> bool:
    """Return whether a broker has online log dirs, and all are cordoned. flags: of each online one; None = no.

    Source: BrokerRegistration.hasUncordonedDirs of Kafka 4.3.
    """
    return bool(flags) and all(flags)


def group_log_dirs(log_dirs: pa.Table) -> dict[int, list[dict[str, Any]]]:
    """Return the rows of log dirs by broker."""
    by_broker: dict[int, list[dict[str, Any]]] = {}
    for row in log_dirs.to_pylist():
        by_broker.setdefault(row["broker_id"], []).append(row)
    return by_broker


def select_broker(capacities: DiskCapacities, broker: int) -> dict[str, float]:
    """Return what a file has for a broker, by log dir."""
    return {path: disk_bytes for (id_, path), disk_bytes in capacities.items() if id_ == broker}


def _find_log_dir_limit(row: dict[str, Any], online: list[dict[str, Any]], own: Mapping[str, float]) -> DiskLimit:
    (volume,) = (one for one in list_volumes(online, own) if row["log_dir"] in one.log_dirs)
    if volume.source == FILE:
        return DiskLimit(volume.total_bytes, None, FILE)
    if volume.free_bytes is None:
        return DiskLimit(None, None, UNKNOWN_LOG_DIR)
    if len(volume.log_dirs) == 1:
        return DiskLimit(None, float(volume.free_bytes), LOG_DIRS)
    sizes = [other["used_bytes"] for other in online if other["log_dir"] in volume.log_dirs]
    if len(volume.log_dirs) == len(online) or None in sizes or not sum(sizes):
        return DiskLimit(None, None, SHARED_VOLUME)
    part = float(volume.free_bytes) * row["used_bytes"] / sum(sizes)
    return DiskLimit(None, part, f"{LOG_DIRS}: its part of a shared volume")


def _find_broker_limit(disks: Sequence[Volume]) -> DiskLimit:
    sources = sorted({disk.source for disk in disks})
    if disks and LOG_DIRS not in sources:
        return DiskLimit(float(sum(disk.total_bytes or 0 for disk in disks)), None, " and ".join(sources))
    if not disks or None in [disk.free_bytes for disk in disks]:
        return DiskLimit(None, None, UNKNOWN_DISK)
    return DiskLimit(None, float(sum(disk.free_bytes or 0 for disk in disks)), " and ".join(sources))
