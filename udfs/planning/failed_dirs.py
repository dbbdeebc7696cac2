"""Repairs around failed log dirs: their replicas must leave a broker that is live, and that may not get them again."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from udfs.arrow.ragged import any_true, is_in_segment, offsets_of
from udfs.planning.cluster_model import ClusterModel, Flags, Int32s, Ints, ProposedAssignment, take
from udfs.planning.constraints import InfeasibleRequest
from udfs.planning.plan_request import COPYSETS, PlanRequest

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
    names = ("broker_ids", "rack", "draining", "fetching", "unknown", "cordoned")
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
