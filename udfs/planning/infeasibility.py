"""Why no plan keeps to the rules of a goal, in words."""

from __future__ import annotations

import numpy as np

from udfs.planning.cluster_model import FREE, FROZEN_WORDS, Problem
from udfs.planning.constraints import Rules
from udfs.planning.plan_text import brokers_text, listed, some
from udfs.planning.replicas.count_capacity import shares_of


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
        brokers = brokers_text(problem, np.unique(problem.replicas[mine]))
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
        full = listed(f"{names[rack]} has {places[first][rack]}" for rack in short)
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
        out.append(f"{brokers_text(problem, brokers)}: capacity for {most} replicas, where {need} must be held")
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
            f"{brokers_text(problem, np.flatnonzero(rules.receives))}: room for {room:.0f} bytes,"
            f" where {need_bytes - elsewhere:.0f} must be held"
        )
    return out
