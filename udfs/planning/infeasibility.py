"""Why no plan keeps to the rules of a goal, in words."""

from __future__ import annotations

import numpy as np

from udfs.planning.cluster_model import FREE, FROZEN_WORDS, ClusterModel
from udfs.planning.constraints import Rules
from udfs.planning.plan_text import brokers_text, listed, some
from udfs.planning.replicas.count_capacity import shares_of


def reasons_against(model: ClusterModel, rules: Rules) -> tuple[str, ...]:
    """Why no plan keeps to the rules, in words, fewest first; empty = nothing stands against one."""
    out = _stuck_on_leaving(model, rules) + _racks_lost(model, rules)
    if out or rules.fixed.all():
        return tuple(out)
    out = _too_few_places(model, rules)
    return tuple(out or _too_full(model, rules))


def _stuck_on_leaving(model: ClusterModel, rules: Rules) -> list[str]:
    if rules.goal == "repair":
        return []  # what cannot be copied any more is no rule's fault; the certificate names it
    row = model.row
    bad = rules.must_leave[model.replicas] & (model.frozen != FREE)[row]
    out = []
    for code in np.unique(model.frozen[row[bad]]):
        mine = bad & (model.frozen[row] == code)
        brokers = brokers_text(model, np.unique(model.replicas[mine]))
        rows = np.unique(row[mine])
        out.append(f"{brokers} cannot be emptied: {some(model, rows)} must stay, as {FROZEN_WORDS[code]}")
    return out


def _racks_lost(model: ClusterModel, rules: Rules) -> list[str]:
    if rules.allow_fewer_racks or rules.goal == "repair" or not model.rack_names:
        return []
    live = model.live
    left = np.unique(model.rack[live & ~rules.must_leave])
    row = model.row
    out = []
    for rack in np.setdiff1d(model.rack[live & rules.must_leave], left):
        rows = np.unique(row[model.rack[model.replicas] == rack])
        if not len(rows):
            continue
        wide = rows[model.factor[rows] > len(left)]
        words = f"rack {model.rack_names[rack]} would have no broker left, so "
        if len(wide):
            factor = int(model.factor[wide].max())
            widest = wide[model.factor[wide] == factor]
            words += f"partitions of {factor} replicas ({some(model, widest)}) cannot keep one replica a rack"
        else:
            words += f"{some(model, rows)} would have to do with {len(left)} racks, unless fewer racks are allowed"
        out.append(words)
    return out


def _too_few_places(model: ClusterModel, rules: Rules) -> list[str]:
    """Partitions that more replicas are wanted of than there are brokers, or places in racks."""
    keeps = ~rules.must_leave & ~rules.receives
    row = model.row
    racks = int(model.rack.max(initial=0)) + 1
    in_rack = np.bincount(model.rack[rules.receives], minlength=racks)
    kept = keeps[model.replicas]
    places = np.tile(in_rack, (model.partitions, 1))
    np.add.at(places, (row[kept], model.rack[model.replicas[kept]]), 1)
    active = ~rules.fixed
    brokers = places.sum(axis=1)
    spread = np.minimum(places, rules.cap[:, None]).sum(axis=1)
    out = []
    for factor in np.unique(rules.factor[active & (spread < rules.factor)])[::-1]:
        mine = active & (rules.factor == factor)
        few = np.flatnonzero(mine & (brokers < factor))
        if len(few):
            most = int(brokers[few].max())
            out.append(f"{factor} replicas of {some(model, few)} need {factor} brokers, but only {most} may hold one")
            continue
        tight = np.flatnonzero(mine & (spread < factor))
        first = tight[0]
        short = np.flatnonzero((places[first] < rules.cap[first]) & (in_rack + places[first] > 0))
        most, cap = int(spread[tight].max()), int(rules.cap[first])
        names = (*model.rack_names, "of brokers without one")
        full = listed(f"{names[rack]} has {places[first][rack]}" for rack in short)
        out.append(
            f"{factor} replicas of {some(model, tight)}, at most {cap} in a rack, find only {most} places: rack {full}"
        )
    return out


def _too_full(model: ClusterModel, rules: Rules) -> list[str]:
    """Capacity that cannot hold what must be held."""
    shares = shares_of(model, rules, False)
    limit = np.where(rules.receives, shares.top - shares.base, 0)
    fits, full = shares.most(limit)
    out = []
    if fits < shares.free:
        brokers = np.flatnonzero(full & rules.receives)
        most = int((shares.base + limit)[brokers].sum())
        need = most + shares.free - fits
        out.append(f"{brokers_text(model, brokers)}: capacity for {most} replicas, where {need} must be held")
    if not np.isfinite(rules.max_bytes[rules.receives]).all():
        return out
    size = np.repeat(model.size, model.factor)
    stays = rules.fixed[model.row] | (~rules.must_leave & ~rules.receives)[model.replicas]
    on = np.bincount(model.replicas[stays], size[stays], model.brokers)
    need_bytes = float((model.size * rules.factor)[~rules.fixed].sum())
    elsewhere = float(size[stays & ~rules.fixed[model.row]].sum())
    room = float(np.maximum(rules.max_bytes - on, 0)[rules.receives].sum())
    if need_bytes - elsewhere > room:
        out.append(
            f"{brokers_text(model, np.flatnonzero(rules.receives))}: room for {room:.0f} bytes,"
            f" where {need_bytes - elsewhere:.0f} must be held"
        )
    return out
