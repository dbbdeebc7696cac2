"""gold.topic_origin of topics placed over three brokers, and gold.cluster_origin of some origins."""

from __future__ import annotations

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession

from tests.spark.stages.frames import SAME_ROWS, expected_frame, input_frame, run_stage, select_columns

# Kafka's round robin over 1, 2, 3 from start index 1 with shift 0: leaders 2, 3, 1, 2, ...; the follower is the next
# broker, and the one after that from partition 3 on, as the shift grows by one each round.
ORDERS = [[2, 3], [3, 1], [1, 2], [2, 1], [3, 2], [1, 3]]
# Two partitions led by one broker: no round robin does that.
MANUAL = [[1, 2], [1, 2], [1, 3]]


@pytest.mark.stage("gold.topic_origin")
def test_origin_of_topics(spark: SparkSession) -> None:
    lists = [("orders", i, replicas) for i, replicas in enumerate(ORDERS)]
    lists += [("manual", i, replicas) for i, replicas in enumerate(MANUAL)]
    brokers = [(1, None, True), (2, None, None), (3, None, True)]  # unknown counts as live
    frames = {
        "silver.topics": input_frame(spark, "silver.topics", "topic", [("orders",), ("manual",), ("unseen",)]),
        "silver.partitions": input_frame(
            spark, "silver.partitions", "topic partition replicas", [*lists, ("unseen", 0, None)]
        ),
        "silver.brokers": input_frame(spark, "silver.brokers", "broker_id rack live", brokers),
    }
    columns = (
        "topic origin matching_schemes evidence broker_order start_index shift expanded_from_partition "
        "partitions_checked first_mismatch_partition note"
    )
    no_pattern = (None, None, None, None)
    expected = [
        # Of twelve replicas, the first leader and the first follower show start index and shift; ten follow from them.
        ("orders", "kafka", ["kafka"], 10, [1, 2, 3], 1, 0, None, 6, None, None),
        # Partition 1 should be led by broker 2.
        ("manual", "none", [], 0, *no_pattern, 3, 1, "deviates from Kafka's round robin at partition 1"),
        ("unseen", "unknown", [], 0, *no_pattern, 0, None, "no replicas are known"),
    ]
    assert_df_equality(
        select_columns(run_stage("gold.topic_origin", frames), columns),
        expected_frame(spark, "gold.topic_origin", columns, expected),
        **SAME_ROWS,
    )


@pytest.mark.stage("gold.cluster_origin")
def test_origins_of_a_cluster(spark: SparkSession) -> None:
    origins = [
        ("a", "kafka", 10, [1, 2, 3]),
        ("b", "kafka", 0, [1, 3]),  # inconclusive
        ("c", "kafka_rack_aware", 5, [1, 3]),
        ("d", "kraft", 4, None),
        ("e", "naive", 3, [1, 2, 3]),
        ("f", "none", 0, None),
        ("g", "none", 0, None),
        ("h", "unknown", 0, None),
    ]
    frame = input_frame(spark, "gold.topic_origin", "topic origin evidence broker_order", origins)
    actual = run_stage("gold.cluster_origin", {"gold.topic_origin": frame})
    columns = (
        "topics inconclusive_topics kafka_topics kafka_rack_aware_topics kraft_topics naive_topics none_topics "
        "unknown_topics kafka_placed_percent kafka_placed_conclusive_percent broker_order broker_order_topics "
        "broker_orders"
    )
    # By Kafka: a, b, c, d of seven known origins; without b, three of six. Order 1, 3 of b and c has most topics; that
    # of the naive scheme does not count.
    expected = [(8, 1, 2, 1, 1, 1, 2, 1, 400 / 7, 50.0, [1, 3], 2, 2)]
    assert_df_equality(
        select_columns(actual, columns), expected_frame(spark, "gold.cluster_origin", columns, expected), **SAME_ROWS
    )
