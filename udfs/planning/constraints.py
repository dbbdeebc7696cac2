"""What a plan must keep to: who takes or loses replicas, racks, factors, capacity, budgets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from udfs.arrow.ragged import any_true
from udfs.planning.cluster_model import (
    FREE,
    Flags,
    Floats,
    Ints,
    Places,
    Problem,
)
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
    """What is legal for one goal. Places of brokers and partitions are those of the problem.

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


def rules_for(problem: Problem, goal: str, wishes: Asked | None = None) -> Rules:
    """The rules of a goal. ValueError for a wish that makes no sense, as a broker that is not there."""
    wishes = wishes or Asked()
    if goal not in GOALS:
        raise ValueError(f"goal {goal!r}: must be one of {', '.join(GOALS)}")
    if wishes.brokers and goal not in ("expand", "drain"):
        raise ValueError(f"goal {goal} takes no list of brokers")
    receives = problem.living & ~problem.draining
    receives[_places(problem, wishes.excluded)] = False
    must_leave = np.zeros(problem.brokers, dtype=np.bool_)
    instead = np.full(problem.brokers, -1, dtype=np.int32)
    factor = problem.factor
    if goal == "drain":
        must_leave[_places(problem, wishes.brokers)] = True
        if not wishes.brokers:
            must_leave |= problem.draining
        if not must_leave.any():
            raise ValueError("no broker to drain: the source names none, so name some")
    elif goal == "expand":
        receives &= _filled(problem, wishes.brokers)
    elif goal == "replace":
        instead = _instead(problem, wishes.instead, receives)
        must_leave |= instead >= 0
    elif goal == "rf":
        factor = _wished_factor(problem, wishes)
    elif goal == "repair":
        must_leave |= ~problem.living
        factor = np.maximum(factor, usual_factor(problem) if wishes.wanted is None else wishes.wanted)
    receives &= ~must_leave
    racks = len(np.unique(problem.rack[problem.living & ~must_leave]))
    cap = -(-factor // max(racks, 1))
    fixed = problem.frozen != FREE
    left_out = fixed & _concerned(problem, must_leave, factor, cap, goal)
    factor = np.where(fixed, problem.factor, factor)
    if goal not in EVEN_GOALS:
        fixed = fixed | ~_concerned(problem, must_leave, factor, cap, goal)
    no_limit = np.full(problem.brokers, int(factor.sum()) + 1, dtype=np.int64)
    return Rules(
        goal,
        receives,
        must_leave,
        instead,
        fixed,
        factor,
        cap,
        goal in EVEN_GOALS,
        no_limit if wishes.max_replicas is None else np.minimum(wishes.max_replicas, no_limit),
        np.full(problem.brokers, np.inf) if wishes.max_bytes is None else wishes.max_bytes,
        left_out,
        wishes.byte_budget,
        wishes.move_budget,
        wishes.allow_fewer_racks,
    )


def staying(problem: Problem, rules: Rules) -> Flags:
    """Which brokers (bool, n) are there afterwards: living, and emptied neither by the plan nor by the source."""
    return problem.living & ~rules.must_leave & ~problem.draining


def usual_factor(problem: Problem) -> Ints:
    """The most frequent number of replicas in each partition's topic, of two the larger: int64 (p)."""
    factor = problem.factor
    pairs, times = np.unique(np.stack([problem.topic.astype(np.int64), factor]), axis=1, return_counts=True)
    order = np.lexsort((pairs[1], times, pairs[0]))
    usual = np.zeros(len(problem.topic_names), dtype=np.int64)
    usual[pairs[0][order]] = pairs[1][order]  # the last of a topic stays
    return usual[problem.topic]


def over_cap(problem: Problem, cap: Ints) -> Flags:
    """Which partitions (bool, p) have more replicas in one rack than `cap` (p)."""
    row = problem.row
    racks = int(problem.rack.max(initial=0)) + 1
    keys, times = np.unique(row * racks + problem.rack[problem.replicas], return_counts=True)
    out = np.zeros(problem.partitions, dtype=np.bool_)
    out[keys[times > cap[keys // racks]] // racks] = True
    return out


def _places(problem: Problem, ids: Sequence[int]) -> Ints:
    wanted = np.asarray(sorted(set(ids)), dtype=np.int64)
    places = np.searchsorted(problem.broker_ids, wanted).astype(np.int64)
    found = places < problem.brokers
    found[found] = problem.broker_ids[places[found]] == wanted[found]
    if not found.all():
        raise ValueError(f"no such broker: {listed(str(broker) for broker in wanted[~found])}")
    return places


def _filled(problem: Problem, ids: Sequence[int]) -> Flags:
    holds = np.bincount(problem.replicas, minlength=problem.brokers) > 0
    if not ids and not (problem.living & ~problem.draining & ~holds).any():
        raise ValueError("no living broker is empty: name those to fill")
    if not ids:
        return np.ones(problem.brokers, dtype=np.bool_)
    holds[_places(problem, ids)] = True
    return holds


def _instead(problem: Problem, wishes: Mapping[int, int], receives: Flags) -> Places:
    out = np.full(problem.brokers, -1, dtype=np.int32)
    if not wishes:
        raise ValueError("no broker to replace: name some, and who takes over")
    _places(problem, [*wishes.keys(), *wishes.values()])
    for old, new in sorted(wishes.items()):
        to = _places(problem, [new])[0]
        if new in wishes or not receives[to]:
            raise ValueError(f"broker {new} cannot take over from {old}: it is dead, excluded, or to be emptied itself")
        out[_places(problem, [old])] = to
    return out


def _wished_factor(problem: Problem, wishes: Asked) -> Ints:
    if wishes.replication_factor is None or wishes.replication_factor < 1:
        raise ValueError(f"replication factor {wishes.replication_factor}: must be 1 or more")
    place = {name: i for i, name in enumerate(problem.topic_names)}
    unknown = [name for name in wishes.topics if name not in place]
    if unknown:
        raise ValueError(f"no such topic: {listed(unknown)}")
    meant = np.zeros(len(place), dtype=np.bool_)
    meant[[place[name] for name in wishes.topics] if wishes.topics else slice(None)] = True
    return np.where(meant[problem.topic], wishes.replication_factor, problem.factor)


def _concerned(problem: Problem, must_leave: Flags, factor: Ints, cap: Ints, goal: str) -> Flags:
    out: Flags = (factor != problem.factor) | any_true(must_leave[problem.replicas], problem.offsets)
    return out | over_cap(problem, cap) if goal == "repair" else out
