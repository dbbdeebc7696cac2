"""Rules of requests, and the explanation why no plan complies with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.planning.plan_models import model_with
from udfs.planning.cluster_model import ClusterModel, FreezeReason
from udfs.planning.constraints import InfeasibleRequest, Rules, build_rules
from udfs.planning.plan_request import PlanRequest
from udfs.planning.replicas.count_limits import explain_infeasibility
from udfs.planning.replicas.replica_counts import plan_replica_counts


def three_racks(factor: int = 3, partitions: int = 12) -> ClusterModel:
    """Six brokers, two a rack."""
    lists = {("t", p): [(p + k) % 6 for k in range(factor)] for p in range(partitions)}
    return model_with(lists, range(6), ["a", "b", "c"] * 2)


def explain(model: ClusterModel, goal: str, **options: Any) -> tuple[str, ...]:
    return explain_rules(model, build_rules(model, PlanRequest(goal, **options)))


def explain_rules(model: ClusterModel, rules: Rules) -> tuple[str, ...]:
    """Explain why no plan complies with the rules; the planner says the same."""
    reasons = explain_infeasibility(model, rules)
    if reasons:
        with pytest.raises(InfeasibleRequest) as raised:
            plan_replica_counts(model, rules)
        assert raised.value.reasons == reasons
    return reasons


def test_more_replicas_than_brokers() -> None:
    reasons = explain(three_racks(), "rf", factor=7)
    assert reasons == ("7 replicas of t-0 and 11 others need 7 brokers, but only 6 can hold one",)


def test_excluded_brokers_do_not_count_for_new_replicas() -> None:
    model = model_with({("t", 0): [0, 1], ("t", 1): [1, 2]}, range(4))
    reasons = explain(model, "rf", factor=4, exclude_brokers=(0,))
    assert reasons == ("4 replicas of t-1 need 4 brokers, but only 3 can hold one",)


def test_racks_with_too_few_brokers() -> None:
    model = model_with({("t", 0): [0, 4]}, range(5), ["a", "a", "a", "a", "b"])
    reasons = explain(model, "rf", factor=4)
    assert reasons == ("4 replicas of t-0, at most 2 per rack, have only 3 places: rack b has 1",)


def test_more_replicas_than_racks_are_possible() -> None:
    assert explain(three_racks(), "rf", factor=5) == ()


def test_draining_a_whole_rack() -> None:
    reasons = explain(three_racks(), "drain", brokers=(0, 3))
    assert reasons == (
        "rack a would have no broker left, so t-0 and 11 others would be left with 2 racks,"
        " unless fewer racks are allowed",
    )
    reasons = explain(three_racks(2), "drain", brokers=(0, 3))
    assert reasons == (
        "rack a would have no broker left, so t-0 and 7 others would be left with 2 racks,"
        " unless fewer racks are allowed",
    )
    assert explain(three_racks(), "drain", brokers=(0, 3), allow_empty_racks=True) == ()


def test_a_frozen_partition_on_a_broker_to_be_emptied() -> None:
    model = three_racks()
    model = replace(model, frozen=np.where(np.arange(12) == 5, FreezeReason.EXCLUDED, 0).astype(np.int8))
    reasons = explain(model, "drain", brokers=(0,))
    assert reasons == ("broker 0 cannot be emptied: t-5 must stay, because of an excluded topic",)
    assert explain(model, "drain", brokers=(2,)) == ()


def test_capacity() -> None:
    reasons = explain(three_racks(), "balance", broker_replicas=5)
    assert reasons == ("brokers 0, 1, 2, 3, 4, 5: capacity for 30 replicas, but must hold 36",)
    assert explain(three_racks(), "balance", broker_replicas=6) == ()
    # One rack alone can be too small: each partition has a replica there.
    rules = build_rules(three_racks(), PlanRequest("balance"))
    small = np.array([5, 20, 20, 5, 20, 20], dtype=np.int64)
    reasons = explain_rules(three_racks(), replace(rules, broker_replicas=small))
    assert reasons == ("brokers 0, 3: capacity for 10 replicas, but must hold 12",)
    reasons = explain_rules(three_racks(), replace(rules, broker_bytes=np.full(6, 5.5)))
    assert reasons == ("brokers 0, 1, 2, 3, 4, 5: spare capacity for 33 B, but must hold 36 B",)


@pytest.mark.parametrize(
    ("plan_request", "fault"),
    [
        (PlanRequest("nothing"), "goal 'nothing'"),
        (PlanRequest("drain", brokers=(9,)), "no broker 9"),
        (PlanRequest("drain"), "no broker to drain"),
        (PlanRequest("expand"), "no empty live broker"),
        (PlanRequest("balance", brokers=(1,)), "takes no list of brokers"),
        (PlanRequest("replace"), "no broker to replace"),
        (PlanRequest("replace", replacements=((1, 1),)), "cannot replace"),
        (PlanRequest("rf"), "of 1 or more"),
        (PlanRequest("rf", factor=2, topics=("x",)), "no topic x"),
    ],
)
def test_requests_that_make_no_sense(plan_request: PlanRequest, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        build_rules(three_racks(), plan_request)


def test_repair_fixes_healthy_partitions() -> None:
    model = model_with({("a", 0): [1, 2], ("a", 1): [1, 2], ("a", 2): [1]}, [1, 2, 3], factors={"a": 2})
    rules = build_rules(model, PlanRequest("repair"))
    assert rules.fixed.tolist() == [True, True, False]
    assert rules.factor.tolist() == [2, 2, 2]
    assert not rules.even


def test_expand_fills_only_the_named_brokers() -> None:
    model = model_with({("a", 0): [1], ("a", 1): [2]}, [1, 2, 3, 4])
    assert build_rules(model, PlanRequest("expand", brokers=(4,))).receives.tolist() == [True, True, False, True]
    assert build_rules(model, PlanRequest("expand")).receives.all()
