"""The tables of failures of the small cluster (see small_cluster.py), each outcome derived by hand."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from chispa import assert_approx_df_equality, assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.ingest.merge.entities import ENTITY_SCHEMAS
from tests.spark.stages.conftest import AGGREGATE_SETTINGS
from tests.spark.stages.frames import (
    CLOSE_ROWS,
    SAME_ROWS,
    Frames,
    expected_frame,
    input_frame,
    run_stage,
    select_columns,
)
from udfs.arrow.ipc import pack_table


@pytest.fixture(scope="module")
def failure_summary(small_cluster: Frames) -> DataFrame:
    return run_stage("gold.failure_summary", small_cluster).where("scheme = 'observed'").localCheckpoint()


@pytest.mark.stage("internal.scheme_aggregates")
def test_aggregates_have_the_live_brokers_of_each_scheme(spark: SparkSession, small_cluster: Frames) -> None:
    """Broker 4 is down. The sums themselves are packed: the tables below show them."""
    actual = small_cluster["internal.scheme_aggregates"]
    custom = F.get_json_object("settings", "$.failures.custom[0].brokers")
    columns = "scheme brokers racks settings"
    expected = [(scheme, [1, 2, 3], ["a", "b", "b"], "[1,2]") for scheme in ("naive", "observed")]
    assert_df_equality(
        select_columns(actual.withColumn("settings", custom), columns),
        expected_frame(spark, "internal.scheme_aggregates", columns, expected),
        **SAME_ROWS,
    )


# Broker 1 fails: 2 takes over orders-0 from the ISR, 3 takes over clicks-0 uncleanly. Broker 2 fails: 3 takes over
# orders-1. Broker 3 fails: logs-0 has no other replica.
#
# Random sets are all pairs, so they have the same outcomes. Rack a is broker 1, rack b are brokers 2 and 3.
#
# In the rolling restart, broker 1 comes back in sync, but not as a leader: broker 2 leads orders-0, broker 3 clicks-0.
# Broker 2 fails: 1 takes over orders-0, 3 takes over orders-1. Broker 3 fails: 2 takes over orders-1, 1 takes over
# clicks-0, in whose ISR it is again; logs-0 is offline.
@pytest.mark.stage("gold.failure_summary")
def test_leaders_after_each_failure(spark: SparkSession, failure_summary: DataFrame) -> None:
    columns = (
        "scheme scenario_kind scenario failed_brokers survivors leaders_lost takeover_brokers leaders_after_mean "
        "leaders_after_max worst_survivor worst_survivor_ratio"
    )
    rows = [
        ("broker", "broker:1", [1], 2, 2, 2, 2.0, 2, 2, 1.0),
        ("broker", "broker:2", [2], 2, 1, 1, 2.0, 2, 1, 1.0),
        ("broker", "broker:3", [3], 2, 1, 0, 1.5, 2, 1, 2 / 1.5),
        ("pair", "pair:1,2", [1, 2], 1, 3, 1, 3.0, 3, 3, 1.0),
        ("pair", "pair:1,3", [1, 3], 1, 3, 1, 2.0, 2, 2, 1.0),
        ("pair", "pair:2,3", [2, 3], 1, 2, 0, 2.0, 2, 1, 1.0),
        ("rack", "rack:a", [1], 2, 2, 2, 2.0, 2, 2, 1.0),
        ("rack", "rack:b", [2, 3], 1, 2, 0, 2.0, 2, 1, 1.0),
        ("custom", "custom:1,2", [1, 2], 1, 3, 1, 3.0, 3, 3, 1.0),
        ("random", "random:2:0", [1, 2], 1, 3, 1, 3.0, 3, 3, 1.0),
        ("random", "random:2:1", [1, 3], 1, 3, 1, 2.0, 2, 2, 1.0),
        ("random", "random:2:2", [2, 3], 1, 2, 0, 2.0, 2, 1, 1.0),
        ("rolling_restart", "rolling_restart:1", [1], 2, 2, 2, 2.0, 2, 2, 1.0),
        # Broker 1 leads orders-0, broker 3 leads clicks-0, logs-0 and orders-1.
        ("rolling_restart", "rolling_restart:2", [2], 2, 2, 2, 2.0, 3, 3, 3 / 2),
        # Broker 1 leads orders-0 and clicks-0, broker 2 leads orders-1.
        ("rolling_restart", "rolling_restart:3", [3], 2, 3, 2, 1.5, 2, 1, 2 / 1.5),
    ]
    expected = [("observed", *row) for row in rows]
    assert_approx_df_equality(
        select_columns(failure_summary, columns),
        expected_frame(spark, "gold.failure_summary", columns, expected),
        **CLOSE_ROWS,
    )


@pytest.mark.stage("gold.failure_summary")
def test_partitions_after_each_failure(spark: SparkSession, failure_summary: DataFrame) -> None:
    columns = (
        "scenario offline_partitions newly_offline_partitions offline_size_bytes newly_under_min_isr_partitions "
        "under_min_isr_partitions single_isr_partitions unclean_elections potential_lost_messages"
    )
    first = (0, 0, 0, 1, 1, 3, 1, 7)  # orders-0 is below the minimum; clicks-0, logs-0, orders-0 have one in sync
    of_pairs = {
        "1,2": (1, 1, 100, 1, 1, 3, 1, 7),  # orders-0 is offline, orders-1 below the minimum; the others have broker 3
        "1,3": (2, 2, 700, 2, 2, 2, 0, 0),  # clicks-0 and logs-0 are offline; orders-0 and orders-1 have broker 2
        "2,3": (2, 2, 600, 1, 1, 2, 0, 0),  # logs-0 and orders-1 are offline; clicks-0 and orders-0 have broker 1
    }
    expected = [
        ("broker:1", *first),
        ("broker:2", 0, 0, 0, 2, 2, 4, 0, 0),  # both partitions of orders; all four have one in-sync replica
        ("broker:3", 1, 1, 400, 1, 1, 2, 0, 0),  # logs-0 goes offline; orders-1 and clicks-0 have one
        *((f"pair:{pair}", *outcome) for pair, outcome in of_pairs.items()),
        ("rack:a", *first),
        ("rack:b", *of_pairs["2,3"]),
        ("custom:1,2", *of_pairs["1,2"]),
        *((f"random:2:{i}", *outcome) for i, outcome in enumerate(of_pairs.values())),
        ("rolling_restart:1", *first),
        ("rolling_restart:2", 0, 0, 0, 2, 2, 3, 0, 0),  # clicks-0 now has 3 and 1 in sync
        ("rolling_restart:3", 1, 1, 400, 1, 1, 2, 0, 0),  # clicks-0 and orders-1 have one, orders-0 has both
    ]
    assert_df_equality(
        select_columns(failure_summary, columns),
        expected_frame(spark, "gold.failure_summary", columns, expected),
        **SAME_ROWS,
    )


# Voters 1, 4 and 101, of which 4 is down: without broker 1 there is no majority. Whatever it leads is offline then, and
# a leader waits for an in-sync follower that failed with it.
@pytest.mark.stage("gold.failure_summary")
def test_no_leader_is_elected_without_a_majority(spark: SparkSession, small_cluster: Frames) -> None:
    nodes = [(1, True, True), (4, True, None), (101, True, True), (102, False, True)]
    rows = [{"node_id": id_, "voter": voter, "leader": False, "caught_up": follows} for id_, voter, follows in nodes]
    packed = pack_table(pa.Table.from_pylist(rows, ENTITY_SCHEMAS["quorum"]))
    entities = small_cluster["internal.entities"].withColumn("quorum", F.lit(packed))
    frames = small_cluster | {"internal.entities": entities}
    aggregates = run_stage("internal.scheme_aggregates", frames, *AGGREGATE_SETTINGS)
    summary = run_stage("gold.failure_summary", {**frames, "internal.scheme_aggregates": aggregates})
    columns = (
        "scenario leaves_majority newly_offline_partitions newly_under_min_isr_partitions takeover_brokers "
        "leaders_after_max"
    )
    without_1 = (False, 2, 0, 0, 1)  # clicks-0 and orders-0
    of_pairs = {
        "1,2": (False, 3, 0, 0, 1),  # and orders-1
        "1,3": (False, 3, 1, 0, 1),  # and logs-0; orders-1 waits for broker 3
        "2,3": (True, 2, 1, 0, 2),  # logs-0 and orders-1; orders-0 is below the minimum
    }
    expected = [
        ("broker:1", *without_1),
        ("broker:2", True, 0, 2, 1, 2),
        ("broker:3", True, 1, 1, 0, 2),
        *((f"pair:{pair}", *outcome) for pair, outcome in of_pairs.items()),
        ("rack:a", *without_1),
        ("rack:b", *of_pairs["2,3"]),
        ("custom:1,2", *of_pairs["1,2"]),
        *((f"random:2:{i}", *outcome) for i, outcome in enumerate(of_pairs.values())),
        ("rolling_restart:1", *without_1),
        ("rolling_restart:2", True, 0, 2, 1, 2),  # broker 1 leads again what it led before
        ("rolling_restart:3", True, 1, 1, 1, 2),  # it has taken orders-1 over, which broker 2 leads again
    ]
    assert_df_equality(
        select_columns(summary.where("scheme = 'observed'"), columns),
        expected_frame(spark, "gold.failure_summary", columns, expected),
        **SAME_ROWS,
    )


@pytest.mark.stage("gold.failure_summary")
def test_bytes_of_the_worst_survivor(spark: SparkSession, failure_summary: DataFrame) -> None:
    """Bytes out are twice the bytes in; fetches add the bytes in of each in-sync follower that is live."""
    columns = "scenario worst_survivor_bytes_in_ratio worst_survivor_bytes_out_ratio worst_survivor_fetch_ratio"
    expected = [
        ("broker:1", 70 / 50, 140 / 100, 140 / 110),  # in: 30 and 70; fetch: 60 + 20 and 140
        ("broker:2", 60 / 50, 120 / 100, 120 / 100),  # in: 40 and 60; fetch: 80 and 120
        ("broker:3", 40 / 30, 80 / 60, 90 / 65),  # in: 40 and 20; fetch: 80 + 10 (broker 2 follows orders-0) and 40
        *((f"pair:{pair}", 1.0, 1.0, None) for pair in ("1,2", "1,3", "2,3")),
        ("rack:a", 70 / 50, 140 / 100, 140 / 110),
        *((scenario, 1.0, 1.0, 1.0) for scenario in ("rack:b", "custom:1,2")),
        *((f"random:2:{i}", 1.0, 1.0, 1.0) for i in range(3)),
        ("rolling_restart:1", 70 / 50, 140 / 100, None),
        ("rolling_restart:2", 90 / 50, 180 / 100, None),  # in: 10 and 30 + 40 + 20
        ("rolling_restart:3", 40 / 30, 80 / 60, None),  # in: 10 + 30 and 20
    ]
    assert_approx_df_equality(
        select_columns(failure_summary, columns),
        expected_frame(spark, "gold.failure_summary", columns, expected),
        **CLOSE_ROWS,
    )


@pytest.mark.stage("gold.loads_after_failure")
def test_load_of_each_survivor(spark: SparkSession, small_cluster: Frames) -> None:
    actual = run_stage("gold.loads_after_failure", small_cluster).where("scheme = 'observed'").localCheckpoint()
    leaders = "scenario_kind scenario failed_brokers broker_id leaders_before takeovers leaders_after"
    expected = [
        ("broker", "broker:1", [1], 2, 1, 1, 2),  # takes over orders-0
        ("broker", "broker:1", [1], 3, 1, 1, 2),  # takes over clicks-0
        ("broker", "broker:2", [2], 1, 2, 0, 2),
        ("broker", "broker:2", [2], 3, 1, 1, 2),  # takes over orders-1
        ("broker", "broker:3", [3], 1, 2, 0, 2),
        ("broker", "broker:3", [3], 2, 1, 0, 1),
        ("rack", "rack:a", [1], 2, 1, 1, 2),
        ("rack", "rack:a", [1], 3, 1, 1, 2),
        ("rack", "rack:b", [2, 3], 1, 2, 0, 2),
        ("custom", "custom:1,2", [1, 2], 3, 1, 2, 3),  # takes over orders-1 and clicks-0
    ]
    assert_df_equality(
        select_columns(actual, leaders),
        expected_frame(spark, "gold.loads_after_failure", leaders, expected),
        **SAME_ROWS,
    )
    rates = (
        "scheme scenario broker_id bytes_in_before_per_s bytes_in_after_per_s bytes_out_before_per_s "
        "bytes_out_after_per_s fetch_before_per_s fetch_after_per_s"
    )
    # Fetches before: broker 1 sends 20 + 10 of orders-0 and 60 of clicks-0, broker 2 sends 40 + 20, broker 3 sends 80.
    rates_expected = [
        ("observed", "broker:1", 2, 20.0, 30.0, 40.0, 60.0, 60.0, 80.0),  # 40 + 20 of orders-1, 20 of orders-0
        ("observed", "broker:1", 3, 40.0, 70.0, 80.0, 140.0, 80.0, 140.0),
        ("observed", "broker:2", 1, 40.0, 40.0, 80.0, 80.0, 90.0, 80.0),  # loses its follower of orders-0
        ("observed", "broker:2", 3, 40.0, 60.0, 80.0, 120.0, 80.0, 120.0),
        ("observed", "broker:3", 1, 40.0, 40.0, 80.0, 80.0, 90.0, 90.0),
        ("observed", "broker:3", 2, 20.0, 20.0, 40.0, 40.0, 60.0, 40.0),  # loses its follower of orders-1
    ]
    assert_df_equality(
        select_columns(actual.where("scenario_kind = 'broker'"), rates),
        expected_frame(spark, "gold.loads_after_failure", rates, rates_expected),
        **SAME_ROWS,
    )


@pytest.mark.stage("gold.random_failures")
def test_random_failures_of_two_brokers(spark: SparkSession, small_cluster: Frames) -> None:
    """The three sets are all that there are. The 95th percentile is 0.9 of the way from the second to the third."""
    actual = run_stage("gold.random_failures", small_cluster).where("scheme = 'observed'")
    columns = (
        "scheme failures metric method draws value_mean value_mean_low value_mean_high value_p50 value_p95 value_max"
    )
    values = {
        "worst_survivor_ratio": (1.0, 1.0, 1.0, 1.0),  # there is one survivor
        "newly_offline_partitions": (5 / 3, 2.0, 2.0, 2.0),  # 1, 2, 2
        "under_min_isr_partitions": (4 / 3, 1.0, 1.9, 2.0),  # 1, 1, 2
        "single_isr_partitions": (7 / 3, 2.0, 2.9, 3.0),  # 2, 2, 3
        "any_newly_offline": (1.0, 1.0, 1.0, 1.0),
    }
    expected = [
        ("observed", 2, metric, "exact", 3, mean, None, None, *others) for metric, (mean, *others) in values.items()
    ]
    assert_approx_df_equality(
        select_columns(actual, columns), expected_frame(spark, "gold.random_failures", columns, expected), **CLOSE_ROWS
    )


# Means now: 4/3 leaders, 100/3 bytes in, 200/3 bytes out, (90 + 60 + 80)/3 fetched. Capacities are 1.4 times these:
# 1.87 leaders, 46.7 in, 93.3 out, 107.3 fetched.
@pytest.mark.stage("gold.headroom")
def test_headroom_over_uniform_capacities(spark: SparkSession, small_cluster: Frames) -> None:
    actual = run_stage("gold.headroom", small_cluster, "capacity.headroom=0.4").where("scheme = 'observed'")
    columns = (
        "scheme scenario_kind quantity capacity_source required_headroom_ratio worst_scenario worst_broker worst_load"
    )
    rows = [
        # Every failure leaves a broker with 2 leaders; the first of equals is named.
        ("broker", "leaders", 2 / (4 / 3) - 1, "broker:1", 2, 2.0),
        # Broker 3 has 70 bytes in after broker 1 failed, and 60 after broker 2 failed.
        ("broker", "bytes_in_per_s", 70 / (100 / 3) - 1, "broker:1", 3, 70.0),
        ("broker", "bytes_out_per_s", 140 / (200 / 3) - 1, "broker:1", 3, 140.0),
        ("broker", "fetch_per_s", 140 / (230 / 3) - 1, "broker:1", 3, 140.0),
        # Rack a is broker 1. After rack b, broker 1 has 2 leaders, 40 in, 80 out.
        ("rack", "leaders", 2 / (4 / 3) - 1, "rack:a", 2, 2.0),
        ("rack", "bytes_in_per_s", 70 / (100 / 3) - 1, "rack:a", 3, 70.0),
        ("rack", "bytes_out_per_s", 140 / (200 / 3) - 1, "rack:a", 3, 140.0),
        ("rack", "fetch_per_s", 140 / (230 / 3) - 1, "rack:a", 3, 140.0),
        # Broker 3 leads clicks-0, logs-0 and orders-1, without followers.
        ("custom", "leaders", 3 / (4 / 3) - 1, "custom:1,2", 3, 3.0),
        ("custom", "bytes_in_per_s", 90 / (100 / 3) - 1, "custom:1,2", 3, 90.0),
        ("custom", "bytes_out_per_s", 180 / (200 / 3) - 1, "custom:1,2", 3, 180.0),
        ("custom", "fetch_per_s", 180 / (230 / 3) - 1, "custom:1,2", 3, 180.0),
    ]
    expected = [("observed", kind, quantity, "uniform", *values) for kind, quantity, *values in rows]
    assert_approx_df_equality(
        select_columns(actual, columns), expected_frame(spark, "gold.headroom", columns, expected), **CLOSE_ROWS
    )


@pytest.mark.stage("gold.over_capacity")
def test_survivors_over_the_capacities_of_a_file(spark: SparkSession, small_cluster: Frames, tmp_path: Path) -> None:
    """Broker 2 bears one leader, and has two after broker 1 failed. Broker 3 has no limit."""
    file = tmp_path / "capacity.csv"
    file.write_text("broker_id,leaders\n1,3\n2,1\n3,\n")
    actual = run_stage("gold.over_capacity", small_cluster, f"capacity.file={file}").where("scheme = 'observed'")
    columns = (
        "scheme scenario_kind scenario failed_brokers broker_id quantity load_after capacity excess_load "
        "load_over_capacity_ratio"
    )
    expected = [
        ("observed", "broker", "broker:1", [1], 2, "leaders", 2.0, 1.0, 1.0, 2.0),
        ("observed", "rack", "rack:a", [1], 2, "leaders", 2.0, 1.0, 1.0, 2.0),
    ]
    assert_df_equality(
        select_columns(actual, columns), expected_frame(spark, "gold.over_capacity", columns, expected), **SAME_ROWS
    )


# Broker 2 has orders-0 and orders-1, and leads the latter; clicks-0 has the leader's size on brokers 1 and 3.
# Evenly spread, its 300 bytes fill brokers 1 and 3 to (100 + 500 + 300) / 3000.
@pytest.mark.stage("gold.disk_after_failure")
def test_disks_after_each_failure(spark: SparkSession, small_cluster: Frames) -> None:
    volumes = "broker_id log_dir total_bytes usable_bytes used_bytes replicas"
    log_dirs = [(1, "/d", 1000, 900, 100, 2), (2, "/d", 1000, 700, 300, 2), (3, "/d", 2000, 1500, 500, 3)]
    frames = {**small_cluster, "silver.log_dirs": input_frame(spark, "silver.log_dirs", volumes, log_dirs)}
    actual = run_stage("gold.disk_after_failure", frames, "capacity.max_disk_ratio=0.9")
    columns = (
        "scenario_kind scenario failed_brokers replicas leaders only_in_sync_partitions bytes_to_copy free_bytes fits "
        "fits_in_rack fullest_broker fullest_disk_ratio"
    )
    expected = [
        ("none", "none", [], 0, 0, 0, 0, None, True, None, 2, 0.3),
        ("broker", "broker:1", [1], 2, 2, 1, 400, 1900, True, False, 2, 0.4),
        ("broker", "broker:2", [2], 2, 1, 0, 300, 2100, True, True, 1, 0.3),
        ("broker", "broker:3", [3], 3, 1, 1, 900, 1400, True, False, 1, 0.65),
        ("rack", "rack:a", [1], 2, 2, 1, 400, 1900, True, None, 2, 0.4),
        ("rack", "rack:b", [2, 3], 5, 2, 1, 1200, 800, False, None, 1, 1.3),
    ]
    assert_approx_df_equality(
        select_columns(actual, columns),
        expected_frame(spark, "gold.disk_after_failure", columns, expected),
        **CLOSE_ROWS,
    )
