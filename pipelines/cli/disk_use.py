"""The bytes of brokers and log dirs, against what their disks can hold: what `what-if` shows where sizes are known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pipelines.cli.text_format import format_bytes, format_count
from pipelines.config.capacity_file import match_disks, read_disk_capacities
from pipelines.plan_files.log_dir_bytes import sum_log_dirs
from udfs.arrow.columns import to_lists, to_numpy
from udfs.arrow.ragged import row_of
from udfs.failures.disk_limits import find_disk_limits

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
    sizes, now = (_sum_by_broker(each.partitions) for each in (snapshot, measured))
    dir_sizes, dirs_now = (sum_log_dirs(each) for each in (snapshot, measured))
    capacities = match_disks(read_disk_capacities(settings.capacity.file), snapshot.cluster_id)
    brokers = snapshot.brokers["broker_id"].to_pylist()
    places = zip(measured.log_dirs["broker_id"].to_pylist(), measured.log_dirs["log_dir"].to_pylist(), strict=True)
    used = pa.array([dirs_now.get(place, 0) for place in places], pa.int64())
    log_dirs = measured.log_dirs.append_column("used_bytes", used)
    limits = find_disk_limits(brokers, log_dirs, capacities, settings.plans.broker_bytes)
    uses = []
    for (broker, path), limit in limits.items():
        if path is None:
            uses.append(DiskUse(broker, None, sizes.get(broker, 0), limit.compute(now.get(broker, 0))))
        else:
            size_now = dirs_now.get((broker, path), 0)
            uses.append(DiskUse(broker, path, dir_sizes.get((broker, path), 0), limit.compute(size_now)))
    return uses


def _sum_by_broker(partitions: pa.Table) -> dict[int, int]:
    replicas = to_lists(partitions["replicas"])
    size = to_numpy(partitions["size_bytes"]).astype(np.int64)[row_of(replicas.offsets)]
    table = pa.table({"broker_id": replicas.values, "size_bytes": size})
    sums = table.group_by("broker_id").aggregate([("size_bytes", "sum")])
    return dict(zip(sums["broker_id"].to_pylist(), sums["size_bytes_sum"].to_pylist(), strict=True))


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
