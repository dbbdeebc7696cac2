"""The order of clusters in the report, and what it says of the first one."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.report.overview import find_priority, rank_urgency
from pipelines.verdict.cluster_evidence import AffectedPartitions, ClusterFindings, PartitionIssue
from pipelines.verdict.judgement import Verdict
from pipelines.verdict.levels import Level

NO_LOSS: dict[str, int | None] = {"broker": 0, "rack": 0, "blocked": 0}
TOPICS = AffectedPartitions(12, 4, ["a", "b", "c"], [6, 3, 2], on_down_brokers=12)


def cluster(name: str, level: Level = Level.AT_RISK, racks: int = 3, load: float = 1.1, **more: Any) -> dict[str, Any]:
    """A cluster of 100 partitions. more: fields of ClusterFindings, issues by name, and broker, rack, blocked."""
    issues = {one: more.pop(one) for one in list(PartitionIssue) if one in more}
    losses = {one: more.pop(one) for one in NO_LOSS if one in more}
    return {
        "cluster_id": name,
        "verdict": Verdict(level, "Broker 3 leads 9 partitions now.", ()),
        "findings": ClusterFindings(**{"counted_partitions": 100, "issues": issues} | more),
        "worst_failures": NO_LOSS | losses,
        "rack_failures": [{}] * racks,
        "metrics": {"worst_survivor_ratio": {"observed": load}},
    }


def test_the_order_of_clusters() -> None:
    expected = [
        cluster("offline-now", offline=AffectedPartitions(1)),
        cluster("blocked-now", under_min_isr=AffectedPartitions(1), broker=90),
        cluster("broker-down", down_brokers=[2], under_replicated=AffectedPartitions(5)),
        cluster("many-if-broker-fails", broker=10),
        cluster("greater-share", broker=4, counted_partitions=20),
        cluster("smaller-share", broker=4, rack=99),
        cluster("one-if-rack-fails", rack=1),
        cluster("one-rack", racks=1, rack=99, blocked=2),
        cluster("hot", load=1.5),
        cluster("a"),
        cluster("b"),
        cluster("lagging", Level.WARNING, under_replicated=AffectedPartitions(80)),
        cluster("unknown", Level.UNKNOWN),
        cluster("ok", Level.OK),
    ]
    least_urgent_first = expected[::-1]
    names = [one["cluster_id"] for one in sorted(least_urgent_first, key=rank_urgency)]
    assert names == [one["cluster_id"] for one in expected]


WORK = "Producers and consumers still work"


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (
            {"offline": TOPICS, "down_brokers": [1], "broker": 5},
            "12 partitions are offline now. Producers and consumers of a, b, c and 1 more topic fail on them.",
        ),
        (
            {
                **{"offline": AffectedPartitions(1, 1, ["a"], [1]), "under_replicated": TOPICS, "down_brokers": [2]},
                **{"broker": 3, "blocked": 9},
            },
            "1 partition is offline now. Producers and consumers of a fail on it. Broker 2 is down, so 12 partitions "
            "of 4 topics lack a replica; if one more broker fails, 3 more partitions go offline and acks=all "
            "producers fail on up to 9 more partitions.",
        ),
        (
            {"offline": AffectedPartitions(1, 1, ["a"], [1])},
            "1 partition is offline now. Producers and consumers of a fail on it.",
        ),
        (
            {"under_min_isr": AffectedPartitions(2, 2, ["a", "b"], [1, 1])},
            "2 partitions are below min.insync.replicas now. Producers with acks=all to a and b fail on them; "
            "consumers still work.",
        ),
        (
            {"down_brokers": [2], "under_replicated": TOPICS, "broker": 7},
            "broker 2 is down, and 12 partitions are under-replicated. "
            f"{WORK}, but if one more broker fails, up to 7 partitions go offline.",
        ),
        (
            {
                "down_brokers": [2, 3],
                "under_replicated": AffectedPartitions(9, on_down_brokers=1),
                "rack": 7,
                "blocked": 9,
            },
            "brokers 2, 3 are down, and 1 partition is under-replicated. "
            f"{WORK}, but if one more rack fails, up to 7 partitions go offline.",
        ),
        (
            {"down_brokers": [2], "under_replicated": TOPICS, "rack": 7, "racks": 1, "blocked": 1},
            "broker 2 is down, and 12 partitions are under-replicated. "
            f"{WORK}, but if one more broker fails, producers with acks=all fail on up to 1 partition.",
        ),
        (
            {"down_brokers": [2], "under_replicated": TOPICS},
            "broker 2 is down, and 12 partitions are under-replicated. "
            f"{WORK}, and no partition goes offline if one more broker fails.",
        ),
        (
            {"offline_if_broker_fails": TOPICS, "broker": 5, "rack": 9},
            "nothing is offline now, but if one broker fails, up to 5 partitions go offline. "
            "Until it is back, producers and consumers of a, b, c and 1 more topic fail on them.",
        ),
        (
            {"offline_if_rack_fails": TOPICS, "rack": 12},
            "nothing is offline now, but if one rack fails, up to 12 partitions go offline. "
            "Until it is back, producers and consumers of a, b, c and 1 more topic fail on them.",
        ),
        ({"level": Level.WARNING}, f"broker 3 leads 9 partitions now. {WORK}."),
    ],
)
def test_the_reason_to_start_with_a_cluster(first: dict[str, Any], reason: str) -> None:
    priority = find_priority([cluster("first", **first), cluster("other", Level.OK)])
    introduction = "No cluster is at risk. Start with" if "level" in first else "Start with"
    assert priority == (introduction, reason)


def test_clusters_without_problem() -> None:
    fine = [cluster("a", Level.OK), cluster("b", Level.OK)]
    assert find_priority(fine) == ("No cluster has a problem: in each, any single broker can fail.", "")
    unknown = find_priority([cluster("c", Level.UNKNOWN), *fine])
    assert unknown == ("No problem is known, but the sources of 1 cluster lack something.", "")


def test_no_cluster() -> None:
    assert find_priority([]) == ("No cluster has been evaluated.", "")
