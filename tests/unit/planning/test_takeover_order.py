"""Successors, compared with all orders of followers and with an exact integer program."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from tests.unit.planning.small_clusters import (
    cluster,
    clusters,
    every,
    lists_of,
    may_lead,
    relabelled,
    successor_options,
)
from udfs.json_answers import to_json
from udfs.planning.certificates import FailureTakeover
from udfs.planning.cluster_model import ClusterModel, ProposedAssignment
from udfs.planning.leadership.preferred_leaders import plan_preferred_leaders
from udfs.planning.leadership.takeover_order import plan_leadership, plan_takeover_order


def led_of(model: ClusterModel) -> Counter[int]:
    return Counter(replicas[0] for replicas in lists_of(model) if model.live[replicas[0]])


def worst_after(model: ClusterModel, failed: int, taken: Counter[int]) -> int:
    """What the worst survivor that may lead leads after this failure."""
    led = led_of(model)
    return max((led[b] + taken[b] for b in may_lead(model) - {failed}), default=0)


def best(model: ClusterModel) -> dict[int, tuple[int, int]]:
    """Per down broker that leads, its least worst survivor and the fewest changes of successors for it."""
    lists, options, out = lists_of(model), successor_options(model), {}
    for failed in led_of(model):
        mine = [i for i, replicas in enumerate(lists) if replicas[0] == failed]
        out[failed] = min(
            (worst_after(model, failed, Counter(chosen)), changes_of(model, mine, chosen))
            for chosen in every([options[i] for i in mine])
        )
    return out


def changes_of(model: ClusterModel, rows: list[int], chosen: tuple[int, ...]) -> int:
    lists = lists_of(model)
    return sum(b >= 0 and lists[i][1] != b for i, b in zip(rows, chosen, strict=True))


def ratio_of(model: ClusterModel, proposal: ProposedAssignment) -> float:
    """The worst survivor over the mean, one failure and one partition at a time."""
    led, worst = led_of(model), 0.0
    targets = set(np.flatnonzero(model.live & ~model.draining).tolist())
    for failed in targets:
        taken = Counter(
            replicas[1]
            for replicas in lists_of(proposal)
            if replicas[0] == failed and len(replicas) > 1 and model.live[replicas[1]]
        )
        loads = [led[b] + taken[b] for b in targets - {failed}]
        if sum(loads):
            worst = max(worst, max(loads) / (sum(loads) / len(loads)))
    return worst


@given(clusters(partitions=8))
def test_no_order_is_better(model: ClusterModel) -> None:
    proposal = plan_takeover_order(model)
    expected = best(model)
    told = proposal.certificate.failures
    for failed, (worst, _) in expected.items():
        taken = Counter(
            replicas[1]
            for replicas in lists_of(proposal)
            if replicas[0] == failed and len(replicas) > 1 and model.live[replicas[1]]
        )
        assert worst_after(model, failed, taken) == worst
        if failed in told:
            assert told[failed].limit == told[failed].lower_bound == worst
    assert proposal.certificate.changes == sum(changes for _, changes in expected.values())
    assert proposal.certificate.gap == 0
    assert proposal.certificate.worst_ratio == pytest.approx(ratio_of(model, proposal), abs=1e-5)
    assert proposal.certificate.worst_ratio_before == pytest.approx(
        ratio_of(model, ProposedAssignment(model.offsets, model.replicas, proposal.reason, ())), abs=1e-5
    )
    json.dumps(to_json(proposal.certificate))


@given(clusters())
def test_only_followers_change_position(model: ClusterModel) -> None:
    proposal = plan_takeover_order(model)
    assert not model.find_copied(proposal).any()
    differs = model.find_changed(proposal)
    assert ((proposal.reason >= 0) == differs).all()
    assert not differs[model.frozen > 0].any()
    for before, after in zip(lists_of(model), lists_of(proposal), strict=True):
        assert after == [*after[:2], *(b for b in before if b not in after[:2])]
        assert after[0] == before[0]
        assert [model.live[b] for b in after] == [model.live[b] for b in before]


@given(clusters())
def test_an_optimal_order_does_not_change(model: ClusterModel) -> None:
    proposal = plan_takeover_order(model)
    again = plan_takeover_order(model.with_lists(proposal.offsets, proposal.replicas))
    assert again.certificate.changes == 0
    assert again.replicas.tolist() == proposal.replicas.tolist()


@given(clusters(), st.randoms(use_true_random=False))
def test_names_of_brokers_do_not_matter(model: ClusterModel, random) -> None:
    places = list(range(model.brokers))
    random.shuffle(places)
    one, other = (
        plan_takeover_order(model).certificate,
        plan_takeover_order(relabelled(model, np.array(places))).certificate,
    )
    same = ("changes", "cost", "cost_lower_bound", "worst_ratio", "worst_ratio_lower_bound", "failures_above_target")
    for name in same:
        assert getattr(one, name) == getattr(other, name)
    for failed, numbers in one.failures.items():
        assert other.failures[places[failed]].limit == numbers.limit


@given(clusters(partitions=8))
def test_forced_brokers_prove_the_limits(model: ClusterModel) -> None:
    options, led = successor_options(model), led_of(model)
    certificate = plan_takeover_order(model, target=1.0).certificate
    assert bool(certificate.forced) == (certificate.failures_above_target > 0)
    for entry in certificate.forced:
        inside, failed = set(entry.brokers), entry.failed_broker
        mine = [i for i, replicas in enumerate(lists_of(model)) if replicas[0] == failed]
        forced = sum(inside.issuperset(options[i]) for i in mine)
        least = -(-(sum(led[b] for b in inside) + forced) // len(inside))
        if entry.only_these_can_take:
            assert least == entry.max_at_least
        assert entry.max_at_least == certificate.failures[failed].limit


@pytest.mark.parametrize("seed", range(6))
def test_against_an_integer_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    brokers, chance = 7, rng.random(7) ** (seed % 3) + 0.1
    lists = [rng.choice(brokers, size=3, replace=False, p=chance / chance.sum()).tolist() for _ in range(140)]
    model = cluster(lists, brokers)
    certificate = plan_takeover_order(model).certificate
    total = 0
    for failed in range(brokers):
        limit = certificate.failures[failed].limit
        changes = exact(model, failed, limit)
        assert changes is not None
        assert exact(model, failed, limit - 1) is None
        total += changes
    assert total == certificate.changes


def exact(model: ClusterModel, failed: int, limit: int) -> int | None:
    """The fewest changes with which no survivor leads more than the limit, by an integer program."""
    mine = [replicas for replicas in lists_of(model) if replicas[0] == failed]
    led = led_of(model)
    pairs = [(i, b) for i, replicas in enumerate(mine) for b in replicas[1:]]
    if any(led[b] > limit for b in range(model.brokers) if b != failed):
        return None
    one = np.array([[i == j for j, _ in pairs] for i in range(len(mine))], dtype=float)
    taken = np.array([[b == c for _, c in pairs] for b in range(model.brokers)], dtype=float)
    room = np.array([0 if b == failed else limit - led[b] for b in range(model.brokers)])
    found = milp(
        [float(mine[i][1] != b) for i, b in pairs],
        constraints=[LinearConstraint(one, 1, 1), LinearConstraint(taken, 0, room)],
        integrality=np.ones(len(pairs)),
        bounds=Bounds(0, 1),
    )
    return round(found.fun) if found.success else None


def test_a_draining_broker_takes_over_only_where_no_other_can() -> None:
    model = cluster([[0, 2, 1], [0, 2], [1, 0]], 3, draining=[2])
    proposal = plan_takeover_order(model)
    assert lists_of(proposal) == [[0, 1, 2], [0, 2], [1, 0]]
    assert proposal.certificate.changes == 1


def test_brokers_that_should_not_lead_do_not_take_over() -> None:
    model = cluster([[0, 2, 1], [1, 0, 2]], 3)
    assert lists_of(plan_takeover_order(model, np.array([True, True, False])))[0] == [0, 1, 2]


def test_down_brokers_do_not_take_over() -> None:
    model = cluster([[0, 2, 1]] * 2, 3, down=[2])
    assert lists_of(plan_takeover_order(model)) == [[0, 1, 2]] * 2


def test_lost_partitions_are_not_in_the_mean() -> None:
    # Broker 0 leads two partitions that fail with it: the others have one each.
    certificate = plan_takeover_order(cluster([[0], [0], [1, 2], [2, 1]], 3)).certificate
    assert certificate.failures == {
        0: FailureTakeover(limit=1, lower_bound=1, worst=1, mean=1.0),
        1: FailureTakeover(limit=2, lower_bound=2, worst=2, mean=2.0),
        2: FailureTakeover(limit=2, lower_bound=2, worst=2, mean=2.0),
    }
    assert certificate.worst_ratio == 1.0


def test_forced_brokers_are_named() -> None:
    # All lead three; of what broker 0 leads, broker 1 alone can take all.
    lists = [[0, 1]] * 3 + [[b, *sorted({0, 1, 2, 3} - {b})] for b in (1, 1, 1, 2, 2, 2, 3, 3, 3)]
    certificate = plan_takeover_order(cluster(lists, 4)).certificate
    assert certificate.failures_above_target == 1
    entry = certificate.forced[0]
    assert (entry.failed_broker, entry.brokers, entry.max_at_least) == (0, [1], 6)
    assert entry.text == (
        "if broker 0 fails, broker 1 must lead 6 partitions: at least 6 on the worst survivor (mean: 4.0)"
    )
    assert certificate.worst_ratio == certificate.worst_ratio_lower_bound == 1.5


def test_lists_that_already_change_are_cheaper() -> None:
    model = cluster([[0, 1, 2], [0, 1, 2], [1, 0], [2, 0]], 3)
    for settled in (0, 1):
        proposal = plan_takeover_order(model, settled=np.arange(4) == settled)
        assert np.flatnonzero(proposal.reason >= 0).tolist() == [settled]
        assert proposal.certificate.changes == 1


@pytest.mark.parametrize(
    "model",
    [
        cluster([], 0),
        cluster([], 3),
        cluster([[0], [0]], 1),
        cluster([[0, 1], [1, 0]], 2, down=[0, 1]),
        cluster([[0, 1, 2], [0, 1, 2]], 3, frozen=[0, 1]),
        cluster([[0], [0], [1]], 2),
        cluster([[0, 1], [0, 1]], 2),
        cluster([[0, 1, 2], [0, 1, 2]], 3, draining=[0, 1, 2]),
    ],
    ids=["nothing", "empty", "one broker", "all down", "all frozen", "one replica", "one follower", "all draining"],
)
def test_no_choices(model: ClusterModel) -> None:
    for proposal in (plan_takeover_order(model), plan_leadership(model, keep_leaders=True)):
        assert lists_of(proposal) == lists_of(model)
        assert (proposal.reason == -1).all()


@given(clusters(topics=2), st.booleans(), st.booleans())
def test_leaders_and_successors_together(model: ClusterModel, keep_leaders: bool, by_topic: bool) -> None:
    proposal = plan_leadership(model, keep_leaders, by_topic=by_topic)
    differs = model.find_changed(proposal)
    assert not model.find_copied(proposal).any()
    assert ((proposal.reason >= 0) == differs).all()
    assert proposal.certificate.lists_changed == differs.sum()
    assert set(proposal.reason[differs].tolist()) == set(range(len(proposal.reasons)))
    if keep_leaders:
        assert [r[0] for r in lists_of(proposal)] == [r[0] for r in lists_of(model)]
    elif not by_topic:
        first, then = plan_preferred_leaders(model), proposal.certificate.leaders
        for name in ("changes_lower_bound", "even", "max_leaders", "min_leaders"):
            assert getattr(then, name) == getattr(first.certificate, name)
        assert then.gap == then.failover_price.changes == then.changes - then.changes_lower_bound >= 0
        alone = plan_takeover_order(model.with_lists(first.offsets, first.replicas)).certificate
        assert proposal.certificate.failover.worst_ratio <= alone.worst_ratio
    json.dumps(to_json(proposal.certificate))


def test_a_list_that_changes_twice_has_both_reasons() -> None:
    lists = [[0, 1, 2], [0, 1, 2], [0, 1, 2], [1, 0, 2], [1, 0, 2], [1, 0, 2]]
    proposal = plan_leadership(cluster(lists, 3))
    texts = [proposal.reasons[code] for code in proposal.reason.tolist() if code >= 0]
    assert any(text.startswith("preferred leader") for text in texts)
    assert all(text.count("preferred leader") <= 1 and text.count("next leader") <= 1 for text in texts)


@pytest.mark.parametrize("seed", [0, 2, 5, 6, 11])
def test_other_leaders_are_chosen_where_the_fewest_changes_miss_the_target(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = cluster([rng.choice(8, size=3, replace=False).tolist() for _ in range(60)], 8)
    first = plan_preferred_leaders(model)
    alone = plan_takeover_order(model.with_lists(first.offsets, first.replicas)).certificate.worst_ratio
    certificate = plan_leadership(model, target=1.05).certificate
    assert alone == pytest.approx(10 / (60 / 7), abs=1e-5)
    assert certificate.failover.worst_ratio == pytest.approx(9 / (60 / 7), abs=1e-5)  # none can be less
    assert certificate.leaders.even
    assert certificate.leaders.gap <= 3
