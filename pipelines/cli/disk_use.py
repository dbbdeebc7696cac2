"""The bytes that brokers hold, against what their disks hold: what `what-if` shows where sizes are known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipelines.cli.text_format import format_bytes, format_count
from pipelines.config.capacity_file import match_broker, read_capacities
from udfs.arrow.columns import to_lists, to_numpy
from udfs.arrow.ragged import row_of
from udfs.failures.disk_volumes import sum_volumes

if TYPE_CHECKING:
    from pipelines.config.settings import Settings
    from pipelines.ingest.snapshot_reader import Snapshot


@dataclass(frozen=True)
class DiskUse:
    """The bytes of the replicas of a broker."""

    broker_id: int
    size_bytes: int
    disk_bytes: float | None  # that its disks hold; None = unknown

    @property
    def is_over(self) -> bool:
        """Whether the disks hold less."""
        return self.disk_bytes is not None and self.size_bytes > self.disk_bytes

    @property
    def used(self) -> float:
        """The part of the disks that is used; 0 where these are unknown."""
        return 0.0 if self.disk_bytes is None else self.size_bytes / max(self.disk_bytes, 1)


def list_disk_uses(snapshot: Snapshot, settings: Settings) -> list[DiskUse]:
    """List the bytes that brokers hold, in the order of the snapshot; none where no size is known.

    Disks are those of capacity.file, else the volumes of the sources, else plans.broker_bytes.
    Raises: SettingsError if the file is wrong.
    """
    partitions, ids = snapshot.partitions, snapshot.brokers["broker_id"].to_pylist()
    if partitions["size_bytes"].null_count == partitions.num_rows:
        return []
    replicas = to_lists(partitions["replicas"])
    size = to_numpy(partitions["size_bytes"])[row_of(replicas.offsets)]
    capacities, volumes = read_capacities(settings.capacity.file), sum_volumes(snapshot.log_dirs, ["broker_id"])

    def describe(broker: int) -> DiskUse:
        row = match_broker(capacities, snapshot.cluster_id, broker)
        from_file = row.disk_bytes if row is not None and row.disk_bytes >= 0 else None
        otherwise = volumes.get((broker,), float(settings.plans.broker_bytes) or None)
        return DiskUse(
            broker, int(size[replicas.values == broker].sum()), otherwise if from_file is None else from_file
        )

    return [describe(broker) for broker in np.sort(ids).tolist()]


def format_disk_uses(uses: Sequence[DiskUse]) -> Iterator[str]:
    """Yield a line on the fullest broker, and how many are over; without a known disk, on the largest."""
    if not uses:
        return
    fullest = max(uses, key=lambda use: (use.used, use.size_bytes))
    size = f"  disk: broker {fullest.broker_id} holds {format_bytes(fullest.size_bytes)}"
    if fullest.disk_bytes is None:
        yield f"{size}, the most of all; the size of its disks is not known"
        return
    disks = f"the {format_bytes(fullest.disk_bytes)} of its disks"
    yield f"{size}, more than {disks}" if fullest.is_over else f"{size}, {100 * fullest.used:.0f} % of {disks}"
    over = sum(use.is_over for use in uses)
    if over > 1:
        yield f"    {format_count(over, 'broker')} would hold more than their disks"
