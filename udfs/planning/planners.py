"""The planners of goals: from a model and what is wished for to replica lists. goals.py names them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from udfs.planning import constraints
from udfs.planning.annealing.balance_plan import balance
from udfs.planning.cluster_model import ClusterModel, ProposedAssignment, changed, moved
from udfs.planning.leadership.bytes_out_order import by_bytes
from udfs.planning.leadership.leadership_plans import zero_byte
from udfs.planning.leadership.preferred_leaders import leaders
from udfs.planning.leadership.topic_leaders import topic_leaders
from udfs.planning.plan_request import ALL, COPYSETS, MIN_BYTES, MIN_MOVES, PlanRequest
from udfs.planning.replicas.copyset_reduction import fewer_sets
from udfs.planning.replicas.replica_counts import move_by_counts
from udfs.planning.request_checks import hard_request


def _led(model: ClusterModel, rules: constraints.Rules, proposal: ProposedAssignment) -> ProposedAssignment:
    """The same sets with even leaders and successors: by counts alone, new brokers would lead nothing. Nothing is
    copied."""
    ordered = zero_byte(model.placed(proposal.offsets, proposal.replicas), may_lead=constraints.staying(model, rules))
    differs = changed(model, ordered.offsets, ordered.replicas)
    new = len(proposal.reasons)
    reason = np.where(proposal.reason >= 0, proposal.reason, np.where(differs, new, -1)).astype(np.int16)
    reason[~differs] = -1
    reasons = (*proposal.reasons, "leaders, or who takes over from them, are evened out: nothing is copied")
    return replace(proposal, replicas=ordered.replicas, reason=reason, reasons=reasons)


def even_leaders(model: ClusterModel, request: PlanRequest) -> ProposedAssignment:
    """Goal leaders."""
    if request.by_bytes:
        return by_bytes(model, request)
    return topic_leaders(model) if request.per_topic else leaders(model)


def even_successors(model: ClusterModel, request: PlanRequest) -> ProposedAssignment:
    """Goal failover."""
    if request.by_bytes:
        return by_bytes(model, request)
    return zero_byte(model, request.keep_leaders, by_topic=request.per_topic)


def even(model: ClusterModel, request: PlanRequest) -> ProposedAssignment:
    """Goals balance, drain and expand."""
    rules = constraints.rules_for(model, request.goal, hard_request(model, request))
    if request.objective == ALL:
        proposal = balance(model, rules, request)
    else:
        proposal = _counted(model, rules, request)
        if moved(model, proposal.offsets, proposal.replicas).any():
            proposal = _led(model, rules, proposal)
    return _fewer(model, rules, proposal, request)


def by_counts(model: ClusterModel, request: PlanRequest) -> ProposedAssignment:
    """Goals replace, repair and rf."""
    rules = constraints.rules_for(model, request.goal, hard_request(model, request))
    return _fewer(model, rules, _counted(model, rules, request), request)


def _counted(model: ClusterModel, rules: constraints.Rules, request: PlanRequest) -> ProposedAssignment:
    return move_by_counts(model, rules, objective=MIN_MOVES if request.objective == MIN_MOVES else MIN_BYTES)


def _fewer(
    model: ClusterModel, rules: constraints.Rules, proposal: ProposedAssignment, request: PlanRequest
) -> ProposedAssignment:
    return fewer_sets(model, rules, proposal, request.seed) if COPYSETS in request.priorities else proposal
