"""What a verdict is about: the state of a cluster's partitions and brokers, and what its sources lack."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pipelines.ingest.formats.live_requests import NO_TOPICS
from pipelines.ingest.merge.cluster_merge import UNLISTED


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
# Replicas of silver.partitions that should be in sync: not observers, and none that are being added.
EXPECTED_SQL = "array_except(replicas, concat(coalesce(observers, array()), coalesce(adding_replicas, array())))"
UNLISTED_REGEX = f"([0-9]+) {UNLISTED}".replace("'", ".")  # in a reason of a quarantined record; fit for SQL
# How many of a group of partitions have each issue.
ISSUE_COUNTS_SQL = ", ".join(f"count_if({condition}) AS {issue}_partitions" for issue, condition in ISSUE_SQL.items())
_ISSUE_CASES_SQL = ", ".join(f"CASE WHEN {condition} THEN '{issue}' END" for issue, condition in ISSUE_SQL.items())
# A join that leaves out the partitions that do not count.
COUNTED_SQL = """LEFT ANTI JOIN (SELECT * FROM silver.topics WHERE marked_for_deletion OR ignored)
USING (cluster_id, snapshot_id, topic)"""
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


@dataclass(frozen=True)
class AffectedPartitions:
    """The partitions with one issue; topics that are ignored or marked for deletion do not count."""

    partitions: int = 0
    topics: int = 0
    topic_names: Sequence[str] = ()  # the first MAX_TOPICS, those with most of the partitions first
    topic_partitions: Sequence[int] = ()  # how many each of them has
    single_replica_partitions: int = 0  # those with replication factor 1
    single_replica_topics: int = 0  # topics that have such partitions
    single_replica_topic_names: Sequence[str] = ()  # the first MAX_COMMAND_TOPICS, those with most of these first
    on_down_brokers: int = 0  # those with a replica on a down broker, other than observers and replicas being added
    min_factor: int = 0  # the lowest of the topics' highest replication factors, 0 = not known
    min_factor_topics: int = 0  # topics that have it
    min_factor_topic_names: Sequence[str] = ()  # the first MAX_COMMAND_TOPICS, those with most of the partitions first
    few_replicas: int = 0  # those with fewer replicas than min.insync.replicas: before Kafka 3.7 these are blocked
    few_replica_topics: int = 0  # topics that have such partitions
    few_replica_topic_names: Sequence[str] = ()  # the first MAX_COMMAND_TOPICS, those with most of these first
    few_min_isr: int = 0  # the highest min.insync.replicas of these
    few_factor: int = 0  # the lowest number of replicas of these
    unreachable_min_isr: int = (
        0  # those of these for which Kafka does not lower min.insync.replicas: waiting is in vain
    )
    on_failed_dirs: int = 0  # those with a replica in a failed log dir of a live broker


NO_PARTITIONS = AffectedPartitions()


@dataclass(frozen=True)
class ClusterFindings:
    """What is wrong with a cluster already, and what its sources lack. Lists of names may be shortened."""

    issues: Mapping[str, AffectedPartitions] = field(default_factory=dict)  # by PartitionIssue
    partitions: int = 0  # with known replicas
    counted_partitions: int = 0  # of these, in topics that are neither ignored nor marked for deletion
    racks: int = 0  # of live brokers
    replication_factor: float | None = None  # median of partitions with several replicas
    live_brokers: int = 0
    down_brokers: Sequence[int] = ()
    down_critical_brokers: Sequence[int] = ()  # min_isr_critical_brokers of partitions with a replica on a down broker
    failed_log_dirs: Sequence[str] = ()  # of brokers that are not down, as in `/data1 of broker 1`
    failed_dir_brokers: Sequence[int] = ()  # live ones with replicas in failed log dirs, those with most of them first
    failed_dir_replicas: Sequence[int] = ()  # how many each of them has; of partitions that count
    full_log_dirs: Sequence[str] = ()  # of brokers that are not down, as in `/data1 of broker 1 (99 %)`
    lagging_partitions: int = 0  # online, with a replica out of sync on a live broker, which can catch up; that count
    lagging_brokers: Sequence[int] = ()  # with such replicas, those with most of them first
    lagging_broker_partitions: Sequence[int] = ()  # how many each of them has
    bootstrap_server: str | None = None  # host:port of the first live broker
    electable_partitions: int = 0  # whose preferred leader is in sync, but does not lead
    elected_ratio: float | None = None  # leaders of the hottest broker over the mean, after an election of these
    deleted_topics_offline_partitions: int = 0  # of topics that are marked for deletion
    ignored_topics: int = 0  # by topics.ignored; not those that are marked for deletion
    ignored_offline_partitions: int = 0  # of these
    reassigned_partitions: int = 0  # replicas are being added or removed
    stuck_partitions: int = 0  # of these, with a replica that is being added on a broker that is down
    stuck_brokers: Sequence[int] = ()  # these brokers
    stuck_reassignments: Sequence[
        Mapping[str, Any]
    ] = ()  # the first MAX_CANCELLED: topic, partition, replicas but these
    extra_replica_partitions: int = 0  # with more replicas than the replication factor of their topic
    extra_replica_topics: int = 0
    # the first MAX_COMMAND_TOPICS of these: topic, factor, partitions; those with most of the partitions first
    extra_replica_first_topics: Sequence[Mapping[str, Any]] = ()
    quarantined_records: int = 0
    unlisted_brokers: Sequence[int] = ()  # not in the broker list, so that records that name them are quarantined
    unused_files: Sequence[str] = ()  # of which nothing is used
    incomplete_topics: int = 0  # of which the sources do not show, or may not show, all partitions
    incomplete_topic_names: Sequence[str] = ()
    missing_partitions: int = 0  # that topics declare, but no source shows
    unplaced_partitions: int = 0  # of which no source shows the replicas: no answer covers them
    inferred_partitions: int = 0  # no source shows their leader or ISR: they count as healthy
    unknown_version: AffectedPartitions = NO_PARTITIONS  # whether they are blocked depends on a version not shown
    unknown_brokers: Sequence[int] = ()  # no source shows whether they are live
    identity_conflicts: int = 0  # two ids of a topic, or two hosts of a broker
    config_conflicts: int = 0  # two values of a config that decides which failures a topic survives
    warnings: Sequence[str] = ()  # sentences without full stop: a failed command, a listing of selected partitions

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
