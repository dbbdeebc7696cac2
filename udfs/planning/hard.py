"""What a plan must keep to, and why it cannot: who takes or loses replicas, racks, factors, capacity, budgets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from ortools.graph.python import max_flow

from udfs.kernels.compiled import compiled
from udfs.kernels.ragged import any_true
from udfs.planning.problem import FREE, FROZEN_WORDS, Flags, Floats, Ints, Places, Problem

GOALS = ("balance", "expand", "drain", "replace", "rf", "repair")
# Goals that even out the whole cluster. The others touch only partitions that they are about, and move nothing else.
EVEN_GOALS = ("balance", "expand", "drain")


class Infeasible(Exception):
    """No plan keeps to the rules; `reasons` says why, in words."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = tuple(reasons)


@dataclass(frozen=True)
class Wishes:
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


def rules_for(problem: Problem, goal: str, wishes: Wishes | None = None) -> Rules:
    """The rules of a goal. ValueError for a wish that makes no sense, as a broker that is not there."""
    wishes = wishes or Wishes()
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
        raise ValueError(f"no such broker: {_list(str(broker) for broker in wanted[~found])}")
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


def _wished_factor(problem: Problem, wishes: Wishes) -> Ints:
    if wishes.replication_factor is None or wishes.replication_factor < 1:
        raise ValueError(f"replication factor {wishes.replication_factor}: must be 1 or more")
    place = {name: i for i, name in enumerate(problem.topic_names)}
    unknown = [name for name in wishes.topics if name not in place]
    if unknown:
        raise ValueError(f"no such topic: {_list(unknown)}")
    meant = np.zeros(len(place), dtype=np.bool_)
    meant[[place[name] for name in wishes.topics] if wishes.topics else slice(None)] = True
    return np.where(meant[problem.topic], wishes.replication_factor, problem.factor)


def _concerned(problem: Problem, must_leave: Flags, factor: Ints, cap: Ints, goal: str) -> Flags:
    out: Flags = (factor != problem.factor) | any_true(must_leave[problem.replicas], problem.offsets)
    return out | over_cap(problem, cap) if goal == "repair" else out


# ---- how much brokers can hold at all


@compiled
def _kept_and_room(
    fixed: Flags,
    factor: Ints,
    cap: Ints,
    offsets: Ints,
    replicas: Places,
    rack: Places,
    stays: Flags,
    choosing: bool,
    left: Ints,
    room: Places,
    kept: Flags,
) -> None:
    """Fill kept (r), what stays on brokers of `stays`; left (p) and room (p, racks), what is free to go anywhere."""
    for row in range(len(factor)):
        left[row] = 0 if fixed[row] else factor[row]
        for r in range(room.shape[1]):
            room[row, r] = cap[row]
        if fixed[row] or (choosing and factor[row] < offsets[row + 1] - offsets[row]):
            continue
        for at in range(offsets[row], offsets[row + 1]):
            broker = replicas[at]
            if stays[broker] and left[row] > 0 and room[row, rack[broker]] > 0:
                kept[at] = True
                left[row] -= 1
                room[row, rack[broker]] -= 1


@dataclass(frozen=True)
class Shares:
    """The free replicas, by kinds of partitions that have as many to place and as much room in each rack.

    base: int64 (n), replicas that stay on each broker in any case.   top: int64 (n), the most it may hold.
    free: how many replicas are free to go.   members: int64 (k), partitions of each kind; left: int64 (k), replicas
    that each places; room: int64 (k, racks).   Any split over brokers that these allow, the partitions allow too.
    """

    receives: Flags
    rack: Places
    base: Ints
    top: Ints
    free: int
    members: Ints
    left: Ints
    room: Ints

    def most(self, limit: Ints) -> tuple[int, Flags]:
        """How many free replicas fit where brokers take at most `limit` (int64, n), and which then hold up the rest.

        Those (bool, n) are full; the others cannot be given more, whatever their limit.
        """
        brokers, kinds, racks = len(self.base), len(self.members), self.room.shape[1]
        sink = 1 + kinds + kinds * racks + brokers
        kind, rack = np.divmod(np.arange(kinds * racks), racks)
        takers = np.flatnonzero(self.receives)
        by_kind = np.repeat(np.arange(kinds), len(takers))
        taker = np.tile(takers, kinds)
        first_broker = 1 + kinds + kinds * racks
        tail = [
            np.zeros(kinds, np.int64),
            1 + kind,
            1 + kinds + by_kind * racks + self.rack[taker],
            first_broker + takers,
        ]
        head = [1 + np.arange(kinds), 1 + kinds + kind * racks + rack, first_broker + taker, np.full(len(takers), sink)]
        capacity = [
            self.members * self.left,
            (self.members[:, None] * self.room).reshape(-1),
            self.members[by_kind],
            limit[takers],
        ]
        flow = max_flow.SimpleMaxFlow()
        flow.add_arcs_with_capacity(*(np.concatenate(part).astype(np.int64) for part in (tail, head, capacity)))
        if flow.num_nodes() <= sink:
            return 0, np.ones(brokers, dtype=np.bool_)
        flow.solve(0, sink)
        reached = np.zeros(sink + 1, dtype=np.bool_)
        reached[flow.get_source_side_min_cut()] = True
        return flow.optimal_flow(), reached[first_broker:sink]


