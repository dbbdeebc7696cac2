"""Plans that even out replica counts with the least that has to move: min-cost flows, and what they prove.

A partition sends as many units as it wants replicas. A unit stays where a replica is, for nothing, or goes at the
partition's price to the hub of a rack, at most `cap` a rack; hubs send on to their brokers, and brokers take between
lo and hi. Units in a hub are alike, so which partition goes to which broker of the rack is decided afterwards
(`_settle`). Where a rack may hold one replica of a partition that is always possible, and else nearly so: what is
cheapest here is never dearer than any plan, and so the bound. Where it is not possible, brokers take units directly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from ortools.graph.python import min_cost_flow

from udfs.kernels.compiled import compiled
from udfs.kernels.ragged import any_true, count_true, offsets_of, row_of, take_segments
from udfs.planning.hard import Infeasible, Rules, Shares, over_cap, reasons_against, shares_of, some
from udfs.planning.problem import FROZEN_WORDS, Draft, Flags, Floats, Ints, Places, Problem, changed, moved

OBJECTIVES = ("min-bytes", "min-moves")
REASONS = (
    "its replication factor changes",
    "a replica is on a dead broker",
    "a replica is on a broker to be emptied",
    "a rack holds more of its replicas than it may",
    "a broker that holds nothing is filled",
    "replica counts are evened out",
)

_LARGEST = 1 << 60  # price x nodes, which the solver multiplies
_COARSEST = 1 << 20  # steps of bytes that break ties between plans of equally many moves
_ARCS = 3_000_000  # of a network without hubs
_TOPIC_CELLS = 20_000_000  # topics x brokers that are counted to spread topics
_PRICED = 6  # prices tried for a budget
_PURE = ("bytes", "moves")  # what a budget is of
_FINE = 64  # what one of it costs, as a replica outside the bounds may cost less
# Of a partition that loses replicas, what it costs more to keep than another: soft, and all far below a move.
_TOGETHER, _FOLLOWER, _DEAD = 4, 16, 64
_FARTHEST = 3  # what a replica far outside the bounds costs more than one just outside
_STAND_IN = 7  # what a move to the broker that is to take over costs less than another


@dataclass(frozen=True)
class Bounds:
    """Replicas that each broker should hold at least and at most (int64, n), and what forces them apart, in words.

    part: int64 (n), brokers that together must hold totals[part]; None = there are no such totals.
    """

    lo: Ints
    hi: Ints
    forced: tuple[str, ...] = ()
    part: Ints | None = None
    totals: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Task:
    """What stays the same while prices change. now: int32 (r), see _stand_ins; base: int64 (n), fixed replicas."""

    problem: Problem
    rules: Rules
    bounds: Bounds
    now: Places
    base: Ints
    net: _Network


@dataclass(frozen=True)
class _Lists:
    """Replica lists, what no others can undercut by the flow's proof, and whether they reach it but for rounding."""

    offsets: Ints
    replicas: Places
    bound: float
    unit: float
    attained: bool


# ---- the counts to reach


def even_bounds(problem: Problem, rules: Rules) -> Bounds:
    """Counts as even as racks, fixed partitions and capacity allow.

    Everybody gets the floor or the ceiling of the mean. Where some brokers cannot be given that much, they get what
    they can, evenly, and the others share the rest; then the same among these (decomposition of a base polytope).
    """
    shares = shares_of(problem, rules, True)
    chain = [np.flatnonzero(rules.receives)]
    totals = [int(shares.base[chain[0]].sum()) + shares.free]
    while True:
        lo, hi = np.zeros_like(shares.base), np.zeros_like(shares.base)
        levels = []
        for group, total in zip(chain, totals, strict=True):
            lo[group], hi[group], level = _level(total, shares.base[group], shares.top[group])
            levels.append(level)
        short = _short(shares, lo, hi)
        split = [] if short is None else _split(shares, chain, totals, lo, hi, short)
        if len(split) <= len(chain):
            break
        chain = split
        ends = [_reach(shares, np.concatenate(chain[: i + 1])) for i in range(len(chain) - 1)] + [sum(totals)]
        totals = [int(total) for total in np.diff([0, *ends])]
    others = ~rules.receives & ~rules.must_leave
    held = np.bincount(problem.replicas, minlength=problem.brokers)
    hi[others] = held[others]
    # Between groups of one floor it does not matter who has the ceiling.
    names, part_of = np.unique(levels, return_inverse=True)
    part = np.zeros(problem.brokers, dtype=np.int64)
    for group, name in zip(chain, part_of, strict=True):
        part[group] = name
    sums = np.bincount(part_of, totals, len(names)).astype(np.int64)
    return Bounds(lo, hi, _forced(problem, chain, totals), part, tuple(sums.tolist()))


def _reach(shares: Shares, places: Ints) -> int:
    """The most that these brokers can hold together."""
    limit = np.zeros_like(shares.base)
    limit[places] = (shares.top - shares.base)[places]
    return int(shares.base[places].sum()) + shares.most(limit)[0]


def _short(shares: Shares, lo: Ints, hi: Ints) -> Flags | None:
    """Brokers (bool, n) that together cannot be given what the bounds want of them; None = the bounds can be kept."""
    for limit, all_of in ((lo, False), (hi, True)):
        room = np.where(shares.receives, limit - shares.base, 0)
        fits, full = shares.most(room)
        if fits < (shares.free if all_of else int(room.sum())):
            return shares.receives & ~full
    return None


