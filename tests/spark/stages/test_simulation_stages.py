"""The tables of a replay in which messages are produced, and a broker fails and returns.

| seconds | what happens                                                                                            |
|---------|---------------------------------------------------------------------------------------------------------|
| 5       | 4 messages are produced to orders-0 with acks=all                                                       |
| 6, 7    | broker 2 fetches them, then asks for more: its leader knows that it has them, and answers the producer  |
| 10      | broker 1 fails: broker 2 leads orders-0, none leads solo-0                                              |
| 20      | solo-0 rejects a produce request                                                                        |
| 40      | broker 1 returns, and leads solo-0 again                                                                |
| 50      | broker 1 has all of orders-0, and joins its ISR                                                         |
| 55      | a consumer reads both partitions with one request                                                       |
| 65      | the replay ends                                                                                         |
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from chispa import assert_approx_df_equality, assert_df_equality
from pyspark.sql import DataFrame, SparkSession

from pipelines.simulation.cluster_replay import ReplayRequest, parse_until, run_replay
from pipelines.stages import simulation_stages
from tests.spark.stages.frames import CLOSE_ROWS, KEYS, SAME_ROWS, Rows, expected_frame, select_columns

SCENARIO = """
brokers: [1, 2, 3]
controller: 3
topics: {orders: [[1, 2]], solo: [[1]]}
settings: {auto_leader_rebalance: false}
events:
  - t=5 produce 4 to orders-0 acks=all
  - t=6 broker 2 fetches orders-0 wait=0ms
  - t=7 broker 2 fetches orders-0 wait=0ms
  - t=10 broker 1 down
  - t=20 produce 1 to solo-0 acks=all
  - t=40 broker 1 up
  - t=50 broker 1 fetches orders-0 wait=0ms
  - t=55 consumer fetches orders-0,solo-0 from 0 wait=0ms
"""


@pytest.fixture(scope="module")
def events(spark_application: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Rows of silver.cluster_events, with the keys of all these tests."""
    file = tmp_path_factory.mktemp("scenario") / "failure.yaml"
    file.write_text(SCENARIO)
    log = run_replay(ReplayRequest([str(file)], until=parse_until("t=65s"))).log
    for i, (name, value) in enumerate(KEYS.items()):
        log = log.set_column(i, name, pa.repeat(value, log.num_rows))
    return spark_application.createDataFrame(log)


@pytest.fixture(scope="module")
def results(events: DataFrame) -> DataFrame:
    """Rows of internal.simulation_results, of partitions on two shards."""
    return simulation_stages.simulate_events(events, 2).localCheckpoint()


@pytest.mark.stage("silver.cluster_events")
def test_events_of_a_scenario(spark: SparkSession, events: DataFrame) -> None:
    """Event -1 is the initial state. A request for two partitions is two events."""
    columns = "event at_ms offset kind broker_id topic partition value replicas isr elr leader leader_epoch numbers"
    clients = "event kind broker_id topic partition request parts acks messages wait_ms min_bytes fetch_offset"
    unchanged = (0, None, None, None, None, -1, None)  # value 0, and no new state of a partition
    # Settings (see ClusterSettings.to_numbers), start and end, number of events, controller and its epoch.
    setup = [0, 0, 0, 300_000, 5_000, 10, 30_000, 0, 100, 0, 5_000, 1, 1, 5_000, 65_000, 9, 3, 1]
    partition = [0, 1, 0]  # no unclean elections, min.insync.replicas, controller epoch
    expected: Rows = [
        (-1, 5_000, None, "cluster at first", None, None, None, None, None, None, None, None, None, setup),
        *(
            (-1, 5_000, None, "broker at first", i, None, None, 1, None, None, None, None, None, None)
            for i in (1, 2, 3)
        ),
        (-1, 5_000, None, "partition at first", None, "orders", 0, None, [1, 2], [1, 2], [], 1, 0, partition),
        (-1, 5_000, None, "partition at first", None, "solo", 0, None, [1], [1], [], 1, 0, partition),
        (0, 5_000, 0, "append", None, "orders", 0, *unchanged),
        (1, 6_000, 1, "fetch", 2, "orders", 0, *unchanged),
        (2, 7_000, 2, "fetch", 2, "orders", 0, *unchanged),
        (3, 10_000, 3, "broker down", 1, None, None, *unchanged),
        (4, 20_000, 4, "append", None, "solo", 0, *unchanged),
        (5, 40_000, 5, "broker up", 1, None, None, *unchanged),
        (6, 50_000, 6, "fetch", 1, "orders", 0, *unchanged),
        (7, 55_000, 7, "fetch", None, "orders", 0, *unchanged),
        (8, 55_000, 7, "fetch", None, "solo", 0, *unchanged),
    ]
    assert_df_equality(
        select_columns(events, columns), expected_frame(spark, "silver.cluster_events", columns, expected), **SAME_ROWS
    )
    requests = [
        (0, "append", None, "orders", 0, 0, 1, -1, 4, 30_000, 1, None),
        (4, "append", None, "solo", 0, 3, 1, -1, 1, 30_000, 1, None),
        (7, "fetch", None, "orders", 0, 5, 2, 1, 0, 0, 1, 0),
        (8, "fetch", None, "solo", 0, 5, 2, 1, 0, 0, 1, 0),
    ]
    assert_df_equality(
        select_columns(events.where("event IN (0, 4, 7, 8)"), clients),
        expected_frame(spark, "silver.cluster_events", clients, requests),
        **SAME_ROWS,
    )


