"""Models of made-up clusters with sizes and rates, for tests of goals that balance bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from udfs.planning.cluster_model import ClusterModel


def make_rated_model(
    lists: Sequence[Sequence[int]], racks: Sequence[int], names: Sequence[str], seed: int = 1, **changes: Any
) -> ClusterModel:
    """Make a model of one topic.

    Args:
        lists: Brokers of each partition, by their index.
        racks: Rack of each broker, by its index in names.
        names: Names of racks.
        seed: Of the loads.
        changes: Other fields of the model.
    """
    rng, p, n = np.random.default_rng(seed), len(lists), len(racks)
    rate_in = rng.lognormal(8, 0.8, p)
    fields: dict[str, Any] = {
        "cluster_id": "c",
        "broker_ids": np.arange(n, dtype=np.int32),
        "rack": np.array(racks, dtype=np.int32),
        "rack_names": tuple(names),
        "live": np.ones(n, dtype=np.bool_),
        "draining": np.zeros(n, dtype=np.bool_),
        "topic_names": ("t",),
        "topic": np.zeros(p, dtype=np.int32),
        "partition": np.arange(p, dtype=np.int32),
        "offsets": np.cumsum([0, *map(len, lists)]).astype(np.int64),
        "replicas": np.array([b for one in lists for b in one], dtype=np.int32),
        "size": rng.lognormal(18, 0.5, p),
        "rate_in": rate_in,
        "rate_out": rate_in * rng.uniform(0, 4, p),
        "known": (True, True, True),
        "frozen": np.zeros(p, dtype=np.int8),
        "topic_min_isr": np.ones(p, dtype=np.int32),
    }
    return ClusterModel(**fields | changes)
