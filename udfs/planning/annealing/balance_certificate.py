"""The certificate of an annealed plan: bounds, targets that are relaxed or missed, and the partitions that force it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from udfs.arrow.ragged import any_true, row_of
from udfs.planning.annealing import search_task
from udfs.planning.annealing.kernels.search_state import SearchState, create_state
from udfs.planning.annealing.search_task import TOLERANCE, LoadUnits, SearchResult, SearchTask
from udfs.planning.bounds.kernels.placement_prices import Placements
from udfs.planning.bounds.lower_bounds import (
    CopyBound,
    bound_bytes_by_disk,
    count_forced_replicas,
    raise_prices_by_racks,
)
from udfs.planning.certificates import CONTINUES, BalanceCertificate, ReachedLoad
from udfs.planning.cluster_model import (
    ClusterModel,
    Flags,
    Floats,
    FreezeReason,
    Ints,
    ProposedAssignment,
    ReplicaLists,
)
from udfs.planning.constraints import (
    Rules,
    count_in_racks,
    count_selected_replicas,
    explain_other_topics,
    select_target_brokers,
)
from udfs.planning.plan_request import ALL, DISK, REPLICAS, PlanRequest
from udfs.planning.replicas.count_limits import compute_count_targets, explain_count_targets
from udfs.wording import count_of, format_bytes

REASONS = (
    "a replica is on a broker to be emptied",
    "it violates the rack constraint, or has too few replicas",
    "an empty broker is filled",
    "its bytes out alone overload a survivor, so its leader, successor or a follower changes",
    "a broker exceeds its disk target",
    "a broker exceeds its target of bytes in",
    "a broker exceeds its target of replicas",
    "to make room for other partitions",
    "to even out leaders or their bytes out",
    "to change the successor that takes over if the leader fails",
)
_EXPLAINED_RATIO = 1.15  # copied bytes over their bound, above which they are explained
_NEAR_BOUND = 1.02  # the same, above which racks are considered, as that takes time
_LISTED = 8  # partitions in a text
_LOW_DISK = 0.5  # of a broker to fill, over the average of the others in its rack; below it, the plan says so


@dataclass(frozen=True)
class BalanceOutcome:
    """What an annealed plan started from, what was searched, found and proposed."""

    model: ClusterModel
    rules: Rules
    request: PlanRequest
    units: LoadUnits
    task: SearchTask
    result: SearchResult
    proposal: ProposedAssignment

    @cached_property
    def state(self) -> SearchState:
        """Return the state of the found lists."""
        return create_state(self.task.cluster, self.result.limits, self.result.slots)

    @cached_property
    def copied(self) -> Flags:
        """Return the proposed replicas that are copied: bool (r)."""
        return self.model.find_copied(self.proposal)

    @cached_property
    def gone(self) -> Flags:
        """Return the model's replicas that leave their broker: bool (r)."""
        return self.model.with_lists(self.proposal.offsets, self.proposal.replicas).find_copied(self.model)

    @cached_property
    def replicas_before(self) -> Ints:
        """Return the replicas of each broker before the plan: int64 (n)."""
        return np.bincount(self.model.replicas, minlength=self.model.brokers)


def find_reasons(outcome: BalanceOutcome) -> npt.NDArray[np.int16]:
    """Find the reason of each partition: int16 (p), index into REASONS, -1 = unchanged."""
    model, rules, units, limits = outcome.model, outcome.rules, outcome.units, outcome.task.limits
    proposal, before, row = outcome.proposal, outcome.replicas_before, outcome.model.row
    copied = any_true(outcome.copied, proposal.offsets)
    disk = np.bincount(model.replicas, model.size[row] / units.disk, model.brokers)
    into = np.bincount(model.replicas, model.rate_in[row] / units.bytes_in, model.brokers)

    def leaves(brokers: Flags) -> Flags:
        return any_true(outcome.gone & brokers[model.replicas], model.offsets)

    conditions = (
        copied & leaves(rules.must_leave),
        copied & ((rules.factor != model.factor) | leaves(~model.live)),
        any_true(outcome.copied & (before == 0)[proposal.replicas], proposal.offsets),
        outcome.result.oversized,
        copied & leaves(disk > np.minimum(limits.disk, search_task.NO_LIMIT)),
        copied & leaves(into > limits.bytes_in),
        copied & leaves(before > limits.max_replicas),
        copied,
        proposal.replicas[proposal.offsets[:-1]] != model.replicas[model.offsets[:-1]],
        np.ones(model.partitions, dtype=np.bool_),
    )
    reason = np.select(conditions, range(len(conditions)), -1)
    return np.where(model.find_changed(proposal), reason, -1).astype(np.int16)


