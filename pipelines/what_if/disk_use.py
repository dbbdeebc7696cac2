"""The bytes of brokers and log dirs, against what their disks can hold: what `what-if` shows where sizes are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.config.capacity_file import match_disks, read_disk_capacities
from pipelines.plan_files.log_dir_bytes import sum_log_dirs
from udfs.arrow.columns import to_array, to_lists
from udfs.failures.disk_limits import find_disk_limits
from udfs.failures.replica_logs import measure_replicas

if TYPE_CHECKING:
    from pipelines.config.settings import Settings
    from pipelines.ingest.snapshot_reader import Snapshot


class BrokerBytes(NamedTuple):
    """The bytes of the logs on a broker."""

    size: int
    inferred: int  # of these, the bytes of replicas whose log no source shows


_NOTHING = BrokerBytes(0, 0)


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
    sizes, now = (_sum_by_broker(each) for each in (snapshot, measured))
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
            size, inferred = sizes.get(broker, _NOTHING)
            uses.append(DiskUse(broker, None, size, limit.compute(now.get(broker, _NOTHING).size), inferred))
        else:
            size_now = dirs_now.get((broker, path), 0)
            uses.append(DiskUse(broker, path, dir_sizes.get((broker, path), 0), limit.compute(size_now)))
    return uses


def _sum_by_broker(snapshot: Snapshot) -> dict[int, BrokerBytes]:
    """Sum the bytes of the logs on each broker: of its replicas, and of those that no assignment accounts for."""
    brokers, measured = to_lists(snapshot.partitions["replicas"]).values, measure_replicas(snapshot.partitions)
    stray = snapshot.stray_logs
    stray_size = pc.struct_field(to_array(stray["log"]), "size_bytes")
    tables = [
        pa.table({"broker_id": brokers, "size": measured.size.clip(0), "inferred": measured.is_inferred}),
        pa.table({"broker_id": stray["broker_id"], "size": pc.fill_null(stray_size, 0)}),
    ]
    logs = pa.concat_tables(tables, promote_options="default")
    logs = logs.append_column("of_leaders", pc.if_else(logs["inferred"], logs["size"], 0))
    sums = logs.group_by("broker_id").aggregate([("size", "sum"), ("of_leaders", "sum")]).to_pylist()
    return {row["broker_id"]: BrokerBytes(row["size_sum"], row["of_leaders_sum"] or 0) for row in sums}
