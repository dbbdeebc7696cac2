"""The bytes of the volumes of brokers."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def sum_volumes(log_dirs: pa.Table, key: Sequence[str]) -> dict[tuple[Any, ...], float]:
    """Return the bytes of the volumes of each broker, by the columns of `key`, whose volumes are all known.

    log_dirs: with total_bytes and usable_bytes. Log dirs for which both are equal to the byte are on one volume.
    """
    volumes = log_dirs.group_by([*key, "total_bytes", "usable_bytes"]).aggregate([])
    unknown = volumes.filter(pc.is_null(volumes["total_bytes"])).select(key).to_pylist()
    sums = volumes.group_by(list(key)).aggregate([("total_bytes", "sum")]).to_pylist()
    without = {tuple(row.values()) for row in unknown}
    totals = {tuple(row[name] for name in key): row["total_bytes_sum"] for row in sums}
    return {place: float(total) for place, total in totals.items() if place not in without}
