"""Constraints of a plan: which brokers receive or lose replicas, racks, replication factors, capacity, budgets."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from udfs.arrow.ragged import any_true, count_true, row_of
from udfs.planning.cluster_model import FREE, ClusterModel, Flags, Floats, Int32s, Ints, ReplicaLists
from udfs.planning.plan_request import PlanRequest
from udfs.plurals import join_names

COPYING_GOALS = ("balance", "expand", "drain", "replace", "rf", "repair", "zones")
# Goals that even out the whole cluster. The others change only partitions that they concern.
EVEN_GOALS = ("balance", "expand", "drain", "zones")
_LISTED = 20  # names in a message


class InfeasibleRequest(Exception):
    """No plan meets the constraints; `reasons` says why, in words."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = tuple(reasons)


@dataclass(frozen=True)
class Rules:
    """What the lists of a plan must comply with. Brokers and partitions are in the model's order."""

    goal: str  # Name of the goal
    receives: Flags  # bool (n), brokers that may get replicas
    must_leave: Flags  # bool (n), brokers that may hold nothing afterwards
    # int32 (n), the broker that takes over the replicas that a broker loses, as far as legal; -1 = any
    replacement: Int32s
    fixed: Flags  # bool (p), partitions whose list stays as it is
    factor: Ints  # int64 (p), replicas afterwards
    rack_cap: Ints  # int64 (p), most replicas in one rack
    even: bool  # Whether even replica counts come before few moves
    broker_replicas: Ints  # int64 (n), capacity; brokers above it keep what they have if moves come first
    broker_bytes: Floats  # float64 (n), capacity, or infinite
    blocked: Flags  # bool (p), partitions that the goal concerns, but which are frozen
    byte_budget: float = np.inf  # Bytes that the plan may copy
    move_budget: float = np.inf  # Replicas that the plan may copy
    allow_empty_racks: bool = False  # Whether a rack may be left without any broker


