"""gold.topic_origin and gold.cluster_origin: several clusters at once, each judged on its own."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from pipelines.stages.placement_stages import cluster_origin, topic_origin
from pipelines.tables import TABLES
from tests.unit.origin.test_origin_captures import BY_HAND, topics_of

CAPTURES = {
    "zk": ("kafka-2.8.2-zookeeper", dict.fromkeys(range(1000, 1005))),
    "kraft": ("kafka-4.1.1-kraft", {b: f"r{b % 3}" for b in range(6)}),
}


def frame(spark: SparkSession, table: str, rows: list[tuple]) -> DataFrame:
    """Create a frame with the columns that the stage reads, keys first."""
    names = {
        "silver.topics": ("topic",),
        "silver.partitions": ("topic", "partition", "replicas"),
        "silver.brokers": ("broker_id", "rack", "live", "cordoned"),
    }
    fields = [TABLES[table].schema[name] for name in ("cluster_id", "snapshot_id", *names[table])]
    return spark.createDataFrame(rows, type(TABLES[table].schema)(fields))


def test_both_captures_at_once(spark: SparkSession, samples: Path) -> None:
    topics, partitions, brokers = [], [], []
    for cluster, (folder, racks) in CAPTURES.items():
        key = (cluster, "s")
        brokers += [(*key, broker, rack, True, None) for broker, rack in racks.items()]
        for name, replica_lists in topics_of(samples / folder / "topics-describe.txt").items():
            topics.append((*key, name))
            partitions += [(*key, name, partition, replicas) for partition, replicas in replica_lists.items()]
    topics += [("zk", "s", "unseen"), ("no-brokers", "s", "orders")]
    partitions += [("zk", "s", "unseen", 0, None), ("no-brokers", "s", "orders", 0, [3, 1])]
    origins = topic_origin(
        frame(spark, "silver.topics", topics),
        frame(spark, "silver.partitions", partitions),
        frame(spark, "silver.brokers", brokers),
    ).cache()
    found = {(r.cluster_id, r.topic): r for r in origins.collect()}
    assert len(found) == len(topics)
    assert {topic for (cluster, topic), r in found.items() if cluster == "kraft" and r.origin == "none"} == BY_HAND
    assert {topic for (cluster, topic), r in found.items() if cluster == "zk" and r.origin != "kafka"} == {
        "topicB",
        "unseen",
    }
    assert found["zk", "unseen"].origin == "unknown"

    clusters = {r.cluster_id: r for r in cluster_origin(origins).collect()}
    assert set(clusters) == {"zk", "kraft", "no-brokers"}
    zk, kraft = clusters["zk"], clusters["kraft"]
    assert (zk.topics, zk.kafka_topics, zk.none_topics, zk.unknown_topics, zk.inconclusive_topics) == (17, 15, 1, 1, 0)
    assert (zk.broker_order, zk.broker_order_topics, zk.broker_orders) == ([1000, 1001, 1003, 1004, 1002], 15, 1)
    assert zk.kafka_placed_percent == zk.kafka_placed_conclusive_percent == 100 * 15 / 16
    assert (kraft.topics, kraft.kraft_topics, kraft.none_topics) == (121, 110, 11)
    assert (kraft.broker_order, kraft.broker_orders) == (None, 0)
    assert kraft.kafka_placed_conclusive_percent < kraft.kafka_placed_percent