def certify_balance(outcome: BalanceOutcome) -> BalanceCertificate:
    """Compare a plan with its lower bounds."""
    model, rules, task, state = outcome.model, outcome.rules, outcome.task, outcome.state
    rows = row_of(outcome.proposal.offsets)[outcome.copied]
    copied, moves = float(model.size[rows].sum()), len(rows)
    over = search_task.measure_excess(task.limits, state)
    too_many = np.maximum(state.replicas - task.limits.max_replicas, 0.0)
    # Replicas that should have left and stayed are not copied by another plan that reaches as much.
    must_leave = rules.must_leave[model.replicas] & ~rules.fixed[model.row]
    stayed_bytes = float(model.size[model.row[must_leave & ~outcome.gone]].sum())
    copy_bound = task.copy_bound if stayed_bytes else _bound_by_racks(outcome, copied / outcome.units.disk)
    bound = copy_bound.allow_excess(over["disk"], over["bytes_in"], too_many) * outcome.units.disk - stayed_bytes
    forced = count_forced_replicas(model, rules, outcome.proposal)
    by_disk = bound_bytes_by_disk(model, rules, outcome.proposal, outcome.units.counted)
    bound = min(max(bound, float(forced @ model.size), by_disk), copied)
    # The fewest moves: what left, and what brokers had above or below what they may have and now have.
    stays = ~rules.must_leave & model.live
    above = outcome.replicas_before - np.maximum(task.limits.max_replicas, state.replicas)
    below = np.minimum(task.limits.min_replicas, state.replicas) - outcome.replicas_before
    left = int((must_leave & outcome.gone).sum())
    leave, come = np.maximum(above, 0.0)[stays].sum() + left, np.maximum(below, 0.0)[stays].sum()
    fewest = int(max(leave, come, forced.sum()))
    relaxed = [*explain_other_topics(model, rules, outcome.proposal), *_explain_relaxed(outcome)]
    if REPLICAS in outcome.request.priorities:
        relaxed = [*explain_count_targets(model, rules, compute_count_targets(model, rules)), *relaxed]
    relaxed += _explain_copies(outcome, rows, copied, bound)
    missed = [*_explain_missed(outcome)]
    relaxed += _explain_budget(outcome, copied, moves, bool(missed))
    counted, is_part = outcome.units.counted, _is_part(outcome)
    low_disk = explain_low_disk(model, rules, outcome.request, outcome.proposal, counted, is_part)
    return BalanceCertificate(
        goal=outcome.request.goal,
        objective=ALL,
        value=round(copied),
        lower_bound=round(bound),
        gap=round(copied - bound),
        moves=moves,
        moves_lower_bound=fewest,
        bytes=round(copied),
        bytes_lower_bound=round(bound),
        reached=measure_reached(model, outcome.units, state),
        relaxed=relaxed,
        missed=[*_explain_stayed(outcome), *missed, *low_disk],
    )


def _bound_by_racks(outcome: BalanceOutcome, copied: float) -> CopyBound:
    """Return the bound of copies; where the plan copies much more, raise it by what racks force."""
    model, rules, task, proposal = outcome.model, outcome.rules, outcome.task, outcome.proposal
    if copied <= _NEAR_BOUND * task.copy_bound.bound:
        return task.copy_bound
    factor = np.where(rules.fixed, 0, rules.factor)
    row, count = count_in_racks(model, proposal, np.ones(len(proposal.replicas), dtype=np.bool_))
    rack_cap = rules.rack_cap.astype(np.int64)
    np.maximum.at(rack_cap, row, count)  # other plans may violate racks as this one does
    stays = ~rules.must_leave[model.replicas]
    placements = Placements(model.offsets, model.replicas, stays, factor, rack_cap, model.rack, rules.receives)
    loads: Floats = np.stack([task.cluster.disk, task.cluster.bytes_in, np.ones(model.partitions)])
    stored = [np.bincount(model.replicas, (one * rules.fixed)[model.row], model.brokers) for one in loads]
    limits = np.stack([task.limits.disk, task.limits.bytes_in, task.limits.max_replicas])
    limits = np.where((limits < search_task.NO_LIMIT / 2) & ~rules.must_leave, limits, np.inf)
    return raise_prices_by_racks(task.copy_bound, placements, loads, np.array(stored), limits)


