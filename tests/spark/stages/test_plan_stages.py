"""Plans of two brokers: broker 1 leads both partitions, and broker 2 can lead one of them."""

from __future__ import annotations

import pytest
from chispa import assert_approx_df_equality, assert_df_equality
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipelines.verdict.cluster_evidence import AffectedPartitions, ClusterFindings, PartitionIssue
from pipelines.verdict.snapshot_findings import make_row
from tests.spark.stages.frames import (
    CLOSE_ROWS,
    SAME_ROWS,
    Frames,
    Rows,
    expected_frame,
    input_frame,
    run_stage,
    select_columns,
)


@pytest.fixture(scope="module")
def two_brokers(spark_application: SparkSession) -> Frames:
    """logs-0 is only on broker 1, orders-0 on both; broker 1 leads both."""
    spark = spark_application
    counts = "newly_offline_partitions newly_under_min_isr_partitions under_min_isr_partitions unclean_elections"
    failures = f"scheme scenario_kind scenario failed_brokers {counts}"
    single = AffectedPartitions(1, 1, ["logs"], [1], 1, 1, ["logs"])
    issues = {PartitionIssue.OFFLINE_IF_BROKER_FAILS: single}
    findings = make_row(ClusterFindings(issues, partitions=2, counted_partitions=2, live_brokers=2))
    judged = {
        "gold.leader_hotspots": input_frame(
            spark,
            "gold.leader_hotspots",
            "scheme leaders_max leaders_mean hottest_broker max_over_mean_ratio",
            [("observed", 2, 1.0, 1, 2.0)],
        ),
        "gold.failure_summary": input_frame(
            spark,
            "gold.failure_summary",
            failures,
            [("observed", "broker", "broker:1", [1], 1, 0, 0, 0), ("observed", "broker", "broker:2", [2], 0, 0, 0, 0)],
        ),
        "gold.cluster_findings": input_frame(spark, "gold.cluster_findings", " ".join(findings), [findings.values()]),
        "gold.disk_after_failure": input_frame(
            spark,
            "gold.disk_after_failure",
            "scenario_kind scenario failed_brokers bytes_to_copy free_bytes fits",
            [("rack", "rack:east", [1], 100, 50, False), ("broker", "broker:1", [1], 100, 50, True)],
        ),
    }
    # Without capacity.file, no capacity is known.
    judged |= {name: input_frame(spark, name, "scheme", []) for name in ("gold.over_capacity", "gold.headroom")}
    return {
        **judged,
        "gold.findings": run_stage("gold.findings", judged),
        "silver.brokers": input_frame(
            spark, "silver.brokers", "broker_id live draining", [(1, True, False), (2, True, False)]
        ),
        "silver.topics": input_frame(
            spark, "silver.topics", "topic marked_for_deletion", [("logs", False), ("orders", False)]
        ),
        "silver.partitions": input_frame(
            spark,
            "silver.partitions",
            "topic partition leader replicas isr size_bytes bytes_in_per_s bytes_out_per_s",
            [("logs", 0, 1, [1], [1], 50, 30.0, 20.0), ("orders", 0, 1, [1, 2], [1, 2], 100, 10.0, 20.0)],
        ),
    }


@pytest.mark.stage("gold.findings")
def test_the_verdict(spark: SparkSession, two_brokers: Frames) -> None:
    """What is worst comes first; its next step makes a plan."""
    columns = "place level kind affected topics subject plan.goal plan.factor"
    types = "place int, level string, kind string, affected long, topics array<string>, subject string, goal string"
    expected = [
        (0, "at_risk", "broker_offline", 1, ["logs"], "broker 1", "rf", 2),
        (1, "warning", "hot_broker", 2, [], "1", "leaders", None),
    ]
    names = [F.col(name).alias(name.removeprefix("plan."), metadata={}) for name in columns.split()]
    actual = two_brokers["gold.findings"].select(*names)
    assert_df_equality(actual, spark.createDataFrame(expected, f"{types}, factor int"), **SAME_ROWS)