def build_rules(model: ClusterModel, request: PlanRequest) -> Rules:
    """Derive the rules of a request; raise ValueError if it makes no sense in this cluster."""
    goal = request.goal
    if goal not in COPYING_GOALS:
        raise ValueError(f"goal {goal!r}: must be one of {', '.join(COPYING_GOALS)}")
    faults = check_request(model, request)
    if faults:
        raise ValueError("; ".join(faults))
    targets = np.isin(model.broker_ids, select_target_brokers(model, request))
    receives = model.live & ~model.draining & ~np.isin(model.broker_ids, request.exclude_brokers)
    must_leave = np.zeros(model.brokers, dtype=np.bool_)
    replacement = np.full(model.brokers, -1, dtype=np.int32)
    factor = model.factor
    if goal == "drain":
        must_leave = targets
    elif goal == "expand" and request.brokers:
        receives &= targets | (np.bincount(model.replicas, minlength=model.brokers) > 0)
    elif goal == "replace":
        old, new = np.array(request.replacements, dtype=np.int64).T
        replacement[np.searchsorted(model.broker_ids, old)] = np.searchsorted(model.broker_ids, new)
        must_leave = replacement >= 0
    elif goal == "rf":
        chosen = np.isin(model.topic_names, request.topics) if request.topics else np.ones(len(model.topic_names), bool)
        factor = np.where(chosen[model.topic], np.int64(request.factor or 0), factor)
    elif goal == "repair":
        must_leave = ~model.live
        factor = np.maximum(factor, find_usual_factors(model))
    receives &= ~must_leave
    racks = len(np.unique(model.rack[model.live & ~must_leave]))
    rack_cap = -(-factor // max(racks, 1))
    if request.keep_rack_violations:
        rack_cap = np.maximum(rack_cap, _count_most_in_rack(model, ~must_leave[model.replicas]))
    fixed = model.frozen != FREE
    selected = _find_selected(model, request)
    blocked = fixed & selected & _find_concerned(model, must_leave, factor, rack_cap, goal)
    fixed = fixed | ~selected
    factor = np.where(fixed, model.factor, factor)
    if goal not in EVEN_GOALS:
        fixed = fixed | ~_find_concerned(model, must_leave, factor, rack_cap, goal)
    no_limit = int(factor.sum()) + 1
    broker_replicas = no_limit if request.broker_replicas is None else min(request.broker_replicas, no_limit)
    broker_bytes = np.inf if request.broker_bytes is None else float(request.broker_bytes)
    capacity = np.full(model.brokers, broker_replicas, dtype=np.int64), np.full(model.brokers, broker_bytes)
    rules = (goal, receives, must_leave, replacement, fixed, factor, rack_cap, goal in EVEN_GOALS, *capacity)
    max_bytes, max_moves = (np.inf if most is None else float(most) for most in (request.max_bytes, request.max_moves))
    return Rules(*rules, blocked, max_bytes, max_moves, request.allow_empty_racks)


def find_staying_brokers(model: ClusterModel, rules: Rules) -> Flags:
    """Find the brokers (bool, n) that remain: live, and emptied neither by the plan nor by the source."""
    return model.live & ~rules.must_leave & ~model.draining


def find_usual_factors(model: ClusterModel) -> Ints:
    """Find the most frequent replication factor in each partition's topic, the larger of two: int64 (p)."""
    factor = model.factor
    pairs, times = np.unique(np.stack([model.topic.astype(np.int64), factor]), axis=1, return_counts=True)
    order = np.lexsort((pairs[1], times, pairs[0]))
    usual = np.zeros(len(model.topic_names), dtype=np.int64)
    usual[pairs[0][order]] = pairs[1][order]  # the last of a topic remains
    return usual[model.topic]


def find_rack_violations(model: ClusterModel, rack_cap: Ints) -> Flags:
    """Find the partitions (bool, p) with more replicas in one rack than `rack_cap` (p)."""
    row, count = count_in_racks(model, model, np.ones(len(model.replicas), dtype=np.bool_))
    violates = np.zeros(model.partitions, dtype=np.bool_)
    violates[row[count > rack_cap[row]]] = True
    return violates


def count_in_racks(model: ClusterModel, lists: ReplicaLists, selected: Flags) -> tuple[Ints, Ints]:
    """Count the selected replicas (bool, r) of each partition in each rack: (partition, count), int64."""
    racks = int(model.rack.max(initial=0)) + 1
    keys, count = np.unique((row_of(lists.offsets) * racks + model.rack[lists.replicas])[selected], return_counts=True)
    return keys // racks, count


def _count_most_in_rack(model: ClusterModel, selected: Flags) -> Ints:
    """Count the selected replicas (bool, r) of each partition in the rack with most of them: int64 (p)."""
    row, count = count_in_racks(model, model, selected)
    most = np.zeros(model.partitions, dtype=np.int64)
    np.maximum.at(most, row, count)
    return most


def _find_selected(model: ClusterModel, request: PlanRequest) -> Flags:
    """Find the partitions (bool, p) that a repair is for: by their brokers, and by their in-sync replicas."""
    on_brokers = np.ones(model.partitions, dtype=np.bool_)
    if request.goal == "repair" and request.brokers:
        on_brokers = any_true(np.isin(model.broker_ids, request.brokers)[model.replicas], model.offsets)
    if not (request.at_min_isr_partitions or request.under_min_isr_partitions):
        return on_brokers
    selected = np.zeros(model.partitions, dtype=np.bool_)
    live = model.live[model.replicas]
    in_sync = count_true(live if model.in_sync is None else live & model.in_sync, model.offsets)
    if request.at_min_isr_partitions:
        selected |= in_sync == model.min_isr
    if request.under_min_isr_partitions:
        selected |= in_sync < model.min_isr
    return selected & on_brokers


def _find_concerned(model: ClusterModel, must_leave: Flags, factor: Ints, rack_cap: Ints, goal: str) -> Flags:
    concerned: Flags = (factor != model.factor) | any_true(must_leave[model.replicas], model.offsets)
    return concerned | find_rack_violations(model, rack_cap) if goal == "repair" else concerned


def select_target_brokers(model: ClusterModel, request: PlanRequest) -> list[int]:
    """Return the ids of the brokers that expand fills or drain empties: by default what the cluster itself shows."""
    if request.brokers or request.goal not in ("expand", "drain"):
        return list(request.brokers)
    empty = np.bincount(model.replicas, minlength=model.brokers) == 0
    fills = model.live & ~model.draining & empty
    return model.ids(np.flatnonzero(fills if request.goal == "expand" else model.draining))


def check_request(model: ClusterModel, request: PlanRequest) -> list[str]:
    """Explain why a request makes no sense in this cluster; an empty list if it does."""
    return list(_find_unknown_names(model, request)) or list(_find_faults(model, request))


def _find_unknown_names(model: ClusterModel, request: PlanRequest) -> Iterator[str]:
    named = {*request.brokers, *(id_ for pair in request.replacements for id_ in pair), *request.exclude_brokers}
    known = model.broker_ids.tolist()
    missing = sorted(named - set(known))
    if missing:
        yield f"there is no broker {join_names(missing, _LISTED)}. Brokers: {join_names(known, _LISTED) or 'none'}"
    absent = sorted(set(request.topics) - set(model.topic_names))
    if absent:
        yield f"there is no topic {join_names(absent, _LISTED)} with known replicas"


def _find_faults(model: ClusterModel, request: PlanRequest) -> Iterator[str]:
    live, draining = (set(model.ids(np.flatnonzero(flags))) for flags in (model.live, model.draining))
    targets = select_target_brokers(model, request)
    if request.brokers and request.goal not in ("drain", "expand", "repair"):
        yield f"the goal {request.goal} takes no list of brokers"
    if request.goal == "drain" and not targets:
        yield "there is no broker to drain: the source marks none as draining, so name some with --brokers"
    if request.goal == "expand":
        if not targets:
            yield "there is no empty live broker to fill: name the brokers to fill with --brokers"
        unfit = sorted(set(request.brokers) - (live - draining))
        if unfit:
            brokers, state = ("broker", "it is") if len(unfit) == 1 else ("brokers", "they are")
            yield f"{brokers} {join_names(unfit, _LISTED)} cannot be filled: {state} down or draining"
    if request.goal == "replace":
        if not request.replacements:
            yield "there is no broker to replace: name each broker and its replacement with --replace, as in 7=66"
        fit = live - draining - {old for old, _ in request.replacements} - set(request.exclude_brokers)
        for old, new in request.replacements:
            if new not in fit:
                yield f"broker {new} cannot replace {old}: it is down, excluded, draining, or itself replaced"
    if request.goal == "rf" and (request.factor is None or request.factor < 1):
        yield "there is no replication factor: set one of 1 or more with --rf"