def measure_reached(model: ClusterModel, units: LoadUnits, state: SearchState) -> dict[str, ReachedLoad]:
    """Measure the fullest and the emptiest broker of each metric over the mean."""
    counted = np.flatnonzero(units.counted)
    if not len(counted):
        return {}
    loads: dict[str, Floats] = {
        "replicas": state.replicas / max(units.replicas, 1e-300),
        "leaders": state.leaders / max(units.leaders, 1e-300),
        "disk": state.disk,
        "bytes_in": state.bytes_in,
        "bytes_out": state.bytes_out,
    }
    reached = {}
    for name, load in loads.items():
        worst = int(counted[np.argmax(load[counted])])
        largest, smallest = round(float(load[worst]), 6), round(float(load[counted].min()), 6)
        reached[name] = ReachedLoad(largest, int(model.broker_ids[worst]), smallest)
    return reached


def _explain_stayed(outcome: BalanceOutcome) -> Iterator[str]:
    model, proposal = outcome.model, outcome.proposal
    counts = count_selected_replicas(model, proposal)
    preferred = proposal.replicas[proposal.offsets[:-1]][model.frozen != FreezeReason.OTHER_TOPIC]
    leaders = np.bincount(preferred, minlength=model.brokers)
    for broker in np.flatnonzero(outcome.rules.must_leave & (counts > 0)).tolist():
        holds = count_of(counts[broker], "replica")
        left = f"{holds} left for the next plan" if outcome.request.has_budget else f"it still holds {holds}"
        leads = f", and leads {leaders[broker]} of them" if leaders[broker] else ""
        yield f"broker {model.broker_ids[broker]} is not empty: {left}{leads}"


def _explain_relaxed(outcome: BalanceOutcome) -> Iterator[str]:
    """Explain limits that no plan can meet, or that were given up, with the partitions that force it."""
    model, units, task, result = outcome.model, outcome.units, outcome.task, outcome.result
    cluster, targets, reached = task.cluster, outcome.request.targets, _measure_survivor_out(outcome)
    if result.failover_out > task.failover_out + 1e-9 and reached > task.failover_out + TOLERANCE[""]:
        rows = np.flatnonzero(result.oversized & (cluster.bytes_out > search_task.compute_takeover_room(task)))
        forced = "no single partition forces it"
        if len(rows):
            count = f"{len(rows)} partitions each exceed" if len(rows) > 1 else "1 partition exceeds"
            largest = _list_largest(model, rows, cluster.bytes_out)
            forced = f"{count} the headroom of a survivor at its limit; the largest over the mean: {largest}"
        yield (
            f"bytes out of the worst survivor: the lowest ratio to the mean that was found is {reached:.3f} "
            f"(target: {task.failover_out:g}); {forced}"
        )
    disk, bytes_in = ("disk", cluster.disk, task.limits.disk), ("bytes in", cluster.bytes_in, task.limits.bytes_in)
    for name, load, limit in (disk, bytes_in) if units.brokers else ():
        rows = np.flatnonzero(load > float(np.median(limit[units.counted])))
        if len(rows):
            largest = _list_largest(model, rows, load)
            yield f"{name}: single partitions exceed the limit of a broker; over the mean: {largest}"
    target_out, found_out = map(search_task.get_usual_bytes_out, (task.limits, result.limits))
    most = float(outcome.state.bytes_out[units.counted].max(initial=0.0))
    if target_out + TOLERANCE[""] < min(found_out, most):
        yield (
            f"bytes out: brokers may have up to {found_out:.3f} of the mean (target: {target_out:g}), so that the "
            f"worst survivor of a failure has at most {result.failover_out:.3f}; see plans.target_loose_bytes_out"
        )
    rows = np.flatnonzero(cluster.bytes_out > max(targets.bytes_out, 1.0))
    if len(rows):
        largest = _list_largest(model, rows, cluster.bytes_out)
        after = ""
        if float(cluster.bytes_out.max()) > task.failover_out:
            after = "; while another broker is down, its successor exceeds the target too"
        yield f"bytes out: a single leader exceeds the limit of a broker; over the mean: {largest}{after}"


