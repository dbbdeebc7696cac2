"""What is wrong with a snapshot's cluster already, and what its sources lack: of a snapshot, and a row of a table."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.merge.cluster_merge import UNLISTED
from pipelines.ingest.merge.kraft_merge import find_voters
from pipelines.ingest.merge.live_brokers import (
    get_bootstrap_server,
    get_down_brokers,
    get_live_brokers,
    get_releases,
    get_unknown_brokers,
    is_version_known,
)
from pipelines.ingest.merge.topic_merge import add_health
from pipelines.ingest.snapshot_reader import ClusterTables
from pipelines.ingest.sources import name_line
from pipelines.verdict.cluster_evidence import (
    MAX_CANCELLED,
    MAX_COMMAND_TOPICS,
    MAX_NAMED,
    MAX_TOPICS,
    NO_PARTITIONS,
    AffectedPartitions,
    ClusterFindings,
    PartitionIssue,
)
from udfs.arrow.columns import is_valid, to_array, to_flags, to_lists, to_numpy
from udfs.arrow.ragged import any_true, is_in_segment, row_of
from udfs.failures.disk_limits import is_full
from udfs.failures.kernels.election import NO_BROKER, Bools, Ids
from udfs.failures.partition_health import KnownStops, find_elected_leaders, find_expected, find_recovery
from udfs.failures.topic_defaults import KAFKA_DEFAULTS, TopicDefaults, find_end

_UNLISTED = re.compile(f"([0-9]+) {UNLISTED}")  # in a reason of a quarantined record
# Fields of conflicts between two clusters, rather than between two moments of one.
IDENTITY_FIELDS = ("topic_id", "host")
# Those of configs that decide which failures a topic survives.
CONFIG_FIELDS = ("config min.insync.replicas", "config unclean.leader.election.enable")
_UNEVEN_PERCENT = 20  # by which volumes of a broker differ in what is used of them


class PartitionFlags(NamedTuple):
    """What makes each of p partitions vulnerable."""

    factor: Ids  # (p), replication factor
    is_on_down_broker: Bools  # (p), whether a replica that should be in sync is on a down broker
    is_on_failed_dir: Bools  # (p), whether a replica is in a failed log dir of a live broker
    is_only_in_failed_dir: Bools  # (p), whether it has no leader, and replicas that may lead only in such log dirs
    min_isr: Ids  # (p), min.insync.replicas as it is set, also above the number of replicas
    effective_min_isr: Ids  # (p), as it counts
    is_under_replicated: Bools  # (p)


def find_findings(snapshot: ClusterTables, defaults: TopicDefaults = KAFKA_DEFAULTS) -> ClusterFindings:
    """Return what limits the answers on a snapshot, and what is wrong with its cluster now."""
    topics = snapshot.topics
    partitions = add_health(snapshot.partitions, topics, snapshot.brokers, defaults)
    incomplete = sorted(topics.filter(topics["incomplete"])["topic"].to_pylist())
    is_marked = to_flags(topics["marked_for_deletion"])
    is_ignored = ~(defaults.find_counted(topics) | is_marked)
    is_deleted, of_ignored = (
        to_flags(pc.is_in(partitions["topic"], topics["topic"].filter(pa.array(mask)).combine_chunks()))
        for mask in (is_marked, is_ignored)
    )
    is_placed = is_valid(partitions["replicas"])
    is_offline = is_valid(partitions["online"]) & ~to_flags(partitions["online"])
    live = get_live_brokers(snapshot.brokers)
    live_rows = snapshot.brokers.filter(pc.is_in(snapshot.brokers["broker_id"], pa.array(live)))
    down = get_down_brokers(snapshot.brokers)
    counted = partitions.filter(pa.array(~(is_deleted | of_ignored)))
    broker, offsets, _ = to_lists(counted["replicas"])
    is_expected, is_down = find_expected(counted, broker, offsets), np.isin(broker, down)
    is_on_down_broker = any_true(is_expected & is_down, offsets)
    critical, failed = (to_lists(counted[name]) for name in ("min_isr_critical_brokers", "failed_dir_replicas"))
    down_critical = critical.values[is_on_down_broker[row_of(critical.offsets)]]
    failed_dir_brokers, failed_dir_replicas = _rank_brokers(failed.values)
    factors = to_lists(partitions["replicas"]).lengths
    changing = (to_lists(partitions[name]).lengths > 0 for name in ("adding_replicas", "removing_replicas"))
    reasons = (reason for record in snapshot.quarantined for reason in record["reasons"])
    empty = np.setdiff1d(live, to_lists(partitions["replicas"]).values)
    cordoned = to_numpy(live_rows.filter(live_rows["cordoned"])["broker_id"])
    effective = to_numpy(counted["effective_min_isr"], 0).astype(np.int32)
    flags = PartitionFlags(
        to_lists(counted["replicas"]).lengths.astype(np.int32),
        is_on_down_broker,
        failed.lengths > 0,
        _find_only_in_failed_dirs(counted, is_down),
        find_min_isr(counted["topic"], topics, effective),
        effective,
        to_flags(counted["under_replicated"]),
    )
    is_few = to_flags(counted["online"]) & (flags.factor < flags.min_isr)
    if is_version_known(snapshot.brokers):
        is_few[:] = False  # their version decides
    few = count_by_topic(to_array(counted["topic"]), is_few, flags)
    return ClusterFindings(
        issues=count_issues(counted, flags),
        unknown_version=AffectedPartitions(
            few.partitions, few.topics, few.topic_names, few.topic_partitions, few.single_replica_partitions
        ),
        partitions=int(is_placed.sum()),
        counted_partitions=int((is_placed & ~(is_deleted | of_ignored)).sum()),
        live_brokers=len(live),
        empty_brokers=len(empty),
        fillable_brokers=len(np.setdiff1d(empty, cordoned)),
        racks=len(pc.unique(live_rows["rack"].drop_null())),
        crowded_partitions=_count_crowded(counted, to_numpy(live_rows["broker_id"]), live_rows["rack"].to_pylist()),
        replication_factor=float(np.median(factors[factors > 1])) if (factors > 1).any() else None,
        down_brokers=tuple(down.tolist()),
        cordoned_brokers=tuple(cordoned.tolist()),
        down_critical_brokers=tuple(np.unique(down_critical).tolist()),
        failed_dir_brokers=failed_dir_brokers,
        failed_dir_replicas=failed_dir_replicas,
        **_name_log_dirs(snapshot, set(down.tolist())),
        **_find_lagging(counted, is_expected & ~is_down),
        bootstrap_server=get_bootstrap_server(snapshot.brokers),
        release_before=find_end(get_releases(snapshot.brokers)),
        shows_preferred_leaders=snapshot.shows_preferred_leaders,
        **(_elect_preferred(partitions, live) if snapshot.shows_preferred_leaders else {}),
        **_judge_quorum(snapshot),
        deleted_topics_offline_partitions=int((is_offline & is_deleted).sum()),
        ignored_topics=int(is_ignored.sum()),
        ignored_offline_partitions=int((is_offline & of_ignored).sum()),
        reassigned_partitions=int(np.logical_or(*changing).sum()),
        **find_stuck_reassignments(counted, down),
        **_find_extra_replicas(counted, topics),
        quarantined_records=len(snapshot.quarantined),
        unlisted_brokers=tuple(sorted({int(match[1]) for reason in reasons if (match := _UNLISTED.search(reason))})),
        unused_files=snapshot.unused_files,
        incomplete_topics=len(incomplete),
        incomplete_topic_names=tuple(incomplete),
        missing_partitions=pc.sum(pc.subtract(topics["partitions"], topics["listed_partitions"])).as_py() or 0,
        unplaced_partitions=int((~is_placed).sum()),
        inferred_partitions=int(to_flags(partitions["state_inferred"]).sum()),
        unknown_brokers=tuple(get_unknown_brokers(snapshot.brokers).tolist()),
        identity_conflicts=_count_conflicts(snapshot, IDENTITY_FIELDS),
        config_conflicts=_count_conflicts(snapshot, CONFIG_FIELDS),
        warnings=tuple(list_warnings(snapshot)),
    )


def _find_only_in_failed_dirs(partitions: pa.Table, is_down: Bools) -> Bools:
    """Find partitions that only failed log dirs of live brokers can bring online (p). is_down: of all replicas."""
    broker, offsets, _ = to_lists(partitions["replicas"])
    is_failed = is_in_segment(broker, offsets, *to_lists(partitions["failed_dir_replicas"])[:2]) & ~is_down
    unclean = np.zeros(len(partitions), dtype=np.bool_)
    recovery = find_recovery(partitions, unclean, KnownStops(np.zeros(0, dtype=np.int32)))
    is_offline = is_valid(partitions["online"]) & ~to_flags(partitions["online"])
    return is_offline & recovery.needs_only(is_failed)


def _count_crowded(partitions: pa.Table, live: Ids, racks: Sequence[str | None]) -> int:
    """Count the partitions with more replicas in a rack than if they were spread evenly.

    live, racks: ids and racks of the live brokers.
    """
    names = sorted({name for name in racks if name is not None})
    if not names or None in racks:
        return 0
    broker, offsets, _ = to_lists(partitions["replicas"])
    rack, used = np.array([names.index(name or "") for name in racks]), np.flatnonzero(np.isin(broker, live))
    row, count = row_of(offsets)[used], len(names)
    order = np.argsort(live)
    of_replica = rack[order[np.searchsorted(live, broker[used], sorter=order)]]
    in_rack = np.bincount(row * count + of_replica, minlength=len(partitions) * count).reshape(-1, count)
    return int((in_rack.max(axis=1, initial=0) > -(-np.diff(offsets) // count)).sum())


def find_min_isr(topic: pa.ChunkedArray, topics: pa.Table, effective: Ids) -> Ids:
    """Return min.insync.replicas of p partitions as sources show it, also above the number of replicas (int32, p).

    topic: of the partitions; topics: these, at least; effective: as it counts, int32 (p).
    """
    at_topic = pc.index_in(to_array(topic), value_set=to_array(topics["topic"]))
    values = to_numpy(to_array(topics["min_insync_replicas"]).take(at_topic), 0).astype(np.int32)
    return np.maximum(values, effective)


def count_issues(partitions: pa.Table, flags: PartitionFlags) -> dict[str, AffectedPartitions]:
    """Count the partitions with each issue, and name their topics. partitions: p, with HEALTH_COLUMNS."""
    has_no_successor = to_numpy(partitions["successor"], 0) == -1
    has_issue = {
        PartitionIssue.OFFLINE: is_valid(partitions["online"]) & ~to_flags(partitions["online"]),
        PartitionIssue.UNDER_MIN_ISR: to_flags(partitions["under_min_isr"]),
        PartitionIssue.UNDER_REPLICATED: to_flags(partitions["under_replicated"]),
        PartitionIssue.OFFLINE_IF_RACK_FAILS: (to_numpy(partitions["rack_successor"], 0) == -1) & ~has_no_successor,
        PartitionIssue.OFFLINE_IF_BROKER_FAILS: has_no_successor,
        PartitionIssue.UNDER_MIN_ISR_IF_BROKER_FAILS: to_lists(partitions["min_isr_critical_brokers"]).lengths > 0,
    }
    topic = to_array(partitions["topic"])
    return {issue: count_by_topic(topic, mask, flags) for issue, mask in has_issue.items() if mask.any()}


def count_by_topic(topic: pa.Array, is_affected: Bools, flags: PartitionFlags) -> AffectedPartitions:
    """Count partitions by topic. topic, is_affected: the topic of each of p partitions, and whether it counts (p)."""
    if not is_affected.any():
        return NO_PARTITIONS
    is_single, is_few = (is_affected & mask for mask in (flags.factor == 1, flags.factor < flags.min_isr))
    ordered, single, few = (_order_topics(topic.filter(pa.array(mask))) for mask in (is_affected, is_single, is_few))
    first_names, first_counts = zip(*ordered[:MAX_TOPICS], strict=True)
    names, few_names = (tuple(name for name, _ in topics[:MAX_COMMAND_TOPICS]) for topics in (single, few))
    lowest, lowest_topics, lowest_names = _find_lowest_factor(
        topic.filter(pa.array(is_affected)), flags.factor[is_affected], ordered
    )
    return AffectedPartitions(
        partitions=int(is_affected.sum()),
        topics=len(ordered),
        topic_names=first_names,
        topic_partitions=first_counts,
        single_replica_partitions=int(is_single.sum()),
        single_replica_topics=len(single),
        single_replica_topic_names=names,
        on_down_brokers=int((is_affected & flags.is_on_down_broker).sum()),
        min_factor=lowest,
        min_factor_topics=lowest_topics,
        min_factor_topic_names=lowest_names,
        few_replicas=int(is_few.sum()),
        few_replica_topics=len(few),
        few_replica_topic_names=few_names,
        few_min_isr=int(flags.min_isr[is_few].max(initial=0)),
        few_factor=int(flags.factor[is_few].min()) if few else 0,
        unreachable_min_isr=int((is_affected & (flags.factor < flags.effective_min_isr)).sum()),
        on_failed_dirs=int((is_affected & flags.is_on_failed_dir).sum()),
        only_in_failed_dirs=int((is_affected & flags.is_only_in_failed_dir).sum()),
        beyond_restart=int((is_affected & flags.is_on_down_broker & flags.is_only_in_failed_dir).sum()),
        under_replicated=int((is_affected & flags.is_under_replicated).sum()),
    )


def _find_lowest_factor(
    topic: pa.Array, factor: Ids, ordered: Sequence[tuple[str, int]]
) -> tuple[int, int, tuple[str, ...]]:
    """Find the lowest of the topics' highest replication factors, how many topics have it, and the first of these."""
    by_topic = pa.table({"topic": topic, "factor": factor}).group_by("topic").aggregate([("factor", "max")])
    highest = dict(zip(*(by_topic[name].to_pylist() for name in ("topic", "factor_max")), strict=True))
    lowest = min(highest.values())
    names = [name for name, _ in ordered if highest[name] == lowest]
    return lowest, len(names), tuple(names[:MAX_COMMAND_TOPICS])


