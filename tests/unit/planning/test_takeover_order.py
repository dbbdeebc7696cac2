"""Who leads after a death, against all orders of followers, and against an exact integer program."""

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
    heir_options,
    lists_of,
    may_lead,
    relabelled,
)
from udfs.planning.cluster_model import (
    Draft,
    Problem,
    changed,
    moved,
)
from udfs.planning.leadership.leadership_plans import zero_byte
from udfs.planning.leadership.preferred_leaders import leaders
from udfs.planning.leadership.takeover_order import failover


def led_of(problem: Problem) -> Counter[int]:
    return Counter(replicas[0] for replicas in lists_of(problem) if problem.living[replicas[0]])


def worst_after(problem: Problem, dead: int, taken: Counter[int]) -> int:
    """What the worst survivor that may lead leads after this death."""
    led = led_of(problem)
    return max((led[b] + taken[b] for b in may_lead(problem) - {dead}), default=0)


def best(problem: Problem) -> dict[int, tuple[int, int]]:
    """Per dead broker that leads, its least worst survivor and the fewest changes of heirs for it."""
    lists, options, out = lists_of(problem), heir_options(problem), {}
    for dead in led_of(problem):
        mine = [i for i, replicas in enumerate(lists) if replicas[0] == dead]
        out[dead] = min(
            (worst_after(problem, dead, Counter(chosen)), changes_of(problem, mine, chosen))
            for chosen in every([options[i] for i in mine])
        )
    return out


def changes_of(problem: Problem, rows: list[int], chosen: tuple[int, ...]) -> int:
    lists = lists_of(problem)
    return sum(b >= 0 and lists[i][1] != b for i, b in zip(rows, chosen, strict=True))


def ratio_of(problem: Problem, draft: Draft) -> float:
    """The worst survivor over the mean, one death and one partition at a time."""
    led, worst = led_of(problem), 0.0
    live = set(np.flatnonzero(problem.living & ~problem.draining).tolist())
    for dead in live:
        taken = Counter(
            replicas[1]
            for replicas in lists_of(draft)
            if replicas[0] == dead and len(replicas) > 1 and problem.living[replicas[1]]
        )
        loads = [led[b] + taken[b] for b in live - {dead}]
        if sum(loads):
            worst = max(worst, max(loads) / (sum(loads) / len(loads)))
    return worst


@given(clusters(partitions=8))
def test_no_order_is_better(problem: Problem) -> None:
    draft = failover(problem)
    expected = best(problem)
    told = draft.certificate["deaths"]
    for dead, (worst, _) in expected.items():
        taken = Counter(
            replicas[1]
            for replicas in lists_of(draft)
            if replicas[0] == dead and len(replicas) > 1 and problem.living[replicas[1]]
        )
        assert worst_after(problem, dead, taken) == worst
        if str(dead) in told:
            assert told[str(dead)]["limit"] == told[str(dead)]["bound"] == worst
    assert draft.certificate["objective"] == sum(changes for _, changes in expected.values())
    assert draft.certificate["gap"] == 0
    assert draft.certificate["worst_ratio"] == pytest.approx(ratio_of(problem, draft), abs=1e-5)
    assert draft.certificate["worst_ratio_before"] == pytest.approx(
        ratio_of(problem, Draft(problem.offsets, problem.replicas, draft.reason, ())), abs=1e-5
    )
    json.dumps(dict(draft.certificate))


@given(clusters(), st.sampled_from(["each", "worst", "target"]))
def test_only_followers_change_place(problem: Problem, limits) -> None:
    draft = failover(problem, limits=limits)
    assert not moved(problem, draft.offsets, draft.replicas).any()
    differs = changed(problem, draft.offsets, draft.replicas)
    assert ((draft.reason >= 0) == differs).all()
    assert not differs[problem.frozen > 0].any()
    for before, after in zip(lists_of(problem), lists_of(draft), strict=True):
        assert after == [*after[:2], *(b for b in before if b not in after[:2])]
        assert after[0] == before[0]
        assert [problem.living[b] for b in after] == [problem.living[b] for b in before]


@given(clusters())
def test_one_limit_for_all_deaths_changes_less_and_is_no_worse(problem: Problem) -> None:
    each, worst = failover(problem).certificate, failover(problem, limits="worst").certificate
    assert worst["objective"] <= each["objective"]
    limit = max((d["limit"] / d["mean"] for d in each["deaths"].values() if d["mean"]), default=0)
    assert worst["worst_ratio"] <= max(each["worst_ratio"], limit) + 1e-5
    target = failover(problem, limits="target", target=1.5).certificate
    assert target["objective"] <= each["objective"]
    assert target["worst_ratio"] <= max(1.5, each["worst_ratio"]) + 1e-5


