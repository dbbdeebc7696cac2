"""What a plan must keep to: who takes or loses replicas, racks, factors, capacity, budgets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from udfs.arrow.ragged import any_true
from udfs.planning.cluster_model import FREE, ClusterModel, Flags, Floats, Ints, Places
from udfs.planning.plan_text import listed

GOALS = ("balance", "expand", "drain", "replace", "rf", "repair")
# Goals that even out the whole cluster. The others touch only partitions that they are about, and move nothing else.
EVEN_GOALS = ("balance", "expand", "drain")


class Infeasible(Exception):
    """No plan keeps to the rules; `reasons` says why, in words."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = tuple(reasons)


@dataclass(frozen=True)
class Asked:
    """What is asked for beside the goal. Brokers are meant by id.

    brokers: which to drain, or to fill (expand); empty = those that the source drains, or that hold nothing.
    instead: for replace, who takes over from whom.   excluded: brokers that keep what they have and get no more.
    replication_factor: for rf, of `topics` (empty = all).   wanted: int64 (p), for repair; else the topic's usual one.
    max_replicas, max_bytes: (n), limits of each broker.   byte_budget, move_budget: of the whole plan.
    allow_fewer_racks: whether a rack may be left without any broker.
    """

    brokers: tuple[int, ...] = ()
    instead: Mapping[int, int] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    replication_factor: int | None = None
    wanted: Ints | None = None
    excluded: tuple[int, ...] = ()
    max_replicas: Ints | None = None
    max_bytes: Floats | None = None
    byte_budget: float | None = None
    move_budget: int | None = None
    allow_fewer_racks: bool = False


@dataclass(frozen=True)
class Rules:
    """What is legal for one goal. Places of brokers and partitions are those of the model.

    receives: bool (n), may get replicas.   must_leave: bool (n), may hold none afterwards.
    instead: int32 (n), who takes over what a broker must lose, as far as legal; -1 = anybody.
    fixed: bool (p), its list stays as it is.   factor: int64 (p), replicas wanted.   cap: int64 (p), most in one rack.
    even: whether replica counts come before moves; else only what must move does.
    max_replicas: int64 (n); who has more keeps it if counts come second.   max_bytes: float64 (n), or infinite.
    byte_budget, move_budget: None = no limit.
    left_out: bool (p), what the goal is about and cannot change, as it is frozen.
    """

    goal: str
    receives: Flags
    must_leave: Flags
    instead: Places
    fixed: Flags
    factor: Ints
    cap: Ints
    even: bool
    max_replicas: Ints
    max_bytes: Floats
    left_out: Flags
    byte_budget: float | None = None
    move_budget: int | None = None
    allow_fewer_racks: bool = False


