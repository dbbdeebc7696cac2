"""The volumes of log dirs: log dirs of a broker that share one, so that its bytes count once."""

import heapq
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

FILE, LOG_DIRS = "capacity.file", "silver.log_dirs"  # where bytes of disks are from
# A broker asks for the free bytes of one log dir after the other, while others write to the volume.
_WRITTEN_BETWEEN = 1e-5  # of a volume


def number_volumes(broker: Sequence[int] | Ints, total: Sequence[object], usable: Sequence[object]) -> Ints:
    """Number the volumes of d log dirs: int64 (d), the index of the first log dir on the same volume.

    Log dirs of a broker are on one volume if its bytes are the same, and the free ones but for what may have been
    written in between. A log dir of an unknown volume counts as alone.

    Args:
        broker: The broker of each log dir.
        total: Bytes of the volume of each; None or NaN = unknown.
        usable: Free bytes of these, in the same way.
    """
    ids, size, free = np.asarray(broker, dtype=np.int64), _to_floats(total), _to_floats(usable)
    order = np.lexsort((free, size, ids))
    before, after = order[:-1], order[1:]
    is_same = (ids[after] == ids[before]) & (size[after] == size[before])
    is_same &= free[after] - free[before] <= _WRITTEN_BETWEEN * size[before]  # false where unknown
    volume = np.empty(len(ids), dtype=np.int64)
    group = np.cumsum(np.r_[False, ~is_same][: len(ids)])
    first = np.full(len(ids), len(ids), dtype=np.int64)
    np.minimum.at(first, group, order)
    volume[order] = first[group]
    return volume


def number_row_volumes(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """Number the volumes of log dirs as rows: broker_id, total_bytes, usable_bytes."""
    columns = ([row[name] for row in rows] for name in ("broker_id", "total_bytes", "usable_bytes"))
    numbers: list[int] = number_volumes(*columns).tolist()
    return numbers


class Volume(NamedTuple):
    """A volume with log dirs of one broker, or a log dir whose bytes a file has, or all disks of a broker together."""

    log_dirs: tuple[str, ...]  # their paths; empty = all of the broker
    total_bytes: float | None  # None = unknown
    free_bytes: float | None  # by which the logs on it can grow: other files stay
    source: str  # where this is from

    @property
    def is_known(self) -> bool:
        """Whether its bytes and its free bytes are known."""
        return self.total_bytes is not None and self.free_bytes is not None


def list_volumes(rows: Sequence[Mapping[str, Any]], in_file: Mapping[str, float]) -> list[Volume]:
    """List the volumes of the log dirs of one broker that are online, in their order, each once.

    Args:
        rows: log_dir, total_bytes and usable_bytes (None = unknown); of log dirs in the file also used_bytes.
        in_file: The bytes that a file has for log dirs, which have these for themselves.
    """
    numbers = number_row_volumes([{"broker_id": 0, **row} for row in rows])
    together: dict[int, list[Mapping[str, Any]]] = {}
    for index, (row, number) in enumerate(zip(rows, numbers, strict=True)):
        together.setdefault(-1 - index if row["log_dir"] in in_file else number, []).append(row)
    volumes = []
    for number, here in together.items():
        paths, total, source = tuple(row["log_dir"] for row in here), here[0]["total_bytes"], LOG_DIRS
        free = min((row["usable_bytes"] for row in here if row["usable_bytes"] is not None), default=None)
        if number < 0:
            total, used, source = in_file[paths[0]], here[0]["used_bytes"], FILE
            free = None if used is None else total - used
        volumes.append(Volume(paths, total, free, source))
    return volumes


def choose_emptiest(replicas: Sequence[int], added: int) -> list[int]:
    """Return the log dirs (indices) that Kafka chooses for replicas one by one: each time that with the fewest.

    replicas: how many each log dir has now; of equal ones, the first.
    """
    heap = [(count, log_dir) for log_dir, count in enumerate(replicas)]
    heapq.heapify(heap)
    chosen = []
    for _ in range(added):
        count, log_dir = heap[0]
        chosen.append(log_dir)
        heapq.heapreplace(heap, (count + 1, log_dir))
    return chosen


def _to_floats(values: Sequence[object]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
