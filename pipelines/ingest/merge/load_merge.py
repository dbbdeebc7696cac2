"""Gives partitions their loads: their own, their share of what a broker transfers of the topic, or of the topic's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.formats.checked_values import shorten_name
from pipelines.ingest.formats.topic_loads import STATISTICS
from pipelines.ingest.merge.entities import LOAD_SOURCE, TOPIC_LOADS
from pipelines.ingest.merge.fact_merge import MergedFacts, merge_by_key
from pipelines.ingest.merge.kraft_merge import find_partitions
from pipelines.ingest.merge.shard_facts import ShardFacts
from pipelines.ingest.merge.topic_merge import LOAD_FIELDS, Declared
from pipelines.ingest.source_format import FactKind
from udfs.arrow.columns import is_valid, select_rows, to_array, to_codes, to_flags, to_lists, to_numpy
from udfs.arrow.ragged import is_in_segment, row_of

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


_RATES = ("bytes_in_per_s", "bytes_out_per_s")
_SOURCES = pa.array([None, "partition", "offsets", "even", "topic"])  # of LOAD_SOURCE, by code
_UNKNOWN, _OWN, _OFFSETS, _EVEN, _TOPIC = range(5)


def share_loads(
    shard: ShardFacts, partitions: pa.Table, declared: Declared, registrations: pa.Table, topic_loads: pa.Table
) -> pa.Table:
    """Complete the loads of partitions (sorted by topic and partition), and append LOAD_SOURCE.

    topic_loads: from list_topic_loads, of the same shard.
    """
    partitions = _add_partition_loads(shard, partitions)
    is_own = _has_rate(partitions)
    partitions, source = _share_broker_loads(shard, partitions, registrations, topic_loads)
    source[is_own] = _OWN
    partitions = _share_topic_loads(partitions, declared)
    source[(source == _UNKNOWN) & _has_rate(partitions)] = _TOPIC
    return partitions.append_column(LOAD_SOURCE.name, _SOURCES.take(pa.array(source)))


def list_topic_loads(shard: ShardFacts) -> pa.Table:
    """Return what metrics show of topics and brokers (schema TOPIC_LOADS), and note where two sources differ."""
    loads = _select_loads(shard, "broker_id")
    merged = _merge_loads(loads)
    for conflict in merged.conflicts:
        topic, broker = (loads[name][conflict.row].as_py() for name in ("topic", "broker_id"))
        of_topic = "" if topic is None else f"topic {shorten_name(topic)} on "
        shard.add_conflict(f"load of {of_topic}broker {broker}", loads, conflict)
    return _get_places(loads, merged).select(TOPIC_LOADS.names).cast(TOPIC_LOADS)


def _select_loads(shard: ShardFacts, place: str) -> pa.Table:
    """Return the LOAD facts of a kind of place: broker_id, also with a topic, or partition."""
    loads = shard.select(FactKind.LOAD)
    return select_rows(loads, pc.is_valid(loads[place]))


def _merge_loads(loads: pa.Table) -> MergedFacts:
    """Merge the LOAD facts of one topic, broker and partition: the first value counts, as several files may have it."""
    topic, _ = to_codes(loads["topic"])
    place = np.where(is_valid(loads["partition"]), to_numpy(loads["partition"], 0), to_numpy(loads["broker_id"], 0))
    return merge_by_key(loads, ((topic + 1) << np.int64(32)) + place.astype(np.int64), (*_RATES, *STATISTICS))


def _get_places(loads: pa.Table, merged: MergedFacts) -> pa.Table:
    """Return the merged facts with their topics, brokers and partitions."""
    first = loads.select(["topic", "broker_id", "partition"]).take(pa.array(merged.first_rows))
    columns = [*first.columns, *merged.table.columns]
    return pa.Table.from_arrays(columns, names=[*first.column_names, *merged.table.column_names])


def _add_partition_loads(shard: ShardFacts, partitions: pa.Table) -> pa.Table:
    """Fill in the rates of LOAD facts of partitions, where no other source shows them."""
    facts = _select_loads(shard, "partition")
    if not facts.num_rows:
        return partitions
    facts = _get_places(facts, _merge_loads(facts))
    rows = find_partitions(partitions, facts)
    known = rows < partitions.num_rows
    for name in _RATES:
        rate = np.full(partitions.num_rows, np.nan)
        rate[rows[known]] = to_numpy(facts[name], np.nan).astype(np.float64)[known]
        partitions = _fill(partitions, name, pa.array(rate, mask=np.isnan(rate)))
    return partitions


def _fill(partitions: pa.Table, name: str, values: pa.Array) -> pa.Table:
    """Return the partitions with these values of a column where theirs are null."""
    column = pc.coalesce(to_array(partitions[name]), values)
    return partitions.set_column(partitions.schema.get_field_index(name), name, column)


def _has_rate(partitions: pa.Table) -> npt.NDArray[np.bool_]:
    rate_in, rate_out = (is_valid(partitions[name]) for name in _RATES)
    return rate_in | rate_out


def _share_broker_loads(
    shard: ShardFacts, partitions: pa.Table, registrations: pa.Table, topic_loads: pa.Table
) -> tuple[pa.Table, npt.NDArray[np.int8]]:
    """Divide what brokers transfer of topics among the partitions that they serve. Return also codes of _SOURCES (p).

    Producers write to leaders only. Consumers may fetch from in-sync followers too (KIP-392).
    """
    loads = select_rows(topic_loads, pc.is_valid(topic_loads["topic"]))
    source = np.full(partitions.num_rows, _UNKNOWN, dtype=np.int8)
    if not loads.num_rows:
        return partitions, source
    topic, names = to_codes(partitions["topic"])
    load_topic = pc.index_in(loads["topic"].combine_chunks(), value_set=names)
    usable = is_valid(load_topic)
    load_topic = to_numpy(load_topic, -1).astype(np.int64)
    load_broker = to_numpy(loads["broker_id"]).astype(np.int64)
    leader = _find_leaders(partitions)
    appended = _find_appended(shard, partitions, leader)
    has_leader = leader >= 0
    leaders = ServedPartitions(np.flatnonzero(has_leader), leader[has_leader])
    served = ((leaders,), _find_served_to_consumers(partitions, leaders, registrations))
    for name, lists in zip(_RATES, served, strict=True):
        rate = to_numpy(loads[name], np.nan).astype(np.float64)
        rows = usable & ~np.isnan(rate)
        rates = TopicLoads(load_topic[rows], load_broker[rows], rate[rows])
        known = to_numpy(partitions[name], np.nan).astype(np.float64)
        others, rest = subtract_known_rates(topic, leader, known, lists, rates)
        split = split_loads(topic, has_leader & np.isnan(known), appended, others, rest)
        shared = np.isnan(known) & ~np.isnan(split.rate)
        source[shared] = np.where(split.is_measured, _OFFSETS, _EVEN)[shared]
        partitions = _fill(partitions, name, pa.array(split.rate, mask=np.isnan(split.rate)))
    return partitions, source


def _find_served_to_consumers(
    partitions: pa.Table, leaders: ServedPartitions, registrations: pa.Table
) -> tuple[ServedPartitions, ServedPartitions]:
    """Find what each broker serves to consumers: what is certain of it, and else the partitions that it follows.

    A broker serves what it leads. One with follower fetching also serves what it follows in sync; any other one that
    leads no partition of a topic, but sends some of it, must have sent what it follows.
    """
    replicas, isr = to_lists(partitions["replicas"]), to_lists(partitions["isr"])
    row = row_of(replicas.offsets)
    in_sync = ~isr.valid[row] | is_in_segment(replicas.values, replicas.offsets, isr.values, isr.offsets)
    leader = np.full(partitions.num_rows, -1, dtype=np.int64)
    leader[leaders.partition] = leaders.broker
    follows = in_sync & (leader[row] >= 0) & (replicas.values != leader[row])
    followers = ServedPartitions(row[follows], replicas.values[follows].astype(np.int64))
    fetching = to_numpy(registrations["broker_id"])[to_flags(registrations["follower_fetching"])]
    also = np.isin(followers.broker, fetching)
    pairs = (np.concatenate([led, followed[also]]) for led, followed in zip(leaders, followers, strict=True))
    return ServedPartitions(*pairs), followers


def _find_leaders(partitions: pa.Table) -> npt.NDArray[np.int64]:
    """Return the leader of each partition, else its first replica where no source shows leaders; -1 = none."""
    leader = to_numpy(partitions["leader"], -1).astype(np.int64)
    replicas = to_lists(partitions["replicas"])
    infer = ~is_valid(partitions["leader"]) & (replicas.lengths > 0)
    leader[infer] = replicas.values[replicas.offsets[:-1][infer]]
    return leader


def _find_appended(shard: ShardFacts, partitions: pa.Table, leader: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return the records that were appended to the leader of each partition, NaN = unknown.

    A follower that was copied meanwhile has also older ones.
    """
    facts = shard.select(FactKind.APPENDED)
    rows = find_partitions(partitions, facts)
    appended = np.full(partitions.num_rows, np.nan)
    known = rows < len(appended)
    known[known] = leader[rows[known]] == to_numpy(facts["broker_id"], -1)[known]
    appended[rows[known]] = to_numpy(facts["records"]).astype(np.float64)[known]
    return appended


def _share_topic_loads(partitions: pa.Table, declared: Declared) -> pa.Table:
    """Divide the loads of topics evenly among their partitions, where a partition's own load is unknown."""
    topic_code, names = to_codes(partitions["topic"])
    topics = [declared.get(topic, {}) for topic in names.to_pylist()]
    visible = np.bincount(topic_code[topic_code >= 0], minlength=len(topics))
    counts = np.array([max(topic.get("partition_count") or 0, n) for topic, n in zip(topics, visible, strict=True)])
    for name in LOAD_FIELDS:
        totals = np.array([np.nan if (total := topic.get(name)) is None else total for topic in topics])
        if np.isnan(totals).all():
            continue
        even = (totals / counts)[topic_code]
        values = np.nan_to_num(np.round(even)).astype(np.int64) if name == "size_bytes" else even
        partitions = _fill(partitions, name, pa.array(values, mask=np.isnan(even)))
    return partitions
