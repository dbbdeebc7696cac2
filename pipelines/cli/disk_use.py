"""The bytes of brokers and log dirs, against what their disks can hold: what `what-if` shows where sizes are known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.cli.text_format import format_bytes, format_count
from pipelines.config.capacity_file import DiskCapacities
from udfs.arrow.columns import to_array, to_lists, to_numpy
from udfs.arrow.ragged import row_of
from udfs.failures.disk_volumes import find_volumes, sum_volumes

if TYPE_CHECKING:
    from pipelines.config.settings import Settings
    from pipelines.ingest.snapshot_reader import Snapshot


@dataclass(frozen=True)
class DiskUse:
    """The bytes of the replicas of a broker, or of the logs in one of its log dirs."""

    broker_id: int
    log_dir: str | None  # None = the broker as a whole
    size_bytes: int
    disk_bytes: float | None  # that its disks can hold, beside other files; None = unknown

    @property
    def name(self) -> str:
        """The broker, with the log dir if it is about one."""
        broker = f"broker {self.broker_id}"
        return broker if self.log_dir is None else f"log dir {self.log_dir} of {broker}"

    @property
    def is_over(self) -> bool:
        """Whether the disks can hold less."""
        return self.disk_bytes is not None and self.size_bytes > self.disk_bytes

    @property
    def used(self) -> float:
        """The part of the disks that is used; 0 where these are unknown."""
        return 0.0 if self.disk_bytes is None else self.size_bytes / max(self.disk_bytes, 1)


def list_disk_uses(snapshot: Snapshot, measured: Snapshot, settings: Settings) -> list[DiskUse]:
    """List the bytes of brokers, each followed by its log dirs if several are online; none where no size is known.

    Disks are those of capacity.file, else the volumes of the sources, else plans.broker_bytes.

    Args:
        snapshot: The cluster that the answer is about.
        measured: The same cluster as its sources show it: what is usable of the volumes now.
        settings: capacity.file and plans.broker_bytes.

    Raises: SettingsError if the file is wrong.
    """
    partitions = snapshot.partitions
    if partitions["size_bytes"].null_count == partitions.num_rows:
        return []
    capacities, default = DiskCapacities.read(settings.capacity.file), float(settings.plans.broker_bytes) or None
    of_brokers, of_dirs = (find(snapshot.log_dirs, ["broker_id"]) for find in (sum_volumes, find_volumes))
    sizes, now = (_sum_by_broker(each.partitions) for each in (snapshot, measured))
    dir_sizes, dirs_now = (_sum_by_log_dir(each) for each in (snapshot, measured))

    def describe(broker: int) -> Iterator[DiskUse]:
        limit, volume = capacities.find(snapshot.cluster_id, broker), of_brokers.get((broker,))
        if limit is None:
            limit = default if volume is None else volume.get_limit(now.get(broker, 0))
        yield DiskUse(broker, None, sizes.get(broker, 0), limit)
        for (_, path), volume in sorted((place, volume) for place, volume in of_dirs.items() if place[0] == broker):
            limit = capacities.find(snapshot.cluster_id, broker, path)
            if limit is None and volume is not None:
                limit = volume.get_limit(dirs_now.get((broker, path), 0))
            yield DiskUse(broker, path, dir_sizes.get((broker, path), 0), limit)

    brokers = sorted(snapshot.brokers["broker_id"].to_pylist())
    return [use for broker in brokers for use in describe(broker)]


def _sum_by_broker(partitions: pa.Table) -> dict[int, int]:
    replicas = to_lists(partitions["replicas"])
    size = to_numpy(partitions["size_bytes"]).astype(np.int64)[row_of(replicas.offsets)]
    return _sum(pa.table({"broker_id": replicas.values, "size_bytes": size}))


def _sum_by_log_dir(snapshot: Snapshot) -> dict[tuple[int, str], int]:
    """Sum the bytes of the logs in each log dir, also of those that no assignment accounts for."""
    placed = snapshot.partitions.filter(pc.is_valid(snapshot.partitions["logs"])).combine_chunks()
    logs = [(pa.array(to_lists(placed["replicas"]).values), to_array(placed["logs"]).flatten())]
    logs.append((to_array(snapshot.stray_logs["broker_id"]), to_array(snapshot.stray_logs["log"])))
    tables = [
        pa.table({"broker_id": brokers, **{name: pc.struct_field(log, name) for name in ("log_dir", "size_bytes")}})
        for brokers, log in logs
    ]
    return _sum(pa.concat_tables(tables))


def _sum(sizes: pa.Table) -> dict[Any, int]:
    """Sum size_bytes by the other columns; rows where one is null are left out."""
    keys = [name for name in sizes.column_names if name != "size_bytes"]
    sums = sizes.drop_null().group_by(keys).aggregate([("size_bytes", "sum")])
    values = zip(*(sums[name].to_pylist() for name in keys), strict=True)
    places = values if len(keys) > 1 else (value for (value,) in values)
    return dict(zip(places, sums["size_bytes_sum"].to_pylist(), strict=True))


def format_disk_uses(uses: Sequence[DiskUse]) -> Iterator[str]:
    """Yield a line on the fullest disk, and how many are over; without a known disk, on the largest broker."""
    if not uses:
        return
    fullest = max(uses, key=lambda use: (use.used, use.log_dir is None, use.size_bytes))
    size = f"  disk: {fullest.name} holds {format_bytes(fullest.size_bytes)}"
    if fullest.disk_bytes is None:
        yield f"{size}, the most of all; the size of its disks is not known"
        return
    disks = f"the {format_bytes(fullest.disk_bytes)} that its {'disks' if fullest.log_dir is None else 'disk'} can hold"
    yield f"{size}, more than {disks}" if fullest.is_over else f"{size}, {100 * fullest.used:.0f} % of {disks}"
    over = [use for use in uses if use.is_over]
    counts = (sum(use.log_dir is None for use in over), sum(use.log_dir is not None for use in over))
    if sum(counts) > 1:
        nouns = [format_count(count, noun) for count, noun in zip(counts, ("broker", "log dir"), strict=True) if count]
        yield f"    {' and '.join(nouns)} would hold more than their disks can"