def _find_lagging(partitions: pa.Table, may_lag: Bools) -> dict[str, Any]:
    """Find replicas of online partitions that lag although neither broker nor log dir failed.

    may_lag: of all replicas, those that should be in sync and whose broker is not down.
    """
    broker, offsets, _ = to_lists(partitions["replicas"])
    in_isr, is_failed = (
        is_in_segment(broker, offsets, *to_lists(partitions[name])[:2]) for name in ("isr", "failed_dir_replicas")
    )
    lags = may_lag & ~in_isr & ~is_failed
    lags &= (to_flags(partitions["online"]) & to_flags(partitions["under_replicated"]))[row_of(offsets)]
    brokers, counts = _rank_brokers(broker[lags])
    return {
        "lagging_partitions": int(any_true(lags, offsets).sum()),
        "lagging_brokers": brokers,
        "lagging_broker_partitions": counts,
    }


def _rank_brokers(of_replicas: Ids) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the brokers of replicas, those with most of them first, and how many each has."""
    ids, counts = np.unique(of_replicas, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return tuple(ids[order].tolist()), tuple(counts[order].tolist())


def _name_log_dirs(snapshot: ClusterTables, down: set[int]) -> dict[str, Any]:
    """Name the failed, full and unevenly full log dirs of brokers that are not down: fields of ClusterFindings."""
    failed, full = [], []
    used: dict[int, dict[str, int]] = {}  # of each broker, by log dir, in percent of its volume
    for row in snapshot.log_dirs.to_pylist():
        name, total, usable = f"{row['log_dir']} of broker {row['broker_id']}", row["total_bytes"], row["usable_bytes"]
        if row["broker_id"] in down:
            continue
        if row["log_dir_error"] is not None:
            failed.append(name)
        elif total and usable is not None:
            percent = round(100 * (total - usable) / total)
            used.setdefault(row["broker_id"], {})[row["log_dir"]] = percent
            if is_full(total, usable):
                full.append(f"{name} ({percent} %)")
    uneven = []
    for broker, log_dirs in sorted(used.items()):
        low, high = min(log_dirs, key=log_dirs.__getitem__), max(log_dirs, key=log_dirs.__getitem__)
        if log_dirs[high] - log_dirs[low] > _UNEVEN_PERCENT:
            uneven.append(f"{high} {log_dirs[high]} %, {low} {log_dirs[low]} % of broker {broker}")
    return {"failed_log_dirs": tuple(failed), "full_log_dirs": tuple(full), "uneven_log_dirs": tuple(uneven)}


def _judge_quorum(snapshot: ClusterTables) -> dict[str, Any]:
    """Find the voters, and a rack that has too many of them: fields of ClusterFindings."""
    voters = find_voters(snapshot.quorum, snapshot.brokers)
    racks = dict(zip(*(snapshot.brokers[name].to_pylist() for name in ("broker_id", "rack")), strict=True))
    rack = voters.find_fatal_rack(racks) if len(set(racks.values()) - {None}) > 1 else None
    return {"quorum_voters": voters.voters, "lagging_voters": voters.lagging, "voter_rack": rack}


def _order_topics(topic: pa.Array) -> list[tuple[str, int]]:
    """Return topics with their numbers of partitions, those with most of them first."""
    counts = topic.value_counts()
    names, values = (counts.field(i).to_pylist() for i in (0, 1))
    return sorted(zip(names, values, strict=True), key=lambda item: (-item[1], item[0]))


def _elect_preferred(partitions: pa.Table, live: Ids) -> dict[str, Any]:
    """Elect the preferred leaders that are in sync: fields of ClusterFindings."""
    elected, online = find_elected_leaders(partitions, live), to_flags(partitions["online"])
    changes = online & (elected != NO_BROKER)
    if not changes.any():
        return {}
    leaders = np.where(changes, elected, to_numpy(partitions["leader"], NO_BROKER))[online]
    most = np.unique(leaders, return_counts=True)[1].max()  # ids may be up to 2^31 - 1
    return {"electable_partitions": int(changes.sum()), "elected_ratio": float(most * len(live) / len(leaders))}


def _count_conflicts(snapshot: ClusterTables, fields: Sequence[str]) -> int:
    return int(to_flags(pc.is_in(snapshot.conflicts["field"], pa.array(fields))).sum())


def list_warnings(snapshot: ClusterTables) -> list[str]:
    """Return what the records of the sources warn of, with file and line."""
    order = [(name, "ascending") for name in ("source", "line_number", "warning")]
    rows = snapshot.warnings.sort_by(order).to_pylist()
    return [f"{name_line(row['source'], row['line_number'])}: {row['warning']}" for row in rows]


def find_stuck_reassignments(partitions: pa.Table, down: Ids) -> dict[str, Any]:
    """Find the partitions with a replica that is being added on a broker that is down: fields of ClusterFindings."""
    broker, offsets, _ = to_lists(partitions["adding_replicas"])
    waits = np.isin(broker, down)
    names = ["topic", "partition", "replicas", "adding_replicas"]
    stuck = partitions.filter(pa.array(any_true(waits, offsets))).select(names)
    stuck = stuck.sort_by([("topic", "ascending"), ("partition", "ascending")])
    first = stuck.slice(0, MAX_CANCELLED).to_pylist()
    for one in first:
        added = one.pop("adding_replicas")
        one["replicas"] = [replica for replica in one["replicas"] if replica not in added]
    return {
        "stuck_partitions": stuck.num_rows,
        "stuck_brokers": tuple(np.unique(broker[waits]).tolist()),
        "stuck_reassignments": tuple(first),
    }


def _find_extra_replicas(partitions: pa.Table, topics: pa.Table) -> dict[str, Any]:
    """Find the partitions with more replicas than the replication factor of their topic: fields of ClusterFindings."""
    at = pc.index_in(to_array(partitions["topic"]), value_set=to_array(topics["topic"]))
    factor = to_numpy(to_array(topics["replication_factor"]).take(at), 0).astype(np.int64)
    replicas, adding, removing = (
        to_lists(partitions[name]).lengths for name in ("replicas", "adding_replicas", "removing_replicas")
    )
    has_more = (adding == 0) & (removing == 0) & (factor > 0) & (replicas > factor)
    extra = pa.table({"topic": partitions["topic"], "factor": factor}).filter(pa.array(has_more))
    counted = (
        extra.group_by(["topic", "factor"]).aggregate([([], "count_all")]).rename_columns({"count_all": "partitions"})
    )
    counted = counted.sort_by([("partitions", "descending"), ("topic", "ascending")])
    return {
        "extra_replica_partitions": extra.num_rows,
        "extra_replica_topics": counted.num_rows,
        "extra_replica_first_topics": tuple(counted.slice(0, MAX_COMMAND_TOPICS).to_pylist()),
    }


def make_row(findings: ClusterFindings) -> dict[str, Any]:
    """Return the row of gold.cluster_findings, without its key."""
    row = asdict(findings)
    row["issues"] = [{"issue": issue, **affected} for issue, affected in row["issues"].items()]
    return row | {"incomplete_topic_names": findings.incomplete_topic_names[:MAX_NAMED]}


def read_row(row: Mapping[str, Any]) -> ClusterFindings:
    """Return the findings of a row that `make_row` made."""
    known = _drop_nulls(row)
    issues = {one["issue"]: _read_affected(one) for one in known.pop("issues")}
    return ClusterFindings(issues=issues, unknown_version=_read_affected(known.pop("unknown_version")), **known)


def _read_affected(value: Mapping[str, Any]) -> AffectedPartitions:
    return AffectedPartitions(**{name: one for name, one in _drop_nulls(value).items() if name != "issue"})


def _drop_nulls(values: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what is null, as in rows from before a column or a field of a struct was added."""
    return {name: value for name, value in values.items() if value is not None}
