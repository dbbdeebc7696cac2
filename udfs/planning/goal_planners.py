"""The planners of all goals in udfs/planning/goal_registry.py: from a cluster model and a request to replica lists."""

from dataclasses import replace

import numpy as np

from udfs.arrow.ragged import any_true, count_true
from udfs.planning.annealing.balance_plan import plan_balance
from udfs.planning.broker_sets import plan_in_sets
from udfs.planning.certificates import CopyCertificate
from udfs.planning.cluster_model import FREE, ClusterModel, FreezeReason, ProposedAssignment
from udfs.planning.constraints import (
    Rules,
    build_rules,
    find_repair_obstacles,
    find_staying_brokers,
    select_target_brokers,
)
from udfs.planning.elections import find_in_sync_replicas
from udfs.planning.failed_dirs import plan_around_failed_dirs, split_failed_dirs
from udfs.planning.goal_registry import GOALS
from udfs.planning.leadership.bytes_out_order import plan_bytes_out_order
from udfs.planning.leadership.preferred_leaders import plan_preferred_leaders, plan_topic_leaders
from udfs.planning.leadership.replacement_order import take_positions
from udfs.planning.leadership.takeover_order import plan_leadership
from udfs.planning.log_dir_balance import choose_log_dirs, even_out_log_dirs
from udfs.planning.low_disk import explain_low_disk
from udfs.planning.plan_request import ALL, COPYSETS, MIN_BYTES, MIN_MOVES, PlanRequest
from udfs.planning.rack_repairs import add_rack_repairs, add_violations_left, put_drain_first
from udfs.planning.replicas.copyset_reduction import reduce_copysets
from udfs.planning.replicas.replica_counts import plan_replica_counts
from udfs.planning.zones.rack_levels import plan_in_levels
from udfs.planning.zones.zone_plan import plan_zones

__all__ = ["make_plan", "plan_copies", "plan_order", "plan_zones"]


def make_plan(model: ClusterModel, request: PlanRequest) -> ProposedAssignment:
    """Make the best plan that the goal's planner finds. Raise InfeasibleRequest, or ValueError for a wrong request."""
    if request.goal not in GOALS:
        raise ValueError(f"goal {request.goal!r}: must be one of {', '.join(GOALS)}")
    frozen, plan = freeze_partitions_on_down_brokers(model, request), GOALS[request.goal].plan

    def plan_model(part: ClusterModel, own: PlanRequest) -> ProposedAssignment:
        if own.broker_sets and own.goal != "log-dirs":  # log dirs are of one broker each
            return plan_in_sets(part, own, make_plan)
        return plan_in_levels(part, own, plan) if own.rack_separator else plan(part, own)

    repairs = request.goal == "repair"
    proposal = plan_around_failed_dirs(frozen, request, plan_model) if repairs else plan_model(frozen, request)
    return choose_log_dirs(model, proposal)


def freeze_partitions_on_down_brokers(model: ClusterModel, request: PlanRequest) -> ClusterModel:
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


def plan_order(model: ClusterModel, request: PlanRequest) -> ProposedAssignment:
    """Plan for the goals leaders and failover, which copy nothing."""
    if request.by_bytes:
        return plan_bytes_out_order(model, request)
    if request.goal == "failover":
        return plan_leadership(model, request.keep_leaders, by_topic=request.per_topic)
    return plan_topic_leaders(model) if request.per_topic else plan_preferred_leaders(model)


def plan_log_dirs(model: ClusterModel, request: PlanRequest) -> ProposedAssignment:
    """Plan for the goal log-dirs, which moves replicas within their brokers."""
    return even_out_log_dirs(model, request)


def plan_copies(model: ClusterModel, request: PlanRequest) -> ProposedAssignment:
    """Plan for the goals that copy replicas."""
    drain_first = put_drain_first(model, request)
    rules = build_rules(model, drain_first)
    if rules.even and request.objective == ALL:
        proposal = plan_balance(model, rules, drain_first)
    else:
        objective = MIN_MOVES if request.objective == MIN_MOVES else MIN_BYTES
        proposal = plan_replica_counts(model, rules, objective=objective)
        if rules.even and model.find_copied(proposal).any():
            proposal = _even_out_leaders(model, rules, proposal)
        if rules.even:
            proposal = _add_low_disk(model, rules, request, proposal)
    if rules.even:
        proposal = add_rack_repairs(model, rules, proposal)
    if drain_first != request:
        proposal = add_violations_left(model, build_rules(model, request), proposal)
    if request.goal == "replace":
        proposal = take_positions(model, rules, proposal)
    return reduce_copysets(model, rules, proposal, request.seed) if COPYSETS in request.priorities else proposal


def _add_low_disk(
    model: ClusterModel, rules: Rules, request: PlanRequest, proposal: ProposedAssignment
) -> ProposedAssignment:
    """Add brokers with little disk to the missed targets: replica counts alone say nothing of their bytes."""
    certificate = proposal.certificate
    low = explain_low_disk(model, rules, request, proposal, find_staying_brokers(model, rules))
    if not isinstance(certificate, CopyCertificate):
        return proposal
    return replace(proposal, certificate=replace(certificate, missed=[*certificate.missed, *low]))


def _even_out_leaders(model: ClusterModel, rules: Rules, proposal: ProposedAssignment) -> ProposedAssignment:
    """Reorder the lists: by counts alone, filled brokers would have no leaders."""
    placed = model.with_lists(proposal.offsets, proposal.replicas)
    if model.in_sync is not None:
        placed = replace(placed, in_sync=find_in_sync_replicas(model, proposal))
    ordered = plan_leadership(placed, may_lead=find_staying_brokers(model, rules))
    differs = model.find_changed(ordered)
    reason = np.where(proposal.reason >= 0, proposal.reason, np.where(differs, len(proposal.reasons), -1))
    reason[~differs] = -1
    reasons = (*proposal.reasons, "to even out leaders and their successors; nothing is copied")
    return replace(proposal, replicas=ordered.replicas, reason=reason.astype(np.int16), reasons=reasons)
