"""What the brokers of the small cluster (see small_cluster.py) lead and hold, and what is lost with them."""

from __future__ import annotations

from math import sqrt

import pytest
from chispa import assert_approx_df_equality, assert_df_equality
from pyspark.sql import SparkSession

from tests.spark.stages.frames import (
    CLOSE_ROWS,
    SAME_ROWS,
    Frames,
    expected_frame,
    input_frame,
    run_stage,
    select_columns,
)
from udfs.network.traffic_rows import TRAFFIC_KINDS


# The naive scheme places clicks-0 and orders-0 on 1, 2, orders-1 on 2, 3, and logs-0 on 1. No topic lists the loads of
# its partitions, so the loads of placed ones are unknown.
@pytest.mark.stage("gold.current_loads")
def test_load_of_each_broker(spark: SparkSession, small_cluster: Frames) -> None:
    columns = "scheme broker_id rack leaders preferred_leaders replicas size_bytes bytes_in_per_s bytes_out_per_s"
    expected = [
        ("observed", 1, "a", 2, 2, 2, 400, 40.0, 80.0),  # clicks-0, orders-0
        ("observed", 2, "b", 1, 1, 2, 300, 30.0, 40.0),  # orders-0, orders-1
        ("observed", 3, "b", 1, 1, 3, 900, 90.0, 80.0),  # clicks-0, logs-0, orders-1
        ("naive", 1, "a", 3, 3, 3, None, None, None),
        ("naive", 2, "b", 1, 1, 3, None, None, None),
        ("naive", 3, "b", 0, 0, 1, None, None, None),
    ]
    assert_df_equality(
        select_columns(run_stage("gold.current_loads", small_cluster), columns),
        expected_frame(spark, "gold.current_loads", columns, expected),
        **SAME_ROWS,
    )


# Zones: broker 1 in a, brokers 2 and 3 in b. clicks-0 has no in-sync follower.
@pytest.mark.stage("gold.network_load")
def test_network_of_each_broker(spark: SparkSession, small_cluster: Frames) -> None:
    columns = (
        "scheme scenario_kind scenario broker_id rack producer_bytes_in_per_s replication_bytes_in_per_s "
        "replication_bytes_out_per_s consumer_bytes_out_per_s network_bytes_in_per_s network_bytes_out_per_s"
    )
    expected = [
        ("none", "none", 1, "a", 40.0, 0.0, 10.0, 80.0, 40.0, 90.0),  # leads clicks-0 and orders-0, which 2 follows
        ("none", "none", 2, "b", 20.0, 10.0, 20.0, 40.0, 30.0, 60.0),  # leads orders-1, which 3 follows
        ("none", "none", 3, "b", 40.0, 20.0, 0.0, 80.0, 60.0, 80.0),  # leads logs-0
        ("broker", "broker:1", 2, "b", 30.0, 0.0, 20.0, 60.0, 30.0, 80.0),  # also leads orders-0
        ("broker", "broker:1", 3, "b", 70.0, 20.0, 0.0, 140.0, 90.0, 140.0),  # also leads clicks-0
        ("broker", "broker:2", 1, "a", 40.0, 0.0, 0.0, 80.0, 40.0, 80.0),
        ("broker", "broker:2", 3, "b", 60.0, 0.0, 0.0, 120.0, 60.0, 120.0),  # also leads orders-1
        ("broker", "broker:3", 1, "a", 40.0, 0.0, 10.0, 80.0, 40.0, 90.0),
        ("broker", "broker:3", 2, "b", 20.0, 10.0, 0.0, 40.0, 30.0, 40.0),  # orders-1 has no follower
        ("rack", "rack:a", 2, "b", 30.0, 0.0, 20.0, 60.0, 30.0, 80.0),
        ("rack", "rack:a", 3, "b", 70.0, 20.0, 0.0, 140.0, 90.0, 140.0),
        ("rack", "rack:b", 1, "a", 40.0, 0.0, 0.0, 80.0, 40.0, 80.0),
        ("custom", "custom:1,2", 3, "b", 90.0, 0.0, 0.0, 180.0, 90.0, 180.0),  # all but orders-0
    ]
    loads = run_stage("gold.network_load", small_cluster)
    assert_approx_df_equality(
        select_columns(loads.where("scheme = 'observed'"), columns),
        expected_frame(spark, "gold.network_load", columns, [("observed", *row) for row in expected]),
        **CLOSE_ROWS,
    )
    assert loads.where("scheme = 'naive' AND network_bytes_out_per_s IS NOT NULL").count() == 0


