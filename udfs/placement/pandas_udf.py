"""The placement kernels as a pandas UDF, for notebooks and queries; the stages use `placer`, which is faster."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
from pyspark.sql import Column
from pyspark.sql import functions as F

from udfs.placement.topic_batches import assign_replicas


def replica_lists(
    scheme: str,
    run_seed: int,
    cluster: Column,
    topic: Column,
    partitions: Column,
    factor: Column,
    brokers: Column,
    racks: Column | None = None,
) -> Column:
    """For each topic (a row), the replica lists of its partitions: array<array<int>>, null where Kafka would reject.

    cluster, topic: string.   partitions, factor: int.   brokers: array<int>, ids in the order to place over.
    racks: array<string>, the rack of each of these brokers, null = none.
    """

    def place(c: pd.Series, t: pd.Series, p: pd.Series, f: pd.Series, b: pd.Series) -> pd.Series:
        return assign_replicas(scheme, run_seed, c, t, p, f, b)

    def place_in_racks(c: pd.Series, t: pd.Series, p: pd.Series, f: pd.Series, b: pd.Series, r: pd.Series) -> pd.Series:
        return assign_replicas(scheme, run_seed, c, t, p, f, b, r)

    columns = (cluster, topic, partitions, factor, brokers)
    body: Callable[..., pd.Series] = place if racks is None else place_in_racks
    wrapped: Callable[..., Column] = F.pandas_udf(body, "array<array<int>>")  # type: ignore[attr-defined]
    return wrapped(*columns) if racks is None else wrapped(*columns, racks)
