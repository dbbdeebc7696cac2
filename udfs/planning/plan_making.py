"""Makes the plan of a request: freezes what must stay, and calls the goal's planner for each part of the cluster."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from udfs.arrow.ragged import any_true, count_true
from udfs.planning.broker_sets import plan_in_sets
from udfs.planning.cluster_model import FREE, ClusterModel, Flags, FreezeReason, Ints, ProposedAssignment
from udfs.planning.constraints import (
    InfeasibleRequest,
    find_dropped_in_sync,
    find_fewer_racks,
    find_receiving_brokers,
    find_rejected_brokers,
    find_repair_obstacles,
    list_emptied_brokers,
)
from udfs.planning.failed_dirs import plan_around_failed_dirs, split_failed_dirs
from udfs.planning.goal_registry import GOALS
from udfs.planning.log_dir_balance import choose_log_dirs
from udfs.planning.plan_request import PlanRequest
from udfs.planning.zones.rack_levels import plan_in_levels

Planner = Callable[[ClusterModel, PlanRequest], ProposedAssignment]


def make_plan(model: ClusterModel, request: PlanRequest) -> ProposedAssignment:
    """Make the best plan that the goal's planner finds. Raise InfeasibleRequest, or ValueError for a wrong request."""
    if request.goal not in GOALS:
        raise ValueError(f"goal {request.goal!r}: must be one of {', '.join(GOALS)}")
    frozen, plan = freeze_partitions(model, request), GOALS[request.goal].plan

    def plan_model(part: ClusterModel, own: PlanRequest) -> ProposedAssignment:
        if own.broker_sets and own.goal != "log-dirs":  # log dirs are of one broker each
            return plan_in_sets(part, own, make_plan)
        return plan_in_levels(part, own, plan) if own.rack_separator else plan(part, own)

    if request.goal in ("repair", "rf"):  # they take replicas out of failed log dirs
        proposal = plan_around_failed_dirs(frozen, request, plan_model)
    else:
        proposal = plan_model(frozen, request)
    if request.goal == "repair":  # it restores the number of replicas first
        return choose_log_dirs(model, proposal)
    # Sets of brokers are planned one by one, by this function.
    if not request.rack_separator and not request.broker_sets and model.find_copied(proposal).any():
        proposal = _keep_copies(frozen, request, plan_model, proposal)
    return choose_log_dirs(model, proposal)


def _keep_copies(
    model: ClusterModel, request: PlanRequest, plan_model: Planner, proposal: ProposedAssignment
) -> ProposedAssignment:
    """Return a plan that spreads no partition over fewer racks, and drops no in-sync replica where another lags.

    Planners limit the replicas in each rack: of four in three racks, they may leave one empty. Such partitions stay as
    they are, and the plan is made again; those that must leave a broker get another copy.
    """
    emptied, every = list_emptied_brokers(model, request), np.arange(model.partitions)
    leaves = any_true(np.isin(model.broker_ids, emptied)[model.replicas], model.offsets) | (request.goal == "rf")
    if find_dropped_in_sync(model, proposal)[~leaves & (model.frozen == FREE)].any():
        lagging = any_true(~model.is_in_sync, model.offsets) & ~leaves & (model.frozen == FREE)
        stays = replace(model, frozen=np.where(lagging, FreezeReason.LAGGING, model.frozen).astype(np.int8))
        with suppress(InfeasibleRequest):  # another plan that is as good
            other = plan_model(stays, request)
            if len(other.certificate.missed) <= len(proposal.certificate.missed):
                model, proposal = stays, other
    while (fewer := find_fewer_racks(model, every, proposal, emptied, listed=True)[0]).any():
        may_stay = fewer & ~leaves & (model.frozen == FREE)
        if not may_stay.any():
            return _copy_to_lost_racks(model, request, proposal, np.flatnonzero(fewer), emptied)
        model = replace(model, frozen=np.where(may_stay, FreezeReason.RACKS, model.frozen).astype(np.int8))
        proposal = plan_model(model, request)
    return proposal


def _copy_to_lost_racks(
    model: ClusterModel, request: PlanRequest, proposal: ProposedAssignment, rows: Ints, emptied: Sequence[int]
) -> ProposedAssignment:
    """Return the plan with copies of some partitions (int64) in the racks that they lost, instead of shared ones."""
    receives = find_receiving_brokers(model, [*emptied, *request.exclude_brokers])
    replica_counts, replicas = np.bincount(proposal.replicas, minlength=model.brokers), proposal.replicas.copy()
    copied, failed = model.find_copied(proposal), model.in_failed_dir
    for row in rows.tolist():
        before = slice(*model.offsets[row : row + 2].tolist())
        racks = set(model.rack[model.replicas[before]].tolist())
        for at in range(*proposal.offsets[row : row + 2].tolist()):
            own = replicas[proposal.offsets[row] : proposal.offsets[row + 1]]
            lost = list(racks - set(model.rack[own].tolist()))
            is_shared = (model.rack[own] == model.rack[replicas[at]]).sum() > 1
            places = np.flatnonzero(receives & np.isin(model.rack, lost))
            places = np.setdiff1d(places, model.replicas[before][failed[before]])  # nothing comes back to these
            if copied[at] and is_shared and len(places):
                replica_counts[replicas[at]] -= 1
                replicas[at] = places[replica_counts[places].argmin()]
                replica_counts[replicas[at]] += 1
    return replace(proposal, replicas=replicas)


def freeze_partitions(model: ClusterModel, request: PlanRequest) -> ClusterModel:
    """Freeze partitions of other topics than those of the request, and those that the goal cannot change.

    These have a replica on a down broker, in a failed log dir, or on a broker that no list may name, unless the plan
    takes all off.
    For a repair, freeze those with too few brokers, or with more in-sync replicas than their topic should have.
    """
    if request.topics:
        is_other = ~np.isin(model.topic_names, request.topics)[model.topic]
        model = replace(model, frozen=np.where(is_other, FreezeReason.OTHER_TOPIC, model.frozen).astype(np.int8))
    stays = ~np.isin(model.broker_ids, list_emptied_brokers(model, request))[model.replicas]
    rejected = find_rejected_brokers(model)
    if request.goal in ("repair", "rf"):  # they take the partitions that they change off brokers that are down
        rejected = rejected & model.live
    model = _freeze(model, FreezeReason.CORDONED, stays & rejected[model.replicas])
    if request.goal == "rf":
        failed = any_true(model.in_failed_dir, model.offsets) & (model.frozen == FREE)
        usable = count_true(model.is_usable, model.offsets)
        failed &= usable < (request.factor or 0)  # else it drops what is in a failed log dir
        return replace(model, frozen=np.where(failed, FreezeReason.FAILED_DIR, model.frozen).astype(np.int8))
    if request.goal == "repair":
        obstacles = find_repair_obstacles(split_failed_dirs(model)[0], request)
        return replace(model, frozen=np.where(obstacles, obstacles, model.frozen)) if obstacles.any() else model
    model = _freeze(model, FreezeReason.DOWN_REPLICA, stays & ~model.live[model.replicas])
    return _freeze(model, FreezeReason.FAILED_DIR, stays & model.in_failed_dir)


def _freeze(model: ClusterModel, reason: FreezeReason, is_bad: Flags) -> ClusterModel:
    """Freeze the partitions with such a replica (bool, r)."""
    bad = any_true(is_bad, model.offsets) & (model.frozen == FREE)
    return replace(model, frozen=np.where(bad, reason, model.frozen).astype(np.int8)) if bad.any() else model
