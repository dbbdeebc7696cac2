"""Merges what the sources declare of topics, compares it with the partitions that they show, and infers their state."""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.formats.checked_values import MAX_PARTITIONS, explain_bad_topic_name
from pipelines.ingest.formats.partition_filters import UNDER_MIN_ISR
from pipelines.ingest.merge.entities import INFERRED_PARTITIONS, LOAD_SOURCE, LOADS, STATE_INFERRED, TOPICS
from pipelines.ingest.merge.fact_merge import Conflict, merge_by_key
from pipelines.ingest.merge.live_brokers import (
    NO_END,
    ShownReleases,
    get_down_brokers,
    get_live_brokers,
    get_releases,
    get_unknown_brokers,
)
from pipelines.ingest.merge.shard_facts import ShardFacts
from pipelines.ingest.source_format import FactKind
from udfs.arrow.columns import (
    is_in_lists,
    is_valid,
    replace_columns,
    to_array,
    to_codes,
    to_flags,
    to_list_array,
    to_lists,
    to_numpy,
)
from udfs.arrow.ragged import RaggedLists, count_true, first_true, offsets_of, row_of
from udfs.failures.partition_health import HEALTH_COLUMNS, LiveBrokerRacks, TopicRules, find_health, number_racks
from udfs.failures.topic_defaults import FIRST_WITH_ELR, TopicDefaults
from udfs.wording import count_of, is_or_are, join_names

LOAD_FIELDS = tuple(field.name for field in LOADS)
_RELEASES = ("release_from", "release_before")
_TOPIC_LINE = ("partition_count", "replication_factor", "topic_id")  # what only a description of the topic has
_FIELDS = (*_TOPIC_LINE, "configs", "marked_for_deletion", *_RELEASES, *LOAD_FIELDS)
_NAMED_PARTITIONS = 20  # of those that are missing
_WITHOUT_LINE = (
    "its line with PartitionCount is not shown, as with --under-replicated-partitions, grep or Kafka 0.8.0: others may "
    "be missing"
)

_DISKLESS = "diskless.enable"
_MIN_ISR = "min.insync.replicas"

Declared = dict[str, dict[str, Any]]  # topic -> merged fields of its facts


def merge_topics(shard: ShardFacts) -> tuple[Declared, set[str]]:
    """Return (merged TOPIC and CONFIG facts, names in topic lists); bad names and counts are quarantined."""
    facts = shard.select(FactKind.TOPIC, FactKind.CONFIG)
    fact_rows = facts["fact"].to_numpy()
    code, names = to_codes(facts["topic"])
    text = names.to_pylist()
    faults = {i: fault for i, name in enumerate(text) if (fault := explain_bad_topic_name(name))}
    good = ~np.isin(code, list(faults))
    for at in np.flatnonzero(~good).tolist():
        shard.quarantine(int(fact_rows[at]), faults[int(code[at])])
    huge = to_numpy(facts["partition_count"]) > MAX_PARTITIONS
    for at in np.flatnonzero(huge & good).tolist():
        reason = f"partitions is {facts['partition_count'][at].as_py()}, expected at most {MAX_PARTITIONS}"
        shard.quarantine(int(fact_rows[at]), reason)
    good &= ~huge
    facts, code = facts.filter(pa.array(good)), code[good]
    merged = merge_by_key(facts, code, _FIELDS)
    shard.ignore_duplicates(facts, merged)
    for conflict in merged.conflicts:
        if conflict.field != "configs":
            shard.add_conflict(f"topic {text[code[conflict.row]]}", facts, conflict)
    rows_of_topics = zip(row_of(merged.offsets).tolist(), merged.order.tolist(), strict=True)
    configs = _merge_configs(shard, facts, rows_of_topics)
    rows = merged.table.to_pylist()
    declared = {
        text[key]: {**row, "configs": configs.get(entity)}
        for entity, (key, row) in enumerate(zip(merged.keys.tolist(), rows, strict=True))
    }
    return declared, set(facts.filter(pc.equal(facts["format"], "topic-list"))["topic"].to_pylist())


