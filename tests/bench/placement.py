"""Placing a million partitions, beside Spark's own write of as many constant rows: `make bench`.

All write Delta tables with the columns of gold.placements in the same session, in turn. The figure is the ratio of
the medians: 1.0 = the stage, with its write, costs what Spark's write alone costs. A pandas UDF that returns constants
shows what the hand-over to Python costs, rows that Spark computes show what values cost that are not all the same.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from unittest.mock import patch

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.ingest.sources import SnapshotKey
from pipelines.spark.session import open_session
from pipelines.spark.store import Store
from pipelines.stages import placement_stages
from pipelines.stages.placement_stages import PlacementParameters, computed_placements
from pipelines.tables import TABLES
from pipelines.tables.gold_tables import PLACEMENTS
from udfs.placement.pandas_udf import SPARK_TYPE, to_frame
from udfs.placement.schemes import KAFKA
from udfs.placement.topic_placement import TOPIC_PLACEMENT, LiveBrokers

BENCH = SnapshotKey("bench", "bench")
FACTOR = 3
STAGE, HANDED_OVER = "the stage (pandas UDF)", "a pandas UDF that returns constants"
VARYING, CONSTANT = "rows computed by Spark", "constant rows"


def make_topics(spark: SparkSession, count: int, partitions: int) -> DataFrame:
    """Make `count` rows of silver.topics, in Spark as the constant rows."""
    values = {
        "cluster_id": F.lit(BENCH.cluster_id),
        "snapshot_id": F.lit(BENCH.snapshot_id),
        "topic": F.format_string("topic-%06d", F.col("id")),
        "partitions": F.lit(partitions),
        "replication_factor": F.lit(FACTOR),
        "listed_partitions": F.lit(partitions),
        "marked_for_deletion": F.lit(False),
        "incomplete": F.lit(False),
    }
    schema = TABLES["silver.topics"].schema
    columns = [values.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in schema]
    return spark.range(count).select(*columns)


def as_table(rows: DataFrame, values: dict[str, Column]) -> DataFrame:
    """Select the columns of gold.placements, null where neither `values` nor `rows` has them."""
    values = values | {name: F.col(name) for name in ("cluster_id", "snapshot_id", "topic")}
    return rows.select(*(values.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in PLACEMENTS.schema))


def constant_rows(topics: DataFrame, partitions: int) -> DataFrame:
    """Make as many rows of gold.placements as the stage, all but the key constant."""
    values = {
        "scheme": F.lit(KAFKA),
        "partition": F.col("partition"),
        "replicas": F.array(F.lit(1), F.lit(2), F.lit(3)),
        "leader": F.lit(1),
        "start_index": F.lit(1),
        "shift": F.lit(2),
        "seed": F.lit(42),
    }
    rows = topics.select("*", F.explode(F.sequence(F.lit(0), F.lit(partitions - 1))).alias("partition"))
    return as_table(rows, values)


def varying_rows(topics: DataFrame, partitions: int) -> DataFrame:
    """Make rows of gold.placements of which Spark computes other values for each topic and partition."""
    code, partition = F.abs(F.hash("topic")), F.col("partition")
    replicas = [((partition + F.col("code") + i * (1 + F.col("code") % 97)) % 100).cast("int") for i in range(FACTOR)]
    values = {
        "scheme": F.lit(KAFKA),
        "partition": partition,
        "replicas": F.array(*replicas),
        "leader": replicas[0],
        "start_index": (F.col("code") % 100).cast("int"),
        "shift": (F.col("code") % 97).cast("int"),
        "seed": F.col("code").cast("long"),
    }
    exploded = F.explode(F.sequence(F.lit(0), F.lit(partitions - 1))).alias("partition")
    return as_table(topics.withColumn("code", code).select("*", exploded), values)


def constant_udf(partitions: int) -> Callable[..., Column]:
    """Make a pandas UDF with the columns of the stage's that returns constants."""

    def place(
        cluster: pd.Series, _snapshot: pd.Series, _topic: pd.Series, _partitions: pd.Series, _factor: pd.Series
    ) -> pd.DataFrame:
        topics = len(cluster)
        offsets = np.arange(topics + 1, dtype=np.int32) * partitions * FACTOR
        replicas = np.tile(np.arange(FACTOR, dtype=np.int32), topics * partitions)
        one = pa.array(np.ones(topics, dtype=np.int32))
        values = [
            pa.ListArray.from_arrays(pa.array(offsets), pa.array(replicas)),
            *(one, one, one.cast(pa.int64()), pa.nulls(topics, pa.string())),
        ]
        return to_frame(pa.StructArray.from_arrays(values, fields=list(TOPIC_PLACEMENT)))

    udf: Callable[..., Column] = F.pandas_udf(place, SPARK_TYPE).asNondeterministic()  # type: ignore[attr-defined]
    return udf


def place_constants(topics: DataFrame, parameters: PlacementParameters, partitions: int) -> DataFrame:
    """Make the rows of the stage with the UDF that returns constants."""
    with patch.object(placement_stages, "placement_udf", lambda *_: constant_udf(partitions)):
        return placement_stages.computed_placements(topics, parameters)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=100_000)
    parser.add_argument("--partitions", type=int, default=10)
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    spark = open_session("bench", warehouse=None)
    live = {(BENCH.cluster_id, BENCH.snapshot_id): LiveBrokers(range(arguments.brokers))}
    parameters = PlacementParameters((KAFKA,), 1, live)
    makers = {
        STAGE: lambda topics: computed_placements(topics, parameters),
        HANDED_OVER: lambda topics: place_constants(topics, parameters, arguments.partitions),
        VARYING: lambda topics: varying_rows(topics, arguments.partitions),
        CONSTANT: lambda topics: constant_rows(topics, arguments.partitions),
    }
    # The last one writes a table as Delta creates it, with statistics of every column.
    ways = [
        (STAGE, PLACEMENTS),
        (HANDED_OVER, PLACEMENTS),
        (VARYING, PLACEMENTS),
        (CONSTANT, PLACEMENTS),
        (CONSTANT, replace(PLACEMENTS, skip_by=())),
    ]
    names = [STAGE, HANDED_OVER, VARYING, CONSTANT, f"{CONSTANT}, default statistics"]
    seconds: dict[str, list[float]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(arguments.runs + 2):  # the first two warm up
            for number, (name, (way, table)) in enumerate(zip(names, ways, strict=True)):
                store = Store(spark, f"{folder}/{number}-{turn}")
                store.create(table)
                began = monotonic()
                store.replace(table, makers[way](make_topics(spark, arguments.topics, arguments.partitions)), [BENCH])
                if turn > 1:
                    seconds[name].append(monotonic() - began)
                assert store.read("gold.placements").count() == arguments.topics * arguments.partitions
    total = arguments.topics * arguments.partitions
    print(f"{total} partitions of {arguments.topics} topics on {arguments.brokers} brokers, {arguments.runs} runs each")
    stage = statistics.median(seconds[STAGE])
    for name, values in seconds.items():
        middle = statistics.median(values)
        spread = f"{min(values):.2f} to {max(values):.2f}"
        rate = f"{total / middle / 1e6:.2f} M rows/s"
        print(f"  {name:36} {middle:6.2f} s ({spread}), {rate}, the stage takes {stage / middle:.2f} times as long")
    spark.stop()


if __name__ == "__main__":
    main()
