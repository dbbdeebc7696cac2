"""Leaders spread topic by topic, against all ways to choose them."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given

from tests.unit.planning.small_clusters import cluster, clusters, every, leader_options, lists_of, may_lead
from udfs.planning.cluster_model import Problem, changed, moved
from udfs.planning.leadership.preferred_leaders import leader_choices, leaders
from udfs.planning.leadership.topic_leaders import least_per_topic, topic_leaders


def most_by_topic(problem: Problem, chosen: tuple[int, ...]) -> list[int]:
    counts = Counter((t, b) for t, b in zip(problem.topic.tolist(), chosen, strict=True) if b in may_lead(problem))
    return [max((counts[t, b] for b in may_lead(problem)), default=0) for t in range(len(problem.topic_names))]


@given(clusters(topics=3))
def test_no_choice_is_better(problem: Problem) -> None:
    draft = topic_leaders(problem)
    ways = list(every(leader_options(problem)))
    tops = [most_by_topic(problem, chosen) for chosen in ways]
    least = [min(top[t] for top in tops) for t in range(len(problem.topic_names))]
    assert least_per_topic(problem, leader_choices(problem)).tolist() == least
    first = [replicas[0] for replicas in lists_of(problem)]
    loads, changes = min(
        (
            sorted((chosen.count(b) for b in may_lead(problem)), reverse=True),
            sum(a != b for a, b in zip(chosen, first, strict=True) if a >= 0),
        )
        for chosen, top in zip(ways, tops, strict=True)
        if top == least
    )
    after = tuple(replicas[0] for replicas in lists_of(draft))
    assert most_by_topic(problem, after) == least
    assert sorted((after.count(b) for b in may_lead(problem)), reverse=True) == loads
    certificate = draft.certificate
    assert certificate["objective"] == certificate["bound"] == changes
    assert certificate["topics_above_least"] == 0
    json.dumps(dict(certificate))


@given(clusters(topics=3))
def test_only_leaders_change_place_and_the_price_is_told(problem: Problem) -> None:
    draft, free = topic_leaders(problem), leaders(problem)
    assert not moved(problem, draft.offsets, draft.replicas).any()
    assert ((draft.reason >= 0) == changed(problem, draft.offsets, draft.replicas)).all()
    price = draft.certificate["price_of_topics"]
    assert price["changes"] == draft.certificate["objective"] - free.certificate["objective"]
    assert price["max"] == draft.certificate["max"] - free.certificate["max"] >= 0
    assert price["min"] == draft.certificate["min"] - free.certificate["min"] <= 0
    if not draft.certificate["even"]:
        assert draft.certificate["relaxed"]


def test_a_topic_is_spread_though_all_leaders_are_even() -> None:
    lists = [[0, 1]] * 2 + [[1, 0]] * 2
    problem = cluster(lists, 2, topics=[0, 0, 1, 1])
    assert leaders(problem).certificate["objective"] == 0
    draft = topic_leaders(problem)
    assert draft.certificate["objective"] == 2
    assert draft.certificate["price_of_topics"] == {
        "changes": 2,
        "max": 0,
        "min": 0,
        "topics_above_least_without": 2,
    }
    assert sorted(replicas[0] for replicas in lists_of(draft)[:2]) == [0, 1]


def test_topics_that_cost_evenness_say_so() -> None:
    # Alone on broker 0 and 1, the first topic must put one leader on each; broker 1 has enough without it.
    lists = [[0, 1], [0, 1], [1], [1]]
    draft = topic_leaders(cluster(lists, 2, topics=[0, 0, 1, 2]))
    assert (draft.certificate["max"], draft.certificate["min"]) == (3, 1)
    assert not draft.certificate["even"]
    assert draft.certificate["price_of_topics"]["max"] == 1
    assert draft.certificate["relaxed"] == [
        "topics spread as they can be leave no way to floor and ceiling of all leaders"
    ]


@pytest.mark.parametrize(
    "problem",
    [
        cluster([], 0),
        cluster([], 2),
        cluster([[0], [0]], 1),
        cluster([[0], [1]], 2, dead=[0, 1]),
        cluster([[0, 1], [0, 1]], 2, frozen=[0, 1]),
        cluster([[0, 1], [0, 1]], 2, draining=[0, 1]),
    ],
    ids=["nothing", "no partitions", "one broker", "nobody lives", "all frozen", "all draining"],
)
def test_nothing_to_choose(problem: Problem) -> None:
    assert lists_of(topic_leaders(problem)) == lists_of(problem)


def test_many_topics_at_once() -> None:
    rng = np.random.default_rng(1)
    topics, brokers = 3000, 40
    sizes = rng.integers(1, 12, topics)
    topic = np.repeat(np.arange(topics), sizes)
    lists = rng.permuted(np.tile(np.arange(brokers), (len(topic), 1)), axis=1)[:, :3]
    draft = topic_leaders(cluster(lists.tolist(), brokers, topics=topic.tolist()))
    assert draft.certificate["even"]
    assert draft.certificate["topics_above_least"] == 0
    assert draft.certificate["most_of_a_topic_bound"] <= 2
