"""Bounds of plans that reach as much as a proposal, compared with all plans of small clusters."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.planning.plan_models import flat, model_with
from tests.unit.planning.small_clusters import lists_of
from udfs.arrow.ragged import offsets_of
from udfs.planning.bounds.lower_bounds import bound_bytes_by_disk, count_forced_replicas, count_rack_repairs
from udfs.planning.cluster_model import ClusterModel, ProposedAssignment
from udfs.planning.constraints import Rules, build_rules, find_staying_brokers
from udfs.planning.plan_making import make_plan
from udfs.planning.plan_request import PlanRequest

BROKERS = 5
Lists = list[list[int]]


def propose(lists: Lists) -> ProposedAssignment:
    offsets = offsets_of(np.array([len(one) for one in lists], dtype=np.int64))
    return ProposedAssignment(offsets, flat(lists), np.full(len(lists), -1, dtype=np.int16), ())


@st.composite
def plans(draw: st.DrawFn) -> tuple[ClusterModel, Rules, Lists]:
    """Draw a cluster, the rules of a drain or balance, and the lists of a plan, good or bad."""
    racks = draw(st.lists(st.sampled_from("abc"), min_size=BROKERS, max_size=BROKERS))
    count = draw(st.integers(1, 4))
    some_lists = st.lists(st.integers(0, BROKERS - 1), min_size=1, max_size=3, unique=True)
    before = [draw(some_lists) for _ in range(count)]
    sizes = [float(draw(st.integers(0, 20))) for _ in range(count)]
    model = model_with({("t", i): one for i, one in enumerate(before)}, range(BROKERS), racks, sizes)
    drained = draw(st.booleans())
    request = PlanRequest("drain", brokers=(0,), allow_empty_racks=True) if drained else PlanRequest("balance")
    request = replace(request, keep_rack_violations=draw(st.booleans()))
    rules = replace(build_rules(model, request), fixed=np.array([draw(st.integers(0, 5)) == 0 for _ in before]))
    after = []
    for one, fixed in zip(before, rules.fixed.tolist(), strict=True):
        options = [list(chosen) for chosen in combinations(range(BROKERS), len(one))]
        after.append(one if fixed else draw(st.sampled_from(options)))
    return model, rules, after


def wrong_places(model: ClusterModel, rules: Rules, row: int, replicas: list[int]) -> int:
    """Count replicas on brokers to be emptied, and others beyond what their rack may hold."""
    racks = Counter(int(model.rack[b]) for b in replicas if not rules.must_leave[b])
    stayed = sum(bool(rules.must_leave[b]) for b in replicas)
    return stayed + sum(max(count - int(rules.rack_cap[row]), 0) for count in racks.values())


def disks(model: ClusterModel, lists: Lists) -> list[float]:
    return [sum(float(model.size[i]) for i, one in enumerate(lists) if b in one) for b in range(BROKERS)]


@given(plans())
def test_no_plan_that_reaches_as_much_copies_less(case: tuple[ClusterModel, Rules, Lists]) -> None:
    model, rules, planned = case
    proposal, before, counted = propose(planned), lists_of(model), find_staying_brokers(model, rules)
    forced = count_forced_replicas(model, rules, proposal)
    by_disk = bound_bytes_by_disk(model, rules, proposal, counted)
    wrong = [wrong_places(model, rules, i, one) for i, one in enumerate(planned)]
    reached = disks(model, planned)
    most, least = (pick(reached[b] for b in np.flatnonzero(counted)) for pick in (max, min))
    options = [
        [one] if rules.fixed[i] else list(combinations(range(BROKERS), len(one))) for i, one in enumerate(before)
    ]
    for lists in product(*options):
        copies = [len(set(new) - set(old)) for new, old in zip(lists, before, strict=True)]
        if all(wrong_places(model, rules, i, list(one)) <= wrong[i] for i, one in enumerate(lists)):
            assert (np.array(copies) >= forced).all()
        held = disks(model, [list(one) for one in lists])
        as_even = all(least <= held[b] <= most for b in np.flatnonzero(counted))
        if as_even and all(held[b] <= reached[b] for b in np.flatnonzero(rules.must_leave)):
            assert sum(number * float(model.size[i]) for i, number in enumerate(copies)) >= by_disk - 1e-9


def crowded_cluster() -> ClusterModel:
    """Make two racks of two brokers and one of one, with 24 partitions of which none is in the third rack."""
    lists = {("t", i): ([0, 1, 2], [2, 3, 0], [1, 0, 3], [3, 2, 1])[i % 4] for i in range(24)}
    return model_with(lists, range(5), "aabbc", [1000.0 + i for i in range(24)])


@pytest.mark.parametrize("goal", ["balance", "drain"])
def test_bounds_include_what_repairs_racks(goal: str) -> None:
    model = crowded_cluster()
    request = PlanRequest(goal, brokers=(1,) if goal == "drain" else ())
    proposal = make_plan(model, request)
    certificate, rules = proposal.certificate, build_rules(model, request)
    assert certificate.moves_lower_bound >= 24  # each partition needs a replica in the third rack
    assert certificate.bytes_lower_bound >= model.size.sum()
    assert certificate.bytes_lower_bound <= certificate.bytes
    repairs = count_rack_repairs(model, rules, proposal)
    # A partition that loses the replica of broker 1 need not have too many in rack a any more.
    lost = np.array([1 in one and {0, 1} <= set(one) for one in lists_of(model)])
    assert repairs.tolist() == ([1] * 24 if goal == "balance" else (~lost).astype(int).tolist())


@pytest.mark.parametrize("objective", ["all", "min-bytes", "min-moves"])
def test_rack_violations_may_stay(objective: str) -> None:
    model = crowded_cluster()
    free = make_plan(model, PlanRequest("drain", brokers=(1,), objective=objective)).certificate
    request = PlanRequest("drain", brokers=(1,), objective=objective, keep_rack_violations=True)
    proposal = make_plan(model, request)
    crowded = [{0, 1} <= set(one) for one in lists_of(model)]  # others have too many in rack b
    assert free.rack_repairs.replicas == 24 - sum(crowded)
    assert free.rack_repairs.bytes == model.size[~np.array(crowded)].sum()
    assert proposal.certificate.rack_repairs is None
    assert proposal.certificate.bytes < free.bytes
    assert (proposal.replicas != 1).all()
    racks = [Counter(model.rack[one].tolist()) for one in lists_of(proposal)]
    assert all(max(one.values()) <= 1 for one, was in zip(racks, crowded, strict=True) if was)  # none is added


@pytest.mark.parametrize("objective", ["all", "min-bytes"])
def test_a_drain_comes_before_racks_where_a_budget_does_not_pay_for_both(objective: str) -> None:
    model = crowded_cluster()
    leaving = model.size[model.row[model.replicas == 1]].sum()
    request = PlanRequest("drain", brokers=(1,), objective=objective, max_bytes=int(leaving) + 1)
    proposal = make_plan(model, request)
    assert proposal.certificate.bytes <= leaving + 1
    assert (proposal.replicas != 1).all()
    (text,) = [text for text in proposal.certificate.missed if text.startswith("racks: ")]
    assert text.endswith(" keep too many replicas in one rack; the budget is for the drain")