def rules_for(model: ClusterModel, goal: str, request: Asked | None = None) -> Rules:
    """The rules of a goal. ValueError for a request that makes no sense, as a broker that is not there."""
    request = request or Asked()
    if goal not in GOALS:
        raise ValueError(f"goal {goal!r}: must be one of {', '.join(GOALS)}")
    if request.brokers and goal not in ("expand", "drain"):
        raise ValueError(f"goal {goal} takes no list of brokers")
    receives = model.live & ~model.draining
    receives[_places(model, request.excluded)] = False
    must_leave = np.zeros(model.brokers, dtype=np.bool_)
    instead = np.full(model.brokers, -1, dtype=np.int32)
    factor = model.factor
    if goal == "drain":
        must_leave[_places(model, request.brokers)] = True
        if not request.brokers:
            must_leave |= model.draining
        if not must_leave.any():
            raise ValueError("no broker to drain: the source names none, so name some")
    elif goal == "expand":
        receives &= _filled(model, request.brokers)
    elif goal == "replace":
        instead = _instead(model, request.instead, receives)
        must_leave |= instead >= 0
    elif goal == "rf":
        factor = _wished_factor(model, request)
    elif goal == "repair":
        must_leave |= ~model.live
        factor = np.maximum(factor, usual_factor(model) if request.wanted is None else request.wanted)
    receives &= ~must_leave
    racks = len(np.unique(model.rack[model.live & ~must_leave]))
    cap = -(-factor // max(racks, 1))
    fixed = model.frozen != FREE
    left_out = fixed & _concerned(model, must_leave, factor, cap, goal)
    factor = np.where(fixed, model.factor, factor)
    if goal not in EVEN_GOALS:
        fixed = fixed | ~_concerned(model, must_leave, factor, cap, goal)
    no_limit = np.full(model.brokers, int(factor.sum()) + 1, dtype=np.int64)
    return Rules(
        goal,
        receives,
        must_leave,
        instead,
        fixed,
        factor,
        cap,
        goal in EVEN_GOALS,
        no_limit if request.max_replicas is None else np.minimum(request.max_replicas, no_limit),
        np.full(model.brokers, np.inf) if request.max_bytes is None else request.max_bytes,
        left_out,
        request.byte_budget,
        request.move_budget,
        request.allow_fewer_racks,
    )


def staying(model: ClusterModel, rules: Rules) -> Flags:
    """Which brokers (bool, n) are there afterwards: live, and emptied neither by the plan nor by the source."""
    return model.live & ~rules.must_leave & ~model.draining


def usual_factor(model: ClusterModel) -> Ints:
    """The most frequent number of replicas in each partition's topic, of two the larger: int64 (p)."""
    factor = model.factor
    pairs, times = np.unique(np.stack([model.topic.astype(np.int64), factor]), axis=1, return_counts=True)
    order = np.lexsort((pairs[1], times, pairs[0]))
    usual = np.zeros(len(model.topic_names), dtype=np.int64)
    usual[pairs[0][order]] = pairs[1][order]  # the last of a topic stays
    return usual[model.topic]


def over_cap(model: ClusterModel, cap: Ints) -> Flags:
    """Which partitions (bool, p) have more replicas in one rack than `cap` (p)."""
    row = model.row
    racks = int(model.rack.max(initial=0)) + 1
    keys, times = np.unique(row * racks + model.rack[model.replicas], return_counts=True)
    out = np.zeros(model.partitions, dtype=np.bool_)
    out[keys[times > cap[keys // racks]] // racks] = True
    return out


def _places(model: ClusterModel, ids: Sequence[int]) -> Ints:
    wanted = np.asarray(sorted(set(ids)), dtype=np.int64)
    places = np.searchsorted(model.broker_ids, wanted).astype(np.int64)
    found = places < model.brokers
    found[found] = model.broker_ids[places[found]] == wanted[found]
    if not found.all():
        raise ValueError(f"no such broker: {listed(str(broker) for broker in wanted[~found])}")
    return places


def _filled(model: ClusterModel, ids: Sequence[int]) -> Flags:
    holds = np.bincount(model.replicas, minlength=model.brokers) > 0
    if not ids and not (model.live & ~model.draining & ~holds).any():
        raise ValueError("no live broker is empty: name those to fill")
    if not ids:
        return np.ones(model.brokers, dtype=np.bool_)
    holds[_places(model, ids)] = True
    return holds


def _instead(model: ClusterModel, request: Mapping[int, int], receives: Flags) -> Places:
    out = np.full(model.brokers, -1, dtype=np.int32)
    if not request:
        raise ValueError("no broker to replace: name some, and who takes over")
    _places(model, [*request.keys(), *request.values()])
    for old, new in sorted(request.items()):
        to = _places(model, [new])[0]
        if new in request or not receives[to]:
            raise ValueError(f"broker {new} cannot take over from {old}: it is down, excluded, or to be emptied itself")
        out[_places(model, [old])] = to
    return out


def _wished_factor(model: ClusterModel, request: Asked) -> Ints:
    if request.replication_factor is None or request.replication_factor < 1:
        raise ValueError(f"replication factor {request.replication_factor}: must be 1 or more")
    place = {name: i for i, name in enumerate(model.topic_names)}
    unknown = [name for name in request.topics if name not in place]
    if unknown:
        raise ValueError(f"no such topic: {listed(unknown)}")
    meant = np.zeros(len(place), dtype=np.bool_)
    meant[[place[name] for name in request.topics] if request.topics else slice(None)] = True
    return np.where(meant[model.topic], request.replication_factor, model.factor)


def _concerned(model: ClusterModel, must_leave: Flags, factor: Ints, cap: Ints, goal: str) -> Flags:
    out: Flags = (factor != model.factor) | any_true(must_leave[model.replicas], model.offsets)
    return out | over_cap(model, cap) if goal == "repair" else out
