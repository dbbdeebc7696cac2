"""What stands against a plan is named, and only that."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.unit.planning.plan_models import model_with
from udfs.planning.cluster_model import EXCLUDED, ClusterModel
from udfs.planning.constraints import Asked, Infeasible, rules_for, usual_factor
from udfs.planning.infeasibility import reasons_against
from udfs.planning.replicas.replica_counts import move_by_counts


def three_racks(factor: int = 3, partitions: int = 12) -> ClusterModel:
    """Six brokers, two a rack."""
    lists = {("t", p): [(p + k) % 6 for k in range(factor)] for p in range(partitions)}
    return model_with(lists, range(6), ["a", "b", "c"] * 2)


def against(model: ClusterModel, goal: str, request: Asked | None = None) -> tuple[str, ...]:
    rules = rules_for(model, goal, request)
    reasons = reasons_against(model, rules)
    if reasons:
        with pytest.raises(Infeasible) as raised:
            move_by_counts(model, rules)
        assert raised.value.reasons == reasons
    return reasons


def test_more_replicas_than_brokers() -> None:
    said = against(three_racks(), "rf", Asked(replication_factor=7))
    assert said == ("7 replicas of t-0 and 11 others need 7 brokers, but only 6 may hold one",)


def test_excluded_brokers_do_not_count_for_new_replicas() -> None:
    model = model_with({("t", 0): [0, 1], ("t", 1): [1, 2]}, range(4))
    said = against(model, "rf", Asked(replication_factor=4, excluded=(0,)))
    assert said == ("4 replicas of t-1 need 4 brokers, but only 3 may hold one",)


def test_racks_with_too_few_brokers() -> None:
    model = model_with({("t", 0): [0, 4]}, range(5), ["a", "a", "a", "a", "b"])
    said = against(model, "rf", Asked(replication_factor=4))
    assert said == ("4 replicas of t-0, at most 2 in a rack, find only 3 places: rack b has 1",)


def test_more_replicas_than_racks_is_fine_where_racks_have_room() -> None:
    assert against(three_racks(), "rf", Asked(replication_factor=5)) == ()


def test_a_whole_rack_drained() -> None:
    said = against(three_racks(), "drain", Asked(brokers=(0, 3)))
    assert said == (
        "rack a would have no broker left, so partitions of 3 replicas (t-0 and 11 others)"
        " cannot keep one replica a rack",
    )
    said = against(three_racks(2), "drain", Asked(brokers=(0, 3)))
    assert said == (
        "rack a would have no broker left, so t-0 and 7 others would have to do with 2 racks,"
        " unless fewer racks are allowed",
    )
    assert against(three_racks(), "drain", Asked(brokers=(0, 3), allow_fewer_racks=True)) == ()


def test_a_frozen_partition_on_a_broker_to_be_emptied() -> None:
    model = three_racks()
    model = replace(model, frozen=np.where(np.arange(12) == 5, EXCLUDED, 0).astype(np.int8))
    said = against(model, "drain", Asked(brokers=(0,)))
    assert said == ("broker 0 cannot be emptied: t-5 must stay, as its topic is excluded",)
    assert against(model, "drain", Asked(brokers=(2,))) == ()


def test_capacity() -> None:
    few = np.full(6, 5, dtype=np.int64)
    said = against(three_racks(), "balance", Asked(max_replicas=few))
    assert said == ("brokers 0, 1, 2, 3, 4, 5: capacity for 30 replicas, where 36 must be held",)
    assert against(three_racks(), "balance", Asked(max_replicas=few + 1)) == ()
    # One rack alone can be too small: each partition has a replica there.
    small = np.array([5, 20, 20, 5, 20, 20], dtype=np.int64)
    said = against(three_racks(), "balance", Asked(max_replicas=small))
    assert said == ("brokers 0, 3: capacity for 10 replicas, where 12 must be held",)
    said = against(three_racks(), "balance", Asked(max_bytes=np.full(6, 5.5)))
    assert said == ("brokers 0, 1, 2, 3, 4, 5: room for 33 bytes, where 36 must be held",)


@pytest.mark.parametrize(
    ("goal", "request", "words"),
    [
        ("nothing", Asked(), "goal 'nothing'"),
        ("drain", Asked(brokers=(9,)), "no such broker: 9"),
        ("drain", Asked(), "no broker to drain"),
        ("expand", Asked(), "no live broker is empty"),
        ("balance", Asked(brokers=(1,)), "takes no list of brokers"),
        ("replace", Asked(), "no broker to replace"),
        ("replace", Asked(instead={1: 1}), "cannot take over"),
        ("rf", Asked(), "must be 1 or more"),
        ("rf", Asked(replication_factor=2, topics=("x",)), "no such topic: x"),
    ],
)
def test_request_without_sense(goal: str, request: Asked, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        rules_for(three_racks(), goal, request)


def test_the_usual_factor_is_the_most_frequent() -> None:
    lists = {("a", 0): [1, 2], ("a", 1): [1, 2], ("a", 2): [1], ("b", 0): [1], ("b", 1): [2, 3]}
    assert usual_factor(model_with(lists, [1, 2, 3])).tolist() == [2, 2, 2, 2, 2]


def test_rules_of_repair_leave_out_what_is_well() -> None:
    model = model_with({("a", 0): [1, 2], ("a", 1): [1, 2], ("a", 2): [1]}, [1, 2, 3])
    rules = rules_for(model, "repair")
    assert rules.fixed.tolist() == [True, True, False]
    assert rules.factor.tolist() == [2, 2, 2]
    assert not rules.even


def test_expand_fills_only_those_that_are_named() -> None:
    model = model_with({("a", 0): [1], ("a", 1): [2]}, [1, 2, 3, 4])
    assert rules_for(model, "expand", Asked(brokers=(4,))).receives.tolist() == [True, True, False, True]
    assert rules_for(model, "expand").receives.all()
