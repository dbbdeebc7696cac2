"""The verdict of a run, views and notebooks agree with `what-if`: for every sample and every paste."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipelines.config.settings import load_settings
from pipelines.errors import SourceError
from pipelines.ingest.snapshot_reader import Snapshot, load_snapshot
from pipelines.ingest.sources import Source, find_source, get_name
from pipelines.report.figure_queries import BLOCKED_IF_BROKER_FAILS, FIGURES, TOPICS_AT_RISK
from pipelines.report.html_page import ISSUES
from pipelines.spark.election_udf import elect_leader
from pipelines.spark.views import BY_NAME
from pipelines.stages import failure_stages, silver_stages
from pipelines.stages.cluster_inputs import collect_clusters
from pipelines.stages.finding_stage import cluster_findings, findings
from pipelines.stages.ingest_stages import FILES, entities, raw_metadata
from pipelines.tables import gold_tables
from pipelines.verdict.cluster_evidence import PartitionIssue
from pipelines.verdict.finding_rows import read_verdicts
from pipelines.verdict.judgement import Verdict
from pipelines.verdict.snapshot_findings import find_findings
from pipelines.verdict.verdict_points import ANSWER_SQL, LEVEL_SQL, Level, assess_failure
from pipelines.what_if.failure_effects import list_disk_failures
from pipelines.what_if.what_if_answers import ClusterAnswer, evaluate_brokers, evaluate_failure
from udfs.failures import arrow_functions
from udfs.failures.arrow_functions import AggregationPlan
from udfs.failures.failure_rows import summary_rows
from udfs.failures.scenarios import RandomSets
from udfs.failures.topic_defaults import TopicDefaults
from udfs.network.traffic_rows import NO_ASSUMPTIONS

SAMPLES = Path(__file__).parents[2] / "data_samples"
DEFAULTS = TopicDefaults(ignored=("*1", "p?[a-z]*"))
SETTINGS = load_settings((), environ={})
PLAN = AggregationPlan(
    schemes=("observed",),
    run_seed=0,
    seeds=1,
    max_placed_partitions=1,
    hot_ratio=1.1,
    random_sets=RandomSets(),
    max_pairs=0,
    pair_loads=False,
    network=NO_ASSUMPTIONS,
)


def list_sources() -> list[Source]:
    """Every sample and paste alone, and the sample clusters."""
    files = [file for name in ("formats", "pastes") for file in sorted((SAMPLES / name).iterdir())]
    files = [file for file in files if file.is_file() and file.suffix not in (".expected", ".md")]
    result = [find_source(str(SAMPLES / name)) for name in ("kafka-4.1.1-kraft", "kafka-2.8.2-zookeeper")]
    return [*result, *(Source(f"{file.parent.name}-{file.name}", (file,)) for file in files)]


@pytest.mark.slow
def test_tables_and_what_if_give_the_same_verdict(spark: SparkSession) -> None:
    sources = list_sources()
    expected, elected, answers, issues = {}, {}, {}, {}
    for source in sources:
        try:
            snapshot = load_snapshot(source)
            lost = list_disk_failures(snapshot, snapshot, SETTINGS, ())
            answer = evaluate_brokers(snapshot, DEFAULTS, disk_failures=lost)
            expected[source.cluster_id] = answer.verdict
            answers |= {(source.cluster_id, row.failed): row.answer for row in answer.brokers}
            elected |= list_elections(snapshot, answer)
            counts = find_findings(snapshot, DEFAULTS).issues
            issues |= {(source.cluster_id, issue): affected.partitions for issue, affected in counts.items()}
        except SourceError:
            expected[source.cluster_id] = None
    now = datetime(2026, 1, 2, tzinfo=UTC)
    rows = [
        (source.cluster_id, "s", get_name(file), None, os.fsencode(file), now, 0, 1)
        for source in sources
        for file in source.files
    ]
    raw = raw_metadata(spark.createDataFrame(rows, FILES)).localCheckpoint()
    merged = entities(raw, {}).localCheckpoint()
    brokers = silver_stages.brokers(merged).localCheckpoint()
    topics = silver_stages.topics(merged, DEFAULTS).localCheckpoint()
    parameters = failure_stages.AggregationParameters(DEFAULTS, collect_clusters(brokers, topics, merged), PLAN, "")
    sums = failure_stages.scheme_aggregates(merged, brokers, parameters).localCheckpoint()
    summary = arrow_functions.table_function(summary_rows)
    hotspots = arrow_functions.hotspot_function(1.1)
    tables = {
        "silver.brokers": brokers,
        "silver.topics": topics,
        "silver.partitions": silver_stages.partitions(merged, brokers, DEFAULTS).localCheckpoint(),
        "gold.cluster_findings": cluster_findings(merged, silver_stages.source_summary(merged, raw), DEFAULTS),
        "gold.failure_summary": failure_stages.compute_table(sums, summary, gold_tables.FAILURE_SUMMARY),
        "gold.leader_hotspots": failure_stages.compute_table(sums, hotspots, gold_tables.LEADER_HOTSPOTS, True),
        "gold.disk_after_failure": failure_stages.disk_after_failure(
            *(merged, brokers, silver_stages.log_dirs(merged, brokers), SETTINGS.capacity.max_disk_ratio, {}, 0)
        ),
    }
    for name, frame in tables.items():
        frame.createOrReplaceTempView(f"verdict_{name.replace('.', '_')}")
    figures = {}
    for figure in FIGURES:
        if figure.name == TOPICS_AT_RISK.name:
            query = figure.sql.format(condition="snapshot_id = 's'", most_topics=1_000)
            for name in tables:
                query = query.replace(name, f"verdict_{name.replace('.', '_')}")
            figures[figure.name] = spark.sql(query).toArrow()
    assert len(expected) > 150
    names = ("gold.cluster_findings", "gold.leader_hotspots", "gold.failure_summary", "gold.disk_after_failure")
    found = findings(*(tables[name] for name in names), over_capacity=None)
    judged = read_verdicts(found.toArrow().to_pylist(), expected)
    for cluster, verdict in expected.items():
        if verdict is not None:
            assert judged[cluster] == verdict, cluster
    assert {verdict.level for verdict in judged.values()} == set(Level), "else the samples show too little"
    kinds = {point.kind for verdict in judged.values() for point in verdict.points}
    assert {"down", "down_without_effect", "under_replicated"} <= kinds, "else the samples show too little"
    assert_topics_at_risk(figures[TOPICS_AT_RISK.name].to_pylist(), judged)
    found = spark.sql(f"SELECT *, {LEVEL_SQL} AS level, {ANSWER_SQL} AS answer FROM {FAILURES}").collect()
    judged_answers = {(row.cluster_id, row.failed_brokers[0]): row.answer for row in found if expected[row.cluster_id]}
    assert judged_answers == answers
    assert all((row.level, row.answer) == assess_failure(row.asDict()) for row in found)
    failures = spark.sql(NEWLY_LOST).collect()
    offline, under_min_isr = ({(row[0], row[1]): row[i] for row in failures if row[i]} for i in (2, 3))
    snapshots = "(SELECT DISTINCT cluster_id, 's' AS snapshot_id, true AS newest FROM verdict_silver_partitions)"
    views = {BY_ISSUE: issues, **dict(zip(FAILURE_VIEWS, (offline, under_min_isr), strict=True))}
    for view, counts in views.items():
        query = BY_NAME[view].sql.replace("insights.snapshots", snapshots)
        for name in tables:
            query = query.replace(name, f"verdict_{name.replace('.', '_')}")
        key = "issue" if view == BY_ISSUE else "broker_id"
        found = spark.sql(f"SELECT cluster_id, {key}, count(*) FROM ({query}) GROUP BY ALL").collect()
        assert {(row[0], row[1]): row[2] for row in found if view != BY_ISSUE or expected[row[0]]} == counts, view
        assert len(counts) > 20, "else the samples show too little"
    assert {issue for _, issue in issues} == set(PartitionIssue), "else the samples show too little"
    led = spark.sql(LED_BY_FIRST)
    election = elect_leader(F.col("unclean"), F.col("live"), F.col("unknown"), F.array("failed"))
    rows = led.select("cluster_id", "topic", "partition", election.leader).collect()
    assert {tuple(row[:3]): row[3] for row in rows if expected[row[0]]} == elected


def assert_topics_at_risk(rows: list[dict[str, Any]], judged: dict[str, Verdict]) -> None:
    """Each topic at risk has a finding of its cluster's verdict, and each finding on partitions has topics."""
    kinds: dict[str, set[str]] = {}
    for row in rows:
        kinds.setdefault(row["cluster_id"], set()).update(ISSUES[row["issue"]][1])
    said = {cluster: {point.kind for point in verdict.points} for cluster, verdict in judged.items()}
    for row in rows:
        # A failure that takes partitions below min.insync.replicas may take as many that are below it now offline.
        if row["issue"] != BLOCKED_IF_BROKER_FAILS:
            assert said[row["cluster_id"]] & set(ISSUES[row["issue"]][1]), row
    for cluster, names in said.items():
        assert names & {"offline", "under_min_isr"} <= kinds.get(cluster, set()), cluster
    assert {row["issue"] for row in rows} == set(ISSUES), "else the samples show too little"


