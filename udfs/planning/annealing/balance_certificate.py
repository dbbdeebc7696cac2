"""The certificate of an annealed plan: bounds, targets that are relaxed or missed, and the partitions that force it."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from udfs.arrow.ragged import any_true, row_of
from udfs.planning.annealing.kernels.search_state import BrokerLimits, SearchState, create_state
from udfs.planning.annealing.search_limits import NO_LIMIT, LoadUnits
from udfs.planning.annealing.search_task import (
    TOLERANCE,
    SearchResult,
    SearchTask,
    compute_takeover_room,
    measure_excess,
)
from udfs.planning.certificates import BalanceCertificate, ReachedLoad
from udfs.planning.cluster_model import ClusterModel, Flags, Floats, Ints, ProposedAssignment
from udfs.planning.constraints import Rules
from udfs.planning.plan_request import PlanRequest
from udfs.planning.plan_text import count_of

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
_METRICS = {
    "replicas": "replicas",
    "leaders": "leaders",
    "disk": "disk",
    "bytes_in": "bytes in",
    "bytes_out": "bytes out of leaders",
    "failover": "leaders of the worst survivor",
    "failover_out": "bytes out of the worst survivor",
}
_EXPLAINED_RATIO = 1.15  # copied bytes over their bound, above which they are explained
_LISTED = 8  # partitions in a text


def find_reasons(
    model: ClusterModel,
    rules: Rules,
    limits: BrokerLimits,
    units: LoadUnits,
    proposal: ProposedAssignment,
    oversized: Flags,
) -> npt.NDArray[np.int16]:
    """Find the reason of each partition: int16 (p), index into REASONS, -1 = unchanged."""
    differs = model.find_changed(proposal)
    new = model.find_copied(proposal)
    copied = any_true(new, proposal.offsets)
    replicas_before = np.bincount(model.replicas, minlength=model.brokers)
    row = model.row
    disk = np.bincount(model.replicas, model.size[row] / units.disk, model.brokers)
    into = np.bincount(model.replicas, model.rate_in[row] / units.bytes_in, model.brokers)
    gone = model.with_lists(proposal.offsets, proposal.replicas).find_copied(model)

    def leaves(brokers: Flags) -> Flags:
        return any_true(gone & brokers[model.replicas], model.offsets)

    conditions = (
        copied & leaves(rules.must_leave),
        copied & ((rules.factor != model.factor) | leaves(~model.live)),
        any_true(new & (replicas_before == 0)[proposal.replicas], proposal.offsets),
        oversized,
        copied & leaves(disk > np.minimum(limits.disk, NO_LIMIT)),
        copied & leaves(into > limits.bytes_in),
        copied & leaves(replicas_before > limits.max_replicas),
        copied,
        proposal.replicas[proposal.offsets[:-1]] != model.replicas[model.offsets[:-1]],
        np.ones(model.partitions, dtype=np.bool_),
    )
    reason = np.select(conditions, range(len(conditions)), -1)
    return np.where(differs, reason, -1).astype(np.int16)


def certify_balance(
    model: ClusterModel,
    rules: Rules,
    request: PlanRequest,
    units: LoadUnits,
    task: SearchTask,
    result: SearchResult,
    proposal: ProposedAssignment,
    loose: tuple[float, float],
) -> BalanceCertificate:
    """Compare an annealed plan with its lower bounds.

    Args:
        model: The cluster.
        rules: The rules of the goal.
        request: The request.
        units: LoadUnits of the searched loads.
        task: The search.
        result: What the search found.
        proposal: The lists.
        loose: For expand and drain, the limit of disk and bytes in that was found, and its lower bound.
    """
    state = create_state(task.cluster, result.limits, result.slots)
    new = model.find_copied(proposal)
    rows = row_of(proposal.offsets)[new]
    copied, moves = float(model.size[rows].sum()), int(new.sum())
    over = measure_excess(task.limits, state)
    too_many = np.maximum(state.replicas - task.limits.max_replicas, 0.0)
    # Replicas that should have left and stayed are not copied by another plan that reaches as much.
    gone = model.with_lists(proposal.offsets, proposal.replicas).find_copied(model)
    stayed = rules.must_leave[model.replicas] & ~gone & ~rules.fixed[model.row]
    stayed_bytes = float(model.size[model.row[stayed]].sum())
    bound = task.copy_bound.allow_excess(over["disk"], over["bytes_in"], too_many) * units.disk - stayed_bytes
    bound = min(max(bound, 0.0), copied)
    fewest = _bound_moves(model, rules, task, state, int(stayed.sum()))
    relaxed = list(_explain_relaxed(model, request, units, task, result, state, loose))
    balance = request.goal == "balance"
    if balance:
        relaxed += _explain_copies(model, task, result, rows, copied, bound)
    relaxed += _explain_budget(model, request, copied, moves)
    return BalanceCertificate(
        goal=request.goal,
        objective="all" if balance else "min-moves",
        value=round(copied) if balance else moves,
        lower_bound=round(bound) if balance else fewest,
        gap=round(copied - bound) if balance else moves - fewest,
        moves=moves,
        moves_lower_bound=fewest,
        bytes=round(copied),
        bytes_lower_bound=round(bound),
        reached=measure_reached(model, units, state),
        relaxed=relaxed,
        missed=[*_explain_stayed(model, rules, proposal), *_explain_missed(model, units, task, result, state)],
    )


def _bound_moves(model: ClusterModel, rules: Rules, task: SearchTask, state: SearchState, stayed: int) -> int:
    """Bound the moves of any plan that reaches as much: what left, and what brokers had above or below their limits.

    stayed: replicas that should have left and did not.
    """
    replicas_before = np.bincount(model.replicas, minlength=model.brokers)
    stays = ~rules.must_leave & model.live
    leaves = int((rules.must_leave[model.replicas] & ~rules.fixed[model.row]).sum()) - stayed
    high = np.maximum(task.limits.max_replicas, state.replicas)
    low = np.minimum(task.limits.min_replicas, state.replicas)
    over = np.maximum(replicas_before - high, 0.0)[stays].sum()
    under = np.maximum(low - replicas_before, 0.0)[stays].sum()
    return int(max(over + leaves, under))


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


def _explain_stayed(model: ClusterModel, rules: Rules, proposal: ProposedAssignment) -> Iterator[str]:
    replicas_after = np.bincount(proposal.replicas, minlength=model.brokers)
    leaders = np.bincount(proposal.replicas[proposal.offsets[:-1]], minlength=model.brokers)
    for broker in np.flatnonzero(rules.must_leave & (replicas_after > 0)).tolist():
        replicas = count_of(replicas_after[broker], "replica")
        leads = f", and leads {leaders[broker]} of them" if leaders[broker] else ""
        yield f"broker {model.broker_ids[broker]} is not empty: it still holds {replicas}{leads}"


def _explain_relaxed(
    model: ClusterModel,
    request: PlanRequest,
    units: LoadUnits,
    task: SearchTask,
    result: SearchResult,
    state: SearchState,
    loose: tuple[float, float],
) -> Iterator[str]:
    """Explain limits that no plan can meet, or that were given up, with the partitions that force it."""
    cluster, targets = task.cluster, request.targets
    reached = _measure_survivor_out(units, task, result, state)
    if result.failover_out > task.failover_out + 1e-9 and reached > task.failover_out + TOLERANCE[""]:
        rows = np.flatnonzero(result.oversized & (cluster.bytes_out > compute_takeover_room(task)))
        forced = "no single partition forces it"
        if len(rows):
            count = f"{len(rows)} partitions each exceed" if len(rows) > 1 else "1 partition exceeds"
            largest = _list_largest(model, rows, cluster.bytes_out)
            forced = f"{count} the headroom of a survivor at its limit; the largest over the mean: {largest}"
        yield (
            f"bytes out of the worst survivor: the lowest ratio to the mean that was found is {reached:.3f}, "
            f"the target is {task.failover_out:g}; {forced}"
        )
    ratio, least = loose
    if ratio > targets.loose_bytes + 1e-9:
        load = np.maximum(cluster.disk, cluster.bytes_in)
        proven = "; whether less is possible is not proven; raising plans.target_extra_moves may allow less"
        if least > targets.loose_bytes + 5e-4:
            largest = _list_largest(model, np.arange(len(load)), load)
            proven = (
                f"; less than {least:.3f} is impossible, because of partitions that are large over the mean: {largest}"
            )
        yield (
            f"disk and bytes in: the lowest ratio to the mean that was found with at most {targets.extra_moves:.0%} "
            f"more moves than the fewest is {ratio:.3f}, the target is {targets.loose_bytes:g}{proven}"
        )
    for name, load, limit in (
        ("disk", cluster.disk, task.limits.disk),
        ("bytes in", cluster.bytes_in, task.limits.bytes_in),
    ):
        rows = np.flatnonzero(load > float(np.median(limit[units.counted])) if units.brokers else load < 0)
        if len(rows):
            largest = _list_largest(model, rows, load)
            yield f"{name}: single partitions exceed the limit of a broker; over the mean: {largest}"
    if cluster.bytes_out.max(initial=0.0) > max(targets.bytes_out, 1.0):
        largest = _list_largest(model, np.argmax(cluster.bytes_out, keepdims=True), cluster.bytes_out)
        yield f"bytes out: a single leader exceeds the limit of a broker; over the mean: {largest}"


def _explain_budget(model: ClusterModel, request: PlanRequest, copied: float, moves: int) -> Iterator[str]:
    """Explain that a budget limits the plan: its rest may not pay for the next partition."""
    largest = float(model.size.max(initial=0.0))
    if request.max_bytes is not None and copied + largest > request.max_bytes:
        yield f"the plan copies {copied:.0f} of at most {request.max_bytes} bytes; missed targets may need more"
    if request.max_moves is not None and moves >= request.max_moves - 1:
        yield f"the plan copies {moves} of at most {request.max_moves} replicas; missed targets may need more"


def _measure_survivor_out(units: LoadUnits, task: SearchTask, result: SearchResult, state: SearchState) -> float:
    """Measure the bytes out of the worst survivor of any single failure over the survivors' mean; 0 without any."""
    counted = np.flatnonzero(units.counted)
    if len(counted) < 2:
        return 0.0
    first = task.cluster.offsets[:-1]
    single = np.diff(task.cluster.offsets) == 1
    lost = np.bincount(result.slots[first[single]], task.cluster.bytes_out[single], len(task.cluster.rack))[counted]
    after = state.bytes_out[counted][:, None] + state.takeovers_bytes_out.load[np.ix_(counted, counted)]
    np.fill_diagonal(after, 0.0)
    mean = (state.bytes_out[counted].sum() - lost) / (len(counted) - 1)
    return float((after.max(axis=0) / np.maximum(mean, 1e-300)).max()) if mean.max() > 0 else 0.0


