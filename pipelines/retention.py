"""Choose the snapshots that stay: all recent ones, then one a week, then one a month."""

from collections.abc import Iterable
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple

from pipelines.config.retention_settings import RetentionSettings
from pipelines.ingest.sources import SnapshotKey

_NEWEST = 2  # what views compare


class SeenSnapshot(NamedTuple):
    """A time at which a run saw a cluster: columns of ops.runs."""

    cluster_id: str
    snapshot_id: str
    as_of: datetime  # UTC
    finished_at: datetime  # UTC

    @property
    def key(self) -> SnapshotKey:
        """The snapshot."""
        return SnapshotKey(self.cluster_id, self.snapshot_id)


def choose_expired(seen: Iterable[SeenSnapshot], settings: RetentionSettings) -> set[SnapshotKey]:
    """Choose the snapshots that no longer stay.

    Ages count back from the time at which a cluster was seen last, so that one that is no longer read stays as it
    is. A snapshot that was seen several times stays as long as one of these times does.
    """
    by_cluster: dict[str, list[SeenSnapshot]] = {}
    for one in sorted(seen, key=attrgetter("as_of", "finished_at", "snapshot_id")):
        by_cluster.setdefault(one.cluster_id, []).append(one)
    expired: set[SnapshotKey] = set()
    for rows in by_cluster.values():
        staying = {row.key for row in _choose_staying(rows, settings)}
        newest = list(dict.fromkeys(row.key for row in reversed(rows)))[:_NEWEST]
        expired |= {row.key for row in rows} - staying - set(newest)
    return expired


def _choose_staying(rows: list[SeenSnapshot], settings: RetentionSettings) -> list[SeenSnapshot]:
    """Choose the times of a cluster, in order, that stay: the last of each week or month of those that are older."""
    last_of: dict[tuple[object, ...], SeenSnapshot] = {}
    for row in rows:
        days = (rows[-1].as_of - row.as_of).total_seconds() / 86_400
        if not settings.all_days or days <= settings.all_days:
            period: tuple[object, ...] = ("all", row.as_of, row.snapshot_id)
        elif not settings.weekly_days or days <= settings.weekly_days:
            period = ("week", *row.as_of.isocalendar()[:2])
        elif not settings.monthly_days or days <= settings.monthly_days:
            period = ("month", row.as_of.year, row.as_of.month)
        else:
            continue
        last_of[period] = row
    return list(last_of.values())
