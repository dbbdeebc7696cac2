"""Create a plan from a snapshot: solve it, measure it, and write its files."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow.compute as pc

from pipelines.errors import Infeasible, SourceError
from pipelines.ingest.snapshot_reader import Snapshot
from pipelines.plan_files import plan_writer
from pipelines.plan_files.continued_plans import (
    begin_with_earlier_plans,
    continue_plan,
    describe_continuation,
    describe_next_steps,
)
from pipelines.plan_files.fault_sentences import describe_running
from pipelines.plan_files.new_brokers import NewBroker, list_added_brokers
from pipelines.plan_files.plan_judgement import (
    PlanJudgement,
    describe_baseline,
    judge_planned_waves,
    judge_rollback,
    measure_disk_room,
)
from pipelines.plan_files.running_reassignments import select_reassigned
from udfs.failures.topic_defaults import TopicDefaults
from udfs.json_answers import to_json
from udfs.planning.bottleneck import Bottleneck, find_bottleneck
from udfs.planning.certificates import Certificate
from udfs.planning.cluster_model import ClusterModel, ProposedAssignment, build_model
from udfs.planning.constraints import InfeasibleRequest, check_request, select_target_brokers
from udfs.planning.disk_growth import DiskGrowth, find_disk_growth
from udfs.planning.faster_plans import FasterPlan, find_cheaper_plan, find_faster_plans
from udfs.planning.model_log_dirs import add_log_dirs
from udfs.planning.plan_judge import build_judge_options
from udfs.planning.plan_making import freeze_partitions, make_plan
from udfs.planning.plan_metrics import MetricOptions, PlanMetrics, PlanSummary, count_frozen_partitions, summarize_plan
from udfs.planning.plan_request import PlanRequest
from udfs.planning.planned_waves import PlannedWaves
from udfs.planning.urgent_repair import UrgentRepair, find_urgent_repair
from udfs.planning.waves import WaveLimits, find_reassigned_partitions


@dataclass(frozen=True)
class CreatedPlan:
    """A plan whose files are written."""

    summary: PlanSummary
    facts: "PlanFacts"
    files: tuple[Path, ...]  # In order
    unplaced: int  # Partitions without known replicas
    seconds: dict[str, float]  # How long each part of the work took


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
    measured = perf_counter()
    bottleneck = find_bottleneck(summary, request)
    faster = find_faster_plans(summary, request, bottleneck) if bottleneck else ()
    cheaper = find_cheaper_plan(summary, request)
    explained = perf_counter()
    model = summary.model
    room = measure_disk_room(snapshot, model, request.max_disk_ratio, request.broker_bytes or 0)
    judge_options = build_judge_options(model, request, limits.throttle_bytes_per_s, room)
    judgement = judge_planned_waves(summary, judge_options)
    judgement = begin_with_earlier_plans(judgement, source or snapshot, snapshot)
    running = select_reassigned(snapshot.partitions).select(["topic", "partition"]).to_pylist()
    waits = describe_running([(row["topic"], row["partition"]) for row in running if summary.waves.waves])
    continued = describe_continuation(request, summary, preceding_plans)
    notes, baseline = (*judgement.notes, *waits, *continued), describe_baseline(preceding_plans)
    judgement = replace(judgement, notes=notes, baseline=baseline)
    facts = PlanFacts(
        cluster=model.cluster_id,
        kafka_cluster_id=snapshot.kafka_cluster_id,
        topic_ids=find_topic_ids(summary, snapshot),
        goal=request.goal,
        request=replace(request, later=None),
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
        disk_growth=find_disk_growth(summary, room),
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