@pytest.mark.stage("internal.simulation_results")
def test_results_have_rows_of_every_kind(spark: SparkSession, results: DataFrame) -> None:
    """The rows are packed: the tables below show them."""
    kinds = ("leaderships", "transitions", "health", "requests", "requests_of_parts", "final_partitions")
    assert_df_equality(
        select_columns(results, "part").distinct(),
        expected_frame(spark, "internal.simulation_results", "part", [(kind,) for kind in kinds]),
        **SAME_ROWS,
    )


@pytest.mark.stage("gold.leadership_events")
def test_leaders_and_isrs(spark: SparkSession, results: DataFrame) -> None:
    """Each election raises the leader epoch, a larger ISR does not. The last member stays in the ISR of solo-0."""
    columns = "event at_ms topic partition step cause leader_before leader leader_epoch controller_epoch isr"
    expected = [
        (3, 10_000, "orders", 0, 0, "leader failed", 1, 2, 1, 1, [2]),
        (3, 10_000, "solo", 0, 0, "no leader can be elected", 1, None, 1, 1, [1]),
        (5, 40_000, "solo", 0, 0, "leader failed", None, 1, 2, 1, [1]),  # the election that the failure requires
        (6, 50_000, "orders", 0, 0, "isr expanded", 2, 2, 1, 1, [2, 1]),
    ]
    assert_df_equality(
        select_columns(simulation_stages.build_leadership_events(results), columns),
        expected_frame(spark, "gold.leadership_events", columns, expected),
        **SAME_ROWS,
    )


@pytest.mark.stage("gold.state_transitions")
def test_states_of_partitions_and_replicas(spark: SparkSession, results: DataFrame) -> None:
    """After a failure: partitions go offline, elections, replicas go offline. After a return: replicas, elections."""
    columns = "event at_ms topic partition step broker_id from_state to_state cause leader_epoch controller_epoch legal"
    partition = ("OnlinePartition", "OfflinePartition")
    replica = ("OnlineReplica", "OfflineReplica")
    at_failure, at_return = (3, 10_000), (5, 40_000)
    expected = [
        (*at_failure, "orders", 0, 0, None, *partition, "leader failed", 0, 1, True),
        (*at_failure, "orders", 0, 1, None, *reversed(partition), "leader failed", 1, 1, True),
        (*at_failure, "orders", 0, 2, 1, *replica, "isr shrunk", 1, 1, True),
        (*at_failure, "solo", 0, 0, None, *partition, "leader failed", 0, 1, True),
        (*at_failure, "solo", 0, 1, 1, *replica, "isr shrunk", 1, 1, True),
        (*at_return, "orders", 0, 0, 1, *reversed(replica), "metadata update", 1, 1, True),
        (*at_return, "solo", 0, 0, 1, *reversed(replica), "metadata update", 1, 1, True),
        (*at_return, "solo", 0, 1, None, *reversed(partition), "leader failed", 2, 1, True),
    ]
    assert_df_equality(
        select_columns(simulation_stages.build_state_transitions(results), columns),
        expected_frame(spark, "gold.state_transitions", columns, expected),
        **SAME_ROWS,
    )


@pytest.mark.stage("gold.replication_health")
def test_periods_of_unchanged_health(spark: SparkSession, results: DataFrame) -> None:
    actual = simulation_stages.build_replication_health(results).localCheckpoint()
    columns = (
        "topic partition from_ms to_ms leader leader_epoch replication_factor in_sync min_insync_replicas "
        "under_replicated at_min_isr under_min_isr at_the_end replicas"
    )
    expected = [
        ("orders", 0, 5_000, 10_000, 1, 0, 2, 2, 1, False, False, False, False, None),
        ("orders", 0, 10_000, 50_000, 2, 1, 2, 1, 1, True, True, False, False, None),
        ("orders", 0, 50_000, 65_000, 2, 1, 2, 2, 1, False, False, False, True, [1, 2]),
        ("solo", 0, 5_000, 10_000, 1, 0, 1, 1, 1, False, True, False, False, None),
        ("solo", 0, 10_000, 40_000, None, 1, 1, 1, 1, False, True, False, False, None),
        ("solo", 0, 40_000, 65_000, 1, 2, 1, 1, 1, False, True, False, True, [1]),
    ]
    assert_df_equality(
        select_columns(actual, columns),
        expected_frame(spark, "gold.replication_health", columns, expected),
        **SAME_ROWS,
    )
    # All four messages are below the high watermark since second 7, on both brokers since broker 1 returned.
    offsets = (
        "from_ms log_end_offset high_watermark visible_offset exposed_acks_0_messages exposed_acks_1_messages "
        "exposed_acks_all_messages log_end_offsets high_watermarks lag_messages"
    )
    expected_offsets = [
        (5_000, 4, 4, 4, 0, 0, 0, None, None, None),
        (10_000, 4, 4, 4, 0, 0, 0, None, None, None),
        (50_000, 4, 4, 4, 0, 0, 0, [4, 4], [4, 4], 0),
    ]
    assert_df_equality(
        select_columns(actual.where("topic = 'orders'"), offsets),
        expected_frame(spark, "gold.replication_health", offsets, expected_offsets),
        **SAME_ROWS,
    )


