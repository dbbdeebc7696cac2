"""The goals of plans by name. A new goal is one entry here; `plan --goal` and `plans.goal` take them as they come.

The names are needed by every command, the planners by few: these are imported when first called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from udfs.planning.cluster_model import Draft, Problem
    from udfs.planning.plan_request import Wishes

# What it was asked of, and how -> replica lists; udfs.planning.constraints.Infeasible where none keeps to the rules.
Planner = Callable[["Problem", "Wishes"], "Draft"]


@dataclass(frozen=True)
class Goal:
    """A kind of plan."""

    name: str
    title: str
    plan: Planner


def _later(planner: str) -> Planner:
    """The planner of that name, imported when it is called."""

    def plan(problem: Problem, wishes: Wishes) -> Draft:
        from udfs.planning import planners

        draft: Draft = getattr(planners, planner)(problem, wishes)
        return draft

    return plan


_even, _by_counts = _later("even"), _later("by_counts")
GOALS: dict[str, Goal] = {
    goal.name: goal
    for goal in (
        Goal("leaders", "preferred leaders even, by order alone", _later("even_leaders")),
        Goal("failover", "the worst survivor of any death least, by order alone", _later("even_heirs")),
        Goal("balance", "replicas, leaders, disk and rates even", _even),
        Goal("drain", "brokers emptied", _even),
        Goal("expand", "brokers filled", _even),
        Goal("replace", "brokers take over from others", _by_counts),
        Goal("repair", "racks, dead brokers and missing replicas put right", _by_counts),
        Goal("rf", "another replication factor", _by_counts),
    )
}
