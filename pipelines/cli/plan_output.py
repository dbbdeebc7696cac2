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
from pipelines.plan_files.plan_folder import refuse_other, write_plan
from pipelines.plan_files.plan_json import not_in_rollback, plain, waves_told
from pipelines.plan_files.plan_progress import CHANGED, IN_FLIGHT, PlanState
from udfs.planning import constraints
from udfs.planning.cluster_model import FROZEN_WORDS, Problem, problem_of
from udfs.planning.cluster_model import IN_FLIGHT as MOVING
from udfs.planning.plan_maker import make_plan, without_crippled
from udfs.planning.plan_request import Wishes
from udfs.planning.plan_summary import Planned, frozen_counts, told
from udfs.planning.request_checks import chosen_brokers, nonsense

REFUSED = (CHANGED, IN_FLIGHT)  # states that a plan must not be executed in


@dataclass(frozen=True)
class Made:
    """A plan that was made.

    files: written, in order.   unplaced: partitions without known replicas.   unsized: others, without a known size.
    seconds: {part of the work: how long}.
    """

    wishes: Wishes
    planned: Planned
    files: tuple[Path, ...]
    unplaced: int
    unsized: int
    quarantined: int
    seconds: dict[str, float]


def problem_in(snapshot: Snapshot, settings: Settings, exclude_topics: tuple[str, ...] = ()) -> Problem:
    """The problem that a snapshot is; SourceError if it shows no replicas, or an excluded topic is not there."""
    placed = int(pc.sum(pc.is_valid(snapshot.partitions["replicas"])).as_py() or 0)
    if not placed:
        remedy = "Add a kafka-topics --describe of the cluster, or another source that shows them"
        raise SourceError(snapshot.cluster_id, "its sources show no replicas", remedy)
    absent = sorted(set(exclude_topics) - set(snapshot.topics["topic"].to_pylist()))
    if absent:
        raise SourceError(snapshot.cluster_id, f"has no topic {', '.join(absent[:20])}", "See inspect for its topics")
    tables = (snapshot.brokers, snapshot.partitions, snapshot.topics)
    return problem_of(snapshot.cluster_id, *tables, exclude_topics, settings.topics.min_insync_replicas)


def plan(snapshot: Snapshot, wishes: Wishes, settings: Settings, out: Path) -> Made:
    """The plan for a wish, written to the folder `out`; Infeasible, and nothing is written, if there is none."""
    refuse_other(out.resolve())
    problem = problem_in(snapshot, settings, wishes.exclude_topics)
    _refuse_unknown(problem, wishes)
    wrong = nonsense(problem, wishes)
    if wrong:
        raise SourceError(snapshot.cluster_id, "; ".join(wrong), "See inspect for its brokers and topics")
    problem = without_crippled(problem, wishes.goal)
    began = perf_counter()
    try:
        draft = make_plan(problem, wishes)
    except constraints.Infeasible as error:
        reasons = "\n  ".join(error.reasons)
        raise Infeasible(f"{snapshot.cluster_id}: no plan for {wishes.goal}:\n  {reasons}") from error
    solved = perf_counter()
    found = told(problem, wishes, draft, limits_of(settings), effort_of(settings))
    measured = perf_counter()
    files = write_plan(out, problem, found.draft, found.waves, facts(wishes, found))
    seconds = {"solving": solved - began, "measuring": measured - solved, "writing": perf_counter() - measured}
    return Made(
        wishes,
        found,
        tuple(files),
        snapshot.partitions.num_rows - problem.partitions,
        _unsized(snapshot),
        len(snapshot.quarantined),
        seconds,
    )


def _refuse_unknown(problem: Problem, wishes: Wishes) -> None:
    """Nothing; a SourceError if the wish is about bytes that no source tells."""
    if wishes.max_bytes is not None and not problem.known[0]:
        remedy = "Use --max-moves, or add what kafka-log-dirs --describe prints"
        raise SourceError(problem.cluster_id, "its sources show no sizes, so --max-bytes cannot be kept to", remedy)
    if wishes.by_bytes and not problem.known[2]:
        remedy = "Leave --by-bytes away, or add a source with rates, as a list of topics or a model"
        raise SourceError(problem.cluster_id, "its sources show no bytes out, which --by-bytes is about", remedy)


def _unsized(snapshot: Snapshot) -> int:
    partitions = snapshot.partitions
    return int(partitions["size_bytes"].filter(pc.is_valid(partitions["replicas"])).null_count)


def check(snapshot: Snapshot, directory: Path, settings: Settings) -> PlanState:
    """What has become of the plan in a folder."""
    return check_plan(directory, problem_in(snapshot, settings), snapshot.partitions)


def facts(wishes: Wishes, found: Planned) -> dict[str, Any]:
    """What stands in plan.json beside the assignment: the same for the same cluster, wish and seed."""
    problem, draft = found.problem, found.draft
    return {
        "cluster": problem.cluster_id,
        "goal": wishes.goal,
        "wishes": asdict(wishes),
        "chosen_brokers": chosen_brokers(problem, wishes),
        "left_alone": frozen_counts(problem),
        "certificate": dict(draft.certificate),
        **found.metrics,
    }


def answer(made: Made) -> dict[str, Any]:
    """The object that `plan --json` writes: no times of its making, so that the same plan gives the same."""
    problem, draft, waves = made.planned.problem, made.planned.draft, made.planned.waves
    found: dict[str, Any] = plain(facts(made.wishes, made.planned))
    found["waves"] = waves_told(problem, waves)
    found["not_in_rollback"] = not_in_rollback(problem, draft)
    return {**found, "files": [path.name for path in made.files]}


def warnings(made: Made) -> list[str]:
    """What a person should know before the plan is believed."""
    out = []
    for why, count in frozen_counts(made.planned.problem).items():
        moving = "it is best to wait until that is done, and to plan anew" if why == FROZEN_WORDS[MOVING] else ""
        stay = "stays as it is," if count == 1 else "stay as they are, each"
        out.append("; ".join(filter(None, (f"{many(count, 'partition')} {stay} because {why}", moving))))
    if made.quarantined:
        were = "record of the source was" if made.quarantined == 1 else "records of the source were"
        out.append(f"{made.quarantined} {were} rejected, see inspect: what is told there is left out")
    if made.unplaced:
        out.append(f"{many(made.unplaced, 'partition')} without known replicas left out")
    problem = made.planned.problem
    if not problem.known[0] and made.wishes.broker_bytes is not None:
        out.append("the sources show no sizes: plans.broker_bytes is not kept to")
    if problem.known[0] and made.unsized:
        out.append(f"the sources show no size of {many(made.unsized, 'partition')}: counted as 0 bytes")
    return out
