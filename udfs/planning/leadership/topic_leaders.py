"""Preferred leaders even over brokers, and each topic's leaders over brokers as well: no replica moves."""

from __future__ import annotations

import numpy as np

from udfs.arrow.ragged import offsets_of
from udfs.planning.cluster_model import ClusterModel, Flags, Ints, ProposedAssignment
from udfs.planning.leadership.kernels.takeover_limits import least_limits
from udfs.planning.leadership.preferred_leaders import (
    Choices,
    Gates,
    drafted,
    leader_certificate,
    leader_choices,
    spread,
)
from udfs.planning.replica_order import leaders_of


def least_per_topic(model: ClusterModel, choices: Choices) -> Ints:
    """The most leaders of a topic that a broker that may lead must have, at best: int64 (topics)."""
    topics, n = len(model.topic_names), model.brokers
    topic, broker, base = _fixed(model, choices)
    limit = np.zeros(topics, dtype=np.int64)
    np.maximum.at(limit, topic, base)
    items = np.bincount(model.topic[choices.partition], minlength=topics)
    brokers = max(int(choices.counted.sum()), 1)
    total = items + np.bincount(topic, weights=base, minlength=topics).astype(np.int64)
    limit = np.maximum(limit, -(-total // brokers))
    least_limits(
        offsets_of(items),
        offsets_of(np.bincount(choices.item, minlength=len(choices.partition))),
        choices.broker,
        offsets_of(np.bincount(topic, minlength=topics)),
        broker,
        base,
        n,
        limit,
        np.zeros(len(choices.partition), dtype=np.int64),
        np.zeros((0, 0), dtype=np.bool_),
    )
    return limit


def topic_leaders(model: ClusterModel, may_lead: Flags | None = None) -> ProposedAssignment:
    """The lists in which no broker leads more of a topic than it must, and all lead floor or ceiling of the mean.

    Each topic's limit is the least that its replica sets allow, and is kept whatever it costs: where no choice then
    brings all brokers to floor or ceiling, their loads are the least majorised ones. The fewest changes among these;
    `price_of_topics` in the certificate says what the limits cost.
    """
    choices = leader_choices(model, may_lead)
    limit = least_per_topic(model, choices)
    found, without = spread(choices, _gates(model, choices, limit)), spread(choices)
    before, after = leaders_of(model), leaders_of(model)
    after[choices.partition] = choices.broker[found.chosen]
    free = after.copy()
    free[choices.partition] = choices.broker[without.chosen]
    loads, others = found.loads[choices.counted], without.loads[choices.counted]
    certificate = leader_certificate(model, choices, found, without)
    if without.even and not found.even:
        certificate["relaxed"] = ["topics spread as they can be leave no way to floor and ceiling of all leaders"]
    certificate |= {
        "goal": "leaders by topic",
        "topics_above_least_before": int((_most(model, choices, before) > limit).sum()),
        "topics_above_least": int((_most(model, choices, after) > limit).sum()),
        "most_of_a_topic_bound": int(limit.max(initial=0)),
        "price_of_topics": {
            "changes": found.changes - without.changes,
            "max": int(loads.max(initial=0) - others.max(initial=0)),
            "min": int(loads.min() - others.min()) if len(loads) else 0,
            "topics_above_least_without": int((_most(model, choices, free) > limit).sum()),
        },
    }
    return drafted(model, choices, found, certificate)


def _pairs(model: ClusterModel, rows: Ints, broker: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    # (topic, broker, how often, which of these each row is) of pairs, in order of topic and broker.
    keys = model.topic[rows].astype(np.int64) * model.brokers + broker
    pair, which, count = np.unique(keys, return_inverse=True, return_counts=True)
    return pair // max(model.brokers, 1), pair % max(model.brokers, 1), count, which


def _fixed(model: ClusterModel, choices: Choices) -> tuple[Ints, Ints, Ints]:
    # (topic, broker, leaders) that stay whatever is chosen, on brokers that may lead.
    leader = leaders_of(model)
    stays = (leader >= 0) & choices.counted[leader]
    stays[choices.partition] = False
    rows = np.flatnonzero(stays)
    return _pairs(model, rows, leader[rows])[:3]


def _gates(model: ClusterModel, choices: Choices, limit: Ints) -> Gates:
    topic, broker, count, which = _pairs(model, choices.partition[choices.item], choices.broker)
    room = limit[topic]
    fixed_topic, fixed_broker, base = _fixed(model, choices)
    n = model.brokers
    keys, at = topic * n + broker, fixed_topic * n + fixed_broker
    place = np.searchsorted(keys, at)
    hit = place < len(keys)
    hit[hit] = keys[place[hit]] == at[hit]
    room[place[hit]] -= base[hit]
    binds = count > room  # elsewhere a limit changes nothing
    gate = np.where(binds, np.cumsum(binds) - 1, -1)
    return Gates(gate[which], broker[binds], room[binds])


def _most(model: ClusterModel, choices: Choices, leader: Ints) -> Ints:
    # Per topic, the most leaders on one broker that may lead.
    rows = np.flatnonzero((leader >= 0) & choices.counted[leader])
    topic, _, count, _ = _pairs(model, rows, leader[rows])
    most = np.zeros(len(model.topic_names), dtype=np.int64)
    np.maximum.at(most, topic, count)
    return most
