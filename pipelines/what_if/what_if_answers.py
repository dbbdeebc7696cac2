"""The answers of `what-if`, computed as the stages compute gold.failure_summary, without Spark."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.config.setting_sections import Settings
from pipelines.errors import SourceError
from pipelines.ingest.merge.kraft_merge import find_voters
from pipelines.ingest.merge.live_brokers import get_live_brokers, get_releases, get_unknown_brokers
from pipelines.ingest.snapshot_reader import Snapshot
from pipelines.ingest.sources import name_line
from pipelines.plan_files.hypothetical_cluster import Hypothesis
from pipelines.verdict.cluster_evidence import ClusterFindings, PartitionIssue, make_evidence
from pipelines.verdict.failure_causes import FailureEffects
from pipelines.verdict.judgement import Verdict, describe_source_findings, judge_cluster, judge_present
from pipelines.verdict.risk_findings import RackSizes, explain_lost_majority
from pipelines.verdict.snapshot_findings import find_findings, find_min_isr
from pipelines.verdict.verdict_points import VerdictPoint, assess_failure
from pipelines.what_if.failure_effects import (
    AffectedTopic,
    DiskUse,
    SurvivorCapacities,
    SurvivorLoad,
    count_in_sync,
    find_effects,
    find_single_isr,
    list_affected_topics,
    list_disk_failures,
    list_disk_uses,
    list_survivor_loads,
    read_survivor_capacities,
)
from pipelines.what_if.outage import Exposure, Outage, WaitOrMove, find_outage
from pipelines.what_if.prediction_check import PredictionCheck
from pipelines.what_if.source_gaps import SourceGaps, find_gaps
from udfs.failures.failure_outcomes import SchemeAggregates, cluster_hotspot_rows, scenario_failures, single_failures
from udfs.failures.failure_rows import outcome_rows
from udfs.failures.kernels.election import NO_BROKER, WAITING, ElectedFrom
from udfs.failures.kernels.failure_totals import LEADERS
from udfs.failures.partition_arrays import (
    Placement,
    TopicShard,
    elect_after,
    fill_topics,
    group_observed,
    select_partitions,
)
from udfs.failures.partition_sums import aggregate_failures
from udfs.failures.scenarios import UNKNOWN_VOTER, Cluster, QuorumVoters, RandomSets, ScenarioKind, build_scenarios
from udfs.failures.topic_defaults import TopicDefaults

_DIGITS = 4  # of ratios in JSON


@dataclass(frozen=True)
class FailureTotals:
    """A failure in numbers; takeovers and leaders_after are by broker."""

    answer: str  # "can they fail?", as in gold.failure_summary's views
    partitions: int
    survivors: int
    leaders_moved: int
    offline_before: int
    offline_after: int
    under_min_isr_after: int
    single_isr_partitions: int
    single_replica_partitions: int  # of these, those with replication factor 1
    unclean_elections: int
    effects: FailureEffects
    causes: tuple[VerdictPoint, ...]  # of these effects; if the brokers are down already, what is wrong now
    takeovers: dict[int, int]
    leaders_after: dict[int, int]
    worst_survivor: int | None
    worst_survivor_ratio: float | None
    size_bytes_offline: int | None
    uncounted_topics: tuple[str, ...]  # ignored, or marked for deletion: what happens to them is in no count of losses
    gaps: SourceGaps


@dataclass(frozen=True)
class PartitionChange:
    """Who leads a partition before and after a failure; None = offline."""

    topic: str
    partition: int
    leader_before: int | None
    leader_after: int | None
    elected_from: str


@dataclass(frozen=True)
class FailureAnswer:
    """The answer of `what-if --fail`. check: of the predicted leaders, with --actual."""

    cluster: str
    failed: list[int]
    partitions: list[PartitionChange]
    summary: FailureTotals
    survivor_loads: list[SurvivorLoad]  # one per rate that is known
    topics: list[AffectedTopic]
    check: PredictionCheck | None = None
    hypothesis: Hypothesis | None = None

    def name_source(self, source: str) -> "FailureAnswer":
        """Replace the placeholder of the cluster's source in the next steps."""
        causes = tuple(cause.name_source(source, self.cluster) for cause in self.summary.causes)
        return replace(self, summary=replace(self.summary, causes=causes))

    def omit_steps(self) -> "FailureAnswer":
        """Leave out the next steps, as their commands are for the cluster as it is."""
        causes = tuple(cause.omit_step() for cause in self.summary.causes)
        return replace(self, summary=replace(self.summary, causes=causes))