def shares_of(problem: Problem, rules: Rules, settled: bool) -> Shares:
    """The free replicas: all but those of fixed partitions, or on brokers that get none.

    settled: whether, if counts come second, nothing moves that need not; only partitions that lose replicas are free.
    """
    stays = ~rules.must_leave & (~rules.receives if rules.even or not settled else np.True_)
    racks = int(problem.rack.max(initial=0)) + 1
    left = np.zeros(problem.partitions, dtype=np.int64)
    room = np.zeros((problem.partitions, racks), dtype=np.int32)
    kept = np.repeat(rules.fixed, problem.factor)
    lists = (problem.offsets, problem.replicas, problem.rack)
    _kept_and_room(rules.fixed, rules.factor, rules.cap, *lists, stays, settled, left, room, kept)
    base = np.bincount(problem.replicas[kept], minlength=problem.brokers).astype(np.int64)
    rows = np.flatnonzero(left > 0)
    kinds, members = _kinds(np.column_stack([left[rows], room[rows].astype(np.int64)]))
    held = base if rules.even else np.bincount(problem.replicas, minlength=problem.brokers)
    top = np.where(rules.receives, np.maximum(rules.max_replicas, held), base)
    free = int(left.sum())
    parts = (members, kinds[:, 0], kinds[:, 1:])
    return Shares(rules.receives, problem.rack, base, top, free, *parts)


def _kinds(table: Ints) -> tuple[Ints, Ints]:
    """(the different rows of a table of small numbers, how often each comes)."""
    widths = [int(width) + 1 for width in table.max(axis=0, initial=0)]
    if math.prod(widths) >= 1 << 62:
        rows, times = np.unique(table, axis=0, return_counts=True)
        return rows, times.astype(np.int64)
    _, first, times = np.unique(np.ravel_multi_index(tuple(table.T), widths), return_index=True, return_counts=True)
    return table[first], times.astype(np.int64)


# ---- why not


def reasons_against(problem: Problem, rules: Rules) -> tuple[str, ...]:
    """Why no plan keeps to the rules, in words, fewest first; empty = nothing stands against one."""
    out = _stuck_on_leaving(problem, rules) + _racks_lost(problem, rules)
    if out or rules.fixed.all():
        return tuple(out)
    out = _too_few_places(problem, rules)
    return tuple(out or _too_full(problem, rules))


def _stuck_on_leaving(problem: Problem, rules: Rules) -> list[str]:
    if rules.goal == "repair":
        return []  # what cannot be copied any more is no rule's fault; the certificate names it
    row = problem.row
    bad = rules.must_leave[problem.replicas] & (problem.frozen != FREE)[row]
    out = []
    for code in np.unique(problem.frozen[row[bad]]):
        mine = bad & (problem.frozen[row] == code)
        brokers = _brokers(problem, np.unique(problem.replicas[mine]))
        rows = np.unique(row[mine])
        out.append(f"{brokers} cannot be emptied: {some(problem, rows)} must stay, as {FROZEN_WORDS[code]}")
    return out


