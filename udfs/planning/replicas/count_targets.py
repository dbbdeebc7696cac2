"""How many replicas each broker should hold: as even as racks, fixed partitions and capacity allow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from udfs.planning.cluster_model import ClusterModel, Flags, Ints
from udfs.planning.constraints import Rules
from udfs.planning.replicas.count_capacity import Shares, shares_of


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


def even_bounds(model: ClusterModel, rules: Rules) -> Bounds:
    """Counts as even as racks, fixed partitions and capacity allow.

    Everybody gets the floor or the ceiling of the mean. Where some brokers cannot be given that much, they get what
    they can, evenly, and the others share the rest; then the same among these (decomposition of a base polytope).
    """
    shares = shares_of(model, rules, True)
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
    held = np.bincount(model.replicas, minlength=model.brokers)
    hi[others] = held[others]
    # Between groups of one floor it does not matter who has the ceiling.
    names, part_of = np.unique(levels, return_inverse=True)
    part = np.zeros(model.brokers, dtype=np.int64)
    for group, name in zip(chain, part_of, strict=True):
        part[group] = name
    sums = np.bincount(part_of, totals, len(names)).astype(np.int64)
    return Bounds(lo, hi, _forced(model, chain, totals), part, tuple(sums.tolist()))


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


def _forced(model: ClusterModel, chain: list[Ints], totals: list[int]) -> tuple[str, ...]:
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
        out.append(f"{_who(model, group)} {verb} {words}")
    return tuple(out)


def _who(model: ClusterModel, places: Ints) -> str:
    racks = np.unique(model.rack[places])
    ids = model.ids(places)
    if model.rack_names and all(rack < len(model.rack_names) for rack in racks) and len(racks) <= 4:
        names = ", ".join(model.rack_names[rack] for rack in racks)
        return f"{'rack' if len(racks) == 1 else 'racks'} {names}: {len(ids)} of {model.brokers} brokers"
    return "brokers " + ", ".join(map(str, ids[:8])) + (f" and {len(ids) - 8} more" if len(ids) > 8 else "")
