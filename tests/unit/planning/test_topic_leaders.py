"""Leaders spread topic by topic, compared with all possible choices."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given

from tests.unit.planning.small_clusters import cluster, clusters, every, leader_options, lists_of, may_lead
from udfs.json_answers import to_json
from udfs.planning.certificates import TopicPrice
from udfs.planning.cluster_model import ClusterModel
from udfs.planning.leadership.preferred_leaders import (
    compute_topic_limits,
    find_leader_choices,
    plan_preferred_leaders,
    plan_topic_leaders,
)


def most_by_topic(model: ClusterModel, chosen: tuple[int, ...]) -> list[int]:
    counts = Counter((t, b) for t, b in zip(model.topic.tolist(), chosen, strict=True) if b in may_lead(model))
    return [max((counts[t, b] for b in may_lead(model)), default=0) for t in range(len(model.topic_names))]


@given(clusters(topics=3))
def test_no_choice_is_better(model: ClusterModel) -> None:
    proposal = plan_topic_leaders(model)
    ways = list(every(leader_options(model)))
    tops = [most_by_topic(model, chosen) for chosen in ways]
    least = [min(top[t] for top in tops) for t in range(len(model.topic_names))]
    assert compute_topic_limits(model, find_leader_choices(model)).tolist() == least
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
    assert certificate.changes == certificate.changes_lower_bound == changes
    assert certificate.topics.topics_above_limit == 0
    json.dumps(to_json(certificate))


@given(clusters(topics=3))
def test_only_leaders_change_position_and_the_price_is_right(model: ClusterModel) -> None:
    proposal, free = plan_topic_leaders(model), plan_preferred_leaders(model)
    assert not model.find_copied(proposal).any()
    assert ((proposal.reason >= 0) == model.find_changed(proposal)).all()
    price = proposal.certificate.topics.price
    assert price.changes == proposal.certificate.changes - free.certificate.changes
    assert price.max_leaders == proposal.certificate.max_leaders - free.certificate.max_leaders >= 0
    assert price.min_leaders == proposal.certificate.min_leaders - free.certificate.min_leaders <= 0
    if not proposal.certificate.even:
        assert proposal.certificate.relaxed


def test_a_topic_is_spread_even_if_all_leaders_are_even() -> None:
    lists = [[0, 1]] * 2 + [[1, 0]] * 2
    model = cluster(lists, 2, topics=[0, 0, 1, 1])
    assert plan_preferred_leaders(model).certificate.changes == 0
    proposal = plan_topic_leaders(model)
    assert proposal.certificate.changes == 2
    assert proposal.certificate.topics.price == TopicPrice(2, 0, 0, 2)
    assert sorted(replicas[0] for replicas in lists_of(proposal)[:2]) == [0, 1]


def test_lost_evenness_is_a_relaxed_target() -> None:
    # Alone on broker 0 and 1, the first topic must put one leader on each; broker 1 has enough without it.
    lists = [[0, 1], [0, 1], [1], [1]]
    proposal = plan_topic_leaders(cluster(lists, 2, topics=[0, 0, 1, 2]))
    assert (proposal.certificate.max_leaders, proposal.certificate.min_leaders) == (3, 1)
    assert not proposal.certificate.even
    assert proposal.certificate.topics.price.max_leaders == 1
    assert proposal.certificate.relaxed == [
        "spreading the leaders of each topic leaves no way to even out all leaders to the mean"
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
def test_no_choices(model: ClusterModel) -> None:
    assert lists_of(plan_topic_leaders(model)) == lists_of(model)


def test_many_topics_at_once() -> None:
    rng = np.random.default_rng(1)
    topics, brokers = 3000, 40
    sizes = rng.integers(1, 12, topics)
    topic = np.repeat(np.arange(topics), sizes)
    lists = rng.permuted(np.tile(np.arange(brokers), (len(topic), 1)), axis=1)[:, :3]
    proposal = plan_topic_leaders(cluster(lists.tolist(), brokers, topics=topic.tolist()))
    assert proposal.certificate.even
    assert proposal.certificate.topics.topics_above_limit == 0
    assert proposal.certificate.topics.highest_limit <= 2
