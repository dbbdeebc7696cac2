"""Preferred leaders against all ways to choose them, and against an exact integer program."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from tests.unit.planning.small_clusters import (
    cluster,
    clusters,
    every,
    leader_options,
    lists_of,
    may_lead,
    relabelled,
)
from udfs.planning.bounds.min_cost_flow import Network, cheapest, lower_bound
from udfs.planning.cluster_model import Problem, changed, moved
from udfs.planning.leadership.preferred_leaders import leaders
from udfs.planning.replica_order import told


def loads_of(chosen: tuple[int, ...] | list[int], brokers: set[int]) -> list[int]:
    return sorted((chosen.count(b) for b in brokers), reverse=True)


def best(problem: Problem) -> tuple[list[int], int]:
    """(loads, falling, of the least majorised choice; the fewest changes with such loads)."""
    first = [replicas[0] if replicas else -1 for replicas in lists_of(problem)]
    return min(
        (loads_of(chosen, may_lead(problem)), sum(a != b for a, b in zip(chosen, first, strict=True) if a >= 0))
        for chosen in every(leader_options(problem))
    )


@given(clusters())
def test_no_choice_is_better(problem: Problem) -> None:
    draft = leaders(problem)
    loads, changes = best(problem)
    chosen = [replicas[0] for replicas in lists_of(draft)]
    living = [b if problem.living[b] else -1 for b in chosen]
    assert loads_of(living, may_lead(problem)) == loads
    certificate = draft.certificate
    assert certificate["objective"] == certificate["bound"] == changes
    assert certificate["gap"] == 0
    assert (certificate["max"], certificate["min"]) == ((loads[0], loads[-1]) if loads else (0, 0))
    json.dumps(dict(certificate))


@given(clusters())
def test_only_leaders_change_place(problem: Problem) -> None:
    draft = leaders(problem)
    assert not moved(problem, draft.offsets, draft.replicas).any()
    differs = changed(problem, draft.offsets, draft.replicas)
    assert ((draft.reason >= 0) == differs).all()
    assert differs.sum() == draft.certificate["objective"]
    assert not differs[problem.frozen > 0].any()
    for before, after in zip(lists_of(problem), lists_of(draft), strict=True):
        assert after == [after[0], *(b for b in before if b != after[0])]


@given(clusters())
def test_what_is_even_stays(problem: Problem) -> None:
    draft = leaders(problem)
    again = leaders(problem.placed(draft.offsets, draft.replicas))
    assert again.certificate["objective"] == 0
    assert again.replicas.tolist() == draft.replicas.tolist()
    assert not again.reasons


@given(clusters(), st.randoms(use_true_random=False))
def test_names_of_brokers_do_not_matter(problem: Problem, random) -> None:
    places = list(range(problem.brokers))
    random.shuffle(places)
    one, other = leaders(problem).certificate, leaders(relabelled(problem, np.array(places))).certificate
    for name in ("objective", "bound", "max", "min", "even", "ceiling", "floor"):
        assert one[name] == other[name]


@given(clusters())
def test_forced_sets_are_true_and_prove_the_extremes(problem: Problem) -> None:
    certificate = leaders(problem).certificate
    options = leader_options(problem)
    assert certificate["even"] == (not certificate["forced"])
    for entry in certificate["forced"]:
        inside = set(entry["brokers"])
        if "max_at_least" in entry:
            count = sum(inside.issuperset(brokers) for brokers in options)
            assert entry["max_at_least"] == -(-count // len(inside)) > certificate["ceiling"]
        else:
            count = sum(not inside.isdisjoint(brokers) for brokers in options)
            assert entry["min_at_most"] == count // len(inside) < certificate["floor"]
        assert entry["partitions"] == count
    if certificate["max"] > certificate["ceiling"]:
        assert max(e.get("max_at_least", 0) for e in certificate["forced"]) == certificate["max"]
    if certificate["min"] < certificate["floor"]:
        lowest = min(e.get("min_at_most", certificate["floor"]) for e in certificate["forced"])
        assert lowest == certificate["min"]


def exact(problem: Problem, low: int, high: int) -> int | None:
    """The fewest changes that bring all brokers between low and high, by an integer program."""
    pairs = [(i, b) for i, replicas in enumerate(lists_of(problem)) for b in replicas]
    cost = [float(b != lists_of(problem)[i][0]) for i, b in pairs]
    one = np.array([[i == j for j, _ in pairs] for i in range(problem.partitions)], dtype=float)
    per_broker = np.array([[b == c for _, c in pairs] for b in range(problem.brokers)], dtype=float)
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
    certificate = leaders(cluster(lists, brokers)).certificate
    problem = cluster(lists, brokers)
    even = exact(problem, 7, 8)
    assert certificate["even"] == (even is not None)
    if even is not None:
        assert certificate["objective"] == certificate["bound"] == even
    else:
        assert exact(problem, certificate["min"], certificate["max"]) is not None
        assert exact(problem, certificate["min"] + 1, 61) is None or certificate["min"] == 7
        assert exact(problem, 0, certificate["max"] - 1) is None or certificate["max"] == 8


def test_a_broker_that_should_not_lead_gives_its_leaders_away() -> None:
    problem = cluster([[0, 1], [0, 2], [0], [1, 0], [2, 1]], 3)
    draft = leaders(problem, np.array([False, True, True]))
    assert lists_of(draft) == [[1, 0], [2, 0], [0], [1, 0], [2, 1]]
    assert draft.certificate["led_by_brokers_that_should_not"] == {"0": 1}
    assert draft.certificate["even"]
    assert draft.reasons[0] == "preferred leader 0 -> 1: broker 0 should not lead"


def test_reasons_say_what_was_led() -> None:
    draft = leaders(cluster([[0, 1], [0, 1], [0, 2]], 3))
    assert draft.certificate["objective"] == 2
    assert sorted(draft.reasons) == [
        "preferred leader 0 -> 1: they led 3 and 0, mean 1.0",
        "preferred leader 0 -> 2: they led 3 and 0, mean 1.0",
    ]


def test_the_others_keep_their_order_and_dead_brokers_stay_last() -> None:
    draft = leaders(cluster([[0, 1, 2, 3], [0, 1, 2, 3], [1, 0]], 4, dead=[3]))
    assert all(replicas[-1] == 3 for replicas in lists_of(draft)[:2])
    assert [2, 0, 1, 3] in lists_of(draft)


def test_forced_brokers_are_named() -> None:
    # Two brokers hold six partitions between them; the third has one.
    draft = leaders(cluster([[0, 1]] * 6 + [[2, 0]], 3))
    assert [entry["text"] for entry in draft.certificate["forced"]] == [
        "broker 2 can lead at most 1 of them: one leads at most 1"
    ]
    assert (draft.certificate["max"], draft.certificate["min"]) == (3, 1)
    draft = leaders(cluster([[0]] * 5 + [[1, 2], [2, 1]], 3))
    assert draft.certificate["forced"][0]["brokers"] == [0]
    assert draft.certificate["forced"][0]["max_at_least"] == 5


@pytest.mark.parametrize(
    "problem",
    [
        cluster([], 0),
        cluster([], 3),
        cluster([[0], [0]], 1),
        cluster([[0], [1]], 2, dead=[0, 1]),
        cluster([[0, 1], [0, 1], [0, 1]], 2, frozen=[0, 1, 2]),
        cluster([[0], [0], [1]], 2),
        cluster([[0, 1], [0, 1]], 2, draining=[0, 1]),
    ],
    ids=["nothing", "no partitions", "one broker", "nobody lives", "all frozen", "one replica", "all draining"],
)
def test_nothing_to_choose(problem: Problem) -> None:
    draft = leaders(problem)
    assert lists_of(draft) == lists_of(problem)
    assert draft.certificate["objective"] == draft.certificate["bound"] == 0


def test_the_same_again() -> None:
    rng = np.random.default_rng(3)
    problem = cluster([rng.choice(20, size=3, replace=False).tolist() for _ in range(500)], 20)
    assert leaders(problem).replicas.tolist() == leaders(problem).replicas.tolist()


def test_a_bound_holds_whatever_the_flow() -> None:
    rng = np.random.default_rng(5)
    ends = rng.integers(0, 6, size=(2, 40))
    supply = np.array([3, 0, 0, 0, 0, -3])
    network = Network(ends[0], ends[1], rng.integers(1, 4, 40), rng.integers(0, 9, 40), supply)
    found = cheapest(network)
    assert found is not None
    assert found.cost == found.bound
    for _ in range(20):
        anything = rng.integers(0, network.capacity + 1)
        assert lower_bound(network, anything) <= found.cost


def test_too_many_reasons_become_one() -> None:
    reason, reasons = told(np.arange(40_000) - 1, str, "moved")
    assert reasons == ("moved",)
    assert reason[0] == -1
    assert (reason[1:] == 0).all()
