"""What a KRaft cluster shows in its metadata: the voters of the quorum, and what the records of its log describe."""

from collections.abc import Collection, Iterable, Iterator
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.formats.checked_values import shorten_name
from pipelines.ingest.merge.entities import LOG, LOG_DIRS, QUORUM, QUORUM_NODES, STRAY_LOGS
from pipelines.ingest.merge.fact_merge import Ints, MergedFacts, merge_by_key
from pipelines.ingest.merge.live_brokers import get_down_brokers
from pipelines.ingest.merge.shard_facts import KRAFT_LOG, ShardFacts
from pipelines.ingest.merge.topic_merge import Declared
from pipelines.ingest.source_format import FactKind
from udfs.arrow.columns import (
    FLAG,
    TEXT,
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
from udfs.arrow.ragged import RaggedLists, any_true, count_true, offsets_of, row_of
from udfs.failures.replica_logs import take_logs
from udfs.failures.scenarios import UNKNOWN_VOTER, QuorumVoters, find_lags
from udfs.wording import join_names

_FIELDS = (*("voter", "controller", "directory_id", "host", "port", "log_end_offset", "offset_lag"), "caught_up_ms")

_ORIGIN = ("source", "record_number", "line_number")


def get_voters(nodes: Iterable[Any], down: Collection[int]) -> QuorumVoters:
    """Return the voters of a quorum. nodes: rows with the columns of QUORUM; down: ids of brokers that are down."""
    rows = [row for row in nodes if row["voter"]]
    lagging = (row["node_id"] for row in rows if row["caught_up"] is False or row["node_id"] in down)
    leader = next((row["node_id"] for row in rows if row["leader"]), None)
    return QuorumVoters(tuple(row["node_id"] for row in rows), tuple(lagging), leader)


def find_voters(quorum: pa.Table, brokers: pa.Table) -> QuorumVoters:
    """Return the voters of a quorum (schema QUORUM) of a cluster with these brokers (id, and whether they are live)."""
    return get_voters(quorum.to_pylist(), set(get_down_brokers(brokers).tolist()))


def describe_nodes(quorum: pa.Table, brokers: pa.Table) -> pa.Table:
    """Add to the nodes of a quorum (schema QUORUM) what its brokers show, with id, rack and live (QUORUM_NODES)."""
    racks = dict(zip(*(brokers[name].to_pylist() for name in ("broker_id", "rack")), strict=True))
    voters, nodes = find_voters(quorum, brokers), quorum["node_id"].to_pylist()
    columns = {
        "broker": pa.array([node in racks for node in nodes], FLAG),
        "rack": pa.array([racks.get(node) for node in nodes], TEXT),
        "can_fail": pa.array([voters.elects_without({node}) for node in nodes], FLAG),
    }
    for name, values in columns.items():
        quorum = quorum.append_column(name, values)
    return quorum.cast(QUORUM_NODES)


def compare_voters(shard: ShardFacts) -> Iterator[dict[str, Any]]:
    """Yield warnings (rows of WARNINGS) of lists that lack voters which others show: once of equal lists.

    A list of --status, of settings or of a log is one record; --replication shows one voter in each row.
    """
    facts = shard.select(FactKind.QUORUM)
    facts = facts.filter(pc.and_(facts["home"], facts["voter"])).select(["broker_id", "log_end_offset", *_ORIGIN])
    lists: dict[tuple[str, int | None], list[dict[str, Any]]] = {}
    for row in facts.to_pylist():
        record = row["record_number"] if row.pop("log_end_offset") is None else None
        lists.setdefault((row["source"], record), []).append(row)
    distinct = {frozenset(row["broker_id"] for row in rows): rows[0] for rows in reversed(lists.values())}
    every = frozenset().union(*distinct)
    for voters, first in distinct.items():
        if missing := every - voters:
            text = f"voters of the controller quorum that others show are missing here ({join_names(sorted(missing))})"
            warning = f"{text}: all of them count; leave out what is of another moment"
            yield {**{name: first[name] for name in _ORIGIN}, "warning": warning}


def merge_quorum(shard: ShardFacts) -> pa.Table:
    """Merge the facts about nodes of the quorum (schema QUORUM); without voters, nothing is known of it.

    Listings of two moments differ in offsets and times: those of the first one are used.
    """
    facts = shard.select(FactKind.QUORUM)
    merged = merge_by_key(facts, to_numpy(facts["broker_id"]).astype(np.int64), _FIELDS)
    shard.ignore_duplicates(facts, merged)
    home = to_flags(facts["home"])
    for conflict in (one for one in merged.conflicts if one.field == "voter" and home[one.row]):
        shard.add_conflict(f"node {facts['broker_id'][conflict.row].as_py()} of the quorum", facts, conflict)
    table = merged.table
    states = pc.and_(pc.equal(shard.facts["kind"], FactKind.IGNORED), pc.invert(shard.facts["controller"]))
    has_controller = not pc.any(states).as_py()
    if not to_flags(table["voter"]).any():
        lost = {"node_id": UNKNOWN_VOTER, "voter": True, "leader": False, "caught_up": False}
        return pa.Table.from_pylist([] if has_controller else [lost], QUORUM)
    leads = pa.array(to_flags(table["controller"]))
    lag_ms, follows = find_lags(table["log_end_offset"], table["caught_up_ms"], leads)
    # Without a controller, brokers show by themselves whether they are live; no source shows it of other voters.
    if not has_controller:
        is_broker = pc.is_in(pa.array(merged.keys), shard.select(FactKind.BROKER)["broker_id"].cast(pa.int64()))
        follows = pc.if_else(is_broker, follows, False)
    columns = {
        "node_id": pa.array(merged.keys.astype(np.int32)),
        "voter": pc.fill_null(table["voter"], False),
        "leader": leads,
        **{name: table[name] for name in ("directory_id", "host", "port", "log_end_offset")},
        "lag": table["offset_lag"],
        "lag_ms": lag_ms,
        "caught_up": follows,
    }
    return pa.table(columns).select(QUORUM.names).cast(QUORUM)


Flags = npt.NDArray[np.bool_]
# Formats that show all topics, if they show brokers: these facts are in every shard.
_LIST_ALL_TOPICS = (KRAFT_LOG, "zookeeper-json")
_LOG_DIR_FIELDS = ("total_bytes", "usable_bytes", "log_dir_error", "cordoned")
_LOG_FIELDS = tuple(field.name for field in LOG)


def merge_logs(shard: ShardFacts, partitions: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Merge the REPLICA and OFFSET facts of a shard: return (`partitions` with `logs` and `size_bytes`; stray logs).

    Stray logs (schema STRAY_LOGS) have no assigned replica: left over, or being moved between a broker's directories.
    """
    logs, offsets = _select_logs(shard), shard.select(FactKind.OFFSET)
    if not logs.num_rows and not offsets.num_rows:
        no_logs = pa.nulls(partitions.num_rows, pa.list_(LOG))
        return partitions.append_column("logs", no_logs), STRAY_LOGS.empty_table()
    rows = find_partitions(partitions, pa.concat_tables([logs, offsets]))
    keys = _build_log_keys(rows[: logs.num_rows], to_numpy(logs["broker_id"]), to_flags(logs["is_future"]))
    merged = merge_by_key(logs, keys, _LOG_FIELDS)
    _report_conflicts(shard, logs, merged)
    ends = merge_by_key(offsets, rows[logs.num_rows :], ("log_end_offset",))
    _report_conflicts(shard, offsets, ends)

    replicas = to_lists(partitions["replicas"])
    row = row_of(replicas.offsets)
    leader = to_numpy(partitions["leader"], -1).astype(np.int32)
    is_leader = replicas.values == leader[row]
    columns, has_log, assigned = _take_assigned_logs(replicas, merged)

    # The log end offset of each partition belongs to its leader's log.
    end = np.full(partitions.num_rows, -1, dtype=np.int64)
    known = ends.keys < len(end)
    end[ends.keys[known]] = to_numpy(ends.table["log_end_offset"], -1)[known]
    values = np.where(is_leader, end[row], -1)
    columns["log_end_offset"] = pc.coalesce(pa.array(values, mask=values < 0), columns["log_end_offset"])
    has_log |= values >= 0

    # The size of a partition is that of its leader's log, else of its largest log.
    size = to_numpy(columns["size_bytes"], -1).astype(np.int64)
    sizes = np.full(partitions.num_rows, -1, dtype=np.int64)
    np.maximum.at(sizes, row, size)
    known = is_leader & (size >= 0)
    sizes[row[known]] = size[known]
    partitions = partitions.append_column("logs", _build_lists(columns, has_log, replicas))
    column = pc.coalesce(to_array(partitions["size_bytes"]), pa.array(sizes, mask=sizes < 0))
    partitions = partitions.set_column(partitions.schema.get_field_index("size_bytes"), "size_bytes", column)

    stray, first = pa.array(np.flatnonzero(~assigned)), pa.array(merged.first_rows[~assigned])
    places = [to_array(logs[name]).take(first) for name in ("topic", "partition", "broker_id", "is_future")]
    places[3] = pc.fill_null(places[3], False)
    fields = [to_array(merged.table[name]).take(stray) for name in _LOG_FIELDS]
    log = pa.StructArray.from_arrays(fields, fields=list(LOG))
    return partitions, pa.Table.from_arrays([*places, log], schema=STRAY_LOGS)


def _select_logs(shard: ShardFacts) -> pa.Table:
    """Return the REPLICA facts, and REPLICA_SIZE facts of replicas and partitions that no REPLICA fact is about."""
    logs, sizes = shard.select(FactKind.REPLICA), shard.select(FactKind.REPLICA_SIZE)
    if not logs.num_rows or not sizes.num_rows:
        return pa.concat_tables([logs, sizes])
    key = ["topic", "partition", "broker_id"]
    numbered = sizes.select(key).append_column("row", pa.array(np.arange(sizes.num_rows)))
    rows = numbered.join(logs.select(key), key, join_type="left anti", use_threads=False)["row"]
    return pa.concat_tables([logs, sizes.take(rows.take(pc.sort_indices(rows)))])


def merge_log_dirs(shard: ShardFacts) -> pa.Table:
    """Merge the LOG_DIR facts of a shard (schema LOG_DIRS), by broker and path."""
    facts = shard.select(FactKind.LOG_DIR)
    path, _ = to_codes(facts["log_dir"])
    keys = (to_numpy(facts["broker_id"]).astype(np.int64) << np.int64(31)) + path
    merged = merge_by_key(facts, keys, _LOG_DIR_FIELDS)
    home = to_flags(facts["home"])
    for conflict in (one for one in merged.conflicts if home[one.row]):
        where = f"log dir {facts['log_dir'][conflict.row].as_py()} of broker {facts['broker_id'][conflict.row].as_py()}"
        shard.add_conflict(where, facts, conflict)
    first = pa.array(merged.first_rows)
    columns = {name: to_array(facts[name]).take(first) for name in ("broker_id", "log_dir")}
    columns |= {name: to_array(merged.table[name]) for name in _LOG_DIR_FIELDS}
    rows = pa.table(columns).to_pylist()
    _add_volumes(shard, rows)
    _add_cordons(shard, rows)
    return pa.Table.from_pylist(rows, LOG_DIRS).sort_by([("broker_id", "ascending"), ("log_dir", "ascending")])


def _add_volumes(shard: ShardFacts, rows: list[dict[str, Any]]) -> None:
    """Give log dirs of unknown bytes those of the volume that metrics show there, mounted deepest above them."""
    volumes = shard.select(FactKind.VOLUME).select(["broker_id", "log_dir", "total_bytes", "usable_bytes"]).to_pylist()
    for row in (row for row in rows if row["total_bytes"] is None):
        own = [
            volume
            for volume in volumes
            if volume["broker_id"] == row["broker_id"]
            and PurePosixPath(row["log_dir"]).is_relative_to(volume["log_dir"])
        ]
        if own:
            deepest = max(own, key=lambda volume: len(volume["log_dir"]))
            row |= {name: deepest[name] for name in ("total_bytes", "usable_bytes")}


def _add_cordons(shard: ShardFacts, rows: list[dict[str, Any]]) -> None:
    """Say which log dirs are cordoned, where DescribeLogDirs does not, as configs of brokers and metadata logs do.

    Registrations name log dirs by ids, without paths, and say only whether all or none are; configs name paths.
    """
    facts = shard.select(FactKind.BROKER).select(["broker_id", "directories", "cordoned_directories", "cordoned"])
    brokers = facts.filter(pc.is_valid(facts["cordoned_directories"])).to_pylist()
    brokers.sort(key=lambda broker: broker["directories"] is None)  # paths come last, and count
    by_id = {broker["broker_id"]: broker for broker in brokers}
    for row in (row for row in rows if row["cordoned"] is None and row["broker_id"] in by_id):
        broker = by_id[row["broker_id"]]
        paths = {PurePosixPath(name) for name in broker["cordoned_directories"]}
        is_by_id = bool(paths) and broker["directories"] is not None
        if broker["cordoned"] or not is_by_id:
            row["cordoned"] = bool(broker["cordoned"]) or PurePosixPath(row["log_dir"]) in paths


def add_offline_replicas(shard: ShardFacts, partitions: pa.Table) -> pa.Table:
    """Add to offline_replicas those in failed log dirs: as a metadata log has them, or as logs that are not shown.

    A broker shows a failed log dir, and the replica's log in no other. A listing of some topics shows no log of the
    others: another log of the partition has to be shown, or of its topic if it is offline, or the replica is the last
    one in sync, which would lead. One that is being added may not have a log yet.
    """
    facts = shard.select(FactKind.LOG_DIR)
    failed = facts.filter(pc.is_valid(facts["log_dir_error"]))["broker_id"]
    replicas = to_lists(partitions["replicas"])
    broker, offsets, _ = replicas
    row, leader = row_of(offsets), to_numpy(partitions["leader"], -1)

    def is_in(name: str) -> Flags:
        return is_in_lists(replicas, partitions[name])

    is_lost = np.isin(broker, to_numpy(failed)) & is_valid(partitions["leader"])[row] & ~is_in("adding_replicas")
    is_lost &= to_flags(pc.is_null(pc.struct_field(take_logs(partitions), "log_dir")))
    has_log, topic = is_valid(partitions["logs"]), to_codes(partitions["topic"])[0]
    is_listed = has_log | (np.isin(topic, topic[has_log]) & (leader < 0))  # other copies may be on down brokers
    is_lost &= np.where(is_in("isr"), (leader < 0)[row], is_listed[row])
    is_lost |= is_in("failed_dir_replicas")
    if not is_lost.any():
        return partitions
    is_known, is_offline = is_valid(partitions["offline_replicas"]), is_lost | is_in("offline_replicas")
    ends = offsets_of(count_true(is_offline, offsets))
    lists = RaggedLists(broker[is_offline], ends, is_known | any_true(is_lost, offsets))
    return replace_columns(partitions, {"offline_replicas": to_list_array(lists)})


def find_unlisted_partitions(shard: ShardFacts, partitions: pa.Table, declared: Declared) -> Declared:
    """Return the topics of which only logs or offsets show some partitions, with the count that these show at least.

    None if a source lists all topics, as a metadata log and a dump of ZooKeeper do: a topic that is not among them was
    deleted, and its logs are left over.
    """
    is_listed = pc.is_in(shard.facts["format"], pa.array(_LIST_ALL_TOPICS))
    listed = shard.facts.select(["kind", "is_selection"]).filter(is_listed)
    if pc.any(pc.equal(listed["kind"], FactKind.BROKER)).as_py() and not pc.any(listed["is_selection"]).as_py():
        return {}
    facts = shard.select(FactKind.REPLICA, FactKind.OFFSET)
    counts = _count_partitions(partitions)
    return {
        topic: {**declared.get(topic, {}), "partition_count": count}
        for topic, count in _count_partitions(facts).items()
        if count > counts.get(topic, 0) and (topic in counts or topic not in declared)
        if count > (declared.get(topic, {}).get("partition_count") or 0)
    }


def _count_partitions(rows: pa.Table) -> dict[str, int]:
    """Return how many partitions each topic has at least."""
    highest = rows.select(["topic", "partition"]).group_by("topic", use_threads=False).aggregate([("partition", "max")])
    return {row["topic"]: row["partition_max"] + 1 for row in highest.to_pylist()}


def find_partitions(partitions: pa.Table, facts: pa.Table) -> Ints:
    """Return the row in `partitions` of each fact's partition; those of unknown partitions are numbered after them."""
    n = partitions.num_rows
    topic_code, _ = to_codes(pa.chunked_array([to_array(partitions["topic"]), to_array(facts["topic"])]))
    number = np.r_[to_numpy(partitions["partition"]), to_numpy(facts["partition"])].astype(np.int64)
    key = (topic_code << np.int64(32)) + number
    order = np.argsort(key[:n], kind="stable")
    unknown = np.setdiff1d(key[n:], key[:n])
    all_keys = np.r_[key[:n][order], unknown]
    row = np.r_[order, n + np.arange(len(unknown))]
    by_key = np.argsort(all_keys, kind="stable")
    result: Ints = row[by_key][np.searchsorted(all_keys[by_key], key[n:])].astype(np.int64)
    return result


def _build_log_keys(partition: Ints, broker: npt.NDArray[np.integer], is_future: Flags) -> Ints:
    """Return one number per log, of its partition's number (< 2**30), its broker id and whether it is a future log."""
    return (partition << np.int64(33)) | (broker.astype(np.int64) << np.int64(1)) | is_future.astype(np.int64)


def _report_conflicts(shard: ShardFacts, facts: pa.Table, merged: MergedFacts) -> None:
    for conflict in merged.conflicts:
        row = conflict.row
        entity = f"partition {shorten_name(facts['topic'][row].as_py())}-{facts['partition'][row].as_py()}"
        broker = facts["broker_id"][row].as_py()
        shard.add_conflict(entity if broker is None else f"{entity} on broker {broker}", facts, conflict)
    shard.ignore_duplicates(facts, merged)


def _take_assigned_logs(replicas: RaggedLists, logs: MergedFacts) -> tuple[dict[str, pa.Array], Flags, Flags]:
    """Return (columns of each replica's log, null where unknown; bool per replica: has a log; bool per log: is used).

    The logs are merged by `_build_log_keys`, with partitions numbered as the rows of `replicas`.
    """
    used = np.zeros(len(logs.keys), dtype=np.bool_)
    result = np.zeros(len(replicas.values), dtype=np.bool_)
    if not len(logs.keys):
        return {field.name: pa.nulls(len(result), field.type) for field in LOG}, result, used
    requested = _build_log_keys(row_of(replicas.offsets), replicas.values, result)
    at = np.minimum(np.searchsorted(logs.keys, requested), len(logs.keys) - 1)
    result = logs.keys[at] == requested
    used[at[result]] = True
    index = pa.array(at, mask=~result)
    return {name: to_array(logs.table[name]).take(index) for name in _LOG_FIELDS}, result, used


def _build_lists(columns: dict[str, pa.Array], has_log: Flags, replicas: RaggedLists) -> pa.Array:
    """Return the logs of each partition's replicas (list<LOG>); null where no log is known."""
    known = any_true(has_log, replicas.offsets)
    logs = pa.StructArray.from_arrays(list(columns.values()), fields=list(LOG), mask=pa.array(~has_log))
    offsets = offsets_of(np.where(known, replicas.lengths, 0))
    lists = pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), logs.filter(pa.array(known[row_of(replicas.offsets)]))
    )
    return pc.if_else(pa.array(known), lists, pa.nulls(len(lists), lists.type))
