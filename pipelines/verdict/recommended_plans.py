"""The plans that the next steps of a verdict recommend, one for each goal."""

from dataclasses import dataclass, replace
from typing import Any

from pipelines.verdict.judgement import Verdict
from pipelines.verdict.statements import STATEMENTS
from pipelines.verdict.verdict_points import NextPlan
from udfs.planning.plan_request import LOG_DIRS, RELIEVE

# Findings whose repair spreads replicas over racks: a restart of a broker that is down does not replace it.
_SPREADING_KINDS = frozenset({"rack_offline", "rack_under_min_isr"})
_NEEDS_BROKERS = "expand"  # A run cannot make such plans, as their brokers do not exist yet
_OF_DISKS = (LOG_DIRS, RELIEVE)  # runs do not plan these
# Goals of all plans that next steps can recommend and that a run can make.
_GOALS = {statement.goal for statement in STATEMENTS.values()}
_GOALS |= {step.goal for statement in STATEMENTS.values() for step in statement.repairs}
RECOMMENDABLE_GOALS = tuple(sorted(_GOALS - {"", _NEEDS_BROKERS, *_OF_DISKS}))


@dataclass(frozen=True)
class RecommendedPlan:
    """A plan that next steps of a verdict recommend."""

    plan: NextPlan
    step: str  # the next step of the most serious finding that recommends it, with its command
    kinds: tuple[str, ...]  # of all findings that recommend it, the most serious first: names of their statements

    @property
    def goal(self) -> str:
        """The goal of the plan."""
        return self.plan.goal

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a plan request, as in {"factor": 3, "topics": ("a", "b")}."""
        plan = self.plan
        values = {
            "factor": plan.factor,
            "topics": tuple(sorted(plan.topics)),
            "brokers": tuple(sorted(plan.brokers)),
            "at_min_isr_partitions": plan.at_min_isr_partitions,
            "under_min_isr_partitions": plan.under_min_isr_partitions,
        }
        return {name: value for name, value in values.items() if value}

    @property
    def replaces_restart(self) -> bool:
        """Whether it is a repair only of what brokers that are down lack, so that their restart makes it needless."""
        return self.goal == "repair" and not _SPREADING_KINDS.intersection(self.kinds)

    @property
    def new_broker_racks(self) -> list[str]:
        """The rack of each new broker that the plan needs; empty = a run can make the plan."""
        return [name.partition(":")[2] for name in self.plan.new_brokers]


def list_recommended_plans(verdict: Verdict) -> list[RecommendedPlan]:
    """List the plans that the next steps recommend and that a run can make, in the order of list_all_plans."""
    return [plan for plan in list_all_plans(verdict) if not plan.new_broker_racks and plan.goal not in _OF_DISKS]


def list_all_plans(verdict: Verdict) -> list[RecommendedPlan]:
    """List the plans that the next steps recommend, one per goal, those of the most serious findings first.

    Two steps that raise the replication factor of topics to the same number are one plan. Plans that need new brokers
    are among them.
    """
    plans: dict[str, RecommendedPlan] = {}
    for point in verdict.points:
        if (plan := point.plan) is None:
            continue
        first = plans.setdefault(plan.goal, RecommendedPlan(plan, point.step, ()))
        topics = tuple(dict.fromkeys([*first.plan.topics, *plan.topics]))
        more = replace(first.plan, topics=topics) if plan.factor == first.plan.factor and plan.topics else first.plan
        step = first.step.replace(_format_topics(first.plan), _format_topics(more))
        plans[plan.goal] = RecommendedPlan(more, step, (*first.kinds, point.kind))
    return list(plans.values())


def _format_topics(plan: NextPlan) -> str:
    return f"--topics {','.join(plan.topics)} "
