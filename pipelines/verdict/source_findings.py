"""What the sources of a cluster lack, so that answers on it may be wrong."""

from collections.abc import Iterable

from pipelines.ingest.formats.live_requests import NO_TOPICS
from pipelines.verdict import source_statements
from pipelines.verdict.cluster_evidence import MAX_NAMED, ClusterFindings
from pipelines.verdict.naming import name_affected_topics, name_brokers, name_some
from pipelines.verdict.verdict_points import VerdictPoint
from udfs.plurals import count_of, is_or_are


def describe_source_findings(findings: ClusterFindings) -> Iterable[VerdictPoint]:
    """Say what the sources lack, so that any answer on the cluster may be wrong."""
    warnings = [text for text in findings.warnings if not (findings.is_empty and text.endswith(f": {NO_TOPICS}"))]
    for warning in warnings[:MAX_NAMED]:
        yield source_statements.SOURCE_WARNING.fill(warning=warning)
    if (more := len(warnings) - MAX_NAMED) > 0:
        yield source_statements.MORE_WARNINGS.fill(more)
    if count := findings.quarantined_records:
        yield source_statements.QUARANTINED.fill(count)
    if brokers := findings.unlisted_brokers:
        yield source_statements.OUTDATED_BROKER_LIST.fill(len(brokers), brokers=name_brokers(brokers))
    if files := findings.unused_files:
        yield source_statements.UNUSED_FILES.fill(len(files), files=name_some(files))
    if count := findings.incomplete_topics:
        names, missing = name_some(findings.incomplete_topic_names, count), findings.missing_partitions
        lack = f"; {count_of(missing, 'partition')} {is_or_are(missing)} missing" if missing else ""
        yield source_statements.INCOMPLETE_TOPICS.fill(count, topics=names, missing=lack)
    if count := findings.unplaced_partitions:
        yield source_statements.UNPLACED.fill(count)
    if count := findings.inferred_partitions:
        yield source_statements.INFERRED.fill(count)
    if findings.identity_conflicts:
        yield source_statements.TWO_CLUSTERS.fill()
    if count := findings.config_conflicts:
        yield source_statements.CONFIG_CONFLICTS.fill(count)
    if (unknown := findings.unknown_version).partitions:
        names = name_affected_topics(unknown)
        yield source_statements.UNKNOWN_VERSION.fill(unknown.partitions, topic_names=unknown.topic_names, topics=names)
    if unknown_brokers := findings.unknown_brokers:
        yield source_statements.UNKNOWN_BROKERS.fill(len(unknown_brokers), brokers=name_brokers(unknown_brokers))