def _explain_copies(
    model: ClusterModel, task: SearchTask, result: SearchResult, rows: Ints, copied: float, bound: float
) -> Iterator[str]:
    """Explain why much more is copied than the bound, which ignores takeovers: oversized partitions.

    rows: the partition of each copied replica.
    """
    rows = rows[result.oversized[rows]]
    if copied > _EXPLAINED_RATIO * bound and len(rows):
        large = np.unique(rows)
        count = count_of(len(large), "partition")
        yield (
            f"bytes copied: {copied / max(bound, 1.0) - 1:.1%} more than disk, bytes in and replicas alone require; "
            f"{model.size[rows].sum():.0f} of them belong to {count} that overload a survivor together with its own "
            f"leaders; bytes out over a broker's mean: {_list_largest(model, large, task.cluster.bytes_out)}"
        )


def _explain_missed(
    model: ClusterModel, units: LoadUnits, task: SearchTask, result: SearchResult, state: SearchState
) -> Iterator[str]:
    """Explain limits that brokers exceed in the end: how far the worst is from them, and its largest partitions."""
    cluster, limits = task.cluster, result.limits
    row, first = cluster.row, cluster.offsets[:-1]
    loads = {
        "disk": cluster.disk,
        "bytes_in": cluster.bytes_in,
        "bytes_out": cluster.bytes_out,
        "failover_out": cluster.bytes_out,
    }
    reached = {
        "replicas": state.replicas,
        "leaders": state.leaders,
        "disk": state.disk,
        "bytes_in": state.bytes_in,
        "bytes_out": state.bytes_out,
        "failover": state.leaders + state.takeovers.worst + limits.survivor_leaders.min(initial=np.inf),
        "failover_out": state.bytes_out
        + state.takeovers_bytes_out.worst
        + limits.survivor_bytes_out.min(initial=np.inf),
    }
    lowest = {"replicas": limits.min_replicas, "leaders": limits.min_leaders}
    for name, over in measure_excess(limits, state).items():
        brokers = np.flatnonzero((over > TOLERANCE.get(name, TOLERANCE[""])) & units.counted)
        if not len(brokers):
            continue
        worst = brokers[np.argsort(-over[brokers], kind="stable")][0]
        value = reached[name][worst]
        too_few = name in lowest and value < lowest[name][worst]
        side, target = ("at least", value + over[worst]) if too_few else ("at most", value - over[worst])
        ratio = name in loads
        values = f"{value:.4f}, the target is {side} {target:.4f} of the mean"
        if not ratio:
            values = f"{value:.0f}, the target is {side} {target:.0f}"
        others = len(brokers) - 1
        text = f"{_METRICS[name]}: broker {model.broker_ids[worst]} has {values}"
        text += f"; {others} more broker{'s miss' if others > 1 else ' misses'} theirs" if others else ""
        if ratio:
            slots = np.flatnonzero(result.slots == worst)
            if name == "bytes_out":
                slots = slots[slots == first[row[slots]]]
            elif name == "failover_out":
                slots = slots[slots == first[row[slots]] + 1]
            text += f"; its largest partitions: {_list_largest(model, row[slots], loads[name])}"
        yield text


def _list_largest(model: ClusterModel, rows: npt.NDArray[np.integer], load: Floats) -> str:
    rows = rows[np.argsort(-load[rows], kind="stable")][:_LISTED]
    return ", ".join(f"{model.name(int(row))} ({load[row]:.3f})" for row in rows)
