"""The planners of goals: from a problem and what is wished for to replica lists. goals.py names them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from udfs.planning import constraints
from udfs.planning.annealing.balance_plan import balance
from udfs.planning.cluster_model import (
    Draft,
    Problem,
    changed,
    moved,
)
from udfs.planning.leadership.bytes_out_order import by_bytes
from udfs.planning.leadership.leadership_plans import zero_byte
from udfs.planning.leadership.preferred_leaders import leaders
from udfs.planning.leadership.topic_leaders import topic_leaders
from udfs.planning.plan_request import (
    ALL,
    COPYSETS,
    MIN_BYTES,
    MIN_MOVES,
    Wishes,
)
from udfs.planning.replicas.copyset_reduction import fewer_sets
from udfs.planning.replicas.replica_counts import move_by_counts
from udfs.planning.request_checks import hard_wishes


def _led(problem: Problem, rules: constraints.Rules, draft: Draft) -> Draft:
    """The same sets with even leaders and heirs: by counts alone, new brokers would lead nothing. Nothing is copied."""
    ordered = zero_byte(problem.placed(draft.offsets, draft.replicas), may_lead=constraints.staying(problem, rules))
    differs = changed(problem, ordered.offsets, ordered.replicas)
    new = len(draft.reasons)
    reason = np.where(draft.reason >= 0, draft.reason, np.where(differs, new, -1)).astype(np.int16)
    reason[~differs] = -1
    reasons = (*draft.reasons, "leaders, or who takes over from them, are evened out: nothing is copied")
    return replace(draft, replicas=ordered.replicas, reason=reason, reasons=reasons)


def even_leaders(problem: Problem, wishes: Wishes) -> Draft:
    """Goal leaders."""
    if wishes.by_bytes:
        return by_bytes(problem, wishes)
    return topic_leaders(problem) if wishes.per_topic else leaders(problem)


def even_heirs(problem: Problem, wishes: Wishes) -> Draft:
    """Goal failover."""
    if wishes.by_bytes:
        return by_bytes(problem, wishes)
    return zero_byte(problem, wishes.keep_leaders, by_topic=wishes.per_topic)


def even(problem: Problem, wishes: Wishes) -> Draft:
    """Goals balance, drain and expand."""
    rules = constraints.rules_for(problem, wishes.goal, hard_wishes(problem, wishes))
    if wishes.objective == ALL:
        draft = balance(problem, rules, wishes)
    else:
        draft = _counted(problem, rules, wishes)
        if moved(problem, draft.offsets, draft.replicas).any():
            draft = _led(problem, rules, draft)
    return _fewer(problem, rules, draft, wishes)


def by_counts(problem: Problem, wishes: Wishes) -> Draft:
    """Goals replace, repair and rf."""
    rules = constraints.rules_for(problem, wishes.goal, hard_wishes(problem, wishes))
    return _fewer(problem, rules, _counted(problem, rules, wishes), wishes)


def _counted(problem: Problem, rules: constraints.Rules, wishes: Wishes) -> Draft:
    return move_by_counts(problem, rules, objective=MIN_MOVES if wishes.objective == MIN_MOVES else MIN_BYTES)


def _fewer(problem: Problem, rules: constraints.Rules, draft: Draft, wishes: Wishes) -> Draft:
    return fewer_sets(problem, rules, draft, wishes.seed) if COPYSETS in wishes.priorities else draft