def merge_defaults(shard: ShardFacts) -> dict[str, str]:
    """Return the configs that brokers set for all topics."""
    facts = shard.select(FactKind.TOPIC_DEFAULTS)
    return _merge_configs(shard, facts, [(0, row) for row in range(facts.num_rows)]).get(0, {})


def find_releases(shard: ShardFacts, partitions: pa.Table, declared: Declared) -> ShownReleases:
    """Return the releases that n partitions show the cluster to run.

    What the output of a tool shows of the cluster as a whole holds for all of them.
    """
    facts = shard.select(FactKind.TOPIC_DEFAULTS)
    firsts, ends = ([one for one in facts[name].to_pylist() if one is not None] for name in _RELEASES)
    has_elr = is_valid(partitions["elr"]) | is_valid(partitions["last_known_elr"])
    first, before = np.where(has_elr, FIRST_WITH_ELR, 0), np.full(partitions.num_rows, NO_END)
    of_topics = {topic: fields["release_before"] for topic, fields in declared.items()}
    for end in {end for end in of_topics.values() if end is not None}:
        topics = pa.array([topic for topic, one in of_topics.items() if one == end], pa.string())
        is_older = to_flags(pc.is_in(partitions["topic"], topics))
        before[is_older] = np.minimum(before[is_older], end)
    return ShownReleases(np.maximum(first, max(firsts, default=0)), np.minimum(before, min(ends, default=NO_END)))


def _merge_configs(shard: ShardFacts, facts: pa.Table, rows: Iterable[tuple[int, int]]) -> dict[int, dict[str, str]]:
    """Return {number of an entity: its configs}, merged key by key. rows: number of the entity, and row of a fact.

    A key that one source lacks is no conflict: `kafka-topics --describe` shows the brokers' own settings too.
    """
    values, home = facts["configs"].to_pylist(), to_flags(facts["home"])
    configs: dict[int, dict[str, str]] = {}
    first_rows: dict[tuple[int, str], int] = {}
    for entity, row in rows:
        for key, value in values[row] or ():
            used = configs.setdefault(entity, {}).setdefault(key, value)
            first = first_rows.setdefault((entity, key), row)
            if used != value and home[row]:
                topic = facts["topic"][row].as_py()
                name = "all topics" if topic is None else f"topic {topic}"
                shard.add_conflict(name, facts, Conflict(f"config {key}", row, first), values=(used, value))
    return configs


def empty_diskless(partitions: pa.Table, declared: Declared) -> pa.Table:
    """Return partitions without loads where a fork of Kafka has their data in object storage: any broker serves it."""
    names = [topic for topic, one in declared.items() if (one["configs"] or {}).get(_DISKLESS, "").lower() == "true"]
    is_diskless = pc.is_in(partitions["topic"], value_set=pa.array(names, pa.string()))
    rates = ("bytes_in_per_s", "bytes_out_per_s", LOAD_SOURCE.name)
    without = {name: pc.if_else(is_diskless, None, partitions[name]) for name in rates}
    return replace_columns(partitions, without | {"size_bytes": pc.if_else(is_diskless, 0, partitions["size_bytes"])})


def add_listed_partitions(partitions: pa.Table, declared: Declared, listed: set[str]) -> pa.Table:
    """Add a row for each partition of the topics of topic lists that no other source shows."""
    visible = set(pc.unique(partitions["topic"]).to_pylist())
    counts = {topic: declared[topic]["partition_count"] for topic in listed - visible}
    if not counts:
        return partitions
    size = np.array(list(counts.values()), dtype=np.int64)
    topic = pa.array(list(counts)).take(pa.array(np.repeat(np.arange(len(size)), size)))
    number = np.arange(len(topic)) - np.repeat(np.cumsum(size) - size, size)
    columns = {"topic": topic, "partition": pa.array(number, pa.int32())}
    schema = partitions.schema
    added = pa.table([columns.get(f.name, pa.nulls(len(topic), f.type)) for f in schema], schema=schema)
    return pa.concat_tables([partitions, added])