@dataclass(frozen=True)
class SingleFailure:
    """The failure of a broker, by id, or of all live brokers of a rack, by name; columns of gold.failure_summary."""

    failed: int | str
    brokers: int  # that fail
    leaders_lost: int
    takeover_brokers: int
    newly_offline_partitions: int
    newly_under_min_isr_partitions: int
    under_min_isr_partitions: int
    single_isr_partitions: int
    unclean_elections: int
    worst_survivor: int | None
    worst_survivor_ratio: float | None
    answer: str
    leaves_majority: bool  # of the voters of the controller quorum, or these are not known
    single_replica_partitions: int  # of those that go offline, those with replication factor 1


@dataclass(frozen=True)
class ClusterAnswer:
    """The answer of `what-if` without --fail: every live broker, by id, and every rack, by name."""

    cluster: str
    partitions: int
    verdict: Verdict
    brokers: list[SingleFailure]
    racks: list[SingleFailure]
    left_out: SourceGaps
    survivor_loads: list[SurvivorLoad]  # one per failure of a broker and rate that is known
    outage: Outage
    quorum: QuorumVoters
    exposure: Exposure
    topics: list[AffectedTopic]  # now
    disks: list[DiskUse] = field(default_factory=list)  # of brokers, and of log dirs of those with several
    hypothesis: Hypothesis | None = None
    wait_or_move: WaitOrMove | None = None  # while brokers are down


def model_snapshot(
    snapshot: Snapshot, defaults: TopicDefaults, failed: Sequence[int] = ()
) -> tuple[pa.Table, Placement, SchemeAggregates]:
    """Return (partitions with known replicas; the same as arrays; failures of brokers, racks and `failed`, aggregated).

    Raises: SourceError if the sources show no replicas.
    """
    partitions = snapshot.partitions.filter(pc.is_valid(snapshot.partitions["replicas"])).combine_chunks()
    if not partitions.num_rows and not snapshot.is_empty:
        remedy = "Add the output of kafka-topics --describe"
        if snapshot.conflicting_listings:
            remedy = ". ".join(snapshot.conflicting_listings)
        elif snapshot.quarantined:
            first = snapshot.quarantined[0]
            reason = first["reasons"][0].removeprefix("unparsable: ")
            remedy = f"The first rejected record is {name_line(first['source'], first['line_number'])}: {reason}"
        elif snapshot.partitions.num_rows:
            remedy += ", or use `run` to see where Kafka's schemes would place them"
        findings = replace(find_findings(snapshot, defaults), unknown_brokers=(), unplaced_partitions=0)
        sentences = [f"{remedy}.", *(finding.text for finding in describe_source_findings(findings))]
        usable = " that can be used" if snapshot.quarantined else ""
        raise snapshot.explain_no_replicas(" ".join(sentences), usable)
    topics = fill_topics(snapshot.topics, defaults)
    ids = get_live_brokers(snapshot.brokers)
    custom = (tuple(sorted(failed)),) if failed else ()
    unknown = tuple(get_unknown_brokers(snapshot.brokers).tolist())
    facts = {row["broker_id"]: row for row in snapshot.brokers.select(["broker_id", "rack", "cordoned"]).to_pylist()}
    live = [facts[broker] for broker in ids.tolist()]
    cluster = Cluster(
        tuple(ids.tolist()),
        tuple(row["rack"] for row in live),
        custom_failures=custom,
        unknown=unknown,
        caps_min_isr=defaults.adapt_to(get_releases(snapshot.brokers)).cap_min_insync_replicas,
        cordoned=tuple(row["cordoned"] for row in live),
        quorum=find_voters(snapshot.quorum, snapshot.brokers),
    )
    shard = TopicShard(snapshot.cluster_id, cluster, topics, select_partitions(partitions))
    placement, scenarios = group_observed(shard), build_scenarios(snapshot.cluster_id, cluster, RandomSets())
    sums = aggregate_failures(placement, len(ids), scenarios, pairs=False)
    return partitions, placement, SchemeAggregates(ids, scenarios, sums)


