"""The volumes of log dirs: log dirs of a broker that share one, so that its bytes count once."""

import heapq
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

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