@pytest.fixture(scope="module")
def packed_plans(two_brokers: Frames) -> Frames:
    """For the goal leaders."""
    packed = run_stage("internal.packed_plans", two_brokers, "plans.goals=leaders")
    return {"internal.packed_plans": packed.localCheckpoint()}


@pytest.mark.stage("internal.packed_plans")
def test_a_plan_is_packed_with_its_settings(spark: SparkSession, packed_plans: Frames) -> None:
    """The plan itself is binary: the tables below show it."""
    goal = F.get_json_object("settings", "$.plans.goals[0]")
    actual = packed_plans["internal.packed_plans"].withColumn("settings", goal)
    assert_df_equality(
        select_columns(actual, "goal settings"),
        expected_frame(spark, "internal.packed_plans", "goal settings", [("leaders", "leaders")]),
        **SAME_ROWS,
    )


@pytest.mark.stage("internal.packed_plans", "gold.plans")
def test_the_plans_that_the_verdict_recommends(spark: SparkSession, two_brokers: Frames) -> None:
    """Logs needs a second replica, of 50 bytes, on broker 2; broker 1 leads too many partitions."""
    packed = run_stage("internal.packed_plans", two_brokers)
    actual = run_stage("gold.plans", {"internal.packed_plans": packed})
    factor = F.get_json_object("plan_request", "$.factor").cast("int")
    topics = F.get_json_object("plan_request", "$.topics")
    columns = "goal plan_request certificate copied_bytes fullest_broker"
    expected: Rows = [("leaders", None, "[]", 0, 1), ("rf", "2", '["logs"]', 50, 1)]
    assert_df_equality(
        select_columns(actual.withColumns({"plan_request": factor.cast("string"), "certificate": topics}), columns),
        expected_frame(spark, "gold.plans", columns, expected),
        **SAME_ROWS,
    )


@pytest.mark.stage("gold.plan_moves")
def test_the_only_change_that_evens_out_leaders(spark: SparkSession, packed_plans: Frames) -> None:
    """The new order of orders-0 copies nothing."""
    columns = (
        "goal topic partition replicas_before replicas_after adding_replicas removing_replicas copied_bytes "
        "first_wave last_wave reason"
    )
    reason = "preferred leader: to even out leaders (mean: 1.0 per broker)"
    expected: Rows = [("leaders", "orders", 0, [1, 2], [2, 1], [], [], 0, 1, 1, reason)]
    assert_df_equality(
        select_columns(run_stage("gold.plan_moves", packed_plans), columns),
        expected_frame(spark, "gold.plan_moves", columns, expected),
        **SAME_ROWS,
    )


@pytest.mark.stage("gold.plans")
def test_what_the_plan_changes(spark: SparkSession, packed_plans: Frames) -> None:
    """One changed leader is the fewest with which both brokers lead one partition."""
    columns = (
        "goal feasible reasons objective objective_value lower_bound gap moves copied_bytes changed_partitions "
        "leader_changes frozen_partitions frozen_reasons unsized_partitions waves copy_duration_s "
        "throttle_bytes_per_s fullest_broker relaxed_targets missed_targets"
    )
    objective = ("preferred leaders changed", 1.0, 1.0, 0.0)
    copies = (0, [], 0, 1, 0.0, 50e6)
    expected: Rows = [("leaders", True, [], *objective, 0, 0, 1, 1, *copies, 1, [], [])]
    assert_df_equality(
        select_columns(run_stage("gold.plans", packed_plans), columns),
        expected_frame(spark, "gold.plans", columns, expected),
        **SAME_ROWS,
    )