def evaluate_failure(
    snapshot: Snapshot, failed: Sequence[int], defaults: TopicDefaults, capacities: SurvivorCapacities | None = None
) -> FailureAnswer:
    """Evaluate the failure of brokers together. Brokers that are down already change nothing.

    Raises: SourceError if the cluster has no such broker, or its sources show no replicas.
    """
    known = {*snapshot.brokers["broker_id"].to_pylist(), *snapshot.quorum["node_id"].to_pylist()} - {UNKNOWN_VOTER}
    for broker in failed:
        if broker not in known:
            names = ", ".join(map(str, sorted(known))) or "none"
            raise SourceError(snapshot.cluster_id, f"has no broker {broker}", f"Its brokers: {names}.")
    findings = find_findings(snapshot, defaults)
    partitions, placement, aggregates = model_snapshot(snapshot, defaults, failed)
    group, ids = placement.group, aggregates.ids.tolist()
    loads = next(loads for loads in scenario_failures(aggregates) if loads.outcomes.kind is ScenarioKind.CUSTOM)
    (row,) = outcome_rows(loads.outcomes, aggregates).to_pylist()
    fails = np.append(~loads.survives[0], False)  # NO_BROKER does not fail
    replica_fails = fails[group.broker]
    leader, elected_from = elect_after(group, replica_fails, row["leaves_majority"])
    if (waits := elected_from == WAITING).any():  # for its whole ISR
        whole = np.maximum(group.min_isr, count_in_sync(group, np.zeros_like(replica_fails), elected_from))
        group = group._replace(min_isr=np.where(waits, whole, group.min_isr))
        elected_from[waits] = ElectedFrom.UNCHANGED
    in_sync = count_in_sync(group, replica_fails, elected_from)
    takeovers, after = (
        {ids[b]: int(values[0, b, LEADERS]) for b in np.flatnonzero(loads.survives[0]).tolist()}
        for values in (loads.takeovers, loads.after)
    )
    takeovers = {broker: count for broker, count in takeovers.items() if count}
    topics = snapshot.topics
    size = group.size[(leader == NO_BROKER) & group.counted]
    racks = _count_brokers_of_racks(snapshot, findings)
    min_isr = find_min_isr(partitions["topic"], topics, group.min_isr)
    live = np.setdiff1d(aggregates.ids, get_unknown_brokers(snapshot.brokers))
    effects = find_effects(partitions, group, replica_fails, leader, in_sync, min_isr, live)
    is_single = find_single_isr(group, leader, in_sync) & (np.diff(group.offsets) == 1)
    same = ("survivors", "single_isr_partitions", "unclean_elections", "worst_survivor")
    summary = FailureTotals(
        answer=assess_failure(row).answer,
        **{name: row[name] for name in same},
        partitions=len(leader),
        leaders_moved=sum(takeovers.values()),
        offline_before=row["offline_partitions"] - row["newly_offline_partitions"],
        offline_after=row["offline_partitions"],
        under_min_isr_after=row["under_min_isr_partitions"],
        single_replica_partitions=int(is_single.sum()),
        effects=effects,
        causes=_list_causes(effects, failed, findings, racks),
        takeovers=takeovers,
        leaders_after=after,
        worst_survivor_ratio=_rounded(row["worst_survivor_ratio"]),
        size_bytes_offline=int(size[size >= 0].sum()) if placement.known[0] else None,
        uncounted_topics=tuple(topics["topic"].filter(pa.array(~defaults.find_counted(topics))).to_pylist()),
        gaps=find_gaps(snapshot, findings, defaults, failed),
    )
    id_of = {NO_BROKER: None, **dict(enumerate(ids))}
    leaders = ([id_of[i] for i in indices.tolist()] for indices in (group.leader, leader))
    keys = (partitions[name].to_pylist() for name in ("topic", "partition"))
    labels = (ElectedFrom(code).label for code in elected_from.tolist())
    changes = [PartitionChange(*change) for change in zip(*keys, *leaders, labels, strict=True)]
    survivors = list_survivor_loads(loads, aggregates, capacities)
    affected = list_affected_topics(partitions["topic"], group, leader, in_sync, elected_from)
    return FailureAnswer(snapshot.cluster_id, list(failed), changes, summary, survivors, affected)


def _list_causes(
    effects: FailureEffects, failed: Sequence[int], findings: ClusterFindings, racks: RackSizes
) -> tuple[VerdictPoint, ...]:
    """List why the failure has its effects; of brokers that are all down already, what is wrong now."""
    causes: Iterable[VerdictPoint]
    if not findings.quorum.elects_without(failed):
        causes = explain_lost_majority(findings.quorum, failed)
    elif set(failed) <= set(findings.down_brokers):
        causes = judge_present(findings)
    else:
        causes = effects.list_causes(sorted(set(failed)), findings.down_brokers, racks)
    return tuple(cause.name_server(findings.bootstrap_server, findings.release_before) for cause in causes)


def evaluate_cluster(
    snapshot: Snapshot,
    settings: Settings,
    measured: Snapshot | None = None,
    capacities: SurvivorCapacities | None = None,
) -> ClusterAnswer:
    """Judge a cluster as `what-if` does: its failures, disks and capacities, and what is down now.

    measured: the cluster as its sources show it, if the snapshot is it in another state. capacities: None = those that
    the settings name for its brokers.
    Raises: SourceError if its sources show no replicas.
    """
    disks = list_disk_uses(snapshot, measured or snapshot, settings)
    lost = list_disk_failures(snapshot, measured or snapshot, settings, disks) if disks else ()
    if capacities is None:
        capacities = read_survivor_capacities(snapshot, settings.capacity)
    answer = replace(evaluate_brokers(snapshot, settings.topics.defaults, capacities, lost), disks=disks)
    verdict = answer.verdict.name_start_order([start.broker for start in answer.outage.start_order])
    return replace(answer, verdict=verdict)


