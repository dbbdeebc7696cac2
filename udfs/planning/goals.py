"""The goals of plans by name. A new goal is one entry here; `plan --goal` and `plans.goal` take them as they come.

The names are needed by every command, the planners by few: these are imported when first called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from udfs.planning.cluster_model import ClusterModel, ProposedAssignment
    from udfs.planning.plan_request import PlanRequest

# What it was asked of, and how -> replica lists; udfs.planning.constraints.Infeasible where none keeps to the rules.
Planner = Callable[["ClusterModel", "PlanRequest"], "ProposedAssignment"]


@dataclass(frozen=True)
class Goal:
    """A kind of plan."""

    name: str
    title: str
    plan: Planner


def _later(planner: str) -> Planner:
    """The planner of that name, imported when it is called."""

    def plan(model: ClusterModel, request: PlanRequest) -> ProposedAssignment:
        from udfs.planning import planners

        proposal: ProposedAssignment = getattr(planners, planner)(model, request)
        return proposal

    return plan


_even, _by_counts = _later("even"), _later("by_counts")
GOALS: dict[str, Goal] = {
    goal.name: goal
    for goal in (
        Goal("leaders", "preferred leaders even, by order alone", _later("even_leaders")),
        Goal("failover", "the worst survivor of any failure least, by order alone", _later("even_successors")),
        Goal("balance", "replicas, leaders, disk and rates even", _even),
        Goal("drain", "brokers emptied", _even),
        Goal("expand", "brokers filled", _even),
        Goal("replace", "brokers take over from others", _by_counts),
        Goal("repair", "racks, down brokers and missing replicas put right", _by_counts),
        Goal("rf", "another replication factor", _by_counts),
    )
}
