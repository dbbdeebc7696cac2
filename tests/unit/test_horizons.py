"""What is due today and this week, and what to watch."""

from __future__ import annotations

from typing import Any

from pipelines.report.load_sections import THIS_WEEK, TO_FUND, GrowthDate, GrowthSummary
from pipelines.report.overview import group_by_horizon
from pipelines.verdict.judgement import Verdict
from pipelines.verdict.statements import STATEMENTS
from pipelines.verdict.verdict_points import Level, VerdictPoint


def cluster(name: str, *kinds: str) -> dict[str, Any]:
    """A cluster with findings of these kinds, each of 3 partitions or of 3 brokers."""
    points = tuple(VerdictPoint(STATEMENTS[kind].level, "", "", kind, None, 3, (), "4, 5, 6") for kind in kinds)
    return {
        "cluster_id": name,
        "verdict": Verdict(Level.AT_RISK, "", points),
        "growth": GrowthSummary([], 0, []),
        "since": None,
    }


def write_sentences(*clusters: dict[str, Any]) -> dict[str, list[str]]:
    return {
        horizon.title: [
            f"{sentence.text}: "
            + ", ".join(f"{index} {name} {extent}".strip() for index, name, extent in sentence.clusters)
            + (f", {sentence.more} more" if sentence.more else "")
            for sentence in horizon.sentences
        ]
        for horizon in group_by_horizon(clusters)
    }


def test_findings_are_grouped_by_when_they_are_due() -> None:
    kinds = ("offline", "down", "broker_offline", "rack_under_min_isr", "under_replicated", "inferred", "full_log_dir")
    first = cluster("a", *kinds)
    other = cluster("b", "broker_offline", "hot_survivor", "one_rack", "inferred", "healthy")
    assert write_sentences(first, other) == {
        "Today": ["Partitions are offline: 0 a 3 partitions", "Brokers are down: 0 a brokers 4, 5, 6"],
        "This week": [
            "The failure of one broker takes partitions offline: 0 a up to 3 partitions, 1 b up to 3 partitions",
            "The failure of one rack blocks producers with acks=all: 0 a up to 3 partitions",
            "Log dirs are nearly full: 0 a 4, 5, 6",
        ],
        "Watch": [
            "Replicas are out of sync on live brokers: 0 a 3 partitions",
            "A broker leads over 1.25 times the mean after the failure of another one: 1 b",
            "All live brokers are in one rack: 1 b",
            "The sources do not show everything: 0 a, 1 b",
        ],
    }


def test_many_clusters_are_counted() -> None:
    sentences = write_sentences(*(cluster(f"c{i}", "under_min_isr") for i in range(10)))["Today"]
    assert len(sentences) == 1
    assert sentences[0].endswith("7 c7 3 partitions, 2 more")


def test_limits_that_growth_reaches_are_due() -> None:
    def grows(name: str, days: float, due: str | None, number: int = 1) -> dict[str, Any]:
        when = "2026-12-18" if days else "reached"
        date = GrowthDate("disk full", "broker 3", when, days, "", "", "", "", "", due, number)
        return cluster(name) | {"growth": GrowthSummary([date] * min(number, 5), 0, [])}

    clusters = (
        grows("a", 0, THIS_WEEK),
        grows("b", 18, THIS_WEEK, 9),
        grows("c", 31, TO_FUND, 35),
        grows("d", 730, TO_FUND, 2),
        grows("e", 731, None),
    )
    assert write_sentences(*clusters) == {
        "Today": [],
        "This week": ["Disk full within 30 days: 0 a broker 3, 1 b broker 3, 2026-12-18, and 8 more"],
        "Watch": [],
        "Fund": [
            "Disk full within 730 days: 2 c broker 3, 2026-12-18, and 34 more, 3 d broker 3, 2026-12-18, and 1 more"
        ],
    }


def test_every_serious_finding_has_its_place() -> None:
    """Each statement is due at one time, but for those that only inform, and those of `what-if`."""
    informing = {"uneven_leaders", "reassigned", "deleted", "ignored", "healthy", "no_topics", "even_voters"}
    informing |= {"majority_fails", "cordoned", "empty_brokers"}
    for kind in STATEMENTS:
        places = [title for title, sentences in write_sentences(cluster("a", kind)).items() if sentences]
        assert len(places) == (0 if kind in informing else 1), kind
