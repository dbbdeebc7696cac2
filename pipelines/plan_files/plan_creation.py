"""Create a plan from a snapshot: solve it, measure it, write its files, and continue it where a budget ended."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow.compute as pc
from pydantic import Field

from pipelines.errors import Infeasible, SourceError
from pipelines.ingest.merge.live_brokers import get_down_brokers
from pipelines.ingest.snapshot_reader import Snapshot
from pipelines.plan_files import plan_writer
from pipelines.plan_files.fault_sentences import describe_running
from pipelines.plan_files.plan_judgement import (
    PlanJudgement,
    describe_baseline,
    judge_planned_waves,
    judge_rollback,
    measure_disk_room,
)
from pipelines.plan_files.plan_reader import REMEDY, PlanDocument, parse_document, read_text
from pipelines.plan_files.plan_writer import PLAN, to_plain_json
from pipelines.plan_files.planned_cluster import NewBroker, list_added_brokers, select_reassigned
from pipelines.verdict.cluster_evidence import name_with_noun
from udfs.failures.topic_defaults import TopicDefaults
from udfs.json_answers import to_json
from udfs.planning.alternative_plans import (
    FasterPlan,
    UrgentRepair,
    find_cheaper_plan,
    find_faster_plans,
    find_urgent_repair,
)
from udfs.planning.bottleneck import Bottleneck, find_bottleneck
from udfs.planning.certificates import CONTINUES, Certificate
from udfs.planning.cluster_model import ClusterModel, ProposedAssignment, build_model
from udfs.planning.constraints import (
    COPYING_GOALS,
    InfeasibleRequest,
    check_request,
    list_emptied_brokers,
    select_target_brokers,
)
from udfs.planning.later_lists import count_later_copies, list_later
from udfs.planning.log_dir_balance import add_log_dirs
from udfs.planning.plan_judge import build_judge_options
from udfs.planning.plan_making import freeze_partitions, make_plan
from udfs.planning.plan_metrics import MetricOptions, PlanMetrics, PlanSummary, count_frozen_partitions, summarize_plan
from udfs.planning.plan_request import LaterLists, PlanRequest
from udfs.planning.plan_states import OVERFLOWS
from udfs.planning.planned_waves import DiskGrowth, PlannedWaves, find_disk_growth
from udfs.planning.rack_naming import UNKNOWN_RACK
from udfs.planning.waves import WaveLimits, find_reassigned_partitions
from udfs.wording import count_of, is_or_are


@dataclass(frozen=True)
class CreatedPlan:
    """A plan whose files are written."""

    summary: PlanSummary
    facts: "PlanFacts"
    files: tuple[Path, ...]  # In order
    unplaced: int  # Partitions without known replicas
    seconds: dict[str, float]  # How long each part of the work took


_STRICT = "replicas are copied only to disks that have room before others leave them, as both exist for a while"


@dataclass(frozen=True)
class PlanFacts:
    """What plan.json says beside the assignment: the same for the same cluster, request and seed."""

    cluster: str
    # The id that Kafka gave the cluster, and those of the topics that the plan changes, as far as sources show them
    kafka_cluster_id: str | None
    topic_ids: dict[str, str]
    goal: str
    request: PlanRequest
    target_brokers: list[int]
    added_brokers: list[NewBroker]  # Those that no source shows
    frozen_partitions: dict[str, int]
    certificate: Certificate
    metrics: PlanMetrics
    judgement: PlanJudgement  # of its steps, by the state of the cluster at each
    rollback: PlanJudgement  # of rollback.json, once the plan is complete
    bottleneck: Bottleneck | None  # None = copies are spread over brokers, short, or of unknown size
    faster_plans: tuple[FasterPlan, ...]  # Faster alternatives, where there is a bottleneck
    cheaper_plan: FasterPlan | None  # One that copies less, where the target after failures costs many bytes
    disk_growth: tuple[DiskGrowth, ...]  # Brokers whose disk grows most
    # The part of a repair to do first, or None
    urgent_repair: UrgentRepair | None = None
    preceding_plans: tuple[str, ...] = ()  # Folders of the plans that it was made after
    next_steps: tuple[str, ...] = ()  # What is to be done after it, in sentences


def build_snapshot_model(
    snapshot: Snapshot, defaults: TopicDefaults, exclude_topics: tuple[str, ...] = ()
) -> ClusterModel:
    """Build the model of a snapshot; raise SourceError if it has no replicas, or lacks an excluded topic."""
    if not pc.any(pc.is_valid(snapshot.partitions["replicas"])).as_py():
        remedy = "Add a kafka-topics --describe of the cluster, or another source that shows them"
        raise snapshot.explain_no_replicas(remedy)
    absent = sorted(set(exclude_topics) - set(snapshot.topics["topic"].to_pylist()))
    if absent:
        problem = f"has no topic {', '.join(absent[:20])}"
        raise SourceError(snapshot.cluster_id, problem, "Run inspect to list its topics")
    tables = (snapshot.brokers, snapshot.partitions, snapshot.topics)
    model = build_model(snapshot.cluster_id, *tables, exclude_topics, defaults)
    return add_log_dirs(model, snapshot.log_dirs, snapshot.partitions, snapshot.stray_logs)


def create_plan(
    snapshot: Snapshot,
    request: PlanRequest,
    out: Path,
    limits: WaveLimits,
    options: MetricOptions,
    defaults: TopicDefaults,
    preceding_plans: Sequence[Path] = (),
    source: Snapshot | None = None,
) -> CreatedPlan:
    """Create a plan, and write it to the folder `out`. Raise Infeasible, or SourceError for a wrong request.

    preceding_plans: folders of those after which the snapshot is. source: the cluster before them.
    """
    plan_writer.check_plan_folder(out.resolve())
    request = continue_plan(request, preceding_plans)
    summary, seconds = solve_plan(snapshot, request, limits, options, defaults)
    *disks, _ = measure_disk_room(snapshot, summary.model, request.max_disk_ratio, request.broker_bytes or 0)
    judge_options = build_judge_options(summary.model, request, limits.throttle_bytes_per_s, *disks)
    judgement = judge_planned_waves(summary, judge_options)
    if _overfills(judgement) and request.goal in COPYING_GOALS:  # while replicas that leave are still there
        careful = replace(request, strict_disks=True)
        other, other_seconds = solve_plan(snapshot, careful, limits, options, defaults)
        other_judgement = judge_planned_waves(other, judge_options)
        if not _overfills(other_judgement):
            summary, judgement, request = other, other_judgement, careful
            seconds = {name: seconds[name] + other_seconds[name] for name in seconds}
    measured = perf_counter()
    bottleneck = find_bottleneck(summary, request)
    faster = find_faster_plans(summary, request, bottleneck) if bottleneck else ()
    cheaper = find_cheaper_plan(summary, request)
    explained = perf_counter()
    model = summary.model
    judgement = begin_with_earlier_plans(judgement, source or snapshot, snapshot)
    waits = _describe_running(snapshot) if summary.waves.waves else ()
    continued = describe_continuation(request, summary, preceding_plans)
    strict = [_STRICT] if request.strict_disks else []
    weaker = (*strict, *_describe_unknown_racks(snapshot, model), *summary.metrics.explain_weaker_failures())
    notes, baseline = (*judgement.notes, *weaker, *waits, *continued), describe_baseline(preceding_plans)
    judgement = replace(judgement, notes=notes, baseline=baseline)
    facts = PlanFacts(
        cluster=model.cluster_id,
        kafka_cluster_id=snapshot.kafka_cluster_id,
        topic_ids=find_topic_ids(summary, snapshot),
        goal=request.goal,
        request=replace(request, later=None, strict_disks=False),
        target_brokers=select_target_brokers(model, request),
        added_brokers=list_added_brokers(snapshot),
        frozen_partitions=count_frozen_partitions(model),
        certificate=summary.proposal.certificate,
        metrics=summary.metrics,
        judgement=judgement,
        rollback=judge_rollback(summary, judge_options),
        bottleneck=bottleneck,
        faster_plans=faster,
        cheaper_plan=cheaper,
        disk_growth=find_disk_growth(summary, disks[0]),
        urgent_repair=find_urgent_repair(model, request, summary.proposal, summary.waves.limits),
        preceding_plans=tuple(map(str, preceding_plans)),
        next_steps=describe_next_steps(request, summary),
    )
    files = plan_writer.write_plan(out, summary, to_json(facts))
    return CreatedPlan(
        summary,
        facts,
        tuple(files),
        unplaced=snapshot.partitions.num_rows - model.partitions,
        seconds=seconds | {"alternatives": explained - measured, "writing": perf_counter() - explained},
    )


def _overfills(judgement: PlanJudgement) -> bool:
    """Return whether a disk would be overfull at some time."""
    return any(finding.fault in OVERFLOWS for finding in judgement.findings)


def _describe_unknown_racks(snapshot: Snapshot, model: ClusterModel) -> Iterator[str]:
    """Say which live brokers have no rack, where others have one, and what the model makes of that."""
    racks = zip(*(snapshot.brokers[name].to_pylist() for name in ("broker_id", "rack", "live")), strict=True)
    live = {broker: rack for broker, rack, is_live in racks if is_live is not False}
    unknown = sorted(broker for broker, rack in live.items() if rack is None)
    if unknown and len(unknown) < len(live):
        effect = "as if in a rack apart" if UNKNOWN_RACK in model.rack_names else "all racks are ignored"
        add = "add a file with broker_id,rack to the source"
        yield f"no source shows the rack of {name_with_noun(unknown)}: {effect}; {add}"


def _describe_running(snapshot: Snapshot) -> Iterator[str]:
    """Say for which reassignments a plan waits, and which of them are stuck."""
    names, down = ["topic", "partition", "adding_replicas"], set(get_down_brokers(snapshot.brokers).tolist())
    rows = select_reassigned(snapshot.partitions).select(names).to_pylist()
    waiting = {(row["topic"], row["partition"]): down.intersection(row["adding_replicas"] or ()) for row in rows}
    stuck = [key for key, brokers in waiting.items() if brokers]
    yield from describe_running(waiting, stuck, sorted(set().union(*waiting.values())))


def solve_plan(
    snapshot: Snapshot, request: PlanRequest, limits: WaveLimits, options: MetricOptions, defaults: TopicDefaults
) -> tuple[PlanSummary, dict[str, float]]:
    """Return (a plan, the seconds of each part). Raise Infeasible, or SourceError for a wrong request."""
    started = perf_counter()
    model, proposal = propose_plan(snapshot, request, defaults)
    solved = perf_counter()
    added = list_added_brokers(snapshot)
    summary = summarize_plan(model, request, proposal, limits, options, [broker.broker_id for broker in added])
    return summary, {"solving": solved - started, "measuring": perf_counter() - solved}


def propose_plan(
    snapshot: Snapshot, request: PlanRequest, defaults: TopicDefaults
) -> tuple[ClusterModel, ProposedAssignment]:
    """Return the model of a snapshot, and what a plan makes of it. Raise Infeasible, or SourceError as solve_plan."""
    model = build_snapshot_model(snapshot, defaults, request.exclude_topics)
    room, _, excess = measure_disk_room(snapshot, model, request.max_disk_ratio, request.broker_bytes or 0)
    model = replace(model, disk_room=room, disk_excess=excess)
    if (request.max_bytes is not None or request.max_broker_bytes is not None) and not model.known[0]:
        option = "--max-time" if request.max_bytes is None else "--max-bytes"
        remedy = "Use --max-moves, or add the output of kafka-log-dirs --describe"
        raise SourceError(model.cluster_id, f"its sources show no sizes, so {option} cannot be applied", remedy)
    if request.by_bytes and not model.known[2]:
        remedy = "Leave out --by-bytes, or add a source with rates, such as a list of topics or a model"
        raise SourceError(model.cluster_id, "its sources show no bytes out, which --by-bytes balances", remedy)
    if problems := check_request(model, request):
        raise SourceError(snapshot.cluster_id, "; ".join(problems), "Run inspect to list its brokers and topics")
    model = freeze_partitions(model, request)
    try:
        return model, make_plan(model, request)
    except InfeasibleRequest as error:
        reasons = (f"  {reason}" for reason in error.reasons)
        raise Infeasible(f"{snapshot.cluster_id}: no plan for {request.goal}:", *reasons) from error


def find_topic_ids(summary: PlannedWaves, snapshot: Snapshot) -> dict[str, str]:
    """Return the ids of the topics that a plan changes, by name, as far as sources show them."""
    model = summary.model
    changed = find_reassigned_partitions(model, summary.proposal) | summary.elections.elected
    names = {model.topic_names[topic] for topic in np.unique(model.topic[changed]).tolist()}
    ids = zip(snapshot.topics["topic"].to_pylist(), snapshot.topics["topic_id"].to_pylist(), strict=True)
    return {name: topic_id for name, topic_id in sorted(ids) if name in names and topic_id is not None}


def build_answer(plan: CreatedPlan) -> dict[str, Any]:
    """Return the object that `plan --json` writes: the same for the same plan, so without the time that it took."""
    model, proposal = plan.summary.model, plan.summary.proposal
    facts: dict[str, Any] = plan_writer.to_plain_json(plan.facts)
    omitted: dict[str, Any] = {
        "not_in_rollback": to_json(plan_writer.list_not_in_rollback(model, proposal)),
        "not_elected": to_json(plan_writer.list_not_elected(plan.summary)),
    }
    files = [path.name for path in plan.files]
    return {**facts, "waves": plan_writer.list_waves(plan.summary), **omitted, "files": files}


_MAY_DIFFER = {"max_bytes", "max_moves", "max_broker_bytes", "seed", "brokers", "later"}


class _Later(PlanDocument):
    topic: str
    partition: int
    before: list[int]
    after: list[int]


class _EarlierPlan(PlanDocument):
    request: dict[str, Any] = Field(default_factory=dict)
    target_brokers: list[int] = Field(default_factory=list)
    later: list[_Later] | None = None


def continue_plan(request: PlanRequest, folders: Sequence[Path]) -> PlanRequest:
    """Return the request with what the last plan left, if that is for the same goal within another budget at most.

    Raises: SourceError if its plan.json is damaged.
    """
    if not folders:
        return request
    path = folders[-1] / PLAN
    plan = parse_document(path, read_text(path, REMEDY), _EarlierPlan, REMEDY)
    now = to_plain_json(request)
    differs = any(now[name] != plan.request.get(name) for name in now.keys() - _MAY_DIFFER)
    if plan.later is None or differs or (request.brokers and {*request.brokers} != {*plan.target_brokers}):
        return request
    columns = ([getattr(one, name) for one in plan.later] for name in ("topic", "partition"))
    lists = (tuple(tuple(getattr(one, name)) for one in plan.later) for name in ("before", "after"))
    return replace(request, later=LaterLists(*map(tuple, columns), *lists))


def find_unemptied(request: PlanRequest, plan: PlannedWaves) -> list[int]:
    """Find the brokers, by their ids, that a plan is to empty, and does not."""
    emptied = np.isin(plan.model.broker_ids, list_emptied_brokers(plan.model, request))
    return plan.model.ids(np.unique(plan.proposal.replicas[emptied[plan.proposal.replicas]]))


def describe_next_steps(request: PlanRequest, plan: PlannedWaves) -> tuple[str, ...]:
    """Say which brokers a plan does not empty for its budget: a sentence; nothing without any."""
    left = find_unemptied(request, plan) if request.has_budget and plan.proposal.certificate.missed else []
    text = f"within its budget the plan does not empty {name_with_noun(left)}, which apply does not cordon yet"
    return (f"{text}: {CONTINUES}",) if left else ()


def describe_continuation(request: PlanRequest, plan: PlannedWaves, folders: Sequence[Path]) -> list[str]:
    """Say in a sentence whether a plan does what the last plan before it left; nothing if that left nothing for it."""
    if request.later is None:
        return []
    if not getattr(plan.proposal.certificate, "continues", False):
        fault = "what that leaves no longer fits the cluster, or no copy of it fits the budget"
        return [f"this is a new plan, which does not continue the one in {folders[-1]}: {fault}"]
    left = count_later_copies(list_later(plan.model, plan.proposal) or LaterLists())
    total = count_of(count_later_copies(request.later), "partition")
    rest = f"{left} of them {is_or_are(left)} left for another plan" if left else "copies all of them"
    return [f"continues the plan in {folders[-1]}, which left {total} to copy: {rest}"]


def begin_with_earlier_plans(judgement: PlanJudgement, source: Snapshot, start: Snapshot) -> PlanJudgement:
    """Begin the scenarios of a plan with what the plans before it change, as they are replayed on the source.

    start: the cluster that the plan is judged on.
    """
    if source.partitions is start.partitions:
        return judgement
    names = ["topic", "partition", "replicas", "isr"]
    now, then = (
        {f"{topic}-{partition}": lists for topic, partition, *lists in map(dict.values, rows)}
        for rows in (each.partitions.select(names).to_pylist() for each in (source, start))
    )
    findings = list(judgement.findings)
    for i, finding in enumerate(findings):
        name = next(iter(finding.first_partitions), "")
        if finding.scenario and now[name][0] != then[name][0]:
            (_, before), (replicas, after) = now[name], then[name]
            in_sync = dict.fromkeys([*(before or ()), *after])
            reassign, isr = (",".join(map(str, ids)) for ids in (replicas, in_sync))
            events = (f"  - t=0 reassign {name} to {reassign}", f"  - t=1 isr {name} {isr}")
            findings[i] = replace(finding, scenario=(finding.scenario[0], *events, *finding.scenario[1:]))
    return replace(judgement, findings=tuple(findings))
