"""Judges a cluster: one verdict for commands, the closing table of `run`, the report and the views."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from pipelines.verdict import statements
from pipelines.verdict.cluster_evidence import (
    MAX_NAMED,
    AffectedPartitions,
    ClusterEvidence,
    ClusterFindings,
    PartitionIssue,
)
from pipelines.verdict.failure_answers import NEWLY_OFFLINE, NEWLY_UNDER_MIN_ISR, UNCLEAN, FailureRule
from pipelines.verdict.levels import Level
from pipelines.verdict.statements import Statement, VerdictPoint
from udfs.failures.failure_rows import HOT_SURVIVOR_RATIO
from udfs.plurals import count_of

Rows = Sequence[Mapping[str, Any]]
_ORDER = {level: i for i, level in enumerate(Level)}


@dataclass(frozen=True)
class Verdict:
    """The state of a cluster: its level, the sentence to read first, and all findings, the most serious first."""

    level: Level
    sentence: str
    points: tuple[VerdictPoint, ...]

    @property
    def headline(self) -> str:
        """The level and the sentence, as in AT RISK: losing broker 2 takes 11 partitions offline."""
        return f"{self.level.label}: {self.sentence[0].lower()}{self.sentence[1:]}"


def judge_cluster(evidence: ClusterEvidence) -> Verdict:
    """Judge a cluster: what is worst comes first; OK only if the sources show everything."""
    findings = evidence.findings
    points = [*_judge_present(findings)]
    if not findings.partitions:
        points.append(statements.NO_PARTITIONS.fill())
    elif not evidence.broker_failures:
        points.append(statements.NO_LIVE_BROKER.fill())
    else:
        points += _judge_failures(evidence)
    points += describe_source_findings(findings)
    points.sort(key=lambda point: _ORDER[point.level])
    level = points[0].level if points else Level.OK
    if level is Level.OK:
        points.insert(0, _describe_health(evidence))
    elif level is Level.UNKNOWN and findings.partitions and evidence.broker_failures:
        points.insert(0, statements.UNCERTAIN.fill())
    return Verdict(level, points[0].text, tuple(points))


def _judge_present(findings: ClusterFindings) -> Iterator[VerdictPoint]:
    down = findings.down_brokers
    restart = f"restart broker{'' if len(down) == 1 else 's'} {name_some(down)}; " if down else ""
    for statement, issue in (
        (statements.OFFLINE, PartitionIssue.OFFLINE),
        (statements.UNDER_MIN_ISR, PartitionIssue.UNDER_MIN_ISR),
    ):
        if (affected := findings.find(issue)).partitions:
            yield statement.fill(affected.partitions, topics=_name_topics(affected), restart=restart)
    lagging = findings.find(PartitionIssue.UNDER_REPLICATED)
    if down:
        text = f"; {count_of(lagging.partitions, 'partition')} {_verb(lagging.partitions)} under-replicated"
        pairs = ",".join(f"{broker}=NEW" for broker in down[:MAX_NAMED])
        yield statements.DOWN.fill(
            len(down), brokers=name_some(down), under_replicated=text if lagging.partitions else "", pairs=pairs
        )
    elif lagging.partitions:
        values = {"partitions": count_of(findings.partitions, "partition"), "topics": _name_topics(lagging)}
        yield statements.UNDER_REPLICATED.fill(lagging.partitions, **values)
    if count := findings.electable_partitions:
        ratio = findings.elected_ratio
        effect = f"; an election alone gives {ratio:.2f} times the mean" if ratio is not None else ""
        yield statements.NOT_PREFERRED.fill(count, effect=effect)
    if count := findings.deleted_topics_offline_partitions:
        yield statements.DELETED.fill(count)
    if count := findings.reassigned_partitions:
        yield statements.REASSIGNED.fill(count)


def _verb(count: int) -> str:
    return "is" if count == 1 else "are"


def _judge_failures(evidence: ClusterEvidence) -> Iterator[VerdictPoint]:
    findings, racks = evidence.findings, evidence.rack_failures
    if len(racks) > 1:
        confined = findings.find(PartitionIssue.OFFLINE_IF_RACK_FAILS)
        total = sum(NEWLY_OFFLINE.count(row) for row in racks)
        names = _name_topics(confined)
        if 0 < confined.partitions < total:
            names = f"; {confined.partitions:,} of {total:,} would survive the failure of any single broker{names}"
        yield from _judge_rule(statements.RACK_OFFLINE, NEWLY_OFFLINE, racks, "rack", topics=names)
    exposed = findings.find(PartitionIssue.OFFLINE_IF_BROKER_FAILS)
    brokers = evidence.broker_failures
    values = {"topics": _name_topics(exposed), "all": f"{exposed.partitions:,}", "repair": _repair(exposed)}
    yield from _judge_rule(statements.BROKER_OFFLINE, NEWLY_OFFLINE, brokers, "broker", **values)
    yield from _judge_rule(statements.BROKER_UNCLEAN, UNCLEAN, brokers, "broker")
    yield from _judge_rule(statements.BROKER_UNDER_MIN_ISR, NEWLY_UNDER_MIN_ISR, brokers, "broker")
    if len(racks) > 1:
        yield from _judge_rule(statements.RACK_UNDER_MIN_ISR, NEWLY_UNDER_MIN_ISR, racks, "rack")
    elif racks and len(brokers) > 1:
        yield statements.ONE_RACK.fill(rack=racks[0]["failed"])
    yield from _judge_load(evidence)


def _judge_rule(
    statement: Statement, rule: FailureRule, failures: Rows, unit: str, **values: object
) -> Iterator[VerdictPoint]:
    rows = [row for row in failures if rule.count(row) > 0]
    if not rows:
        return
    worst = max(rows, key=rule.count)
    values[f"{unit}s"] = _name_failed(rows, len(failures), unit)
    if len(rows) > 1:
        values["worst"] = f"{unit} {worst['failed']}"
    yield statement.fill(rule.count(worst), **values)


def _repair(affected: AffectedPartitions) -> str:
    if not affected.single_replica_partitions:
        return "find the replicas that are out of sync: kafka-topics --describe --under-replicated-partitions"
    names = ",".join(affected.topic_names[:MAX_NAMED])
    return f"add replicas: kafka-placement plan SOURCE --goal rf --rf 3 --topics {names} --out plan"


def _judge_load(evidence: ClusterEvidence) -> Iterator[VerdictPoint]:
    hot = [row for row in evidence.broker_failures if row["hot_survivor"] is not None]
    if hot:
        row = max(hot, key=lambda row: row["worst_survivor_ratio"])
        values = {"failed": row["failed"], "survivor": row["hot_survivor"], "ratio": row["worst_survivor_ratio"]}
        yield statements.HOT_SURVIVOR.fill(row["leaders_after_max"], **values)
    now = evidence.now
    if now is None or now["max_over_mean_ratio"] is None:
        return
    ratio, most = now["max_over_mean_ratio"], now["leaders_max"]
    if ratio > HOT_SURVIVOR_RATIO and most > ceil(now["leaders_mean"]):
        elected = evidence.findings.elected_ratio
        helps = elected is not None and elected < ratio
        election = f"{statements.NOT_PREFERRED.step}; or " if helps else ""
        yield statements.HOT_BROKER.fill(most, broker=now["hottest_broker"], ratio=ratio, election=election)


def _describe_health(evidence: ClusterEvidence) -> VerdictPoint:
    ratios = (row["worst_survivor_ratio"] for row in evidence.broker_failures)
    ratio = max((ratio for ratio in ratios if ratio is not None), default=1.0)
    load = f", and no survivor leads more than {ratio:.2f} times the mean" if f"{ratio:.2f}" != "1.00" else ""
    return statements.HEALTHY.fill(or_rack=" or rack" if len(evidence.rack_failures) > 1 else "", load=load)


def describe_source_findings(findings: ClusterFindings) -> Iterable[VerdictPoint]:
    """Say what the sources lack, so that any answer on the cluster may be wrong."""
    for warning in findings.warnings[:MAX_NAMED]:
        yield statements.SOURCE_WARNING.fill(warning=warning)
    if (more := len(findings.warnings) - MAX_NAMED) > 0:
        yield statements.MORE_WARNINGS.fill(more)
    if count := findings.quarantined_records:
        yield statements.QUARANTINED.fill(count)
    if files := findings.unused_files:
        yield statements.UNUSED_FILES.fill(len(files), files=name_some(files))
    if count := findings.incomplete_topics:
        names, missing = name_some(findings.incomplete_topic_names, count), findings.missing_partitions
        lack = f"; {count_of(missing, 'partition')} {_verb(missing)} missing" if missing else ""
        yield statements.INCOMPLETE_TOPICS.fill(count, topics=names, missing=lack)
    if count := findings.unplaced_partitions:
        yield statements.UNPLACED.fill(count)
    if count := findings.inferred_partitions:
        yield statements.INFERRED.fill(count)
    if findings.identity_conflicts:
        yield statements.TWO_CLUSTERS.fill()
    if count := findings.config_conflicts:
        yield statements.CONFIG_CONFLICTS.fill(count)
    if findings.unknown_brokers:
        yield describe_unknown_brokers(findings.unknown_brokers)


def describe_unknown_brokers(ids: Sequence[int]) -> VerdictPoint:
    """Say that it is unknown whether these brokers are live, and what follows."""
    return statements.UNKNOWN_BROKERS.fill(len(ids), brokers=name_some(ids))


def name_some(items: Sequence[object], count: int | None = None) -> str:
    """Name the first items, as in `1, 2, 3, 4, 5, 6 and 2 more`. count: how many there are, if not all are given."""
    more = (count or len(items)) - min(len(items), MAX_NAMED)
    return ", ".join(map(str, items[:MAX_NAMED])) + (f" and {more} more" if more else "")


def _name_topics(affected: AffectedPartitions) -> str:
    """Name the topics with most of these partitions, as in `: a (12), b (4) and 2 more topics`."""
    pairs = zip(affected.topic_names, affected.topic_partitions, strict=True)
    names = ", ".join(f"{name} ({count:,})" for name, count in pairs)
    if not names:
        return ""
    more = affected.topics - len(affected.topic_names)
    names += f" and {count_of(more, 'more topic')}" if more else ""
    single = affected.single_replica_partitions
    if single == affected.partitions:
        names += ", all with replication factor 1" if single > 1 else ", with replication factor 1"
    elif single:
        names += f"; {single:,} with replication factor 1"
    return f": {names}"


def _name_failed(rows: Rows, total: int, unit: str) -> str:
    if len(rows) == total > 1:
        return f"any single {unit}"
    names = [str(row["failed"]) for row in rows]
    if len(names) > MAX_NAMED:
        return f"{unit} {', '.join(names[:MAX_NAMED])} or one of {len(names) - MAX_NAMED} more"
    return f"{unit} {', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else f"{unit} {names[0]}"
