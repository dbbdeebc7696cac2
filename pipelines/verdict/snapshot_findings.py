"""What is wrong with a snapshot's cluster already, and what its sources lack: of a snapshot, and a row of a table."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.merge.cluster_merge import UNLISTED
from pipelines.ingest.merge.inferred_state import add_health
from pipelines.ingest.merge.live_brokers import (
    get_bootstrap_server,
    get_down_brokers,
    get_live_brokers,
    get_unknown_brokers,
    is_version_known,
)
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
from udfs.failures.kernels.election import NO_BROKER, Bools, Ids, Ints
from udfs.failures.partition_health import find_elected_leaders, find_expected
from udfs.failures.topic_defaults import KAFKA_DEFAULTS, TopicDefaults

_UNLISTED = re.compile(f"([0-9]+) {UNLISTED}")  # in a reason of a quarantined record
# Fields of conflicts between two clusters, rather than between two moments of one.
IDENTITY_FIELDS = ("topic_id", "host")
# Those of configs that decide which failures a topic survives.
CONFIG_FIELDS = ("config min.insync.replicas", "config unclean.leader.election.enable")


class _PreferredElection(NamedTuple):
    """What an election of preferred leaders would change."""

    partitions: int
    ratio: float | None  # leaders of the hottest broker over the mean, afterwards


class _Replicas(NamedTuple):
    """The r replicas of partitions."""

    broker: Ids  # int32 (r)
    offsets: Ints  # int64, the replicas of each partition
    is_expected: Bools  # (r), whether it should be in sync
    is_down: Bools  # (r), whether its broker is down


class _LaggingReplicas(NamedTuple):
    """Online partitions with a replica that is out of sync on a live broker, and these brokers, the worst first."""

    partitions: int
    brokers: tuple[int, ...]
    broker_partitions: tuple[int, ...]  # how many each of them has


class PartitionFlags(NamedTuple):
    """What makes each of p partitions vulnerable."""

    factor: Ids  # (p), replication factor
    is_on_down_broker: Bools  # (p), whether a replica that should be in sync is on a down broker
    is_on_failed_dir: Bools  # (p), whether a replica is in a failed log dir of a live broker
    min_isr: Ids  # (p), min.insync.replicas as it is set, also above the number of replicas
    effective_min_isr: Ids  # (p), as it counts


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
    racks = snapshot.brokers.filter(pc.is_in(snapshot.brokers["broker_id"], pa.array(live)))["rack"]
    election = _elect_preferred(partitions, live)
    down = get_down_brokers(snapshot.brokers)
    counted = partitions.filter(pa.array(~(is_deleted | of_ignored)))
    replicas = _select_replicas(counted, down)
    is_on_down_broker = any_true(replicas.is_expected & replicas.is_down, replicas.offsets)
    lagging, failed = _find_lagging(counted, replicas), to_lists(counted["failed_dir_replicas"])
    failed_dir_brokers, failed_dir_replicas = _rank_brokers(failed.values)
    effective = to_numpy(counted["effective_min_isr"], 0).astype(np.int32)
    flags = PartitionFlags(
        to_lists(counted["replicas"]).lengths.astype(np.int32),
        is_on_down_broker,
        failed.lengths > 0,
        find_min_isr(counted["topic"], topics, effective),
        effective,
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
        racks=len(pc.unique(racks.drop_null())),
        replication_factor=_find_median_factor(partitions),
        down_brokers=tuple(down.tolist()),
        down_critical_brokers=_find_down_critical(counted, is_on_down_broker),
        failed_log_dirs=tuple(_name_failed_dirs(snapshot)),
        failed_dir_brokers=failed_dir_brokers,
        failed_dir_replicas=failed_dir_replicas,
        full_log_dirs=tuple(_name_full_dirs(snapshot)),
        lagging_partitions=lagging.partitions,
        lagging_brokers=lagging.brokers,
        lagging_broker_partitions=lagging.broker_partitions,
        bootstrap_server=get_bootstrap_server(snapshot.brokers),
        electable_partitions=election.partitions,
        elected_ratio=election.ratio,
        deleted_topics_offline_partitions=int((is_offline & is_deleted).sum()),
        ignored_topics=int(is_ignored.sum()),
        ignored_offline_partitions=int((is_offline & of_ignored).sum()),
        reassigned_partitions=count_reassigned(partitions),
        **find_stuck_reassignments(counted, down),
        **_find_extra_replicas(counted, topics),
        quarantined_records=len(snapshot.quarantined),
        unlisted_brokers=_find_unlisted(snapshot.quarantined),
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


def find_min_isr(topic: pa.ChunkedArray, topics: pa.Table, effective: Ids) -> Ids:
    """Return min.insync.replicas of p partitions as sources show it, also above the number of replicas (int32, p).

    topic: of the partitions; topics: these, at least; effective: as it counts, int32 (p).
    """
    at_topic = pc.index_in(to_array(topic), value_set=to_array(topics["topic"]))
    values = to_numpy(to_array(topics["min_insync_replicas"]).take(at_topic), 0).astype(np.int32)
    return np.maximum(values, effective)


def _find_unlisted(quarantined: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
    reasons = (reason for record in quarantined for reason in record["reasons"])
    return tuple(sorted({int(match[1]) for reason in reasons if (match := _UNLISTED.search(reason))}))


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


def _select_replicas(partitions: pa.Table, down: Ids) -> _Replicas:
    broker, offsets, _ = to_lists(partitions["replicas"])
    return _Replicas(broker, offsets, find_expected(partitions, broker, offsets), np.isin(broker, down))


def _find_down_critical(partitions: pa.Table, is_on_down_broker: Bools) -> tuple[int, ...]:
    critical = to_lists(partitions["min_isr_critical_brokers"])
    return tuple(np.unique(critical.values[is_on_down_broker[row_of(critical.offsets)]]).tolist())


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


def _find_median_factor(partitions: pa.Table) -> float | None:
    factors = to_lists(partitions["replicas"]).lengths
    return float(np.median(factors[factors > 1])) if (factors > 1).any() else None


def _find_lagging(partitions: pa.Table, replicas: _Replicas) -> _LaggingReplicas:
    """Find replicas of under-replicated online partitions that lag although neither broker nor log dir failed."""
    broker, offsets, is_expected, is_down = replicas
    in_isr, is_failed = (
        is_in_segment(broker, offsets, *to_lists(partitions[name])[:2]) for name in ("isr", "failed_dir_replicas")
    )
    lags = is_expected & ~in_isr & ~is_down & ~is_failed
    lags &= (to_flags(partitions["online"]) & to_flags(partitions["under_replicated"]))[row_of(offsets)]
    return _LaggingReplicas(int(any_true(lags, offsets).sum()), *_rank_brokers(broker[lags]))


def _rank_brokers(of_replicas: Ids) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the brokers of replicas, those with most of them first, and how many each has."""
    ids, counts = np.unique(of_replicas, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return tuple(ids[order].tolist()), tuple(counts[order].tolist())


def _list_log_dirs(snapshot: ClusterTables) -> list[dict[str, Any]]:
    """List the log dirs of brokers that are not down, by broker and path."""
    down = set(get_down_brokers(snapshot.brokers).tolist())
    return [row for row in snapshot.log_dirs.to_pylist() if row["broker_id"] not in down]


def _name_failed_dirs(snapshot: ClusterTables) -> Iterator[str]:
    for row in _list_log_dirs(snapshot):
        if row["log_dir_error"] is not None:
            yield f"{row['log_dir']} of broker {row['broker_id']}"


def _name_full_dirs(snapshot: ClusterTables) -> Iterator[str]:
    for row in _list_log_dirs(snapshot):
        total, usable = row["total_bytes"], row["usable_bytes"]
        if row["log_dir_error"] is None and total and usable is not None and is_full(total, usable):
            yield f"{row['log_dir']} of broker {row['broker_id']} ({100 * (total - usable) // total} %)"


def _order_topics(topic: pa.Array) -> list[tuple[str, int]]:
    """Return topics with their numbers of partitions, those with most of them first."""
    counts = topic.value_counts()
    names, values = (counts.field(i).to_pylist() for i in (0, 1))
    return sorted(zip(names, values, strict=True), key=lambda item: (-item[1], item[0]))


def _elect_preferred(partitions: pa.Table, live: Ids) -> _PreferredElection:
    """Return what an election of the preferred leaders would do: those that are in sync."""
    elected, online = find_elected_leaders(partitions, live), to_flags(partitions["online"])
    changes = online & (elected != NO_BROKER)
    leaders = np.where(changes, elected, to_numpy(partitions["leader"], NO_BROKER))[online]
    if not changes.any():
        return _PreferredElection(0, None)
    most = np.unique(leaders, return_counts=True)[1].max()  # ids may be up to 2^31 - 1
    return _PreferredElection(int(changes.sum()), float(most * len(live) / len(leaders)))


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


def count_reassigned(partitions: pa.Table) -> int:
    """Count the partitions (schema INFERRED_PARTITIONS) with replicas that are being added or removed."""
    lengths = [to_lists(partitions[name]).lengths for name in ("adding_replicas", "removing_replicas")]
    return int(((lengths[0] > 0) | (lengths[1] > 0)).sum())


def make_row(findings: ClusterFindings) -> dict[str, Any]:
    """Return the row of gold.cluster_findings, without its key."""
    row = asdict(findings)
    row["issues"] = [{"issue": issue, **affected} for issue, affected in row["issues"].items()]
    return row | {"incomplete_topic_names": findings.incomplete_topic_names[:MAX_NAMED]}


def read_row(row: Mapping[str, Any]) -> ClusterFindings:
    """Return the findings of a row that `make_row` made."""
    known = dict(row)
    issues = {one.pop("issue"): AffectedPartitions(**one) for one in map(dict, known.pop("issues"))}
    return ClusterFindings(issues=issues, unknown_version=AffectedPartitions(**known.pop("unknown_version")), **known)