def _split(shares: Shares, chain: list[Ints], totals: list[int], lo: Ints, hi: Ints, short: Flags) -> list[Ints]:
    """The chain, where each group that wants too much for its short brokers is cut in two, these first."""
    out: list[Ints] = []
    for i, group in enumerate(chain):
        low, rest = group[short[group]], group[~short[group]]
        before = np.concatenate([*chain[:i], low])
        wants = max(int(lo[low].sum()), totals[i] - int(hi[rest].sum()))
        cut = len(low) > 0 and len(rest) > 0 and _reach(shares, before) - sum(totals[:i]) < wants
        out += [low, rest] if cut else [group]
    return out


def _level(total: int, base: Ints, top: Ints) -> tuple[Ints, Ints, int]:
    """The most even counts between base and top of this total: floors, ceilings, and the floor of those in between."""
    low, high = 0, int(top.max(initial=0))
    while low < high:
        middle = (low + high + 1) // 2
        if int(np.clip(middle, base, top).sum()) <= total:
            low = middle
        else:
            high = middle - 1
    floor: Ints = np.clip(low, base, top).astype(np.int64)
    if int(floor.sum()) == total:
        return floor, floor, low
    return floor, np.clip(low + 1, base, top).astype(np.int64), low


def _forced(problem: Problem, chain: list[Ints], totals: list[int]) -> tuple[str, ...]:
    if len(chain) < 2:
        return ()
    mean = sum(totals) / max(sum(len(group) for group in chain), 1)
    out = []
    for group, total in zip(chain, totals, strict=True):
        each = total / len(group)
        if abs(each - mean) < 1:
            continue
        verb = "must" if each > mean else "can only"
        words = f"hold {total} of {sum(totals)} replicas, {each:.0f} each where the mean is {mean:.0f}"
        out.append(f"{_who(problem, group)} {verb} {words}")
    return tuple(out)


def _who(problem: Problem, places: Ints) -> str:
    racks = np.unique(problem.rack[places])
    ids = problem.ids(places)
    if problem.rack_names and all(rack < len(problem.rack_names) for rack in racks) and len(racks) <= 4:
        names = ", ".join(problem.rack_names[rack] for rack in racks)
        return f"{'rack' if len(racks) == 1 else 'racks'} {names}: {len(ids)} of {problem.brokers} brokers"
    return "brokers " + ", ".join(map(str, ids[:8])) + (f" and {len(ids) - 8} more" if len(ids) > 8 else "")


# ---- the network


@compiled
def _stand_ins(
    fixed: Flags,
    cap: Ints,
    offsets: Ints,
    replicas: Places,
    rack: Places,
    must_leave: Flags,
    instead: Places,
    now: Places,
) -> None:
    """Fill now (r): the broker that may hold each replica for no further price, itself or a stand-in; -1 = none."""
    for row in range(len(offsets) - 1):
        begin, end = offsets[row], offsets[row + 1]
        for at in range(begin, end):
            now[at] = replicas[at] if fixed[row] or not must_leave[replicas[at]] else -1
        for at in range(begin, end):
            other = instead[replicas[at]]
            if now[at] >= 0 or other < 0:
                continue
            there = 0
            for k in range(begin, end):
                if now[k] == other or replicas[k] == other:
                    there = cap[row]
                elif now[k] >= 0 and rack[now[k]] == rack[other]:
                    there += 1
            if there < cap[row]:
                now[at] = other


@dataclass(frozen=True)
class _Network:
    """Arcs, in groups: partition -> its replicas' racks, -> replicas there, -> hubs (or brokers), hubs -> brokers.

    rows: int64 (a), partitions that are free.   at: int64, the replica of each keeping arc.
    keep, go, out: arcs of a group.   to_row, to_place: int64, of each arc of `go`, a rack or a broker.
    stand_ins, stand_in_rows: int64, keeping arcs that are moves all the same, and whose.   extra: int64, soft costs.
    hops: brokers or hubs that one step of the flow can change moves at.
    """

    rows: Ints
    at: Ints
    tail: Ints
    head: Ints
    capacity: Ints
    extra: Ints
    keep: slice
    stand_ins: Ints
    stand_in_rows: Ints
    go: slice
    to_row: Ints
    to_place: Ints
    out: slice
    first_broker: int
    hops: int
    hubs: bool


def _unlimited(rules: Rules) -> bool:
    return bool((rules.max_replicas > int(rules.factor.sum())).all())


