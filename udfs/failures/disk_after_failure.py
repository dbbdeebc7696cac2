"""Which failures fill disks: whether the replicas of what fails for good fit on the disks of the survivors.

Copies of B bytes are spread so that all survivors are equally full, as far as some are not fuller before: the level L
with sum(max(0, L * total_i - used_i)) = B. They fit if that is at most capacity.max_disk_ratio. A partition cannot be
divided, and no broker takes two of its replicas, so a failure that fits narrowly may still need a larger disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.arrow.column_declarations import DOUBLE, FLAG, INT, INTS, LONG, TEXT, column, schema_of
from udfs.arrow.columns import table_of
from udfs.failures.disk_limits import DiskCapacities
from udfs.failures.scenarios import ScenarioKind
from udfs.failures.volumes import list_volumes

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

LOG_DIR = "log_dir"
_COUNTS = ("replicas", "leaders", "only_in_sync_partitions")
DISK_KINDS = (str(ScenarioKind.BROKER), str(ScenarioKind.RACK), LOG_DIR)
_SPREAD = "if its copies are spread so that all survivors are equally full"

DISK_COLUMNS = (
    column("scenario_kind", TEXT, ", ".join(DISK_KINDS), required=True),
    column("scenario", TEXT, "what fails for good: broker:2, rack:east or log_dir:2:/data1", required=True),
    column("failed_brokers", INTS, "brokers that fail; of a log dir, the broker that loses it", required=True),
    column("replicas", LONG, "replicas on what fails", required=True),
    column("leaders", LONG, "partitions that are led there, so that others take over", required=True),
    column("only_in_sync_partitions", LONG, "partitions without an in-sync replica elsewhere", required=True),
    column("bytes_to_copy", LONG, "bytes of these replicas, to be copied to survivors; null = unknown"),
    column("free_bytes", LONG, "bytes that survivors may use up to capacity.max_disk_ratio; null = unknown"),
    column("fits", FLAG, f"whether all of it fits, {_SPREAD}; null = unknown"),
    column("fits_in_rack", FLAG, "whether it fits on survivors in the rack of what fails; null = unknown, or a rack"),
    column("fullest_broker", INT, "survivor whose disks are fullest afterwards; null = unknown"),
    column("fullest_disk_ratio", DOUBLE, f"share of its disks that is used afterwards, {_SPREAD}; null = unknown"),
)
# What the stage sums by broker and log dir, and the brokers with their volumes.
USAGE = pa.schema(
    [
        ("broker_id", INT),
        ("log_dir", TEXT),
        ("replicas", LONG),
        ("leaders", LONG),
        ("only_in_sync_partitions", LONG),
        ("size_bytes", LONG),  # null = some are unknown
    ]
)
VOLUMES = pa.schema(
    [
        ("broker_id", INT),
        ("rack", TEXT),
        ("live", pa.bool_()),
        ("log_dir", TEXT),  # null = no source shows the broker's
        ("total_bytes", LONG),
        ("usable_bytes", LONG),
        ("log_dir_error", TEXT),
        ("used_bytes", LONG),
    ]
)


@dataclass(frozen=True)
class _Disk:
    """A broker's volumes, or the volume of one of its log dirs; NaN = unknown."""

    total: float
    used: float

    def __add__(self, other: _Disk) -> _Disk:
        return _Disk(self.total + other.total, self.used + other.used)


@dataclass(frozen=True)
class _Loss:
    """What a failure loses."""

    kind: str
    name: str
    brokers: list[int]
    rows: list[dict[str, Any]]  # of USAGE
    log_dir: str | None = None


_NO_DISK, _UNKNOWN = _Disk(0.0, 0.0), _Disk(np.nan, np.nan)


def disk_rows(
    usage: pa.Table, volumes: pa.Table, max_disk_ratio: float, capacities: DiskCapacities | None = None
) -> pa.Table:
    """Return the rows (DISK_COLUMNS) of one cluster. usage: USAGE. volumes: VOLUMES. capacities: of a file."""
    racks = {
        row["broker_id"]: row["rack"]
        for row in volumes.select(["broker_id", "rack", "live"]).to_pylist()
        if row["live"] is not False
    }
    disks = _read_disks(volumes, racks, capacities or {})
    losses = _list_losses(usage.to_pylist(), disks, racks)
    rows = (_describe_loss(loss, disks, racks, max_disk_ratio) for loss in losses)
    return table_of(rows, schema_of(DISK_COLUMNS))