def _explain_budget(outcome: BalanceOutcome, copied: float, moves: int, misses: bool) -> Iterator[str]:
    """Explain that a budget limits the plan, as its rest may not pay for the next partition, or why a rest is left."""
    request, largest = outcome.request, float(outcome.model.size.max(initial=0.0))
    more = "" if request.goal == "drain" else ": missed targets may need more"  # what a drain leaves has its own step
    budgets = []
    if request.max_bytes is not None:
        used = f"{format_bytes(copied)} of at most {format_bytes(request.max_bytes)}"
        budgets.append((used, copied + largest > request.max_bytes))
    if request.max_moves is not None:
        budgets.append((f"{moves:,} of at most {request.max_moves:,} replicas", moves >= request.max_moves - 1))
    is_part = _is_part(outcome) and request.goal != "drain"
    is_limited = request.max_broker_bytes is not None or any(is_spent for _, is_spent in budgets)
    if request.max_broker_bytes is not None:
        yield f"no broker receives or sends more than {format_bytes(request.max_broker_bytes)}{more}"
    for used, is_spent in budgets:
        if is_spent:
            rest = f": {CONTINUES}" if is_part else more
            yield f"the plan copies {used}, and what is left may be too little for the next copy{rest}"
        elif not is_limited and (misses or request.goal == "expand"):
            rest = "no other copies within that were found that bring a missed target nearer"
            rest = rest if misses else "no target of this goal needs more"
            rest = CONTINUES if is_part else rest
            disk = outcome.state.disk[outcome.units.counted].max(initial=0.0)
            if request.goal != "balance" and not is_part and DISK in request.priorities and disk > request.targets.disk:
                rest += "; --goal balance evens out disks further"
            yield f"the plan copies {used}; {rest}"


def _is_part(outcome: BalanceOutcome) -> bool:
    """Return whether the plan is a part of one without its budget."""
    limits = outcome.task.limits
    return bool(limits.copied_disk < np.inf or limits.copied_replicas == outcome.request.max_moves)


def _measure_survivor_out(outcome: BalanceOutcome) -> float:
    """Measure the bytes out of the worst survivor of any single failure over the survivors' mean; 0 without any."""
    counted, cluster, state = np.flatnonzero(outcome.units.counted), outcome.task.cluster, outcome.state
    if len(counted) < 2:
        return 0.0
    single = np.diff(cluster.offsets) == 1
    leaders = outcome.result.slots[cluster.offsets[:-1][single]]
    lost = np.bincount(leaders, cluster.bytes_out[single], len(cluster.rack))[counted]
    after = state.bytes_out[counted][:, None] + state.takeovers_bytes_out.load[np.ix_(counted, counted)]
    np.fill_diagonal(after, 0.0)
    mean = (state.bytes_out[counted].sum() - lost) / (len(counted) - 1)
    return float((after.max(axis=0) / np.maximum(mean, 1e-300)).max()) if mean.max() > 0 else 0.0


def _explain_copies(outcome: BalanceOutcome, rows: Ints, copied: float, bound: float) -> Iterator[str]:
    """Explain why much more is copied than the bound, which ignores takeovers. rows: of each copied replica."""
    model, rows = outcome.model, rows[outcome.result.oversized[rows]]
    if copied > _EXPLAINED_RATIO * bound and len(rows):
        large = np.unique(rows)
        count = count_of(len(large), "partition")
        yield (
            f"bytes copied: {copied / max(bound, 1.0) - 1:.1%} more than disk, bytes in and replicas alone require; "
            f"{model.size[rows].sum():.0f} of them belong to {count} that overload a survivor together with its own "
            f"leaders; bytes out over a broker's mean: {_list_largest(model, large, outcome.task.cluster.bytes_out)}; "
            "a higher plans.target_failover_out copies less"
        )


