"""The bytes of the volumes of brokers and of their log dirs."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc


class Volume(NamedTuple):
    """A volume, or all of a broker's."""

    total_bytes: float
    usable_bytes: float

    def get_limit(self, size_bytes: float) -> float:
        """Return how many bytes logs can have that have size_bytes now: other files on the volume stay."""
        return size_bytes + self.usable_bytes


def sum_volumes(log_dirs: pa.Table, key: Sequence[str]) -> dict[tuple[Any, ...], Volume]:
    """Return the volumes of each broker together, by the columns of `key`, if all are known.

    log_dirs: with total_bytes and usable_bytes. Log dirs for which both are equal to the byte are on one volume.
    """
    return {
        place: Volume(*(float(sum(values)) for values in zip(*set(volumes.values()), strict=True)))
        for place, volumes in _list_volumes(log_dirs, key)
        if None not in volumes.values()
    }


def find_volumes(log_dirs: pa.Table, key: Sequence[str]) -> dict[tuple[Any, ...], Volume | None]:
    """Return the volume of each log dir that is online, of brokers with several, by the columns of `key` and log_dir.

    None = it is unknown, or another log dir is on it, too. log_dirs: as for sum_volumes, with log_dir_error.
    """
    online = log_dirs.filter(pc.is_null(log_dirs["log_dir_error"]))
    by_log_dir: dict[tuple[Any, ...], Volume | None] = {}
    for place, volumes in _list_volumes(online, key):
        counts = list(volumes.values())
        for path, volume in volumes.items() if len(volumes) > 1 else ():
            by_log_dir[*place, path] = volume if counts.count(volume) == 1 else None
    return by_log_dir


def _list_volumes(log_dirs: pa.Table, key: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], dict[str, Volume | None]]]:
    """Yield each broker with the volumes of its log dirs by path; None = unknown."""
    by_broker: dict[tuple[Any, ...], dict[str, Volume | None]] = {}
    for row in log_dirs.select([*key, "log_dir", "total_bytes", "usable_bytes"]).to_pylist():
        volume = Volume(row["total_bytes"], row["usable_bytes"])
        own = by_broker.setdefault(tuple(row[name] for name in key), {})
        own[row["log_dir"]] = None if None in volume else volume
    yield from by_broker.items()