@given(clusters())
def test_what_is_best_stays(problem: Problem) -> None:
    draft = failover(problem)
    again = failover(problem.placed(draft.offsets, draft.replicas))
    assert again.certificate["objective"] == 0
    assert again.replicas.tolist() == draft.replicas.tolist()


@given(clusters(), st.randoms(use_true_random=False))
def test_names_of_brokers_do_not_matter(problem: Problem, random) -> None:
    places = list(range(problem.brokers))
    random.shuffle(places)
    one, other = failover(problem).certificate, failover(relabelled(problem, np.array(places))).certificate
    for name in ("objective", "cost", "bound", "worst_ratio", "worst_ratio_bound", "deaths_above_target"):
        assert one[name] == other[name]
    for dead, numbers in one["deaths"].items():
        assert other["deaths"][str(places[int(dead)])]["limit"] == numbers["limit"]


@given(clusters(partitions=8))
def test_sets_that_forbid_better_are_true(problem: Problem) -> None:
    options, led = heir_options(problem), led_of(problem)
    certificate = failover(problem, target=1.0).certificate
    assert bool(certificate["forced"]) == (certificate["deaths_above_target"] > 0)
    for entry in certificate["forced"]:
        inside, dead = set(entry["brokers"]), entry["dies"]
        mine = [i for i, replicas in enumerate(lists_of(problem)) if replicas[0] == dead]
        forced = sum(inside.issuperset(options[i]) for i in mine)
        least = -(-(sum(led[b] for b in inside) + forced) // len(inside))
        if entry["only_these_can_take"]:
            assert least == entry["max_at_least"]
        assert entry["max_at_least"] == certificate["deaths"][str(dead)]["limit"]


@pytest.mark.parametrize("seed", range(6))
def test_against_an_integer_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    brokers, chance = 7, rng.random(7) ** (seed % 3) + 0.1
    lists = [rng.choice(brokers, size=3, replace=False, p=chance / chance.sum()).tolist() for _ in range(140)]
    problem = cluster(lists, brokers)
    certificate = failover(problem).certificate
    total = 0
    for dead in range(brokers):
        limit = certificate["deaths"][str(dead)]["limit"]
        changes = exact(problem, dead, limit)
        assert changes is not None
        assert exact(problem, dead, limit - 1) is None
        total += changes
    assert total == certificate["objective"]


def exact(problem: Problem, dead: int, limit: int) -> int | None:
    """The fewest changes with which no survivor leads more than the limit, by an integer program."""
    mine = [replicas for replicas in lists_of(problem) if replicas[0] == dead]
    led = led_of(problem)
    pairs = [(i, b) for i, replicas in enumerate(mine) for b in replicas[1:]]
    if any(led[b] > limit for b in range(problem.brokers) if b != dead):
        return None
    one = np.array([[i == j for j, _ in pairs] for i in range(len(mine))], dtype=float)
    taken = np.array([[b == c for _, c in pairs] for b in range(problem.brokers)], dtype=float)
    room = np.array([0 if b == dead else limit - led[b] for b in range(problem.brokers)])
    found = milp(
        [float(mine[i][1] != b) for i, b in pairs],
        constraints=[LinearConstraint(one, 1, 1), LinearConstraint(taken, 0, room)],
        integrality=np.ones(len(pairs)),
        bounds=Bounds(0, 1),
    )
    return round(found.fun) if found.success else None


def test_a_draining_broker_takes_over_only_where_no_other_can() -> None:
    problem = cluster([[0, 2, 1], [0, 2], [1, 0]], 3, draining=[2])
    draft = failover(problem)
    assert lists_of(draft) == [[0, 1, 2], [0, 2], [1, 0]]
    assert draft.certificate["objective"] == 1


def test_brokers_that_should_not_lead_do_not_take_over() -> None:
    problem = cluster([[0, 2, 1], [1, 0, 2]], 3)
    assert lists_of(failover(problem, np.array([True, True, False])))[0] == [0, 1, 2]


def test_dead_brokers_do_not_take_over() -> None:
    problem = cluster([[0, 2, 1]] * 2, 3, dead=[2])
    assert lists_of(failover(problem)) == [[0, 1, 2]] * 2


def test_what_is_lost_is_not_in_the_mean() -> None:
    # Broker 0 leads two partitions that die with it: the others have one each.
    certificate = failover(cluster([[0], [0], [1, 2], [2, 1]], 3)).certificate
    assert certificate["deaths"] == {
        "0": {"limit": 1, "bound": 1, "worst": 1, "mean": 1.0},
        "1": {"limit": 2, "bound": 2, "worst": 2, "mean": 2.0},
        "2": {"limit": 2, "bound": 2, "worst": 2, "mean": 2.0},
    }
    assert certificate["worst_ratio"] == 1.0


def test_forced_brokers_are_named() -> None:
    # All lead three; of what broker 0 leads, broker 1 alone can take all.
    lists = [[0, 1]] * 3 + [[b, *sorted({0, 1, 2, 3} - {b})] for b in (1, 1, 1, 2, 2, 2, 3, 3, 3)]
    certificate = failover(cluster(lists, 4)).certificate
    assert certificate["deaths_above_target"] == 1
    entry = certificate["forced"][0]
    assert (entry["dies"], entry["brokers"], entry["max_at_least"]) == (0, [1], 6)
    assert entry["text"] == "broker 0 dies: 1 lead 3 and alone can take 3 more, so one leads at least 6, mean 4.0"
    assert certificate["worst_ratio"] == certificate["worst_ratio_bound"] == 1.5


def test_lists_that_change_anyway_change_first() -> None:
    problem = cluster([[0, 1, 2], [0, 1, 2], [1, 0], [2, 0]], 3)
    for settled in (0, 1):
        draft = failover(problem, settled=np.arange(4) == settled)
        assert np.flatnonzero(draft.reason >= 0).tolist() == [settled]
        assert draft.certificate["objective"] == 1


@pytest.mark.parametrize(
    "problem",
    [
        cluster([], 0),
        cluster([], 3),
        cluster([[0], [0]], 1),
        cluster([[0, 1], [1, 0]], 2, dead=[0, 1]),
        cluster([[0, 1, 2], [0, 1, 2]], 3, frozen=[0, 1]),
        cluster([[0], [0], [1]], 2),
        cluster([[0, 1], [0, 1]], 2),
        cluster([[0, 1, 2], [0, 1, 2]], 3, draining=[0, 1, 2]),
    ],
    ids=["nothing", "empty", "one broker", "nobody lives", "all frozen", "one replica", "one follower", "all draining"],
)
def test_nothing_to_choose(problem: Problem) -> None:
    for draft in (failover(problem), zero_byte(problem, keep_leaders=True)):
        assert lists_of(draft) == lists_of(problem)
        assert (draft.reason == -1).all()


@given(clusters(topics=2), st.booleans(), st.booleans())
def test_both_at_once(problem: Problem, keep_leaders: bool, by_topic: bool) -> None:
    draft = zero_byte(problem, keep_leaders, by_topic=by_topic)
    differs = changed(problem, draft.offsets, draft.replicas)
    assert not moved(problem, draft.offsets, draft.replicas).any()
    assert ((draft.reason >= 0) == differs).all()
    assert draft.certificate["lists_changed"] == differs.sum()
    assert set(draft.reason[differs].tolist()) == set(range(len(draft.reasons)))
    if keep_leaders:
        assert [r[0] for r in lists_of(draft)] == [r[0] for r in lists_of(problem)]
    elif not by_topic:
        first, then = leaders(problem), draft.certificate["leaders"]
        for name in ("bound", "even", "max", "min"):
            assert then[name] == first.certificate[name]
        assert then["gap"] == then["price_of_failover"]["changes"] == then["objective"] - then["bound"] >= 0
        alone = failover(problem.placed(first.offsets, first.replicas)).certificate
        assert draft.certificate["failover"]["worst_ratio"] <= alone["worst_ratio"]
    json.dumps(dict(draft.certificate))


def test_a_list_that_changes_twice_has_both_reasons() -> None:
    lists = [[0, 1, 2], [0, 1, 2], [0, 1, 2], [1, 0, 2], [1, 0, 2], [1, 0, 2]]
    draft = zero_byte(cluster(lists, 3))
    texts = [draft.reasons[code] for code in draft.reason.tolist() if code >= 0]
    assert any(text.startswith("preferred leader") for text in texts)
    assert all(text.count("preferred leader") <= 1 and text.count("next leader") <= 1 for text in texts)


@pytest.mark.parametrize("seed", [0, 2, 5, 6, 11])
def test_other_leaders_are_chosen_where_the_fewest_changes_miss_the_target(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = cluster([rng.choice(8, size=3, replace=False).tolist() for _ in range(60)], 8)
    first = leaders(problem)
    alone = failover(problem.placed(first.offsets, first.replicas)).certificate["worst_ratio"]
    certificate = zero_byte(problem, target=1.05).certificate
    assert alone == pytest.approx(10 / (60 / 7), abs=1e-5)
    assert certificate["failover"]["worst_ratio"] == pytest.approx(9 / (60 / 7), abs=1e-5)  # none can be less
    assert certificate["leaders"]["even"]
    assert certificate["leaders"]["gap"] <= 3
