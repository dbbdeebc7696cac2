"""Leaders spread topic by topic, against all ways to choose them."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given

from tests.unit.planning.small_clusters import cluster, clusters, every, leader_options, lists_of, may_lead
from udfs.planning.cluster_model import ClusterModel, changed, moved
from udfs.planning.leadership.preferred_leaders import leader_choices, leaders
from udfs.planning.leadership.topic_leaders import least_per_topic, topic_leaders


def most_by_topic(model: ClusterModel, chosen: tuple[int, ...]) -> list[int]:
    counts = Counter((t, b) for t, b in zip(model.topic.tolist(), chosen, strict=True) if b in may_lead(model))
    return [max((counts[t, b] for b in may_lead(model)), default=0) for t in range(len(model.topic_names))]


@given(clusters(topics=3))
def test_no_choice_is_better(model: ClusterModel) -> None:
    proposal = topic_leaders(model)
    ways = list(every(leader_options(model)))
    tops = [most_by_topic(model, chosen) for chosen in ways]
    least = [min(top[t] for top in tops) for t in range(len(model.topic_names))]
    assert least_per_topic(model, leader_choices(model)).tolist() == least
    first = [replicas[0] for replicas in lists_of(model)]
    loads, changes = min(
        (
            sorted((chosen.count(b) for b in may_lead(model)), reverse=True),
            sum(a != b for a, b in zip(chosen, first, strict=True) if a >= 0),
        )
        for chosen, top in zip(ways, tops, strict=True)
        if top == least
    )
    after = tuple(replicas[0] for replicas in lists_of(proposal))
    assert most_by_topic(model, after) == least
    assert sorted((after.count(b) for b in may_lead(model)), reverse=True) == loads
    certificate = proposal.certificate
    assert certificate["objective"] == certificate["bound"] == changes
    assert certificate["topics_above_least"] == 0
    json.dumps(dict(certificate))


@given(clusters(topics=3))
def test_only_leaders_change_place_and_the_price_is_told(model: ClusterModel) -> None:
    proposal, free = topic_leaders(model), leaders(model)
    assert not moved(model, proposal.offsets, proposal.replicas).any()
    assert ((proposal.reason >= 0) == changed(model, proposal.offsets, proposal.replicas)).all()
    price = proposal.certificate["price_of_topics"]
    assert price["changes"] == proposal.certificate["objective"] - free.certificate["objective"]
    assert price["max"] == proposal.certificate["max"] - free.certificate["max"] >= 0
    assert price["min"] == proposal.certificate["min"] - free.certificate["min"] <= 0
    if not proposal.certificate["even"]:
        assert proposal.certificate["relaxed"]


def test_a_topic_is_spread_though_all_leaders_are_even() -> None:
    lists = [[0, 1]] * 2 + [[1, 0]] * 2
    model = cluster(lists, 2, topics=[0, 0, 1, 1])
    assert leaders(model).certificate["objective"] == 0
    proposal = topic_leaders(model)
    assert proposal.certificate["objective"] == 2
    assert proposal.certificate["price_of_topics"] == {
        "changes": 2,
        "max": 0,
        "min": 0,
        "topics_above_least_without": 2,
    }
    assert sorted(replicas[0] for replicas in lists_of(proposal)[:2]) == [0, 1]


def test_topics_that_cost_evenness_say_so() -> None:
    # Alone on broker 0 and 1, the first topic must put one leader on each; broker 1 has enough without it.
    lists = [[0, 1], [0, 1], [1], [1]]
    proposal = topic_leaders(cluster(lists, 2, topics=[0, 0, 1, 2]))
    assert (proposal.certificate["max"], proposal.certificate["min"]) == (3, 1)
    assert not proposal.certificate["even"]
    assert proposal.certificate["price_of_topics"]["max"] == 1
    assert proposal.certificate["relaxed"] == [
        "topics spread as they can be leave no way to floor and ceiling of all leaders"
    ]


@pytest.mark.parametrize(
    "model",
    [
        cluster([], 0),
        cluster([], 2),
        cluster([[0], [0]], 1),
        cluster([[0], [1]], 2, down=[0, 1]),
        cluster([[0, 1], [0, 1]], 2, frozen=[0, 1]),
        cluster([[0, 1], [0, 1]], 2, draining=[0, 1]),
    ],
    ids=["nothing", "no partitions", "one broker", "nobody lives", "all frozen", "all draining"],
)
def test_nothing_to_choose(model: ClusterModel) -> None:
    assert lists_of(topic_leaders(model)) == lists_of(model)


def test_many_topics_at_once() -> None:
    rng = np.random.default_rng(1)
    topics, brokers = 3000, 40
    sizes = rng.integers(1, 12, topics)
    topic = np.repeat(np.arange(topics), sizes)
    lists = rng.permuted(np.tile(np.arange(brokers), (len(topic), 1)), axis=1)[:, :3]
    proposal = topic_leaders(cluster(lists.tolist(), brokers, topics=topic.tolist()))
    assert proposal.certificate["even"]
    assert proposal.certificate["topics_above_least"] == 0
    assert proposal.certificate["most_of_a_topic_bound"] <= 2
