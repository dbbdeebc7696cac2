"""Placing a million partitions, beside Spark's own write of as many constant rows: `make bench`.

Both write Delta tables of the same contract (gold.placements) in the same session, in turn. The figure is the ratio
of the medians: 1.0 = the stage, with its write, costs what Spark's write alone costs.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from time import monotonic

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.ingest.sources import SnapshotKey
from pipelines.session import open_session
from pipelines.stages.placements import PlacementParameters, computed_placements
from pipelines.store import Store
from pipelines.tables import TABLES
from pipelines.tables.gold import PLACEMENTS
from udfs.schemes import KAFKA

BENCH = SnapshotKey("bench", "bench")


def topics(spark: SparkSession, count: int, partitions: int) -> DataFrame:
    """`count` rows of silver.topics, made by Spark as it makes the constant rows."""
    schema = TABLES["silver.topics"].schema
    values = {
        "cluster_id": F.lit(BENCH.cluster_id),
        "snapshot_id": F.lit(BENCH.snapshot_id),
        "topic": F.format_string("topic-%06d", F.col("id")),
        "partitions": F.lit(partitions),
        "replication_factor": F.lit(3),
        "partitions_shown": F.lit(partitions),
        "marked_for_deletion": F.lit(False),
        "incomplete": F.lit(False),
    }
    columns = [values.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in schema]
    return spark.range(count).select(*columns)


def constant_rows(spark: SparkSession, topic_count: int, partitions: int) -> DataFrame:
    """As many rows of gold.placements as the stage makes, each a constant that Spark explodes by itself."""
    values = {
        "cluster_id": F.lit(BENCH.cluster_id),
        "snapshot_id": F.lit(BENCH.snapshot_id),
        "scheme": F.lit(KAFKA),
        "topic": F.format_string("topic-%06d", F.col("id")),
        "partition": F.col("partition"),
        "replicas": F.array(F.lit(1), F.lit(2), F.lit(3)),
        "leader": F.lit(1),
        "start_index": F.lit(1),
        "shift": F.lit(2),
        "seed": F.lit(42),
    }
    rows = spark.range(topic_count).select(
        "id", F.explode(F.sequence(F.lit(0), F.lit(partitions - 1))).alias("partition")
    )
    return rows.select(*(values.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in PLACEMENTS.schema))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=100_000)
    parser.add_argument("--partitions", type=int, default=10)
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    spark = open_session("bench", warehouse=None)
    living = {(BENCH.cluster_id, BENCH.snapshot_id): range(arguments.brokers)}
    parameters = PlacementParameters((KAFKA,), 1, living)
    seconds: dict[str, list[float]] = {"stage": [], "constant rows": []}
    with tempfile.TemporaryDirectory() as folder:
        key = [BENCH]
        for turn in range(arguments.runs + 1):  # the first warms up
            for name in seconds:
                out = Store(spark, f"{folder}/{name.split()[0]}-{turn}")
                out.create(PLACEMENTS)
                began = monotonic()
                if name == "stage":
                    rows = computed_placements(topics(spark, arguments.topics, arguments.partitions), parameters)
                else:
                    rows = constant_rows(spark, arguments.topics, arguments.partitions)
                out.replace(PLACEMENTS, rows, key)
                if turn:
                    seconds[name].append(monotonic() - began)
                assert out.read("gold.placements").count() == arguments.topics * arguments.partitions
    total = arguments.topics * arguments.partitions
    print(f"{total} partitions of {arguments.topics} topics on {arguments.brokers} brokers, {arguments.runs} runs each")
    for name, values in seconds.items():
        spread = f"{min(values):.2f} to {max(values):.2f}"
        middle = statistics.median(values)
        print(f"  {name:14} -> Delta  median {middle:6.2f} s ({spread}), {total / middle / 1e6:.2f} M rows/s")
    ratio = statistics.median(seconds["stage"]) / statistics.median(seconds["constant rows"])
    print(f"  ratio stage / constant rows: {ratio:.2f}")
    spark.stop()


if __name__ == "__main__":
    main()
