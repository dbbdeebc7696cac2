"""Kafka's placement as a pandas UDF: the function that the pipeline, notebooks and SQL queries call."""

from collections.abc import Callable
from typing import Any, Self

import pandas as pd
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type

from udfs.placement.topic_placement import (
    TOPIC_PLACEMENT,
    LiveBrokersBySnapshot,
    TopicBatch,
    find_broker_lists,
    place_topics,
)

SPARK_TYPE = from_arrow_type(TOPIC_PLACEMENT)


class _Lists(pd.arrays.ArrowExtensionArray):
    """An Arrow array of lists that Spark takes as it is: it maps `list` over such a column, value by value."""

    def map(self, _mapper: Any, na_action: str | None = None) -> Self:
        """Return the array: its values are lists already."""
        return self


def to_frame(placed: pa.StructArray) -> pd.DataFrame:
    """Return TOPIC_PLACEMENT as a data frame that reaches Spark without a Python object per topic."""
    columns = zip(TOPIC_PLACEMENT, placed.flatten(), strict=True)
    kinds = {True: _Lists, False: pd.arrays.ArrowExtensionArray}
    return pd.DataFrame({field.name: pd.Series(kinds[pa.types.is_list(field.type)](v)) for field, v in columns})


def placement_udf(scheme: str, run_seed: int, live_brokers: LiveBrokersBySnapshot) -> Callable[..., Column]:
    """Make a pandas UDF that places topics as Kafka would, bit for bit.

    The UDF takes the columns cluster_id, snapshot_id, topic, partitions, replication_factor and, where only some
    partitions are to be placed, their ids (array<int>). It returns a struct per topic: `replicas` (array<int>, the
    replicas of its partitions one after another, replication_factor each; empty where Kafka reports an error),
    `start_index`, `shift`, `seed` and `error`. `partition_replicas` cuts the array. Use the UDF on columns, or
    `spark.udf.register("place_topic", placement_udf(...))` for SQL.

    Args:
        scheme: A computed scheme of udfs/placement/schemes.py: kafka, kafka_rack_unaware, kraft or naive.
        run_seed: Seed of the run; each topic is seeded by it, its cluster and its name.
        live_brokers: Brokers to place over, by cluster and snapshot. They travel with the function: a list of brokers
            beside every topic would cost more than placing it.
    """

    def place(
        cluster: pd.Series, snapshot: pd.Series, topic: pd.Series, partitions: pd.Series, *rest: pd.Series
    ) -> pd.DataFrame:
        types = (pa.string(), pa.string(), pa.int32(), pa.int32(), pa.list_(pa.int32()))
        columns = zip((cluster, topic, partitions, *rest), types, strict=False)  # rest: factor, and perhaps ids
        batch = TopicBatch(*(pa.array(series, data_type, from_pandas=True) for series, data_type in columns))
        lists, of_list, cordons = find_broker_lists(
            batch.cluster, pa.array(snapshot, pa.string()), live_brokers, scheme
        )
        return to_frame(place_topics(batch, lists, of_list, scheme, run_seed, cordons))

    # Spark leaves a nondeterministic function where it is; it could call another one twice.
    udf: Callable[..., Column] = F.pandas_udf(place, SPARK_TYPE).asNondeterministic()  # type: ignore[attr-defined]
    return udf


def partition_replicas(placement: str, position: str, replication_factor: str) -> Column:
    """Cut the replicas (array<int>, preferred leader first) of one partition out of a placement of the UDF.

    All are names of columns; `position` counts the partitions that are placed, from 0. The replicas are null where
    the topic cannot be placed.
    """
    part = f"slice({placement}.replicas, {position} * {replication_factor} + 1, {replication_factor})"
    return F.expr(f"if({placement}.error IS NULL, {part}, NULL)")
