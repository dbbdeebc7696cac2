"""gold.hotspot_distribution: each seed counts what a run with it places, however the seeds are divided into chunks."""

from __future__ import annotations

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from pipelines.stages.placement_stages import PlacementParameters, computed_placements, hotspot_distribution
from pipelines.tables import TABLES
from tests.spark.test_placements import topic
from udfs.hotspots.hotspot_distribution import TrialOptions
from udfs.placement.topic_placement import LiveBrokers

SCHEMES = ("kafka", "kraft", "naive")
IDS, RACKS = (1, 2, 5, 9), ("b", "a", "b", "a")
LOADS = [Row(partition, 10, None, None) for partition in (0, 4, 5)]
TOPICS = [topic(f"t{i}", i % 9 + 1, i % 3 + 1) for i in range(30)]
TOPICS += [topic("gaps", 9, 2, LOADS), topic("whole", 2, 2, [Row(0, 1, None, None), Row(1, 1, None, None)])]
TOPICS += [topic("wide", 3, 5)]


def table(spark: SparkSession, name: str, *rows: dict) -> DataFrame:
    schema = TABLES[name].schema
    full = [tuple({"cluster_id": "c", "snapshot_id": "s", **row}.get(field) for field in schema.names) for row in rows]
    for field in schema.fields:
        field.nullable = True
    return spark.createDataFrame(full, schema)


def brokers(spark: SparkSession) -> DataFrame:
    rows = [{"broker_id": b, "rack": r, "live": True} for b, r in zip(IDS, RACKS, strict=True)]
    lost = [{"cluster_id": "lost", "broker_id": 3, "live": False}]
    return table(spark, "silver.brokers", *rows, {"broker_id": 7, "rack": "a", "live": False}, *lost)


def distribution(spark: SparkSession, seeds: int, chunks: int, limit: int = 10**9) -> dict[tuple[str, str], Row]:
    leaders = [1, 1, 1, 5, 9, 7, -1]
    observed = [{"topic": "t", "partition": i, "leader": b, "replicas": [abs(b)]} for i, b in enumerate(leaders)]
    topics = table(spark, "silver.topics", *TOPICS, topic("t", 1, 1) | {"cluster_id": "lost"})
    frames = (topics, brokers(spark), table(spark, "silver.partitions", *observed))
    options = TrialOptions(SCHEMES, 100, seeds, limit, (1.1, 3.0), chunks)
    return {(r.cluster_id, r.scheme): r for r in hotspot_distribution(*frames, options).collect()}


def test_one_seed_counts_what_a_run_places(spark: SparkSession) -> None:
    topics, live = table(spark, "silver.topics", *TOPICS), {("c", "s"): LiveBrokers(IDS, RACKS)}
    placed = computed_placements(topics, PlacementParameters(SCHEMES, 100, live)).where("replicas IS NOT NULL")
    of_leaders = (F.max("count").alias("most"), F.sum("count").alias("partitions"))
    by_run = placed.groupBy("scheme", "leader").count().groupBy("scheme").agg(*of_leaders).collect()
    rows = distribution(spark, seeds=1, chunks=1)
    assert {r.scheme for r in by_run} == set(SCHEMES)
    for run in by_run:
        row, ratio = rows["c", run.scheme], run.most / (run.partitions / len(IDS))
        assert row.leaders_max_over_mean_p5_ratio == row.leaders_max_over_mean_highest_ratio == ratio
        assert row.exceedance_probabilities == [
            Row(above_ratio=1.1, probability=float(ratio > 1.1)),
            Row(above_ratio=3.0, probability=0.0),
        ]
        assert (row.seeds, row.brokers, row.partitions, row.unplaceable_topics) == (1, 4, run.partitions, 1)
        # Three of the five partitions that live brokers lead are led by broker 1.
        assert (row.observed_leaders_max, row.observed_max_over_mean_ratio) == (3, 3 / (5 / 4))
    lost = rows["lost", "kafka"]
    assert (
        lost.seeds,
        lost.brokers,
        lost.unplaceable_topics,
        lost.exceedance_probabilities,
        lost.observed_percent,
    ) == (0, 0, 1, None, None)


def test_chunks_change_nothing_and_placed_topics_are_limited(spark: SparkSession) -> None:
    whole = distribution(spark, seeds=3, chunks=1)
    assert distribution(spark, seeds=9, chunks=3, limit=200) == whole | {
        key: row for key, row in distribution(spark, seeds=1, chunks=1).items() if key[1] == "kraft"
    }
    assert [whole["c", name].seeds for name in SCHEMES] == [3, 3, 1]
