"""Makes the plan of a request: freezes what must stay, and calls the goal's planner for each part of the cluster."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from udfs.arrow.ragged import any_true, count_true, is_in_segment, offsets_of
from udfs.planning.broker_sets import plan_in_sets
from udfs.planning.cluster_model import FREE, ClusterModel, Flags, FreezeReason, Int32s, Ints, ProposedAssignment, take
from udfs.planning.constraints import (
    InfeasibleRequest,
    find_dropped_in_sync,
    find_fewer_racks,
    find_receiving_brokers,
    find_rejected_brokers,
    find_repair_obstacles,
    list_emptied_brokers,
)
from udfs.planning.goal_registry import GOALS
from udfs.planning.log_dir_balance import choose_log_dirs
from udfs.planning.plan_request import COPYSETS, EMPTY_LOG_DIR, LOG_DIRS, RELIEVE, PlanRequest
from udfs.planning.zones.rack_levels import plan_in_levels

REASON = "a replica is in a failed log dir"
Plan = Callable[[ClusterModel, PlanRequest], ProposedAssignment]


def split_failed_dirs(model: ClusterModel) -> tuple[ClusterModel, Ints]:
    """Split brokers with failed log dirs: what is in these is on a second, down broker of the same id and rack.

    Returns: the model, and the broker in the model before that each broker stands for (int64).
    """
    if not model.in_failed_dir.any():
        return model, np.arange(model.brokers)
    failed = np.unique(model.replicas[model.in_failed_dir])
    stands_for = np.sort(np.concatenate([np.arange(model.brokers), failed]))
    is_second = np.r_[False, stands_for[1:] == stands_for[:-1]]
    first, second = np.flatnonzero(~is_second).astype(np.int32), np.full(model.brokers, -1, dtype=np.int32)
    second[failed] = np.flatnonzero(is_second)

    def renumber(brokers: Int32s, is_failed: Flags) -> Int32s:
        return np.where(is_failed, second[brokers], first[brokers]).astype(np.int32)

    source = model.source_replicas
    if source is not None:
        key, lost = (model.row * model.brokers + brokers for brokers in (source, model.replicas))
        source = renumber(source, np.isin(key, lost[model.in_failed_dir]))
    leader = model.leader
    if leader is not None:
        leader = np.where(leader >= 0, first[leader], -1).astype(np.int32)
    names = ("broker_ids", "rack", "draining", "fetching", "unknown", "cordoned", "disk_room", "disk_excess")
    of_brokers: dict[str, Any] = {name: take(getattr(model, name), stands_for) for name in names}
    split = replace(
        model,
        **of_brokers,
        live=model.live[stands_for] & ~is_second,
        replicas=renumber(model.replicas, model.in_failed_dir),
        source_replicas=source,
        leader=leader,
        failed=None,
        barred=np.where(model.in_failed_dir, first[model.replicas], -1).astype(np.int32),
        log_dirs=None,  # those of copied replicas are chosen in the whole plan
    )
    return split, stands_for


def plan_around_failed_dirs(model: ClusterModel, request: PlanRequest, plan: Plan) -> ProposedAssignment:
    """Plan a repair. Brokers with failed log dirs get nothing; where others do not suffice, nothing that they lost.

    plan: plans a model without failed log dirs. Raise InfeasibleRequest if no plan complies.
    """
    split, stands_for = split_failed_dirs(model)
    if split is model:
        return plan(model, request)
    lost = np.unique(model.replicas[model.in_failed_dir])
    spared = replace(request, exclude_brokers=tuple(sorted({*request.exclude_brokers, *model.ids(lost)})))
    try:
        proposal = plan(split, spared)
    except InfeasibleRequest as error:
        # Fewer copysets come from exchanges that do not know what a broker may not get.
        others = tuple(priority for priority in request.priorities if priority != COPYSETS)
        remedy = "a broker gets back what it has lost with a log dir only after a restart with a new disk"
        failure = InfeasibleRequest(
            [*error.reasons, f"a log dir of {model.describe_brokers(lost)} failed, and {remedy}"]
        )
        try:
            proposal = plan(split, replace(request, priorities=others))
        except InfeasibleRequest:
            raise failure from error
        if _returns_lost(split, proposal):
            raise failure from error
    return _merge(model, proposal, stands_for)


def _merge(model: ClusterModel, proposal: ProposedAssignment, stands_for: Ints) -> ProposedAssignment:
    """Return a proposal for a model that is split, for the model itself."""
    merged = replace(proposal, replicas=stands_for[proposal.replicas].astype(np.int32))
    has_down = any_true(~model.live[model.replicas], model.offsets)
    leaves = any_true(model.in_failed_dir, model.offsets) & (proposal.reason >= 0) & ~has_down
    reason = np.where(leaves, len(proposal.reasons), proposal.reason).astype(np.int16)
    return replace(merged, reason=reason, reasons=(*proposal.reasons, REASON))


def _returns_lost(split: ClusterModel, proposal: ProposedAssignment) -> bool:
    """Return whether a broker would get back what it has lost."""
    is_lost = split.barred_brokers >= 0
    offsets = offsets_of(np.bincount(split.row[is_lost], minlength=split.partitions))
    returned = is_in_segment(proposal.replicas, proposal.offsets, split.barred_brokers[is_lost], offsets)
    return bool(returned.any())


Planner = Callable[[ClusterModel, PlanRequest], ProposedAssignment]


def make_plan(model: ClusterModel, request: PlanRequest) -> ProposedAssignment:
    """Make the best plan that the goal's planner finds. Raise InfeasibleRequest, or ValueError for a wrong request."""
    if request.goal not in GOALS:
        raise ValueError(f"goal {request.goal!r}: must be one of {', '.join(GOALS)}")
    frozen, plan = freeze_partitions(model, request), GOALS[request.goal].plan

    def plan_model(part: ClusterModel, own: PlanRequest) -> ProposedAssignment:
        if own.broker_sets and own.goal not in (LOG_DIRS, EMPTY_LOG_DIR, RELIEVE):  # disks are of one broker each
            return plan_in_sets(part, own, make_plan)
        return plan_in_levels(part, own, plan) if own.rack_separator else plan(part, own)

    if request.goal in ("repair", "rf"):  # they take replicas out of failed log dirs
        proposal = plan_around_failed_dirs(frozen, request, plan_model)
    else:
        proposal = plan_model(frozen, request)
    if request.goal == "repair":  # it restores the number of replicas first
        return choose_log_dirs(model, proposal, request.max_disk_ratio)
    # Sets of brokers are planned one by one, by this function.
    if not request.rack_separator and not request.broker_sets and model.find_copied(proposal).any():
        proposal = _keep_copies(frozen, request, plan_model, proposal)
    return choose_log_dirs(model, proposal, request.max_disk_ratio)


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