def evaluate_brokers(
    snapshot: Snapshot,
    defaults: TopicDefaults,
    capacities: SurvivorCapacities | None = None,
    disk_failures: Sequence[Mapping[str, Any]] = (),
) -> ClusterAnswer:
    """Evaluate the failure of each live broker and rack, and judge the cluster. Brokers of unknown state count as live.

    disk_failures: see list_disk_failures.

    Raises: SourceError if its sources show no replicas.
    """
    partitions, placement, aggregates = model_snapshot(snapshot, defaults)
    failures = single_failures(aggregates)
    by_rack = (loads.outcomes for loads in scenario_failures(aggregates) if loads.outcomes.kind is ScenarioKind.RACK)
    rows = [row for one in (failures.outcomes, *by_rack) for row in outcome_rows(one, aggregates).to_pylist()]
    now: list[dict[str, Any]] = cluster_hotspot_rows(aggregates, hot_ratio=1.0).to_pylist()
    findings = find_findings(snapshot, defaults)
    survivors = list_survivor_loads(failures, aggregates, capacities)
    over = [one.row for one in survivors if one.is_over]
    evidence = make_evidence(now[0] if now else None, rows, findings, disk_failures, over)
    verdict = judge_cluster(evidence)
    gaps = find_gaps(snapshot, findings, defaults)
    group = placement.group
    is_single = group.counted & (np.diff(group.offsets) == 1) & (group.leader != NO_BROKER)
    led = np.bincount(group.leader[is_single], minlength=len(aggregates.ids))
    single = dict(zip(aggregates.ids.tolist(), led.tolist(), strict=True))
    brokers = [_describe(row, single) for row in evidence.broker_failures]
    racks = [_describe(row, single) for row in evidence.rack_failures]
    outage = find_outage(snapshot, defaults)
    voters, exposure = find_voters(snapshot.quorum, snapshot.brokers), _measure_exposure(findings, brokers)
    unchanged = np.full_like(group.leader, ElectedFrom.UNCHANGED)
    in_sync = count_in_sync(group, np.zeros_like(group.broker, dtype=np.bool_), unchanged)
    topics = list_affected_topics(partitions["topic"], group, group.leader, in_sync, unchanged)
    rest = (survivors, outage, voters, exposure, topics)
    return ClusterAnswer(snapshot.cluster_id, partitions.num_rows, verdict, brokers, racks, gaps, *rest)


def _measure_exposure(findings: ClusterFindings, brokers: Sequence[SingleFailure]) -> Exposure:
    return Exposure(
        offline_partitions=findings.find(PartitionIssue.OFFLINE).partitions,
        under_min_isr_partitions=findings.find(PartitionIssue.UNDER_MIN_ISR).partitions,
        under_replicated_partitions=findings.find(PartitionIssue.UNDER_REPLICATED).partitions,
        newly_offline_partitions=max((row.newly_offline_partitions for row in brokers), default=0),
        newly_under_min_isr_partitions=max((row.newly_under_min_isr_partitions for row in brokers), default=0),
    )


def _count_brokers_of_racks(snapshot: Snapshot, findings: ClusterFindings) -> RackSizes:
    down = set(findings.down_brokers)
    racks = dict(zip(*(snapshot.brokers[name].to_pylist() for name in ("broker_id", "rack")), strict=True))
    live = Counter(rack for broker, rack in racks.items() if rack is not None and broker not in down)
    return RackSizes(live, racks.keys(), len(down), len(findings.unknown_brokers), findings.replication_factor)


def _describe(row: Mapping[str, Any], single: Mapping[int, int]) -> SingleFailure:
    """Describe a failure. single: partitions with replication factor 1 that each broker leads."""
    more = {
        "brokers": len(row["failed_brokers"]),
        "worst_survivor_ratio": _rounded(row["worst_survivor_ratio"]),
        "answer": assess_failure(row).answer,
        "single_replica_partitions": sum(single[broker] for broker in row["failed_brokers"]),
    }
    values = {**row, **more}
    return SingleFailure(**{one.name: values[one.name] for one in fields(SingleFailure)})


def _rounded(ratio: float | None) -> float | None:
    return None if ratio is None else round(ratio, _DIGITS)