def _explain_missed(outcome: BalanceOutcome) -> Iterator[str]:
    """Explain limits that brokers exceed in the end: how far the worst is from them, and its largest partitions."""
    model, cluster, limits, state = outcome.model, outcome.task.cluster, outcome.result.limits, outcome.state
    row, first = cluster.row, cluster.offsets[:-1]
    survivor_leaders = state.leaders + state.takeovers.worst + limits.survivor_leaders
    survivor_out = state.bytes_out + state.takeovers_bytes_out.worst + limits.survivor_bytes_out
    metrics: dict[str, tuple[str, npt.NDArray[Any], Floats | None]] = {  # what each broker has; of which partitions
        "replicas": ("replicas", state.replicas, None),
        "leaders": ("leaders", state.leaders, None),
        "disk": ("disk", state.disk, cluster.disk),
        "bytes_in": ("bytes in", state.bytes_in, cluster.bytes_in),
        "bytes_out": ("bytes out of leaders", state.bytes_out, cluster.bytes_out),
        "failover": ("leaders of the worst survivor", survivor_leaders, None),
        "failover_out": ("bytes out of the worst survivor", survivor_out, cluster.bytes_out),
    }
    lowest = {"replicas": limits.min_replicas, "leaders": limits.min_leaders}
    for name, over in search_task.measure_excess(limits, state).items():
        brokers = np.flatnonzero((over > TOLERANCE.get(name, TOLERANCE[""])) & outcome.units.counted)
        if not len(brokers):
            continue
        title, reached, load = metrics[name]
        worst = brokers[np.argmax(over[brokers])]
        value = reached[worst]
        too_few = name in lowest and value < lowest[name][worst]
        side, target = ("at least", value + over[worst]) if too_few else ("at most", value - over[worst])
        digits, mean = (0, "") if load is None else (4, " of the mean")
        values = f"{value:.{digits}f} (target: {side} {target:.{digits}f}{mean})"
        others = len(brokers) - 1
        text = f"{title}: broker {model.broker_ids[worst]} has {values}"
        text += f"; {others} more broker{'s miss' if others > 1 else ' misses'} theirs" if others else ""
        if load is not None:
            slots = np.flatnonzero(outcome.result.slots == worst)
            if name == "bytes_out":
                slots = slots[slots == first[row[slots]]]
            elif name == "failover_out":
                slots = slots[slots == first[row[slots]] + 1]
            text += f"; its largest partitions: {_list_largest(model, row[slots], load)}"
        yield text


def _list_largest(model: ClusterModel, rows: npt.NDArray[np.integer], load: Floats) -> str:
    rows = rows[np.argsort(-load[rows], kind="stable")][:_LISTED]
    return ", ".join(f"{model.name(int(row))} ({load[row]:.3f})" for row in rows)


def explain_low_disk(
    model: ClusterModel, rules: Rules, request: PlanRequest, lists: ReplicaLists, counted: Flags, is_part: bool = False
) -> Iterator[str]:
    """Explain which brokers to fill stay far emptier than others of their rack.

    counted: bool (n), in the mean. is_part: whether a budget ends the plan before.
    """
    if not model.known[0] or DISK not in request.priorities or not counted.any():
        return
    load = model.sum_bytes(lists)
    disk = load / max(float(load[counted].mean()), 1e-300)
    named = np.isin(model.broker_ids, select_target_brokers(model, request)) & (request.goal == "expand")
    empty = np.bincount(model.replicas, minlength=model.brokers) == 0
    filled = counted & rules.receives & (named | empty)
    for broker in np.flatnonzero(filled).tolist():
        others = counted & ~filled
        in_rack = others & (model.rack == model.rack[broker])
        where = f" in rack {model.rack_names[model.rack[broker]]}" if model.rack_names and in_rack.any() else ""
        others = in_rack if in_rack.any() else others
        mean = float(disk[others].mean()) if others.any() else 0.0
        if disk[broker] < _LOW_DISK * mean:
            share = f"{disk[broker]:.4f} of the mean, {disk[broker] / mean:.0%} of the average of the others{where}"
            more = "--goal balance has a lower target" if request.goal == "expand" else "lower plans.target_disk"
            more = more if request.objective == ALL else "--objective all has a target of disk"
            more = CONTINUES if is_part else f"{more}, which limits the fullest"
            yield f"disk: broker {model.broker_ids[broker]} gets only {share}; {more}"
