"""One plan: from what is wished for to the planner that makes it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from udfs.arrow.ragged import any_true
from udfs.planning.cluster_model import FREE, FROZEN, ClusterModel, ProposedAssignment
from udfs.planning.goals import GOALS
from udfs.planning.plan_request import PlanRequest


def without_frozen(model: ClusterModel, goal: str) -> ClusterModel:
    """The model in which partitions with a replica on a down broker stay as they are, unless `goal` is repair."""
    if goal == "repair":
        return model
    down = any_true(~model.live[model.replicas], model.offsets) & (model.frozen == FREE)
    return replace(model, frozen=np.where(down, FROZEN, model.frozen).astype(np.int8)) if down.any() else model


def make_plan(model: ClusterModel, request: PlanRequest) -> ProposedAssignment:
    """The best plan for a request. hard.Infeasible with the reasons if none keeps to the rules; ValueError for a
    request that
    makes no sense in this cluster."""
    if request.goal not in GOALS:
        raise ValueError(f"goal {request.goal!r}: must be one of {', '.join(GOALS)}")
    return GOALS[request.goal].plan(without_frozen(model, request.goal), request)
