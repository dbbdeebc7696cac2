"""The bytes of brokers and log dirs, against what their disks can hold: what `what-if` shows where sizes are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from pipelines.config.capacity_file import match_disks, read_disk_capacities
from udfs.failures.disk_limits import find_disk_limits
from udfs.failures.replica_logs import sum_column, sum_logs

if TYPE_CHECKING:
    from pipelines.config.setting_sections import Settings
    from pipelines.ingest.snapshot_reader import Snapshot


@dataclass(frozen=True)
class DiskUse:
    """The bytes of the logs on a broker, or in one of its log dirs."""

    broker_id: int
    log_dir: str | None  # None = the broker as a whole
    size_bytes: int
    disk_bytes: float | None  # that its disks can hold, beside other files; None = unknown
    inferred_bytes: int = 0  # of size_bytes: of replicas whose log no source shows, so that the leader's size counts

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
        if self.disk_bytes is None:
            return 0.0
        return self.size_bytes / self.disk_bytes if self.disk_bytes > 0 else 1.0  # full of other files


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
    sums, sums_now = (sum_logs(each.partitions, each.stray_logs, each.brokers) for each in (snapshot, measured))
    sizes, inferred, now = sum_column(sums), sum_column(sums, "inferred_bytes"), sum_column(sums_now)
    capacities = match_disks(read_disk_capacities(settings.capacity.file), snapshot.cluster_id)
    brokers = snapshot.brokers["broker_id"].to_pylist()
    places = zip(measured.log_dirs["broker_id"].to_pylist(), measured.log_dirs["log_dir"].to_pylist(), strict=True)
    log_dirs = measured.log_dirs.append_column("used_bytes", pa.array([now[place] for place in places], pa.int64()))
    limits = find_disk_limits(brokers, log_dirs, capacities, settings.plans.broker_bytes)
    return [
        DiskUse(*place, sizes[place], limit.compute(now[place]), inferred[place]) for place, limit in limits.items()
    ]
