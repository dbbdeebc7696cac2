"""Fewer copysets: among equally good plans, copied replicas go where they complete replica sets that exist.

The fewer copysets (distinct sets of brokers that hold a partition), the less likely simultaneous failures hit one. The
balance that the plan reached stays: for each load, a broker may rise to what 19 of 20 brokers have, or stay as it is;
the same for the lowest loads and for the worst survivor of each failure. So neither the fullest nor the emptiest
broker gets worse.
"""

from dataclasses import replace

import numpy as np

from udfs.arrow.ragged import any_true, offsets_of, row_of
from udfs.durability.kernels.loss_probability import compute_loss_probability, find_copysets
from udfs.planning.annealing.balance_certificate import measure_reached
from udfs.planning.annealing.balance_plan import restore_list_order
from udfs.planning.annealing.kernels.search_moves import Schedule, seed_random
from udfs.planning.annealing.kernels.search_state import BrokerLimits, SearchState, create_state
from udfs.planning.annealing.search_task import NO_LIMIT, LoadUnits, build_cluster_arrays, compute_units
from udfs.planning.certificates import BalanceCertificate, Certificate, CopyCertificate, CopysetChange
from udfs.planning.cluster_model import ClusterModel, Flags, Floats, Int32s, ProposedAssignment
from udfs.planning.constraints import Rules
from udfs.planning.plan_metrics import MAX_FAILURES, MetricOptions
from udfs.planning.plan_request import ALL, MIN_BYTES, MIN_MOVES
from udfs.planning.replicas.kernels.copyset_annealing import (
    CopysetSearch,
    LoadFloors,
    anneal_copysets,
    list_copied_slots,
)
from udfs.planning.replicas.kernels.copyset_counts import create_copyset_table

REASON = "to use a replica set that other partitions have"

_BROKERS_PER_EXTREME = 20  # one of these may exceed the limits of the others, if it does already
_PROPOSALS_PER_REPLICA, _MIN_PROPOSALS, _MAX_PROPOSALS = 60, 5_000, 400_000
_WARM, _COLD = 0.3, 0.02  # temperatures; a set of one partition costs 1
_DIGITS = 6


def reduce_copysets(
    model: ClusterModel, rules: Rules, proposal: ProposedAssignment, seed: int = 0
) -> ProposedAssignment:
    """Reduce the copysets of a proposal that complies with the rules; the certificate says what that gains.

    Lists that the goal does not touch stay, and so do those with a down or draining broker, or a replacement. Neither
    more replicas nor more bytes are copied.
    """
    units = compute_units(model, rules)
    cluster = build_cluster_arrays(model, rules, units, proposal.offsets, proposal.replicas)
    # On brokers that count alone, so that the means of survivors stay.
    free = ~any_true(~units.counted[proposal.replicas], proposal.offsets) & (np.diff(proposal.offsets) > 1)
    cluster = cluster._replace(can_change=cluster.can_change & free & (rules.replacement < 0).all())
    most, none = np.full(model.brokers, NO_LIMIT), np.zeros(model.brokers)
    no_limits = BrokerLimits(none, none, none, most, most, most, most, none, none, np.inf, np.inf)
    state = create_state(cluster, no_limits, proposal.replicas)
    copies, copied = int(state.copied_count[0]), float(state.copied_disk[0]) * (1 - 1e-12)
    limits, floors = _reached_limits(rules, units, state)
    limits = limits._replace(copied_disk=copied, copied_replicas=float(copies))
    random = seed_random(seed)
    state = create_state(cluster, limits, proposal.replicas)
    table = create_copyset_table(cluster, state.slots, model.live, random)
    distinct = int(table.distinct[0])
    slots = cluster.can_change[cluster.row[state.copied_slots[:copies]]].nonzero()[0]
    proposals = min(max(_PROPOSALS_PER_REPLICA * len(slots), _MIN_PROPOSALS), _MAX_PROPOSALS) if len(slots) else 0
    targets = np.flatnonzero(rules.receives).astype(np.int32)
    search = CopysetSearch(cluster, limits, floors, state, table, list_copied_slots(state), targets, random)
    anneal_copysets(search, Schedule(proposals, _WARM, _COLD))
    reduced = _propose(model, proposal, state.slots) if int(table.distinct[0]) < distinct else proposal
    _, before, before_loss = _measure_copysets(model)
    failures, planned, planned_loss = _measure_copysets(model.with_lists(proposal.offsets, proposal.replicas))
    after, after_loss = planned, planned_loss
    if reduced is not proposal:
        _, after, after_loss = _measure_copysets(model.with_lists(reduced.offsets, reduced.replicas))
    if after_loss is not None and planned_loss is not None and after_loss > planned_loss:
        reduced, after, after_loss = proposal, planned, planned_loss  # fewer sets, but smaller ones
    certificate = proposal.certificate
    if reduced is not proposal:
        reduced_state = create_state(cluster, limits, state.slots)
        certificate = _update_certificate(model, units, certificate, reduced, reduced_state)
    change = CopysetChange(before, planned, after, failures, before_loss, planned_loss, after_loss)
    return replace(reduced, certificate=replace(certificate, copysets=change))


