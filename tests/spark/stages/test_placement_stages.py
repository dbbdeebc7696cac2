"""Placements that can be derived without drawing random numbers, and measures over many seeds."""

from __future__ import annotations

import pytest
from chispa import assert_approx_df_equality, assert_df_equality
from pyspark.sql import SparkSession

from tests.spark.stages.frames import (
    CLOSE_ROWS,
    SAME_ROWS,
    Frames,
    Rows,
    expected_frame,
    input_frame,
    pack_entities,
    run_stage,
    select_columns,
)

PLACEMENTS = (
    "scheme topic partition replicas leader isr elr start_index shift size_bytes bytes_in_per_s bytes_out_per_s error"
)
BROKERS = "broker_id rack live"
TOPICS = "topic partitions listed_partitions replication_factor"


@pytest.mark.stage("gold.placements")
def test_placements_as_they_are_and_by_the_naive_scheme(spark: SparkSession, small_cluster: Frames) -> None:
    """The naive scheme puts replica j of partition i on broker i + j of the live brokers. A full ISR is null."""
    actual = run_stage("gold.placements", small_cluster, 'run.schemes=["observed", "naive"]')
    columns = f"{PLACEMENTS} seed"
    no_draws = (None, None)
    unknown_loads = (None, None, None)
    expected = [
        ("observed", "clicks", 0, [1, 3], 1, [1], None, *no_draws, 300, 30.0, 60.0, None, None),
        ("observed", "logs", 0, [3], 3, None, None, *no_draws, 400, 40.0, 80.0, None, None),
        ("observed", "orders", 0, [1, 2], 1, None, None, *no_draws, 100, 10.0, 20.0, None, None),
        ("observed", "orders", 1, [2, 3], 2, None, None, *no_draws, 200, 20.0, 40.0, None, None),
        ("naive", "clicks", 0, [1, 2], 1, None, None, *no_draws, *unknown_loads, None, None),
        ("naive", "logs", 0, [1], 1, None, None, *no_draws, *unknown_loads, None, None),
        ("naive", "orders", 0, [1, 2], 1, None, None, *no_draws, *unknown_loads, None, None),
        ("naive", "orders", 1, [2, 3], 2, None, None, *no_draws, *unknown_loads, None, None),
    ]
    assert_df_equality(
        select_columns(actual, columns), expected_frame(spark, "gold.placements", columns, expected), **SAME_ROWS
    )


@pytest.mark.stage("gold.placements")
def test_placements_by_kafka_on_one_broker(spark: SparkSession) -> None:
    """Of one broker, every start index and shift is 0. Only the listed partition is placed, with its loads."""
    loads = [{"partition": 2, "size_bytes": 5, "bytes_in_per_s": 6.0, "bytes_out_per_s": 7.0}]
    frames = {
        "silver.brokers": input_frame(spark, "silver.brokers", BROKERS, [(4, None, None), (5, None, False)]),
        "silver.topics": input_frame(
            spark,
            "silver.topics",
            f"{TOPICS} partition_loads",
            [("all", 2, 2, 1, None), ("listed", 3, 1, 1, loads), ("wide", 1, 1, 2, None)],
        ),
        "silver.partitions": input_frame(spark, "silver.partitions", "topic", []),
    }
    actual = run_stage("gold.placements", frames, "run.schemes=kafka")
    error = (
        "InvalidReplicationFactorException: Replication factor: 2 larger than available brokers: 1. "
        "(topic wide: 1 partition, replication factor 2, 1 broker)"
    )
    expected = [
        ("kafka", "all", 0, [4], 4, None, None, 0, 0, None, None, None, None),
        ("kafka", "all", 1, [4], 4, None, None, 0, 0, None, None, None, None),
        ("kafka", "listed", 2, [4], 4, None, None, 0, 0, 5, 6.0, 7.0, None),
        ("kafka", "wide", 0, None, None, None, None, None, None, None, None, None, error),
    ]
    assert_df_equality(
        select_columns(actual, PLACEMENTS), expected_frame(spark, "gold.placements", PLACEMENTS, expected), **SAME_ROWS
    )


# Three brokers; whether broker 2 is live is unknown, so it counts. `ring` has three partitions on two brokers each, so
# by any round robin every broker leads one of them and follows another. `solo` adds one leader, with one replica.
# `wide` needs four brokers, and cannot be placed.
# Now, broker 1 leads ring-0, ring-1 and solo-0, and broker 2 leads ring-2.
@pytest.fixture(scope="module")
def ring(spark_application: SparkSession) -> Frames:
    spark = spark_application
    return {
        "silver.brokers": input_frame(
            spark, "silver.brokers", BROKERS, [(1, None, True), (2, None, None), (3, None, True)]
        ),
        "silver.topics": input_frame(
            spark, "silver.topics", TOPICS, [("ring", 3, 3, 2), ("solo", 1, 1, 1), ("wide", 1, 1, 4)]
        ),
        "silver.partitions": input_frame(
            spark,
            "silver.partitions",
            "topic partition replicas leader isr",
            [
                ("ring", 0, [1, 2], 1, [1, 2]),
                ("ring", 1, [1, 3], 1, [1, 3]),
                ("ring", 2, [2, 3], 2, [2, 3]),
                ("solo", 0, [1], 1, [1]),
            ],
        ),
    }


