"""The placement kernels as a pandas UDF, for notebooks and queries; the stages use `placer`, which is faster."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
from pyspark.sql import Column
from pyspark.sql import functions as F

from udfs.placement import assign_replicas


def replica_lists(
    scheme: str, run_seed: int, cluster: Column, topic: Column, partitions: Column, factor: Column, brokers: Column
) -> Column:
    """For each topic (a row), the replica lists of its partitions: array<array<int>>, null where Kafka would refuse.

    cluster, topic: string.   partitions, factor: int.   brokers: array<int>, ids in the order to place over.
    """

    def place(c: pd.Series, t: pd.Series, p: pd.Series, f: pd.Series, b: pd.Series) -> pd.Series:
        return assign_replicas(scheme, run_seed, c, t, p, f, b)

    wrapped: Callable[..., Column] = F.pandas_udf(place, "array<array<int>>")  # type: ignore[attr-defined]
    return wrapped(cluster, topic, partitions, factor, brokers)
