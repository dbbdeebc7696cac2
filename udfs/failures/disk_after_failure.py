"""Which failures fill disks: whether the replicas of what fails for good fit on the disks of the survivors.

Copies of B bytes are spread so that all survivors are equally full, as far as some are not fuller before: the level L
with sum(max(0, L * total_i - used_i)) = B. They fit if that is at most capacity.max_disk_ratio. A partition cannot be
divided, and no broker takes two of its replicas, so a failure that fits narrowly may still need a larger disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.columns import DOUBLE, FLAG, INT, INTS, LONG, TEXT, column, schema_of, table_of
from udfs.failures.disk_limits import (
    NO_CAPACITIES,
    DiskCapacities,
    Volume,
    are_all_cordoned,
    compute_room,
    group_log_dirs,
    list_broker_disks,
)
from udfs.failures.scenarios import ScenarioKind

Floats = npt.NDArray[np.float64]

LOG_DIR, NOTHING = "log_dir", "none"
_COUNTS = ("replicas", "leaders", "only_in_sync_partitions")
DISK_KINDS = (str(ScenarioKind.BROKER), str(ScenarioKind.RACK), LOG_DIR, NOTHING)
_SPREAD = "if its copies are spread so that all survivors are equally full"

DISK_COLUMNS = (
    column("scenario_kind", TEXT, ", ".join(DISK_KINDS), required=True),
    column("scenario", TEXT, "what fails for good: broker:2, rack:east, log_dir:2:/data1; or none", required=True),
    column("failed_brokers", INTS, "brokers that fail; of a log dir, the broker that loses it", required=True),
    column("replicas", LONG, "replicas on what fails", required=True),
    column("leaders", LONG, "partitions that are led there now", required=True),
    column("only_in_sync_partitions", LONG, "partitions without an in-sync replica elsewhere", required=True),
    column("bytes_to_copy", LONG, "bytes of these replicas, to be copied to survivors; null = unknown"),
    column(
        "free_bytes",
        LONG,
        "bytes that survivors may use up to capacity.max_disk_ratio, without cordoned log dirs; null = unknown",
    ),
    column(
        "fits",
        FLAG,
        f"whether all of it fits, {_SPREAD}; of none, whether known disks are used up to capacity.max_disk_ratio only; "
        "null = unknown",
    ),
    column("fits_in_rack", FLAG, "whether it fits on survivors in the rack of what fails; null = unknown, or a rack"),
    column("fullest_broker", INT, "survivor whose disks are fullest afterwards; null = unknown"),
    column("fullest_disk_ratio", DOUBLE, f"share of its disks that is used afterwards, {_SPREAD}; null = unknown"),
)
# The brokers with their log dirs.
VOLUMES = pa.schema(
    [
        ("broker_id", INT),
        ("rack", TEXT),
        ("live", pa.bool_()),
        ("log_dir", TEXT),  # null = no source shows the broker's
        ("total_bytes", LONG),
        ("usable_bytes", LONG),
        ("log_dir_error", TEXT),
        ("cordoned", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class _Loss:
    """What a failure loses."""

    kind: str
    name: str
    brokers: list[int]
    rows: list[dict[str, Any]]  # of LOG_SUMS
    log_dir: str | None = None


def disk_rows(
    sums: pa.Table,
    volumes: pa.Table,
    max_disk_ratio: float,
    capacities: DiskCapacities = NO_CAPACITIES,
    broker_bytes: float = 0,
) -> pa.Table:
    """Return the rows (DISK_COLUMNS) of one cluster. Cordoned log dirs take no copies.

    sums: LOG_SUMS. volumes: VOLUMES. capacities, broker_bytes: as in list_broker_disks.
    """
    volumes = volumes.filter(pc.fill_null(volumes["live"], True))
    racks = dict(zip(*(volumes[name].to_pylist() for name in ("broker_id", "rack")), strict=True))
    by_broker: dict[int, list[dict[str, Any]]] = {broker: [] for broker in sorted(racks)}
    for row in sums.to_pylist():
        by_broker.get(row["broker_id"], []).append(row)
    log_dirs = volumes.filter(pc.is_valid(volumes["log_dir"]))
    online = group_log_dirs(log_dirs.filter(pc.is_null(log_dirs["log_dir_error"])))
    cordoned = {broker for broker, rows in online.items() if are_all_cordoned([row["cordoned"] for row in rows])}
    takers = [broker for broker in by_broker if broker not in cordoned]
    disks = list_broker_disks(sums, log_dirs, takers, capacities, broker_bytes)
    losses = _list_losses(by_broker, online, racks)
    rows = [_describe_loss(loss, disks, racks, max_disk_ratio) for loss in losses]
    return table_of([*_describe_present(disks, max_disk_ratio), *rows], schema_of(DISK_COLUMNS))


def _describe_present(disks: Mapping[int, Sequence[Volume]], max_disk_ratio: float) -> Iterator[tuple[object, ...]]:
    """Yield the row without a failure, of the brokers whose disks are known; none without any."""
    sizes = {broker: _measure_left(volumes, None) for broker, volumes in disks.items()}
    used = {broker: (total - free) / total for broker, (total, free) in sizes.items() if total > 0 and free == free}
    if used:
        fullest = max(used, key=used.__getitem__)
        counts = (0,) * len(_COUNTS)
        yield NOTHING, NOTHING, [], *counts, 0, None, used[fullest] <= max_disk_ratio, None, fullest, used[fullest]


def _list_losses(
    by_broker: Mapping[int, list[dict[str, Any]]],
    log_dirs: Mapping[int, list[dict[str, Any]]],
    racks: Mapping[int, str | None],
) -> Iterator[_Loss]:
    for broker, rows in by_broker.items():
        yield _Loss(ScenarioKind.BROKER, f"{ScenarioKind.BROKER}:{broker}", [broker], rows)
    names = sorted({rack for rack in racks.values() if rack is not None})
    for name in names if len(names) > 1 else ():
        brokers = [broker for broker in by_broker if racks[broker] == name]
        rows = [row for broker in brokers for row in by_broker[broker]]
        yield _Loss(ScenarioKind.RACK, f"{ScenarioKind.RACK}:{name}", brokers, rows)
    for broker, rows in by_broker.items():
        paths = sorted(row["log_dir"] for row in log_dirs.get(broker, ()))
        for path in paths if len(paths) > 1 else ():
            here = [row for row in rows if row["log_dir"] == path]
            yield _Loss(LOG_DIR, f"{LOG_DIR}:{broker}:{path}", [broker], here, path)


def _measure_left(disks: Sequence[Volume], lost_dir: str | None) -> tuple[float, float]:
    """Return the bytes, and the free ones, of a broker's disks without a log dir; NaN = unknown.

    A volume is left if it has another log dir. What is left of disks that are only known together is not known.
    """
    if lost_dir is not None:
        disks = [disk for disk in disks if disk.log_dirs != (lost_dir,)]
    if not all(disk.is_known and (disk.log_dirs or lost_dir is None) for disk in disks) or not disks:
        return np.nan, np.nan
    return sum(disk.total_bytes or 0 for disk in disks), sum(disk.free_bytes or 0 for disk in disks)


def _describe_loss(
    loss: _Loss, disks: Mapping[int, Sequence[Volume]], racks: Mapping[int, str | None], max_disk_ratio: float
) -> tuple[object, ...]:
    survivors = [broker for broker in disks if loss.log_dir is not None or broker not in loss.brokers]
    left = [_measure_left(disks[broker], loss.log_dir if broker in loss.brokers else None) for broker in survivors]
    counts = [sum(row[name] for row in loss.rows) for name in _COUNTS]
    is_sized = all(row["partitions_with_size"] == row["replicas"] for row in loss.rows)
    to_copy = sum(row["replica_bytes"] or 0 for row in loss.rows) if is_sized else None
    total, unused = np.array(left, dtype=np.float64).reshape(-1, 2).T
    room = compute_room(total, unused, max_disk_ratio)
    free = round(float(room.sum())) if len(left) and not np.isnan(room).any() and total.sum() > 0 else None
    fits = fullest = ratio = in_rack = None
    if free is not None and to_copy is not None:
        fits, used = to_copy <= free, total - unused
        now = np.divide(used, total, out=np.zeros(len(total)), where=total > 0)
        after = np.where(total > 0, np.maximum(find_level(total, used, to_copy), now), 0)
        fullest, ratio = survivors[int(np.argmax(after))], float(after.max())
    rack = racks[loss.brokers[0]]
    if loss.kind != ScenarioKind.RACK and rack is not None and to_copy is not None:
        here = room[np.array([racks[broker] == rack for broker in survivors], dtype=np.bool_)]
        in_rack = None if np.isnan(here).any() else bool(to_copy <= here.sum())
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
