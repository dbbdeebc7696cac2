"""What is told of a searched plan: bounds, what was relaxed or missed and which partition forces it, reasons."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from udfs.arrow.ragged import any_true, row_of
from udfs.planning.annealing.kernels.search_state import Limits, State, Work, new_state
from udfs.planning.annealing.search import TOLERANCE, Found, Task, excess, room_for_takeovers
from udfs.planning.annealing.search_limits import NO_LIMIT, Units
from udfs.planning.cluster_model import ClusterModel, Flags, Floats, Ints, ProposedAssignment, changed, moved
from udfs.planning.constraints import Rules
from udfs.planning.plan_request import PlanRequest

REASONS = (
    "a replica is on a broker to be emptied",
    "its replicas break the limit of a rack, or are too few",
    "a broker that held nothing is filled",
    "it alone is more than a survivor can take over: leader, successor or a replica have another broker",
    "a broker holds too many bytes",
    "a broker takes too many bytes in",
    "a broker holds too many replicas",
    "it makes room where something else goes",
    "leaders, or their bytes out, are evened out",
    "another broker takes over first when the leader's fails",
)
_WORDS = {
    "replicas": "replicas",
    "leaders": "leaders",
    "disk": "disk",
    "bytes_in": "bytes in",
    "bytes_out": "bytes out of leaders",
    "failover": "leaders of the worst survivor",
    "failover_out": "bytes out of the worst survivor",
}
_MUCH = 1.15  # times the bound, what is copied is explained
_NAMED = 8  # partitions, or brokers, that one text names


def reasons_of(
    model: ClusterModel, rules: Rules, limits: Limits, units: Units, proposal: ProposedAssignment, oversized: Flags
) -> tuple[npt.NDArray[np.int16], tuple[str, ...]]:
    """(for each partition the number of its reason, -1 = unchanged; REASONS)."""
    differs = changed(model, proposal.offsets, proposal.replicas)
    copied = any_true(moved(model, proposal.offsets, proposal.replicas), proposal.offsets)
    held = np.bincount(model.replicas, minlength=model.brokers)
    row = model.row
    disk = np.bincount(model.replicas, model.size[row] / units.disk, model.brokers)
    into = np.bincount(model.replicas, model.rate_in[row] / units.into, model.brokers)
    gone = moved(model.placed(proposal.offsets, proposal.replicas), model.offsets, model.replicas)

    def leaves(brokers: Flags) -> Flags:
        return any_true(gone & brokers[model.replicas], model.offsets)

    arrives = moved(model, proposal.offsets, proposal.replicas) & (held == 0)[proposal.replicas]
    first, others = proposal.replicas[proposal.offsets[:-1]], model.replicas[model.offsets[:-1]]
    choices = (
        copied & leaves(rules.must_leave),
        copied & ((rules.factor != model.factor) | leaves(~model.live)),
        any_true(arrives, proposal.offsets),
        oversized,
        copied & leaves(disk > np.minimum(limits.disk, NO_LIMIT)),
        copied & leaves(into > limits.into),
        copied & leaves(held > limits.replicas_high),
        copied,
        first != others,
        np.ones(model.partitions, dtype=np.bool_),
    )
    reason = np.select(choices, range(len(choices)), -1)
    return np.where(differs, reason, -1).astype(np.int16), REASONS


def certificate_of(
    model: ClusterModel,
    rules: Rules,
    request: PlanRequest,
    units: Units,
    task: Task,
    found: Found,
    proposal: ProposedAssignment,
    loose: tuple[float, float],
) -> dict[str, Any]:
    """Objective, bounds, what was relaxed and missed: plain values.

    loose: what expand and drain kept disk and bytes in to, and what nobody can keep them below.
    """
    work = task.work
    state = new_state(work, found.limits, found.slots)
    copies = moved(model, proposal.offsets, proposal.replicas)
    rows = row_of(proposal.offsets)[copies]
    copied = float(model.size[rows].sum())
    over = excess(task.limits, state)
    too_many = np.maximum(state.replicas - task.limits.replicas_high, 0.0)
    # What should have left and did not is no part of what any plan that does as much must copy.
    leaving = rules.must_leave[model.replicas]
    stayed = leaving & ~moved(model.placed(proposal.offsets, proposal.replicas), model.offsets, model.replicas)
    free = stayed & ~rules.fixed[model.row]
    left = float(model.size[model.row[free]].sum())
    bound = task.covering.where_reached(over["disk"], over["bytes_in"], too_many) * units.disk - left
    bound = min(max(bound, 0.0), copied)
    moves = int(copies.sum())
    fewest = _fewest_moves(model, rules, task, state, int(free.sum()))
    by_moves = request.goal != "balance"
    return {
        "goal": request.goal,
        "objective": "min-moves" if by_moves else "all",
        "value": moves if by_moves else round(copied),
        "lower_bound": fewest if by_moves else round(bound),
        "gap": moves - fewest if by_moves else round(copied - bound),
        "moves": moves,
        "moves_lower_bound": fewest,
        "bytes": round(copied),
        "bytes_lower_bound": round(bound),
        "reached": _reached(model, units, found.limits, state),
        "relaxed": [
            *_relaxed(model, request, units, task, found, state, loose),
            *(_dear(model, work, found, rows, copied, bound) if not by_moves else ()),
            *_budgeted(model, request, copied, moves),
        ],
        "missed": [*_not_empty(model, rules, proposal), *_missed(model, units, task, found, state)],
    }


def _fewest_moves(model: ClusterModel, rules: Rules, task: Task, state: State, stayed: int) -> int:
    """No plan that reaches as much moves fewer: what left, and what each broker had above or below.

    stayed: replicas that should have left and did not.
    """
    held = np.bincount(model.replicas, minlength=model.brokers)
    stays = ~rules.must_leave & model.live
    leaves = int((rules.must_leave[model.replicas] & ~rules.fixed[model.row]).sum()) - stayed
    high = np.maximum(task.limits.replicas_high, state.replicas)
    low = np.minimum(task.limits.replicas_low, state.replicas)
    over = np.maximum(held - high, 0.0)[stays].sum()
    under = np.maximum(low - held, 0.0)[stays].sum()
    return int(max(over + leaves, under))


def _not_empty(model: ClusterModel, rules: Rules, proposal: ProposedAssignment) -> Iterator[str]:
    """Brokers that should hold nothing afterwards, and do."""
    held = np.bincount(proposal.replicas, minlength=model.brokers)
    led = np.bincount(proposal.replicas[proposal.offsets[:-1]], minlength=model.brokers)
    for broker in np.flatnonzero(rules.must_leave & (held > 0)).tolist():
        yield (
            f"broker {model.broker_ids[broker]} is not empty: it still holds {held[broker]} replicas, "
            f"and leads {led[broker]}"
        )


def _reached(model: ClusterModel, units: Units, limits: Limits, state: State) -> dict[str, dict[str, Any]]:
    """{metric: fullest broker over the mean, and which}."""
    counted = np.flatnonzero(units.counted)
    if not len(counted):
        return {}
    loads: dict[str, Floats] = {
        "replicas": state.replicas / max(units.replicas, 1e-300),
        "leaders": state.leaders / max(units.leaders, 1e-300),
        "disk": state.disk,
        "bytes_in": state.into,
        "bytes_out": state.out,
    }
    out = {}
    for name, load in loads.items():
        worst = int(counted[np.argmax(load[counted])])
        out[name] = {
            "max_over_mean": round(float(load[worst]), 6),
            "broker": int(model.broker_ids[worst]),
            "min_over_mean": round(float(load[counted].min()), 6),
        }
    return out


def _relaxed(
    model: ClusterModel,
    request: PlanRequest,
    units: Units,
    task: Task,
    found: Found,
    state: State,
    loose: tuple[float, float],
) -> Iterator[str]:
    """Limits that could not be kept to by anybody, or were given up, each with the partitions that force it."""
    work, of = task.work, request.targets
    reached = _survivor_out(units, task, found, state)
    if found.failover_out > task.failover_out + 1e-9 and reached > task.failover_out + TOLERANCE[""]:
        rows = np.flatnonzero(found.oversized & (work.out > room_for_takeovers(task)))
        rows = rows[np.argsort(-work.out[rows], kind="stable")]
        count = f"{len(rows)} partitions are" if len(rows) != 1 else "1 partition is"
        more = "; no single partition forces it"
        if len(rows):
            names = _named(model, rows, work.out)
            more = f": {count} each more than a survivor at its limit has room for, the largest {names} of a mean"
        yield (
            f"bytes out of the worst survivor: {reached:.3f} times the mean is the least that was found, the target is "
            f"{task.failover_out:g}{more}"
        )
    ratio, least = loose
    if ratio > of.loose + 1e-9:
        rows = np.argsort(-np.maximum(work.disk, work.into), kind="stable")
        names = _named(model, rows, np.maximum(work.disk, work.into))
        proven = (
            f"; less than {least:.3f} is impossible: what is heavy there is {names} of a broker's mean"
            if least > of.loose + 5e-4
            else "; that less is impossible is not proven, plans.target_extra_moves may allow for more"
        )
        yield (
            f"disk and bytes in: {ratio:.3f} times the mean is the least that was found with at most "
            f"{of.extra_moves:.0%} more moves than the fewest, the target is {of.loose:g}{proven}"
        )
    for name, load, limit in (("disk", work.disk, task.limits.disk), ("bytes in", work.into, task.limits.into)):
        rows = np.flatnonzero(load > float(np.median(limit[units.counted])) if units.brokers else load < 0)
        if len(rows):
            rows = rows[np.argsort(-load[rows], kind="stable")]
            yield f"{name}: one partition is more than a broker should hold: {_named(model, rows, load)} of the mean"
    if work.out.max(initial=0.0) > max(of.bytes_out, 1.0):
        rows = np.argsort(-work.out, kind="stable")[:1]
        yield f"bytes out: one partition's leader is more than a broker should lead: {_named(model, rows, work.out)}"


def _budgeted(model: ClusterModel, request: PlanRequest, copied: float, moves: int) -> Iterator[str]:
    """That a budget was in the way: so little is left of it that the next partition may not be paid for."""
    largest = float(model.size.max(initial=0.0))
    if request.max_bytes is not None and copied + largest > request.max_bytes:
        yield f"the budget of {request.max_bytes} bytes: {copied:.0f} are copied; what is missed may need more"
    if request.max_moves is not None and moves >= request.max_moves - 1:
        yield f"the budget of {request.max_moves} replicas: {moves} are copied; what is missed may need more"


def _survivor_out(units: Units, task: Task, found: Found, state: State) -> float:
    """What the worst survivor of any one failure leads of bytes out, over the mean of survivors; 0 without
    survivors."""
    counted = np.flatnonzero(units.counted)
    if len(counted) < 2:
        return 0.0
    first = task.work.offsets[:-1]
    single = np.diff(task.work.offsets) == 1
    lost = np.bincount(found.slots[first[single]], task.work.out[single], len(task.work.rack))[counted]
    after = state.out[counted][:, None] + state.taken_out[np.ix_(counted, counted)]
    np.fill_diagonal(after, 0.0)
    mean = (state.out[counted].sum() - lost) / (len(counted) - 1)
    return float((after.max(axis=0) / np.maximum(mean, 1e-300)).max()) if mean.max() > 0 else 0.0


def _dear(model: ClusterModel, work: Work, found: Found, rows: Ints, copied: float, bound: float) -> Iterator[str]:
    """Why much more is copied than the bound, which knows nothing of who takes over: partitions that are oversized
    partitions.

    rows: the partition of each replica copied.
    """
    rows = rows[found.oversized[rows]]
    if copied > _MUCH * bound and len(rows):
        large = np.unique(rows)
        large = large[np.argsort(-work.out[large], kind="stable")]
        yield (
            f"bytes copied: {copied / max(bound, 1.0) - 1:.1%} above what disk, bytes in and replicas alone force: "
            f"{model.size[rows].sum():.0f} of them are of {len(large)} partitions which one survivor can hardly take "
            f"over beside its own: {_named(model, large, work.out)} of a broker's mean bytes out"
        )


def _missed(model: ClusterModel, units: Units, task: Task, found: Found, state: State) -> Iterator[str]:
    """Limits that some brokers exceed in the end: how far the worst is from them, and its largest partitions there."""
    work, limits = task.work, found.limits
    row, first = work.row, work.offsets[:-1]
    loads = {"disk": work.disk, "bytes_in": work.into, "bytes_out": work.out, "failover_out": work.out}
    reached = {
        "replicas": state.replicas,
        "leaders": state.leaders,
        "disk": state.disk,
        "bytes_in": state.into,
        "bytes_out": state.out,
        "failover": state.leaders + state.worst + limits.survivor_leaders.min(initial=np.inf),
        "failover_out": state.out + state.worst_out + limits.survivor_out.min(initial=np.inf),
    }
    few = {"replicas": limits.replicas_low, "leaders": limits.leaders_low}
    for name, over in excess(limits, state).items():
        brokers = np.flatnonzero((over > TOLERANCE.get(name, TOLERANCE[""])) & units.counted)
        if not len(brokers):
            continue
        brokers = brokers[np.argsort(-over[brokers], kind="stable")]
        worst = brokers[0]
        too_few = name in few and reached[name][worst] < few[name][worst]
        wanted = reached[name][worst] + over[worst] * (1 if too_few else -1)
        figures = f"{reached[name][worst]:.4f}", f"{wanted:.4f} of the mean"
        if name not in loads:
            figures = f"{reached[name][worst]:.0f}", f"{wanted:.0f}"
        others = f", and {len(brokers) - 1} more" if len(brokers) > 1 else ""
        bound = "least" if too_few else "most"
        who = f"{_WORDS[name]}: broker {model.broker_ids[worst]}"
        text = f"{who} has {figures[0]}, wanted at {bound} {figures[1]}{others}"
        if name in loads:
            mine = np.flatnonzero(found.slots == worst)
            if name == "bytes_out":
                mine = mine[mine == first[row[mine]]]
            elif name == "failover_out":
                mine = mine[mine == first[row[mine]] + 1]
            rows = row[mine]
            rows = rows[np.argsort(-loads[name][rows], kind="stable")]
            text += f"; its largest there are {_named(model, rows, loads[name])}"
        yield text


def _named(model: ClusterModel, rows: npt.NDArray[np.integer], load: Floats) -> str:
    return ", ".join(f"{model.name(int(row))} ({load[row]:.3f})" for row in rows[:_NAMED])
