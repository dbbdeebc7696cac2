"""How many replicas each broker can and should hold, as evenly as the rules allow, and why no plan complies."""

import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from ortools.graph.python import max_flow

from udfs.planning.cluster_model import FREE, ClusterModel, Flags, FreezeReason, Int32s, Ints
from udfs.planning.constraints import Rules, count_places
from udfs.planning.replicas.kernels.replica_units import PartitionRules, PlacedReplicas, keep_replicas
from udfs.wording import count_of, format_bytes, join_names

_MIN_RELIEF = 0.01  # of the highest target over the mean, by which one more broker must lower it


@dataclass(frozen=True)
class FreeReplicas:
    """The free replicas, by kinds of partitions that place as many and have as many places in each rack."""

    receives: Flags  # bool (n), brokers that may get replicas
    rack: Int32s  # int32 (n)
    base: Ints  # int64 (n), replicas that stay on each broker in any case
    top: Ints  # int64 (n), most replicas that each broker may hold
    count: int  # Free replicas
    members: Ints  # int64 (k), partitions of each kind
    replicas: Ints  # int64 (k), replicas that each partition of a kind places
    places: Ints  # int64 (k, racks), places of each partition of a kind in each rack

    def fit(self, limit: Ints) -> tuple[int, Flags]:
        """Fit free replicas on brokers that take at most `limit` (int64, n): how many fit, full brokers (bool, n)."""
        kinds, racks = self.places.shape
        kind, rack = np.divmod(np.arange(kinds * racks), racks)
        takers = np.flatnonzero(self.receives)
        taker_kind, taker = np.repeat(np.arange(kinds), len(takers)), np.tile(takers, kinds)
        first_cell, first_broker = 1 + kinds, 1 + kinds + kinds * racks
        sink = first_broker + len(self.base)
        arcs = (
            (np.zeros(kinds), 1 + np.arange(kinds), self.members * self.replicas),
            (1 + kind, first_cell + kind * racks + rack, (self.members[:, None] * self.places).ravel()),
            (first_cell + taker_kind * racks + self.rack[taker], first_broker + taker, self.members[taker_kind]),
            (first_broker + takers, np.full(len(takers), sink), limit[takers]),
        )
        flow = max_flow.SimpleMaxFlow()
        flow.add_arcs_with_capacity(*(np.concatenate(part).astype(np.int64) for part in zip(*arcs, strict=True)))
        if flow.num_nodes() <= sink:
            return 0, np.ones(len(self.base), dtype=np.bool_)
        flow.solve(0, sink)
        reached = np.zeros(sink + 1, dtype=np.bool_)
        reached[flow.get_source_side_min_cut()] = True
        return flow.optimal_flow(), reached[first_broker:sink]


def find_free_replicas(model: ClusterModel, rules: Rules, settled: bool) -> FreeReplicas:
    """Find the replicas that may move. settled: whether only those that must move are free, if moves come first."""
    stays = ~rules.must_leave & (~rules.receives if rules.even or not settled else np.True_)
    racks = int(model.rack.max(initial=0)) + 1
    left = np.zeros(model.partitions, dtype=np.int64)
    room = np.zeros((model.partitions, racks), dtype=np.int32)
    remaining = np.repeat(rules.fixed, model.factor)
    placed = PlacedReplicas(model.offsets, model.replicas, remaining, model.rack, model.barred_brokers)
    keep_replicas(PartitionRules(rules.fixed, rules.factor, rules.rack_cap), placed, stays, settled, left, room)
    base = np.bincount(model.replicas[remaining], minlength=model.brokers).astype(np.int64)
    rows = np.flatnonzero(left > 0)
    # The distinct rows of a table of small numbers, and how often each occurs.
    table = np.column_stack([left[rows], room[rows].astype(np.int64)])
    widths = [int(width) + 1 for width in table.max(axis=0, initial=0)]
    if math.prod(widths) >= 1 << 62:
        kinds, members = np.unique(table, axis=0, return_counts=True)
    else:
        cells = np.ravel_multi_index(tuple(table.T), widths)
        _, first, members = np.unique(cells, return_index=True, return_counts=True)
        kinds = table[first]
    current = base if rules.even else np.bincount(model.replicas, minlength=model.brokers)
    top = np.where(rules.receives, np.maximum(rules.broker_replicas, current), base)
    count, members = int(left.sum()), members.astype(np.int64)
    return FreeReplicas(rules.receives, model.rack, base, top, count, members, kinds[:, 0], kinds[:, 1:])


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
    levels = range(1, int(top.max(initial=0)) + 1)
    low = bisect_right(levels, total, key=lambda level: int(np.clip(level, base, top).sum()))
    floor: Ints = np.clip(low, base, top).astype(np.int64)
    if int(floor.sum()) == total:
        return floor, floor, low
    return floor, np.clip(low + 1, base, top).astype(np.int64), low