@pytest.mark.stage("gold.hotspot_distribution")
def test_the_hottest_broker_over_seeds(spark: SparkSession, ring: Frames) -> None:
    """Four leaders and seven replicas on three brokers: the hottest has 1 + 1 leaders and 2 + 1 replicas, always."""
    actual = run_stage(
        "gold.hotspot_distribution",
        ring,
        'run.schemes=["observed", "kafka", "naive"]',
        "hotspots.seeds=7",
        "hotspots.thresholds=[1.25, 1.5]",
    ).localCheckpoint()
    columns = (
        "scheme seeds brokers unplaceable_topics partitions single_partition_topics leaders_mean "
        "leaders_max_over_mean_p5_ratio leaders_max_over_mean_p50_ratio leaders_max_over_mean_p95_ratio "
        "leaders_max_over_mean_p99_ratio leaders_max_over_mean_highest_ratio replicas_max_over_mean_p50_ratio "
        "replicas_max_over_mean_p95_ratio replicas_max_over_mean_highest_ratio"
    )
    counts, leaders, replicas = (3, 1, 4, 1, 4 / 3), [2 / (4 / 3)] * 5, [3 / (7 / 3)] * 3
    expected = [
        ("kafka", 7, *counts, *leaders, *replicas),
        ("naive", 1, *counts, *leaders, *replicas),  # it draws nothing: one seed shows all
    ]
    assert_approx_df_equality(
        select_columns(actual, columns),
        expected_frame(spark, "gold.hotspot_distribution", columns, expected),
        **CLOSE_ROWS,
    )
    comparison = (
        "scheme exceedance_probabilities observed_leaders_max observed_max_over_mean_ratio observed_percent "
        "single_partition_leaders_max_expected single_partition_max_over_mean_expected_ratio "
        "random_leaders_max_expected random_max_over_mean_expected_ratio"
    )
    # The ratio 1.5 is above 1.25, but not above 1.5. All seeds have less than the observed 3 of 4/3. One ball in three
    # bins: the fullest has 1, the mean is 1/3. With the whole round of ring, it has 2 of 4/3.
    above = [{"above_ratio": 1.25, "probability": 1.0}, {"above_ratio": 1.5, "probability": 0.0}]
    values = (above, 3, 3 / (4 / 3), 100.0, 1.0, 3.0, 2.0, 1.5)
    assert_approx_df_equality(
        select_columns(actual, comparison),
        expected_frame(spark, "gold.hotspot_distribution", comparison, [("kafka", *values), ("naive", *values)]),
        **CLOSE_ROWS,
    )


@pytest.mark.stage("gold.scheme_distribution")
def test_metrics_over_seeds(spark: SparkSession, ring: Frames) -> None:
    """Without solo, every broker leads one partition, which another one takes over: it leads 2 of 3, the mean is 1.5.

    The naive scheme draws nothing, and so has no distribution.
    """
    frames = {**ring, "silver.topics": ring["silver.topics"].where("topic = 'ring'")}
    frames["internal.entities"] = pack_entities(spark, frames)
    settings = ('run.schemes=["kafka", "naive"]', "failures.seeds=5")
    aggregates = run_stage("internal.scheme_aggregates", frames, *settings)
    actual = run_stage("gold.scheme_distribution", {"internal.scheme_aggregates": aggregates})
    columns = "scheme metric seeds value_p05 value_p50 value_p95"
    values = {
        "leaders_max_over_mean_ratio": 1.0,
        "worst_survivor_ratio": 2 / 1.5,
        "mean_worst_survivor_ratio": 2 / 1.5,
        "fewest_takeover_brokers": 1.0,
        "mean_takeover_brokers": 1.0,
    }
    expected = [("kafka", metric, 5, value, value, value) for metric, value in values.items()]
    assert_approx_df_equality(
        select_columns(actual, columns),
        expected_frame(spark, "gold.scheme_distribution", columns, expected),
        **CLOSE_ROWS,
    )