@pytest.mark.stage("gold.zone_traffic")
def test_traffic_between_zones(spark: SparkSession, small_cluster: Frames) -> None:
    """Half of the clients are in each zone; a GB that crosses zones costs 0.50 to send, and 0.25 to receive."""
    columns = "scheme scenario_kind scenario traffic_kind from_zone to_zone bytes_per_s crosses_zones cost_per_month"
    none = ("observed", "none", "none")
    month = (0.5 + 0.25) * 30 * 86_400 / 1e9  # of a byte per second
    rack_a = ("observed", "rack", "rack:a")
    expected = [
        (*none, "replication", "a", "b", 10.0, True, 10 * month),
        (*none, "replication", "b", "b", 20.0, False, 0.0),
        (*none, "producers", "a", "a", 20.0, False, 0.0),
        (*none, "producers", "a", "b", 30.0, True, 30 * month),
        (*none, "producers", "b", "a", 20.0, True, 20 * month),
        (*none, "producers", "b", "b", 30.0, False, 0.0),
        (*none, "consumers", "a", "a", 40.0, False, 0.0),
        (*none, "consumers", "a", "b", 40.0, True, 40 * month),
        (*none, "consumers", "b", "a", 60.0, True, 60 * month),
        (*none, "consumers", "b", "b", 60.0, False, 0.0),
        (*rack_a, "replication", "b", "b", 20.0, False, 0.0),
        (*rack_a, "producers", "a", "b", 50.0, True, 50 * month),
        (*rack_a, "producers", "b", "b", 50.0, False, 0.0),
        (*rack_a, "consumers", "b", "a", 100.0, True, 100 * month),
        (*rack_a, "consumers", "b", "b", 100.0, False, 0.0),
    ]
    settings = ("prices.cross_zone_sent_per_gb=0.5", "prices.cross_zone_received_per_gb=0.25")
    actual = run_stage("gold.zone_traffic", small_cluster, *settings)
    assert_approx_df_equality(
        select_columns(actual.where("scheme = 'observed' AND scenario IN ('none', 'rack:a')"), columns),
        expected_frame(spark, "gold.zone_traffic", columns, expected),
        **CLOSE_ROWS,
    )
    naive = actual.where("scheme = 'naive' AND scenario = 'none'").drop("cluster_id", "snapshot_id", "scheme").collect()
    unknown = (None,) * 5  # zones, bytes, whether they cross, cost
    assert sorted(map(tuple, naive)) == [("none", "none", kind, *unknown) for kind in sorted(TRAFFIC_KINDS)]


@pytest.mark.stage("gold.load_history")
def test_totals_of_the_cluster_its_brokers_log_dirs_and_topics(spark: SparkSession, small_cluster: Frames) -> None:
    columns = (
        "subject_kind broker_id log_dir topic partitions replicas size_bytes bytes_in_per_s bytes_out_per_s "
        "partitions_with_size"
    )
    log_dirs = [(1, "/d", 410, 2), (2, "/d", 0, 0), (2, "/e", None, 2)]
    named = "broker_id log_dir used_bytes replicas"
    frames = {**small_cluster, "silver.log_dirs": input_frame(spark, "silver.log_dirs", named, log_dirs)}
    expected = [
        ("cluster", None, None, None, 4, 7, 1600, 100.0, 200.0, 4),
        ("broker", 1, None, None, 2, 2, 400, 40.0, 80.0, 2),
        ("broker", 2, None, None, 2, 2, 300, 30.0, 40.0, 2),
        ("broker", 3, None, None, 3, 3, 900, 90.0, 80.0, 3),
        ("broker", 4, None, None, 0, 0, None, None, None, 0),
        ("log_dir", 1, "/d", None, 2, 2, 410, None, None, 2),
        ("log_dir", 2, "/d", None, 0, 0, 0, None, None, 0),
        ("log_dir", 2, "/e", None, 2, 2, None, None, None, 0),
        ("topic", None, None, "clicks", 1, 2, 600, 30.0, 60.0, 1),
        ("topic", None, None, "logs", 1, 1, 400, 40.0, 80.0, 1),
        ("topic", None, None, "orders", 2, 4, 600, 30.0, 60.0, 2),
    ]
    assert_df_equality(
        select_columns(run_stage("gold.load_history", frames), columns),
        expected_frame(spark, "gold.load_history", columns, expected),
        **SAME_ROWS,
    )


@pytest.mark.stage("gold.leader_hotspots")
def test_leaders_of_the_cluster_and_of_each_topic(spark: SparkSession, small_cluster: Frames) -> None:
    """Hot is a broker with more than 1.1 times the mean."""
    columns = (
        "scheme topic brokers partitions leaders leaders_max leaders_mean hottest_broker hot_brokers "
        "preferred_leader_percent under_replicated_percent brokers_spread_percent brokers_skew_percent "
        "brokers_leader_skew_percent"
    )
    # Only clicks-0 has a replica that is not in sync. Brokers with an in-sync replica: of clicks 1, of logs 3, of
    # orders all; none of them has more than an even share.
    observed = [
        (None, 3, 4, 4, 2, 4 / 3, 1, [1], 100.0, 25.0, None, None, None),
        ("clicks", 3, 1, 1, 1, 1 / 3, 1, None, 100.0, 100.0, 100 / 3, 0.0, 0.0),
        ("logs", 3, 1, 1, 1, 1 / 3, 3, None, 100.0, 0.0, 100 / 3, 0.0, 0.0),
        ("orders", 3, 2, 2, 1, 2 / 3, 1, None, 100.0, 0.0, 100.0, 0.0, 0.0),
    ]
    naive = [
        (None, 3, 4, 4, 3, 4 / 3, 1, [1], 100.0, 0.0, None, None, None),
        ("clicks", 3, 1, 1, 1, 1 / 3, 1, None, 100.0, 0.0, 200 / 3, 0.0, 0.0),
        ("logs", 3, 1, 1, 1, 1 / 3, 1, None, 100.0, 0.0, 100 / 3, 0.0, 0.0),
        ("orders", 3, 2, 2, 1, 2 / 3, 1, None, 100.0, 0.0, 100.0, 0.0, 0.0),
    ]
    expected = [(scheme, *row) for scheme, rows in (("observed", observed), ("naive", naive)) for row in rows]
    assert_approx_df_equality(
        select_columns(run_stage("gold.leader_hotspots", small_cluster, "hotspots.hot_ratio=1.1"), columns),
        expected_frame(spark, "gold.leader_hotspots", columns, expected),
        **CLOSE_ROWS,
    )


