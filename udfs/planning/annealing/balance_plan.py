"""Balance, expand, drain: everything at once, from lists that are legal and even in counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from udfs.arrow.ragged import row_of
from udfs.planning.annealing.kernels.search_state import Work, new_state
from udfs.planning.annealing.search import BALANCE, FEWEST, TOLERANCE, Found, Task, excess, search
from udfs.planning.annealing.search_limits import Units, limits_of, units_of, work_of
from udfs.planning.bounds.copy_bounds import Covering, covering
from udfs.planning.candidate_choice import best_of
from udfs.planning.certificates import certificate_of, reasons_of
from udfs.planning.cluster_model import ClusterModel, Flags, Ints, Places, ProposedAssignment
from udfs.planning.constraints import Infeasible, Rules, over_cap, rules_for, staying
from udfs.planning.infeasibility import reasons_against
from udfs.planning.plan_request import BYTES_OUT, FAILOVER, PlanRequest
from udfs.planning.replicas.heavy_partitions import Heavy, place_heavy
from udfs.planning.replicas.replica_counts import move_by_counts

# Where the moves that expand and drain may make do not suffice for their limits of disk and bytes in: so much looser,
# beyond what an integer program finds or without one, each with a seed of its own.
_LOOSER = (0.0, 0.0, 0.01, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3)
_ENOUGH = 3  # tries, where replicas do not become even: a budget is in the way


def balance(model: ClusterModel, rules: Rules, request: PlanRequest) -> ProposedAssignment:
    """The plan. rules: of the goal. hard.Infeasible if no plan keeps to them, or to the brokers' capacity."""
    if request.goal == "expand":  # the others may take some too, where that evens out what they give
        rules = replace(rules, receives=_all_receivers(model, rules, request))
    reasons = reasons_against(model, rules)
    if reasons:
        raise Infeasible(reasons)
    units = units_of(model, rules)
    offsets, replicas = _begin(model, rules, request)
    work = work_of(model, rules, units, offsets, replicas)
    looks = BYTES_OUT in request.priorities and FAILOVER in request.priorities

    def tried(
        ratio: float, capped: bool = request.goal != "balance", heavy: Heavy | None = None, seed: int = 0
    ) -> tuple[Task, Found]:
        """The search with expand's and drain's limits of disk and bytes in at `ratio` times the mean."""
        limits = limits_of(model, rules, units, request, work, ratio)
        if capped:
            begun = int(new_state(work, limits, replicas).copies[0])
            limits = limits._replace(moves=min(limits.moves, float(int(begun * (1 + request.targets.extra_moves)))))
        task = Task(
            work,
            limits,
            replicas if heavy is None else heavy.slots,
            np.flatnonzero(rules.receives).astype(np.int32),
            units.brokers,
            request.targets.failover_out if looks else np.inf,
            FEWEST if capped else BALANCE,
            _bound(model, rules, request, units, ratio),
            request.seed + seed,
            None if heavy is None else heavy.rows,
        )
        return task, search(task)

    ratio = request.targets.loose
    task, found = tried(ratio)
    least = ratio
    paid = request.max_bytes is None and request.max_moves is None  # a budget is not a matter of looser limits
    if request.goal != "balance" and paid and _beyond(task, found) > 0.0:
        ratio, task, found, least = _loosened(ratio, task, found, tried, rules.must_leave)
        loose = limits_of(model, rules, units, request, work, ratio)
        task = replace(task, limits=task.limits._replace(disk=loose.disk, into=loose.into))
        found = replace(found, limits=found.limits._replace(disk=loose.disk, into=loose.into))
    if _too_full(model, request, units, work, found):  # capacity comes before the number of moves
        task, found = tried(ratio, capped=False)
    if request.goal == "balance":
        found = best_of(model, rules, request, units, task, found)
    reasons = _too_full(model, request, units, work, found)
    if reasons:
        raise Infeasible(reasons)
    limits = task.limits
    lists = tidy(model, offsets, found.slots)
    proposal = ProposedAssignment(offsets, lists, np.full(model.partitions, -1, dtype=np.int16), ())
    reason, reasons = reasons_of(model, rules, limits, units, proposal, found.oversized)
    certificate = certificate_of(model, rules, request, units, task, found, proposal, (ratio, least))
    return replace(proposal, reason=reason, reasons=reasons, certificate=certificate)


