"""Placing a million partitions, beside Spark's own write of as many constant rows: `make bench`.

All write Delta tables with the columns of gold.placements in the same session, in turn. The figure is the ratio of
the medians: 1.0 = the stage, with its write, costs what Spark's write alone costs. The Arrow UDF returns nested lists,
which Spark explodes; the stage's pandas UDF returns one flat list per topic, which Spark cuts with `slice`.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from dataclasses import replace
from time import monotonic

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type

from pipelines.ingest.sources import SnapshotKey
from pipelines.spark.session import open_session
from pipelines.spark.store import Store
from pipelines.stages.placement_stage import PlacementParameters, computed_placements
from pipelines.tables import TABLES
from pipelines.tables.gold_tables import PLACEMENTS
from udfs.placement.schemes import KAFKA
from udfs.placement.topic_placement import LiveBrokers, TopicBatch, find_broker_lists, place_topics

BENCH = SnapshotKey("bench", "bench")
FACTOR = 3
STAGE, ARROW, CONSTANT = "the stage (pandas UDF)", "Arrow UDF, nested lists", "constant rows"
NESTED = pa.struct(
    [
        ("replicas", pa.list_(pa.list_(pa.int32()))),
        ("start_index", pa.int32()),
        ("shift", pa.int32()),
        ("seed", pa.int64()),
        ("error", pa.string()),
    ]
)


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


def arrow_rows(topics: DataFrame, live: dict[tuple[str, str], LiveBrokers]) -> DataFrame:
    """Place the topics by an Arrow UDF that returns a list of replica lists per topic."""

    def place(
        cluster: pa.Array, snapshot: pa.Array, topic: pa.Array, partitions: pa.Array, factor: pa.Array
    ) -> pa.Array:
        lists, of_list = find_broker_lists(cluster, snapshot, live)
        flat, *others = place_topics(TopicBatch(cluster, topic, partitions, factor), lists, of_list, KAFKA, 1).flatten()
        inner = pa.array(np.arange(0, len(flat.values) + 1, FACTOR, dtype=np.int32))
        outer = pa.array(np.asarray(flat.offsets) // FACTOR, pa.int32())
        nested = pa.ListArray.from_arrays(outer, pa.ListArray.from_arrays(inner, flat.values))
        return pa.StructArray.from_arrays([nested, *others], fields=list(NESTED))

    udf = F.arrow_udf(place, from_arrow_type(NESTED)).asNondeterministic()
    columns = ("cluster_id", "snapshot_id", "topic", "partitions", "replication_factor")
    placed = topics.select(*columns[:3], udf(*columns).alias("placement"))
    fields = ("start_index", "shift", "seed", "error")
    flat = placed.selectExpr(*columns[:3], *(f"placement.{name}" for name in fields), "placement.replicas AS lists")
    rows = flat.selectExpr(*columns[:3], *fields, "posexplode(lists) AS (partition, replicas)")
    names = ("partition", "replicas", *fields)
    values = {name: F.col(name) for name in names} | {"scheme": F.lit(KAFKA), "leader": F.get("replicas", F.lit(0))}
    return as_table(rows, values)


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
        ARROW: lambda topics: arrow_rows(topics, live),
        CONSTANT: lambda topics: constant_rows(topics, arguments.partitions),
    }
    # The last one writes a table as Delta creates it, with statistics of every column.
    ways = [
        (STAGE, PLACEMENTS),
        (ARROW, PLACEMENTS),
        (CONSTANT, PLACEMENTS),
        (CONSTANT, replace(PLACEMENTS, skip_by=())),
    ]
    names = [STAGE, ARROW, CONSTANT, f"{CONSTANT}, default statistics"]
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
        print(f"  {name:34} {middle:6.2f} s ({spread}), {rate}, the stage takes {stage / middle:.2f} times as long")
    spark.stop()


if __name__ == "__main__":
    main()