def _racks_lost(problem: Problem, rules: Rules) -> list[str]:
    if rules.allow_fewer_racks or rules.goal == "repair" or not problem.rack_names:
        return []
    living = problem.living
    left = np.unique(problem.rack[living & ~rules.must_leave])
    row = problem.row
    out = []
    for rack in np.setdiff1d(problem.rack[living & rules.must_leave], left):
        rows = np.unique(row[problem.rack[problem.replicas] == rack])
        if not len(rows):
            continue
        wide = rows[problem.factor[rows] > len(left)]
        words = f"rack {problem.rack_names[rack]} would have no broker left, so "
        if len(wide):
            factor = int(problem.factor[wide].max())
            widest = wide[problem.factor[wide] == factor]
            words += f"partitions of {factor} replicas ({some(problem, widest)}) cannot keep one replica a rack"
        else:
            words += f"{some(problem, rows)} would have to do with {len(left)} racks, unless fewer racks are allowed"
        out.append(words)
    return out


def _too_few_places(problem: Problem, rules: Rules) -> list[str]:
    """Partitions that more replicas are wanted of than there are brokers, or places in racks."""
    keeps = ~rules.must_leave & ~rules.receives
    row = problem.row
    racks = int(problem.rack.max(initial=0)) + 1
    in_rack = np.bincount(problem.rack[rules.receives], minlength=racks)
    kept = keeps[problem.replicas]
    places = np.tile(in_rack, (problem.partitions, 1))
    np.add.at(places, (row[kept], problem.rack[problem.replicas[kept]]), 1)
    active = ~rules.fixed
    brokers = places.sum(axis=1)
    spread = np.minimum(places, rules.cap[:, None]).sum(axis=1)
    out = []
    for factor in np.unique(rules.factor[active & (spread < rules.factor)])[::-1]:
        mine = active & (rules.factor == factor)
        few = np.flatnonzero(mine & (brokers < factor))
        if len(few):
            most = int(brokers[few].max())
            out.append(f"{factor} replicas of {some(problem, few)} need {factor} brokers, but only {most} may hold one")
            continue
        tight = np.flatnonzero(mine & (spread < factor))
        first = tight[0]
        short = np.flatnonzero((places[first] < rules.cap[first]) & (in_rack + places[first] > 0))
        most, cap = int(spread[tight].max()), int(rules.cap[first])
        names = (*problem.rack_names, "of brokers without one")
        full = _list(f"{names[rack]} has {places[first][rack]}" for rack in short)
        out.append(
            f"{factor} replicas of {some(problem, tight)}, at most {cap} in a rack, find only {most} places:"
            f" rack {full}"
        )
    return out


def _too_full(problem: Problem, rules: Rules) -> list[str]:
    """Capacity that cannot hold what must be held."""
    shares = shares_of(problem, rules, False)
    limit = np.where(rules.receives, shares.top - shares.base, 0)
    fits, full = shares.most(limit)
    out = []
    if fits < shares.free:
        brokers = np.flatnonzero(full & rules.receives)
        most = int((shares.base + limit)[brokers].sum())
        need = most + shares.free - fits
        out.append(f"{_brokers(problem, brokers)}: capacity for {most} replicas, where {need} must be held")
    if not np.isfinite(rules.max_bytes[rules.receives]).all():
        return out
    size = np.repeat(problem.size, problem.factor)
    stays = rules.fixed[problem.row] | (~rules.must_leave & ~rules.receives)[problem.replicas]
    on = np.bincount(problem.replicas[stays], size[stays], problem.brokers)
    need_bytes = float((problem.size * rules.factor)[~rules.fixed].sum())
    elsewhere = float(size[stays & ~rules.fixed[problem.row]].sum())
    room = float(np.maximum(rules.max_bytes - on, 0)[rules.receives].sum())
    if need_bytes - elsewhere > room:
        out.append(
            f"{_brokers(problem, np.flatnonzero(rules.receives))}: room for {room:.0f} bytes,"
            f" where {need_bytes - elsewhere:.0f} must be held"
        )
    return out


def some(problem: Problem, rows: npt.NDArray[np.integer]) -> str:
    """Partitions in few words: t1-0 and 12 others."""
    if len(rows) == 1:
        return problem.name(int(rows[0]))
    return f"{problem.name(int(rows[0]))} and {len(rows) - 1} other{'s' if len(rows) > 2 else ''}"


def _brokers(problem: Problem, places: npt.NDArray[np.integer]) -> str:
    ids = [str(broker) for broker in problem.ids(places)]
    return ("broker " if len(ids) == 1 else "brokers ") + _list(ids)


def _list(words: Iterable[str]) -> str:
    parts = list(words)
    return ", ".join(parts[:8]) + (f" and {len(parts) - 8} more" if len(parts) > 8 else "")
