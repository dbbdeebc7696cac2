"""Preferred leaders, compared with all possible choices and with an exact integer program."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from tests.unit.planning.small_clusters import cluster, clusters, every, leader_options, lists_of, may_lead, relabelled
from udfs.json_answers import to_json
from udfs.planning.bounds.lower_bounds import FlowNetwork, bound_flow_cost, find_cheapest_flow
from udfs.planning.cluster_model import FREE, ClusterModel
from udfs.planning.leadership.preferred_leaders import plan_preferred_leaders


def loads_of(chosen: tuple[int, ...] | list[int], brokers: set[int]) -> list[int]:
    return sorted((chosen.count(b) for b in brokers), reverse=True)


def best(model: ClusterModel) -> tuple[list[int], int]:
    """(loads, falling, of the least majorised choice; the fewest changes with such loads)."""
    first = [replicas[0] if replicas else -1 for replicas in lists_of(model)]
    return min(
        (loads_of(chosen, may_lead(model)), sum(a != b for a, b in zip(chosen, first, strict=True) if a >= 0))
        for chosen in every(leader_options(model))
    )


@given(clusters())
def test_no_choice_is_better(model: ClusterModel) -> None:
    proposal = plan_preferred_leaders(model)
    loads, changes = best(model)
    chosen = [replicas[0] for replicas in lists_of(proposal)]
    live = [b if model.live[b] else -1 for b in chosen]
    assert loads_of(live, may_lead(model)) == loads
    certificate = proposal.certificate
    assert certificate.changes == certificate.changes_lower_bound == changes
    assert certificate.gap == 0
    assert (certificate.max_leaders, certificate.min_leaders) == ((loads[0], loads[-1]) if loads else (0, 0))
    json.dumps(to_json(certificate))


@given(clusters(), st.data())
def test_of_equally_good_leaders_those_in_sync_are_chosen(model: ClusterModel, data: st.DataObject) -> None:
    in_sync = data.draw(st.lists(st.booleans(), min_size=len(model.replicas), max_size=len(model.replicas)))
    model = replace(model, in_sync=model.live[model.replicas] & np.array(in_sync, dtype=np.bool_))
    isr = [set(np.array(one)[flags]) for one, flags in zip(lists_of(model), split_flags(model), strict=True)]
    first = [replicas[0] for replicas in lists_of(model)]

    def rank(chosen: Sequence[int]) -> tuple[list[int], int, int]:
        pairs = list(zip(chosen, first, isr, model.frozen.tolist(), strict=True))
        late = sum(b >= 0 and b in may_lead(model) and b not in one for b, _, one, code in pairs if code == FREE)
        return loads_of(list(chosen), may_lead(model)), sum(a != b for a, b, *_ in pairs if a >= 0), late

    proposal = plan_preferred_leaders(model)
    chosen = [b if model.live[b] else -1 for b in (replicas[0] for replicas in lists_of(proposal))]
    assert rank(chosen) == min(map(rank, every(leader_options(model))))
    assert proposal.certificate.gap == 0


def split_flags(model: ClusterModel) -> list[np.ndarray]:
    """Return whether each replica is in sync, by partition."""
    return np.split(model.in_sync, model.offsets[1:-1]) if model.partitions else []


@given(clusters())
def test_only_leaders_change_position(model: ClusterModel) -> None:
    proposal = plan_preferred_leaders(model)
    assert not model.find_copied(proposal).any()
    differs = model.find_changed(proposal)
    assert ((proposal.reason >= 0) == differs).all()
    assert differs.sum() == proposal.certificate.changes
    assert not differs[model.frozen > 0].any()
    for before, after in zip(lists_of(model), lists_of(proposal), strict=True):
        assert after == [after[0], *(b for b in before if b != after[0])]


@given(clusters())
def test_even_leaders_do_not_change(model: ClusterModel) -> None:
    proposal = plan_preferred_leaders(model)
    again = plan_preferred_leaders(model.with_lists(proposal.offsets, proposal.replicas))
    assert again.certificate.changes == 0
    assert again.replicas.tolist() == proposal.replicas.tolist()
    assert (again.reason == -1).all()


@given(clusters(), st.randoms(use_true_random=False))
def test_names_of_brokers_do_not_matter(model: ClusterModel, random) -> None:
    places = list(range(model.brokers))
    random.shuffle(places)
    one, other = (
        plan_preferred_leaders(model).certificate,
        plan_preferred_leaders(relabelled(model, np.array(places))).certificate,
    )
    for name in ("changes", "changes_lower_bound", "max_leaders", "min_leaders", "even", "ceiling", "floor"):
        assert getattr(one, name) == getattr(other, name)


@given(clusters())
def test_forced_brokers_prove_the_extreme_loads(model: ClusterModel) -> None:
    certificate = plan_preferred_leaders(model).certificate
    options = leader_options(model)
    assert certificate.even == (not certificate.forced)
    for entry in certificate.forced:
        inside = set(entry.brokers)
        if entry.max_at_least is not None:
            count = sum(inside.issuperset(brokers) for brokers in options)
            assert entry.max_at_least == -(-count // len(inside)) > certificate.ceiling
        else:
            count = sum(not inside.isdisjoint(brokers) for brokers in options)
            assert entry.min_at_most == count // len(inside) < certificate.floor
        assert entry.partitions == count
    if certificate.max_leaders > certificate.ceiling:
        assert max(e.max_at_least or 0 for e in certificate.forced) == certificate.max_leaders
    if certificate.min_leaders < certificate.floor:
        lowest = min(certificate.floor if e.min_at_most is None else e.min_at_most for e in certificate.forced)
        assert lowest == certificate.min_leaders


def exact(model: ClusterModel, low: int, high: int) -> int | None:
    """The fewest changes that bring all brokers between low and high, by an integer program."""
    pairs = [(i, b) for i, replicas in enumerate(lists_of(model)) for b in replicas]
    cost = [float(b != lists_of(model)[i][0]) for i, b in pairs]
    one = np.array([[i == j for j, _ in pairs] for i in range(model.partitions)], dtype=float)
    per_broker = np.array([[b == c for _, c in pairs] for b in range(model.brokers)], dtype=float)
    found = milp(
        cost,
        constraints=[LinearConstraint(one, 1, 1), LinearConstraint(per_broker, low, high)],
        integrality=np.ones(len(pairs)),
        bounds=Bounds(0, 1),
    )
    return round(found.fun) if found.success else None


@pytest.mark.parametrize("seed", range(8))
def test_against_an_integer_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    brokers, skew = 8, rng.random(8) ** (seed % 3) + 0.05
    lists = [rng.choice(brokers, size=3, replace=False, p=skew / skew.sum()).tolist() for _ in range(61)]
    certificate = plan_preferred_leaders(cluster(lists, brokers)).certificate
    model = cluster(lists, brokers)
    even = exact(model, 7, 8)
    assert certificate.even == (even is not None)
    if even is not None:
        assert certificate.changes == certificate.changes_lower_bound == even
    else:
        assert exact(model, certificate.min_leaders, certificate.max_leaders) is not None
        assert exact(model, certificate.min_leaders + 1, 61) is None or certificate.min_leaders == 7
        assert exact(model, 0, certificate.max_leaders - 1) is None or certificate.max_leaders == 8


def test_a_broker_that_should_not_lead_gives_its_leaders_away() -> None:
    model = cluster([[0, 1], [0, 2], [0], [1, 0], [2, 1]], 3)
    proposal = plan_preferred_leaders(model, np.array([False, True, True]))
    assert lists_of(proposal) == [[1, 0], [2, 0], [0], [1, 0], [2, 1]]
    assert proposal.certificate.ineligible_leaders == {0: 1}
    assert proposal.certificate.even
    changed = proposal.reason[proposal.reason >= 0]
    assert {proposal.reasons[code] for code in changed} == {"preferred leader: the old one should not lead"}


def test_reasons_have_the_mean() -> None:
    proposal = plan_preferred_leaders(cluster([[0, 1], [0, 1], [0, 2]], 3))
    assert proposal.certificate.changes == 2
    assert sorted(proposal.reason.tolist()) == [-1, 0, 0]
    assert proposal.reasons[0] == "preferred leader: to even out leaders (mean: 1.0 per broker)"


def test_the_others_keep_their_order_and_down_brokers_stay_last() -> None:
    proposal = plan_preferred_leaders(cluster([[0, 1, 2, 3], [0, 1, 2, 3], [1, 0]], 4, down=[3]))
    assert all(replicas[-1] == 3 for replicas in lists_of(proposal)[:2])
    assert [2, 0, 1, 3] in lists_of(proposal)


def test_forced_brokers_are_named() -> None:
    # Two brokers hold six partitions between them; the third has one.
    proposal = plan_preferred_leaders(cluster([[0, 1]] * 6 + [[2, 0]], 3))
    assert [entry.text for entry in proposal.certificate.forced] == ["broker 2 can lead at most 1 partition"]
    assert (proposal.certificate.max_leaders, proposal.certificate.min_leaders) == (3, 1)
    proposal = plan_preferred_leaders(cluster([[0]] * 5 + [[1, 2], [2, 1]], 3))
    assert proposal.certificate.forced[0].brokers == [0]
    assert proposal.certificate.forced[0].max_at_least == 5


@pytest.mark.parametrize(
    "model",
    [
        cluster([], 0),
        cluster([], 3),
        cluster([[0], [0]], 1),
        cluster([[0], [1]], 2, down=[0, 1]),
        cluster([[0, 1], [0, 1], [0, 1]], 2, frozen=[0, 1, 2]),
        cluster([[0], [0], [1]], 2),
        cluster([[0, 1], [0, 1]], 2, draining=[0, 1]),
    ],
    ids=["nothing", "no partitions", "one broker", "nobody lives", "all frozen", "one replica", "all draining"],
)
def test_no_choices(model: ClusterModel) -> None:
    proposal = plan_preferred_leaders(model)
    assert lists_of(proposal) == lists_of(model)
    assert proposal.certificate.changes == proposal.certificate.changes_lower_bound == 0


def test_the_same_model_gives_the_same_plan() -> None:
    rng = np.random.default_rng(3)
    model = cluster([rng.choice(20, size=3, replace=False).tolist() for _ in range(500)], 20)
    assert plan_preferred_leaders(model).replicas.tolist() == plan_preferred_leaders(model).replicas.tolist()


def test_the_cost_bound_holds_for_any_flow() -> None:
    rng = np.random.default_rng(5)
    ends = rng.integers(0, 6, size=(2, 40))
    supply = np.array([3, 0, 0, 0, 0, -3])
    network = FlowNetwork(ends[0], ends[1], rng.integers(1, 4, 40), rng.integers(0, 9, 40), supply)
    found = find_cheapest_flow(network)
    assert found is not None
    assert found.cost == found.bound
    for _ in range(20):
        anything = rng.integers(0, network.capacity + 1)
        assert bound_flow_cost(network, anything) <= found.cost