def find_fully_shown(topic: pa.ChunkedArray, partition: pa.ChunkedArray, declared: Declared) -> npt.NDArray[np.bool_]:
    """Return, for each of some distinct partitions, whether they surely are all of its topic's.

    kafka-topics omits the lines of topics when it selects partitions, as with --under-replicated-partitions.
    """
    topic_code, names = to_codes(topic)
    number = to_numpy(partition).astype(np.int64)
    expected = np.zeros(len(names), dtype=np.int64)
    np.maximum.at(expected, topic_code, number + 1)
    has_line = np.zeros(len(names), dtype=np.bool_)
    for i, name in enumerate(names.to_pylist()):
        fields = declared.get(name, {})
        has_line[i] = _has_topic_line(fields)
        expected[i] = max(expected[i], fields.get("partition_count") or 0)
    is_full = has_line & (np.bincount(topic_code, minlength=len(names)) == expected)
    return np.asarray(is_full[topic_code])


def find_without_topic_line(shard: ShardFacts, declared: Declared) -> set[str]:
    """Return the topics of which only partition lines of kafka-topics are shown: others may have been filtered out."""
    facts = shard.select(FactKind.PARTITION)
    is_described = pc.equal(facts["format"], "describe")
    named = set(pc.unique(facts.filter(is_described)["topic"]).to_pylist())
    others = set(pc.unique(facts.filter(pc.invert(is_described))["topic"]).to_pylist())
    return {topic for topic in named - others if not _has_topic_line(declared.get(topic, {}))}


def _has_topic_line(fields: dict[str, Any]) -> bool:
    return any(fields.get(column) is not None for column in _TOPIC_LINE)


