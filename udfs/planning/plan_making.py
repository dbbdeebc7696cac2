"""Makes the plan of a request: freezes what must stay, and calls the goal's planner for each part of the cluster."""

from dataclasses import replace

import numpy as np

from udfs.arrow.ragged import any_true, count_true
from udfs.planning.broker_sets import plan_in_sets
from udfs.planning.cluster_model import FREE, ClusterModel, FreezeReason, ProposedAssignment
from udfs.planning.constraints import find_repair_obstacles, select_target_brokers
from udfs.planning.failed_dirs import plan_around_failed_dirs, split_failed_dirs
from udfs.planning.goal_registry import GOALS
from udfs.planning.log_dir_balance import choose_log_dirs
from udfs.planning.plan_request import PlanRequest
from udfs.planning.zones.rack_levels import plan_in_levels


def make_plan(model: ClusterModel, request: PlanRequest) -> ProposedAssignment:
    """Make the best plan that the goal's planner finds. Raise InfeasibleRequest, or ValueError for a wrong request."""
    if request.goal not in GOALS:
        raise ValueError(f"goal {request.goal!r}: must be one of {', '.join(GOALS)}")
    frozen, plan = freeze_partitions(model, request), GOALS[request.goal].plan

    def plan_model(part: ClusterModel, own: PlanRequest) -> ProposedAssignment:
        if own.broker_sets and own.goal != "log-dirs":  # log dirs are of one broker each
            return plan_in_sets(part, own, make_plan)
        return plan_in_levels(part, own, plan) if own.rack_separator else plan(part, own)

    repairs = request.goal == "repair"
    proposal = plan_around_failed_dirs(frozen, request, plan_model) if repairs else plan_model(frozen, request)
    return choose_log_dirs(model, proposal)


def freeze_partitions(model: ClusterModel, request: PlanRequest) -> ClusterModel:
    """Freeze the partitions with a replica on a down broker or in a failed log dir, unless the plan takes all off.

    For a repair, freeze those with too few brokers, or with more in-sync replicas than their topic should have.
    """
    if request.goal == "rf":  # it takes the partitions that it changes off brokers that are down
        failed = any_true(model.in_failed_dir, model.offsets) & (model.frozen == FREE)
        usable = count_true(model.is_usable, model.offsets)
        failed &= usable < (request.factor or 0)  # else it drops what is in a failed log dir
        return replace(model, frozen=np.where(failed, FreezeReason.FAILED_DIR, model.frozen).astype(np.int8))
    if request.goal == "repair":
        obstacles = find_repair_obstacles(split_failed_dirs(model)[0], request)
        return replace(model, frozen=np.where(obstacles, obstacles, model.frozen)) if obstacles.any() else model
    leaving = [old for old, _ in request.replacements]
    if request.goal == "drain":
        leaving += select_target_brokers(model, request)
    stays = ~np.isin(model.broker_ids, np.asarray(leaving, dtype=np.int64))[model.replicas]
    frozen = model.frozen
    for reason, is_bad in (
        (FreezeReason.DOWN_REPLICA, ~model.live[model.replicas]),
        (FreezeReason.FAILED_DIR, model.in_failed_dir),
    ):
        bad = any_true(stays & is_bad, model.offsets) & (frozen == FREE)
        frozen = np.where(bad, reason, frozen).astype(np.int8)
    return replace(model, frozen=frozen) if (frozen != model.frozen).any() else model
