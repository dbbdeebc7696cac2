"""The planners of all goals in udfs/planning/goal_registry.py: from a cluster model and a request to replica lists."""

from dataclasses import replace

import numpy as np

from udfs.arrow.ragged import find_in_segment, position_of, row_of
from udfs.planning.annealing.balance_certificate import explain_low_disk
from udfs.planning.annealing.balance_plan import plan_balance
from udfs.planning.bounds.lower_bounds import count_missing_replicas, count_rack_repairs
from udfs.planning.certificates import CopyCertificate, RackRepairs
from udfs.planning.cluster_model import ClusterModel, FreezeReason, ProposedAssignment
from udfs.planning.constraints import EVEN_GOALS, Rules, build_rules, find_rack_violations, find_staying_brokers
from udfs.planning.disk_relief import empty_log_dirs, relieve_disks
from udfs.planning.elections import find_in_sync_replicas
from udfs.planning.leadership.bytes_out_order import plan_bytes_out_order
from udfs.planning.leadership.preferred_leaders import plan_preferred_leaders, plan_topic_leaders
from udfs.planning.leadership.takeover_order import plan_leadership
from udfs.planning.log_dir_balance import even_out_log_dirs
from udfs.planning.plan_request import ALL, COPYSETS, MIN_BYTES, MIN_MOVES, PlanRequest
from udfs.planning.replicas.copyset_reduction import reduce_copysets
from udfs.planning.replicas.replica_counts import plan_replica_counts
from udfs.planning.zones.zone_plan import plan_zones

__all__ = ["empty_log_dirs", "even_out_log_dirs", "plan_zones", "relieve_disks"]  # for the registry of goals


def plan_order(model: ClusterModel, request: PlanRequest) -> ProposedAssignment:
    """Plan for the goals leaders and failover, which copy nothing."""
    if request.by_bytes:
        return plan_bytes_out_order(model, request)
    if request.goal == "failover":
        return plan_leadership(model, request.keep_leaders, by_topic=request.per_topic)
    return plan_topic_leaders(model) if request.per_topic else plan_preferred_leaders(model)


def plan_copies(model: ClusterModel, request: PlanRequest) -> ProposedAssignment:
    """Plan for the goals that copy replicas."""
    drain_first = _put_drain_first(model, request)
    rules = build_rules(model, drain_first)
    if rules.goal in EVEN_GOALS and request.objective == ALL:
        proposal = plan_balance(model, rules, drain_first)
    else:
        objective = MIN_MOVES if request.objective == MIN_MOVES else MIN_BYTES
        proposal = plan_replica_counts(model, rules, objective=objective)
        if rules.even and model.find_copied(proposal).any():
            proposal = _even_out_leaders(model, rules, proposal)
        if rules.even:
            proposal = _add_low_disk(model, rules, request, proposal)
    if rules.even or request.goal == "repair":
        proposal = _add_rack_repairs(model, rules, proposal)
    if drain_first != request:
        proposal = _add_violations_left(model, build_rules(model, request), proposal)
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


def take_positions(model: ClusterModel, rules: Rules, proposal: ProposedAssignment) -> ProposedAssignment:
    """Order the lists that a plan changes as the source has them, with each replacement where the old broker stands.

    A new broker may be the preferred leader before it is in sync: Kafka elects preferred leaders from the ISR only. A
    broker that replaces none keeps its position in the list. Down brokers stay behind live ones.
    """
    row, listed, new = row_of(proposal.offsets), position_of(proposal.offsets), proposal.replicas
    source, changed = model.source_order, model.find_changed(proposal)[row]
    replaced = np.where(rules.replacement[source] >= 0, rules.replacement[source], source)
    own_place, old_place = (
        find_in_segment(new, proposal.offsets, lists, model.offsets) for lists in (source, replaced)
    )
    # A replacement that holds the partition already keeps its own position.
    position = np.select([~changed, own_place >= 0, old_place >= 0], [listed, own_place, old_place], listed)
    order = np.lexsort((listed, position, changed & ~model.live[new], row))
    return replace(proposal, replicas=new[order])


def _put_drain_first(model: ClusterModel, request: PlanRequest) -> PlanRequest:
    """Return a request whose budget is for the brokers to drain, if it does not pay for rack violations as well."""
    if request.goal != "drain" or (request.max_bytes is None and request.max_moves is None):
        return request
    rules = build_rules(model, request)
    missing = count_missing_replicas(model, rules)
    pays = float(missing @ model.size) <= rules.byte_budget and int(missing.sum()) <= rules.move_budget
    return request if pays else replace(request, keep_rack_violations=True)


def _add_rack_repairs(model: ClusterModel, rules: Rules, proposal: ProposedAssignment) -> ProposedAssignment:
    """Add to the certificate what a plan for another goal copies only to repair racks."""
    certificate = proposal.certificate
    repairs = count_rack_repairs(model, rules, proposal)
    if not isinstance(certificate, CopyCertificate) or not repairs.any():
        return proposal
    rack_repairs = RackRepairs(int(repairs.sum()), round(float(repairs @ model.size)))
    return replace(proposal, certificate=replace(certificate, rack_repairs=rack_repairs))


def _add_violations_left(model: ClusterModel, rules: Rules, proposal: ProposedAssignment) -> ProposedAssignment:
    """Add to the missed targets the partitions that break these rules because the budget is for brokers to drain."""
    certificate = proposal.certificate
    placed = model.with_lists(proposal.offsets, proposal.replicas)
    left = np.flatnonzero(find_rack_violations(placed, rules.rack_cap) & (model.frozen != FreezeReason.OTHER_TOPIC))
    if not isinstance(certificate, CopyCertificate) or not len(left):
        return proposal
    text = f"racks: {model.describe_partitions(left)} keep too many replicas in one rack; the budget is for the drain"
    return replace(proposal, certificate=replace(certificate, missed=[*certificate.missed, text]))