def describe_topics(
    declared: Declared,
    partitions: pa.Table,
    without_line: Collection[str],
    defaults: Mapping[str, str],
    min_isr: Mapping[str, tuple[int, bool]],
) -> pa.Table:
    """Return one row per topic (schema TOPICS), by name, of partitions sorted by topic and partition.

    without_line: topics of which kafka-topics shows partitions, but not the line with PartitionCount; defaults:
    configs that brokers set for all topics; min_isr: see `find_min_isr`.
    """
    topic_code, names = to_codes(partitions["topic"])
    number = to_numpy(partitions["partition"]).astype(np.int64)
    factor = np.diff(to_lists(partitions["replicas"]).offsets)
    adding, removing = (
        np.diff(to_lists(partitions[name]).offsets) for name in ("adding_replicas", "removing_replicas")
    )
    loaded = np.logical_or.reduce([is_valid(partitions[name]) for name in LOAD_FIELDS])
    codes, begins, counts = np.unique(topic_code, return_index=True, return_counts=True)
    text = names.to_pylist()
    ranges = {text[c]: (b, b + n) for c, b, n in zip(*(a.tolist() for a in (codes, begins, counts)), strict=True)}
    loads = partitions.select(["partition", *LOAD_FIELDS])
    highest_factors = np.maximum.reduceat(factor, begins).tolist() if len(begins) else []
    is_changing = np.logical_or.reduceat(adding > 0, begins).tolist() if len(begins) else []
    is_settling = (adding > 0) | (removing > 0)
    has_load = np.logical_or.reduceat(loaded, begins).tolist() if len(begins) else []
    at = {text[code]: i for i, code in enumerate(codes.tolist())}

    rows = []
    for topic in sorted(ranges.keys() | declared.keys()):
        begin, end = ranges.get(topic, (0, 0))
        fields = declared.get(topic, {})
        warnings: list[str] = []
        configs = fields.get("configs") or {}
        count = fields.get("partition_count")
        visible = number[begin:end]  # ascending, each once
        highest = int(visible[-1]) if begin < end else -1
        declared_count = int(count or 0)
        effective = max(declared_count, highest + 1)
        missing = effective - len(visible)
        if missing and begin < end:
            # In time of what is shown, not of the count.
            window = np.arange(min(effective, len(visible) + _NAMED_PARTITIONS + 1))
            some = np.setdiff1d(window, visible, assume_unique=True)[:_NAMED_PARTITIONS].tolist()
            count_text = f"{missing:,} of {count_of(effective, 'partition')}"
            named = join_names(some, _NAMED_PARTITIONS, missing)
            warnings.append(f"{count_text} {is_or_are(missing)} not shown: {named}")
        if begin == end:
            warnings.append("no partition is shown")
        elif topic in without_line:
            warnings.append(_WITHOUT_LINE)
        highest_factor = highest_factors[at[topic]] if begin < end else 0
        declared_factor = fields.get("replication_factor")
        # For Kafka, it is the number of replicas of partition 0. While that is being reassigned, kafka-topics declares
        # the number of before, or counts what is added: partitions that are finished already show which one.
        replication_factor = declared_factor or highest_factor
        if begin < end and visible[0] == 0 and highest_factor:
            target, settled = int(factor[begin] - removing[begin]), factor[begin:end][~is_settling[begin:end]]
            counts_added = adding[begin] > 0 and declared_factor == factor[begin]
            is_changed = is_settling[begin] and 2 * (settled == target).sum() > len(settled)
            if not declared_factor or counts_added or is_changed:
                replication_factor = target
        lacks_replicas = 0 < highest_factor < (declared_factor or 0)
        few = np.flatnonzero((factor[begin:end] < (declared_factor or 0)) & (factor[begin:end] > 0))
        if len(few) and (lacks_replicas or not is_changing[at[topic]]):
            example = f"partition {visible[few[0]]} has {count_of(int(factor[begin + few[0]]), 'replica')}"
            more = f", and {len(few) - 1} more have too few" if len(few) > 1 else ""
            warnings.append(f"declares replication factor {declared_factor}, but {example}{more}")
        exceeds = count is not None and highest >= count
        if exceeds:
            warnings.append(f"declares {count_of(declared_count, 'partition')} but shows partition {highest}")
        settings = {**defaults, **configs}
        if topic in min_isr and _MIN_ISR not in settings:
            least, is_exact = min_isr[topic]
            settings[_MIN_ISR] = str(least)
            if not is_exact:
                warnings.append(f"{_MIN_ISR} is at least {least}, as --{UNDER_MIN_ISR} shows")
        has_loads = begin < end and (missing > 0 or has_load[at[topic]])
        rows.append(
            {
                "topic": topic,
                "topic_id": fields.get("topic_id"),
                "partitions": effective,
                "listed_partitions": end - begin,
                "replication_factor": replication_factor or None,
                "configs": list(configs.items()),
                "marked_for_deletion": bool(fields.get("marked_for_deletion")),
                "incomplete": any((missing > 0, begin == end, topic in without_line, lacks_replicas, exceeds)),
                "warnings": warnings,
                **_parse_configs(settings, warnings),
                "partition_loads": loads.slice(begin, end - begin).to_pylist() if has_loads else None,
            }
        )
    return pa.Table.from_pylist(rows, schema=TOPICS)


def _parse_configs(configs: dict[str, str], warnings: list[str]) -> dict[str, Any]:
    """Return the columns of configs that are used; warnings are added for bad values."""
    minimum, unclean = configs.get(_MIN_ISR), configs.get("unclean.leader.election.enable")
    is_number = minimum is not None and re.fullmatch("[0-9]{1,9}", minimum) and int(minimum) >= 1
    if minimum is not None and not is_number:
        warnings.append(f"{_MIN_ISR}={minimum} is not a positive number")
    is_flag = unclean is not None and unclean.lower() in ("true", "false")
    if unclean is not None and not is_flag:
        warnings.append(f"unclean.leader.election.enable={unclean} is neither true nor false")
    return {
        "min_insync_replicas": int(minimum) if minimum and is_number else None,
        "unclean_leader_election": unclean.lower() == "true" if unclean and is_flag else None,
    }


