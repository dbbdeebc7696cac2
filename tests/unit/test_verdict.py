"""A cluster's state in a sentence."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.report.verdict import BAD, GOOD, WARNING, loss_of, verdict_of

NOW = {"partitions": 10, "leaders": 10, "max_over_mean_ratio": 1.1, "hottest_broker": 3}


def failure(failed: int, **values: Any) -> dict[str, Any]:
    row = {"newly_offline_partitions": 0, "under_min_isr_partitions": 0, "worst_survivor_ratio": 1.2}
    row |= {"under_min_isr_before_partitions": 0, "unclean_elections": 0}
    return {"failed": failed, "worst_survivor": 9, **row, **values}


def test_all_is_well() -> None:
    found = verdict_of(NOW, [failure(1), failure(2, worst_survivor_ratio=1.1)])
    assert found["level"] == GOOD
    assert found["sentence"] == (
        "Any one broker can fail: nothing goes offline, and no survivor would lead more than 1.20 times the mean."
    )


@pytest.mark.parametrize(
    ("now", "failures", "sentence"),
    [
        ({"leaders": 9}, [failure(1)], "1 partition has no leader now."),
        (
            {},
            [failure(1, newly_offline_partitions=1), failure(2)],
            "The failure of broker 1 takes 1 partition offline.",
        ),
        (
            {},
            [failure(n, newly_offline_partitions=n) for n in (1, 2)] + [failure(3)],
            "The failure of broker 1 or 2 takes partitions offline, up to 2 (broker 2).",
        ),
        (
            {},
            [failure(n, newly_offline_partitions=n) for n in (1, 2)],
            "The failure of any one broker takes partitions offline, up to 2 (broker 2).",
        ),
        (
            {},
            [failure(n, newly_offline_partitions=1) for n in range(1, 9)] + [failure(9)],
            "The failure of broker 1, 2, 3, 4, 5, 6 and 2 more takes partitions offline, up to 1 (broker 1).",
        ),
    ],
)
def test_at_risk(now: dict[str, Any], failures: list[dict[str, Any]], sentence: str) -> None:
    found = verdict_of(NOW | now, failures)
    assert (found["level"], found["sentence"]) == (BAD, sentence)


def test_to_be_looked_at() -> None:
    found = verdict_of(NOW, [failure(1, under_min_isr_partitions=2), failure(2)])
    assert found["level"] == WARNING
    assert found["sentence"].startswith("After the failure of broker 1, producers with acks=all are rejected")
    found = verdict_of(NOW, [failure(1, worst_survivor_ratio=1.5), failure(2)])
    assert found["sentence"] == "After the worst failure (broker 1), broker 9 would lead 1.50 times the mean."


def test_what_is_rejected_now_is_not_laid_on_a_failure() -> None:
    held = {"under_min_isr_before_partitions": 3}
    failures = [failure(1, under_min_isr_partitions=3, **held), failure(2, under_min_isr_partitions=2, **held)]
    texts = [point["text"] for point in verdict_of(NOW, failures)["points"]]
    assert texts[0] == "3 partitions reject producers with acks=all now."
    assert not any(text.startswith("After the failure") for text in texts)
    failures.append(failure(4, under_min_isr_partitions=5, **held))
    texts = [point["text"] for point in verdict_of(NOW, failures)["points"]]
    assert (
        texts[1]
        == "After the failure of broker 4, producers with acks=all are rejected: by up to 5 partitions then (broker 4)."
    )


def test_unclean_elections_are_told() -> None:
    found = verdict_of(NOW, [failure(1, unclean_elections=2), failure(2)])
    said = "The failure of broker 1 brings unclean elections: messages of 2 partitions may be lost."
    assert (found["level"], found["sentence"]) == (WARNING, said)


def test_nothing_is_known() -> None:
    assert verdict_of(None, [])["level"] == WARNING
    assert verdict_of(NOW | {"max_over_mean_ratio": None}, [failure(1, worst_survivor_ratio=None)])["level"] == GOOD


def test_can_it_be_lost() -> None:
    assert loss_of(failure(1)) == (GOOD, "yes")
    assert loss_of(failure(1, newly_offline_partitions=1))[1] == "no: 1 partition would be offline"
    assert loss_of(failure(1, under_min_isr_partitions=2))[1] == "hardly: 2 partitions would reject acks=all"
    already = failure(1, under_min_isr_partitions=2, under_min_isr_before_partitions=2)
    assert loss_of(already) == (GOOD, "yes")
    assert loss_of(already | {"under_min_isr_partitions": 3})[1] == "hardly: 1 more partition would reject acks=all"
    unclean = failure(1, unclean_elections=1, under_min_isr_partitions=1)
    assert loss_of(unclean)[1] == "hardly: messages of 1 partition may be lost, by unclean elections"
    assert loss_of(failure(1, worst_survivor_ratio=1.3)) == (WARNING, "yes, but broker 9 would be hot")


def test_nobody_lives() -> None:
    """What is known is said: all of its partitions are without leader."""
    found = verdict_of({**NOW, "partitions": 2, "leaders": 0}, [])
    assert (found["level"], found["sentence"]) == (BAD, "2 partitions have no leader now.")
    assert found["points"] == [{"level": WARNING, "text": "No broker that lives is known: nothing else can be said."}]
    assert verdict_of(None, [])["sentence"] == "No broker that lives is known: nothing can be said."


def test_records_that_were_rejected_are_to_be_looked_at() -> None:
    found = verdict_of(NOW, [failure(1), failure(2)], quarantined=1)
    said = "1 record of the sources was rejected: see silver.quarantine, or inspect."
    assert (found["level"], found["sentence"]) == (WARNING, said)
    assert verdict_of(NOW, [failure(1), failure(2)])["level"] == GOOD
    assert verdict_of(None, [], 2)["points"] == [
        {"level": WARNING, "text": "2 records of the sources were rejected: see silver.quarantine, or inspect."}
    ]
