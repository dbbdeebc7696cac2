"""`plan`: from what is wrong to files that Kafka's own tools take, with what was proved; and what became of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow.compute as pc

from pipelines.errors import Infeasible, SourceError
from pipelines.ingest.snapshot import Snapshot
from pipelines.plans.asked import effort_of, limits_of
from pipelines.plans.check import CHANGED, IN_FLIGHT, PlanState, check_plan
from pipelines.plans.folder import refuse_other, write_plan
from pipelines.plans.plan_file import plain, wave_file, wave_names
from pipelines.settings import Settings
from udfs.planning import hard
from udfs.planning.plan import make_plan, without_crippled
from udfs.planning.planned import Planned, frozen_counts, told
from udfs.planning.problem import FROZEN_WORDS, Problem, problem_of
from udfs.planning.problem import IN_FLIGHT as MOVING
from udfs.planning.sense import chosen_brokers, nonsense
from udfs.planning.waves import reports
from udfs.planning.wishes import Wishes

REFUSED = (CHANGED, IN_FLIGHT)  # states that a plan must not be executed in


@dataclass(frozen=True)
class Made:
    """A plan that was made.

    files: written, in order.   unplaced: partitions without known replicas.   seconds: {part of the work: how long}.
    """

    wishes: Wishes
    planned: Planned
    files: tuple[Path, ...]
    unplaced: int
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
    wrong = nonsense(problem, wishes)
    if wrong:
        raise SourceError(snapshot.cluster_id, "; ".join(wrong), "See inspect for its brokers and topics")
    if wishes.goal != "repair":
        problem = without_crippled(problem)
    began = perf_counter()
    try:
        draft = make_plan(problem, wishes)
    except hard.Infeasible as error:
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
        len(snapshot.quarantined),
        seconds,
    )


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
    problem, waves = made.planned.problem, made.planned.waves
    found: dict[str, Any] = plain(facts(made.wishes, made.planned))
    names = wave_names(waves.waves)
    found["waves"] = [
        {**plain(asdict(report)), "file": wave_file(name)}
        for name, report in zip(names, reports(problem, waves), strict=True)
    ]
    return {**found, "files": [path.name for path in made.files]}


def warnings(made: Made) -> list[str]:
    """What a person should know before the plan is believed."""
    out = []
    for why, count in frozen_counts(made.planned.problem).items():
        moving = "it is best to wait until that is done, and to plan anew" if why == FROZEN_WORDS[MOVING] else ""
        out.append("; ".join(filter(None, (f"{count} partitions stay as they are, each because {why}", moving))))
    if made.quarantined:
        out.append(f"{made.quarantined} records of the source were rejected, see inspect: what they tell is left out")
    if made.unplaced:
        out.append(f"{made.unplaced} partitions without known replicas are left out")
    return out
