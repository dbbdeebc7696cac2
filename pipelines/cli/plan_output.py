"""`plan`: from what is wrong to files that Kafka's own tools take, with what was proved; and what became of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow.compute as pc

from pipelines.cli.units import many
from pipelines.config.plan_settings import effort_of, limits_of
from pipelines.config.settings import Settings
from pipelines.errors import Infeasible, SourceError
from pipelines.ingest.snapshot import Snapshot
from pipelines.plan_files.plan_check import check_plan
from pipelines.plan_files.plan_folder import reject_other, write_plan
from pipelines.plan_files.plan_json import not_in_rollback, plain, waves_told
from pipelines.plan_files.plan_progress import CHANGED, IN_FLIGHT, PlanState
from udfs.planning import constraints
from udfs.planning.cluster_model import FROZEN_WORDS, ClusterModel, model_of
from udfs.planning.cluster_model import IN_FLIGHT as MOVING
from udfs.planning.plan_maker import make_plan, without_frozen
from udfs.planning.plan_request import PlanRequest
from udfs.planning.plan_summary import Planned, frozen_counts, told
from udfs.planning.request_checks import chosen_brokers, nonsense

REJECTED = (CHANGED, IN_FLIGHT)  # states that a plan must not be executed in


@dataclass(frozen=True)
class Made:
    """A plan that was made.

    files: written, in order.   unplaced: partitions without known replicas.   unsized: others, without a known size.
    seconds: {part of the work: how long}.
    """

    request: PlanRequest
    planned: Planned
    files: tuple[Path, ...]
    unplaced: int
    unsized: int
    quarantined: int
    seconds: dict[str, float]


def model_in(snapshot: Snapshot, settings: Settings, exclude_topics: tuple[str, ...] = ()) -> ClusterModel:
    """The model that a snapshot is; SourceError if it shows no replicas, or an excluded topic is not there."""
    placed = int(pc.sum(pc.is_valid(snapshot.partitions["replicas"])).as_py() or 0)
    if not placed:
        remedy = "Add a kafka-topics --describe of the cluster, or another source that shows them"
        raise SourceError(snapshot.cluster_id, "its sources show no replicas", remedy)
    absent = sorted(set(exclude_topics) - set(snapshot.topics["topic"].to_pylist()))
    if absent:
        raise SourceError(snapshot.cluster_id, f"has no topic {', '.join(absent[:20])}", "See inspect for its topics")
    tables = (snapshot.brokers, snapshot.partitions, snapshot.topics)
    return model_of(snapshot.cluster_id, *tables, exclude_topics, settings.topics.min_insync_replicas)


def plan(snapshot: Snapshot, request: PlanRequest, settings: Settings, out: Path) -> Made:
    """The plan for a request, written to the folder `out`; Infeasible, and nothing is written, if there is none."""
    reject_other(out.resolve())
    model = model_in(snapshot, settings, request.exclude_topics)
    _reject_unknown(model, request)
    wrong = nonsense(model, request)
    if wrong:
        raise SourceError(snapshot.cluster_id, "; ".join(wrong), "See inspect for its brokers and topics")
    model = without_frozen(model, request.goal)
    began = perf_counter()
    try:
        proposal = make_plan(model, request)
    except constraints.Infeasible as error:
        reasons = "\n  ".join(error.reasons)
        raise Infeasible(f"{snapshot.cluster_id}: no plan for {request.goal}:\n  {reasons}") from error
    solved = perf_counter()
    found = told(model, request, proposal, limits_of(settings), effort_of(settings))
    measured = perf_counter()
    files = write_plan(out, model, found.proposal, found.waves, facts(request, found))
    seconds = {"solving": solved - began, "measuring": measured - solved, "writing": perf_counter() - measured}
    return Made(
        request,
        found,
        tuple(files),
        snapshot.partitions.num_rows - model.partitions,
        _unsized(snapshot),
        len(snapshot.quarantined),
        seconds,
    )


def _reject_unknown(model: ClusterModel, request: PlanRequest) -> None:
    """Nothing; a SourceError if the request is about bytes that no source tells."""
    if request.max_bytes is not None and not model.known[0]:
        remedy = "Use --max-moves, or add what kafka-log-dirs --describe prints"
        raise SourceError(model.cluster_id, "its sources show no sizes, so --max-bytes cannot be kept to", remedy)
    if request.by_bytes and not model.known[2]:
        remedy = "Leave --by-bytes away, or add a source with rates, as a list of topics or a model"
        raise SourceError(model.cluster_id, "its sources show no bytes out, which --by-bytes is about", remedy)


def _unsized(snapshot: Snapshot) -> int:
    partitions = snapshot.partitions
    return int(partitions["size_bytes"].filter(pc.is_valid(partitions["replicas"])).null_count)


def check(snapshot: Snapshot, directory: Path, settings: Settings) -> PlanState:
    """What has become of the plan in a folder."""
    return check_plan(directory, model_in(snapshot, settings), snapshot.partitions)


def facts(request: PlanRequest, found: Planned) -> dict[str, Any]:
    """What stands in plan.json beside the assignment: the same for the same cluster, request and seed."""
    model, proposal = found.model, found.proposal
    return {
        "cluster": model.cluster_id,
        "goal": request.goal,
        "request": asdict(request),
        "chosen_brokers": chosen_brokers(model, request),
        "left_alone": frozen_counts(model),
        "certificate": dict(proposal.certificate),
        **found.metrics,
    }


def answer(made: Made) -> dict[str, Any]:
    """The object that `plan --json` writes: no times of its making, so that the same plan gives the same."""
    model, proposal, waves = made.planned.model, made.planned.proposal, made.planned.waves
    found: dict[str, Any] = plain(facts(made.request, made.planned))
    found["waves"] = waves_told(model, waves)
    found["not_in_rollback"] = not_in_rollback(model, proposal)
    return {**found, "files": [path.name for path in made.files]}


def warnings(made: Made) -> list[str]:
    """What a person should know before the plan is believed."""
    out = []
    for why, count in frozen_counts(made.planned.model).items():
        moving = "it is best to wait until that is done, and to plan anew" if why == FROZEN_WORDS[MOVING] else ""
        stay = "stays as it is," if count == 1 else "stay as they are, each"
        out.append("; ".join(filter(None, (f"{many(count, 'partition')} {stay} because {why}", moving))))
    if made.quarantined:
        were = "record of the source was" if made.quarantined == 1 else "records of the source were"
        out.append(f"{made.quarantined} {were} rejected, see inspect: what is told there is left out")
    if made.unplaced:
        out.append(f"{many(made.unplaced, 'partition')} without known replicas left out")
    model = made.planned.model
    if not model.known[0] and made.request.broker_bytes is not None:
        out.append("the sources show no sizes: plans.broker_bytes is not kept to")
    if model.known[0] and made.unsized:
        out.append(f"the sources show no size of {many(made.unsized, 'partition')}: counted as 0 bytes")
    return out
