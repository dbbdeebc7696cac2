"""Plans that continue another one: they do what its budget did not pay for."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field

from pipelines.plan_files.plan_reader import REMEDY, PlanDocument, parse_document, read_text
from pipelines.plan_files.plan_writer import PLAN, to_plain_json
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


def describe_continuation(request: PlanRequest, plan: PlannedWaves, folders: Sequence[Path]) -> list[str]:
    """Say in a sentence whether a plan does what the last plan before it left; nothing if that left nothing for it."""
    if request.later is None:
        return []
    if not getattr(plan.proposal.certificate, "continues", False):
        fault = "what that leaves no longer fits the cluster, or no copy of it fits the budget"
        return [f"this is a new plan, which does not continue the one in {folders[-1]}: {fault}"]
    left = count_later_copies(list_later(plan.model, plan.proposal) or LaterLists())
    total = count_of(count_later_copies(request.later), "partition")
    return [f"continues the plan in {folders[-1]}: {left} of {total} {is_or_are(left)} left"]
