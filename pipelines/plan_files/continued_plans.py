"""Plans after others: they do what the budget of the last one did not pay for, and begin where the others end."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from pipelines.ingest.snapshot_reader import Snapshot
from pipelines.plan_files.plan_judgement import PlanJudgement
from pipelines.plan_files.plan_reader import REMEDY, PlanDocument, parse_document, read_text
from pipelines.plan_files.plan_writer import PLAN, to_plain_json
from pipelines.verdict.naming import name_with_noun
from udfs.planning.certificates import CONTINUES
from udfs.planning.constraints import list_emptied_brokers
from udfs.planning.later_lists import count_later_copies, list_later
from udfs.planning.plan_request import LaterLists, PlanRequest
from udfs.planning.planned_waves import PlannedWaves
from udfs.plurals import count_of, is_or_are

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
