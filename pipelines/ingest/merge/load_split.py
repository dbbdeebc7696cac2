"""Divides what brokers transfer of a topic among its partitions, as Kafka has no rates of partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


_TOLERANCE = 0.01  # by which the rates of partitions may exceed that of their topic


class PartitionLoads(NamedTuple):
    """Loads of partitions (p)."""

    rate: Floats  # float64; NaN = unknown
    is_measured: Bools  # whether its share is that of what was appended


class TopicLoads(NamedTuple):
    """Loads of topics on brokers (n). Loads of the same topic and broker are summed up."""

    topic: Ints  # int64, from 0
    broker: Ints  # int64, ids
    rate: Floats  # float64, bytes per second


class ServedPartitions(NamedTuple):
    """Pairs (s) of a partition and a broker that transfers its records."""

    partition: Ints  # int64, index of the partition
    broker: Ints  # int64, ids


def subtract_known_rates(
    topic: Ints, leader: Ints, known: Floats, served: Sequence[ServedPartitions], loads: TopicLoads
) -> tuple[list[ServedPartitions], TopicLoads]:
    """Subtract the rates of partitions that are known by themselves from the loads of their topics on their leaders.

    Return what remains: the pairs of the other partitions, and what is left of the loads for them. A load that is left
    for no partition, or is less than what is known of it, is left out.

    Args:
        topic: Topic of each partition, from 0: int64 (p).
        leader: Its leader, -1 = none: int64 (p).
        known: Its own rate, NaN = unknown: float64 (p).
        served: What brokers serve.
        loads: The loads of topics on brokers.
    """
    is_known = ~np.isnan(known)
    if not is_known.any():
        return list(served), loads
    span = max(int(ids.max(initial=0)) for ids in (loads.broker, leader, *(one.broker for one in served))) + 1
    load_key, row = np.unique(loads.topic * span + loads.broker, return_inverse=True)
    load = np.bincount(row, loads.rate, len(load_key))
    is_led = is_known & (leader >= 0)
    at = np.searchsorted(load_key, own_key := (topic * span + leader)[is_led])
    is_part = load_key[np.minimum(at, len(load_key) - 1)] == own_key if len(load_key) else np.zeros(len(at), dtype=bool)
    remaining = load - np.bincount(at[is_part], known[is_led][is_part], len(load_key))
    rest = [ServedPartitions(*(column[~is_known[one.partition]] for column in one)) for one in served]
    all_keys, rest_keys = (
        np.concatenate([topic[one.partition] * span + one.broker for one in lists]) for lists in (served, rest)
    )
    is_left = np.isin(load_key, rest_keys) | ~np.isin(load_key, all_keys)
    is_left &= remaining >= -_TOLERANCE * load
    left = load_key[is_left]
    return rest, TopicLoads(left // span, left % span, np.maximum(remaining[is_left], 0.0))


def split_loads(
    topic: Ints, has_leader: Bools, appended: Floats, served: Sequence[ServedPartitions], loads: TopicLoads
) -> PartitionLoads:
    """Divide loads of topics on brokers among the partitions that a broker serves, by what was appended to each.

    A load is divided among the partitions that its broker serves by the first list that has one of the topic. Where no
    list has one (any more), it is divided among all partitions of the topic that have a leader. Where it is not known
    of all these partitions what was appended, or nothing was, they get the same. So the rates of a topic's partitions
    add up to its loads.

    Args:
        topic: Topic of each partition, from 0: int64 (p).
        has_leader: Whether it has a leader: bool (p).
        appended: Records that were appended to it, NaN = unknown: float64 (p).
        served: What brokers serve; the first list wins.
        loads: The loads to divide.
    """
    brokers = [loads.broker, *(one.broker for one in served)]
    span = max(int(ids.max(initial=0)) for ids in brokers) + 1
    load_key = loads.topic * span + loads.broker
    is_open = np.ones(len(load_key), dtype=np.bool_)
    parts = list[PartitionLoads]()
    for pairs in served:
        key = topic[pairs.partition] * span + pairs.broker
        chosen = is_open & np.isin(load_key, key)
        is_open &= ~chosen
        parts.append(_split(len(topic), pairs.partition, key, appended, load_key[chosen], loads.rate[chosen]))
    rows = np.flatnonzero(has_leader)
    parts.append(_split(len(topic), rows, topic[rows], appended, loads.topic[is_open], loads.rate[is_open]))
    rates = np.stack([part.rate for part in parts])
    known = ~np.isnan(rates)
    rate = np.where(known.any(axis=0), np.nansum(rates, axis=0), np.nan)
    measured = np.stack([part.is_measured for part in parts])
    is_measured = np.asarray(known.any(axis=0) & (measured | ~known).all(axis=0), dtype=np.bool_)
    return PartitionLoads(rate, is_measured)


def _split(count: int, row: Ints, key: Ints, appended: Floats, load_key: Ints, load: Floats) -> PartitionLoads:
    """Divide each load among the entries (s) with its key. row: partition of an entry, of `count`: int64 (s)."""
    unique, group = np.unique(key, return_inverse=True)
    usable = np.isin(load_key, unique)
    place = np.searchsorted(unique, load_key[usable])
    value = np.full(len(unique), np.nan)
    value[place] = 0
    np.add.at(value, place, load[usable])
    entries = np.bincount(group, minlength=len(unique))
    total = np.bincount(group, appended[row], len(unique)).astype(np.float64)  # NaN if one is unknown
    is_measured = (total > 0)[group]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(is_measured, appended[row] / total[group], 1 / entries[group])
    rate = value[group] * share
    known = ~np.isnan(rate)
    has_rate, is_even = (np.bincount(row[rows], minlength=count) > 0 for rows in (known, known & ~is_measured))
    sums = np.bincount(row[known], rate[known], count)
    return PartitionLoads(np.where(has_rate, sums, np.nan), has_rate & ~is_even)
