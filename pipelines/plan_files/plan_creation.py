"""Create a plan from a snapshot: solve it, measure it, and write its files."""

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow.compute as pc

from pipelines.errors import Infeasible, SourceError
from pipelines.ingest.snapshot import Snapshot
from pipelines.plan_files.plan_folder import check_plan_folder, write_plan
from pipelines.plan_files.plan_json import NotInRollback, list_not_in_rollback, list_waves, to_plain_json
from udfs.json_output import json_inline, json_key, json_object, to_json
from udfs.planning.certificates import Certificate
from udfs.planning.cluster_model import ClusterModel, build_model
from udfs.planning.constraints import InfeasibleRequest, check_request, select_target_brokers
from udfs.planning.goal_planners import freeze_partitions_on_down_brokers, make_plan
from udfs.planning.plan_metrics import MetricOptions, PlanMetrics
from udfs.planning.plan_request import PlanRequest
from udfs.planning.plan_summary import PlanSummary, count_frozen_partitions, summarize_plan
from udfs.planning.waves import WaveLimits


@dataclass(frozen=True)
class CreatedPlan:
    """A plan whose files are written."""

    request: PlanRequest  # What was asked for
    summary: PlanSummary  # The proposal, its waves and metrics
    files: tuple[Path, ...]  # The files, in order
    unplaced: int  # Partitions without known replicas
    unsized: int  # Other partitions without a known size
    quarantined: int  # Records of the source that were rejected
    seconds: dict[str, float]  # How long each part of the work took


@json_object
class PlanFacts:
    """What plan.json says beside the assignment: the same for the same cluster, request and seed."""

    cluster: str
    goal: str
    request: PlanRequest = json_key("wishes")
    target_brokers: list[int] = json_key("chosen_brokers")
    frozen_partitions: dict[str, int] = json_key("left_alone")
    certificate: Certificate
    metrics: PlanMetrics = json_inline()


@json_object
class PlanAnswer:
    """The answer of `plan --json`: the same for the same plan, so without the time that it took."""

    facts: PlanFacts = json_inline()
    waves: list[dict[str, Any]]
    not_in_rollback: NotInRollback
    files: list[str]


def build_snapshot_model(
    snapshot: Snapshot, default_min_isr: int, exclude_topics: tuple[str, ...] = ()
) -> ClusterModel:
    """Build the model of a snapshot.

    Raises:
        SourceError: It shows no replicas, or an excluded topic does not exist.
    """
    if not pc.any(pc.is_valid(snapshot.partitions["replicas"])).as_py():
        remedy = "Add a kafka-topics --describe of the cluster, or another source that shows them"
        raise SourceError(snapshot.cluster_id, "its sources show no replicas", remedy)
    absent = sorted(set(exclude_topics) - set(snapshot.topics["topic"].to_pylist()))
    if absent:
        raise SourceError(snapshot.cluster_id, f"has no topic {', '.join(absent[:20])}", "See inspect for its topics")
    tables = (snapshot.brokers, snapshot.partitions, snapshot.topics)
    return build_model(snapshot.cluster_id, *tables, exclude_topics, default_min_isr)


def create_plan(
    snapshot: Snapshot,
    request: PlanRequest,
    out: Path,
    limits: WaveLimits,
    options: MetricOptions,
    default_min_isr: int,
) -> CreatedPlan:
    """Create the plan for a request.

    Args:
        snapshot: The cluster.
        request: What to plan.
        out: The folder that the files are written to.
        limits: Limits of waves.
        options: Options of the metrics.
        default_min_isr: min.insync.replicas of topics whose sources show none.

    Raises:
        Infeasible: No plan meets the constraints; nothing is written.
        SourceError: The request makes no sense in this cluster.
    """
    check_plan_folder(out.resolve())
    model = build_snapshot_model(snapshot, default_min_isr, request.exclude_topics)
    _check_loads(model, request)
    problems = check_request(model, request)
    if problems:
        raise SourceError(snapshot.cluster_id, "; ".join(problems), "See inspect for its brokers and topics")
    model = freeze_partitions_on_down_brokers(model, request.goal)
    started = perf_counter()
    try:
        proposal = make_plan(model, request)
    except InfeasibleRequest as error:
        reasons = "\n  ".join(error.reasons)
        raise Infeasible(f"{snapshot.cluster_id}: no plan for {request.goal}:\n  {reasons}") from error
    solved = perf_counter()
    summary = summarize_plan(model, request, proposal, limits, options)
    measured = perf_counter()
    files = write_plan(out, model, proposal, summary.waves, to_json(collect_facts(request, summary)))
    written = perf_counter()
    sizes = snapshot.partitions["size_bytes"].filter(pc.is_valid(snapshot.partitions["replicas"]))
    return CreatedPlan(
        request,
        summary,
        tuple(files),
        unplaced=snapshot.partitions.num_rows - model.partitions,
        unsized=int(sizes.null_count),
        quarantined=len(snapshot.quarantined),
        seconds={"solving": solved - started, "measuring": measured - solved, "writing": written - measured},
    )


def _check_loads(model: ClusterModel, request: PlanRequest) -> None:
    """Check that the sources show the loads that the request is about."""
    if request.max_bytes is not None and not model.known[0]:
        remedy = "Use --max-moves, or add the output of kafka-log-dirs --describe"
        raise SourceError(model.cluster_id, "its sources show no sizes, so --max-bytes cannot be kept to", remedy)
    if request.by_bytes and not model.known[2]:
        remedy = "Leave out --by-bytes, or add a source with rates, such as a list of topics or a model"
        raise SourceError(model.cluster_id, "its sources show no bytes out, which --by-bytes is about", remedy)


def collect_facts(request: PlanRequest, summary: PlanSummary) -> PlanFacts:
    """Collect what plan.json says beside the assignment."""
    model, proposal = summary.model, summary.proposal
    return PlanFacts(
        model.cluster_id,
        request.goal,
        request,
        select_target_brokers(model, request),
        count_frozen_partitions(model),
        proposal.certificate,
        summary.metrics,
    )


def build_answer(plan: CreatedPlan) -> dict[str, Any]:
    """Return the object that `plan --json` writes."""
    model, proposal, waves = plan.summary.model, plan.summary.proposal, plan.summary.waves
    answer: dict[str, Any] = to_plain_json(
        PlanAnswer(
            collect_facts(plan.request, plan.summary),
            list_waves(model, waves),
            list_not_in_rollback(model, proposal),
            [path.name for path in plan.files],
        )
    )
    return answer
