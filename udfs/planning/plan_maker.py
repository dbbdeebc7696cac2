"""One plan: from what is wished for to the planner that makes it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from udfs.arrow.ragged import any_true
from udfs.planning.cluster_model import (
    CRIPPLED,
    FREE,
    Draft,
    Problem,
)
from udfs.planning.goals import GOALS
from udfs.planning.plan_request import Wishes


def without_crippled(problem: Problem, goal: str) -> Problem:
    """The problem in which partitions with a replica on a dead broker stay as they are, unless `goal` is repair."""
    if goal == "repair":
        return problem
    dead = any_true(~problem.living[problem.replicas], problem.offsets) & (problem.frozen == FREE)
    return replace(problem, frozen=np.where(dead, CRIPPLED, problem.frozen).astype(np.int8)) if dead.any() else problem


def make_plan(problem: Problem, wishes: Wishes) -> Draft:
    """The best plan for a wish. hard.Infeasible with the reasons if none keeps to the rules; ValueError for a wish that
    makes no sense in this cluster."""
    if wishes.goal not in GOALS:
        raise ValueError(f"goal {wishes.goal!r}: must be one of {', '.join(GOALS)}")
    return GOALS[wishes.goal].plan(without_crippled(problem, wishes.goal), wishes)