# For x1 <= x2 <= x3 with mean m: cv = sqrt(mean of (x - m)^2) / m, Gini = (2 (x1 + 2 x2 + 3 x3) - 4 sum) / (3 sum),
# Jain = sum^2 / (3 sum of squares).
@pytest.mark.stage("gold.leader_hotspots")
def test_how_uneven_leaders_and_their_bytes_are(spark: SparkSession, small_cluster: Frames) -> None:
    columns = "scheme topic max_over_mean_ratio cv_ratio gini_ratio jain_ratio bytes_out_max_over_mean_ratio"
    one_broker = (3.0, sqrt(2), 2 / 3, 1 / 3)  # 0, 0, x
    even_pair = (1.5, sqrt(2) / 2, 1 / 3, 2 / 3)  # 0, 1, 1
    expected = [
        # 1, 1, 2 leaders; 40, 80, 80 bytes
        ("observed", None, 1.5, sqrt(2) / 4, 1 / 6, 16 / 18, 1.2),
        ("observed", "clicks", *one_broker, 3.0),
        ("observed", "logs", *one_broker, 3.0),
        ("observed", "orders", *even_pair, 2.0),  # 0, 20, 40 bytes
        ("naive", None, 9 / 4, sqrt(14) / 4, 1 / 2, 16 / 30, None),  # 0, 1, 3 leaders
        ("naive", "clicks", *one_broker, None),
        ("naive", "logs", *one_broker, None),
        ("naive", "orders", *even_pair, None),
    ]
    assert_approx_df_equality(
        select_columns(run_stage("gold.leader_hotspots", small_cluster), columns),
        expected_frame(spark, "gold.leader_hotspots", columns, expected),
        **CLOSE_ROWS,
    )


# Observed copysets: {1, 2}, {1, 3}, {2, 3}, {3}. Of one broker, only 3 loses a partition: logs-0. Of two, {1, 2} loses
# orders-0 (100 bytes), {1, 3} clicks-0 and logs-0 (700), {2, 3} orders-1 and logs-0 (600). Racks of a partition are
# {a, b} (clicks-0, orders-0) or {b}.
# Naive copysets: {1, 2}, {2, 3}, {1}. Of one broker, only 1 loses a partition: logs-0. Of two, {1, 2} loses clicks-0,
# orders-0 and logs-0, {1, 3} logs-0, {2, 3} orders-1. Racks of a partition are {a, b}, {b} (orders-1) or {a} (logs-0).
@pytest.mark.stage("gold.durability")
def test_what_is_lost_for_good(spark: SparkSession, small_cluster: Frames) -> None:
    columns = (
        "scheme failure_unit failures units copysets scatter_width_mean "
        "loss_probability loss_probability_low loss_probability_high method lost_partitions_mean lost_bytes_mean "
        "already_lost_partitions"
    )
    rows = [
        ("observed", "broker", 1, 3, 4, 2.0, 1 / 3, 1 / 3, 400 / 3),
        ("observed", "broker", 2, 3, 4, 2.0, 1.0, 5 / 3, 1400 / 3),
        ("observed", "broker", 3, 3, 4, 2.0, 1.0, 4.0, 1000.0),
        ("observed", "rack", 1, 2, 2, 1.0, 1 / 2, None, None),
        ("observed", "rack", 2, 2, 2, 1.0, 1.0, None, None),
        # Broker 2 shares partitions with both others, 1 and 3 only with 2.
        ("naive", "broker", 1, 3, 3, 4 / 3, 1 / 3, 1 / 3, None),
        ("naive", "broker", 2, 3, 3, 4 / 3, 1.0, 5 / 3, None),
        ("naive", "broker", 3, 3, 3, 4 / 3, 1.0, 4.0, None),
        ("naive", "rack", 1, 2, 3, 1.0, 1.0, None, None),
        ("naive", "rack", 2, 2, 3, 1.0, 1.0, None, None),
    ]
    expected = [(*values, None, None, "exact", mean, lost_bytes, 0) for *values, mean, lost_bytes in rows]
    assert_approx_df_equality(
        select_columns(run_stage("gold.durability", small_cluster), columns),
        expected_frame(spark, "gold.durability", columns, expected),
        **CLOSE_ROWS,
    )