def _network(problem: Problem, rules: Rules, now: Places, hubs: bool, rows: Ints) -> _Network:
    """The network of some partitions, with hubs, or from each partition to each broker."""
    racks = int(problem.rack.max(initial=0)) + 1
    takers = np.flatnonzero(rules.receives)
    in_rack = np.bincount(problem.rack[takers], minlength=racks)
    place = np.full(problem.partitions, -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    at = np.flatnonzero((now >= 0) & (place[problem.row] >= 0))
    held = now[at].astype(np.int64)
    held_cell = place[problem.row[at]] * racks + problem.rack[held]
    holds = np.bincount(held_cell, minlength=len(rows) * racks)
    wanted = np.ones(len(rows) * racks, dtype=np.bool_) if not hubs else holds > 0
    cells = np.flatnonzero(wanted & ((holds > 0) | np.tile(in_rack > 0, len(rows))))
    number = np.full(len(rows) * racks, -1, dtype=np.int64)
    number[cells] = np.arange(len(cells))
    first_hub = len(rows) + len(cells)
    first_broker = first_hub + (racks if hubs else 0)

    cap = rules.cap[rows]
    # Who can keep as many as wanted moves none, if counts come second and nobody is too full.
    needs = np.minimum(holds.reshape(-1, racks), cap[:, None]).sum(axis=1) < rules.factor[rows]
    needs |= rules.even or not _unlimited(rules)
    room = np.minimum(np.minimum(cap, rules.factor[rows])[cells // racks], (holds + np.tile(in_rack, len(rows)))[cells])
    # Partitions whose factor changes rather use another rack than the same again.
    spread = (rules.factor != problem.factor)[rows][cells // racks] & (room > 1) & (not rules.even)
    again = np.flatnonzero(spread)
    # Where all may stay and nothing goes, a rack is no limit: straight to the brokers.
    slack = ~needs[cells // racks] & (room >= holds[cells]) & ~spread
    keep_tail = np.where(slack[number[held_cell]], place[problem.row[at]], len(rows) + number[held_cell])
    tight = np.flatnonzero(~slack)
    groups: list[tuple[npt.NDArray[np.integer], ...]] = [
        (cells[tight] // racks, len(rows) + tight, np.where(spread, 1, room)[tight], np.zeros(len(tight), np.int64)),
        (cells[again] // racks, len(rows) + again, room[again] - 1, np.full(len(again), _TOGETHER)),
        (keep_tail, first_broker + held, np.ones(len(at), np.int64), _dear(problem, rules, at)),
    ]
    if hubs:
        inside = np.flatnonzero(needs[cells // racks] & (in_rack[cells % racks] > 0))
        go_row, go_place = cells[inside] // racks, cells[inside] % racks
        direct = np.flatnonzero((holds == 0) & np.tile(in_rack > 0, len(rows)) & np.repeat(needs, racks))
        go_tail = np.concatenate([len(rows) + inside, direct // racks])
        go_row = np.concatenate([go_row, direct // racks])
        go_place = np.concatenate([go_place, direct % racks])
        go_head = first_hub + go_place
        go_room = np.minimum(np.minimum(cap, rules.factor[rows])[go_row], in_rack[go_place])
    else:
        go_row, go_place = np.repeat(np.arange(len(rows)), len(takers)), np.tile(takers, len(rows))
        own = np.isin(go_row * problem.brokers + go_place, place[problem.row[at]] * problem.brokers + held)
        go_row, go_place = go_row[~own & needs[go_row]], go_place[~own & needs[go_row]]
        go_tail = len(rows) + number[go_row * racks + problem.rack[go_place]]
        go_head = first_broker + go_place
        go_room = np.ones(len(go_row), np.int64)
    groups.append((go_tail, go_head, go_room, np.zeros(len(go_tail), np.int64)))
    many = np.full(len(takers), int(rules.factor[rows].sum()))
    if hubs:
        groups.append((first_hub + problem.rack[takers], first_broker + takers, many, np.zeros(len(takers), np.int64)))
    tail, head, capacity, extra = (np.concatenate([g[i] for g in groups]).astype(np.int64) for i in range(4))
    ends = np.cumsum([len(g[0]) for g in groups])
    keep, go, out = slice(ends[1], ends[2]), slice(ends[2], ends[3]), slice(ends[3], len(tail))
    stood = np.flatnonzero(now[at] != problem.replicas[at])
    stand_ins = (ends[1] + stood, place[problem.row[at[stood]]])
    hops = racks if hubs else problem.brokers
    return _Network(
        rows, at, tail, head, capacity, extra, keep, *stand_ins, go, go_row, go_place, out, first_broker, hops, hubs
    )


def _dear(problem: Problem, rules: Rules, at: Ints) -> Ints:
    """What it costs to keep each of these replicas, softly: only partitions that lose some choose among them."""
    row = problem.row[at]
    dear = np.where(at > problem.offsets[row], _FOLLOWER, 0) + np.where(problem.living[problem.replicas[at]], 0, _DEAD)
    return np.where(rules.factor[row] < problem.factor[row], dear, 0)


@dataclass(frozen=True)
class _Prices:
    """cost: int64 (a), of a moved replica of each partition; astray: of a replica outside the bounds.

    units: int64 (a), what a move adds to what is minimised, each `unit` bytes, or a move.
    soft: whether it matters which replica is kept, where several could be.
    """

    cost: Ints
    units: Ints
    unit: float
    astray: int
    soft: bool


def _prices(problem: Problem, rules: Rules, net: _Network, objective: str, moves_first: bool) -> _Prices:
    """Prices that put one aim before the next: a step of the flow changes at most 2 x hops moves, and two counts.

    Where moves come first and brokers have no limits, each partition moves what it must, and size decides nothing.
    """
    size = problem.size[net.rows] if objective != "moves" else np.zeros(len(net.rows))
    below = 1
    if moves_first:  # counts, and which replica is kept, are worth less than any move
        softest = int(net.extra.max(initial=0)) + (_STAND_IN if len(net.stand_ins) else 0)
        below = 2 * _FARTHEST + 1 + softest * 2 * (problem.brokers + net.hops)
    unit = _step(size)
    if objective == "min-moves":
        unit *= max(1.0, 2.0 ** np.ceil(np.log2(max(float(size.max(initial=0)) / unit, 1.0) / _COARSEST)))
    while True:
        steps = np.floor(size / unit).astype(np.int64)
        if moves_first and _unlimited(rules):
            cost = np.ones_like(steps)
        elif objective in _PURE:
            cost = (np.ones_like(steps) if objective == "moves" else steps) * _FINE
        elif objective == "min-bytes":
            cost = steps * (2 * net.hops + 1) + 1
        else:
            cost = steps + net.hops * int(steps.max(initial=0)) + 1
        cost = cost * below
        astray = 1 if moves_first else 2 * net.hops * int(cost.max(initial=1)) + 1
        if max(astray, int(cost.max(initial=1))) * (net.first_broker + problem.brokers + 2) < _LARGEST:
            break
        unit *= 2
    if objective in ("min-bytes", "bytes"):
        return _Prices(cost, steps, unit, astray, moves_first)
    return _Prices(cost, np.ones_like(steps), 1.0, astray, moves_first)


def _outside(prices: _Prices, hi: Ints) -> list[tuple[int, int]]:
    """(how many replicas, price of each) outside the bounds, dearer the farther where that is only a wish."""
    endless = int(_LARGEST)
    if not prices.soft:
        return [(endless, prices.astray)]
    width = max(1, int(hi.max(initial=0)) // 20)
    return [(width, prices.astray), (width, 2 * prices.astray), (endless, _FARTHEST * prices.astray)]


def _step(size: Floats) -> float:
    """The bytes that all sizes are multiples of; 1 if there are none."""
    whole = size.astype(np.int64)
    return float(np.gcd.reduce(whole)) if len(whole) and whole.any() and (whole == size).all() else 1.0


def _solve(task: _Task, prices: _Prices, hard: bool) -> Ints | None:
    """The cheapest flow (int64, arcs of the network), or None if the bounds are hard and cannot be kept."""
    net, rules, n = task.net, task.rules, task.problem.brokers
    sink = net.first_broker + n
    lo, hi = np.maximum(task.bounds.lo - task.base, 0), np.maximum(task.bounds.hi - task.base, 0)
    hi = np.maximum(np.where(rules.must_leave, 0, hi), lo)
    brokers = net.first_broker + np.arange(n)
    cost = net.extra.copy() if prices.soft else np.zeros_like(net.extra)
    cost[net.go] += prices.cost[net.to_row]
    cost[net.stand_ins] += prices.cost[net.stand_in_rows] - _STAND_IN
    supply = np.zeros(sink + 1, dtype=np.int64)
    part = np.zeros(n, dtype=np.int64)
    if hard and task.bounds.part is not None and len(task.bounds.totals) > 1:
        # A sink for each part of the brokers; those that get nothing send what they keep to the last.
        parts_of = len(task.bounds.totals)
        part = np.where(rules.receives, task.bounds.part, parts_of - 1)
        supply = np.zeros(sink + parts_of, dtype=np.int64)
        mine = rules.receives
        taken = np.bincount(part[mine], (task.base + lo)[mine], parts_of).astype(np.int64)
        supply[sink:] = taken - np.asarray(task.bounds.totals)
        supply[-1] = 0
    supply[: len(net.rows)] = rules.factor[net.rows]
    supply[brokers] = -lo
    supply[-1] = -int(supply.sum())
    parts = [(net.tail, net.head, net.capacity, cost), (brokers, sink + part, hi - lo, np.zeros(n, np.int64))]
    if not hard:
        held = 0 if rules.even else np.bincount(task.problem.replicas, minlength=n)
        most = np.maximum(rules.max_replicas, held)
        more = np.where(rules.receives, np.maximum(most - task.base - hi, 0), 0)
        for width, price in _outside(prices, hi):
            some_more, some_less = np.minimum(more, width), np.minimum(lo, width)
            price_of = np.full(n, price)
            parts += [
                (brokers, np.full(n, sink), some_more, price_of),
                (np.full(n, sink), brokers, some_less, price_of),
            ]
            more, lo = more - some_more, lo - some_less
    solver = min_cost_flow.SimpleMinCostFlow()
    arcs = solver.add_arcs_with_capacity_and_unit_cost(
        *(np.concatenate([part[i] for part in parts]).astype(np.int64) for i in range(4))
    )
    solver.set_nodes_supplies(np.arange(len(supply)), supply)
    status = solver.solve()
    if status == solver.INFEASIBLE:
        return None
    if status != solver.OPTIMAL:
        raise ArithmeticError(f"a flow over {len(arcs)} arcs was not solved: {status}")
    return np.asarray(solver.flows(arcs[: len(net.tail)]), dtype=np.int64)


# ---- from flows to lists


@compiled
def _holds(row: int, broker: int, offsets: Ints, now: Places, kept: Flags) -> bool:
    found = False
    for at in range(offsets[row], offsets[row + 1]):
        found |= kept[at] and now[at] == broker
    return found


@compiled
def _settle(
    unit_row: Ints,
    unit_rack: Ints,
    first: Ints,
    offsets: Ints,
    now: Places,
    kept: Flags,
    rack: Places,
    topic: Places,
    weight: Floats,
    quota: Ints,
    load: Floats,
    most: Floats,
    of_topic: npt.NDArray[np.float32],
    broker: Ints,
) -> None:
    """Fill broker (u): who in its rack takes each unit; -1 = nobody can. Units come by rack, and by partition in it.

    Each goes to the broker that holds least, where what is of its topic counts once more. If all that have room hold
    the partition already, one of them takes another unit of the rack from a broker that can have this one.
    first: int64 (racks + 1), of each rack's units.
    """
    by_topic = len(of_topic) > 0
    for u in range(len(unit_row)):
        row, r = unit_row[u], unit_rack[u]
        best, best_score, best_fits = -1, 0.0, False
        for b in range(len(quota)):
            if rack[b] != r or quota[b] == 0 or _holds(row, b, offsets, now, kept):
                continue
            k = u - 1
            while k >= first[r] and unit_row[k] == row and broker[k] != b:
                k -= 1
            if k >= first[r] and unit_row[k] == row:
                continue
            fits = load[b] + weight[row] <= most[b]
            score = load[b] + (of_topic[topic[row], b] if by_topic else 0.0)
            if best < 0 or (fits and not best_fits) or (fits == best_fits and score < best_score):
                best, best_score, best_fits = b, score, fits
        broker[u] = best
        if best < 0:
            for x in range(len(quota)):
                if rack[x] != r or quota[x] == 0:
                    continue
                for v in range(u - 1, first[r] - 1, -1):  # small ones first: they came last
                    y, other = broker[v], unit_row[v]
                    if (
                        y < 0
                        or other == row
                        or _holds(other, x, offsets, now, kept)
                        or _holds(row, y, offsets, now, kept)
                    ):
                        continue
                    clash = False
                    for k in range(first[r], u):
                        if (unit_row[k] == other and broker[k] == x) or (unit_row[k] == row and broker[k] == y):
                            clash = True
                            break
                    if clash:
                        continue
                    broker[v], broker[u] = x, y
                    load[x] += weight[other]
                    load[y] -= weight[other]
                    if by_topic:
                        of_topic[topic[other], x] += weight[other]
                        of_topic[topic[other], y] -= weight[other]
                    quota[y] += 1
                    break
                if broker[u] >= 0:
                    quota[x] -= 1
                    quota[broker[u]] -= 1
                    best = broker[u]
                    break
        else:
            quota[best] -= 1
        if best >= 0:
            load[best] += weight[row]
            if by_topic:
                of_topic[topic[row], best] += weight[row]


@compiled
def _write(
    offsets: Ints, now: Places, kept: Flags, new_offsets: Ints, new: Ints, living: Flags, out_offsets: Ints, out: Places
) -> None:
    """Fill out: what stays in its order; what is new takes the places of what left, and leads only if nothing stays.

    A stand-in has the very place of the broker that it stands in for.
    kept: bool (r), of now.   new_offsets: int64 (p + 1), new: what each partition gets beside.
    """
    for row in range(len(offsets) - 1):
        begin, end = offsets[row], offsets[row + 1]
        fresh, to = new_offsets[row], out_offsets[row]
        in_place = begin < end and kept[begin]
        for at in range(begin, end):
            if kept[at]:
                out[to] = now[at]
                to += 1
            elif in_place and fresh < new_offsets[row + 1]:
                out[to] = new[fresh]
                fresh += 1
                to += 1
        while fresh < new_offsets[row + 1]:
            out[to] = new[fresh]
            fresh += 1
            to += 1
        if to > out_offsets[row] and not living[out[out_offsets[row]]]:
            for k in range(out_offsets[row] + 1, to):  # a dead broker cannot lead
                if living[out[k]]:
                    chosen = out[k]
                    for j in range(k, out_offsets[row], -1):
                        out[j] = out[j - 1]
                    out[out_offsets[row]] = chosen
                    break


def _decode(task: _Task, flow: Ints) -> tuple[Ints, Places, Ints]:
    """(offsets, replicas, partitions that found no place for a unit), of a flow."""
    problem, net = task.problem, task.net
    free = np.zeros(problem.partitions, dtype=np.bool_)
    free[net.rows] = True
    kept = ~free[problem.row]
    kept[net.at] = flow[net.keep] > 0
    used = flow[net.go]
    row, place = np.repeat(net.rows[net.to_row], used), np.repeat(net.to_place, used)
    if net.hubs:
        row, place = _brokers_of_units(task, kept, row, place, flow)
    lost = np.unique(row[place < 0])
    order = np.lexsort((place, row))
    order = order[place[order] >= 0]
    row, place = row[order], place[order]
    new_offsets = offsets_of(np.bincount(row, minlength=problem.partitions))
    out_offsets = new_offsets + offsets_of(np.bincount(problem.row[kept], minlength=problem.partitions))
    out = np.empty(int(out_offsets[-1]), dtype=np.int32)
    _write(problem.offsets, task.now, kept, new_offsets, place, problem.living, out_offsets, out)
    return out_offsets, out, lost


def _brokers_of_units(task: _Task, kept: Flags, row: Ints, rack: Ints, flow: Ints) -> tuple[Ints, Ints]:
    """(row, broker) of each unit that went to a hub, large ones settled first."""
    problem, rules, net, now = task.problem, task.rules, task.net, task.now
    racks = int(problem.rack.max(initial=0)) + 1
    order = np.lexsort((row, -problem.size[row], rack))
    row, rack = row[order], rack[order]
    first = np.searchsorted(rack, np.arange(racks + 1)).astype(np.int64)
    quota = np.zeros(problem.brokers, dtype=np.int64)
    quota[net.head[net.out] - net.first_broker] = flow[net.out]
    weight = problem.size if problem.size.any() else np.ones(problem.partitions)
    stays, of = now[kept], problem.row[kept]
    load = np.bincount(stays, weight[of], problem.brokers).astype(np.float64)
    cells = len(problem.topic_names) * problem.brokers
    of_topic = np.zeros((0, 0), dtype=np.float32)
    if cells <= _TOPIC_CELLS:
        cell = problem.topic[of] * np.int64(problem.brokers) + stays
        of_topic = np.bincount(cell, weight[of], cells).astype(np.float32).reshape(-1, problem.brokers)
    most = rules.max_bytes if problem.size.any() else np.full(problem.brokers, np.inf)
    broker = np.full(len(row), -1, dtype=np.int64)
    lists = (problem.offsets, now, kept, problem.rack, problem.topic)
    _settle(row, rack, first, *lists, weight, quota, load, most, of_topic, broker)
    return row, broker


def _merged(problem: Problem, of: _Lists | Problem, other: _Lists | Problem, use: Flags) -> tuple[Ints, Places]:
    """(offsets, replicas): the lists of `other` where `use` (bool, p) says so, else of `of`."""
    flat = np.concatenate([of.replicas, other.replicas])
    offsets = np.concatenate([of.offsets, of.offsets[-1] + other.offsets[1:]])
    out, out_offsets = take_segments(
        flat, offsets, np.arange(problem.partitions) + np.where(use, problem.partitions, 0)
    )
    return out_offsets, out.astype(np.int32)


def _task(problem: Problem, rules: Rules, bounds: Bounds, rows: Ints, hubs: bool) -> _Task:
    now = np.empty_like(problem.replicas)
    lists = (problem.offsets, problem.replicas, problem.rack)
    _stand_ins(rules.fixed, rules.cap, *lists, rules.must_leave, rules.instead, now)
    base = np.bincount(problem.replicas[rules.fixed[problem.row]], minlength=problem.brokers).astype(np.int64)
    return _Task(problem, rules, bounds, now, base, _network(problem, rules, now, hubs, rows))


def _lists(task: _Task, objective: str, moves_first: bool, price: int | None = None) -> _Lists:
    """The cheapest lists: counts within the bounds or as near as can be, or moves first, or counts at a price each."""
    problem, rules = task.problem, task.rules
    prices = _prices(problem, rules, task.net, objective, moves_first)
    if price is not None:
        prices = replace(prices, astray=min(price, prices.astray))
    flow = _solve(task, prices, hard=True) if price is None and not moves_first else None
    if flow is None:
        flow = _solve(task, prices, hard=False)
    if flow is None:
        raise Infeasible(["the rules contradict one another"])
    net = task.net
    units = int(flow[net.go] @ prices.units[net.to_row]) + int(flow[net.stand_ins] @ prices.units[net.stand_in_rows])
    bound = units * prices.unit
    offsets, replicas, lost = _decode(task, flow)
    found = _Lists(offsets, replicas, bound, prices.unit, True)
    if not len(lost):
        return found
    if len(task.net.rows) * problem.brokers > _ARCS:
        some_left = _given_places(task, found, lost, objective)
        if some_left is not None:
            return some_left
    full = _task(problem, rules, task.bounds, task.net.rows, hubs=False)
    return _lists(full, objective, moves_first, price)


def _given_places(task: _Task, found: _Lists, lost: Ints, objective: str) -> _Lists | None:
    """`found`, where the lost partitions go from broker to broker while all others stay; None if they cannot."""
    problem = task.problem
    again = np.zeros(problem.partitions, dtype=np.bool_)
    again[lost] = True
    rest = problem.placed(*_merged(problem, found, problem, again))
    few = _task(rest, replace(task.rules, fixed=~again), task.bounds, lost, hubs=False)
    try:
        last = _lists(few, objective, True)
    except Infeasible:
        return None
    return _Lists(last.offsets, last.replicas, found.bound, found.unit, False)


# ---- plans


def move_by_counts(
    problem: Problem, rules: Rules, lo: Ints | None = None, hi: Ints | None = None, objective: str = "min-bytes"
) -> Draft:
    """Replica lists that keep to the rules, with counts between lo and hi (int64, n; None = as even as can be).

    Of all of these they move the fewest bytes, and of those the fewest replicas; with min-moves the other way round.
    Goals that are not about counts move only what they must, and even out counts with that. Infeasible if nothing does.
    """
    if objective not in OBJECTIVES:
        raise ValueError(f"objective {objective!r}: must be one of {', '.join(OBJECTIVES)}")
    against = reasons_against(problem, rules)
    if against:
        raise Infeasible(against)
    bounds = even_bounds(problem, rules)
    if lo is not None or hi is not None:
        bounds = Bounds(
            bounds.lo if lo is None else lo, np.minimum(bounds.hi if hi is None else hi, rules.max_replicas)
        )
    if not problem.size.any():
        objective = "min-moves"
    if rules.fixed.all():
        lists = _Lists(problem.offsets, problem.replicas, 0.0, 1.0, True)
        return _draft(problem, rules, bounds, lists, objective, {})
    alone = np.bincount(problem.rack).max() <= 1  # a rack of one broker asks for nothing more than distinct brokers
    flat = replace(problem, rack=np.zeros_like(problem.rack)) if alone else problem
    same = replace(rules, cap=rules.factor) if alone else rules
    task = _task(flat, same, bounds, np.flatnonzero(~rules.fixed), hubs=True)
    lists = _lists(task, objective, not rules.even)
    about: dict[str, Any] = {}
    if _exceeds(problem, rules, lists):
        lists, about = _within_budget(task, lists, objective)
    return _draft(problem, rules, bounds, lists, objective, about)


def _spent(problem: Problem, lists: _Lists) -> tuple[Ints, Floats]:
    """(moves: int64 (p), bytes: float64 (p)) of each partition."""
    new = count_true(moved(problem, lists.offsets, lists.replicas), lists.offsets)
    return new, new * problem.size


def _exceeds(problem: Problem, rules: Rules, lists: _Lists) -> bool:
    moves, size = _spent(problem, lists)
    over_bytes = rules.byte_budget is not None and float(size.sum()) > rules.byte_budget
    return over_bytes or (rules.move_budget is not None and int(moves.sum()) > rules.move_budget)


def _astray(task: _Task, lists: _Lists) -> Ints:
    """Replicas of each broker outside its bounds: int64 (n), more than zero for too many."""
    counts = np.bincount(lists.replicas, minlength=task.problem.brokers)
    over = np.maximum(counts - task.bounds.hi, 0) - np.maximum(task.bounds.lo - counts, 0)
    return np.where(task.rules.receives, over, 0)


@compiled
def _toward(
    order: Ints,
    from_offsets: Ints,
    from_replicas: Places,
    to_offsets: Ints,
    to_replicas: Places,
    moves: Ints,
    size: Floats,
    moves_left: int,
    bytes_left: float,
    lo: Ints,
    hi: Ints,
    counts: Ints,
    use: Flags,
) -> None:
    """Fill use (p): whose list changes, taken in order again and again while that brings counts nearer their bounds."""
    again = True
    while again:
        again = False
        for row in order:
            if use[row] or moves[row] > moves_left or size[row] > bytes_left:
                continue
            for turn in range(2):  # there, and back if it did no good
                gain = 0
                sign = 1 - 2 * turn
                for at in range(from_offsets[row], from_offsets[row + 1]):
                    b = from_replicas[at]
                    before = max(counts[b] - hi[b], 0) + max(lo[b] - counts[b], 0)
                    counts[b] -= sign
                    gain += before - max(counts[b] - hi[b], 0) - max(lo[b] - counts[b], 0)
                for at in range(to_offsets[row], to_offsets[row + 1]):
                    b = to_replicas[at]
                    before = max(counts[b] - hi[b], 0) + max(lo[b] - counts[b], 0)
                    counts[b] += sign
                    gain += before - max(counts[b] - hi[b], 0) - max(lo[b] - counts[b], 0)
                if turn == 0 and gain > 0:
                    use[row] = again = True
                    moves_left -= moves[row]
                    bytes_left -= size[row]
                    break


def _within_budget(task: _Task, full: _Lists, objective: str) -> tuple[_Lists, dict[str, Any]]:
    """The best lists that the budget pays for, and what the certificate says of them.

    What must move comes first; if not even that fits, the smallest. Then a replica outside the bounds is given a
    price: each price has its cheapest plan, and proves how many replicas any plan of that cost leaves outside.
    """
    problem, rules = task.problem, task.rules
    least = _lists(task, objective, True)
    if _exceeds(problem, rules, least):
        return _smallest_first(task, least)
    over_bytes = rules.byte_budget is not None and float(_spent(problem, full)[1].sum()) > rules.byte_budget
    kind = "bytes" if over_bytes else "moves"
    prices = _prices(problem, rules, task.net, kind, False)
    cost = np.zeros(problem.partitions, dtype=np.int64)
    cost[task.net.rows] = prices.cost

    def total(lists: _Lists) -> int:
        return int(_spent(problem, lists)[0] @ cost)

    def outside(lists: _Lists) -> int:
        return int(np.abs(_astray(task, lists)).sum())

    most = _FINE * ((rules.byte_budget or 0.0) / prices.unit if over_bytes else float(rules.move_budget or 0))
    low, high, bound = least, full, outside(full)
    for _ in range(_PRICED if len(task.net.tail) < _ARCS // 4 else _PRICED // 2):
        apart = outside(low) - outside(high)
        if apart <= 0 or total(high) <= total(low):
            break
        price = min(max((total(high) - total(low)) // apart, 1), prices.astray)
        middle = _lists(task, kind, False, price)
        value = total(middle) + price * outside(middle)
        if middle.attained:
            bound = max(bound, int(np.ceil((value - most) / price - 1e-9)))
        if value >= total(low) + price * outside(low) - price:
            break
        low, high = (low, middle) if _exceeds(problem, rules, middle) else (middle, high)
    low = _filled_up(task, low, high)
    words = f"the budget leaves {outside(low)} replicas outside even counts; no plan within it leaves under {bound}"
    about = {"objective": "fewest replicas outside even counts within the budget", "value": outside(low)}
    return low, {**about, "lower_bound": bound, "gap": outside(low) - bound, "missed": [words]}


def _filled_up(task: _Task, low: _Lists, high: _Lists) -> _Lists:
    """`low`, with as many partitions as in `high` as the rest of the budget pays for and counts gain by."""
    problem, rules = task.problem, task.rules
    (low_moves, low_size), (high_moves, high_size) = _spent(problem, low), _spent(problem, high)
    moves, size = high_moves - low_moves, high_size - low_size
    differs = changed(problem.placed(low.offsets, low.replicas), high.offsets, high.replicas)
    order = np.flatnonzero(differs)
    order = order[np.lexsort((order, size[order]))]
    moves_left = int(moves.sum()) if rules.move_budget is None else rules.move_budget - int(low_moves.sum())
    bytes_left = np.inf if rules.byte_budget is None else rules.byte_budget - float(low_size.sum())
    use = np.zeros(problem.partitions, dtype=np.bool_)
    counts = np.bincount(low.replicas, minlength=problem.brokers).astype(np.int64)
    lists = (low.offsets, low.replicas, high.offsets, high.replicas)
    left = (max(moves_left, 0), bytes_left)
    _toward(order, *lists, moves, size, *left, task.bounds.lo, task.bounds.hi, counts, use)
    offsets, replicas = _merged(problem, low, high, use)
    return _Lists(offsets, replicas, low.bound, low.unit, False)


def _smallest_first(task: _Task, least: _Lists) -> tuple[_Lists, dict[str, Any]]:
    problem, rules = task.problem, task.rules
    moves, size = _spent(problem, least)
    pays = (
        (size, np.inf if rules.byte_budget is None else rules.byte_budget),
        (moves, np.inf if rules.move_budget is None else rules.move_budget),
    )
    by_size = rules.byte_budget is not None and float(size.sum()) > rules.byte_budget
    order = np.lexsort((moves, size) if by_size else (size, moves))
    fits = np.logical_and.reduce([np.cumsum(spent[order]) <= budget for spent, budget in pays])
    use = np.zeros(problem.partitions, dtype=np.bool_)
    use[order[fits]] = True
    offsets, replicas = _merged(problem, problem, least, use)
    left = np.flatnonzero(~use)
    # Of each budget alone, no other choice pays for more partitions.
    bound = max(int((np.cumsum(np.sort(spent)) > budget).sum()) for spent, budget in pays)
    lacks = f"{size[left].sum():.0f} bytes, {moves[left].sum()} moves"
    words = f"the budget does not pay for {some(problem, left)}: {lacks}"
    about = {"objective": "fewest partitions left within the budget", "value": len(left), "lower_bound": bound}
    missed = {"gap": len(left) - bound, "missed": [words]}
    return _Lists(offsets, replicas, least.bound, least.unit, False), {**about, **missed}


def _draft(
    problem: Problem, rules: Rules, bounds: Bounds, lists: _Lists, objective: str, about: dict[str, Any]
) -> Draft:
    moves, size = _spent(problem, lists)
    value = float(size.sum()) if objective == "min-bytes" else int(moves.sum())
    bound = lists.bound if objective == "min-bytes" else round(lists.bound)
    counts = np.bincount(lists.replicas, minlength=problem.brokers)
    certificate: dict[str, Any] = {
        "objective": objective,
        "value": value,
        "lower_bound": min(bound, value),
        "gap": max(value - bound, 0),
        "attained": lists.attained,
        "step_bytes": lists.unit,
        "moves": int(moves.sum()),
        "moves_lower_bound": _fewest_moves(problem, rules, bounds),
        "bytes": float(size.sum()),
        "replicas_min": int(counts[rules.receives].min(initial=counts.max(initial=0))),
        "replicas_max": int(counts[rules.receives].max(initial=0)),
        "relaxed": list(bounds.forced) if rules.even else [],
        **about,
    }
    certificate["missed"] = [*about.get("missed", []), *_missed(problem, rules, bounds, lists, counts)]
    why = np.where(changed(problem, lists.offsets, lists.replicas), _why(problem, rules, lists), -1)
    return Draft(lists.offsets, lists.replicas, why.astype(np.int16), REASONS, certificate)


def _fewest_moves(problem: Problem, rules: Rules, bounds: Bounds) -> int:
    """Moves that any plan needs: replicas that leave or are over, brokers that lack some, partitions that do."""
    stays = ~rules.must_leave[problem.replicas] | rules.fixed[problem.row]
    racks = int(problem.rack.max(initial=0)) + 1
    cells, there = np.unique((problem.row * racks + problem.rack[problem.replicas])[stays], return_counts=True)
    row = cells // racks
    there = np.where(rules.fixed[row], there, np.minimum(there, rules.cap[row]))
    have = np.bincount(row, there, problem.partitions).astype(np.int64)
    bound = int(np.maximum(rules.factor - have, 0).sum())
    if not rules.even:
        return bound
    counts = np.bincount(problem.replicas[stays], minlength=problem.brokers)
    under = int(np.maximum(bounds.lo - counts, 0)[rules.receives].sum())
    return max(bound, under, int(rules.factor.sum() - np.minimum(counts, bounds.hi).sum()))


def _missed(problem: Problem, rules: Rules, bounds: Bounds, lists: _Lists, counts: Ints) -> list[str]:
    """What the plan does not reach, in words."""
    out = []
    for code in np.unique(problem.frozen[rules.left_out]):
        rows = np.flatnonzero(rules.left_out & (problem.frozen == code))
        out.append(f"{some(problem, rows)} cannot be changed: {FROZEN_WORDS[code]}")
    load = np.bincount(lists.replicas, problem.size[row_of(lists.offsets)], problem.brokers)
    for broker in np.flatnonzero(rules.receives & (load > rules.max_bytes)):
        words = f"holds {load[broker]:.0f} bytes of at most {rules.max_bytes[broker]:.0f}"
        out.append(f"broker {problem.broker_ids[broker]} {words}")
    stuck = np.flatnonzero(rules.must_leave & (counts > 0))
    ids = problem.ids(stuck)
    out += [f"broker {broker} still holds {left}" for broker, left in zip(ids, counts[stuck].tolist(), strict=True)]
    if not rules.even:
        return out
    for side, off in (("more than", counts - bounds.hi), ("less than", bounds.lo - counts)):
        places = np.flatnonzero(rules.receives & (off > 0))
        if len(places):
            limit = (bounds.hi if side == "more than" else bounds.lo)[places].tolist()
            wanted = f"{min(limit)}" if min(limit) == max(limit) else f"{min(limit)} to {max(limit)}"
            out.append(f"{_who_each(problem, places)}: {off[places].sum()} replicas {side} {wanted} each")
    return out


def _who_each(problem: Problem, places: Ints) -> str:
    ids = [str(broker) for broker in problem.ids(places)]
    return (
        ("broker " if len(ids) == 1 else "brokers ")
        + ", ".join(ids[:8])
        + (f" and {len(ids) - 8} more" if len(ids) > 8 else "")
    )


def _why(problem: Problem, rules: Rules, lists: _Lists) -> Ints:
    """The first of REASONS that holds for each partition: int64 (p)."""
    leaves = rules.must_leave[problem.replicas]
    empty = np.bincount(problem.replicas, minlength=problem.brokers) == 0
    return np.select(
        [
            rules.factor != problem.factor,
            any_true(leaves & ~problem.living[problem.replicas], problem.offsets),
            any_true(leaves, problem.offsets),
            over_cap(problem, rules.cap),
            any_true(empty[lists.replicas], lists.offsets),
        ],
        range(5),
        5,
    )