# Completes the state of partitions: leaders and ISRs that no source shows, and their health.
# This needs the brokers of the whole cluster. `what-if` and the pipeline call the same functions. A replica on an
# unregistered broker is legitimate: that broker is down.
def infer_state(partitions: pa.Table, brokers: pa.Table) -> pa.Table:
    """Infer leader and ISR of n partitions where no source shows them: PARTITIONS -> INFERRED_PARTITIONS.

    They are as healthy as the live brokers allow. A replica is out if its broker is down, if it is being added, or if
    it is an observer. An unknown ISR is the leader and the replicas that are not out, or empty if there is no leader;
    an unknown leader is the first replica in the ISR that is not out. Without replicas, leader and ISR stay as they
    are: a ZooKeeper dump may have a partition's state without its assignment.
    """
    replicas, isr = to_lists(partitions["replicas"]), to_lists(partitions["isr"])

    def is_in(name: str) -> npt.NDArray[np.bool_]:
        return is_in_lists(replicas, partitions[name])

    is_out = np.isin(replicas.values, get_down_brokers(brokers)) | is_in("adding_replicas") | is_in("observers")
    knows_leader = is_valid(partitions["leader"])
    leaders = to_numpy(partitions["leader"], -1).astype(np.int32)
    needs_leader = replicas.valid & ~knows_leader
    needs_isr = replicas.valid & ~isr.valid & ~(knows_leader & (leaders < 0))
    row = row_of(replicas.offsets)
    of_unknown_isr = needs_isr[row]
    is_inside = ~is_out | (knows_leader[row] & (replicas.values == leaders[row]))
    first = first_true((is_in("isr") | of_unknown_isr) & is_inside, replicas.offsets)
    first_in_sync = np.where(first >= 0, replicas.values[first] if len(replicas.values) else -1, -1)
    leaders = np.where(needs_leader, first_in_sync, leaders).astype(np.int32)

    offsets = offsets_of(np.where(needs_isr, count_true(is_inside, replicas.offsets), isr.lengths))
    values = np.empty(int(offsets[-1]), dtype=np.int32)
    is_inferred = needs_isr[row_of(offsets)]
    values[is_inferred] = replicas.values[is_inside & of_unknown_isr]
    values[~is_inferred] = isr.values[~needs_isr[row_of(isr.offsets)]]
    columns = {
        "leader": pa.array(leaders, mask=~(replicas.valid | knows_leader)),
        "isr": to_list_array(RaggedLists(values, offsets, replicas.valid | isr.valid)),
    }
    inferred = replace_columns(partitions, columns).append_column(STATE_INFERRED, pa.array(needs_leader | needs_isr))
    return inferred.select(INFERRED_PARTITIONS.names).cast(INFERRED_PARTITIONS)


def add_health(partitions: pa.Table, topics: pa.Table, brokers: pa.Table, defaults: TopicDefaults) -> pa.Table:
    """Append HEALTH_COLUMNS to partitions (schema INFERRED_PARTITIONS).

    topics: those of the partitions, at least; brokers: id, state, rack and releases of all brokers of
    the cluster.
    """
    at_topic = pc.index_in(to_array(partitions["topic"]), value_set=to_array(topics["topic"]))
    min_isr, unclean = (
        to_array(topics[name]).take(at_topic) for name in ("min_insync_replicas", "unclean_leader_election")
    )
    replicas = to_lists(partitions["replicas"]).lengths
    defaults = defaults.adapt_to(get_releases(brokers))
    rules = TopicRules(defaults.fill_min_isr(min_isr, replicas), np.array(to_flags(defaults.fill_unclean(unclean))))
    racks = dict(zip(brokers["broker_id"].to_pylist(), brokers["rack"].to_pylist(), strict=True))
    ids = get_live_brokers(brokers)
    live = LiveBrokerRacks(ids, number_racks([racks[i] for i in ids.tolist()]), get_unknown_brokers(brokers))
    health = find_health(partitions, live, rules)
    for field in HEALTH_COLUMNS:
        partitions = partitions.append_column(field, health[field.name])
    return partitions
