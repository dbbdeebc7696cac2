"""Choose the snapshots that stay: all recent ones, then one a week, then one a month."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from operator import attrgetter
from typing import NamedTuple

from pipelines.config.setting_sections import RetentionSettings
from pipelines.ingest.sources import SnapshotKey

_NEWEST = 2  # what views compare
MAX_AHEAD = timedelta(days=1)  # of a time of sources before now: clocks and time zones differ


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


def choose_expired(
    seen: Iterable[SeenSnapshot], settings: RetentionSettings, now: datetime, begun: Iterable[SeenSnapshot] = ()
) -> set[SnapshotKey]:
    """Choose the snapshots that no longer stay.

    Ages count back from the time at which a cluster was seen last, so that one that is no longer read stays as it
    is; a time in the future is an error of who gave it. A snapshot that was seen several times stays as long as one of
    these times does.

    begun: snapshots of runs that were stopped, or that failed: they stay only as long as all others do.
    """
    by_cluster: dict[str, list[SeenSnapshot]] = {}
    for one in sorted(seen, key=attrgetter("as_of", "finished_at", "snapshot_id")):
        by_cluster.setdefault(one.cluster_id, []).append(one)
    expired: set[SnapshotKey] = set()
    lasts: dict[str, datetime] = {}
    for rows in by_cluster.values():
        last = _find_last(rows, now)
        staying = {row.key for row in _choose_staying(rows, last, settings)}
        newest = list(dict.fromkeys(row.key for row in reversed(rows)))[:_NEWEST]
        expired |= {row.key for row in rows} - staying - set(newest)
        lasts[rows[0].cluster_id] = last
    complete = {row.key for rows in by_cluster.values() for row in rows}
    most = settings.all_days or float("inf")
    old = {row.key for row in begun if _count_days(row, lasts.get(row.cluster_id, now)) > most}
    return expired | (old - complete)


def _find_last(rows: list[SeenSnapshot], now: datetime) -> datetime:
    """Find the last time that is not in the future; if all are, the last one."""
    past = [row.as_of for row in rows if row.as_of <= now + MAX_AHEAD]
    return max(past or (row.as_of for row in rows))


def _count_days(row: SeenSnapshot, last: datetime) -> float:
    return (last - row.as_of).total_seconds() / 86_400


def _choose_staying(rows: list[SeenSnapshot], last: datetime, settings: RetentionSettings) -> list[SeenSnapshot]:
    """Choose the times of a cluster, in order, that stay: the last of each week or month of those that are older."""
    last_of: dict[tuple[object, ...], SeenSnapshot] = {}
    for row in rows:
        days = _count_days(row, last)
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
