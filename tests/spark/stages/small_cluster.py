"""A cluster that fits on one hand: the input of the tests of placements, loads, failures and durability.

| partition | replicas | leader | in sync | bytes | in/s | out/s |                                        |
|-----------|----------|--------|---------|-------|------|-------|----------------------------------------|
| clicks-0  | 1, 3     | 1      | 1       | 300   | 30   | 60    | broker 3 lags by 7 messages            |
| logs-0    | 3        | 3      | 3       | 400   | 40   | 80    |                                        |
| orders-0  | 1, 2     | 1      | 1, 2    | 100   | 10   | 20    | min.insync.replicas of orders is 2     |
| orders-1  | 2, 3     | 2      | 2, 3    | 200   | 20   | 40    |                                        |

Brokers 1 and 3 are live, broker 2 is of unknown state and counts as live, broker 4 is down. Broker 1 is in rack a,
brokers 2 and 3 are in rack b. Only clicks allows unclean elections.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.spark.stages.frames import Frames, input_frame

_LEADER_LOG = {"offset_lag": 0}


def make_small_cluster(spark: SparkSession) -> Frames:
    """Create the frames of silver.brokers, silver.topics and silver.partitions."""
    brokers = input_frame(
        spark,
        "silver.brokers",
        "broker_id rack live",
        [(1, "a", True), (2, "b", None), (3, "b", True), (4, "a", False)],
    )
    topics = input_frame(
        spark,
        "silver.topics",
        "topic partitions listed_partitions replication_factor min_insync_replicas unclean_leader_election",
        [("clicks", 1, 1, 2, None, True), ("logs", 1, 1, 1, None, None), ("orders", 2, 2, 2, 2, None)],
    )
    partitions = input_frame(
        spark,
        "silver.partitions",
        "topic partition replicas leader isr size_bytes bytes_in_per_s bytes_out_per_s logs replica_sizes",
        [
            ("clicks", 0, [1, 3], 1, [1], 300, 30.0, 60.0, [_LEADER_LOG, {"offset_lag": 7}], [300, 300]),
            ("logs", 0, [3], 3, [3], 400, 40.0, 80.0, None, [400]),
            ("orders", 0, [1, 2], 1, [1, 2], 100, 10.0, 20.0, None, [100, 100]),
            ("orders", 1, [2, 3], 2, [2, 3], 200, 20.0, 40.0, None, [200, 200]),
        ],
    )
    return {"silver.brokers": brokers, "silver.topics": topics, "silver.partitions": partitions}
