"""Preferred leaders even over brokers, and each topic's leaders spread over brokers: nothing is copied."""

from dataclasses import replace

import numpy as np

from udfs.arrow.ragged import offsets_of
from udfs.planning.certificates import TopicPrice, TopicSpread
from udfs.planning.cluster_model import ClusterModel, Flags, Ints, ProposedAssignment
from udfs.planning.leadership.kernels.takeover_limits import BaseLoads, Items, lift_limits
from udfs.planning.leadership.preferred_leaders import (
    LeaderChoices,
    LeaderLimits,
    assign_leaders,
    certify_leaders,
    find_leader_choices,
    propose_leaders,
)


def compute_topic_limits(model: ClusterModel, choices: LeaderChoices) -> Ints:
    """Compute the lowest limit for leaders of a topic on one broker that may lead: int64 (topics)."""
    topics = len(model.topic_names)
    topic, broker, base = _count_fixed(model, choices)
    limit = np.zeros(topics, dtype=np.int64)
    np.maximum.at(limit, topic, base)
    items = np.bincount(model.topic[choices.partition], minlength=topics)
    brokers = max(int(choices.counted.sum()), 1)
    total = items + np.bincount(topic, weights=base, minlength=topics).astype(np.int64)
    limit = np.maximum(limit, -(-total // brokers))
    choices_of_item = np.bincount(choices.item, minlength=len(choices.partition))
    lift_limits(
        Items(offsets_of(items), offsets_of(choices_of_item), choices.broker),
        BaseLoads(offsets_of(np.bincount(topic, minlength=topics)), broker, base),
        model.brokers,
        limit,
        np.zeros((0, 0), dtype=np.bool_),
    )
    return limit


def plan_topic_leaders(model: ClusterModel, may_lead: Flags | None = None) -> ProposedAssignment:
    """Plan leaders so that no broker leads more of a topic than it must, and all are at floor or ceiling of the mean.

    Each topic's limit is the lowest that its replica sets allow, and holds whatever it costs: where it leaves no way
    to the floor and the ceiling, loads are the least majorised ones. Among these, the fewest changes. The price in
    the certificate says what the limits cost.
    """
    choices = find_leader_choices(model, may_lead)
    limit = compute_topic_limits(model, choices)
    assignment = assign_leaders(choices, _limit_groups(model, choices, limit))
    without = assign_leaders(choices)
    before, after = model.preferred_leaders, model.preferred_leaders
    after[choices.partition] = choices.broker[assignment.chosen]
    unlimited = after.copy()
    unlimited[choices.partition] = choices.broker[without.chosen]
    loads, other_loads = assignment.loads[choices.counted], without.loads[choices.counted]

    def count_above(leader: Ints) -> int:
        return int((_most_leaders(model, choices, leader) > limit).sum())

    certificate = certify_leaders(model, choices, assignment, without)
    if without.even and not assignment.even:
        text = "spreading the leaders of each topic leaves no way to even out all leaders to the mean"
        certificate = replace(certificate, relaxed=[text])
    price = TopicPrice(
        assignment.changes - without.changes,
        int(loads.max(initial=0) - other_loads.max(initial=0)),
        int(loads.min() - other_loads.min()) if len(loads) else 0,
        count_above(unlimited),
    )
    topics = TopicSpread(count_above(before), count_above(after), int(limit.max(initial=0)), price)
    certificate = replace(certificate, goal="leaders by topic", topics=topics)
    return propose_leaders(model, choices, assignment, certificate)


def _count_pairs(model: ClusterModel, rows: Ints, broker: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Count pairs of topic and broker, in this order: (topic, broker, count, the pair of each row)."""
    keys = model.topic[rows].astype(np.int64) * model.brokers + broker
    pair, which, count = np.unique(keys, return_inverse=True, return_counts=True)
    return pair // max(model.brokers, 1), pair % max(model.brokers, 1), count, which


def _count_fixed(model: ClusterModel, choices: LeaderChoices) -> tuple[Ints, Ints, Ints]:
    """Count the leaders that stay whatever is chosen, on brokers that may lead: (topic, broker, leaders)."""
    leader = model.preferred_leaders
    stays = (leader >= 0) & choices.counted[leader]
    stays[choices.partition] = False
    rows = np.flatnonzero(stays)
    return _count_pairs(model, rows, leader[rows])[:3]


def _limit_groups(model: ClusterModel, choices: LeaderChoices, limit: Ints) -> LeaderLimits:
    topic, broker, count, which = _count_pairs(model, choices.partition[choices.item], choices.broker)
    capacity = limit[topic]
    fixed_topic, fixed_broker, base = _count_fixed(model, choices)
    keys, fixed_keys = topic * model.brokers + broker, fixed_topic * model.brokers + fixed_broker
    position = np.searchsorted(keys, fixed_keys)
    hit = position < len(keys)
    hit[hit] = keys[position[hit]] == fixed_keys[hit]
    capacity[position[hit]] -= base[hit]
    binds = count > capacity  # elsewhere a limit changes nothing
    group = np.where(binds, np.cumsum(binds) - 1, -1)
    return LeaderLimits(group[which], broker[binds], capacity[binds])


def _most_leaders(model: ClusterModel, choices: LeaderChoices, leader: Ints) -> Ints:
    """Find, for each topic, the most leaders on one broker that may lead."""
    rows = np.flatnonzero((leader >= 0) & choices.counted[leader])
    topic, _, count, _ = _count_pairs(model, rows, leader[rows])
    most = np.zeros(len(model.topic_names), dtype=np.int64)
    np.maximum.at(most, topic, count)
    return most
