"""Racks within zones, as rack r7 of zone east in `east/r7`: plans spread replicas over zones, and then over racks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from udfs.arrow.ragged import row_of
from udfs.planning.annealing import search_task
from udfs.planning.annealing.balance_plan import restore_list_order
from udfs.planning.annealing.kernels.search_moves import Schedule, seed_random
from udfs.planning.annealing.kernels.search_state import (
    BrokerLimits,
    ClusterArrays,
    CostWeights,
    SearchState,
    create_search,
    create_state,
)
from udfs.planning.certificates import RackLevelChange
from udfs.planning.cluster_model import ClusterModel, Flags, Int32s, Ints, ProposedAssignment
from udfs.planning.constraints import COPYING_GOALS, InfeasibleRequest, build_rules
from udfs.planning.plan_request import PlanRequest
from udfs.planning.zones.kernels.zone_annealing import ZoneTraffic, anneal_zones, sum_sharing
from udfs.planning.zones.zone_plan import relax_limits


class ReplicaArrays(NamedTuple):
    """Replica lists, as in ClusterModel."""

    offsets: Ints
    replicas: Int32s


Plan = Callable[[ClusterModel, PlanRequest], ProposedAssignment]
_REASON = "to share no rack within a zone"
_SHARING = 1.0  # cost of two replicas in one rack: the unit of all others
_COPY, _CHANGE = 1e-3, 1e-6
# Of a replica, a leader, or their bytes beyond a limit: hard racks come before even loads, soft ones after them.
_HARD_EXCESS, _SOFT_EXCESS = 0.2, 1e6
_PROPOSALS, _LEAST, _MOST = 200, 20_000, 10_000_000  # per partition, and in all


def plan_in_levels(model: ClusterModel, request: PlanRequest, plan: Plan) -> ProposedAssignment:
    """Plan with zones in place of racks, and then spread replicas over the racks within each zone.

    Where racks are hard, replicas are copied for it, and InfeasibleRequest is raised if partitions that the plan may
    change still share a rack although their zones have others; where they are soft, only what the plan copies anyway
    goes elsewhere.
    """
    separator = request.rack_separator
    zone_names = tuple(sorted({name.partition(separator)[0] for name in model.rack_names}))
    zone_of_rack = [zone_names.index(name.partition(separator)[0]) for name in model.rack_names]
    number = np.array([*zone_of_rack, len(zone_names)], dtype=np.int32)  # down brokers may be in no known rack
    own = replace(request, rack_separator="")
    if len(zone_names) in (0, len(model.rack_names)):  # no rack is known, or each is a zone
        return plan(model, own)
    zones = replace(model, rack=number[model.rack], rack_names=zone_names)
    proposal = plan(zones, own)
    return _spread(zones, model.rack, own, proposal) if request.goal in COPYING_GOALS else proposal


def _spread(
    zones: ClusterModel, rack: Int32s, request: PlanRequest, proposal: ProposedAssignment
) -> ProposedAssignment:
    """Spread the replicas of a proposal over the racks (int32, n) within its zones."""
    rules = build_rules(zones, request)
    units = search_task.compute_units(zones, rules)
    cluster = search_task.build_cluster_arrays(zones, rules, units, proposal.offsets, proposal.replicas)
    limits = search_task.compute_limits(zones, rules, units, request, cluster)
    state = create_state(cluster, limits, proposal.replicas)
    usable = zones.live & ~rules.must_leave
    limits = relax_limits(limits, state, usable)
    if request.soft_racks:  # no more copies than there are
        copies = min(limits.copied_replicas, float(state.copied_count[0]))
        limits = limits._replace(copied_replicas=copies, copied_disk=min(limits.copied_disk, state.copied_disk[0]))
    of_plan = _count_sharing(cluster, rack, proposal.replicas)
    if of_plan.any():
        targets = np.flatnonzero(rules.receives).astype(np.int32)
        _anneal(cluster, limits, state, rack, targets, np.flatnonzero(of_plan), request)
    after = _count_sharing(cluster, rack, state.slots)
    least = _bound_sharing(zones, rack, usable, ReplicaArrays(proposal.offsets, state.slots))
    if not request.soft_racks and (above := cluster.can_change & (after > least)).any():
        names = zones.describe_partitions(np.flatnonzero(above))
        raise InfeasibleRequest([f"no plan was found in which {names} share no rack: set plans.rack_rule to soft"])
    lists = restore_list_order(zones, proposal.offsets, state.slots)
    changed = zones.find_changed(ReplicaArrays(proposal.offsets, lists))
    reason = np.where(proposal.reason < 0, len(proposal.reasons), proposal.reason)
    reason[~changed] = -1
    before = _count_sharing(cluster._replace(offsets=zones.offsets), rack, zones.replicas)
    change = RackLevelChange(*(int((one > 0).sum()) for one in (before, of_plan, after, least)))
    return replace(
        proposal,
        replicas=lists,
        reason=reason.astype(np.int16),
        reasons=(*proposal.reasons, _REASON),
        certificate=replace(proposal.certificate, rack_levels=change),
    )


def _anneal(
    cluster: ClusterArrays,
    limits: BrokerLimits,
    state: SearchState,
    rack: Int32s,
    targets: Int32s,
    sharing: Ints,
    request: PlanRequest,
) -> None:
    """Change `state` so that fewer replicas share a rack. sharing: int64, the partitions in which some do."""
    n, p = len(cluster.rack), len(cluster.disk)
    rates, shares = np.zeros(p), np.ones(int(cluster.rack.max(initial=0)) + 1)
    traffic = ZoneTraffic(
        shares, shares, np.zeros(n, dtype=np.bool_), np.ones(n, dtype=np.bool_), rates, rates, rack, _SHARING
    )
    disk, excess = _COPY / max(float(cluster.disk.mean()), 1e-12), _SOFT_EXCESS if request.soft_racks else _HARD_EXCESS
    of_load = excess * len(state.slots) / max(n, 1)  # a load of 1 is that of so many replicas
    loads, counts = np.full(n, of_load), (excess, excess)
    weights = CostWeights(disk, _COPY, _CHANGE, _CHANGE, *counts, loads, loads, of_load, excess, of_load)
    search = create_search(cluster, limits, weights, state, seed_random(request.seed))
    proposals = int(np.clip(_PROPOSALS * p, _LEAST, _MOST))
    anneal_zones(search, traffic, sharing.astype(np.int64), targets, Schedule(proposals, 0.3, 1e-4), True)


def _count_sharing(cluster: ClusterArrays, rack: Int32s, replicas: Int32s) -> Ints:
    """Count the pairs of replicas of each partition that share a rack: int64 (p)."""
    pairs = np.zeros(len(cluster.offsets) - 1, dtype=np.int64)
    sum_sharing(cluster, rack, replicas, pairs)
    return pairs


def _bound_sharing(zones: ClusterModel, rack: Int32s, usable: Flags, lists: ReplicaArrays) -> Ints:
    """Bound the pairs of replicas that share a rack, for so many replicas in each zone, from below: int64 (p)."""
    count = zones.racks
    _, first = np.unique(rack[usable], return_index=True)  # of each rack
    racks = np.bincount(zones.rack[usable][first], minlength=count)
    replicas = np.zeros((zones.partitions, count), dtype=np.int64)
    np.add.at(replicas, (row_of(lists.offsets), zones.rack[lists.replicas]), 1)
    each, more = np.divmod(replicas, np.maximum(racks, 1))
    pairs = more * (each * (each + 1) // 2) + (np.maximum(racks, 1) - more) * (each * (each - 1) // 2)
    return np.asarray(pairs.sum(axis=1), dtype=np.int64)
