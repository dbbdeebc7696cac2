"""Merges the facts of any whole topics of one cluster into entities, and accounts for every record."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.formats.checked_values import explain_bad_topic_name, shorten_name
from pipelines.ingest.merge import topic_merge
from pipelines.ingest.merge.entities import BOTH_QUARANTINED, FIRST_USED, PARTITIONS, REGISTRATIONS, Entities
from pipelines.ingest.merge.fact_merge import Conflict, MergedFacts, merge_by_key, show_place, show_value
from pipelines.ingest.merge.kraft_merge import (
    add_offline_replicas,
    find_unlisted_partitions,
    merge_log_dirs,
    merge_logs,
    merge_quorum,
)
from pipelines.ingest.merge.listings import build_warnings, find_min_isr, find_selected
from pipelines.ingest.merge.live_brokers import count_usage
from pipelines.ingest.merge.load_merge import list_topic_loads, share_loads
from pipelines.ingest.merge.shard_facts import ShardFacts
from pipelines.ingest.merge.topic_merge import LOAD_FIELDS
from pipelines.ingest.source_format import FactKind
from udfs.arrow.columns import is_valid, select_rows, to_array, to_codes, to_flags, to_lists, to_numpy
from udfs.arrow.ragged import any_true, has_repeat, is_in_segment, row_of

_STATE = (
    *("replicas", "leader", "isr", "leader_epoch", "elr", "last_known_elr"),
    *("adding_replicas", "removing_replicas", "observers", "offline_replicas", "failed_dir_replicas"),
)
_KEEP_ONE = "two listings or assignments of the same topics: keep one of them"
_MAX_REPLICAS = 1_000  # of a partition; more is a damaged line, and would fill the memory
_FULLY_SHOWN = "fully_shown"  # whether the sources surely show every partition of the topic
_BROKER = tuple(name for name in REGISTRATIONS.names if name not in ("broker_id", "missing_from"))


# Each of their lists names a broker once. Znodes are named by a listing, and again by what each contains.
_BROKER_LISTS = ("kcat", "metadata-json", "rpk", "cluster-endpoints")


def merge_facts(facts: pa.Table) -> Entities:
    """Merge facts (schema SOURCED_FACTS) of one cluster that cover whole topics."""
    shard = ShardFacts(facts)
    registrations, listed_brokers = _merge_brokers(shard)
    declared, listed_topics = topic_merge.merge_topics(shard)
    partitions, disputed = _merge_partitions(shard, listed_brokers, declared)
    deleted = [topic for topic, fields in declared.items() if fields["marked_for_deletion"]]
    releases = topic_merge.find_releases(shard, partitions, declared)
    usage = count_usage(partitions, to_flags(partitions[_FULLY_SHOWN]), deleted, disputed, releases)
    partitions = topic_merge.add_listed_partitions(partitions, declared, listed_topics)
    partitions = partitions.sort_by([("topic", "ascending"), ("partition", "ascending")]).combine_chunks()
    partitions, stray_logs = merge_logs(shard, partitions)
    topic_loads = list_topic_loads(shard)
    partitions = share_loads(shard, partitions, declared, registrations, topic_loads)
    partitions = topic_merge.empty_diskless(partitions, declared)
    partitions = add_offline_replicas(shard, partitions).select(PARTITIONS.names).cast(PARTITIONS)
    declared |= find_unlisted_partitions(shard, partitions, declared)
    unheaded = topic_merge.find_without_topic_line(shard, declared)
    defaults = topic_merge.merge_defaults(shard)
    topics = topic_merge.describe_topics(declared, partitions, unheaded, defaults, find_min_isr(shard))
    log_dirs = merge_log_dirs(shard)
    quarantine, outcomes = shard.count_outcomes()
    others = (quarantine, shard.build_conflicts(), outcomes, usage, build_warnings(shard))
    return Entities(partitions, topics, registrations, stray_logs, *others, topic_loads, log_dirs, merge_quorum(shard))


def _merge_brokers(shard: ShardFacts) -> tuple[pa.Table, npt.NDArray[np.int32] | None]:
    """Return (registrations; ids of all brokers of the cluster, or None without a complete list of them).

    Facts about brokers, and rejected entries of broker lists, are in every shard.
    """
    facts = shard.select(FactKind.BROKER)
    merged = merge_by_key(facts, to_numpy(facts["broker_id"]).astype(np.int64), _BROKER)
    home = to_flags(facts["home"])
    shard.ignore_duplicates(facts, merged)
    for conflict in merged.conflicts:
        if home[conflict.row]:
            shard.add_conflict(f"broker {facts['broker_id'][conflict.row].as_py()}", facts, conflict)
    ids = merged.keys.astype(np.int32)
    missing = _find_missing(facts) | _find_disputed(facts, merged.conflicts)
    columns = {name: to_array(merged.table[name]) for name in _BROKER}
    columns |= {"broker_id": pa.array(ids), "missing_from": pa.array(map(missing.get, ids.tolist()), pa.string())}
    # What is registered at one moment and not at another has been registered.
    columns["registered"] = pc.or_kleene(columns["registered"], pc.is_valid(columns["missing_from"]))
    table = pa.table(columns).select(REGISTRATIONS.names)
    is_listed = to_flags(table["listed"])
    rejected = select_rows(shard.facts, pc.equal(shard.facts["kind"], FactKind.REJECTED))
    is_entry = to_flags(rejected["listed"]) | to_flags(pc.equal(rejected["format"], "broker-list"))
    if not is_listed.any() or is_entry.any():  # which broker a rejected entry meant is unknown
        return table.cast(REGISTRATIONS), None
    # A broker that registered itself exists, whatever the list says; one that is removed still has replicas.
    exists = is_listed | to_flags(table["registered"]) | to_flags(table["draining"])
    exists |= is_valid(table["answers"]) | is_valid(table["reported_live"])
    table = table.set_column(table.schema.get_field_index("listed"), "listed", pa.array(is_listed))
    return table.cast(REGISTRATIONS), ids[exists]


def _find_missing(facts: pa.Table) -> dict[int, str]:
    """Return {broker: lines of the first list that lacks it} for brokers that another list has.

    facts: about brokers (schema SOURCED_FACTS, and `from_full_listing`).
    """
    is_listed = pc.and_kleene(facts["from_full_listing"], pc.is_in(facts["format"], pa.array(_BROKER_LISTS)))
    facts = facts.filter(is_listed).sort_by([(name, "ascending") for name in ("source", "record_number")])
    lists: list[tuple[str, dict[int, int]]] = []  # of each list: its file, and lines by broker
    last: dict[tuple[str, str], dict[int, int]] = {}  # list of each file and format
    for row in facts.select(["source", "format", "broker_id", "line_number"]).to_pylist():
        part = row["source"], row["format"]
        if part not in last or row["broker_id"] in last[part]:  # a broker that is repeated begins another list
            last[part] = {}
            lists.append((row["source"], last[part]))
        last[part][row["broker_id"]] = row["line_number"]
    brokers = {broker for _, lines in lists for broker in lines}
    missing: dict[int, str] = {}
    for source, lines in lists:
        first, end = min(lines.values()), max(lines.values())
        place = f"{source} line {first}" if first == end else f"{source} lines {first}-{end}"
        for absent in sorted(brokers - lines.keys()):
            missing.setdefault(absent, place)
    return missing


def _find_disputed(facts: pa.Table, conflicts: Sequence[Conflict]) -> dict[int, str]:
    """Return {broker: the place that shows it as not registered} for brokers that another place shows as registered."""
    registered, broker = facts["registered"], facts["broker_id"]
    pairs = [(c.row, c.used_row) for c in conflicts if c.field == "registered"]
    absent = [row for pair in pairs for row in pair if registered[row].as_py() is False]
    return {broker[row].as_py(): show_place(facts, row) for row in reversed(absent)}


def _merge_partitions(
    shard: ShardFacts, listed_brokers: npt.NDArray[np.int32] | None, declared: topic_merge.Declared
) -> tuple[pa.Table, pa.Table]:
    """Return (the partitions, and of each whether its topic is fully shown; the facts of those in dispute).

    Quarantined partitions are left out; a partition is in dispute if it is quarantined only because two sources differ.
    """
    facts = shard.select(FactKind.PARTITION)
    code, _ = to_codes(facts["topic"])
    key = (code << np.int64(32)) + to_numpy(facts["partition"]).astype(np.int64)
    merged = merge_by_key(facts, key, (*_STATE, *LOAD_FIELDS))
    first = pa.array(merged.first_rows)
    columns = {name: to_array(facts[name]).take(first) for name in ("topic", "partition", "source", "line_number")}
    table = pa.table(columns | {name: merged.table[name] for name in (*_STATE, *LOAD_FIELDS)})
    # Quarantined partitions count: a listing that shows them leaves nothing out.
    fully_shown = topic_merge.find_fully_shown(table["topic"], table["partition"], declared)
    fully_shown &= ~find_selected(shard, table["source"], table["line_number"])
    table = table.append_column(_FULLY_SHOWN, pa.array(fully_shown))
    faults = _find_partition_faults(table, listed_brokers)
    disputes = _quarantine_partitions(shard, facts, merged, faults)
    is_disputed = np.isin(np.arange(table.num_rows), list(disputes))
    is_faulty = np.isin(np.arange(table.num_rows), list(faults))
    disputed = facts.take(pa.array(np.sort(merged.order[is_disputed[row_of(merged.offsets)]])))
    return select_rows(table, pa.array(~is_faulty & ~is_disputed)), disputed


def _quarantine_partitions(
    shard: ShardFacts, facts: pa.Table, merged: MergedFacts, faults: dict[int, list[str]]
) -> set[int]:
    """Quarantine the facts of faulty partitions, and of those with conflicts; return the latter ones without faults."""
    entity_of_fact = np.empty(len(merged.order), dtype=np.int64)
    entity_of_fact[merged.order] = row_of(merged.offsets)
    fact_rows = facts["fact"].to_numpy()
    disputes: dict[int, dict[str, str]] = {}  # by partition and field, the first two values that differ

    def get_name(row: int) -> str:
        return f"partition {shorten_name(facts['topic'][row].as_py())}-{facts['partition'][row].as_py()}"

    for conflict in merged.conflicts:
        field, rows = conflict.field, (conflict.used_row, conflict.row)
        is_resolved = not conflict.same_rank or field in LOAD_FIELDS
        outcome = FIRST_USED if is_resolved else BOTH_QUARANTINED
        shard.add_conflict(get_name(conflict.row), facts, conflict, outcome)
        if not is_resolved:
            first, other = (f"{show_value(facts, row, field)} in {show_place(facts, row)}" for row in rows)
            entity = int(entity_of_fact[conflict.row])
            disputes.setdefault(entity, {}).setdefault(field, f"{field} {first}, but {other}")
    for entity in {**faults, **disputes}:
        rows_of_entity = merged.order[merged.offsets[entity] : merged.offsets[entity + 1]].tolist()
        name = get_name(rows_of_entity[0])
        reasons = [f"{name}: {reason}" for reason in (*disputes.get(entity, {}).values(), *faults.get(entity, ()))]
        for row in rows_of_entity:
            shard.quarantine(int(fact_rows[row]), *reasons, *([_KEEP_ONE] if entity in disputes else []))
    shard.ignore_duplicates(facts, merged)
    return disputes.keys() - faults.keys()


UNLISTED = "is not in the cluster's broker list"  # after replica, leader or ISR member, and the broker's id


def _find_partition_faults(partitions: pa.Table, listed_brokers: npt.NDArray[np.int32] | None) -> dict[int, list[str]]:
    """Return {row: every reason} for partitions that no Kafka cluster can have.

    `listed_brokers` are the ids of all brokers of the cluster, or None without a complete list of them.
    """
    faults: dict[int, list[str]] = {}

    def add(rows: np.ndarray, text: str, values: np.ndarray | None = None) -> None:
        for at, row in enumerate(rows.tolist()):
            faults.setdefault(row, []).append(text if values is None else text.format(values[at]))

    topic_code, names = to_codes(partitions["topic"])
    for code, name in enumerate(names.to_pylist()):
        if fault := explain_bad_topic_name(name):
            add(np.flatnonzero(topic_code == code), fault)
    number = to_numpy(partitions["partition"])
    add(np.flatnonzero(number < 0), "partition number {} is negative", number[number < 0])

    replicas, isr = to_lists(partitions["replicas"]), to_lists(partitions["isr"])
    replica_row, isr_row = row_of(replicas.offsets), row_of(isr.offsets)
    add(np.flatnonzero(has_repeat(replicas.values, replicas.offsets)), "a replica is repeated")
    add(np.flatnonzero(replicas.valid & (replicas.lengths == 0)), "no replicas")
    many = replicas.lengths > _MAX_REPLICAS
    add(np.flatnonzero(many), f"{{}} replicas: no partition has more than {_MAX_REPLICAS:,}", replicas.lengths[many])

    leader = to_numpy(partitions["leader"], -1).astype(np.int32)
    leader_is_replica = any_true(replicas.values == leader[replica_row], replicas.offsets)
    outside = replicas.valid & is_valid(partitions["leader"]) & (leader != -1) & ~leader_is_replica
    add(np.flatnonzero(outside), "leader {} is not among its replicas", leader[outside])

    has_replicas = replicas.valid[isr_row]
    outside = has_replicas & ~is_in_segment(isr.values, isr.offsets, replicas.values, replicas.offsets)
    add(isr_row[outside], "ISR member {} is not among its replicas", isr.values[outside])
    add(np.flatnonzero(has_repeat(isr.values, isr.offsets)), "an ISR member is repeated")
    leader_is_in_sync = any_true(isr.values == leader[isr_row], isr.offsets)
    outside = isr.valid & (leader_is_replica | ~replicas.valid) & (leader != -1) & ~leader_is_in_sync
    add(np.flatnonzero(outside), "leader {} is not in the ISR: one of the two is damaged", leader[outside])

    if listed_brokers is not None:
        unlisted = ~np.isin(replicas.values, listed_brokers)
        text = f"{{}} {UNLISTED}"
        add(replica_row[unlisted], f"replica {text}", replicas.values[unlisted])
        # Without replicas, leader and ISR are all that names brokers; with them, both are among them.
        unlisted = ~replicas.valid & (leader != -1) & ~np.isin(leader, listed_brokers)
        add(np.flatnonzero(unlisted), f"leader {text}", leader[unlisted])
        unlisted = ~has_replicas & ~np.isin(isr.values, listed_brokers)
        add(isr_row[unlisted], f"ISR member {text}", isr.values[unlisted])
    return faults
