"""Sick clusters that people met, as pastes: what `plan` answers, and what `check` says of good and of bad plans."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.planning.plan_commands import CommandResult
from tests.unit.planning.test_check_command import judge, write
from tests.unit.planning.test_sick_plans import plan

PASTES = Path("data_samples/pastes")
LOST, MOVED = PASTES / "broker-lost-for-good.txt", PASTES / "moved-partitions-of-a-topic.txt"
LAGS, STUCK, BLOCKED = (
    PASTES / f"{name}.txt" for name in ("only-one-in-sync", "reassigned-to-down-broker", "min-isr-above-replicas")
)
Lists = dict[str, list[int]]


@pytest.mark.parametrize(
    ("source", "arguments", "lists"),
    [
        (LAGS, "--goal rf --rf 1 --topics keys", {"keys-0": [92]}),
        (LAGS, "--goal rf --rf 2 --topics keys", {"keys-0": [92, 90]}),
        (MOVED, "--goal repair", {}),
        (LOST, "--goal rf --rf 2", {"grain-0": [1, 2], "grain-1": [2, 1], "grain-2": [1, 2]}),
        (STUCK, "--goal repair", {"audit-0": [22, 21], "audit-1": [23, 21]}),
        (BLOCKED, "--goal rf --rf 3 --add-brokers 7", {"tolls-0": [5, 6, 7], "tolls-1": [6, 5, 7]}),
    ],
)
def test_the_plan_is_the_right_one(
    source: Path, arguments: str, lists: Lists, capsys: pytest.CaptureFixture[str]
) -> None:
    planned, _ = plan(capsys, source, *arguments.split())
    assert {name: sorted(replicas) for name, replicas in planned.items()} == {
        name: sorted(replicas) for name, replicas in lists.items()
    }


@pytest.mark.parametrize(
    ("source", "lists", "arguments", "level", "faults"),
    [
        (LAGS, {"keys-0": [90]}, "--rf 1", "HARMFUL", {"last_copy"}),
        (LAGS, {"keys-0": [90, 91]}, "--rf 2", "HARMFUL", {"last_copy", "waits_for_lagging"}),
        (LAGS, {"keys-0": [92]}, "--rf 1", "RISKY", {"single_replica"}),
        (LAGS, {"keys-0": [90, 92]}, "--rf 2", "RISKY", {"waits_for_lagging"}),
        (MOVED, {"tolls-2": [63, 64, 61, 62]}, "", "HARMFUL", {"replication_factor"}),
        (MOVED, {"tolls-0": [62, 63, 61]}, "", "REJECTED BY KAFKA", {"under_way"}),
        (MOVED, {"tolls-2": [64, 63, 61]}, "", "SAFE", set()),
        (LOST, {"grain-0": [1, 3]}, "--rf 2", "REJECTED BY KAFKA", {"down_broker"}),
        (LOST, {"grain-0": [1, 2]}, "", "HARMFUL", {"replication_factor"}),
        (LOST, {"grain-0": [1, 2], "grain-1": [2, 1], "grain-2": [1, 2]}, "--rf 2", "SAFE", set()),
        (STUCK, {"tolls-0": [22, 23]}, "", "REJECTED BY KAFKA", {"under_way"}),
        (STUCK, {"audit-0": [22, 25]}, "", "REJECTED BY KAFKA", {"down_broker"}),
        (STUCK, {"audit-0": [22, 21], "audit-1": [23, 21]}, "", "SAFE", set()),
        (BLOCKED, {"tolls-0": [5]}, "--rf 1", "HARMFUL", {"drops_in_sync"}),
        (BLOCKED, {"tolls-0": [5, 6, 7], "tolls-1": [6, 5, 7]}, "--rf 3 --add-brokers 7", "SAFE", set()),
    ],
)
def test_good_and_bad_plans_are_told_apart(
    source: Path,
    lists: Lists,
    arguments: str,
    level: str,
    faults: set[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    entries = [(name.rpartition("-")[0], int(name.rpartition("-")[2]), ids) for name, ids in lists.items()]
    found_level, findings = judge(capsys, write(tmp_path, *entries), source, *arguments.split())
    assert (found_level, set(findings) & {*faults, *_certain(findings)}) == (level, faults)


def _certain(findings: dict[str, dict[str, object]]) -> set[str]:
    """Return the faults that are worse than a risk."""
    return {fault for fault, finding in findings.items() if finding["level"] != "RISKY"}


def test_what_never_ends_is_named_with_its_cancellation(capsys: pytest.CaptureFixture[str]) -> None:
    result = CommandResult(capsys, "check", STUCK, "--json", "-")
    cancelled = json.loads(json.loads(result.out)["cancel_stuck"])["partitions"]
    assert result.code == 1
    assert {(one["partition"], *one["replicas"]) for one in cancelled} == {(0, 22, 23), (1, 21, 22)}
    assert "broker 25, down: it does not end until it is back" in CommandResult(capsys, "check", STUCK).out
    # It is no goal's to change them, but each names the broker.
    lists, warnings = plan(capsys, STUCK, "--goal", "balance")
    assert not any(name.startswith("tolls") for name in lists)
    assert "cannot complete, as replicas are being added on broker 25, which is down" in warnings


def test_replicas_below_min_insync_replicas_block_now(capsys: pytest.CaptureFixture[str]) -> None:
    """Kafka 2.1 does not lower min.insync.replicas to the number of replicas."""
    verdict = CommandResult(capsys, "what-if", BLOCKED).out
    assert "2 partitions are below min.insync.replicas now" in verdict
    assert "waiting does not help" in verdict