# Metric: before and after the plan; metrics have six digits.
METRICS = {
    "copied_bytes": (0, 0),
    "moves": (0, 0),
    "leader_changes": (0, 1),
    "under_replicated_partitions": (0, 0),
    "fullest_broker_bytes": (150, 150),
    # 2 and 1 replicas, 150 and 100 bytes, 40 and 10 bytes in; only leaders change.
    "replicas_max_over_mean": (1.333333, 1.333333),
    "replicas_min_over_mean": (0.666667, 0.666667),
    "disk_max_over_mean": (1.2, 1.2),
    "disk_min_over_mean": (0.8, 0.8),
    "bytes_in_max_over_mean": (1.6, 1.6),
    "bytes_in_min_over_mean": (0.4, 0.4),
    # 2 and 0 leaders, then 1 and 1; 40 and 0 bytes out, then 20 and 20.
    "leaders_max_over_mean": (2.0, 1.0),
    "leaders_min_over_mean": (0.0, 1.0),
    "bytes_out_max_over_mean": (2.0, 1.0),
    "bytes_out_min_over_mean": (0.0, 1.0),
    # The only survivor leads all that is online. No broker survives a pair, and no rack is known.
    "worst_survivor_ratio": (1.0, 1.0),
    "worst_survivor_bytes_out_ratio": (1.0, 1.0),
    "worst_survivor_ratio_of_pairs": (None, None),
    "worst_survivor_ratio_of_racks": (None, None),
    # Without broker 1, logs-0 is offline. One in-sync replica is enough for acks=all.
    "newly_offline_partitions": (1, 1),
    "under_min_isr_partitions": (0, 0),
    "rack_violations": (0, 0),
    "newly_offline_partitions_of_racks": (None, None),
    "under_min_isr_partitions_of_racks": (None, None),
    # {1} and {1, 2}; the loss of broker 1 loses logs-0.
    "copysets": (2, 2),
    "scatter_width_mean": (1.0, 1.0),
    "loss_probability_of_1_brokers": (0.5, 0.5),
    "loss_probability_of_2_brokers": (1.0, 1.0),
    "loss_probability_of_3_brokers": (None, None),
    "loss_probability_of_4_brokers": (None, None),
    "loss_probability_of_5_brokers": (None, None),
    # If broker 2 fails, broker 1 leads both partitions: twice the mean.
    "required_headroom_leaders": (1.0, 1.0),
    "required_headroom_bytes_out_per_s": (1.0, 1.0),
}


@pytest.mark.stage("gold.plan_metrics")
def test_the_cluster_before_and_after_the_plan(spark: SparkSession, packed_plans: Frames) -> None:
    columns = "goal metric before after lower_bound"
    bounds = {"leader_changes": 1.0}
    expected = [
        ("leaders", name, *(None if value is None else float(value) for value in values), bounds.get(name))
        for name, values in METRICS.items()
    ]
    actual = run_stage("gold.plan_metrics", packed_plans).where(F.col("metric").isin(list(METRICS)))
    assert_approx_df_equality(
        select_columns(actual, columns), expected_frame(spark, "gold.plan_metrics", columns, expected), **CLOSE_ROWS
    )


@pytest.mark.stage("gold.plans")
def test_json_of_the_plan(spark: SparkSession, packed_plans: Frames) -> None:
    paths = {"plan_request": "$.goal", "certificate": "$.gap"}
    actual = run_stage("gold.plans", packed_plans)
    actual = actual.withColumns({name: F.get_json_object(name, path) for name, path in paths.items()})
    columns = "plan_request certificate"
    assert_df_equality(
        select_columns(actual, columns), expected_frame(spark, "gold.plans", columns, [("leaders", "0")]), **SAME_ROWS
    )


@pytest.mark.stage("internal.packed_plans", "gold.plans", "gold.plan_metrics")
def test_a_request_that_no_plan_meets_is_a_row_with_reasons(spark: SparkSession, two_brokers: Frames) -> None:
    packed = run_stage("internal.packed_plans", two_brokers, "plans.goals=drain")
    actual = run_stage("gold.plans", {"internal.packed_plans": packed})
    assert run_stage("gold.plan_metrics", {"internal.packed_plans": packed}).isEmpty()
    columns = "goal feasible objective objective_value moves changed_partitions waves certificate"
    no_plan = (None,) * 6
    assert_df_equality(
        select_columns(actual, columns),
        expected_frame(spark, "gold.plans", columns, [("drain", False, *no_plan)]),
        **SAME_ROWS,
    )
