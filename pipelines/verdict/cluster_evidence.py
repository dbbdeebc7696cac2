"""What a verdict is about: the state of a cluster's partitions and brokers, and what its sources lack."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from operator import itemgetter
from typing import Any

import pyarrow as pa

from pipelines.ingest.formats.live_requests import NO_TOPICS
from pipelines.ingest.merge.entities import PARTITION, TOPIC, to_struct
from udfs.arrow.columns import DOUBLE, FLAG, INTS, LONG, TEXT, TEXTS, column, get_comment
from udfs.failures.scenarios import QuorumVoters, ScenarioKind
from udfs.wording import count_of, join_names


class PartitionIssue(StrEnum):
    """What can be wrong with a partition; values of `issue` in insights.partition_issues."""

    OFFLINE = "offline"
    UNDER_MIN_ISR = "under_min_isr"
    UNDER_REPLICATED = "under_replicated"
    OFFLINE_IF_RACK_FAILS = "offline_if_rack_fails"  # though not if one broker fails
    OFFLINE_IF_BROKER_FAILS = "offline_if_broker_fails"
    UNDER_MIN_ISR_IF_BROKER_FAILS = "under_min_isr_if_broker_fails"  # of any in-sync replica, though not offline


# The condition of each issue over silver.partitions (HEALTH_COLUMNS), in SQL.
ISSUE_SQL = {
    PartitionIssue.OFFLINE: "NOT online",
    PartitionIssue.UNDER_MIN_ISR: "under_min_isr",
    PartitionIssue.UNDER_REPLICATED: "under_replicated",
    PartitionIssue.OFFLINE_IF_RACK_FAILS: "rack_successor = -1 AND successor <> -1",
    PartitionIssue.OFFLINE_IF_BROKER_FAILS: "successor = -1",
    PartitionIssue.UNDER_MIN_ISR_IF_BROKER_FAILS: "size(min_isr_critical_brokers) > 0",
}
# How many of a group of partitions have each issue.
ISSUE_COUNTS_SQL = ", ".join(f"count_if({condition}) AS {issue}_partitions" for issue, condition in ISSUE_SQL.items())
_ISSUE_CASES_SQL = ", ".join(f"CASE WHEN {condition} THEN '{issue}' END" for issue, condition in ISSUE_SQL.items())
# A join that leaves out the partitions that do not count.
COUNTED_SQL = """LEFT ANTI JOIN (SELECT * FROM silver.topics WHERE marked_for_deletion OR ignored)
USING (cluster_id, snapshot_id, topic)"""
# Whether the sources lack partitions of a row of silver.topics. Not `incomplete`: partition lines alone are that, yet
# may be all, and a topic that is not among them would never count as deleted.
IS_CUT_SQL = "listed_partitions < partitions"
# Columns of silver.partitions for each partition and issue; {partitions}: these, or a query of some of them.
ISSUES_SQL = f"""SELECT *, explode(filter(array({_ISSUE_CASES_SQL}), i -> i IS NOT NULL)) AS issue
FROM {{partitions}}
{COUNTED_SQL}
WHERE {" OR ".join(ISSUE_SQL.values())}"""
MAX_BROKERS = 12  # brokers or racks in a sentence
MAX_NAMED = 6  # other things in a sentence, such as files, and warnings
MAX_TOPICS = 3  # topics in a sentence with their number of partitions
MAX_COMMAND_TOPICS = 20  # topics in the command of a next step
MAX_CANCELLED = 50  # partitions in a command that cancels reassignments


def _declare(data_type: pa.DataType, comment: str, default: object = None) -> Any:
    """Declare a field, and the column of gold.cluster_findings that has it; default: None = it may be null."""
    return field(default=default, metadata={"type": data_type, "comment": comment})


def _count(comment: str) -> Any:
    return _declare(LONG, comment, 0)


def _numbers(comment: str) -> Any:
    return _declare(INTS, comment, ())


def _names(comment: str) -> Any:
    return _declare(TEXTS, comment, ())


def list_columns(row: type) -> tuple[pa.Field, ...]:
    """List the columns that the fields of AffectedPartitions or ClusterFindings declare."""
    return tuple(
        column(one.name, one.metadata["type"], one.metadata["comment"], required=one.default is not None)
        for one in fields(row)
    )


@dataclass(frozen=True)
class AffectedPartitions:
    """The partitions with one issue; topics that are ignored or marked for deletion do not count."""

    partitions: int = _count("how many there are")
    topics: int = _count("topics that have them")
    topic_names: Sequence[str] = _names(f"the first {MAX_TOPICS} topics, those with most of the partitions first")
    topic_partitions: Sequence[int] = _numbers("how many each of topic_names has")
    single_replica_partitions: int = _count("those with replication factor 1")
    single_replica_topics: int = _count("topics that have such partitions")
    single_replica_topic_names: Sequence[str] = _names(f"the first {MAX_COMMAND_TOPICS}, those with most first")
    on_down_brokers: int = _count("those with a replica on a down broker, not an observer or one being added")
    min_factor: int = _count("the lowest of the topics' highest replication factors; 0 = not known")
    min_factor_topics: int = _count("topics that have it")
    min_factor_topic_names: Sequence[str] = _names(f"the first {MAX_COMMAND_TOPICS}, those with most partitions first")
    few_replicas: int = _count("those with fewer replicas than min.insync.replicas; Kafka before 3.7 blocks these")
    few_replica_topics: int = _count("topics that have such partitions")
    few_replica_topic_names: Sequence[str] = _names(f"the first {MAX_COMMAND_TOPICS}, those with most of these first")
    few_min_isr: int = _count("the highest min.insync.replicas of these")
    few_factor: int = _count("the lowest number of replicas of these")
    unreachable_min_isr: int = _count("those of these for which Kafka does not lower min.insync.replicas")
    on_failed_dirs: int = _count("those with a replica in a failed log dir of a live broker")
    only_in_failed_dirs: int = _count("those without a leader whose replicas that may lead are all in such log dirs")
    beyond_restart: int = _count("those of on_down_brokers that are among only_in_failed_dirs: no restart helps them")
    under_replicated: int = _count("those with a replica that is not in sync")


NO_PARTITIONS = AffectedPartitions()
_AFFECTED = list_columns(AffectedPartitions)
_MEANING = "; ".join(f"{one.name}: {get_comment(one)}" for one in _AFFECTED)
_STUCK = to_struct((TOPIC, PARTITION, column("replicas", INTS, "without those that are being added")))
_EXTRA = pa.struct([("topic", TEXT), ("factor", LONG), ("partitions", LONG)])


@dataclass(frozen=True)
class ClusterFindings:
    """What is wrong with a cluster already, and what its sources lack. Lists of names may be shortened."""

    issues: Mapping[str, AffectedPartitions] = field(  # by PartitionIssue
        default_factory=dict,
        metadata={
            "type": pa.list_(pa.struct([("issue", TEXT), *to_struct(_AFFECTED)])),
            "comment": f"the partitions that count with each issue ({', '.join(PartitionIssue)}). {_MEANING}",
        },
    )
    partitions: int = _count("partitions with known replicas")
    counted_partitions: int = _count("of these, in topics that are neither ignored nor marked for deletion")
    racks: int = _count("racks of live brokers")
    replication_factor: float | None = _declare(DOUBLE, "median of partitions with several replicas; null = none has")
    live_brokers: int = _count("live brokers, and those of unknown state")
    empty_brokers: int = _count("those of them without replicas, as after a drain")
    fillable_brokers: int = _count("of these, those that are not cordoned")
    down_brokers: Sequence[int] = _numbers("ids of brokers that are down")
    cordoned_brokers: Sequence[int] = _numbers("ids of brokers that are not down and whose log dirs are all cordoned")
    down_critical_brokers: Sequence[int] = _numbers(
        "min_isr_critical_brokers of partitions that count with a replica on a down broker"
    )
    failed_log_dirs: Sequence[str] = _names("of brokers that are not down, as in `/data1 of broker 1`")
    failed_dir_brokers: Sequence[int] = _numbers(
        "live brokers with replicas in failed log dirs, those with most of them first"
    )
    failed_dir_replicas: Sequence[int] = _numbers(
        "how many replicas of partitions that count each of failed_dir_brokers has there"
    )
    full_log_dirs: Sequence[str] = _names("of brokers that are not down, as in `/data1 of broker 1 (99 %)`")
    uneven_log_dirs: Sequence[str] = _names(
        "of brokers that are not down, where the used shares of volumes differ, as in `/a 90 %, /b 20 % of broker 1`"
    )
    lagging_partitions: int = _count(
        "online partitions that count with a replica out of sync on a live broker, which can catch up"
    )
    lagging_brokers: Sequence[int] = _numbers("brokers with such replicas, those with most of them first")
    lagging_broker_partitions: Sequence[int] = _numbers("how many each of lagging_brokers has")
    bootstrap_server: str | None = _declare(TEXT, "host:port of the first live broker; null = not shown")
    release_before: int | None = _declare(
        LONG, "all brokers that may be live run an earlier release of Kafka, as 307 for 3.7; null = not shown"
    )
    shows_preferred_leaders: bool = _declare(FLAG, "whether sources show which replica is the preferred leader", True)
    electable_partitions: int = _count("partitions whose preferred leader is in sync, but does not lead")
    elected_ratio: float | None = _declare(
        DOUBLE, "leaders of the hottest broker over the mean, after an election of these; null = there are none"
    )
    quorum_voters: Sequence[int] = _numbers("voters of the controller quorum; empty = not shown")
    lagging_voters: Sequence[int] = _numbers("of these, those that are down or do not follow the leader")
    voter_rack: str | None = _declare(TEXT, "rack whose failure leaves no majority of voters; null = none is known")
    deleted_topics_offline_partitions: int = _count("offline partitions of topics that are marked for deletion")
    ignored_topics: int = _count("topics that topics.ignored names, and that are not marked for deletion")
    ignored_offline_partitions: int = _count("offline partitions of these")
    reassigned_partitions: int = _count("partitions with replicas that are being added or removed")
    stuck_partitions: int = _count(
        "of these, those that count with a replica that is being added on a broker that is down"
    )
    stuck_brokers: Sequence[int] = _numbers("these brokers")
    stuck_reassignments: Sequence[Mapping[str, Any]] = _declare(
        pa.list_(_STUCK), f"the first {MAX_CANCELLED} of stuck_partitions, with the replicas that they have already", ()
    )
    crowded_partitions: int = _count(
        "partitions that count with more replicas in a rack than an even spread over the racks of live brokers leaves"
    )
    extra_replica_partitions: int = _count(
        "partitions that count with more replicas than the replication factor of their topic"
    )
    extra_replica_topics: int = _count("topics that have such partitions")
    extra_replica_first_topics: Sequence[Mapping[str, Any]] = _declare(
        pa.list_(_EXTRA), f"the first {MAX_COMMAND_TOPICS} of these, those with most of the partitions first", ()
    )
    quarantined_records: int = _count("rejected records")
    unlisted_brokers: Sequence[int] = _numbers(
        "brokers that the broker list lacks, so that records that name them are quarantined"
    )
    unused_files: Sequence[str] = _names("files of which nothing is used")
    incomplete_topics: int = _count("topics of which the sources do not show, or may not show, all partitions")
    incomplete_topic_names: Sequence[str] = _names(f"the first of these; in the table at most {MAX_NAMED}")
    missing_partitions: int = _count("partitions that topics declare, but no source shows")
    unplaced_partitions: int = _count("partitions of which no source shows the replicas: no answer covers them")
    inferred_partitions: int = _count("partitions of which no source shows leader or ISR: they count as healthy")
    unknown_version: AffectedPartitions = field(
        default=NO_PARTITIONS,
        metadata={
            "type": to_struct(_AFFECTED),
            "comment": "partitions that count and that Kafka blocks before 3.7, where no source shows the version: the "
            "same fields, up to single_replica_partitions",
        },
    )
    unknown_brokers: Sequence[int] = _numbers("brokers of which no source shows whether they are live")
    identity_conflicts: int = _count("conflicts between two ids of a topic, or two hosts of a broker")
    config_conflicts: int = _count("conflicts between configs that decide which failures a topic survives")
    warnings: Sequence[str] = _names(
        "sentences without full stop on what the sources lack: a failed command, a listing of selected partitions"
    )

    @property
    def quorum(self) -> QuorumVoters:
        """The voters of the controller quorum."""
        return QuorumVoters(tuple(self.quorum_voters), tuple(self.lagging_voters))

    @property
    def is_empty(self) -> bool:
        """Whether a running cluster has said that it has no topic."""
        return not self.partitions and any(warning.endswith(f": {NO_TOPICS}") for warning in self.warnings)

    def find(self, issue: PartitionIssue) -> AffectedPartitions:
        """Return the partitions with an issue."""
        return self.issues.get(issue, NO_PARTITIONS)


@dataclass(frozen=True)
class ClusterEvidence:
    """A cluster now, and after each failure: rows of gold tables of the scheme `observed`."""

    now: Mapping[str, Any] | None  # of gold.leader_hotspots, over all topics
    broker_failures: Sequence[Mapping[str, Any]]  # of gold.failure_summary, with `failed`: the broker
    rack_failures: Sequence[Mapping[str, Any]]  # the same, with `failed`: the rack, and `brokers`: its live brokers
    findings: ClusterFindings = ClusterFindings()
    disk_failures: Sequence[Mapping[str, Any]] = ()  # of gold.disk_after_failure
    # Of gold.over_capacity: survivors of single brokers; none where capacities are assumed.
    over_capacity: Sequence[Mapping[str, Any]] = ()


def make_evidence(
    now: Mapping[str, Any] | None,
    failures: Iterable[Mapping[str, Any]],
    findings: ClusterFindings,
    disk_failures: Sequence[Mapping[str, Any]] = (),
    over_capacity: Sequence[Mapping[str, Any]] = (),
) -> ClusterEvidence:
    """Make the evidence from rows of gold.failure_summary of the scheme `observed`, which may be of any kind."""
    brokers: list[Mapping[str, Any]] = []
    racks: list[Mapping[str, Any]] = []
    for row in failures:
        if row["scenario_kind"] == ScenarioKind.BROKER:
            brokers.append({**row, "failed": row["failed_brokers"][0]})
        elif row["scenario_kind"] == ScenarioKind.RACK:
            rack = row["scenario"].removeprefix(f"{ScenarioKind.RACK}:")
            racks.append({**row, "failed": rack, "brokers": len(row["failed_brokers"])})
    order = itemgetter("failed")
    failed = sorted(brokers, key=order), sorted(racks, key=order)
    return ClusterEvidence(now, *failed, findings, disk_failures, over_capacity)


def name_some(items: Sequence[object], count: int | None = None) -> str:
    """Name the first items, as in `1, 2, 3, 4, 5, 6 and 2 more`. count: how many there are, if not all are given."""
    return join_names(items, MAX_NAMED, count)


def name_brokers(ids: Sequence[object]) -> str:
    """Name the first brokers, as in `1, 2 and 3 more`."""
    return join_names(ids, MAX_BROKERS)


def name_any(names: Sequence[object]) -> str:
    """Name the first things of which any may fail, as in `1, 2 or 3`, or `1, 2 or one of 3 more`."""
    first = [str(name) for name in names[:MAX_BROKERS]]
    more = len(names) - len(first)
    *first, last = [*first, f"one of {more} more"] if more else first
    return f"{', '.join(first)} or {last}" if first else last


def name_with_noun(brokers: Sequence[int]) -> str:
    """Name brokers, as in `broker 1` or `brokers 1, 2`."""
    return f"broker{'' if len(brokers) == 1 else 's'} {name_brokers(brokers)}"


def name_topics(partitions: Iterable[tuple[str, int]], topics: int) -> str:
    """Name the first topics with their partitions, as in `a (12), b (4) and 2 more topics`. topics: how many in all."""
    names = [f"{name} ({count:,})" for name, count in partitions][:MAX_TOPICS]
    more = topics - len(names)
    return ", ".join(names) + (f" and {count_of(more, 'more topic')}" if more else "")


def name_affected_topics(affected: AffectedPartitions) -> str:
    """Name the topics with most of these partitions, as in `: a (12), b (4), all with replication factor 1`."""
    if not affected.topic_names:
        return ""
    names = name_topics(zip(affected.topic_names, affected.topic_partitions, strict=True), affected.topics)
    single = affected.single_replica_partitions
    if single == affected.partitions:
        names += ", all with replication factor 1" if single > 1 else ", with replication factor 1"
    elif single:
        names += f"; {single:,} with replication factor 1"
    return f": {names}"
