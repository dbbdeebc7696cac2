"""Judges a cluster: one verdict for commands, the closing table of `run`, the report and the views."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from pipelines.ingest.formats.live_requests import NO_TOPICS
from pipelines.verdict import source_statements, statements
from pipelines.verdict.cluster_evidence import (
    MAX_BROKERS,
    MAX_NAMED,
    AffectedPartitions,
    ClusterEvidence,
    ClusterFindings,
    PartitionIssue,
    name_affected_topics,
    name_any,
    name_brokers,
    name_some,
)
from pipelines.verdict.risk_findings import (
    LostBrokers,
    RackSizes,
    add_missing_replicas,
    can_repair,
    describe_extra_replicas,
    describe_restart,
    describe_stuck,
    exceed_min_isr,
    judge_limits,
    judge_log_dirs,
    judge_quorum,
    repair_first,
    repair_offline,
    select_repairable,
)
from pipelines.verdict.verdict_points import (
    NEWLY_OFFLINE,
    NEWLY_UNDER_MIN_ISR,
    NO_STEP,
    UNCLEAN,
    FailureRule,
    Level,
    NextStep,
    Statement,
    VerdictPoint,
)
from udfs.failures.failure_rows import HOT_SURVIVOR_RATIO
from udfs.wording import count_of, is_or_are, it_or_them


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


Rows = Sequence[Mapping[str, Any]]
UNEVEN_RATIO = 1.1  # leaders of the hottest broker over the mean: the default of hotspots.hot_ratio
_LACKING = PartitionIssue.UNDER_REPLICATED
_ORDER = {level: i for i, level in enumerate(Level)}
_NOW = re.compile(r"(?<=[a-z] )now\b")


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

    def name_source(self, source: str, cluster: str) -> "Verdict":
        """Name the cluster and its source in the commands of the next steps; the source must be quoted for a shell."""
        return replace(self, points=tuple(point.name_source(source, cluster) for point in self.points))

    def name_moment(self, plans: int) -> "Verdict":
        """Say of what is now that it is after so many plans."""
        moment = "after the plan" if plans == 1 else "after the plans"
        sentence, *texts = (_NOW.sub(moment, text) for text in (self.sentence, *(one.text for one in self.points)))
        points = tuple(replace(point, text=text) for point, text in zip(self.points, texts, strict=True))
        return replace(self, sentence=sentence, points=points) if plans else self

    def omit_steps(self) -> "Verdict":
        """Leave out the next steps, as their commands are for another cluster than the one that is judged."""
        return replace(self, points=tuple(point.omit_step() for point in self.points))

    def name_start_order(self, brokers: Sequence[int]) -> "Verdict":
        """Name the brokers to start first, in their order, instead of the command that shows it."""
        order = f" (first {', then '.join(map(str, brokers[:MAX_BROKERS]))})" if brokers else ""
        steps = (point.step.replace(statements.START_ORDER, order) for point in self.points)
        return replace(self, points=tuple(map(lambda point, step: replace(point, step=step), self.points, steps)))


def judge_cluster(evidence: ClusterEvidence) -> Verdict:
    """Judge a cluster: what is worst comes first; OK only if the sources show everything."""
    findings = evidence.findings
    ratio = evidence.now["max_over_mean_ratio"] if evidence.now else None
    points = [*judge_quorum(findings), *judge_present(findings), *describe_election(findings, ratio)]
    if not findings.partitions:
        points.append((source_statements.NO_TOPICS if findings.is_empty else source_statements.NO_PARTITIONS).fill())
    elif not findings.counted_partitions:
        points.append(source_statements.NOTHING_COUNTED.fill())
    elif not evidence.broker_failures:
        points.append(source_statements.NO_LIVE_BROKER.fill())
    else:
        points += [*_judge_failures(evidence), *judge_limits(evidence)]
    points += describe_source_findings(findings)
    points.sort(key=lambda point: _ORDER[point.level])
    level = points[0].level if points else Level.OK
    if level is Level.OK and not findings.is_empty:
        ratio = max((row["worst_survivor_ratio"] or 1.0 for row in evidence.broker_failures), default=1.0)
        load = f", and no survivor leads more than {ratio:.2f} times the mean" if f"{ratio:.2f}" != "1.00" else ""
        or_rack = " or rack" if len(evidence.rack_failures) > 1 else ""
        points.insert(0, statements.HEALTHY.fill(or_rack=or_rack, load=load))
    elif level is Level.UNKNOWN and findings.counted_partitions and evidence.broker_failures:
        points.insert(0, statements.UNCERTAIN.fill())
    named = tuple(point.name_server(findings.bootstrap_server, findings.release_before) for point in points)
    return Verdict(level, points[0].text, named)


def judge_present(findings: ClusterFindings) -> Iterator[VerdictPoint]:
    """Yield what is wrong now, without any failure."""
    down, offline = findings.down_brokers, findings.find(PartitionIssue.OFFLINE)
    if offline.partitions:
        single = count_of(offline.single_replica_partitions, "partition")
        disk = "its disk, which has" if len(down) == 1 else "their disks, which have"
        has_only_copy = offline.on_down_brokers and offline.single_replica_partitions
        values: dict[str, Any] = {"only_copy": f"keep {disk} the only copy of {single}; " if has_only_copy else ""}
        order = statements.START_ORDER if len(down) > 1 else ""
        values["restart"] = describe_restart(findings, offline, order=order)
        values |= {"topic_names": offline.topic_names, "topics": name_affected_topics(offline)}
        yield statements.OFFLINE.fill(offline.partitions, **values)
    yield from judge_log_dirs(findings)
    if down and (count := findings.find(PartitionIssue.UNDER_REPLICATED).on_down_brokers):
        text = f"{count_of(count, 'partition')} with a replica there {is_or_are(count)}"
        repair = statements.DO_WITH_FEWER.fill(len(down)) if findings.replication_factor else NO_STEP
        if offline.on_down_brokers - offline.single_replica_partitions >= count:
            repair = NO_STEP  # nothing is left to copy from
        elif can_repair(findings.live_brokers, findings.replication_factor):
            repair = statements.MOVE_REPLICAS.fill(len(down))
        yield statements.DOWN.fill(len(down), brokers=name_brokers(down), under_replicated=text, repair=repair)
    elif down:
        yield statements.DOWN_WITHOUT_EFFECT.fill(len(down), brokers=name_brokers(down))
    if count := findings.lagging_partitions:
        where = _name_not_down(findings.lagging_brokers, findings)
        counts = zip(findings.lagging_brokers, findings.lagging_broker_partitions, strict=True)
        brokers = name_brokers([f"broker {broker} ({n:,})" for broker, n in counts])
        yield statements.UNDER_REPLICATED.fill(count, brokers=brokers, where=where)
    if (blocked := findings.find(PartitionIssue.UNDER_MIN_ISR)).partitions:
        repair = _unblock(findings, blocked)
        names = name_affected_topics(blocked)
        yield statements.UNDER_MIN_ISR.fill(
            blocked.partitions, topic_names=blocked.topic_names, topics=names, repair=repair
        )
    if findings.stuck_partitions:
        yield describe_stuck(findings)
    if findings.extra_replica_partitions:
        yield describe_extra_replicas(findings)
    if count := findings.deleted_topics_offline_partitions:
        yield statements.DELETED.fill(count)
    if count := findings.ignored_topics:
        n = findings.ignored_offline_partitions
        text = f"; {count_of(n, 'partition')} of {it_or_them(count)} {is_or_are(n)} offline"
        yield statements.IGNORED.fill(count, offline=text if n else "")
    if count := findings.reassigned_partitions:
        yield statements.REASSIGNED.fill(count)
    if findings.fillable_brokers and findings.partitions >= findings.live_brokers:
        yield statements.EMPTY_BROKERS.fill(findings.fillable_brokers)
    if cordoned := findings.cordoned_brokers:
        yield statements.CORDONED.fill(len(cordoned), brokers=name_brokers(cordoned))


def _unblock(findings: ClusterFindings, blocked: AffectedPartitions) -> NextStep:
    """Return how partitions below min.insync.replicas take acks=all again: first those with too few replicas."""
    steps = [add_missing_replicas(blocked, findings.live_brokers)] if blocked.unreachable_min_isr else []
    if blocked.unreachable_min_isr < blocked.partitions:
        repair = NO_STEP
        if count := blocked.on_down_brokers or blocked.on_failed_dirs:
            some = "these partitions" if count == blocked.partitions else f"the {count:,} of them with a replica there"
            repair = repair_first(select_repairable(findings, blocked), some)
        text = f"{describe_restart(findings, blocked)}{statements.WATCH_REPLICAS.text}{repair.text}"
        steps.append(NextStep(text, repair.plan))
    return NextStep("; then ".join(step.text for step in steps), next((step.plan for step in steps if step.plan), None))


def describe_election(findings: ClusterFindings, ratio: float | None) -> Iterator[VerdictPoint]:
    """Say what an election of the preferred leaders would change; nothing if each leads already, or is out of sync.

    ratio: leaders of the hottest broker over the mean now. The election is the next step only if it lowers this.
    """
    if count := findings.electable_partitions:
        elected = findings.elected_ratio
        effect = f"; after their election, the hottest broker leads {elected:.2f} times the mean" if elected else ""
        point = statements.NOT_PREFERRED.fill(count, effect=effect)
        yield point if elected and ratio and elected < ratio else point.omit_step()


def _judge_failures(evidence: ClusterEvidence) -> Iterator[VerdictPoint]:
    findings, racks = evidence.findings, evidence.rack_failures
    brokers = evidence.broker_failures
    exposed = findings.find(PartitionIssue.OFFLINE_IF_BROKER_FAILS)
    # Replicas are no cause of what goes offline as nothing is elected: the sentences on the quorum have the next step.
    takes_majority = any(not findings.quorum.elects_without({row["failed"]}) for row in brokers)
    values = {
        "topic_names": exposed.topic_names,
        "topics": name_affected_topics(exposed),
        "all": f"{sum(map(NEWLY_OFFLINE.count, brokers)) if takes_majority else exposed.partitions:,}",
        "repair": NO_STEP if takes_majority and not exposed.partitions else repair_offline(exposed, len(brokers)),
    }
    confined = findings.find(PartitionIssue.OFFLINE_IF_RACK_FAILS)
    total = sum(NEWLY_OFFLINE.count(row) for row in racks)
    if len(racks) > 1 and confined.partitions and confined.partitions + exposed.partitions == total:
        values["topics"] = f", which also go offline with their rack{values['topics']}"
    offline = [*_judge_rule(statements.BROKER_OFFLINE, NEWLY_OFFLINE, brokers, "broker", **values)]
    if len(racks) > 1:
        names = name_affected_topics(confined)
        if 0 < confined.partitions < total:
            in_all = f"; {total:,} partitions in all" if sum(map(bool, map(NEWLY_OFFLINE.count, racks))) > 1 else ""
            survive = f"{confined.partitions:,} survive{'s' if confined.partitions == 1 else ''}"
            names = f"{in_all}, of which {survive} the failure of any single broker{names}"
        if offline and not confined.partitions and findings.voter_rack is None:
            names = "; they are the same partitions that single brokers take offline"
        repair = _spread_over_racks(evidence) if confined.partitions else NO_STEP
        values = {"topic_names": confined.topic_names, "topics": names, "repair": repair}
        by_rack = [*_judge_rule(statements.RACK_OFFLINE, NEWLY_OFFLINE, racks, "rack", **values)]
        # What goes offline with any of its brokers goes offline with their rack: then the broker is the cause.
        offline = [*by_rack, *offline] if confined.partitions else [*offline, *by_rack]
    yield from offline
    restart = describe_restart(findings, findings.find(_LACKING), only_disks=True)
    yield from _judge_rule(statements.BROKER_UNCLEAN, UNCLEAN, brokers, "broker", restart=restart)
    critical = findings.find(PartitionIssue.UNDER_MIN_ISR_IF_BROKER_FAILS)
    step = NO_STEP if takes_majority and not critical.partitions else exceed_min_isr(critical, len(brokers))
    are_some_in_sync = critical.under_replicated < critical.partitions
    repair = _repair_isr(findings, critical, step, _repair_critical(evidence), others_remain=are_some_in_sync)
    yield from _judge_rule(statements.BROKER_UNDER_MIN_ISR, NEWLY_UNDER_MIN_ISR, brokers, "broker", repair=repair)
    if len(racks) > 1:
        lagging = findings.find(PartitionIssue.UNDER_REPLICATED)
        spread = _spread_over_racks(evidence) if findings.crowded_partitions else statements.SPREAD_ALREADY.fill()
        others_remain = are_some_in_sync or findings.crowded_partitions > 0
        repair = _repair_isr(findings, lagging, spread, others_remain=others_remain)
        yield from _judge_rule(statements.RACK_UNDER_MIN_ISR, NEWLY_UNDER_MIN_ISR, racks, "rack", repair=repair)
    elif racks and len(brokers) > 1:
        named = _name_not_down([row["failed"] for row in brokers], findings)
        yield statements.ONE_RACK.fill(rack=racks[0]["failed"], brokers=named)
    yield from _judge_load(evidence)


def _judge_rule(
    statement: Statement, rule: FailureRule, failures: Rows, unit: str, **values: Any
) -> Iterator[VerdictPoint]:
    rows = [row for row in failures if rule.count(row) > 0]
    if not rows:
        return
    worst = max(rows, key=rule.count)
    values[f"{unit}s"] = _name_failed(rows, len(failures), unit)
    if len(rows) > 1:
        is_worse = any(rule.count(row) < rule.count(worst) for row in rows)
        values["worst"] = f"worst case: {unit} {worst['failed']}, " if is_worse else "in each case "
    yield statement.fill(rule.count(worst), **values)


def _repair_isr(
    findings: ClusterFindings,
    affected: AffectedPartitions,
    otherwise: NextStep,
    repair_first: NextStep = NO_STEP,
    *,
    others_remain: bool,
) -> NextStep:
    """Return how ISRs become larger: replicas that are out of sync come first, as more replicas do not help them.

    repair_first: how the step goes on if affected partitions have a replica on a broker that is down.
    others_remain: whether a failure blocks others, too, whose replicas are in sync.
    """
    if not affected.under_replicated:
        return otherwise
    restart = describe_restart(findings, affected)
    complete = statements.COMPLETE_ISRS.fill(restart=restart, repair_first=repair_first if restart else NO_STEP)
    if not others_remain:
        return complete
    return NextStep(f"{complete.text}; for the others: {otherwise.text}", complete.plan or otherwise.plan)


def _repair_critical(evidence: ClusterEvidence) -> NextStep:
    """Return how to repair what the worst failure would block; of brokers for whose partitions a repair can do it."""
    findings = evidence.findings
    rows = [row for row in evidence.broker_failures if row["failed"] in set(findings.down_critical_brokers)]
    if not rows:
        return NO_STEP
    worst = max(rows, key=NEWLY_UNDER_MIN_ISR.count)["failed"]
    down = findings.down_brokers if can_repair(findings.live_brokers, findings.replication_factor) else ()
    return repair_first(LostBrokers(down), f"the partitions that need broker {worst}", [worst])


def _spread_over_racks(evidence: ClusterEvidence) -> NextStep:
    """Return how replicas are spread over racks; where a rack is too small, brokers come first."""
    findings = evidence.findings
    live = {row["failed"]: row["brokers"] for row in evidence.rack_failures}
    known = {*(row["failed"] for row in evidence.broker_failures), *findings.down_brokers, *findings.unlisted_brokers}
    counts = len(findings.down_brokers), len(findings.unknown_brokers)
    racks = RackSizes(live, known, *counts, findings.replication_factor)
    return racks.choose_step(statements.SPREAD_OVER_RACKS, statements.ADD_TO_RACKS)


def _name_not_down(brokers: Collection[int], findings: ClusterFindings) -> str:
    """Name these brokers as live brokers, unless some of them are of unknown state."""
    return "brokers that are not down" if set(brokers) & set(findings.unknown_brokers) else "live brokers"


def _judge_load(evidence: ClusterEvidence) -> Iterator[VerdictPoint]:
    leaders = list(_judge_leaders(evidence))
    is_hot = any(point.level is Level.WARNING for point in leaders)
    hot = [row for row in evidence.broker_failures if row["hot_survivor"] is not None]
    if hot:
        row = max(hot, key=lambda row: row["worst_survivor_ratio"])
        values = {"failed": row["failed"], "survivor": row["hot_survivor"], "ratio": row["worst_survivor_ratio"]}
        step = statements.SPREAD_TAKEOVERS_AND_LEADERS if is_hot else statements.SPREAD_TAKEOVERS
        yield statements.HOT_SURVIVOR.fill(row["leaders_after_max"], **values, repair=step.fill())
        if is_hot:
            leaders = [point.omit_step() for point in leaders]
    yield from leaders


def _judge_leaders(evidence: ClusterEvidence) -> Iterator[VerdictPoint]:
    """Say whether a broker leads too many partitions now."""
    now = evidence.now
    if now is None or now["max_over_mean_ratio"] is None:
        return
    empty, findings = evidence.findings.fillable_brokers, evidence.findings  # means count no other empty brokers
    share = 1 - empty / max(findings.live_brokers - findings.empty_brokers + empty, 1)  # of brokers that can lead
    if now["leaders_max"] <= ceil(now["leaders_mean"] / share - 1e-9):
        return
    values = {"broker": now["hottest_broker"], "ratio": now["max_over_mean_ratio"]}
    if values["ratio"] * share > HOT_SURVIVOR_RATIO:
        steps = [point.step for point in describe_election(evidence.findings, values["ratio"]) if point.step]
        election = f"{steps[0]}; or " if steps else ""
        yield statements.HOT_BROKER.fill(now["leaders_max"], **values, election=election)
    elif values["ratio"] * share > UNEVEN_RATIO:
        yield statements.UNEVEN_LEADERS.fill(now["leaders_max"], **values)


def _name_failed(rows: Rows, total: int, unit: str) -> str:
    if len(rows) == total > 1:
        return f"any single {unit}"
    return f"{unit} {name_any([row['failed'] for row in rows])}"