@pytest.mark.stage("gold.requests")
def test_requests(spark: SparkSession, results: DataFrame) -> None:
    actual = simulation_stages.build_requests(results).localCheckpoint()
    answers = (
        "request event at_ms topic partition kind broker_id parts acks delayed error answered_by answered_at_ms "
        "waited_ms part_error part_answered_at_ms"
    )
    produce, replica, consumer = "produce", "fetch of a replica", "fetch of a consumer"
    no_leader = "LEADER_NOT_AVAILABLE"
    expected = [
        # The second fetch of broker 2 raises the high watermark: then both replicas have the messages.
        (0, 0, 5_000, "orders", 0, produce, None, 1, -1, True, "NONE", "high watermark", 7_000, 2_000, "NONE", 7_000),
        (1, 1, 6_000, "orders", 0, replica, 2, 1, None, False, "NONE", "at once", 6_000, 0, "NONE", 6_000),
        (2, 2, 7_000, "orders", 0, replica, 2, 1, None, False, "NONE", "at once", 7_000, 0, "NONE", 7_000),
        (3, 4, 20_000, "solo", 0, produce, None, 1, -1, False, no_leader, "at once", 20_000, 0, no_leader, 20_000),
        (4, 6, 50_000, "orders", 0, replica, 1, 1, None, False, "NONE", "at once", 50_000, 0, "NONE", 50_000),
        (5, 7, 55_000, "orders", 0, consumer, None, 2, None, False, "NONE", "at once", 55_000, 0, "NONE", 55_000),
        (5, 8, 55_000, "solo", 0, consumer, None, 2, None, False, "NONE", "at once", 55_000, 0, "NONE", 55_000),
    ]
    assert_df_equality(
        select_columns(actual, answers), expected_frame(spark, "gold.requests", answers, expected), **SAME_ROWS
    )
    data = "event base_offset messages high_watermark lost_messages lost_at_ms"
    expected_data = [
        (0, 0, 4, None, 0, None),
        (1, 0, 4, 0, 0, None),  # reads all four, which no other broker is known to have yet
        (2, 4, 0, 4, 0, None),
        (4, None, 0, None, 0, None),  # rejected
        (6, 4, 0, 4, 0, None),
        (7, 0, 4, 4, 0, None),
        (8, 0, 0, 0, 0, None),  # nothing was ever written
    ]
    assert_df_equality(
        select_columns(actual, data), expected_frame(spark, "gold.requests", data, expected_data), **SAME_ROWS
    )


@pytest.mark.stage("gold.final_partitions")
def test_partitions_at_the_end(spark: SparkSession, results: DataFrame) -> None:
    """Broker 2 still leads orders-0: there was no preferred election."""
    columns = "topic partition leader leader_epoch controller_epoch replicas isr elr state"
    expected: Rows = [
        ("orders", 0, 2, 1, 1, [1, 2], [2, 1], [], "OnlinePartition"),
        ("solo", 0, 1, 2, 1, [1], [1], [], "OnlinePartition"),
    ]
    assert_df_equality(
        select_columns(simulation_stages.build_final_partitions(results), columns),
        expected_frame(spark, "gold.final_partitions", columns, expected),
        **SAME_ROWS,
    )


@pytest.mark.stage("gold.availability")
def test_time_without_a_leader(spark: SparkSession, results: DataFrame) -> None:
    """The replay lasts 60 s. Solo-0 always has its one replica in the ISR, which is the minimum."""
    columns = (
        "topic partition observed_ms without_leader_ms under_replicated_ms at_min_isr_ms under_min_isr_ms outages "
        "longest_outage_ms led_ratio"
    )
    of_orders = (60_000, 0, 40_000, 40_000, 0, 0, 0, 1.0)
    of_solo = (60_000, 30_000, 0, 60_000, 0, 1, 30_000, 0.5)
    expected = [
        (topic, partition, *values)
        for topic, values in (("orders", of_orders), ("solo", of_solo))
        for partition in (0, -1)  # -1 = the whole topic, which has one partition
    ]
    health = simulation_stages.build_replication_health(results)
    assert_approx_df_equality(
        select_columns(simulation_stages.build_availability(health), columns),
        expected_frame(spark, "gold.availability", columns, expected),
        **CLOSE_ROWS,
    )