@pytest.fixture(scope="module")
def gold_tables(spark_application: SparkSession) -> Frames:
    """Rows whose values show by which aggregate each metric is computed; 9 and 9.9 must not appear."""
    spark = spark_application
    hotspots = input_frame(
        spark,
        "gold.leader_hotspots",
        "scheme topic partitions leaders max_over_mean_ratio cv_ratio gini_ratio bytes_out_max_over_mean_ratio",
        [
            ("observed", None, 5, 4, 1.5, 0.5, 0.25, 1.2),
            ("observed", "orders", 5, 4, 9.9, 9.9, 9.9, 9.9),  # a topic: not compared
            ("naive", None, 4, 4, 1.0, 0.0, 0.0, None),
        ],
    )
    summary = input_frame(
        spark,
        "gold.failure_summary",
        "scheme scenario_kind worst_survivor_ratio worst_survivor_bytes_out_ratio leaders_lost takeover_brokers "
        "offline_partitions newly_offline_partitions under_min_isr_partitions",
        [
            ("observed", "broker", 1.6, 1.3, 3, 2, 1, 0, 4),
            ("observed", "broker", 1.2, 1.1, 1, 1, 2, 1, 5),
            ("observed", "broker", 1.4, 1.2, 0, 0, 1, 0, 3),  # no leader is lost, so no broker takes over
            ("observed", "pair", 1.8, 1.9, 4, 1, 3, 2, 5),
            ("observed", "rack", 1.7, 1.9, 4, 1, 4, 3, 5),
            ("observed", "rolling_restart", 2.0, None, 4, 1, 4, 3, 5),
            ("observed", "random", 9.9, 9.9, 9, 9, 9, 9, 9),  # not compared
            ("naive", "broker", 2.0, None, 2, 1, 0, 0, 2),
        ],
    )
    durability = input_frame(
        spark,
        "gold.durability",
        "scheme failure_unit failures copysets scatter_width_mean loss_probability",
        [
            ("observed", "broker", 1, 6, 3.0, 0.0),
            ("observed", "broker", 2, 6, 3.0, 0.5),
            ("observed", "rack", 1, 2, 1.0, 0.25),
            ("naive", "broker", 1, 3, 2.0, 0.0),
            ("naive", "broker", 2, 3, 2.0, 0.2),
        ],
    )
    distribution = input_frame(
        spark,
        "gold.scheme_distribution",
        "scheme metric seeds value_p05 value_p50 value_p95",
        [("observed", "worst_survivor_ratio", 20, 1.1, 1.5, 1.9)],
    )
    return {
        "gold.leader_hotspots": hotspots,
        "gold.failure_summary": summary,
        "gold.durability": durability,
        "gold.scheme_distribution": distribution,
    }


@pytest.mark.stage("gold.scheme_comparison")
def test_every_metric_beside_the_naive_scheme(spark: SparkSession, gold_tables: Frames) -> None:
    columns = "scheme metric value naive_value ratio_to_naive seeds value_p05 value_p50 value_p95"
    values = {  # value, that of the naive scheme, their ratio: none to 0
        # Of the whole cluster: one of five partitions is offline.
        "leaders_max_over_mean_ratio": (1.5, 1.0, 1.5),
        "leaders_cv_ratio": (0.5, 0.0, None),
        "leaders_gini_ratio": (0.25, 0.0, None),
        "bytes_out_max_over_mean_ratio": (1.2, None, None),
        "offline_partitions": (1.0, 0.0, None),
        # Of three failures of a broker: the worst or the mean. Two of them lose leaders, to 2 and 1 brokers.
        "worst_survivor_ratio": (1.6, 2.0, 0.8),
        "mean_worst_survivor_ratio": (1.4, 2.0, 0.7),
        "worst_survivor_bytes_out_ratio": (1.3, None, None),
        "fewest_takeover_brokers": (1.0, 1.0, 1.0),
        "mean_takeover_brokers": (1.5, 1.0, 1.5),
        "most_offline_partitions": (2.0, 0.0, None),
        "most_newly_offline_partitions": (1.0, 0.0, None),
        "most_under_min_isr_partitions": (5.0, 2.0, 2.5),
        # Of one failure each.
        "worst_survivor_ratio_of_pairs": (1.8, None, None),
        "most_newly_offline_partitions_of_pairs": (2.0, None, None),
        "worst_survivor_ratio_of_racks": (1.7, None, None),
        "most_newly_offline_partitions_of_racks": (3.0, None, None),
        "worst_survivor_ratio_of_rolling_restart": (2.0, None, None),
        # Of brokers, whatever their number, and by number.
        "copysets": (6.0, 3.0, 2.0),
        "scatter_width_mean": (3.0, 2.0, 1.5),
        "loss_probability_of_1_brokers": (0.0, 0.0, None),
        "loss_probability_of_2_brokers": (0.5, 0.2, 2.5),
        "loss_probability_of_3_brokers": (None, None, None),
        "loss_probability_of_4_brokers": (None, None, None),
        "loss_probability_of_5_brokers": (None, None, None),
        "loss_probability_of_1_rack": (0.25, None, None),
    }
    seeds = {"worst_survivor_ratio": (20, 1.1, 1.5, 1.9)}
    not_tried = (None, None, None, None)
    expected: Rows = [
        ("observed", metric, *numbers, *seeds.get(metric, not_tried)) for metric, numbers in values.items()
    ]
    # The naive scheme beside itself.
    beside_itself = [
        ("naive", metric, naive, naive, 1.0 if naive else None, *not_tried) for metric, (_, naive, _) in values.items()
    ]
    assert_approx_df_equality(
        select_columns(run_stage("gold.scheme_comparison", gold_tables), columns),
        expected_frame(spark, "gold.scheme_comparison", columns, [*expected, *beside_itself]),
        **CLOSE_ROWS,
    )
