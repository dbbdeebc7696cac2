"""The verdict on a cluster, and the answer for each broker."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.report.verdict import ClusterFindings, Level, VerdictPoint, assess_failure, judge_cluster

NOW = {"partitions": 10, "leaders": 10, "max_over_mean_ratio": 1.1, "hottest_broker": 3}


def failure(failed: int, **values: Any) -> dict[str, Any]:
    row = {"newly_offline_partitions": 0, "under_min_isr_partitions": 0, "worst_survivor_ratio": 1.2}
    row |= {"under_min_isr_before_partitions": 0, "unclean_elections": 0}
    return {"failed": failed, "worst_survivor": 9, **row, **values}


def test_good() -> None:
    verdict = judge_cluster(NOW, [failure(1), failure(2, worst_survivor_ratio=1.1)])
    assert verdict.level is Level.GOOD
    assert verdict.sentence == (
        "Any single broker can fail: no partition goes offline, and no survivor leads more than 1.20 times the mean."
    )
    assert verdict.headline.startswith("FINE: any single broker can fail")


@pytest.mark.parametrize(
    ("now", "failures", "sentence"),
    [
        ({"leaders": 9}, [failure(1)], "1 partition is offline now."),
        ({"leaders": 8}, [failure(1)], "2 partitions are offline now."),
        ({}, [failure(1, newly_offline_partitions=1), failure(2)], "Losing broker 1 takes 1 partition offline."),
        (
            {},
            [failure(n, newly_offline_partitions=n) for n in (1, 2)] + [failure(3)],
            "Losing broker 1 or 2 takes partitions offline (worst case: broker 2, 2 partitions).",
        ),
        (
            {},
            [failure(n, newly_offline_partitions=n) for n in (1, 2)],
            "Losing any single broker takes partitions offline (worst case: broker 2, 2 partitions).",
        ),
        (
            {},
            [failure(n, newly_offline_partitions=1) for n in range(1, 9)] + [failure(9)],
            "Losing broker 1, 2, 3, 4, 5, 6 or one of 2 more takes partitions offline "
            "(worst case: broker 1, 1 partition).",
        ),
    ],
)
def test_at_risk(now: dict[str, Any], failures: list[dict[str, Any]], sentence: str) -> None:
    verdict = judge_cluster(NOW | now, failures)
    assert (verdict.level, verdict.sentence) == (Level.BAD, sentence)
    assert verdict.headline == f"AT RISK: {sentence[0].lower()}{sentence[1:]}"


def test_warning() -> None:
    verdict = judge_cluster(NOW, [failure(1, under_min_isr_partitions=2), failure(2)])
    assert verdict.level is Level.WARNING
    assert verdict.sentence == "Losing broker 1 blocks acks=all producers (2 partitions below min.insync.replicas)."
    verdict = judge_cluster(NOW, [failure(n, under_min_isr_partitions=n) for n in (1, 2)])
    assert verdict.headline == (
        "WARNING: losing any single broker blocks acks=all producers "
        "(worst case: broker 2, 2 partitions below min.insync.replicas)."
    )
    verdict = judge_cluster(NOW, [failure(1, worst_survivor_ratio=1.5), failure(2)])
    assert verdict.sentence == "After the worst failure (broker 1), broker 9 leads 1.50 times the mean."


def test_failures_are_not_blamed_for_the_present() -> None:
    before = {"under_min_isr_before_partitions": 3}
    failures = [failure(1, under_min_isr_partitions=3, **before), failure(2, under_min_isr_partitions=2, **before)]
    texts = [point.text for point in judge_cluster(NOW, failures).points]
    assert texts[0] == "3 partitions are below min.insync.replicas now and block acks=all producers."
    assert not any(text.startswith("Losing") for text in texts)
    failures.append(failure(4, under_min_isr_partitions=5, **before))
    texts = [point.text for point in judge_cluster(NOW, failures).points]
    assert texts[1] == "Losing broker 4 blocks acks=all producers (5 partitions below min.insync.replicas)."


def test_unclean_elections() -> None:
    verdict = judge_cluster(NOW, [failure(1, unclean_elections=2), failure(2)])
    sentence = "Losing broker 1 causes unclean elections that could lose messages in 2 partitions."
    assert (verdict.level, verdict.sentence) == (Level.WARNING, sentence)
    verdict = judge_cluster(NOW, [failure(n, unclean_elections=n) for n in (1, 2)])
    assert verdict.sentence == (
        "Losing any single broker causes unclean elections that could lose messages "
        "(worst case: broker 2, 2 partitions)."
    )


def test_unknown_ratios() -> None:
    assert judge_cluster(None, []).level is Level.WARNING
    verdict = judge_cluster(NOW | {"max_over_mean_ratio": None}, [failure(1, worst_survivor_ratio=None)])
    assert verdict.level is Level.GOOD
    assert verdict.sentence == "Any single broker can fail: no partition goes offline."


def test_answers() -> None:
    def answer(**values: Any) -> str:
        return assess_failure(failure(1, **values)).answer

    assert answer() == "Yes"
    assert assess_failure(failure(1)).level is Level.GOOD
    assert answer(newly_offline_partitions=1) == "No: 1 partition would go offline"
    below = "would fall below min.insync.replicas (acks=all blocked)"
    assert answer(under_min_isr_partitions=2) == f"Risky: 2 partitions {below}"
    assert answer(under_min_isr_partitions=2, under_min_isr_before_partitions=2) == "Yes"
    assert answer(under_min_isr_partitions=3, under_min_isr_before_partitions=2) == f"Risky: 1 partition {below}"
    unclean = answer(unclean_elections=1, under_min_isr_partitions=1)
    assert unclean == "Risky: unclean elections could lose messages in 1 partition"
    assert answer(worst_survivor_ratio=1.3) == "Yes, but broker 9 would be hot"
    assert assess_failure(failure(1, worst_survivor_ratio=1.3)).level is Level.WARNING
    assert answer(worst_survivor_ratio=None) == "Yes"


def test_no_live_broker() -> None:
    """The verdict names what is known: all partitions are offline."""
    unknown = "No live broker is known: failures cannot be evaluated."
    verdict = judge_cluster({**NOW, "partitions": 2, "leaders": 0}, [])
    assert (verdict.level, verdict.sentence) == (Level.BAD, "2 partitions are offline now.")
    assert verdict.points == (VerdictPoint(Level.WARNING, unknown),)
    assert judge_cluster(None, []).sentence == unknown


def test_quarantined_records_are_a_warning() -> None:
    verdict = judge_cluster(NOW, [failure(1), failure(2)], ClusterFindings(quarantined_records=1))
    sentence = "1 record of the sources is quarantined and left out of every answer: run inspect to see why."
    assert (verdict.level, verdict.sentence) == (Level.WARNING, sentence)
    assert judge_cluster(NOW, [failure(1), failure(2)]).level is Level.GOOD
    text = "2 records of the sources are quarantined and left out of every answer: run inspect to see why."
    assert judge_cluster(None, [], ClusterFindings(quarantined_records=2)).points == (
        VerdictPoint(Level.WARNING, text),
    )


def test_brokers_of_unknown_state_are_a_warning() -> None:
    verdict = judge_cluster(NOW, [failure(1), failure(2)], ClusterFindings(unknown_brokers=[2]))
    sentence = "Unknown whether broker 2 is live: it counts as live (run inspect for details)."
    assert (verdict.level, verdict.sentence) == (Level.WARNING, sentence)
    several = judge_cluster(NOW, [failure(1), failure(2)], ClusterFindings(unknown_brokers=range(8))).sentence
    assert several.startswith("Unknown whether brokers 0, 1, 2, 3, 4, 5 and 2 more are live: they count as live")


@pytest.mark.parametrize(
    ("findings", "sentence"),
    [
        (ClusterFindings(down_brokers=[3]), "Broker 3 is down."),
        (ClusterFindings(down_brokers=range(8)), "Brokers 0, 1, 2, 3, 4, 5 and 2 more are down."),
        (ClusterFindings(under_replicated_partitions=1), "1 of 10 partitions is under-replicated."),
        (
            ClusterFindings(warnings=["d.txt line 4: the command failed: the listing may be cut"]),
            "d.txt line 4: the command failed: the listing may be cut.",
        ),
        (
            ClusterFindings(incomplete_topics=1, incomplete_topic_names=["money"]),
            "1 topic is not fully shown by the sources (money): no answer covers what is missing.",
        ),
        (
            ClusterFindings(incomplete_topics=8, incomplete_topic_names=list("abcdef"), missing_partitions=1),
            "8 topics are not fully shown by the sources (a, b, c, d, e, f and 2 more); 1 partition is missing: "
            "no answer covers what is missing.",
        ),
        (
            ClusterFindings(identity_conflicts=2),
            "The sources name different ids of a topic or different hosts of a broker: they may be of two clusters.",
        ),
        (
            ClusterFindings(config_conflicts=1),
            "The sources show different values of min.insync.replicas or unclean.leader.election.enable (1 conflict): "
            "the first is used (run inspect for details).",
        ),
    ],
)
def test_findings_are_warnings(findings: ClusterFindings, sentence: str) -> None:
    verdict = judge_cluster(NOW, [failure(1), failure(2)], findings)
    assert (verdict.level, verdict.sentence) == (Level.WARNING, sentence)


def test_only_some_warnings_are_repeated() -> None:
    texts = [
        point.text for point in judge_cluster(NOW, [failure(1)], ClusterFindings(warnings=list("abcdefgh"))).points
    ]
    assert texts[:7] == ["a.", "b.", "c.", "d.", "e.", "f.", "2 more warnings: run inspect."]


def test_partitions_of_deleted_topics_are_no_risk() -> None:
    findings = ClusterFindings(offline_partitions_of_deleted_topics=2)
    verdict = judge_cluster(NOW | {"leaders": 8}, [failure(1)], findings)
    assert verdict.level is Level.GOOD
    assert verdict.points[0].text == "2 offline partitions belong to topics that are marked for deletion."
    assert judge_cluster(NOW | {"leaders": 7}, [failure(1)], findings).sentence == "1 partition is offline now."


def test_a_reassignment_is_said() -> None:
    verdict = judge_cluster(NOW, [failure(1)], ClusterFindings(reassigned_partitions=1))
    assert (verdict.level, verdict.points[0].text) == (Level.GOOD, "1 partition is being reassigned.")


def test_inferred_states_are_a_warning() -> None:
    verdict = judge_cluster(NOW, [failure(1)], ClusterFindings(inferred_partitions=2))
    assert verdict.sentence == "The sources do not show leader or ISR of 2 partitions: healthy is assumed."


def test_unused_files_are_a_warning() -> None:
    verdict = judge_cluster(NOW, [failure(1)], ClusterFindings(unused_files=["a.txt", "b.txt"]))
    assert verdict.sentence == "Nothing is used of 2 files (a.txt, b.txt): run inspect to see why."
