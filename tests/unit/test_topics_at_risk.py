"""The table of topics at risk: their order, causes and next steps."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.report.html_page import MAX_LISTED, find_topics_at_risk
from pipelines.verdict.judgement import Verdict
from pipelines.verdict.verdict_points import Level, VerdictPoint
from tests.report.made_up import topic_at_risk

POINTS = (
    VerdictPoint(Level.AT_RISK, "Broker 4 is down.", "restart it", "down"),
    VerdictPoint(Level.AT_RISK, "Losing broker 2 takes 5 partitions offline.", "add replicas", "broker_offline"),
)


def cluster(name: str, *rows: dict[str, Any]) -> dict[str, Any]:
    return {"cluster_id": name, "verdict": Verdict(Level.AT_RISK, "", POINTS), "topics_at_risk": list(rows)}


def test_the_most_serious_issue_of_all_clusters_is_first() -> None:
    lagging = topic_at_risk("lagging", 3, "under_replicated")
    first = cluster("first", topic_at_risk("b", 3), topic_at_risk("a", 3), lagging)
    other = cluster("other", topic_at_risk("c", 2, "offline"), topic_at_risk("d", 2))
    found = find_topics_at_risk([first, other, cluster("fine")])
    groups = [(group.cluster_id, group.issue, [row.topic for row in group.topics]) for group in found.groups]
    assert groups == [
        ("other", "offline now", ["c"]),
        ("first", "go offline if one broker fails", ["b", "a"]),
        ("other", "go offline if one broker fails", ["d"]),
        ("first", "under-replicated", ["lagging"]),
    ]
    steps = [group.point.step if group.point else None for group in found.groups]
    assert steps == [None, "add replicas", "add replicas", "restart it"]
    assert (found.listed, found.total) == (5, 5)


def test_a_long_list_ends_and_is_counted() -> None:
    found = find_topics_at_risk([cluster("a", *(topic_at_risk(f"t{i}", 2_500) for i in range(MAX_LISTED + 9)))])
    assert (sum(len(group.topics) for group in found.groups), found.listed) == (MAX_LISTED, MAX_LISTED)
    assert found.total == 2_500


@pytest.mark.parametrize(("total", "rows"), [(12, 12), (45, 45), (46, 30)])
def test_no_list_ends_for_a_few_more_rows(total: int, rows: int) -> None:
    found = find_topics_at_risk([cluster("a", *(topic_at_risk(f"t{i}", total) for i in range(total)))])
    assert found.rows_at_first == rows


@pytest.mark.parametrize(
    ("issue", "columns", "cause"),
    [
        ("offline", {"failed_brokers": [4], "under_replicated_partitions": 2}, "replication factor 1; failed broker 4"),
        ("offline_if_broker_fails", {}, "replication factor 1"),
        (
            "offline_if_broker_fails",
            {"single_replica_partitions": 1, "replicas_max": 3, "under_replicated_partitions": 1},
            "replication factor 1 (1 partition); one replica in sync",
        ),
        ("offline_if_rack_fails", {"single_replica_partitions": 0}, "all replicas in one rack (r1)"),
        (
            "offline_if_rack_fails",
            {"single_replica_partitions": 0, "under_replicated_partitions": 1, "failed_brokers": [4, 5]},
            "in-sync replicas in one rack (r1); failed brokers 4, 5",
        ),
        (
            "under_min_isr",
            {"single_replica_partitions": 0, "under_replicated_partitions": 2, "effective_min_isr": 2},
            "below min.insync.replicas (2); replicas out of sync",
        ),
        (
            "blocked_if_broker_fails",
            {"single_replica_partitions": 0, "effective_min_isr": 3},
            "at min.insync.replicas (3)",
        ),
        (
            "under_replicated",
            {"single_replica_partitions": 0, "under_replicated_partitions": 2, "failed_brokers": [4]},
            "failed broker 4",
        ),
    ],
)
def test_the_cause(issue: str, columns: dict[str, Any], cause: str) -> None:
    (group,) = find_topics_at_risk([cluster("a", topic_at_risk("t", 1, issue, **columns))]).groups
    assert group.topics[0].cause == cause


def test_the_total_of_a_group() -> None:
    """It counts all topics of the group, also those that are not listed."""
    partly = {"issue_topics": 3, "issue_partitions": 1_012, "issue_bytes": 66.2 * 10**9, "issue_sized_partitions": 7}
    unknown = {"issue_topics": 1, "issue_partitions": 1, "issue_bytes": None, "issue_sized_partitions": 0}
    for columns, total in (
        ({}, "2 topics, 4 partitions, 6 GB"),
        (partly, "3 topics, 1,012 partitions, 66.2 GB (of known size)"),
        (unknown, "1 topic, 1 partition, size unknown"),
    ):
        (group,) = find_topics_at_risk([cluster("a", topic_at_risk("t", 2, **columns))]).groups
        assert group.total == total


def test_replicas_and_sizes() -> None:
    rows = [
        topic_at_risk("known", 3),
        topic_at_risk("partly", 3, sized_partitions=1, replicas_max=3),
        topic_at_risk("unknown", 3, sized_partitions=0, size_bytes=None),
    ]
    (group,) = find_topics_at_risk([cluster("a", *rows)]).groups
    assert [row[2:4] for row in group.topics] == [("1", "3 GB"), ("1 to 3", "over 3 GB"), ("1", "unknown")]
