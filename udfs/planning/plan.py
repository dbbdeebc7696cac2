"""One plan: from what is wished for to the planner that makes it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from udfs.kernels.ragged import any_true
from udfs.planning import hard
from udfs.planning.balance import balance
from udfs.planning.bytes_order import by_bytes
from udfs.planning.copysets import fewer_sets
from udfs.planning.counts import move_by_counts
from udfs.planning.leaders import leaders
from udfs.planning.problem import CRIPPLED, FREE, Draft, Problem, changed, moved
from udfs.planning.sense import hard_wishes
from udfs.planning.topic_leaders import topic_leaders
from udfs.planning.wishes import ALL, COPYSETS, MIN_BYTES, MIN_MOVES, Wishes
from udfs.planning.zero_byte import zero_byte


def without_crippled(problem: Problem, goal: str) -> Problem:
    """The problem in which partitions with a replica on a dead broker stay as they are, unless `goal` is repair."""
    if goal == "repair":
        return problem
    dead = any_true(~problem.living[problem.replicas], problem.offsets) & (problem.frozen == FREE)
    return replace(problem, frozen=np.where(dead, CRIPPLED, problem.frozen).astype(np.int8)) if dead.any() else problem


def _led(problem: Problem, rules: hard.Rules, draft: Draft) -> Draft:
    """The same sets with even leaders and heirs: by counts alone, new brokers would lead nothing. Nothing is copied."""
    ordered = zero_byte(problem.placed(draft.offsets, draft.replicas), may_lead=hard.staying(problem, rules))
    differs = changed(problem, ordered.offsets, ordered.replicas)
    new = len(draft.reasons)
    reason = np.where(draft.reason >= 0, draft.reason, np.where(differs, new, -1)).astype(np.int16)
    reason[~differs] = -1
    reasons = (*draft.reasons, "leaders, or who takes over from them, are evened out: nothing is copied")
    return replace(draft, replicas=ordered.replicas, reason=reason, reasons=reasons)


def make_plan(problem: Problem, wishes: Wishes) -> Draft:
    """The best plan for a wish. hard.Infeasible with the reasons if none keeps to the rules; ValueError for a wish that
    makes no sense in this cluster."""
    problem = without_crippled(problem, wishes.goal)
    if wishes.by_bytes and wishes.goal in ("leaders", "failover"):
        return by_bytes(problem, wishes)
    if wishes.goal == "leaders":
        return topic_leaders(problem) if wishes.per_topic else leaders(problem)
    if wishes.goal == "failover":
        return zero_byte(problem, wishes.keep_leaders, by_topic=wishes.per_topic)
    rules = hard.rules_for(problem, wishes.goal, hard_wishes(problem, wishes))
    if wishes.objective == ALL and wishes.goal in ("balance", "expand", "drain"):
        draft = balance(problem, rules, wishes)
    else:
        draft = move_by_counts(problem, rules, objective=MIN_MOVES if wishes.objective == MIN_MOVES else MIN_BYTES)
        copies = moved(problem, draft.offsets, draft.replicas).any()
        if wishes.goal in ("balance", "expand", "drain") and copies:
            draft = _led(problem, rules, draft)
    return fewer_sets(problem, rules, draft, wishes.seed) if COPYSETS in wishes.priorities else draft
