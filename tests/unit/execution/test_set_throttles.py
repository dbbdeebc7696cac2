"""Which throttles an execution of a plan has left, as seen from the configs alone."""

from __future__ import annotations

import pytest

from pipelines.execution.journal import EarlierConfigs
from pipelines.execution.planned_steps import PlannedSteps
from pipelines.execution.replication_throttle import (
    Configs,
    SetThrottles,
    find_left_throttles,
    list_restore_commands,
    name_throttled,
)
from pipelines.plan_files.kafka_json import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS
from pipelines.plan_files.plan_reader import PlannedChange

# t-0 goes from 1, 2 by way of 1, 3 to 4, 3; t-1 from 1, 2 to 1, 4.
_STEPS = PlannedSteps(
    {
        ("t", 0): PlannedChange([1, 2], ((1, [1, 3]), (2, [4, 3]))),
        ("t", 1): PlannedChange([1, 2], ((1, [1, 4]),)),
        ("u", 0): PlannedChange([5, 6], ((1, [5, 7]),)),
    },
    2,
)


def _replicas(leaders: str, followers: str) -> Configs:
    return {LEADER_REPLICAS: leaders, FOLLOWER_REPLICAS: followers}


def _rates(leader: str, follower: str | None = None) -> Configs:
    return {LEADER_RATE: leader, FOLLOWER_RATE: follower or leader}


def _find(
    rates: dict[int, Configs], replicas: dict[str, Configs], restored: EarlierConfigs | None = None
) -> tuple[list[int], list[str]]:
    left = find_left_throttles(_STEPS, SetThrottles(rates, replicas, {}), restored or EarlierConfigs())
    assert not any(value for one in (*left.brokers.values(), *left.topics.values()) for value in one.values())
    return sorted(left.brokers), sorted(left.topics)


_WAVE = _replicas("0:1,0:2,1:1,1:2", "0:3,1:4")


@pytest.mark.parametrize(
    ("configs", "brokers"),
    [
        (_WAVE, [1, 2, 3, 4]),
        (_replicas("1:1,1:2", "1:4"), [1, 2, 4]),  # the rest of a wave, after an interruption
        (_replicas("0:1,0:3", "0:4"), [1, 3, 4]),  # the second wave
        (_replicas("0:3,0:4", "0:1"), [1, 3, 4]),  # its rollback
        (_replicas("0:1,0:2", "0:3,0:4"), [1, 2, 3, 4]),  # all at once, as throttles.sh sets it
        (_replicas("0:2,0:1", "0:3"), [1, 2, 3]),  # in any order
    ],
)
def test_replicas_of_the_plans_moves_are_recognized(configs: Configs, brokers: list[int]) -> None:
    rates = dict.fromkeys(range(1, 8), _rates("200000"))
    assert _find(rates, {"t": configs}) == (brokers, ["t"])


@pytest.mark.parametrize(
    "configs",
    [
        {LEADER_REPLICAS: "0:1,0:2"},
        _replicas("0:1", "0:3"),  # not all sources
        _replicas("0:1,0:2", "0:9"),
        _replicas("0:1,0:2,7:1,7:2", "0:3,7:3"),  # a partition that the plan does not move
        _replicas("0:1,0:2,1:1,1:2", "0:3"),
        _replicas("*", "*"),
        _replicas("", ""),
        _replicas("nonsense", "0:3"),
    ],
)
def test_throttles_of_others_stay(configs: Configs) -> None:
    assert _find(dict.fromkeys(range(1, 8), _rates("200000")), {"t": configs}) == ([], [])


def test_rate_of_the_first_broker_counts() -> None:
    """Rates are set in the order of the brokers, and removed in the reverse order."""
    own, other = _rates("200000"), _rates("77000000")
    assert _find({1: own, 2: own, 3: other, 4: {}}, {"t": _WAVE}) == ([1, 2], ["t"])
    assert _find({1: {}, 2: {}, 3: other, 4: {}}, {"t": _WAVE}) == ([], ["t"])  # killed before the first was set
    assert _find({1: _rates("5", "6"), 2: own}, {"t": _WAVE}) == ([], ["t"])
    assert _find({1: own, 5: own}, {"t": _WAVE}) == ([1], ["t"])  # 5 has no replica of t


def test_rates_alone_belong_to_nobody() -> None:
    assert _find(dict.fromkeys(range(1, 8), _rates("200000")), {}) == ([], [])


def test_configs_that_were_restored_are_not_left() -> None:
    restored = EarlierConfigs({1: dict(_rates("9"))}, {"t": dict(_WAVE)})
    assert _find({1: _rates("9")}, {"t": _WAVE}, restored) == ([], [])


def test_every_replica_is_the_plans_if_their_names_are_too_long() -> None:
    partitions = {("t", p): PlannedChange([1001, 1002], ((1, [1001, 1003]),)) for p in range(2_000)}
    throttles = SetThrottles(
        {1001: _rates("5")}, {"t": _replicas("*", ",".join(f"{p}:1003" for p in range(2_000)))}, {}
    )
    assert find_left_throttles(PlannedSteps(partitions, 1), throttles, EarlierConfigs()) == EarlierConfigs(
        {1001: {LEADER_RATE: None, FOLLOWER_RATE: None}}, {"t": {LEADER_REPLICAS: None, FOLLOWER_REPLICAS: None}}
    )


def test_commands_restore_what_was_there_before() -> None:
    earlier = EarlierConfigs(
        {3: {LEADER_RATE: "77", FOLLOWER_RATE: None}}, {"t": {LEADER_REPLICAS: "0:1,0:2", FOLLOWER_REPLICAS: "*"}}
    )
    assert name_throttled(earlier) == "broker 3 and topic t"
    assert list_restore_commands(earlier, "b1:9092", None) == [
        f"kafka-configs --bootstrap-server b1:9092 --alter --entity-type brokers --entity-name=3 "
        f"--add-config {LEADER_RATE}=77 --delete-config {FOLLOWER_RATE}",
        f"kafka-configs --bootstrap-server b1:9092 --alter --entity-type topics --entity-name=t "
        f"--add-config '{LEADER_REPLICAS}=[0:1,0:2],{FOLLOWER_REPLICAS}=*'",
    ]