BY_ISSUE = "insights.partition_issues"
FAILURE_VIEWS = ("insights.single_failure_offline_partitions", "insights.single_failure_under_min_isr_partitions")
# How many partitions the failure of each broker takes offline, and how many it takes below min.insync.replicas.
NEWLY_LOST = """
SELECT cluster_id, failed_brokers[0], newly_offline_partitions, newly_under_min_isr_partitions
FROM verdict_gold_failure_summary WHERE scheme = 'observed' AND scenario_kind = 'broker'
"""
# As in notebooks/what_if.py: the partitions that the first live broker leads.
LED_BY_FIRST = """
SELECT cluster_id, topic, partition, leader, replicas, isr, elr, failed_dir_replicas, live, unknown, failed,
       coalesce(unclean_leader_election, false) AS unclean
FROM verdict_silver_partitions
JOIN (SELECT cluster_id, topic, unclean_leader_election FROM verdict_silver_topics) USING (cluster_id, topic)
JOIN (
  SELECT cluster_id, collect_list(broker_id) AS live, min(broker_id) AS failed,
         collect_list(CASE WHEN live IS NULL THEN broker_id END) AS unknown
  FROM verdict_silver_brokers WHERE live IS NOT FALSE GROUP BY cluster_id
) USING (cluster_id)
WHERE leader = failed AND replicas IS NOT NULL
"""
# What insights.broker_failure_risk reads.
FAILURES = "verdict_gold_failure_summary WHERE scheme = 'observed' AND scenario_kind = 'broker'"


def list_elections(snapshot: Snapshot, answer: ClusterAnswer) -> dict[tuple[str, str, int], int]:
    """Return the next leader (-1 = none) of each partition that the first live broker leads."""
    if not answer.brokers:
        return {}
    first = min(row.failed for row in answer.brokers)
    changes = evaluate_failure(snapshot, [first], DEFAULTS).partitions
    return {
        (answer.cluster, change.topic, change.partition): -1 if change.leader_after is None else change.leader_after
        for change in changes
        if change.leader_before == first
    }
