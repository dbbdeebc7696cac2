"""The plans that a run makes for a cluster: those of plans.goals, or those that its verdict recommends."""

from collections.abc import Sequence
from typing import Any

from pipelines.config.plan_parameters import build_request
from pipelines.config.setting_sections import RECOMMENDED, Settings
from pipelines.verdict.judgement import Verdict
from pipelines.verdict.recommended_plans import RECOMMENDABLE_GOALS, list_recommended_plans
from udfs.planning.plan_request import PlanRequest


def list_possible_goals(goals: Sequence[str]) -> list[str]:
    """List the goals that plans of a run may have. goals: the setting plans.goals."""
    possible = (RECOMMENDABLE_GOALS if goal == RECOMMENDED else (goal,) for goal in goals)
    return list(dict.fromkeys(goal for names in possible for goal in names))


def build_run_requests(settings: Settings, verdict: Verdict | None) -> list[PlanRequest]:
    """Build the requests for a cluster, each of another goal. verdict: None if plans.goals does not need it."""
    fields: dict[str, dict[str, Any]] = {}
    for goal in settings.plans.goals:
        if goal == RECOMMENDED:
            plans = list_recommended_plans(verdict) if verdict else []
            fields = {plan.goal: plan.fields for plan in plans} or {"leaders": {}}
    requested = [goal for goal in settings.plans.goals if goal != RECOMMENDED]
    fields |= {goal: {} for goal in requested if goal not in fields}
    return [build_request(settings, goal, **options) for goal, options in fields.items()]
