"""The overview of several clusters: their order, and which to look at first, why, and what its users notice."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pipelines.verdict.cluster_evidence import AffectedPartitions, ClusterFindings, PartitionIssue
from pipelines.verdict.levels import Level
from pipelines.verdict.naming import name_with_noun
from udfs.plurals import count_of, is_or_are, it_or_them

_LEVELS = list(Level)
_NOT_AFFECTED = "Producers and consumers still work"


class Priority(NamedTuple):
    """What to look at first: an introduction, and why it is the first cluster; no reason = there is no problem."""

    introduction: str
    reason: str


def rank_urgency(cluster: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the sort key of a cluster, the most urgent first.

    By level; then what users notice now; then brokers and replicas that are missing now; then what goes offline if one
    broker or one rack fails, in partitions and as a share; then what one failure blocks; then the load of survivors.
    """
    findings: ClusterFindings = cluster["findings"]
    now = [findings.find(issue).partitions for issue in (PartitionIssue.OFFLINE, PartitionIssue.UNDER_MIN_ISR)]
    now += [len(findings.down_brokers), findings.find(PartitionIssue.UNDER_REPLICATED).partitions]
    worst = _find_losses(cluster)
    share = worst["broker"] / max(findings.counted_partitions, 1)
    load = cluster["metrics"].get("worst_survivor_ratio", {}).get("observed") or 0
    effects = (*now, worst["broker"], share, worst["rack"], worst["blocked"], load)
    return _LEVELS.index(cluster["verdict"].level), *(-effect for effect in effects), cluster["cluster_id"]


def find_priority(clusters: Sequence[Mapping[str, Any]]) -> Priority:
    """Say in plain words which cluster to look at first, for clusters in the order of rank_urgency."""
    if not clusters:
        return Priority("No cluster has been evaluated.", "")
    first = clusters[0]
    level = first["verdict"].level
    if level is Level.AT_RISK:
        return Priority("Start with", _explain_risk(first["findings"], _find_losses(first)))
    if level is Level.WARNING:
        sentence = first["verdict"].sentence
        reason = f"{sentence[0].lower()}{sentence[1:]} {_NOT_AFFECTED}."
        return Priority("No cluster is at risk. Start with", reason)
    unknown = sum(cluster["verdict"].level is Level.UNKNOWN for cluster in clusters)
    if unknown:
        return Priority(f"No problem is known, but the sources of {count_of(unknown, 'cluster')} lack something.", "")
    return Priority("No cluster has a problem: in each, any single broker can fail.", "")


def _find_losses(cluster: Mapping[str, Any]) -> dict[str, int]:
    """Return the worst failures in partitions. A single rack does not count: every partition goes offline with it."""
    losses = {name: count or 0 for name, count in cluster["worst_failures"].items()}
    return losses if len(cluster["rack_failures"]) > 1 else losses | {"rack": 0}


def _explain_risk(findings: ClusterFindings, worst: Mapping[str, int]) -> str:
    """Say what is the matter with a cluster that is at risk, and what its producers and consumers notice."""
    offline, blocked, lagging, exposed, confined = (
        findings.find(issue)
        for issue in (
            PartitionIssue.OFFLINE,
            PartitionIssue.UNDER_MIN_ISR,
            PartitionIssue.UNDER_REPLICATED,
            PartitionIssue.OFFLINE_IF_BROKER_FAILS,
            PartitionIssue.OFFLINE_IF_RACK_FAILS,
        )
    )
    if n := offline.partitions:
        effect = f"Producers and consumers of {_name_topics(offline)} fail on {it_or_them(n)}."
        return f"{_count(n)} offline now. {effect}{_explain_down(findings, worst)}"
    if n := blocked.partitions:
        effect = f"Producers with acks=all to {_name_topics(blocked)} fail on {it_or_them(n)}; consumers still work."
        return f"{_count(n)} below min.insync.replicas now. {effect}{_explain_down(findings, worst)}"
    if (down := findings.down_brokers) and (n := lagging.on_down_brokers):
        brokers = f"{name_with_noun(down)} {is_or_are(len(down))} down"
        return f"{brokers}, and {_count(n)} under-replicated. {_explain_next_failure(worst)}"
    if n := worst["broker"]:
        return _explain_failure(n, "broker", exposed)
    return _explain_failure(worst["rack"], "rack", confined)


def _explain_down(findings: ClusterFindings, worst: Mapping[str, int]) -> str:
    """Say what brokers that are down have made worse beyond what users notice now; empty without any."""
    down, lagging = findings.down_brokers, findings.find(PartitionIssue.UNDER_REPLICATED)
    if not down or not lagging.on_down_brokers:
        return ""
    lack = f"{count_of(lagging.on_down_brokers, 'partition')} of {count_of(lagging.topics, 'topic')} lack a replica"
    effects = [f"{count_of(n, 'more partition')} go offline" for n in (worst["broker"],) if n]
    effects += [f"acks=all producers fail on up to {count_of(n, 'more partition')}" for n in (worst["blocked"],) if n]
    after = f"; if one more broker fails, {' and '.join(effects)}" if effects else ""
    return f" {name_with_noun(down).capitalize()} {is_or_are(len(down))} down, so {lack}{after}."


def _explain_failure(n: int, unit: str, affected: AffectedPartitions) -> str:
    effect = f"Until it is back, producers and consumers of {_name_topics(affected)} fail on {it_or_them(n)}."
    return f"nothing is offline now, but if one {unit} fails, up to {count_of(n, 'partition')} go offline. {effect}"


def _explain_next_failure(worst: Mapping[str, int]) -> str:
    """Say what users would notice if one more broker or rack failed."""
    for unit in ("broker", "rack"):
        if n := worst[unit]:
            return f"{_NOT_AFFECTED}, but if one more {unit} fails, up to {count_of(n, 'partition')} go offline."
    if n := worst["blocked"]:
        blocked = f"producers with acks=all fail on up to {count_of(n, 'partition')}"
        return f"{_NOT_AFFECTED}, but if one more broker fails, {blocked}."
    return f"{_NOT_AFFECTED}, and no partition goes offline if one more broker fails."


def _name_topics(affected: AffectedPartitions) -> str:
    """Name the topics with most of these partitions, as in `a, b and 2 more topics`."""
    more = affected.topics - len(affected.topic_names)
    *names, last = [*affected.topic_names, *([count_of(more, "more topic")] if more > 0 else [])] or ["its topics"]
    return f"{', '.join(names)} and {last}" if names else last


def _count(n: int) -> str:
    return f"{count_of(n, 'partition')} {is_or_are(n)}"
