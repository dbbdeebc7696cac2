"""How many bytes the disks of brokers, and of their log dirs, can hold."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from udfs.failures.volumes import list_volumes

DiskCapacities = Mapping[tuple[int, str], float]  # bytes by broker and log dir; "" = all log dirs of the broker
_FILE, _VOLUMES = "capacity.file", "silver.log_dirs"
UNKNOWN_DISK = "add disk_bytes to capacity.file, or set plans.broker_bytes"
UNKNOWN_LOG_DIR = "add a row with its log_dir and disk_bytes to capacity.file"
SHARED_VOLUME = "another log dir is on the same volume: see the broker"

FULL_RATIO = 0.95  # used share of a volume from which it counts as full; the default of capacity.max_disk_ratio


def is_full(total_bytes: float, usable_bytes: float) -> bool:
    """Return whether a volume counts as full."""
    return total_bytes - usable_bytes > FULL_RATIO * total_bytes


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


def find_disk_limits(
    brokers: Iterable[int], log_dirs: pa.Table, capacities: DiskCapacities, broker_bytes: float = 0
) -> dict[tuple[int, str | None], DiskLimit]:
    """Return the limits of brokers (log dir None), and of the online log dirs of those that have several.

    The bytes of a broker are those of its own row in a file of capacities, else of its online log dirs together, else
    broker_bytes. Those of a log dir are the bytes of its row, else what is usable of its volume; of a volume that
    several share, the part by which its logs can grow if all log dirs on it grow alike. Where all of a broker's log
    dirs are on one volume, the broker has the limit.

    Args:
        brokers: Ids of brokers.
        log_dirs: broker_id, log_dir, total_bytes, usable_bytes, log_dir_error, used_bytes; of one cluster.
        capacities: Of a file, for this cluster.
        broker_bytes: What the disks of a broker hold of which nothing else is known; 0 = unknown.
    """
    by_broker: dict[int, list[dict[str, Any]]] = {}
    for row in log_dirs.to_pylist():
        by_broker.setdefault(row["broker_id"], []).append(row)
    in_file: dict[int, dict[str, float]] = {}
    for (broker, path), disk_bytes in capacities.items():
        in_file.setdefault(broker, {})[path] = disk_bytes
    limits: dict[tuple[int, str | None], DiskLimit] = {}
    for broker in sorted(brokers):
        rows, own = by_broker.get(broker, []), in_file.get(broker, {})
        online = [row for row in rows if row["log_dir_error"] is None]
        limits[broker, None] = _find_broker_limit(online, own) or (
            DiskLimit(broker_bytes, None, "plans.broker_bytes") if broker_bytes else DiskLimit(None, None, UNKNOWN_DISK)
        )
        for index, row in enumerate(online if len(rows) > 1 else ()):
            limits[broker, row["log_dir"]] = _find_log_dir_limit(index, online, own)
    return limits


def _find_log_dir_limit(row: int, online: list[dict[str, Any]], own: Mapping[str, float]) -> DiskLimit:
    if (limit := own.get(online[row]["log_dir"])) is not None:
        return DiskLimit(limit, None, _FILE)
    (volume,) = (one for one in list_volumes(online, own) if row in one.log_dirs)
    if volume.free_bytes is None:
        return DiskLimit(None, None, UNKNOWN_LOG_DIR)
    free = float(volume.free_bytes)
    if len(volume.log_dirs) == 1:
        return DiskLimit(None, free, _VOLUMES)
    sizes = [online[other]["used_bytes"] for other in volume.log_dirs]
    if len(volume.log_dirs) == len(online) or None in sizes or not sum(sizes):
        return DiskLimit(None, None, SHARED_VOLUME)
    return DiskLimit(None, free * online[row]["used_bytes"] / sum(sizes), f"{_VOLUMES}: its part of a shared volume")


def _find_broker_limit(online: list[dict[str, Any]], own: Mapping[str, float]) -> DiskLimit | None:
    if "" in own:
        return DiskLimit(own[""], None, _FILE)
    of_file = [row["log_dir"] for row in online if row["log_dir"] in own]
    if own and len(of_file) == len(online):  # all of them, or no source shows any
        return DiskLimit(sum(own[path] for path in of_file) or sum(own.values()), None, _FILE)
    free = [volume.free_bytes for volume in list_volumes(online, own)]
    if not free or None in free:
        return None
    return DiskLimit(None, float(sum(filter(None, free))), f"{_FILE} and {_VOLUMES}" if of_file else _VOLUMES)
