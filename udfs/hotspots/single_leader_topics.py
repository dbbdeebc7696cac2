"""Topics of which one broker leads every partition: no scheme of Kafka places a topic so, and it makes brokers hot."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from udfs.wording import join_names

Ints = npt.NDArray[np.int64]
_MAX_NAMED = 3  # topics in a sentence


@dataclass(frozen=True)
class SingleLeaderTopic:
    """A topic with several led partitions, all of them led by one broker."""

    topic: str
    broker_id: int
    partitions: int  # with a leader


def find_single_leader_topics(topic: Ints, leader: Ints, names: list[str]) -> tuple[SingleLeaderTopic, ...]:
    """Find the topics that one broker leads, those with most partitions first.

    topic: (p), index into names; leader: (p), id of the leader, < 0 = none.
    """
    leads = leader >= 0
    topic, leader = topic[leads], leader[leads]
    count = np.bincount(topic, minlength=len(names))
    lowest, highest = np.full(len(names), np.iinfo(np.int64).max), np.full(len(names), -1)
    np.minimum.at(lowest, topic, leader)
    np.maximum.at(highest, topic, leader)
    codes = np.flatnonzero((count > 1) & (lowest == highest))
    order = sorted(codes.tolist(), key=lambda code: (-count[code], names[code]))
    return tuple(SingleLeaderTopic(names[code], int(lowest[code]), int(count[code])) for code in order)


def describe_single_leaders(topics: Sequence[SingleLeaderTopic]) -> str:
    """Name the topics that one broker leads, as in `1 topic is led by one broker: a (48 partitions, broker 101)`."""
    subject = (
        "1 topic is led by one broker" if len(topics) == 1 else f"{len(topics):,} topics are led by one broker each"
    )
    first, *others = topics[:_MAX_NAMED]
    names = [f"{first.topic} ({first.partitions:,} partitions, broker {first.broker_id})"]
    names += [f"{one.topic} ({one.partitions:,}, broker {one.broker_id})" for one in others]
    return f"{subject}: {join_names(names, count=len(topics))}"