def _read_disks(
    volumes: pa.Table, racks: Mapping[int, str | None], capacities: DiskCapacities
) -> dict[tuple[int, str], _Disk]:
    """Return the disks of live brokers by broker and log dir; "" = all of a broker, where a log dir is unknown."""
    online: dict[int, list[dict[str, Any]]] = {broker: [] for broker in racks}
    for row in volumes.to_pylist():
        if row["broker_id"] in racks and row["log_dir_error"] is None and row["log_dir"] is not None:
            online[row["broker_id"]].append(row)
    disks: dict[tuple[int, str], _Disk] = {}
    for broker, rows in online.items():
        in_file = {path: limit for (id_, path), limit in capacities.items() if id_ == broker}
        own: dict[str, _Disk] = {}
        for volume in list_volumes(rows, in_file):
            own |= dict.fromkeys((rows[index]["log_dir"] for index in volume.log_dirs), _NO_DISK)
            first = rows[volume.log_dirs[0]]  # the volume counts with it
            total, free, used = volume.total_bytes, volume.free_bytes, first["used_bytes"]
            if total is None or free is None:
                own[first["log_dir"]] = _Disk(np.nan, np.nan if used is None else float(used))
            else:
                own[first["log_dir"]] = _Disk(float(total), float(total - free))
        if (limit := in_file.get("")) is not None:
            own = {"": _Disk(limit, sum((disk.used for disk in own.values()), 0.0))}
        disks |= {(broker, path): disk for path, disk in (own or {"": _UNKNOWN}).items()}
    return disks


def _list_losses(
    usage: list[dict[str, Any]], disks: Mapping[tuple[int, str], _Disk], racks: Mapping[int, str | None]
) -> Iterator[_Loss]:
    by_broker: dict[int, list[dict[str, Any]]] = {broker: [] for broker in sorted(racks)}
    for row in usage:
        if (rows := by_broker.get(row["broker_id"])) is not None:
            rows.append(row)
    for broker, rows in by_broker.items():
        yield _Loss(ScenarioKind.BROKER, f"{ScenarioKind.BROKER}:{broker}", [broker], rows)
    names = sorted({rack for rack in racks.values() if rack is not None})
    for name in names if len(names) > 1 else ():
        brokers = [broker for broker in by_broker if racks[broker] == name]
        rows = [row for broker in brokers for row in by_broker[broker]]
        yield _Loss(ScenarioKind.RACK, f"{ScenarioKind.RACK}:{name}", brokers, rows)
    for broker, rows in by_broker.items():
        paths = sorted(path for id_, path in disks if id_ == broker and path)
        for path in paths if len(paths) > 1 else ():
            here = [row for row in rows if row["log_dir"] == path]
            yield _Loss(LOG_DIR, f"{LOG_DIR}:{broker}:{path}", [broker], here, path)


def _describe_loss(
    loss: _Loss, disks: Mapping[tuple[int, str], _Disk], racks: Mapping[int, str | None], max_disk_ratio: float
) -> tuple[object, ...]:
    failed = {(broker, path) for broker, path in disks if broker in loss.brokers and loss.log_dir in (None, path)}
    survivors = [broker for broker in sorted(racks) if loss.log_dir is not None or broker not in loss.brokers]
    left: dict[int, _Disk] = dict.fromkeys(survivors, _NO_DISK)
    for (broker, path), disk in disks.items():
        if broker in left and (broker, path) not in failed:
            left[broker] = left[broker] + disk
    known_brokers = {broker for broker, _ in disks}
    left = {broker: disk if broker in known_brokers else _UNKNOWN for broker, disk in left.items()}
    counts = [sum(row[name] for row in loss.rows) for name in _COUNTS]
    sizes = [row["size_bytes"] for row in loss.rows]
    to_copy = None if None in sizes else sum(sizes)
    total, used = (np.array([getattr(disk, name) for disk in left.values()]) for name in ("total", "used"))
    is_known = bool(len(left)) and not (np.isnan(total) | np.isnan(used)).any() and total.sum() > 0
    free = round(float(np.maximum(max_disk_ratio * total - used, 0).sum())) if is_known else None
    fits = fullest = ratio = in_rack = None
    if free is not None and to_copy is not None:
        fits = to_copy <= free
        now = np.divide(used, total, out=np.zeros(len(total)), where=total > 0)
        after = np.where(total > 0, np.maximum(find_level(total, used, to_copy), now), 0)
        fullest, ratio = survivors[int(np.argmax(after))], float(after.max())
    rack = racks[loss.brokers[0]]
    if loss.kind != ScenarioKind.RACK and rack is not None and to_copy is not None:
        here = np.array([racks[broker] == rack for broker in survivors], dtype=np.bool_)
        if not (np.isnan(total[here]) | np.isnan(used[here])).any():
            in_rack = bool(to_copy <= np.maximum(max_disk_ratio * total[here] - used[here], 0).sum())
    head = (loss.kind, loss.name, sorted(loss.brokers), *counts)
    return (*head, to_copy, free, fits, in_rack, fullest, ratio)


def find_level(total: Floats, used: Floats, added: float) -> float:
    """Find the level to which `added` bytes fill disks evenly: sum(max(0, level * total - used)) = added."""
    size, full = total[total > 0], used[total > 0]
    if not len(size):
        return 0.0
    order = np.argsort(full / size, kind="stable")
    size, full = size[order], full[order]
    levels = (added + np.cumsum(full)) / np.cumsum(size)  # with the k least full ones
    next_ratio = np.append((full / size)[1:], np.inf)
    return float(levels[int(np.argmax(levels <= next_ratio))])
