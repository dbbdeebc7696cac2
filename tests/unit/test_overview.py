"""The order of clusters in the report, and what it says of the first one."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.report.overview import find_priority, rank_urgency
from pipelines.verdict.cluster_evidence import AffectedPartitions, ClusterFindings, PartitionIssue
from pipelines.verdict.judgement import Verdict
from pipelines.verdict.verdict_points import Level, VerdictPoint

NO_LOSS: dict[str, int | None] = {"broker": 0, "rack": 0, "blocked": 0}


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


WORK = "Producers and consumers still work."


@pytest.mark.parametrize(
    ("level", "points", "reason"),
    [
        (
            Level.AT_RISK,
            ("12 partitions are offline now: a (12).", "offline"),
            "12 partitions are offline now: a (12). Producers and consumers fail there. Broker 2 is down.",
        ),
        (
            Level.AT_RISK,
            ("2 partitions are below min.insync.replicas now.", "under_min_isr"),
            "2 partitions are below min.insync.replicas now. Producers with acks=all fail there; consumers still work. "
            "Broker 2 is down.",
        ),
        (
            Level.AT_RISK,
            ("Losing broker 1 takes 5 partitions offline.", "broker_offline"),
            f"losing broker 1 takes 5 partitions offline. {WORK} Broker 2 is down.",
        ),
        (Level.WARNING, ("Broker 3 leads 9 partitions now.", "hot_broker"), f"broker 3 leads 9 partitions now. {WORK}"),
    ],
)
def test_the_reason_to_start_with_a_cluster(level: Level, points: tuple[str, str], reason: str) -> None:
    text, kind = points
    found = (VerdictPoint(level, text, kind=kind), VerdictPoint(Level.AT_RISK, "Broker 2 is down.", kind="down"))
    first = cluster("first") | {"verdict": Verdict(level, text, found)}
    introduction = "No cluster is at risk. Start with" if level is Level.WARNING else "Start with"
    assert find_priority([first, cluster("other", Level.OK)]) == (introduction, reason)


def test_clusters_without_problem() -> None:
    fine = [cluster("a", Level.OK), cluster("b", Level.OK)]
    assert find_priority(fine) == ("No cluster has a problem: in each, any single broker can fail.", "")
    unknown = find_priority([cluster("c", Level.UNKNOWN), *fine])
    assert unknown == ("No problem is known, but the sources of 1 cluster lack something.", "")


def test_no_cluster() -> None:
    assert find_priority([]) == ("No cluster has been evaluated.", "")
