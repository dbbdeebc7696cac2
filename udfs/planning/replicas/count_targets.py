"""How many replicas each broker should hold: as even as racks, fixed partitions and capacity allow."""

from dataclasses import dataclass

import numpy as np

from udfs.planning.cluster_model import ClusterModel, Flags, Ints
from udfs.planning.constraints import Rules
from udfs.planning.plan_text import describe_brokers
from udfs.planning.replicas.count_capacity import FreeReplicas, find_free_replicas


@dataclass(frozen=True)
class CountTargets:
    """Replicas that each broker should hold."""

    low: Ints  # int64 (n), at least
    high: Ints  # int64 (n), at most
    forced: tuple[str, ...] = ()  # What forces the targets of brokers apart, in words
    # int64 (n), brokers of part i together must hold totals[i]; None = there are no such totals
    part: Ints | None = None
    totals: tuple[int, ...] = ()  # Replicas of each part


def compute_count_targets(model: ClusterModel, rules: Rules) -> CountTargets:
    """Compute counts as even as racks, fixed partitions and capacity allow.

    Every broker gets the floor or the ceiling of the mean. Where some brokers cannot hold that much, they get what they
    can, evenly, and the others divide the rest; then the same among these (decomposition of a base polytope).
    """
    free = find_free_replicas(model, rules, True)
    chain = [np.flatnonzero(rules.receives)]
    totals = [int(free.base[chain[0]].sum()) + free.count]
    while True:
        low, high = np.zeros_like(free.base), np.zeros_like(free.base)
        levels = []
        for group, total in zip(chain, totals, strict=True):
            low[group], high[group], level = _even_level(total, free.base[group], free.top[group])
            levels.append(level)
        short = _find_short(free, low, high)
        split = [] if short is None else _split(free, chain, totals, low, high, short)
        if len(split) <= len(chain):
            break
        chain = split
        ends = [_most(free, np.concatenate(chain[: i + 1])) for i in range(len(chain) - 1)] + [sum(totals)]
        totals = [int(total) for total in np.diff([0, *ends])]
    others = ~rules.receives & ~rules.must_leave
    high[others] = np.bincount(model.replicas, minlength=model.brokers)[others]
    # Between groups of one floor it does not matter which has the ceiling.
    names, part_of = np.unique(levels, return_inverse=True)
    part = np.zeros(model.brokers, dtype=np.int64)
    for group, name in zip(chain, part_of, strict=True):
        part[group] = name
    sums = np.bincount(part_of, totals, len(names)).astype(np.int64)
    return CountTargets(low, high, _explain_parts(model, chain, totals), part, tuple(sums.tolist()))


def _most(free: FreeReplicas, brokers: Ints) -> int:
    """The most replicas that these brokers can hold together."""
    limit = np.zeros_like(free.base)
    limit[brokers] = (free.top - free.base)[brokers]
    return int(free.base[brokers].sum()) + free.fit(limit)[0]


def _find_short(free: FreeReplicas, low: Ints, high: Ints) -> Flags | None:
    """Find the brokers (bool, n) that together cannot hold their targets; None if all targets can be met."""
    for limit, must_fit_all in ((low, False), (high, True)):
        capacity = np.where(free.receives, limit - free.base, 0)
        fits, full = free.fit(capacity)
        if fits < (free.count if must_fit_all else int(capacity.sum())):
            return free.receives & ~full
    return None


def _split(free: FreeReplicas, chain: list[Ints], totals: list[int], low: Ints, high: Ints, short: Flags) -> list[Ints]:
    """Split each group whose short brokers have too high a target: these first, then the others."""
    groups: list[Ints] = []
    for i, group in enumerate(chain):
        limited, rest = group[short[group]], group[~short[group]]
        before = np.concatenate([*chain[:i], limited])
        needs = max(int(low[limited].sum()), totals[i] - int(high[rest].sum()))
        splits = len(limited) > 0 and len(rest) > 0 and _most(free, before) - sum(totals[:i]) < needs
        groups += [limited, rest] if splits else [group]
    return groups


def _even_level(total: int, base: Ints, top: Ints) -> tuple[Ints, Ints, int]:
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


def _explain_parts(model: ClusterModel, chain: list[Ints], totals: list[int]) -> tuple[str, ...]:
    if len(chain) < 2:
        return ()
    mean = sum(totals) / max(sum(len(group) for group in chain), 1)
    texts = []
    for group, total in zip(chain, totals, strict=True):
        each = total / len(group)
        if abs(each - mean) >= 1:
            verb = "must" if each > mean else "can only"
            counts = f"hold {total} of {sum(totals)} replicas: {each:.0f} each, the mean is {mean:.0f}"
            texts.append(f"{_describe_group(model, group)} {verb} {counts}")
    return tuple(texts)


def _describe_group(model: ClusterModel, brokers: Ints) -> str:
    racks = np.unique(model.rack[brokers])
    if model.rack_names and all(rack < len(model.rack_names) for rack in racks) and len(racks) <= 4:
        names = ", ".join(model.rack_names[rack] for rack in racks)
        return f"{'rack' if len(racks) == 1 else 'racks'} {names} ({len(brokers)} of {model.brokers} brokers)"
    return describe_brokers(model, brokers)
