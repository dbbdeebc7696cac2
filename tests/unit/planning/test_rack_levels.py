"""Racks within zones, judged by code that shares nothing with the planner."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.planning.rated_models import make_rated_model
from udfs.planning.cluster_model import ClusterModel, ProposedAssignment
from udfs.planning.constraints import InfeasibleRequest
from udfs.planning.plan_making import make_plan
from udfs.planning.plan_request import PlanRequest

# Two zones with three racks of two brokers each.
_NAMES = [f"{zone}/{rack}" for zone in ("east", "west") for rack in ("r1", "r2", "r3")]
_RACKS = [b // 2 for b in range(12)]


def _make_model(lists: list[list[int]], racks: list[int] = _RACKS) -> ClusterModel:
    return make_rated_model(lists, racks, _NAMES)


def _draw(seed: int, partitions: int = 60) -> list[list[int]]:
    """Draw lists of four replicas, two in each zone; in a third of them, both in one rack."""
    rng, lists = np.random.default_rng(seed), []
    for _ in range(partitions):
        chosen: list[int] = []
        for first in (0, 6):
            one = first + int(rng.integers(6))
            same_rack = one ^ 1
            others = [b for b in range(first, first + 6) if b not in (one, same_rack)]
            chosen += [one, same_rack if rng.random() < 1 / 3 else int(rng.choice(others))]
        lists.append([chosen[i] for i in rng.permutation(4)])
    return lists


def _read(proposal: ProposedAssignment) -> list[list[int]]:
    pairs = zip(proposal.offsets[:-1], proposal.offsets[1:], strict=True)
    return [proposal.replicas[begin:end].tolist() for begin, end in pairs]


def _count_sharing(lists: list[list[int]], racks: list[int] = _RACKS) -> int:
    return sum(max(Counter(racks[b] for b in one).values()) > 1 for one in lists)


def _count_by_zone(lists: list[list[int]]) -> set[int]:
    return {most for one in lists for most in Counter(b // 6 for b in one).values()}


@pytest.mark.parametrize("goal", ["balance", "repair"])
def test_replicas_share_no_rack_within_a_zone(goal: str) -> None:
    before = _draw(1)
    model = _make_model(before)
    proposal = make_plan(model, PlanRequest(goal, rack_separator="/", soft_racks=goal == "repair"))
    after = _read(proposal)
    assert _count_by_zone(after) == {2}
    change = proposal.certificate.rack_levels
    assert change is not None
    assert change.sharing_before == _count_sharing(before) > 10
    assert change.sharing_after == _count_sharing(after)
    if goal == "balance":
        assert change.sharing_after == change.lower_bound == 0
        counts = Counter(b for one in after for b in one)
        assert max(counts.values()) <= max(np.ceil(1.01 * 20), 21)


@pytest.mark.slow
def test_brokers_that_are_down_may_be_in_no_known_rack() -> None:
    model = _make_model(_draw(1))
    live = np.arange(model.brokers) != 3
    rack = np.where(live, model.rack, len(model.rack_names)).astype(np.int32)
    proposal = make_plan(
        replace(model, live=live, rack=rack), PlanRequest("balance", rack_separator="/", soft_racks=True)
    )
    assert proposal.certificate.rack_levels is not None


def test_soft_racks_copy_nothing_more() -> None:
    model = _make_model(_draw(3, 12))
    plain = make_plan(model, PlanRequest("drain", brokers=(3,), rack_separator=""))
    soft = make_plan(model, PlanRequest("drain", brokers=(3,), rack_separator="/", soft_racks=True))
    hard = make_plan(model, PlanRequest("drain", brokers=(3,), rack_separator="/"))
    for proposal in (plain, soft, hard):
        assert not any(3 in one for one in _read(proposal))
    assert hard.certificate.rack_levels is not None
    assert soft.certificate.rack_levels is not None
    assert hard.certificate.rack_levels.sharing_after == _count_sharing(_read(hard)) == 0
    assert soft.certificate.rack_levels.sharing_after == _count_sharing(_read(soft)) > 0
    assert soft.certificate.rack_levels.sharing_after <= soft.certificate.rack_levels.sharing_of_plan
    assert model.find_copied(soft).sum() < model.find_copied(hard).sum()


def test_racks_that_cannot_be_avoided_are_no_fault() -> None:
    """West has one rack with both brokers, and two replicas of each partition must be there."""
    racks = [0, 0, 1, 1, 2, 2, 3, 3]
    before = [[b % 6, (b + 2) % 6, 6, 7] for b in range(12)]
    model = _make_model(before, racks)
    proposal = make_plan(model, PlanRequest("balance", rack_separator="/"))
    change = proposal.certificate.rack_levels
    assert change is not None
    assert change.sharing_after == change.lower_bound == 12
    assert all(len({racks[b] for b in one if b < 6}) == 2 for one in _read(proposal))


def test_hard_racks_that_a_budget_does_not_pay_for_are_said() -> None:
    with pytest.raises(InfeasibleRequest, match=r"share no rack: set plans.rack_rule to soft"):
        make_plan(_make_model(_draw(3)), PlanRequest("balance", rack_separator="/", max_moves=0))


def test_separator_that_no_rack_has_changes_nothing() -> None:
    model = _make_model(_draw(4))
    plain = make_plan(model, PlanRequest("balance"))
    assert _read(make_plan(model, PlanRequest("balance", rack_separator="#"))) == _read(plain)
    leaders = make_plan(model, PlanRequest("leaders", rack_separator="/"))
    assert _read(leaders) == _read(make_plan(model, PlanRequest("leaders")))