def _explain_parts(model: ClusterModel, chain: list[Ints], totals: list[int]) -> tuple[str, ...]:
    if len(chain) < 2:
        return ()
    brokers = sum(len(group) for group in chain)
    mean = sum(totals) / max(brokers, 1)
    texts = []
    for group, total in zip(chain, totals, strict=True):
        each, racks, who = total / len(group), np.unique(model.rack[group]), model.describe_brokers(group)
        if len(racks) <= 4 and racks[-1] < len(model.rack_names):
            names = ", ".join(model.rack_names[rack] for rack in racks)
            who = f"{'rack' if len(racks) == 1 else 'racks'} {names} ({len(group)} of {brokers} brokers)"
        if abs(each - mean) >= 1:
            verb = "must" if each > mean else "can only"
            counts = f"hold {total} of {sum(totals)} replicas: {each:.0f} each (mean: {mean:.0f})"
            texts.append(f"{who} {verb} {counts}")
    return tuple(texts)


def explain_count_targets(model: ClusterModel, rules: Rules, targets: CountTargets) -> Iterator[str]:
    """Explain what forces the targets of brokers apart, and whether one more broker in the fullest rack helps."""
    yield from targets.forced
    if not targets.forced or not model.rack_names:
        return
    fullest = int(np.argmax(np.where(rules.receives, targets.high, -1)))
    rack = int(model.rack[fullest])
    larger = model.with_broker(int(model.broker_ids[-1]) + 1, rack)
    larger_rules = replace(
        rules,
        receives=np.append(rules.receives, True),
        must_leave=np.append(rules.must_leave, False),
        replacement=np.append(rules.replacement, np.int32(-1)),
        broker_replicas=np.append(rules.broker_replicas, rules.broker_replicas[fullest]),
        broker_bytes=np.append(rules.broker_bytes, rules.broker_bytes[fullest]),
    )
    now, then = (
        _measure_ratio(rules, targets),
        _measure_ratio(larger_rules, compute_count_targets(larger, larger_rules)),
    )
    if then < now - _MIN_RELIEF:
        more = f"with one more broker in rack {model.rack_names[rack]}"
        yield f"{more}, no broker must hold more than {then:.3f} times the mean of replicas, instead of {now:.3f}"


def _measure_ratio(rules: Rules, targets: CountTargets) -> float:
    """Measure the highest target over the mean, both of the brokers that receive replicas."""
    high = targets.high[rules.receives]
    return float(high.max() * len(high) / max(sum(targets.totals), 1))


def explain_infeasibility(model: ClusterModel, rules: Rules) -> tuple[str, ...]:
    """Explain why no plan complies with the rules; empty if none of the checks excludes a plan."""
    reasons = (*_explain_frozen_replicas(model, rules), *_explain_lost_racks(model, rules))
    if reasons or rules.fixed.all():
        return reasons
    return tuple(_explain_few_places(model, rules)) or tuple(_explain_full_brokers(model, rules))


def _explain_frozen_replicas(model: ClusterModel, rules: Rules) -> Iterator[str]:
    if rules.goal in ("repair", "rf"):
        return  # the certificate lists what cannot be copied any more, and what cannot be changed
    row = model.row
    # Offline partitions stay on failed brokers, as no replica is left to copy: the others need not wait for them.
    may_stay = (FREE, FreezeReason.OFFLINE, FreezeReason.OTHER_TOPIC)
    stuck = rules.must_leave[model.replicas] & ~np.isin(model.frozen, may_stay)[row]
    for code in np.unique(model.frozen[row[stuck]]).tolist():
        frozen = stuck & (model.frozen[row] == code)
        brokers = model.describe_brokers(np.unique(model.replicas[frozen]))
        rows = np.unique(row[frozen])
        stay = f"{model.describe_partitions(rows)} must stay, because of {FreezeReason(code).explanation}"
        yield f"{brokers} cannot be emptied: {stay}"


