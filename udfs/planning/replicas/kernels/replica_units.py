"""Replicas as units of a flow: which stay for nothing, what is free to go, who takes each, and the lists of it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from udfs.kernel_compiler import compiled, part

Ints = npt.NDArray[np.int64]
Places = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@compiled
def stand_ins(
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


@compiled
def kept_and_room(
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


@part
def _holds(row: int, broker: int, offsets: Ints, now: Places, kept: Flags) -> bool:
    found = False
    for at in range(offsets[row], offsets[row + 1]):
        found |= kept[at] and now[at] == broker
    return found


@compiled
def settle(
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
def write_lists(
    offsets: Ints, now: Places, kept: Flags, new_offsets: Ints, new: Ints, live: Flags, out_offsets: Ints, out: Places
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
        if to > out_offsets[row] and not live[out[out_offsets[row]]]:
            for k in range(out_offsets[row] + 1, to):  # a down broker cannot lead
                if live[out[k]]:
                    chosen = out[k]
                    for j in range(k, out_offsets[row], -1):
                        out[j] = out[j - 1]
                    out[out_offsets[row]] = chosen
                    break
