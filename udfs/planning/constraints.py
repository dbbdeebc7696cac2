"""Constraints of a plan: which brokers receive or lose replicas, racks, replication factors, capacity, budgets."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from udfs.arrow.ragged import any_true, count_true, row_of
from udfs.failures.disk_limits import FULL_RATIO
from udfs.planning.cluster_model import FREE, ClusterModel, Flags, Floats, FreezeReason, Int32s, Ints, ReplicaLists
from udfs.planning.plan_request import RELIEVE, PlanRequest
from udfs.wording import count_of, join_names

COPYING_GOALS = ("balance", "expand", "drain", "replace", "rf", "repair", RELIEVE, "zones")
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
    broker_budget: float = np.inf  # Bytes that a broker may receive, and send to followers
    allow_empty_racks: bool = False  # Whether a rack may be left without any broker
    max_disk_ratio: float = FULL_RATIO  # Share of the volume of a log dir that may be used
    strict_disks: bool = False  # Whether what leaves a disk makes no room for copies there


def build_rules(model: ClusterModel, request: PlanRequest) -> Rules:
    """Derive the rules of a request; raise ValueError if it makes no sense in this cluster."""
    goal = request.goal
    if goal not in COPYING_GOALS:
        raise ValueError(f"goal {goal!r}: must be one of {', '.join(COPYING_GOALS)}")
    faults = check_request(model, request)
    if faults:
        raise ValueError("; ".join(faults))
    targets = np.isin(model.broker_ids, select_target_brokers(model, request))
    named = np.isin(model.broker_ids, request.brokers)  # by the user, who knows them
    receives = find_receiving_brokers(model, request.exclude_brokers)
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
        named |= np.isin(model.broker_ids, new)
    elif goal == "rf":
        must_leave = ~model.live  # of the partitions that it changes, as Kafka's tools reject lists with a down broker
        factor = np.full(model.partitions, request.factor or 0, dtype=np.int64)
    elif goal == "repair":
        must_leave = ~model.live
        # That of the topic. Partitions with more replicas keep them, unless one is on a down broker.
        has_down = any_true(~model.live[model.replicas], model.offsets)
        factor = np.where(has_down, model.declared_factor, np.maximum(model.factor, model.declared_factor))
    receives &= ~must_leave
    if model.unknown is not None:
        # They may be down: replicas go to brokers that are known to be live, if these suffice.
        known = receives & (named | ~model.unknown)
        if (count_places(model, known, must_leave).sum(axis=1) >= factor)[model.frozen == FREE].all():
            receives = known
    racks = len(np.unique(model.rack[model.live & ~must_leave]))
    rack_cap = -(-factor // max(racks, 1))
    # In-sync replicas stay before racks are spread.
    loses_copies = (factor < model.factor) & any_true(~model.is_in_sync, model.offsets)
    if loses_copies.any():
        in_sync = np.zeros((model.partitions, int(model.rack.max(initial=0)) + 1), dtype=np.int64)
        synced = model.is_in_sync
        np.add.at(in_sync, (model.row[synced], model.rack[model.replicas[synced]]), 1)
        needed = np.minimum(factor, in_sync.sum(axis=1))
        rack_cap = np.where(loses_copies, _fit_rack_cap(rack_cap, needed, in_sync), rack_cap)
    if goal == "repair":
        rack_cap = _fit_rack_cap(rack_cap, factor, count_places(model, receives, must_leave))
    if request.keep_rack_violations:
        rack_cap = np.maximum(rack_cap, _count_most_in_rack(model, ~must_leave[model.replicas]))
    fixed = model.frozen != FREE
    selected = _find_selected(model, request) & (model.frozen != FreezeReason.OTHER_TOPIC)
    blocked = fixed & selected & _find_concerned(model, must_leave, factor, rack_cap, goal)
    fixed = fixed | ~selected
    factor = np.where(fixed, model.factor, factor)
    if goal not in (*EVEN_GOALS, RELIEVE):
        fixed = fixed | ~_find_concerned(model, must_leave, factor, rack_cap, goal)
    no_limit = int(factor.sum()) + 1
    broker_replicas = no_limit if request.broker_replicas is None else min(request.broker_replicas, no_limit)
    capacity = np.full(model.brokers, broker_replicas, dtype=np.int64), compute_byte_capacity(model, request)
    # Who leaves racks as they are wants the fewest copies: brokers that hold more than others stay so.
    even = goal in EVEN_GOALS and not (goal == "drain" and request.keep_rack_violations)
    rules = (goal, receives, must_leave, replacement, fixed, factor, rack_cap, even, *capacity)
    most_bytes, most_moves, most_of_broker = (np.inf if most is None else float(most) for most in request.budgets)
    others = request.allow_empty_racks, request.max_disk_ratio, request.strict_disks
    return Rules(*rules, blocked, most_bytes, most_moves, most_of_broker, *others)


def compute_byte_capacity(model: ClusterModel, request: PlanRequest) -> Floats:
    """Compute how many bytes each broker may hold: float64 (n), infinite where no disk of it is known.

    A broker that holds more than its disks should may keep that.
    """
    capacity = np.full(model.brokers, np.inf if request.broker_bytes is None else float(request.broker_bytes))
    if not model.known[0]:
        return capacity
    stored = np.bincount(model.replicas, model.size[model.row], model.brokers)
    if model.log_dirs is not None:
        capacity = np.minimum(capacity, stored + np.maximum(model.log_dirs.sum_room(request.max_disk_ratio), 0.0))
    if model.disk_room is not None:
        capacity = np.fmin(capacity, stored + model.disk_room)
    return np.asarray(capacity, dtype=np.float64)


def find_receiving_brokers(model: ClusterModel, excluded: Sequence[int] = ()) -> Flags:
    """Find the brokers (bool, n) that may get replicas: live, not draining or cordoned. excluded: ids of others."""
    receives = model.live & ~model.draining & ~np.isin(model.broker_ids, np.asarray(excluded, dtype=np.int64))
    return receives if model.cordoned is None else receives & ~model.cordoned


def find_rejected_brokers(model: ClusterModel) -> Flags:
    """Find the brokers (bool, n) that no list may name, even if they hold the partition: Kafka rejects it."""
    if model.cordoned is None or not model.rejects_cordoned:
        return np.zeros(model.brokers, dtype=np.bool_)
    return model.cordoned


def find_staying_brokers(model: ClusterModel, rules: Rules) -> Flags:
    """Find the brokers (bool, n) that remain: live, and emptied neither by the plan nor by the source."""
    return model.live & ~rules.must_leave & ~model.draining


def count_places(model: ClusterModel, receives: Flags, must_leave: Flags) -> Ints:
    """Count the brokers of each rack that can hold a replica of each partition: int64 (p, racks).

    These are the ones that receive replicas, and those that hold one already and may keep it. Both: bool (n).
    """
    in_rack = np.bincount(model.rack[receives], minlength=int(model.rack.max(initial=0)) + 1)
    places = np.tile(in_rack, (model.partitions, 1))
    remaining = (~must_leave & ~receives)[model.replicas]
    np.add.at(places, (model.row[remaining], model.rack[model.replicas[remaining]]), 1)
    return places


def _fit_rack_cap(rack_cap: Ints, factor: Ints, places: Ints) -> Ints:
    """Raise the limits of racks (p) where other racks have too few live brokers: as evenly as places (p, racks) allow.

    A repair restores the number of replicas first. Partitions with too few brokers keep their limit.
    """
    fits = places.sum(axis=1) >= factor
    cap = rack_cap.copy()
    while (short := fits & (np.minimum(places, cap[:, None]).sum(axis=1) < factor)).any():
        cap[short] += 1
    return cap


def find_repair_obstacles(model: ClusterModel, request: PlanRequest) -> npt.NDArray[np.int8]:
    """Find the partitions that lack replicas and that no repair can change: int8 (p), FreezeReason, FREE = none.

    If too few brokers are the obstacle of all that lack replicas, none is returned: then no plan is possible.
    """
    rules = build_rules(model, request)
    concerned = ~rules.fixed
    few = concerned & (count_places(model, rules.receives, rules.must_leave).sum(axis=1) < rules.factor)
    obstacles = np.zeros(model.partitions, dtype=np.int8)
    if few.any() and (few < concerned).any():
        obstacles[few] = FreezeReason.FEW_BROKERS
    in_sync = count_true(model.is_in_sync, model.offsets)
    obstacles[concerned & (rules.factor < np.minimum(in_sync, model.factor))] = FreezeReason.EXTRA_REPLICAS
    return obstacles


def count_selected_replicas(model: ClusterModel, lists: ReplicaLists) -> Ints:
    """Count the replicas that each broker has with lists, but for topics that a request does not name: int64 (n)."""
    is_selected = (model.frozen != FreezeReason.OTHER_TOPIC)[row_of(lists.offsets)]
    return np.bincount(lists.replicas[is_selected], minlength=model.brokers)


def explain_other_topics(model: ClusterModel, rules: Rules, lists: ReplicaLists) -> Iterator[str]:
    """Explain what brokers that a plan is to empty keep, as its request does not name the topics."""
    others = np.bincount(lists.replicas, minlength=model.brokers) - count_selected_replicas(model, lists)
    for broker in np.flatnonzero(rules.must_leave & (others > 0) & (rules.goal not in ("repair", "rf"))):
        replicas = count_of(int(others[broker]), "replica")
        yield f"broker {model.broker_ids[broker]} keeps {replicas} of topics that --topics does not name"


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


def find_fewer_racks(
    model: ClusterModel, rows: Ints, lists: ReplicaLists, emptied: Sequence[int], *, listed: bool = False
) -> tuple[Flags, Ints, Ints]:
    """Find the lists (bool, k) in fewer racks than the in-sync replicas of now, although more would be possible.

    Returns these, the racks of the in-sync replicas now, and of the lists: int64 (k). Replicas out of sync keep nothing
    online, so to drop them does no harm now; but once they caught up, they would. Planners keep to their racks as well.

    Args:
        model: The cluster.
        rows: int64 (k), the partition of each list.
        lists: k lists.
        emptied: Ids of brokers that are to hold nothing.
        listed: Whether known racks of replicas that are out of sync count as well.
    """
    row, rack = row_of(lists.offsets), model.rack[lists.replicas]
    offered = np.unique(model.rack[model.live & ~model.draining & ~np.isin(model.broker_ids, emptied)])
    other = ~np.isin(rack, offered)
    possible = len(offered) + _count_distinct(row[other], rack[other], len(rows))
    counts = model.is_in_sync | (listed & (model.rack < len(model.rack_names))[model.replicas])
    before = _count_distinct(model.row[counts], model.rack[model.replicas[counts]], model.partitions)[rows]
    after = _count_distinct(row, rack, len(rows))
    fewer = after < np.minimum(np.minimum(before, np.diff(lists.offsets)), possible)
    return fewer & bool(model.rack_names), before, after


def find_dropped_in_sync(model: ClusterModel, lists: ReplicaLists) -> Flags:
    """Find the partitions (bool, p) of which an in-sync replica leaves, while one that is out of sync stays."""
    leaves = model.with_lists(lists.offsets, lists.replicas).find_copied(model)
    drops, keeps = (any_true(some, model.offsets) for some in (leaves & model.is_in_sync, ~leaves & ~model.is_in_sync))
    return drops & keeps


def _count_distinct(row: Ints, value: Int32s, rows: int) -> Ints:
    """Count the different values of each row: int64 (rows)."""
    values = int(value.max(initial=0)) + 1
    return np.bincount(np.unique(row * values + value) // values, minlength=rows).astype(np.int64)


def list_emptied_brokers(model: ClusterModel, request: PlanRequest) -> list[int]:
    """Return the ids of the brokers that a plan empties: those to drain, or to replace."""
    drained = select_target_brokers(model, request) if request.goal == "drain" else []
    return [*drained, *(old for old, _ in request.replacements)]


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
    in_sync = count_true(model.is_in_sync, model.offsets)
    if request.at_min_isr_partitions:
        selected |= in_sync == model.min_isr
    if request.under_min_isr_partitions:
        selected |= in_sync < model.min_isr
    return selected & on_brokers


def _find_concerned(model: ClusterModel, must_leave: Flags, factor: Ints, rack_cap: Ints, goal: str) -> Flags:
    concerned: Flags = factor != model.factor
    if goal != "rf":
        concerned |= any_true(must_leave[model.replicas], model.offsets)
    return concerned | find_rack_violations(model, rack_cap) if goal == "repair" else concerned


def select_target_brokers(model: ClusterModel, request: PlanRequest) -> list[int]:
    """Return the ids of the brokers that expand fills or drain empties: by default what the cluster itself shows."""
    if request.brokers or request.goal not in ("expand", "drain"):
        return list(request.brokers)
    empty = np.bincount(model.replicas, minlength=model.brokers) == 0
    fills = find_receiving_brokers(model) & empty
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
    receiving = set(model.ids(np.flatnonzero(find_receiving_brokers(model, request.exclude_brokers))))
    targets = select_target_brokers(model, request)
    if request.brokers and request.goal not in ("drain", "expand", "repair", RELIEVE):
        yield f"the goal {request.goal} takes no list of brokers"
    if request.goal == "drain" and not targets:
        yield "there is no broker to drain: the source marks none as draining, so name some with --brokers"
    if request.goal == "expand":
        if not targets:
            yield "there is no empty live broker to fill: name the brokers to fill with --brokers"
        unfit = sorted(set(request.brokers) - receiving - set(request.exclude_brokers))
        if unfit:
            brokers, state = ("broker", "it is") if len(unfit) == 1 else ("brokers", "they are")
            yield f"{brokers} {join_names(unfit, _LISTED)} cannot be filled: {state} down, draining or cordoned"
    if request.goal == "replace":
        if not request.replacements:
            yield "there is no broker to replace: name each broker and its replacement with --replace, as in 7=66"
        fit = receiving - {old for old, _ in request.replacements}
        for old, new in request.replacements:
            if new not in fit:
                yield f"broker {new} cannot replace {old}: it is down, excluded, draining, cordoned, or itself replaced"
    if request.goal == "rf" and (request.factor is None or request.factor < 1):
        yield "there is no replication factor: set one of 1 or more with --rf"
