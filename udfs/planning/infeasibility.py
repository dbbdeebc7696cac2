"""Explanations why no plan complies with the rules of a goal."""

import numpy as np

from udfs.planning.cluster_model import FREE, ClusterModel, FreezeReason
from udfs.planning.constraints import Rules
from udfs.planning.plan_text import count_of, describe_brokers, describe_partitions, join_names
from udfs.planning.replicas.count_capacity import find_free_replicas


def explain_infeasibility(model: ClusterModel, rules: Rules) -> tuple[str, ...]:
    """Explain why no plan complies with the rules; empty if none of the checks excludes a plan."""
    reasons = _explain_frozen_replicas(model, rules) + _explain_lost_racks(model, rules)
    if reasons or rules.fixed.all():
        return tuple(reasons)
    return tuple(_explain_few_places(model, rules) or _explain_full_brokers(model, rules))


def _explain_frozen_replicas(model: ClusterModel, rules: Rules) -> list[str]:
    if rules.goal == "repair":
        return []  # the certificate lists what cannot be copied any more
    row = model.row
    stuck = rules.must_leave[model.replicas] & (model.frozen != FREE)[row]
    reasons = []
    for code in np.unique(model.frozen[row[stuck]]).tolist():
        frozen = stuck & (model.frozen[row] == code)
        brokers = describe_brokers(model, np.unique(model.replicas[frozen]))
        partitions = describe_partitions(model, np.unique(row[frozen]))
        reasons.append(f"{brokers} cannot be emptied: {partitions} must stay, as {FreezeReason(code).explanation}")
    return reasons


def _explain_lost_racks(model: ClusterModel, rules: Rules) -> list[str]:
    if rules.allow_fewer_racks or rules.goal == "repair" or not model.rack_names:
        return []
    left = np.unique(model.rack[model.live & ~rules.must_leave])
    row = model.row
    reasons = []
    for rack in np.setdiff1d(model.rack[model.live & rules.must_leave], left):
        rows = np.unique(row[model.rack[model.replicas] == rack])
        if not len(rows):
            continue
        wide = rows[model.factor[rows] > len(left)]
        if len(wide):
            factor = int(model.factor[wide].max())
            partitions = describe_partitions(model, wide[model.factor[wide] == factor])
            effect = f"partitions of {factor} replicas ({partitions}) cannot keep one replica per rack"
        else:
            racks = count_of(len(left), "rack")
            effect = f"{describe_partitions(model, rows)} would be left with {racks}, unless fewer racks are allowed"
        reasons.append(f"rack {model.rack_names[rack]} would have no broker left, so {effect}")
    return reasons


def _explain_few_places(model: ClusterModel, rules: Rules) -> list[str]:
    """Find partitions that should have more replicas than there are brokers, or places in racks."""
    keeps = ~rules.must_leave & ~rules.receives
    row = model.row
    racks = int(model.rack.max(initial=0)) + 1
    in_rack = np.bincount(model.rack[rules.receives], minlength=racks)
    remaining = keeps[model.replicas]
    places = np.tile(in_rack, (model.partitions, 1))
    np.add.at(places, (row[remaining], model.rack[model.replicas[remaining]]), 1)
    active = ~rules.fixed
    brokers = places.sum(axis=1)
    usable = np.minimum(places, rules.rack_cap[:, None]).sum(axis=1)
    reasons = []
    for factor in np.unique(rules.factor[active & (usable < rules.factor)])[::-1]:
        concerned = active & (rules.factor == factor)
        few = np.flatnonzero(concerned & (brokers < factor))
        if len(few):
            need = f"need {factor} brokers, but only {int(brokers[few].max())} can hold one"
            reasons.append(f"{factor} replicas of {describe_partitions(model, few)} {need}")
            continue
        tight = np.flatnonzero(concerned & (usable < factor))
        first = tight[0]
        cap, most = int(rules.rack_cap[first]), int(usable[tight].max())
        names = (*model.rack_names, "of brokers without one")
        short = np.flatnonzero((places[first] < cap) & (in_rack + places[first] > 0))
        full = join_names(f"{names[rack]} has {places[first][rack]}" for rack in short)
        partitions = describe_partitions(model, tight)
        reasons.append(
            f"{factor} replicas of {partitions}, at most {cap} per rack, find only {most} places: rack {full}"
        )
    return reasons


def _explain_full_brokers(model: ClusterModel, rules: Rules) -> list[str]:
    """Find brokers without the capacity for what they must hold."""
    free = find_free_replicas(model, rules, False)
    limit = np.where(rules.receives, free.top - free.base, 0)
    fits, full = free.fit(limit)
    reasons = []
    if fits < free.count:
        brokers = np.flatnonzero(full & rules.receives)
        capacity = int((free.base + limit)[brokers].sum())
        need = f"capacity for {capacity} replicas, but they must hold {capacity + free.count - fits}"
        reasons.append(f"{describe_brokers(model, brokers)}: {need}")
    if not np.isfinite(rules.broker_bytes[rules.receives]).all():
        return reasons
    size = np.repeat(model.size, model.factor)
    stays = rules.fixed[model.row] | (~rules.must_leave & ~rules.receives)[model.replicas]
    load = np.bincount(model.replicas[stays], size[stays], model.brokers)
    spare = float(np.maximum(rules.broker_bytes - load, 0)[rules.receives].sum())
    elsewhere = float(size[stays & ~rules.fixed[model.row]].sum())
    need_bytes = float((model.size * rules.factor)[~rules.fixed].sum()) - elsewhere
    if need_bytes > spare:
        brokers = np.flatnonzero(rules.receives)
        need = f"spare capacity for {spare:.0f} bytes, but they must hold {need_bytes:.0f}"
        reasons.append(f"{describe_brokers(model, brokers)}: {need}")
    return reasons
