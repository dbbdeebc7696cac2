"""Sentences about reassignments that cannot complete, and about replicas that are left over."""

import json

from pipelines.verdict import statements
from pipelines.verdict.cluster_evidence import MAX_NAMED, MAX_TOPICS, AffectedPartitions, ClusterFindings
from pipelines.verdict.naming import name_affected_topics, name_some, name_with_noun
from pipelines.verdict.verdict_points import NextPlan, VerdictPoint
from udfs.plurals import count_of


def describe_stuck(findings: ClusterFindings) -> VerdictPoint:
    """Name the reassignments that wait for a broker that is down, and how to end them."""
    stuck, count = findings.stuck_reassignments, findings.stuck_partitions
    names = name_some([f"{one['topic']}-{one['partition']}" for one in stuck[:MAX_NAMED]], count)
    partitions = [{name: one[name] for name in ("topic", "partition", "replicas")} for one in stuck]
    more = count - len(stuck)
    return statements.STUCK.fill(
        count,
        brokers=name_with_noun(findings.stuck_brokers),
        are="is" if len(findings.stuck_brokers) == 1 else "are",
        partitions=names,
        cancelled=json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":")),
        others=f"; then do the same for {count_of(more, 'more partition')}" if more else "",
    )


def describe_extra_replicas(findings: ClusterFindings) -> VerdictPoint:
    """Name the topics of partitions with too many replicas; those with the factor of the first are for one command."""
    topics = findings.extra_replica_first_topics
    factor = topics[0]["factor"]
    names = [one["topic"] for one in topics if one["factor"] == factor]
    named, more = topics[:MAX_TOPICS], findings.extra_replica_topics - len(names)
    affected = AffectedPartitions(
        findings.extra_replica_partitions,
        findings.extra_replica_topics,
        [one["topic"] for one in named],
        [one["partitions"] for one in named],
    )
    return statements.EXTRA_REPLICAS.fill(
        findings.extra_replica_partitions,
        topic_names=affected.topic_names,
        topics=name_affected_topics(affected),
        factor=factor,
        plan=NextPlan("rf", factor=factor, topics=tuple(names)),
        others=f"; then see to {count_of(more, 'more topic')}" if more else "",
    )
