"""Divides what brokers transfer of a topic among its partitions, as Kafka has no rates of partitions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class PartitionLoads(NamedTuple):
    """Loads of partitions (p)."""

    rate: Floats  # float64; NaN = unknown
    is_measured: Bools  # whether its share is that of what was appended


def split_loads(
    topic: Ints, leader: Ints, appended: Floats, load_topic: Ints, load_broker: Ints, load: Floats
) -> PartitionLoads:
    """Divide loads of topics on brokers among the partitions that a broker leads, by what was appended to each.

    A load of a broker that leads no partition of the topic (any more) is divided among all partitions of the topic that
    have a leader. Where it is not known of all these partitions what was appended, or nothing was, they get the same.

    Args:
        topic: Topic of each partition, from 0: int64 (p).
        leader: Its leader, -1 = none: int64 (p).
        appended: Records that were appended to it, NaN = unknown: float64 (p).
        load_topic: Topic of each load: int64 (n).
        load_broker: Its broker: int64 (n). Loads of the same topic and broker are summed up.
        load: Bytes per second: float64 (n).
    """
    has_leader = leader >= 0
    span = int(max(leader.max(initial=0), load_broker.max(initial=0))) + 1
    own_key = np.where(has_leader, topic * span + leader, -1)
    load_key = load_topic * span + load_broker
    leads = np.isin(load_key, own_key)
    by_leader = _split(own_key, appended, load_key[leads], load[leads])
    by_topic = _split(np.where(has_leader, topic, -1), appended, load_topic[~leads], load[~leads])
    both = np.stack([by_leader.rate, by_topic.rate])
    known = ~np.isnan(both)
    rate = np.where(known.any(axis=0), np.nansum(both, axis=0), np.nan)
    measured = np.stack([by_leader.is_measured, by_topic.is_measured])
    is_measured = np.asarray(known.any(axis=0) & (measured | ~known).all(axis=0), dtype=np.bool_)
    return PartitionLoads(rate, is_measured)


def _split(key: Ints, appended: Floats, load_key: Ints, load: Floats) -> PartitionLoads:
    """Divide each load among the partitions with its key. key: int64 (p), -1 = none."""
    unique, group = np.unique(key, return_inverse=True)
    usable = np.isin(load_key, unique)
    place = np.searchsorted(unique, load_key[usable])
    value = np.full(len(unique), np.nan)
    value[place] = 0
    np.add.at(value, place, load[usable])
    count = np.bincount(group, minlength=len(unique))
    total = np.bincount(group, appended, len(unique)).astype(np.float64)  # NaN if one is unknown
    is_measured = (total > 0)[group]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(is_measured, appended / total[group], 1 / count[group])
    rate = value[group] * share
    return PartitionLoads(rate, is_measured & ~np.isnan(rate))