def _too_full(model: ClusterModel, request: PlanRequest, units: Units, work: Work, found: Found) -> tuple[str, ...]:
    """The fullest broker beyond what any can hold, in words."""
    state = new_state(work, found.limits, found.slots)
    out = []
    for load, most, what in (
        (state.disk * units.disk, request.broker_bytes, "bytes"),
        (state.replicas.astype(np.float64), request.broker_replicas, "replicas"),
    ):
        worst = int(np.argmax(np.where(model.live, load, -1.0))) if len(load) else 0
        if most is not None and len(load) and load[worst] > most * (1 + 1e-9):
            ids = model.broker_ids[worst]
            out.append(
                f"broker {ids} would hold {load[worst]:.0f} {what} and can hold {most}: no plan within was found"
            )
    return tuple(out)


def _beyond(task: Task, found: Found, *names: str) -> float:
    """By how much disk or bytes in (or what is named) exceed limits, in units of the mean; inf: replicas are uneven."""
    over = excess(found.limits, new_state(task.work, found.limits, found.slots))
    worst = max(float(over[name].max()) for name in names or ("disk", "bytes_in"))
    return np.inf if over["replicas"].max() >= TOLERANCE["replicas"] else worst if worst > TOLERANCE[""] else 0.0


def _loosened(
    ratio: float, task: Task, found: Found, tried: Callable[..., tuple[Task, Found]], leaves: Flags
) -> tuple[float, Task, Found, float]:
    """The least ratio found that the allowed moves suffice for, with its search, and what is proven.

    leaves: bool (n), brokers to be emptied.
    """
    reached, out = ratio + _beyond(task, found), _beyond(task, found, "bytes_out")
    best = (reached if reached < np.inf else ratio, task, found)
    heavy = place_heavy(task.work, task.limits, task.slots, leaves)
    found_at, least = (ratio, ratio) if heavy is None else (ratio + heavy.looser, ratio + heavy.least)
    for seed, more in enumerate(_LOOSER):
        looser = found_at + more
        if looser >= reached or (seed == _ENOUGH and reached == np.inf):
            break
        task, found = tried(looser, heavy=heavy, seed=seed)
        again, uneven = looser + _beyond(task, found), _beyond(task, found, "bytes_out")
        if again + uneven < reached + out:
            reached, out = again, uneven
            best = (reached, task, found)
    return (*best, least)


def _all_receivers(model: ClusterModel, rules: Rules, request: PlanRequest) -> np.ndarray:
    excluded = np.isin(model.broker_ids, np.asarray(request.exclude_brokers, dtype=np.int64))
    return staying(model, rules) & ~excluded


def _begin(model: ClusterModel, rules: Rules, request: PlanRequest) -> tuple[Ints, Places]:
    """Legal lists to begin with: even in counts where the goal says so, else as they are but for racks."""
    if request.goal != "balance":
        proposal = move_by_counts(model, rules, objective="min-moves")
        return proposal.offsets, proposal.replicas
    if over_cap(model, rules.cap)[~rules.fixed].any():
        mended = replace(
            rules_for(model, "repair"),
            receives=rules.receives,
            must_leave=rules.must_leave,
            factor=rules.factor,
            cap=rules.cap,
            fixed=rules.fixed | ~over_cap(model, rules.cap),
        )
        proposal = move_by_counts(model, mended, objective="min-bytes")
        return proposal.offsets, proposal.replicas
    return model.offsets, model.replicas


def _bound(model: ClusterModel, rules: Rules, request: PlanRequest, units: Units, loose: float) -> Covering:
    """What must be copied at least, in units of disk, whatever the lists: see covering."""
    work = work_of(model, rules, units, model.offsets, model.replicas)
    limits = limits_of(model, rules, units, request, work, loose)
    state = new_state(work, limits, model.replicas)
    leaves = rules.must_leave[model.replicas] & ~rules.fixed[model.row]
    stays = ~rules.must_leave
    excess = (
        (state.disk - limits.disk) * stays,
        (state.into - limits.into) * stays,
        (state.replicas - limits.replicas_high) * stays,
    )
    found = covering(model.replicas, model.row, (work.disk, work.into), excess, ~rules.fixed[model.row])
    return replace(found, bound=found.bound + float(work.disk[model.row[leaves]].sum()))


def tidy(model: ClusterModel, offsets: Ints, slots: Places) -> Places:
    """The lists with leader and successor first, then the others as they stood before, and what is new last."""
    if np.array_equal(offsets, model.offsets) and np.array_equal(slots, model.replicas):
        return slots
    row, n = row_of(offsets), np.int64(max(model.brokers, 1))
    before = model.row * n + model.replicas
    order = np.argsort(before, kind="stable")
    keys = row * n + slots
    at = np.minimum(np.searchsorted(before[order], keys), max(len(before) - 1, 0))
    held = before[order][at] == keys if len(before) else np.zeros(len(keys), dtype=np.bool_)
    place = np.arange(len(slots)) - offsets[:-1][row]
    rank = np.where(place < 2, place - 2, np.where(held, order[at], len(before) + place))
    return slots[np.lexsort((rank, row))]
