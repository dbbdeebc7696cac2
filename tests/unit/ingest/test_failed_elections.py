"""kafka-leader-election: what a failed election shows of the partition."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.ingest.formats.tool_documents import describe_failed_elections

from .test_sections import DESCRIBE, load

UNCLEAN = (
    "Error completing leader election (UNCLEAN) for partition: {}: org.apache.kafka.common.errors."
    "EligibleLeadersNotAvailableException: Failed to elect leader for partition {} under strategy Offline\n"
)
PREFERRED = (
    "Error completing leader election (PREFERRED) for partition: {}: org.apache.kafka.common.errors."
    "PreferredLeaderNotAvailableException: Failed to elect leader for partition {} under strategy Preferred\n"
)
CHECK = "check that the listing is of the same time"


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        (
            UNCLEAN.format("a-1", "a-1"),
            [f"partition a-1 had no live replica that could lead, and was offline: {CHECK}"],
        ),
        (
            UNCLEAN.format("a-1", "a-1") + UNCLEAN.format("a-2", "a-2"),
            [f"2 partitions, such as a-1, had no live replica that could lead, and were offline: {CHECK}"],
        ),
        (
            PREFERRED.format("a-1", "a-1"),
            [f"the preferred replica of partition a-1 was down or out of the ISR: {CHECK}"],
        ),
        (
            PREFERRED.format("a-1", "a-1") + UNCLEAN.format("a-3", "a-3") + PREFERRED.format("a-2", "a-2"),
            [
                f"the preferred replicas of 2 partitions, such as a-1, were down or out of the ISR: {CHECK}",
                f"partition a-3 had no live replica that could lead, and was offline: {CHECK}",
            ],
        ),
        (
            "Error completing leader election (PREFERRED) for partition: a-1: x.TimeoutException: y\n",
            [f"the leader election of partition a-1 failed (TimeoutException): {CHECK}"],
        ),
        (
            "Error completing preferred leader election for partition: a-1: x.TimeoutException: y\n",
            [f"the leader election of partition a-1 failed (TimeoutException): {CHECK}"],
        ),
        ("Valid replica already elected for partitions a-1\n", []),
    ],
)
def test_failed_elections_are_one_warning_per_exception(tmp_path: Path, text: str, warnings: list[str]) -> None:
    assert load(tmp_path, text + DESCRIBE).warnings["warning"].to_pylist() == warnings
    assert load(tmp_path, DESCRIBE + text).warnings["warning"].to_pylist() == warnings


def test_a_warning_stands_on_the_first_line_of_its_exception() -> None:
    lines = ["", PREFERRED.format("a-1", "a-1").rstrip(), UNCLEAN.format("a-2", "a-2").rstrip()]
    assert list(describe_failed_elections("\n".join(lines))) == [2, 3]
