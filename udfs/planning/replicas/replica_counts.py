"""Plans that even out replica counts with the least that has to move: min-cost flows, and what they prove."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from udfs.arrow.ragged import any_true, row_of
from udfs.planning.cluster_model import FROZEN_WORDS, ClusterModel, Ints, ProposedAssignment, changed
from udfs.planning.constraints import Infeasible, Rules, over_cap
from udfs.planning.infeasibility import reasons_against
from udfs.planning.plan_text import brokers_text, some
from udfs.planning.replicas.count_lists import Lists, lists_of, spent, task_of
from udfs.planning.replicas.count_targets import Bounds, even_bounds
from udfs.planning.replicas.move_budget import exceeds, within_budget

OBJECTIVES = ("min-bytes", "min-moves")
REASONS = (
    "its replication factor changes",
    "a replica is on a down broker",
    "a replica is on a broker to be emptied",
    "a rack holds more of its replicas than it may",
    "a broker that holds nothing is filled",
    "replica counts are evened out",
)


def move_by_counts(
    model: ClusterModel, rules: Rules, lo: Ints | None = None, hi: Ints | None = None, objective: str = "min-bytes"
) -> ProposedAssignment:
    """Replica lists that keep to the rules, with counts between lo and hi (int64, n; None = as even as can be).

    Of all of these they move the fewest bytes, and of those the fewest replicas; with min-moves the other way round.
    Goals that are not about counts move only what they must, and even out counts with that. Infeasible if nothing does.
    """
    if objective not in OBJECTIVES:
        raise ValueError(f"objective {objective!r}: must be one of {', '.join(OBJECTIVES)}")
    against = reasons_against(model, rules)
    if against:
        raise Infeasible(against)
    bounds = even_bounds(model, rules)
    if lo is not None or hi is not None:
        bounds = Bounds(
            bounds.lo if lo is None else lo, np.minimum(bounds.hi if hi is None else hi, rules.max_replicas)
        )
    if not model.size.any():
        objective = "min-moves"
    if rules.fixed.all():
        lists = Lists(model.offsets, model.replicas, 0.0, 1.0, True)
        return _proposal(model, rules, bounds, lists, objective, {})
    alone = np.bincount(model.rack).max() <= 1  # a rack of one broker asks for nothing more than distinct brokers
    flat = replace(model, rack=np.zeros_like(model.rack)) if alone else model
    same = replace(rules, cap=rules.factor) if alone else rules
    task = task_of(flat, same, bounds, np.flatnonzero(~rules.fixed), hubs=True)
    lists = lists_of(task, objective, not rules.even)
    about: dict[str, Any] = {}
    if exceeds(model, rules, lists):
        lists, about = within_budget(task, lists, objective)
    return _proposal(model, rules, bounds, lists, objective, about)


def _proposal(
    model: ClusterModel, rules: Rules, bounds: Bounds, lists: Lists, objective: str, about: dict[str, Any]
) -> ProposedAssignment:
    moves, size = spent(model, lists)
    value = float(size.sum()) if objective == "min-bytes" else int(moves.sum())
    bound = lists.bound if objective == "min-bytes" else round(lists.bound)
    counts = np.bincount(lists.replicas, minlength=model.brokers)
    certificate: dict[str, Any] = {
        "objective": objective,
        "value": value,
        "lower_bound": min(bound, value),
        "gap": max(value - bound, 0),
        "attained": lists.attained,
        "step_bytes": lists.unit,
        "moves": int(moves.sum()),
        "moves_lower_bound": _fewest_moves(model, rules, bounds),
        "bytes": float(size.sum()),
        "replicas_min": int(counts[rules.receives].min(initial=counts.max(initial=0))),
        "replicas_max": int(counts[rules.receives].max(initial=0)),
        "relaxed": list(bounds.forced) if rules.even else [],
        **about,
    }
    certificate["missed"] = [*about.get("missed", []), *_missed(model, rules, bounds, lists, counts)]
    why = np.where(changed(model, lists.offsets, lists.replicas), _why(model, rules, lists), -1)
    return ProposedAssignment(lists.offsets, lists.replicas, why.astype(np.int16), REASONS, certificate)


def _fewest_moves(model: ClusterModel, rules: Rules, bounds: Bounds) -> int:
    """Moves that any plan needs: replicas that leave or are over, brokers that lack some, partitions that do."""
    stays = ~rules.must_leave[model.replicas] | rules.fixed[model.row]
    racks = int(model.rack.max(initial=0)) + 1
    cells, there = np.unique((model.row * racks + model.rack[model.replicas])[stays], return_counts=True)
    row = cells // racks
    there = np.where(rules.fixed[row], there, np.minimum(there, rules.cap[row]))
    have = np.bincount(row, there, model.partitions).astype(np.int64)
    bound = int(np.maximum(rules.factor - have, 0).sum())
    if not rules.even:
        return bound
    counts = np.bincount(model.replicas[stays], minlength=model.brokers)
    under = int(np.maximum(bounds.lo - counts, 0)[rules.receives].sum())
    return max(bound, under, int(rules.factor.sum() - np.minimum(counts, bounds.hi).sum()))


def _missed(model: ClusterModel, rules: Rules, bounds: Bounds, lists: Lists, counts: Ints) -> list[str]:
    """What the plan does not reach, in words."""
    out = []
    for code in np.unique(model.frozen[rules.left_out]):
        rows = np.flatnonzero(rules.left_out & (model.frozen == code))
        out.append(f"{some(model, rows)} cannot be changed: {FROZEN_WORDS[code]}")
    load = np.bincount(lists.replicas, model.size[row_of(lists.offsets)], model.brokers)
    for broker in np.flatnonzero(rules.receives & (load > rules.max_bytes)):
        words = f"holds {load[broker]:.0f} bytes of at most {rules.max_bytes[broker]:.0f}"
        out.append(f"broker {model.broker_ids[broker]} {words}")
    stuck = np.flatnonzero(rules.must_leave & (counts > 0))
    ids = model.ids(stuck)
    out += [f"broker {broker} still holds {left}" for broker, left in zip(ids, counts[stuck].tolist(), strict=True)]
    if not rules.even:
        return out
    for side, off in (("more than", counts - bounds.hi), ("less than", bounds.lo - counts)):
        places = np.flatnonzero(rules.receives & (off > 0))
        if len(places):
            limit = (bounds.hi if side == "more than" else bounds.lo)[places].tolist()
            wanted = f"{min(limit)}" if min(limit) == max(limit) else f"{min(limit)} to {max(limit)}"
            out.append(f"{brokers_text(model, places)}: {off[places].sum()} replicas {side} {wanted} each")
    return out


def _why(model: ClusterModel, rules: Rules, lists: Lists) -> Ints:
    """The first of REASONS that holds for each partition: int64 (p)."""
    leaves = rules.must_leave[model.replicas]
    empty = np.bincount(model.replicas, minlength=model.brokers) == 0
    return np.select(
        [
            rules.factor != model.factor,
            any_true(leaves & ~model.live[model.replicas], model.offsets),
            any_true(leaves, model.offsets),
            over_cap(model, rules.cap),
            any_true(empty[lists.replicas], lists.offsets),
        ],
        range(5),
        5,
    )
