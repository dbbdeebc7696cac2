"""Rack violations beside the goal of a plan: what their repair copies, and drains whose budget does not pay for it."""

from dataclasses import replace

import numpy as np

from udfs.planning.bounds.reached_bounds import count_missing_replicas, count_rack_repairs
from udfs.planning.certificates import CopyCertificate, RackRepairs
from udfs.planning.cluster_model import ClusterModel, ProposedAssignment
from udfs.planning.constraints import Rules, build_rules, find_rack_violations
from udfs.planning.plan_request import PlanRequest


def put_drain_first(model: ClusterModel, request: PlanRequest) -> PlanRequest:
    """Return a request whose budget is for the brokers to drain, if it does not pay for rack violations as well."""
    if request.goal != "drain" or (request.max_bytes is None and request.max_moves is None):
        return request
    rules = build_rules(model, request)
    missing = count_missing_replicas(model, rules)
    pays = float(missing @ model.size) <= rules.byte_budget and int(missing.sum()) <= rules.move_budget
    return request if pays else replace(request, keep_rack_violations=True)


def add_rack_repairs(model: ClusterModel, rules: Rules, proposal: ProposedAssignment) -> ProposedAssignment:
    """Add to the certificate what a plan for another goal copies only to repair racks."""
    certificate = proposal.certificate
    repairs = count_rack_repairs(model, rules, proposal)
    if not isinstance(certificate, CopyCertificate) or not repairs.any():
        return proposal
    rack_repairs = RackRepairs(int(repairs.sum()), round(float(repairs @ model.size)))
    return replace(proposal, certificate=replace(certificate, rack_repairs=rack_repairs))


def add_violations_left(model: ClusterModel, rules: Rules, proposal: ProposedAssignment) -> ProposedAssignment:
    """Add to the missed targets the partitions that break these rules because the budget is for brokers to drain."""
    certificate = proposal.certificate
    placed = model.with_lists(proposal.offsets, proposal.replicas)
    left = np.flatnonzero(find_rack_violations(placed, rules.rack_cap))
    if not isinstance(certificate, CopyCertificate) or not len(left):
        return proposal
    text = f"racks: {model.describe_partitions(left)} keep too many replicas in one rack; the budget is for the drain"
    return replace(proposal, certificate=replace(certificate, missed=[*certificate.missed, text]))