def _reached_limits(rules: Rules, units: LoadUnits, state: SearchState) -> tuple[BrokerLimits, LoadFloors]:
    """Turn what the proposal has reached into limits of every broker."""
    counted = units.counted
    leaders, out = state.leaders.astype(np.float64), state.bytes_out
    replicas = state.replicas.astype(np.float64)
    high = np.minimum(_high(replicas, counted), np.maximum(rules.broker_replicas, replicas))
    disk = np.minimum(_high(state.disk, counted), np.maximum(rules.broker_bytes / units.disk, state.disk))
    counts = (_low(replicas, counted), high, _low(leaders, counted), _high(leaders, counted))
    limits = (*counts, disk, _high(state.bytes_in, counted), _high(out, counted))
    survivor_leaders = _after_failures(leaders, state.takeovers.load.astype(np.float64), counted)
    survivor_out = _after_failures(out, state.takeovers_bytes_out.load, counted)
    floors = LoadFloors(_low(state.disk, counted), _low(state.bytes_in, counted), _low(out, counted))
    return BrokerLimits(*limits, survivor_leaders, survivor_out, np.inf, np.inf), floors


def _high(load: Floats, counted: Flags) -> Floats:
    """Upper limit of each broker, float64 (n): what all but the fullest few have, or its load."""
    ranked = np.sort(load[counted])
    common = ranked[len(ranked) - 1 - len(ranked) // _BROKERS_PER_EXTREME] if len(ranked) else 0.0
    return np.maximum(load, common)


def _low(load: Floats, counted: Flags) -> Floats:
    return -_high(-load, counted)


def _after_failures(load: Floats, used: Floats, counted: Flags) -> Floats:
    """Upper limit of each survivor of any failure, float64 (n), from loads of leaders and takeovers (n, n)."""
    n, brokers = len(load), np.flatnonzero(counted)
    limit = np.full(n, NO_LIMIT)
    if len(brokers) < 2:
        return limit
    after = (load[:, None] + used)[np.ix_(brokers, brokers)]
    np.fill_diagonal(after, 0.0)
    mean = after.sum(axis=0) / (len(brokers) - 1)
    ratio = (after / np.where(mean > 0, mean, 1.0)).max(axis=1)
    common = _high(ratio, np.ones(len(brokers), dtype=np.bool_)) * mean.min()
    limit[brokers] = np.maximum(after.max(axis=1), common)
    return limit


def _propose(model: ClusterModel, proposal: ProposedAssignment, slots: Int32s) -> ProposedAssignment:
    """Propose these replicas; lists that change for the sake of copysets alone have a reason of their own."""
    placed = model.with_lists(proposal.offsets, proposal.replicas)
    other = placed.find_changed(placed.with_lists(proposal.offsets, slots))
    restored = restore_list_order(model, proposal.offsets, slots)
    replicas = np.where(other[row_of(proposal.offsets)], restored, slots)
    differs = model.find_changed(model.with_lists(proposal.offsets, replicas))
    own = len(proposal.reasons)
    reason = np.where(differs, np.where(proposal.reason >= 0, proposal.reason, own), -1).astype(np.int16)
    reasons = (*proposal.reasons, *((REASON,) if (reason == own).any() else ()))
    return replace(proposal, replicas=replicas, reason=reason, reasons=reasons)


def _measure_copysets(model: ClusterModel) -> tuple[int, int, float | None]:
    """Measure (failed brokers, copysets, probability that the failures hit one; None with too few brokers)."""
    holds = np.bincount(model.replicas, minlength=model.brokers) > 0
    brokers = np.flatnonzero(model.live & (holds | ~model.draining))
    index = np.full(model.brokers, -1, dtype=np.int32)
    index[brokers] = np.arange(len(brokers))
    broker = index[model.replicas]
    width = np.bincount(model.row[broker >= 0], minlength=model.partitions)
    offsets, members = find_copysets(offsets_of(width), broker[broker >= 0], len(brokers))
    failures = min(int(model.factor.max(initial=1)), MAX_FAILURES)
    if failures > len(brokers):
        return failures, len(offsets) - 1, None
    loss = compute_loss_probability(offsets, members, len(brokers), failures, MetricOptions().effort)
    return failures, len(offsets) - 1, round(float(loss.probability), _DIGITS)


def _update_certificate(
    model: ClusterModel, units: LoadUnits, certificate: Certificate, reduced: ProposedAssignment, state: SearchState
) -> Certificate:
    """Update what the certificate says of moves and loads."""
    if not isinstance(certificate, CopyCertificate):
        return certificate
    new = model.find_copied(reduced)
    copied, moves = float(model.size[row_of(reduced.offsets)[new]].sum()), int(new.sum())
    size = copied if isinstance(certificate.bytes, float) else round(copied)
    if certificate.objective in (ALL, MIN_BYTES, MIN_MOVES):
        value = moves if certificate.objective == MIN_MOVES else size
        certificate = replace(certificate, value=value, gap=max(value - certificate.lower_bound, 0))
    if isinstance(certificate, BalanceCertificate):
        certificate = replace(certificate, reached=measure_reached(model, units, state))
    return replace(certificate, moves=moves, bytes=size)
