"""Plans that even out replica counts with the fewest copies: min-cost flows, and what they prove."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from udfs.arrow.ragged import any_true, row_of
from udfs.planning.certificates import CountCertificate
from udfs.planning.cluster_model import ClusterModel, FreezeReason, Ints, ProposedAssignment
from udfs.planning.constraints import InfeasibleRequest, Rules, find_rack_violations
from udfs.planning.infeasibility import explain_infeasibility
from udfs.planning.plan_request import MIN_BYTES, MIN_MOVES
from udfs.planning.plan_text import count_of, describe_brokers, describe_partitions
from udfs.planning.replicas.count_lists import SolvedLists, build_count_task, measure_copies, solve_replica_lists
from udfs.planning.replicas.count_targets import CountTargets, compute_count_targets
from udfs.planning.replicas.move_budget import BudgetedLists, exceeds_budget, fit_budget

REASONS = (
    "its replication factor changes",
    "a replica is on a down broker",
    "a replica is on a broker to be emptied",
    "it has too many replicas in one rack",
    "an empty broker is filled",
    "to even out replica counts",
)


def plan_replica_counts(
    model: ClusterModel, rules: Rules, low: Ints | None = None, high: Ints | None = None, objective: str = MIN_BYTES
) -> ProposedAssignment:
    """Plan replica lists that comply with the rules, with the fewest copies.

    Goals that are not about counts move only what they must, and even out counts by that.

    Args:
        model: The cluster.
        rules: The rules of the goal.
        low: int64 (n), fewest replicas of each broker; None = as even as possible.
        high: int64 (n), most replicas of each broker; None = as even as possible.
        objective: min-bytes copies the fewest bytes, and with these the fewest replicas; min-moves the other way round.

    Raises:
        InfeasibleRequest: No lists comply with the rules.
    """
    if objective not in (MIN_BYTES, MIN_MOVES):
        raise ValueError(f"objective {objective!r}: must be {MIN_BYTES} or {MIN_MOVES}")
    reasons = explain_infeasibility(model, rules)
    if reasons:
        raise InfeasibleRequest(reasons)
    targets = compute_count_targets(model, rules)
    if low is not None or high is not None:
        capped = np.minimum(targets.high if high is None else high, rules.broker_replicas)
        targets = CountTargets(targets.low if low is None else low, capped)
    if not model.size.any():
        objective = MIN_MOVES
    if rules.fixed.all():
        lists = SolvedLists(model.offsets, model.replicas, 0.0, 1.0, True)
        return _propose(model, rules, targets, lists, objective)
    single = np.bincount(model.rack).max() <= 1  # racks of one broker ask for distinct brokers, and nothing more
    flat = replace(model, rack=np.zeros_like(model.rack)) if single else model
    flat_rules = replace(rules, rack_cap=rules.factor) if single else rules
    task = build_count_task(flat, flat_rules, targets, np.flatnonzero(~rules.fixed), hubs=True)
    lists = solve_replica_lists(task, objective, not rules.even)
    if exceeds_budget(model, rules, lists):
        budgeted = fit_budget(task, lists, objective)
        return _propose(model, rules, targets, budgeted.lists, objective, budgeted)
    return _propose(model, rules, targets, lists, objective)


def _propose(
    model: ClusterModel,
    rules: Rules,
    targets: CountTargets,
    lists: SolvedLists,
    objective: str,
    budgeted: BudgetedLists | None = None,
) -> ProposedAssignment:
    moves, size = measure_copies(model, lists)
    value = float(size.sum()) if objective == MIN_BYTES else int(moves.sum())
    bound = lists.bound if objective == MIN_BYTES else round(lists.bound)
    counts = np.bincount(lists.replicas, minlength=model.brokers)
    certificate = CountCertificate(
        objective=objective,
        value=value,
        lower_bound=min(bound, value),
        gap=max(value - bound, 0),
        attained=lists.attained,
        step_bytes=lists.unit,
        moves=int(moves.sum()),
        moves_lower_bound=_bound_moves(model, rules, targets),
        bytes=float(size.sum()),
        replicas_min=int(counts[rules.receives].min(initial=counts.max(initial=0))),
        replicas_max=int(counts[rules.receives].max(initial=0)),
        relaxed=list(targets.forced) if rules.even else [],
        missed=list(_explain_missed(model, rules, targets, lists, counts)),
    )
    if budgeted is not None:
        certificate = replace(
            certificate,
            objective=budgeted.objective,
            value=budgeted.value,
            lower_bound=budgeted.lower_bound,
            gap=budgeted.value - budgeted.lower_bound,
            missed=[budgeted.missed, *certificate.missed],
        )
    changed = model.find_changed(lists)
    reason = np.where(changed, _find_reasons(model, rules, lists), -1).astype(np.int16)
    return ProposedAssignment(lists.offsets, lists.replicas, reason, REASONS, certificate)


def _bound_moves(model: ClusterModel, rules: Rules, targets: CountTargets) -> int:
    """Bound the moves of any plan from below: replicas that must leave, brokers and partitions that lack some."""
    stays = ~rules.must_leave[model.replicas] | rules.fixed[model.row]
    racks = int(model.rack.max(initial=0)) + 1
    cells, count = np.unique((model.row * racks + model.rack[model.replicas])[stays], return_counts=True)
    row = cells // racks
    count = np.where(rules.fixed[row], count, np.minimum(count, rules.rack_cap[row]))
    remaining = np.bincount(row, count, model.partitions).astype(np.int64)
    bound = int(np.maximum(rules.factor - remaining, 0).sum())
    if not rules.even:
        return bound
    counts = np.bincount(model.replicas[stays], minlength=model.brokers)
    under = int(np.maximum(targets.low - counts, 0)[rules.receives].sum())
    return max(bound, under, int(rules.factor.sum() - np.minimum(counts, targets.high).sum()))


def _explain_missed(
    model: ClusterModel, rules: Rules, targets: CountTargets, lists: SolvedLists, counts: Ints
) -> Iterator[str]:
    for code in np.unique(model.frozen[rules.blocked]).tolist():
        rows = np.flatnonzero(rules.blocked & (model.frozen == code))
        yield f"{describe_partitions(model, rows)} cannot be changed: {FreezeReason(code).explanation}"
    load = np.bincount(lists.replicas, model.size[row_of(lists.offsets)], model.brokers)
    for broker in np.flatnonzero(rules.receives & (load > rules.broker_bytes)):
        capacity = f"{load[broker]:.0f} bytes, more than its capacity of {rules.broker_bytes[broker]:.0f}"
        yield f"broker {model.broker_ids[broker]} holds {capacity}"
    for broker in np.flatnonzero(rules.must_leave & (counts > 0)):
        yield f"broker {model.broker_ids[broker]} still holds {count_of(counts[broker], 'replica')}"
    if not rules.even:
        return
    for side, limits, off in (
        ("more", targets.high, counts - targets.high),
        ("fewer", targets.low, targets.low - counts),
    ):
        brokers = np.flatnonzero(rules.receives & (off > 0))
        if len(brokers):
            lowest, highest = limits[brokers].min(), limits[brokers].max()
            limit = f"{lowest}" if lowest == highest else f"{lowest} to {highest}"
            replicas = count_of(int(off[brokers].sum()), "replica")
            yield f"{describe_brokers(model, brokers)}: {replicas} {side} than {limit} each"


def _find_reasons(model: ClusterModel, rules: Rules, lists: SolvedLists) -> Ints:
    """Find the first of REASONS that holds for each partition: int64 (p)."""
    leaves = rules.must_leave[model.replicas]
    empty = np.bincount(model.replicas, minlength=model.brokers) == 0
    conditions = [
        rules.factor != model.factor,
        any_true(leaves & ~model.live[model.replicas], model.offsets),
        any_true(leaves, model.offsets),
        find_rack_violations(model, rules.rack_cap),
        any_true(empty[lists.replicas], lists.offsets),
    ]
    return np.select(conditions, range(len(conditions)), len(conditions))
