"""Partitions and brokers in few words."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from udfs.planning.cluster_model import ClusterModel


def some(model: ClusterModel, rows: npt.NDArray[np.integer]) -> str:
    """Partitions in few words: t1-0 and 12 others."""
    if len(rows) == 1:
        return model.name(int(rows[0]))
    return f"{model.name(int(rows[0]))} and {len(rows) - 1} other{'s' if len(rows) > 2 else ''}"


def brokers_text(model: ClusterModel, places: npt.NDArray[np.integer]) -> str:
    """Brokers by id: brokers 1, 2 and 7 more."""
    ids = [str(broker) for broker in model.ids(places)]
    return ("broker " if len(ids) == 1 else "brokers ") + listed(ids)


def listed(words: Iterable[str]) -> str:
    """The first of them, with commas, and how many more there are."""
    parts = list(words)
    return ", ".join(parts[:8]) + (f" and {len(parts) - 8} more" if len(parts) > 8 else "")
