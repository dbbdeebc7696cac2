"""Gives partitions their loads: their own, their share of what a broker transfers of the topic, or of the topic's."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.formats.checked_values import shorten_name
from pipelines.ingest.formats.topic_loads import STATISTICS
from pipelines.ingest.merge.entities import LOAD_SOURCE, TOPIC_LOADS
from pipelines.ingest.merge.fact_merge import MergedFacts, merge_by_key
from pipelines.ingest.merge.load_split import ServedPartitions, TopicLoads, split_loads, subtract_known_rates
from pipelines.ingest.merge.log_merge import find_partitions
from pipelines.ingest.merge.shard_facts import ShardFacts
from pipelines.ingest.merge.topic_merge import LOAD_FIELDS, Declared
from pipelines.ingest.source_format import FactKind
from udfs.arrow.columns import is_valid, select_rows, to_array, to_codes, to_flags, to_lists, to_numpy
from udfs.arrow.ragged import is_in_segment, row_of

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
