"""What the report says of a plan: what is better and worse after it, and what to know before it is executed."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.report.planned_work import describe_effects
from tests.report.made_up import cluster_of

GB, TB = 10**9, 10**12
QUIET = {"newly_offline_partitions": [0.0, 0.0]}  # changes of the made-up plan


def plan(**more: Any) -> dict[str, Any]:
    """A row of gold.plans and metrics that change nothing but these; a pair is the values before and after the plan."""
    row: dict[str, Any] = cluster_of(3)["plan"]
    metrics = row["metrics"] | QUIET | {name: value for name, value in more.items() if name in row["metrics"]}
    return row | {name: value for name, value in more.items() if name not in metrics} | {"metrics": metrics}


def describe(has_racks: bool = True, **more: Any) -> tuple[list[str], list[str], list[str]]:
    effects = describe_effects(plan(**more), has_racks)
    assert effects is not None
    return tuple(effects)


def test_the_three_most_important_improvements() -> None:
    better, worse, caveats = describe(
        worst_survivor_ratio=(1.57, 1.37),
        rack_violations=(101, 0),
        newly_offline_partitions=(24, 0),
        under_min_isr_partitions=(1064, 0),
    )
    assert better == [
        "offline if a broker fails: up to 24 -> 0",
        "acks=all blocked if a broker fails: up to 1,064 -> 0",
        "rack violations 101 -> 0",
    ]
    assert (worse, caveats) == ([], [])


def test_what_is_worse_is_said_too() -> None:
    better, worse, _ = describe(
        under_replicated_partitions=(123, 3),
        worst_survivor_ratio=(1.57, 1.37),
        leaders_max_over_mean=(1.37, 1.44),
        disk_max_over_mean=(1.26, 1.66),
        under_min_isr_partitions=(0, 2),
    )
    assert better == ["under-replicated partitions 123 -> 3", "worst survivor 1.57 -> 1.37 times the mean"]
    assert worse == [
        "acks=all blocked if a broker fails: up to 0 -> 2",
        "most leaders on a broker 1.37 -> 1.44 times the mean",
        "fullest disk 1.26 -> 1.66 times the mean",
    ]


def test_what_hardly_changes_is_left_out() -> None:
    changes = {"leaders_max_over_mean": (1.37, 1.4), "replicas_max_over_mean": (1.0, 1.09), "rack_violations": (50, 47)}
    assert describe(**changes) == ([], [], [])
    assert describe(disk_max_over_mean=(None, None), worst_survivor_ratio=(None, 1.5)) == ([], [], [])


def test_a_single_rack_does_not_count() -> None:
    changes = {"newly_offline_partitions_of_racks": (101, 0), "under_min_isr_partitions_of_racks": (5, 0)}
    assert describe(**changes)[0] == [
        "offline if a rack fails: up to 101 -> 0",
        "acks=all blocked if a rack fails: up to 5 -> 0",
    ]
    assert describe(has_racks=False, **changes) == ([], [], [])


OFFLINE, MOVING = "the lack of an in-sync replica on a live broker", "an ongoing reassignment"
MISSED = [f"a-1 and 2 others cannot be changed because of {OFFLINE}", "broker 4 still holds 3 replicas"]


@pytest.mark.parametrize(
    ("columns", "caveats"),
    [
        (
            {"goal": "repair", "frozen_partitions": 3, "frozen_reasons": [f"3 because of {OFFLINE}"]}
            | {"missed_targets": MISSED},
            [f"3 partitions left unchanged because of {OFFLINE}", "not reached: broker 4 still holds 3 replicas"],
        ),
        (
            {"goal": "failover", "frozen_partitions": 4}
            | {"frozen_reasons": [f"1 because of {MOVING}", f"3 because of {OFFLINE}"]},
            [f"4 partitions left unchanged: 1 because of {MOVING}; 3 because of {OFFLINE}"],
        ),
        (
            {"goal": "leaders", "frozen_partitions": 1, "frozen_reasons": [f"1 because of {MOVING}"]},
            [f"1 partition left unchanged because of {MOVING}"],
        ),
        (
            {"goal": "rf", "frozen_partitions": 126, "frozen_reasons": [f"126 because of {OFFLINE}"]}
            | {"missed_targets": MISSED[:1]},
            [f"not reached: a-1 and 2 others cannot be changed because of {OFFLINE}"],
        ),
        ({"unsized_partitions": 12}, ["the size of 12 partitions is unknown and counts as 0 bytes"]),
        ({"unsized_partitions": 12, "copied_bytes": 0}, []),
        ({"unsized_partitions": 12, "copied_bytes": None}, []),
        (
            {"fullest_broker": 1, "fullest_broker_bytes": (861 * GB, 2.32 * TB)},
            ["broker 1: 861 GB -> 2.32 TB, check that it has room"],
        ),
        ({"fullest_broker_bytes": (100 * GB, 150 * GB)}, []),
        ({"fullest_broker_bytes": (None, None)}, []),
    ],
)
def test_caveats(columns: dict[str, Any], caveats: list[str]) -> None:
    assert describe(**columns)[2] == caveats


def test_no_plan_has_no_effects() -> None:
    assert describe_effects(None, has_racks=True) is None
    assert describe_effects({"feasible": False}, has_racks=True) is None
