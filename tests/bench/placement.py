"""Placing a million partitions, beside Spark's own write of as many constant rows: `make bench`.

Both write Delta tables of the same contract (gold.placements) in the same session, in turn. The figure is the ratio
of the medians: 1.0 = the stage, with its write, costs what Spark's write alone costs.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from dataclasses import replace
from time import monotonic

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.ingest.sources import SnapshotKey
from pipelines.spark.session import open_session
from pipelines.spark.store import Store
from pipelines.stages.placement_stage import PlacementParameters, computed_placements
from pipelines.tables import TABLES
from pipelines.tables.placement_tables import PLACEMENTS
from udfs.placement.schemes import KAFKA
from udfs.placement.topic_batches import LiveBrokers

BENCH = SnapshotKey("bench", "bench")
CONSTANT = "constant rows"


def topics(spark: SparkSession, count: int, partitions: int) -> DataFrame:
    """`count` rows of silver.topics, made by Spark as it makes the constant rows."""
    schema = TABLES["silver.topics"].schema
    values = {
        "cluster_id": F.lit(BENCH.cluster_id),
        "snapshot_id": F.lit(BENCH.snapshot_id),
        "topic": F.format_string("topic-%06d", F.col("id")),
        "partitions": F.lit(partitions),
        "replication_factor": F.lit(3),
        "listed_partitions": F.lit(partitions),
        "marked_for_deletion": F.lit(False),
        "incomplete": F.lit(False),
    }
    columns = [values.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in schema]
    return spark.range(count).select(*columns)


def constant_rows(topics: DataFrame, partitions: int) -> DataFrame:
    """As many rows of gold.placements as the stage makes of `topics`, exploded by Spark, all but the key constant."""
    values = {
        "scheme": F.lit(KAFKA),
        "partition": F.col("partition"),
        "replicas": F.array(F.lit(1), F.lit(2), F.lit(3)),
        "leader": F.lit(1),
        "start_index": F.lit(1),
        "shift": F.lit(2),
        "seed": F.lit(42),
    }
    key = ("cluster_id", "snapshot_id", "topic")
    rows = topics.select(*key, F.explode(F.sequence(F.lit(0), F.lit(partitions - 1))).alias("partition"))
    values |= {name: F.col(name) for name in key}
    return rows.select(*(values.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in PLACEMENTS.schema))


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
    # The same columns, partitioning and replacement of a snapshot; but for the last, the table as Delta makes it.
    plain = replace(PLACEMENTS, skip_by=())
    ways = {"the stage": PLACEMENTS, CONSTANT: plain, "constant rows, our table": PLACEMENTS}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(arguments.runs + 2):  # the first two warm up
            for number, (name, table) in enumerate(ways.items()):
                out = Store(spark, f"{folder}/{number}-{turn}")
                out.create(table)
                began = monotonic()
                given = topics(spark, arguments.topics, arguments.partitions)
                rows = (
                    computed_placements(given, parameters)
                    if name == "the stage"
                    else constant_rows(given, arguments.partitions)
                )
                out.replace(table, rows, [BENCH])
                if turn > 1:
                    seconds[name].append(monotonic() - began)
                assert out.read("gold.placements").count() == arguments.topics * arguments.partitions
    total = arguments.topics * arguments.partitions
    print(f"{total} partitions of {arguments.topics} topics on {arguments.brokers} brokers, {arguments.runs} runs each")
    for name, values in seconds.items():
        spread = f"{min(values):.2f} to {max(values):.2f}"
        middle = statistics.median(values)
        print(f"  {name:24} -> Delta  median {middle:6.2f} s ({spread}), {total / middle / 1e6:.2f} M rows/s")
    stage = statistics.median(seconds["the stage"])
    for name in list(ways)[1:]:
        print(f"  ratio stage / {name}: {stage / statistics.median(seconds[name]):.2f}")
    spark.stop()


if __name__ == "__main__":
    main()
