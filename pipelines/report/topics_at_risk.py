"""The topics with problems of all clusters, the most serious first: what is wrong, the cause, and what to do."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from pipelines.report.figure_queries import BLOCKED_IF_BROKER_FAILS, RANKED_ISSUES
from pipelines.verdict.cluster_evidence import PartitionIssue
from pipelines.verdict.naming import name_with_noun
from pipelines.verdict.verdict_points import VerdictPoint
from udfs.plurals import count_of
from udfs.quantities import format_bytes

_MAX_SHOWN, MAX_LISTED = 30, 1_000  # topics in the table, and those that its search finds
_FEW_MORE = 15  # topics that are rather shown than left out


# Issues of partitions: what is wrong in words, and which statements of a verdict say what to do.
ISSUES: dict[str, tuple[str, tuple[str, ...]]] = {
    PartitionIssue.OFFLINE: ("offline now", ("offline",)),
    PartitionIssue.UNDER_MIN_ISR: ("block acks=all producers now", ("under_min_isr",)),
    PartitionIssue.OFFLINE_IF_BROKER_FAILS: ("go offline if one broker fails", ("broker_offline",)),
    PartitionIssue.OFFLINE_IF_RACK_FAILS: ("go offline if one rack fails", ("rack_offline",)),
    BLOCKED_IF_BROKER_FAILS: ("block acks=all producers if one broker fails", ("broker_under_min_isr",)),
    PartitionIssue.UNDER_REPLICATED: ("under-replicated", ("down", "under_replicated", "failed_log_dir")),
}


class TopicAtRisk(NamedTuple):
    """The partitions of a topic with one issue."""

    topic: str
    partitions: int
    replicas: str  # of each partition, as in `1 to 3`
    size: str  # one replica of each partition, together
    cause: str


class RiskGroup(NamedTuple):
    """Topics of one cluster with the same issue, which need the same next step."""

    cluster_index: int
    cluster_id: str
    issue: str  # in words
    total: str  # all of them, also those that are not listed, as in `3 topics, 12 partitions, 66.2 GB`
    point: VerdictPoint | None  # the finding of the verdict
    topics: list[TopicAtRisk]


class TopicsAtRisk(NamedTuple):
    """What the table shows: the groups, the most serious first."""

    groups: list[RiskGroup]
    listed: int  # rows in groups
    total: int  # rows there are

    @property
    def rows_at_first(self) -> int:
        """Return how many rows to show at first."""
        return self.listed if self.total <= _MAX_SHOWN + _FEW_MORE else _MAX_SHOWN


def find_topics_at_risk(clusters: Sequence[Mapping[str, Any]]) -> TopicsAtRisk:
    """Group the topics at risk of clusters, which are in the order of rank_urgency; the first MAX_LISTED."""
    ranked = [
        (RANKED_ISSUES.index(row["issue"]), index, row)
        for index, cluster in enumerate(clusters)
        for row in cluster["topics_at_risk"]
    ]
    ranked.sort(key=lambda item: item[:2])  # within a cluster and an issue, the order of the rows stays
    listed = ranked[:MAX_LISTED]
    groups = [
        _make_group(index, clusters[index], RANKED_ISSUES[rank], [row for *_, row in items])
        for (rank, index), items in groupby(listed, key=lambda item: item[:2])
    ]
    total = sum(cluster["topics_at_risk"][0]["rows"] for cluster in clusters if cluster["topics_at_risk"])
    return TopicsAtRisk(groups, len(listed), total)


def _make_group(index: int, cluster: Mapping[str, Any], issue: str, rows: Sequence[Mapping[str, Any]]) -> RiskGroup:
    words, kinds = ISSUES[issue]
    point = next((point for point in cluster["verdict"].points if point.kind in kinds), None)
    row = rows[0]  # each has the totals
    size = "size unknown" if row["issue_bytes"] is None else format_bytes(row["issue_bytes"])
    if 0 < row["issue_sized_partitions"] < row["issue_partitions"]:
        size += " (of known size)"
    total = f"{count_of(row['issue_topics'], 'topic')}, {count_of(row['issue_partitions'], 'partition')}, {size}"
    return RiskGroup(index, cluster["cluster_id"], words, total, point, list(map(_describe_topic, rows)))


def _describe_topic(row: Mapping[str, Any]) -> TopicAtRisk:
    fewest, most = row["replicas_min"], row["replicas_max"]
    size = "unknown" if row["size_bytes"] is None else format_bytes(row["size_bytes"])
    if 0 < row["sized_partitions"] < row["partitions"]:
        size = f"over {size}"
    replicas = str(most) if fewest == most else f"{fewest} to {most}"
    return TopicAtRisk(row["topic"], row["partitions"], replicas, size, "; ".join(_describe_cause(row)))


def _describe_cause(row: Mapping[str, Any]) -> Iterator[str]:
    issue, single, lagging = row["issue"], row["single_replica_partitions"], row["under_replicated_partitions"]
    if single == row["partitions"]:
        yield "replication factor 1"
    elif single:
        yield f"replication factor 1 ({count_of(single, 'partition')})"
    if issue == PartitionIssue.OFFLINE_IF_RACK_FAILS:
        racks = ", ".join(row["leader_racks"])
        yield f"{'in-sync replicas' if lagging else 'all replicas'} in one rack ({racks})"
    elif issue in (PartitionIssue.UNDER_MIN_ISR, BLOCKED_IF_BROKER_FAILS):
        place = "below" if issue == PartitionIssue.UNDER_MIN_ISR else "at"
        yield f"{place} min.insync.replicas ({row['effective_min_isr']})"
    elif issue == PartitionIssue.OFFLINE_IF_BROKER_FAILS and single < row["partitions"]:
        yield "one replica in sync"
    if failed := row["failed_brokers"]:
        yield f"failed {name_with_noun(failed)}"
    elif lagging and issue != PartitionIssue.OFFLINE_IF_BROKER_FAILS:
        yield "replicas out of sync"
