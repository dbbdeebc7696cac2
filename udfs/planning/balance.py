"""Balance, expand, drain: everything at once, from lists that are legal and even in counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from udfs.kernels.annealing_state import new_state
from udfs.kernels.ragged import row_of
from udfs.planning.certify import certificate_of, reasons_of
from udfs.planning.counts import move_by_counts
from udfs.planning.covering import Covering, covering
from udfs.planning.hard import Infeasible, Rules, over_cap, rules_for
from udfs.planning.problem import Draft, Ints, Places, Problem
from udfs.planning.search import BALANCE, FEWEST, Task, search
from udfs.planning.setup import Units, limits_of, units_of, work_of
from udfs.planning.wishes import BYTES_OUT, FAILOVER, Wishes


def balance(problem: Problem, rules: Rules, wishes: Wishes) -> Draft:
    """The plan. rules: of the goal. hard.Infeasible if no plan keeps to them, or to the brokers' capacity."""
    if wishes.goal == "expand":  # the others may take some too, where that evens out what they give
        rules = replace(rules, receives=_all_receivers(problem, rules, wishes))
    units = units_of(problem, rules)
    offsets, replicas = _begin(problem, rules, wishes)
    work = work_of(problem, rules, units, offsets, replicas)
    limits = limits_of(problem, rules, units, wishes, work)
    if wishes.goal != "balance":
        begun = int(new_state(work, limits, replicas).copies[0])
        limits = limits._replace(moves=min(limits.moves, float(int(begun * (1 + wishes.targets.extra_moves)))))
    bound = _bound(problem, rules, wishes, units)
    looks = BYTES_OUT in wishes.priorities and FAILOVER in wishes.priorities
    task = Task(
        work,
        limits,
        replicas,
        np.flatnonzero(rules.receives).astype(np.int32),
        units.brokers,
        wishes.targets.failover_out if looks else np.inf,
        BALANCE if wishes.goal == "balance" else FEWEST,
        bound,
        wishes.seed,
    )
    found = search(task)
    state = new_state(work, found.limits, found.slots)
    if wishes.broker_bytes is not None and (state.disk * units.disk > wishes.broker_bytes * (1 + 1e-9)).any():
        worst = int(np.argmax(state.disk))
        held = f"{state.disk[worst] * units.disk:.0f} bytes, it can hold {wishes.broker_bytes}"
        raise Infeasible([f"broker {problem.broker_ids[worst]} would hold {held}, and no other has the room"])
    lists = tidy(problem, offsets, found.slots)
    draft = Draft(offsets, lists, np.full(problem.partitions, -1, dtype=np.int16), ())
    reason, reasons = reasons_of(problem, rules, limits, units, draft, found.giants)
    certificate = certificate_of(problem, rules, wishes, units, task, found, draft)
    return replace(draft, reason=reason, reasons=reasons, certificate=certificate)


def _all_receivers(problem: Problem, rules: Rules, wishes: Wishes) -> np.ndarray:
    excluded = np.isin(problem.broker_ids, np.asarray(wishes.exclude_brokers, dtype=np.int64))
    return problem.living & ~problem.draining & ~rules.must_leave & ~excluded


def _begin(problem: Problem, rules: Rules, wishes: Wishes) -> tuple[Ints, Places]:
    """Legal lists to begin with: even in counts where the goal says so, else as they are but for racks."""
    if wishes.goal != "balance":
        draft = move_by_counts(problem, rules, objective="min-moves")
        return draft.offsets, draft.replicas
    if over_cap(problem, rules.cap)[~rules.fixed].any():
        mended = replace(
            rules_for(problem, "repair"),
            receives=rules.receives,
            must_leave=rules.must_leave,
            factor=rules.factor,
            cap=rules.cap,
            fixed=rules.fixed | ~over_cap(problem, rules.cap),
        )
        draft = move_by_counts(problem, mended, objective="min-bytes")
        return draft.offsets, draft.replicas
    return problem.offsets, problem.replicas


def _bound(problem: Problem, rules: Rules, wishes: Wishes, units: Units) -> Covering:
    """What must be copied at least, in units of disk, whatever the lists: see covering."""
    work = work_of(problem, rules, units, problem.offsets, problem.replicas)
    limits = limits_of(problem, rules, units, wishes, work)
    state = new_state(work, limits, problem.replicas)
    leaves = rules.must_leave[problem.replicas] & ~rules.fixed[problem.row]
    stays = ~rules.must_leave
    excess = (
        (state.disk - limits.disk) * stays,
        (state.into - limits.into) * stays,
        (state.replicas - limits.replicas_high) * stays,
    )
    found = covering(problem.replicas, problem.row, (work.disk, work.into), excess, ~rules.fixed[problem.row])
    return replace(found, bound=found.bound + float(work.disk[problem.row[leaves]].sum()))


def tidy(problem: Problem, offsets: Ints, slots: Places) -> Places:
    """The lists with leader and heir first, then the others as they stood before, and what is new last."""
    if np.array_equal(offsets, problem.offsets) and np.array_equal(slots, problem.replicas):
        return slots
    row, n = row_of(offsets), np.int64(max(problem.brokers, 1))
    before = problem.row * n + problem.replicas
    order = np.argsort(before, kind="stable")
    keys = row * n + slots
    at = np.minimum(np.searchsorted(before[order], keys), max(len(before) - 1, 0))
    held = before[order][at] == keys if len(before) else np.zeros(len(keys), dtype=np.bool_)
    place = np.arange(len(slots)) - offsets[:-1][row]
    rank = np.where(place < 2, place - 2, np.where(held, order[at], len(before) + place))
    return slots[np.lexsort((rank, row))]