def find_lost_racks(model: ClusterModel, rules: Rules) -> list[int]:
    """Find the racks with replicas that would have no broker left, and must not; by index."""
    if rules.allow_empty_racks or rules.goal == "repair" or not model.rack_names:
        return []
    left = model.rack[model.live & ~rules.must_leave]
    lost = np.setdiff1d(model.rack[model.live & rules.must_leave], left)
    racks: list[int] = np.intersect1d(lost, model.rack[model.replicas]).tolist()
    return racks


def _explain_lost_racks(model: ClusterModel, rules: Rules) -> Iterator[str]:
    left = np.unique(model.rack[model.live & ~rules.must_leave])
    for rack in find_lost_racks(model, rules):
        rows = np.unique(model.row[model.rack[model.replicas] == rack])
        racks = count_of(len(left), "rack")
        effect = f"{model.describe_partitions(rows)} would be left with {racks}, unless fewer racks are allowed"
        yield f"rack {model.rack_names[rack]} would have no broker left, so {effect}"


def _explain_few_places(model: ClusterModel, rules: Rules) -> Iterator[str]:
    """Find partitions that should have more replicas than there are brokers, or places in racks."""
    in_rack = np.bincount(model.rack[rules.receives], minlength=int(model.rack.max(initial=0)) + 1)
    active, places = ~rules.fixed, count_places(model, rules.receives, rules.must_leave)
    brokers = places.sum(axis=1)
    usable = np.minimum(places, rules.rack_cap[:, None]).sum(axis=1)
    for factor in np.unique(rules.factor[active & (usable < rules.factor)])[::-1]:
        concerned = active & (rules.factor == factor)
        few = np.flatnonzero(concerned & (brokers < factor))
        if len(few):
            verb = "needs" if factor == 1 else "need"
            need = f"{verb} {count_of(int(factor), 'broker')}, but only {int(brokers[few].max())} can hold one"
            yield f"{count_of(int(factor), 'replica')} of {model.describe_partitions(few)} {need}"
            continue
        tight = np.flatnonzero(concerned & (usable < factor))
        first = tight[0]
        cap, most = int(rules.rack_cap[first]), int(usable[tight].max())
        names = (*model.rack_names, "of brokers without one")
        short = np.flatnonzero((places[first] < cap) & (in_rack + places[first] > 0))
        full = join_names(f"{names[rack]} has {places[first][rack]}" for rack in short)
        partitions = model.describe_partitions(tight)
        shortage = f"have only {count_of(most, 'place')}: rack {full}"
        yield f"{count_of(factor, 'replica')} of {partitions}, at most {cap} per rack, {shortage}"


def _explain_full_brokers(model: ClusterModel, rules: Rules) -> Iterator[str]:
    """Find brokers without the capacity for what they must hold."""
    free = find_free_replicas(model, rules, False)
    limit = np.where(rules.receives, free.top - free.base, 0)
    fits, full = free.fit(limit)
    if fits < free.count:
        brokers = np.flatnonzero(full & rules.receives)
        capacity = int((free.base + limit)[brokers].sum())
        need = f"capacity for {count_of(capacity, 'replica')}, but must hold {capacity + free.count - fits}"
        yield f"{model.describe_brokers(brokers)}: {need}"
    if not np.isfinite(rules.broker_bytes[rules.receives]).all():
        return
    size = np.repeat(model.size, model.factor)
    stays = rules.fixed[model.row] | (~rules.must_leave & ~rules.receives)[model.replicas]
    load = np.bincount(model.replicas[stays], size[stays], model.brokers)
    spare = float(np.maximum(rules.broker_bytes - load, 0)[rules.receives].sum())
    elsewhere = float(size[stays & ~rules.fixed[model.row]].sum())
    need_bytes = float((model.size * rules.factor)[~rules.fixed].sum()) - elsewhere
    if need_bytes > spare:
        brokers = np.flatnonzero(rules.receives)
        need = f"spare capacity for {format_bytes(spare)}, but must hold {format_bytes(need_bytes)}"
        yield f"{model.describe_brokers(brokers)}: {need}"
